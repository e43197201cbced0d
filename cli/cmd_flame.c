/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/text/json_text.h"
#include "base/text/jsonget.h"
#include "cli/commands.h"
#include "cli/diff/incident_diff.h"
#include "cli/profile/incident_stacks.h"
#include "cli/profile/profile_flame.h"
#include "cli/profile/profile_out.h"
#include "cli/report/incident_load.h"
#include "render/incident_text.h"
#include "render/incident_verdict.h"
#include "cli/text/outfile.h"
#include "render/term.h"

static int write_stacks(const struct options *o, const json_t *in, const struct trace_rank *r,
			const char *path)
{
	struct profile_names *names;
	struct profile_counts n;
	char title[300], note[300];
	struct profile_out out = {.path = path,
				  .title = title,
				  .note = note,
				  .open = incident_verdict_metric(in),
				  .format = profile_out_format(path),
				  .realtime_ns =
				      r->stacks.begin_ns + (uint64_t)r->realtime_offset_ns};
	struct outfile file;
	int err;

	profile_out_count(&r->stacks, &n);
	snprintf(title, sizeof(title), "%s of %s: %s", term_rank(r->who.rank),
		 term_safe(r->who.job, 60), incident_text_title(in));
	snprintf(note, sizeof(note), "Incident %s; %s on the CPU, %s, %s truncated.",
		 term_safe(jsonget_text(in, "id"), 32),
		 term_counted((double)n.on_count, "sample", "samples"),
		 term_counted((double)n.off_count, "blocking event", "blocking events"),
		 term_count((double)n.truncated));
	err = incident_stacks_names(r, &names);
	if (!err)
		err = outfile_open(&file, path);
	if (!err)
		err = outfile_close(&file, profile_out_write(&out, &r->stacks, names, file.f));
	profile_names_close(names);
	if (err) {
		fprintf(stderr, "sysom flame: %s: %s\n", path, strerror(-err));
		return err;
	}
	if (o->json && strcmp(path, "-")) {
		json_t *j = json_pack(
		    "{s:s, s:o, s:s, s:i, s:I, s:I, s:I}", "incident", jsonget_text(in, "id"),
		    "file", json_text(path), "format", profile_out_format_name(out.format), "rank",
		    r->who.rank, "samples", (json_int_t)n.on_count, "blockings",
		    (json_int_t)n.off_count, "truncated", (json_int_t)n.truncated);

		commands_print_new(j);
	} else {
		fprintf(strcmp(path, "-") ? stdout : stderr, "%s: %s, %s on the CPU, %s\n",
			strcmp(path, "-") ? path : "standard output", term_rank(r->who.rank),
			term_counted((double)n.on_count, "sample", "samples"),
			term_counted((double)n.off_count, "blocking event", "blocking events"));
	}
	return 0;
}

static void print_diff_written(const struct options *o, const json_t *in, const char *path,
			       int rank, const char *against, const struct incident_diff *d)
{
	json_t *j;

	if (!strcmp(path, "-"))
		return;
	if (!o->json) {
		printf("%s: %s against %s\n", path, term_rank(rank), term_safe(against, 80));
		return;
	}
	j = json_pack("{s:s, s:o, s:s, s:i, s:o, s:b, s:b}", "incident", jsonget_text(in, "id"),
		      "file", json_text(path), "format", "html", "rank", rank, "base",
		      json_text(against), "cpu", !d || d->has_cpu, "gpu", d && d->has_gpu);
	commands_print_new(j);
}

static int write_diff(const struct options *o, const json_t *in, const struct trace_model *m,
		      const struct trace_rank *culprit, const char *path)
{
	const struct trace_rank *peer = incident_diff_peer(in, m, culprit);
	struct incident_diff d;
	struct outfile out;
	char title[300];
	int err;

	if (!peer) {
		fprintf(stderr,
			"sysom flame: this incident has no window of a healthy peer (try --base "
			"FILE)\n");
		return -ENODATA;
	}
	err = incident_diff_make(&d, m, peer, culprit);
	if (err) {
		fprintf(stderr, "sysom flame: %s\n",
			err == -ENODATA ? "rank and peer have neither stacks nor kernels in common"
					: strerror(-err));
		return err;
	}
	d.open = incident_verdict_metric(in);
	snprintf(title, sizeof(title), "%s compared with %s: %s", term_rank(culprit->who.rank),
		 term_rank(peer->who.rank), incident_text_title(in));
	err = outfile_open(&out, path);
	if (!err)
		err = outfile_close(&out, incident_diff_page(out.f, &d, title, 0));
	if (err)
		fprintf(stderr, "sysom flame: %s: %s\n", path, strerror(-err));
	else
		print_diff_written(o, in, path, culprit->who.rank, incident_diff_name(&d, false),
				   &d);
	incident_diff_free(&d);
	return err;
}

