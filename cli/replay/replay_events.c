/* SPDX-License-Identifier: Apache-2.0
 * `sysom replay events`: trace files, one per rank, through the live analysis.
 *
 * For each rank: load, find steps, judge them by the roofline, print. Collectives and clocks need all
 * ranks, so each rank's device records are kept (replay_ranks.c). */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/limits.h"
#include "base/room.h"
#include "cli/replay/replay.h"
#include "cli/replay/replay_find.h"
#include "cli/replay/replay_line.h"
#include "cli/replay/replay_live.h"
#include "cli/replay/replay_load.h"
#include "cli/replay/replay_ranks.h"

/* The most files of an earlier run. */
#define BEFORE_MAX     4096
#define LINE_BYTES_MAX 65536u

struct replay_events {
	bool json, headed;
	int marks; /* 1: read them */
	int mode;  /* of MODES */
	struct replay_ranks *ranks, *before;
	uint32_t ranks_per_node;  /* 0: not live */
	struct replay_live *live; /* NULL: not --live */
	bool in_before;		  /* reading the earlier run, which this one is compared with */
	uint64_t
	    base_ns[2]; /* base of the times: of this run's first file, and of the earlier run's */
	const char *before_path[BEFORE_MAX];
	int before_count;
	struct replay_steps found; /* of the current rank */
	int rank;		   /* whose they are */
	struct buf line;
	uint64_t rows, kept, api_other, unknown_kind, duplicate_marks, proxies, unmatched;
	uint64_t steps, flagged, incomplete, files, findings, holes;
	uint64_t few; /* files with fewer than three steps */
};

/* sysom: ranks by the paper's mean + 2 sigma, for comparison */
#define MODES "robust|p99|sysom"
enum { MODE_P99 = 1, MODE_SYSOM = 2 };

static const char *take_before(void *to, const char *text)
{
	struct replay_events *ev = to;

	if (ev->before_count == BEFORE_MAX)
		return "at most 4096 files";
	ev->before_path[ev->before_count++] = text;
	return NULL;
}

#define AT(field) offsetof(struct replay_events, field)

static const struct option_row rows[] = {
    {"json", 'j', NULL, "one JSON object per line", OPTION_SWITCH, .at = AT(json)},
    {"marks", 0, "ignore|use", "read ProfilerStep marks (default ignore)", OPTION_WORD,
     .at = AT(marks)},
    {"live", 0, "[=N]",
     "report findings as they would have come while the job ran, N ranks to a node (8)",
     OPTION_COUNT, .at = AT(ranks_per_node), .least = 1, .most = LIMIT_NODE_PROCESSES, .preset = 8},
    {"before", 0, "FILE", "a rank's trace of an earlier run to compare with; once per rank",
     OPTION_TAKEN, .take = take_before},
    {"mode", 0, MODES, "how steps are judged (default robust); sysom: ranks by mean + 2 sigma",
     OPTION_WORD, .at = AT(mode)},
    {0},
};

static int rank_of(const char *path, int order)
{
	const char *base = strrchr(path, '/'), *p = base ? base + 1 : path;

	for (; (p = strstr(p, "rank")); p += 4)
		if (p[4] >= '0' && p[4] <= '9')
			return atoi(p + 4) & 0xfffff;
	return order;
}

static void print_step(struct replay_events *ev, int rank, const struct step *st,
		       const struct judge_verdict *v)
{
	bool edge = st->flags & STEP_FLAG_EDGE, hole = st->flags & STEP_FLAG_GAP;

	if (!ev->json) {
		if (!ev->headed)
			puts("rank   step   latency ms    self ms compute ms    comm ms exposed ms"
			     "    copy ms    idle ms kernels phase  state");
		ev->headed = true;
		printf("%4d %6" PRIu64
		       " %12.3f %10.3f %10.3f %10.3f %10.3f %10.3f %10.3f %7u %5u  %s%s%s%s\n",
		       rank, st->index, (double)st->latency_ns / 1e6, (double)st->self_ns / 1e6,
		       (double)st->compute_ns / 1e6, (double)st->comm_ns / 1e6,
		       (double)st->exposed_comm_ns / 1e6, (double)st->copy_ns / 1e6,
		       (double)st->idle_ns / 1e6, st->kernels, st->phase,
		       v->flagged ? "SLOW" : roofline_state_name(v->state), edge ? " edge" : "",
		       hole ? " not-recorded" : "",
		       st->flags & STEP_FLAG_CPU_BOUND ? " cpu-bound" : "");
		return;
	}
	buf_clear(&ev->line);
	replay_line_step_json(&ev->line, rank, st, v);
	fwrite(ev->line.data, 1, ev->line.bytes, stdout);
}

