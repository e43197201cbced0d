/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/export_kineto.h"
#include "cli/export_perfetto.h"
#include "cli/incident_load.h"
#include "cli/jsonget.h"
#include "cli/outfile.h"
#include "cli/term.h"

static int write_trace(const struct options *o, struct trace_model *m, const char *path,
		       uint64_t *slices)
{
	bool kineto = o->format && strcmp(o->format, "kineto") == 0;
	uint64_t left_out = 0;
	struct outfile out;
	int r;

	r = outfile_open(&out, path);
	if (r)
		return r;
	r = kineto ? export_kineto_write(m, out.f, slices) :
		     export_perfetto_write(m, out.f, slices, &left_out);
	if (left_out)
		fprintf(stderr, "sysom trace: %s slices found no room beside each other\n",
			term_count((double)left_out));
	return outfile_close(&out, r);
}

static void tell(const struct options *o, const char *id, const char *path,
		 const struct trace_model *m, int windows, uint64_t slices)
{
	bool to_stdout = strcmp(path, "-") == 0;

	if (o->json && !to_stdout) {
		json_t *j = json_pack("{s:s, s:s, s:s, s:i, s:I, s:I}", "incident", id, "file", path,
				      "format", o->format ? o->format : "perfetto", "windows", windows,
				      "ranks", (json_int_t)m->rank_count, "slices", (json_int_t)slices);

		commands_print_json(j);
		json_decref(j);
		return;
	}
	fprintf(to_stdout ? stderr : stdout, "%s: %s slices of %zu %s from %d %s\n",
		to_stdout ? "standard output" : path, term_count((double)slices), m->rank_count,
		m->rank_count == 1 ? "rank" : "ranks", windows, windows == 1 ? "window" : "windows");
}

int cmd_trace_main(const struct options *o)
{
	struct trace_model m;
	struct client c;
	uint64_t slices = 0;
	char path[64], id[40];
	const char *to = o->out;
	json_t *in;
	int windows, r;

	if (commands_aggregator(o, &c))
		return EXIT_USAGE;
	in = commands_incident(o, &c, o->argv[0]);
	if (!in)
		return EXIT_NOTHING;
	snprintf(id, sizeof(id), "%s", term_safe(jsonget_text(in, "id"), 32));
	if (!to) {
		snprintf(path, sizeof(path), "%.8s.%s", id,
			 o->format && !strcmp(o->format, "kineto") ? "json" : "pftrace");
		to = path;
	}
	r = trace_model_init(&m);
	windows = r ? r : incident_load_windows(&c, in, o->have_rank ? o->rank : -1, &m);
	json_decref(in);
	if (windows <= 0) {
		fprintf(stderr, "sysom trace: %s\n", windows ? strerror(-windows) :
			"the incident has no such windows (retention may have taken them)");
		trace_model_fini(&m);
		return EXIT_NOTHING;
	}
	r = write_trace(o, &m, to, &slices);
	if (r)
		fprintf(stderr, "sysom trace: %s: %s\n", to, strerror(-r));
	else
		tell(o, id, to, &m, windows, slices);
	trace_model_fini(&m);
	return r ? EXIT_NOTHING : EXIT_OK;
}
