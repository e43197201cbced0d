/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/profile/incident_stacks.h"

#include <errno.h>

#include "analysis/cause/profile.h"
#include "base/text/json_text.h"
#include "base/text/jsonget.h"
#include "base/text/text.h"
#include "cli/profile/profile_out.h"
#include "render/term.h"

/* Less is normal when threads take turns. */
#define GIL_SHARE_MIN 0.03
#define ROWS_SHOWN    5u
#define SHARE_MIN     0.01

/* Whether r's stacks show more than those of b, if any. Samples on the CPU show what a process did;
 * idle threads have blocking events, too. */
static bool shows_more(const struct trace_rank *r, const struct trace_rank *b)
{
	struct profile_counts a, best = {.on_count = 0};

	profile_out_count(&r->stacks, &a);
	if (b)
		profile_out_count(&b->stacks, &best);
	return a.on_count > best.on_count ||
	       (a.on_count == best.on_count && a.off_count > best.off_count);
}

static const struct trace_rank *most(const json_t *ranks, const struct trace_model *m, int rank)
{
	const struct trace_rank *best = NULL;

	for (size_t i = 0; i < m->rank_count; i++) {
		const struct trace_rank *r = &m->ranks[i];

		if ((rank >= 0 && r->who.rank != rank) ||
		    (ranks && !jsonget_has(ranks, r->who.rank)))
			continue;
		if (shows_more(r, best))
			best = r;
	}
	return best;
}

const struct trace_rank *incident_stacks_rank(const json_t *in, const struct trace_model *m,
					      int rank)
{
	const struct trace_rank *r = NULL;

	if (rank < 0)
		r = most(json_object_get(in, "ranks"), m, -1);
	return r ? r : most(NULL, m, rank);
}

/* Asks for names that the local files don't have; on an error the frames stay without a name. */
static int ask_aggregator(const struct trace_rank *r, struct profile_names *names)
{
	struct client_error e;
	int err = profile_names_ask(names, r->aggregator, &e);

	if (err && err != -ENOMEM && err != -ENOENT) /* -ENOENT: an aggregator without symbols */
		fprintf(stderr, "sysom: no names from the aggregator: %s\n", term_safe(e.why, 300));
	return err == -ENOMEM ? err : 0;
}

int incident_stacks_names(const struct trace_rank *r, struct profile_names **names)
{
	struct symbol_resolver_options o = {.links = true};
	struct symbol_resolver *resolver;
	int err;

	if (symbol_resolver_open(&resolver, &o))
		resolver = NULL; /* modules, Python and kernel functions still have names */
	err = profile_names_open(names, &r->stacks, NULL, resolver, NULL);
	return err || !r->aggregator ? err : ask_aggregator(r, *names);
}

static double share(uint64_t part, uint64_t whole)
{
	return whole ? (double)part / (double)whole : 0;
}

/* "spin (train.py:12)", "memcpy libc.so.6" */
static void describe(char *out, size_t bytes, const char *function, const char *file, uint32_t line,
		     const char *module)
{
	if (*file && line)
		snprintf(out, bytes, "%s (%s:%u)", term_safe(function, 60),
			 term_safe(text_base(file), 40), line);
	else if (*file)
		snprintf(out, bytes, "%s (%s)", term_safe(function, 60),
			 term_safe(text_base(file), 40));
	else if (*module && *function != '[')
		snprintf(out, bytes, "%s  %s", term_safe(function, 80), term_safe(module, 40));
	else
		snprintf(out, bytes, "%s", term_safe(function, 80));
}

bool incident_stacks_gil(const struct profile_summary *s, char *out, size_t bytes)
{
	const struct profile_gil *g = &s->gil;
	char holder[200] = "";
	int n;

	if (!g->wait_tid || share(g->wait_ns, g->thread_ns) < GIL_SHARE_MIN)
		return false;
	n = snprintf(out, bytes, "GIL: thread '%s'%s waits for it %s of its time",
		     term_safe(g->wait_comm, 16),
		     g->wait_tid == s->main_pid ? " (the main one)" : "",
		     term_percent(share(g->wait_ns, g->thread_ns)));
	if (!g->hold_tid || n < 0 || (size_t)n >= bytes)
		return true;
	describe(holder, sizeof(holder), g->hold_function, g->hold_file, g->hold_line, "");
	snprintf(out + n, bytes - (size_t)n, ", held by thread '%s' (%u) in %s",
		 term_safe(g->hold_comm, 16), g->hold_tid, holder);
	return true;
}

static void print_rows(FILE *to, const char *title, const struct profile_row *rows, uint32_t count,
		       uint64_t whole)
{
	for (uint32_t i = 0; i < count && i < ROWS_SHOWN; i++) {
		char text[240];

		if (share(rows[i].total_ns, whole) < SHARE_MIN)
			break;
		if (!i)
			fprintf(to, "            %s%7s %8s  %s%s\n", term_style(TERM_DIM), "self",
				"callees", title, term_style(TERM_PLAIN));
		describe(text, sizeof(text), rows[i].name.function, rows[i].name.file,
			 rows[i].name.line, rows[i].name.module);
		fprintf(to, "            %7s %8s  %s\n",
			term_percent(share(rows[i].self_ns, whole)),
			term_percent(share(rows[i].total_ns, whole)), text);
	}
}