static int keep_step(struct replay_steps *s, const struct step *st,
		     const struct step_kernel *kernels, uint32_t count)
{
	if (ROOM_FOR(s->step, s->room, s->count + 1ull) ||
	    ROOM_FOR(s->kernel, s->kernel_room, s->kernel_count + (size_t)count) ||
	    ROOM_FOR(s->kernel_at, s->at_room, s->count + 2ull))
		return -ENOMEM;
	s->kernel_at[0] = 0;
	if (count)
		memcpy(s->kernel + s->kernel_count, kernels, count * sizeof(*kernels));
	s->kernel_count += count;
	s->step[s->count++] = *st;
	s->kernel_at[s->count] = s->kernel_count;
	return 0;
}

static void forget_steps(struct replay_steps *s)
{
	free(s->step);
	free(s->kernel);
	free(s->kernel_at);
	memset(s, 0, sizeof(*s));
}

static int take_step(void *to, const struct step *st, const struct step_kernel *kernels,
		     uint32_t count, const struct judge_verdict *v)
{
	struct replay_events *ev = to;

	if (!ev->in_before) {
		print_step(ev, ev->rank, st, v);
		ev->steps++;
		ev->incomplete += (st->flags & STEP_FLAG_INCOMPLETE) != 0;
		ev->flagged += v->flagged;
	}
	return keep_step(&ev->found, st, kernels, count);
}

static int replay_rank(struct replay_events *ev, const struct replay_trace *t, const char *path)
{
	struct replay_find find = {.marks = ev->marks,
				   .mode = ev->mode == MODE_P99 ? ROOFLINE_P99 : ROOFLINE_ROBUST,
				   .step = take_step,
				   .to = ev};
	int rc;

	ev->rank = t->rank;
	rc = replay_find(&find, t);
	ev->few += find.few;
	if (find.few)
		fprintf(stderr,
			"sysom replay events: %s: too few steps: the trace must have three whole "
			"steps, so that a repeated sequence of launches shows where a step "
			"ends%s\n",
			path,
			t->mark_count ? " (or use the file's ProfilerStep marks: --marks use)"
				      : "");
	if (!rc)
		rc = replay_ranks_add(ev->in_before ? ev->before : ev->ranks, t, &ev->found);
	forget_steps(&ev->found);
	return rc;
}

/* Files may count time from different bases: all use the first file's. */
static int on_one_base(struct replay_events *ev, struct replay_trace *t, const char *path)
{
	uint64_t *base_ns = &ev->base_ns[ev->in_before];

	if (!*base_ns)
		*base_ns = t->base_ns;
	if (!t->base_ns || !replay_load_rebase(t, *base_ns))
		return 0;
	fprintf(stderr,
		"sysom replay events: %s: its times begin before the first file's base "
		"(baseTimeNanoseconds): name this file first\n",
		path);
	return -EBADMSG;
}

/* Warns of files that give poor findings; refuses those that --live can't use. */
static int check_contents(const struct replay_events *ev, const struct replay_trace *t,
			  const char *path)
{
	if (!t->rows)
		fprintf(stderr, "sysom replay events: %s: no rows\n", path);
	else if (!t->device_count)
		fprintf(stderr,
			"sysom replay events: %s: no kernels or copies: its steps have no GPU "
			"time\n",
			path);
	if (!t->holes || !ev->live || ev->in_before)
		return 0;
	fprintf(stderr,
		"sysom replay events: %s: --live needs a trace without holes; this one has %llu "
		"(between the windows of an incident)\n",
		path, (unsigned long long)t->holes);
	return -EBADMSG;
}

static int replay_file(struct replay_events *ev, const char *path, int order)
{
	struct replay_trace t = {.rank = rank_of(path, order)};
	int rc = replay_load(&t, path);

	if (!rc)
		rc = check_contents(ev, &t, path);
	if (!rc)
		rc = on_one_base(ev, &t, path);
	if (!rc) {
		rc = replay_rank(ev, &t, path);
		ev->rows += t.rows;
		ev->kept += t.kept;
		ev->api_other += t.api_other;
		ev->unknown_kind += t.unknown_kind;
		ev->duplicate_marks += t.duplicate_marks;
		ev->proxies += t.proxies;
		ev->unmatched += t.unmatched;
		ev->holes += t.holes;
		ev->files++;
	}
	if (!rc && ev->live && !ev->in_before)
		rc = replay_live_add(ev->live, &t);
	replay_load_free(&t);
	return rc;
}