/* Scales both sides to the same observed time. */
static int add_base(struct profile_tree *t, const struct trace_rank *r, struct profile_names *names,
		    const struct folded *f)
{
	struct profile_tree whole;
	double sum = 0;
	int err = profile_tree_init(&whole);

	if (err)
		return err;
	err = profile_tree_add(&whole, &r->stacks, names, PROFILE_BY_THREAD_NAME);
	if (!err)
		err = profile_tree_flatten(t, &whole);
	for (uint32_t i = 0; i < whole.count; i++)
		sum += (double)whole.nodes[i].on_ns;
	profile_tree_fini(&whole);
	t->differs = t->to_base = true;
	t->scale = sum / f->total;
	return err ? err : profile_tree_add_folded(t, f);
}

static int write_base(const struct options *o, const json_t *in, const struct trace_rank *r,
		      const char *path)
{
	struct profile_flame page = {.base = "base",
				     .open = incident_verdict_metric(in),
				     .note = "Both sides are scaled to the same observed time. "
					     "Red: more than the base. Blue, hatched: "
					     "less. Grey: common to both."};
	struct profile_names *names = NULL;
	struct profile_tree t;
	struct outfile out;
	struct folded f;
	char title[300], other[32];
	int err = folded_load(&f, o->base, 0);

	if (err)
		return err;
	snprintf(other, sizeof(other), "%s", term_rank(r->who.rank));
	snprintf(title, sizeof(title), "%s compared with %s: %s", other, term_safe(o->base, 80),
		 incident_text_title(in));
	page.other = other;
	page.title = title;
	err = profile_tree_init(&t);
	if (!err)
		err = incident_stacks_names(r, &names);
	if (!err)
		err = add_base(&t, r, names, &f);
	if (!err)
		err = outfile_open(&out, path);
	if (!err)
		err = outfile_close(&out, profile_flame_page(out.f, &t, &page));
	if (err)
		fprintf(stderr, "sysom flame: %s: %s\n", path, strerror(-err));
	else
		print_diff_written(o, in, path, r->who.rank, o->base, NULL);
	profile_tree_fini(&t);
	profile_names_close(names);
	folded_free(&f);
	return err;
}

static const struct trace_rank *find_rank(const struct options *o, const json_t *in,
					  const struct trace_model *m)
{
	if (!o->diff)
		return incident_stacks_rank(in, m, o->rank);
	return o->rank >= 0 ? trace_model_rank(m, o->rank) : incident_diff_culprit(in, m);
}

int cmd_flame_main(const struct options *o)
{
	const struct trace_rank *rank;
	struct trace_model m;
	struct client c;
	char path[64];
	const char *to = o->out;
	json_t *in;
	int r;

	if (o->diff && o->base) {
		fprintf(stderr, "sysom flame: use --diff or --base, not both\n");
		return EXIT_USAGE;
	}
	if ((o->diff || o->base) && to && profile_out_format(to) != PROFILE_HTML) {
		fprintf(stderr,
			"sysom flame: a differential flame graph is HTML; use -o FILE.html\n");
		return EXIT_USAGE;
	}
	if (to && profile_out_format(to) == PROFILE_HTML && !commands_html_name("flame", to))
		return EXIT_USAGE;
	if (commands_aggregator(o, &c))
		return EXIT_USAGE;
	r = commands_incident(o, &c, o->argv[0], &in);
	if (r)
		return r;
	if (!to) {
		snprintf(path, sizeof(path), "%.8s.%s.html", term_safe(jsonget_text(in, "id"), 32),
			 o->diff || o->base ? "diff" : "flame");
		to = path;
	}
	r = trace_model_init(&m);
	if (!r)
		r = incident_load_windows(&c, in, o->diff ? -1 : o->rank, &m);
	rank = r > 0 ? find_rank(o, in, &m) : NULL;
	if (rank)
		r = o->diff   ? write_diff(o, in, &m, rank, to)
		    : o->base ? write_base(o, in, rank, to)
			      : write_stacks(o, in, rank, to);
	else if (r >= 0 && o->rank >= 0 && !trace_model_rank(&m, o->rank))
		fprintf(stderr, "sysom flame: no data for rank %d; available: %s\n", o->rank,
			commands_window_ranks(in));
	else
		fprintf(stderr, "sysom flame: %s\n",
			r < 0 ? strerror(-r)
			: o->diff
			    ? "this incident has no window of the culprit"
			    : "this incident's windows have no CPU stacks (sysom status shows "
			      "why)");
	json_decref(in);
	trace_model_fini(&m);
	return r == -EBADMSG ? EXIT_USAGE : r < 0 ? EXIT_FAILED : rank ? EXIT_OK : EXIT_NOTHING;
}