static void print_blocks(FILE *to, const struct profile_summary *s)
{
	for (uint32_t i = 0; i < s->block_count && i < ROWS_SHOWN; i++) {
		const struct profile_block *b = &s->blocks[i];
		char text[240];

		if (share(b->ns, s->blocks[0].ns) < SHARE_MIN)
			break;
		if (!i)
			fprintf(to, "            %s%7s %8s  %s%s\n", term_style(TERM_DIM), "time",
				"times", "waits of the main thread, and waits for disks",
				term_style(TERM_PLAIN));
		describe(text, sizeof(text), b->where, b->file, b->line, "");
		fprintf(to, "            %7s %8s  %s%s%s%s", term_span((double)b->ns * 1e-9),
			term_count((double)b->count), text, *b->kernel ? ", kernel " : "",
			term_safe(b->kernel, 40), b->disk ? " (disk)" : "");
		if (b->waker_tid)
			fprintf(to, ", woken by %s (tid %u)", term_safe(b->waker, 16),
				b->waker_tid);
		fputc('\n', to);
	}
}

/* The main thread's time without samples: it waited for a CPU, or slept too briefly to record. */
static uint64_t ready_ns(const struct trace_rank *r, const struct profile_summary *s)
{
	uint64_t seen = s->main_on_ns + s->main_off_ns, all = trace_model_covered_ns(r);

	return all > seen ? all - seen : 0;
}

void incident_stacks_print(FILE *to, const struct trace_rank *r, const struct profile_summary *s)
{
	uint64_t ready = ready_ns(r, s), whole = s->main_on_ns + s->main_off_ns + ready;
	char gil[400];

	fprintf(to, "\n  stacks    %s: %s sample%s on the CPU, ", term_rank(r->who.rank),
		term_count((double)s->on_count), s->on_count == 1 ? "" : "s");
	/* some thread always waits; if none does, blocked time was not sampled (copy mode) */
	if (s->off_count)
		fprintf(to, "%s blocking event%s\n", term_count((double)s->off_count),
			s->off_count == 1 ? "" : "s");
	else
		fputs("no blocked time recorded\n", to);
	if (s->on_count && s->on_count < PROFILE_SAMPLES_MIN)
		fprintf(to,
			"            %stoo few samples to show which functions take the time%s\n",
			term_style(TERM_YELLOW), term_style(TERM_PLAIN));
	if (whole && !s->off_count)
		fprintf(
		    to,
		    "            its main thread: %s on the CPU, %s in a run queue or blocked\n",
		    term_percent(share(s->main_on_ns, whole)), term_percent(share(ready, whole)));
	else if (whole)
		fprintf(to,
			"            its main thread: %s on the CPU, %s blocked,\n"
			"            %s in a run queue or in sleeps too short to record\n",
			term_percent(share(s->main_on_ns, whole)),
			term_percent(share(s->main_off_ns, whole)),
			term_percent(share(ready, whole)));
	if (incident_stacks_gil(s, gil, sizeof(gil))) {
		fputs(term_style(TERM_YELLOW), to);
		term_wrap(to, 12, "", gil, term_is_live() ? term_columns() : 80);
		fputs(term_style(TERM_PLAIN), to);
	}
	if (s->on_count >= PROFILE_SAMPLES_MIN) {
		print_rows(to, "on the CPU, all functions", s->rows, s->row_count, s->on_ns);
		print_rows(to, "on the CPU, Python functions", s->calls, s->call_count, s->on_ns);
	}
	print_blocks(to, s);
}

static json_t *rows_json(const struct profile_row *rows, uint32_t count)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < count; i++) {
		const struct profile_name *n = &rows[i].name;

		json_array_append_new(list, json_pack("{s:o, s:o, s:o, s:i, s:I, s:I}", "function",
						      json_text(n->function), "module",
						      json_text(n->module), "file",
						      json_text(n->file), "line", (int)n->line,
						      "self_ns", (json_int_t)rows[i].self_ns,
						      "total_ns", (json_int_t)rows[i].total_ns));
	}
	return list;
}

json_t *incident_stacks_json(const struct trace_rank *r, const struct profile_summary *s)
{
	json_t *blocks = json_array(), *j;
	char gil[400];

	for (uint32_t i = 0; i < s->block_count; i++) {
		const struct profile_block *b = &s->blocks[i];

		json_array_append_new(
		    blocks, json_pack("{s:o, s:o, s:i, s:o, s:b, s:I, s:I, s:I, s:o}", "function",
				      json_text(b->where), "file", json_text(b->file), "line",
				      (int)b->line, "kernel", json_text(b->kernel), "disk", b->disk,
				      "ns", (json_int_t)b->ns, "count", (json_int_t)b->count,
				      "waker_tid", (json_int_t)b->waker_tid, "waker",
				      json_text(b->waker_tid ? b->waker : "")));
	}
	j = json_pack("{s:i, s:I, s:o, s:I, s:o, s:I, s:I, s:I, s:o, s:o, s:o}", "rank",
		      r->who.rank, "samples", (json_int_t)s->on_count, "on_cpu_ns",
		      json_exact(s->on_ns), "blockings", (json_int_t)s->off_count, "off_cpu_ns",
		      json_exact(s->off_ns), "main_on_cpu_ns", (json_int_t)s->main_on_ns,
		      "main_off_cpu_ns", (json_int_t)s->main_off_ns, "main_ready_ns",
		      (json_int_t)ready_ns(r, s), "functions", rows_json(s->rows, s->row_count),
		      "python", rows_json(s->calls, s->call_count), "blocked", blocks);
	if (incident_stacks_gil(s, gil, sizeof(gil)))
		json_object_set_new(j, "gil",
				    json_pack("{s:s, s:I, s:I, s:I}", "text", gil, "wait_ns",
					      (json_int_t)s->gil.wait_ns, "thread_ns",
					      (json_int_t)s->gil.thread_ns, "held_ns",
					      (json_int_t)s->gil.held_ns));
	return j;
}