static void print_summary(const struct replay_events *ev)
{
	uint64_t used = ev->kept - ev->duplicate_marks;

	if (ev->json)
		printf("{\"type\":\"summary\",\"files\":%" PRIu64 ",\"rows\":%" PRIu64
		       ",\"rows_used\":%" PRIu64 ",\"skipped\":{\"api_other\":%" PRIu64
		       ",\"unknown_kind\":%" PRIu64 ",\"duplicate_marks\":%" PRIu64
		       "},\"launch_proxies\":%" PRIu64 ",\"unmatched_device\":%" PRIu64
		       ",\"holes\":%" PRIu64 ",\"steps\":%" PRIu64 ",\"steps_incomplete\":%" PRIu64
		       ",\"too_few_steps\":%" PRIu64 ",\"flagged\":%" PRIu64
		       ",\"findings\":%" PRIu64 "}\n",
		       ev->files, ev->rows, used, ev->api_other, ev->unknown_kind,
		       ev->duplicate_marks, ev->proxies, ev->unmatched, ev->holes, ev->steps,
		       ev->incomplete, ev->few, ev->flagged, ev->findings);
	else
		printf("%s%" PRIu64 " file%s, %" PRIu64 " rows, %" PRIu64 " used; skipped: %" PRIu64
		       " other API or operator calls, %" PRIu64 " of unknown kind, %" PRIu64
		       " repeated marks; %" PRIu64 " launches taken from kernels, %" PRIu64
		       " kernels without a launch; %" PRIu64 " step%s, %" PRIu64
		       " incomplete, %" PRIu64 " slow; %" PRIu64
		       " file%s of too few steps; %" PRIu64 " finding%s\n",
		       ev->headed ? "\n" : "", ev->files, ev->files == 1 ? "" : "s", ev->rows, used,
		       ev->api_other, ev->unknown_kind, ev->duplicate_marks, ev->proxies,
		       ev->unmatched, ev->steps, ev->steps == 1 ? "" : "s", ev->incomplete,
		       ev->flagged, ev->few, ev->few == 1 ? "" : "s", ev->findings,
		       ev->findings == 1 ? "" : "s");
}

/* Prints what a live run would have reported. Lines about all steps were printed before. */
static int run_live(struct replay_events *ev)
{
	struct replay_live_stats s;
	int rc = replay_live_run(ev->live, replay_ranks_align(ev->ranks), &s);

	if (rc)
		return rc;
	ev->findings = s.findings;
	if (ev->json)
		printf("{\"type\":\"live\",\"steps\":%" PRIu64 ",\"flagged\":%" PRIu64
		       ",\"windows\":%" PRIu64 ",\"window_bytes\":%" PRIu64
		       ",\"incidents\":%" PRIu64 "}\n",
		       s.steps, s.flagged, s.windows, s.window_bytes, s.incidents);
	else
		printf("live: %" PRIu64 " steps, %" PRIu64 " slow; %" PRIu64
		       " windows of %.1f KB; %" PRIu64 " incidents\n",
		       s.steps, s.flagged, s.windows,
		       s.windows ? (double)s.window_bytes / 1000 / (double)s.windows : 0,
		       s.incidents);
	return 0;
}

static int replay_events_main(int argc, char **argv)
{
	struct replay_events ev = {0};
	struct replay_live_config lc;
	enum peers_mode peers;
	int rc = options_read(&replay_events, &ev, argc, argv);

	if (rc != OPTIONS_GO_ON)
		return rc;
	if (ev.ranks_per_node && ev.before_count) {
		fprintf(stderr, "sysom replay events: use --live or --before, not both\n");
		return EXIT_USAGE;
	}
	rc = 0;
	buf_init(&ev.line, LINE_BYTES_MAX);
	peers = ev.mode == MODE_SYSOM ? PEERS_SYSOM : PEERS_ROBUST;
	ev.ranks = replay_ranks_new();
	ev.before = replay_ranks_new();
	lc = (struct replay_live_config){ev.json, ev.marks, peers, ev.ranks_per_node};
	if (!ev.ranks || !ev.before || (ev.ranks_per_node && replay_live_open(&ev.live, &lc))) {
		replay_ranks_free(ev.ranks);
		replay_ranks_free(ev.before);
		fprintf(stderr, "sysom replay events: out of memory\n");
		return EXIT_FAILED;
	}
	ev.in_before = true;
	for (int i = 0; i < ev.before_count && !rc; i++)
		rc = replay_file(&ev, ev.before_path[i], i);
	ev.in_before = false;
	for (int i = optind; i < argc && !rc; i++)
		rc = replay_file(&ev, argv[i], i - optind);
	if (!rc)
		rc = replay_ranks_print(ev.ranks, ev.before, peers, ev.json,
					ev.live ? NULL : &ev.findings);
	if (!rc && ev.live)
		rc = run_live(&ev);
	if (!rc)
		print_summary(&ev);
	else if (rc == -ENOMEM)
		fprintf(stderr, "sysom replay events: out of memory\n");
	replay_ranks_free(ev.ranks);
	replay_ranks_free(ev.before);
	replay_live_close(ev.live);
	buf_fini(&ev.line);
	return rc == -ENOMEM ? EXIT_FAILED : rc ? EXIT_USAGE : EXIT_OK;
}

const struct command replay_events = {
    .name = "replay events",
    .raw = replay_events_main,
    .rows = rows,
    .args = "FILE...",
    .args_min = 1,
    .args_max = OPTIONS_ANY,
    .summary = "kernel traces, one file per rank: steps, collectives, clocks, findings",
    .status = REPLAY_STATUS};
