/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/text/json_text.h"
#include "base/text/jsonget.h"
#include "cli/commands.h"
#include "cli/diff/incident_diff.h"
#include "cli/report/incident_load.h"
#include "cli/text/outfile.h"
#include "render/term.h"
#include "cli/trace/export.h"

/* Without --format, the file's name decides. */
static bool is_kineto(const struct options *o)
{
	size_t n = o->out ? strlen(o->out) : 0;

	return o->format ? !strcmp(o->format, "kineto") : n > 5 && !strcmp(o->out + n - 5, ".json");
}

static int write_trace(const struct options *o, struct trace_model *m, const char *path,
		       uint64_t *slices)
{
	bool kineto = is_kineto(o);
	uint64_t left_out = 0;
	struct outfile out;
	int r;

	r = outfile_open(&out, path);
	if (r)
		return r;
	r = kineto ? export_kineto_write(m, out.f, slices)
		   : export_perfetto_write(m, out.f, slices, &left_out);
	if (left_out)
		fprintf(stderr, "sysom trace: %s slices left out: too many overlap\n",
			term_count((double)left_out));
	return outfile_close(&out, r);
}

static json_t *clocks_json(const struct trace_model *m)
{
	json_t *list = json_array();

	for (size_t i = 0; i < m->rank_count; i++)
		if (m->ranks[i].aligned)
			json_array_append_new(
			    list, json_pack("{s:i, s:f, s:f}", "rank", m->ranks[i].who.rank,
					    "offset_ns", m->ranks[i].clock_offset_ns, "error_ns",
					    m->ranks[i].clock_error_ns));
	return list;
}

/* Prints the ranks whose clock was corrected by common collectives. */
static void print_clocks(FILE *to, const struct trace_model *m)
{
	for (size_t i = 0; i < m->rank_count; i++) {
		const struct trace_rank *r = &m->ranks[i];

		if (r->aligned && r->clock_offset_ns != 0)
			fprintf(to,
				"rank %d: its clock was %s %s the others' (within %s); corrected\n",
				r->who.rank, term_ms(fabs(r->clock_offset_ns) / 1e6),
				r->clock_offset_ns > 0 ? "ahead of" : "behind",
				term_ms(r->clock_error_ns / 1e6));
	}
}

static void name_parts(struct trace_model *m, const json_t *in, const struct trace_rank *peer)
{
	for (size_t i = 0; i < m->rank_count; i++) {
		if (jsonget_has(json_object_get(in, "ranks"), m->ranks[i].who.rank))
			m->ranks[i].part = "slow";
		if (&m->ranks[i] == peer)
			m->ranks[i].part = "healthy peer";
	}
}

/* 0, or -ENODATA after a message. */
static int choose_ranks(const struct options *o, struct trace_model *m, const json_t *in)
{
	const struct trace_rank *culprit = incident_diff_culprit(in, m), *peer;

	for (size_t i = 0; o->diff && o->rank >= 0 && i < m->rank_count; i++)
		if (m->ranks[i].who.rank == o->rank)
			culprit = &m->ranks[i];
	peer = incident_diff_peer(in, m, culprit);
	name_parts(m, in, peer);
	if (!o->diff)
		return 0;
	if (!peer) {
		fprintf(stderr, "sysom trace: this incident has no window of a healthy peer\n");
		return -ENODATA;
	}
	trace_model_keep(m, culprit, peer);
	return 0;
}

static void print_written(const struct options *o, const char *id, const char *path,
			  const struct trace_model *m, int windows, uint64_t slices)
{
	bool to_stdout = strcmp(path, "-") == 0;
	size_t others = 0;

	for (size_t i = 0; i < m->rank_count; i++)
		others += m->ranks[i].who.rank < 0;
	if (o->json && !to_stdout) {
		json_t *j = json_pack(
		    "{s:s, s:o, s:s, s:i, s:I, s:I, s:I, s:o}", "incident", id, "file",
		    json_text(path), "format", is_kineto(o) ? "kineto" : "perfetto", "windows",
		    windows, "ranks", (json_int_t)(m->rank_count - others), "other_processes",
		    (json_int_t)others, "slices", (json_int_t)slices, "clocks", clocks_json(m));

		commands_print_new(j);
		return;
	}
	fprintf(to_stdout ? stderr : stdout, "%s: %s slices of %s from %d %s\n",
		to_stdout ? "standard output" : path, term_count((double)slices),
		term_ranks((double)(m->rank_count - others), (double)others), windows,
		windows == 1 ? "window" : "windows");
	print_clocks(to_stdout ? stderr : stdout, m);
}

/* The incident with this id, or one window as if it were an incident (`sysom capture` prints such ids). */
static int find_windows(const struct options *o, const struct client *c, const char *id,
			json_t **out)
{
	if (strlen(id) != 32 || !commands_is_id(id))
		return commands_incident(o, c, id, out);
	*out = json_pack("{s:s, s:[{s:s}]}", "id", id, "windows", "id", id);
	return *out ? EXIT_OK : EXIT_FAILED;
}

int cmd_trace_main(const struct options *o)
{
	struct trace_model m;
	struct client c;
	uint64_t slices = 0;
	char path[64], id[40];
	const char *available;
	const char *to = o->out;
	json_t *in;
	int windows, r;

	if (commands_aggregator(o, &c))
		return EXIT_USAGE;
	r = find_windows(o, &c, o->argv[0], &in);
	if (r)
		return r;
	snprintf(id, sizeof(id), "%s", term_safe(jsonget_text(in, "id"), 32));
	if (!to) {
		snprintf(path, sizeof(path), "%.8s.%s", id, is_kineto(o) ? "json" : "pftrace");
		to = path;
	}
	r = trace_model_init(&m);
	windows = r ? r : incident_load_windows(&c, in, o->diff ? -1 : o->rank, &m);
	r = windows > 0 ? choose_ranks(o, &m, in) : 0;
	available = commands_window_ranks(in);
	json_decref(in);
	if (r) {
		trace_model_fini(&m);
		return EXIT_NOTHING;
	}
	if (windows <= 0) {
		if (windows)
			fprintf(stderr, "sysom trace: %s\n", strerror(-windows));
		else if (o->rank >= 0)
			fprintf(stderr, "sysom trace: no data for rank %d; available: %s\n",
				o->rank, available);
		else
			fprintf(stderr, "sysom trace: incident %s has no windows (any more)\n", id);
		trace_model_fini(&m);
		return windows ? EXIT_FAILED : EXIT_NOTHING;
	}
	r = write_trace(o, &m, to, &slices);
	if (r)
		fprintf(stderr, "sysom trace: %s: %s\n", to, strerror(-r));
	else
		print_written(o, id, to, &m, windows, slices);
	trace_model_fini(&m);
	return r ? EXIT_FAILED : EXIT_OK;
}
