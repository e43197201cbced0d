/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/text/json_text.h"
#include "base/text/jsonget.h"
#include "cli/commands.h"
#include "cli/report/incident_load.h"
#include "render/incident_text.h"
#include "cli/report/report.h"
#include "cli/text/outfile.h"
#include "render/term.h"

/* windows: how many could be read; the report names the missing ones. */
static void print_written(const struct options *o, const json_t *in, const char *path, int windows,
			  const struct trace_model *m)
{
	size_t all = json_array_size(json_object_get(in, "windows"));
	json_t *j;

	if (!o->json) {
		printf("%s: incident %s (%s), %d of %zu %s\n", path,
		       term_safe(jsonget_text(in, "id"), 32), incident_text_title(in), windows, all,
		       all == 1 ? "window" : "windows");
		return;
	}
	j = json_pack("{s:o, s:s, s:s, s:s, s:O?, s:i, s:I, s:I}", "file", json_text(path),
		      "incident", jsonget_text(in, "id"), "job", jsonget_text(in, "job"), "title",
		      incident_text_title(in), "ranks", json_object_get(in, "ranks"), "windows",
		      windows, "windows_missing", (json_int_t)all - windows, "records",
		      (json_int_t)m->records);
	commands_print_new(j);
}

int cmd_report_main(const struct options *o)
{
	struct trace_model m;
	struct outfile out;
	struct client c;
	char path[64];
	const char *to = o->out;
	json_t *in;
	int r, windows = 0;

	if (!commands_html_name("report", to) || commands_aggregator(o, &c))
		return EXIT_USAGE;
	r = commands_incident(o, &c, o->argv[0], &in);
	if (r)
		return r;
	if (!to) {
		snprintf(path, sizeof(path), "%.8s.html", term_safe(jsonget_text(in, "id"), 32));
		to = path;
	}
	commands_add_requests(&c, in);
	r = trace_model_init(&m);
	if (!r)
		r = windows = incident_load_windows(&c, in, -1, &m);
	if (r > 0)
		incident_load_nics(&c, in, &m);
	if (r >= 0)
		r = outfile_open(&out, to);
	if (!r)
		r = outfile_close(&out, report_html_write(out.f, in, &m));
	if (r)
		fprintf(stderr, "sysom report: %s: %s\n", to, strerror(-r));
	else if (strcmp(to, "-"))
		print_written(o, in, to, windows, &m);
	json_decref(in);
	trace_model_fini(&m);
	return r ? EXIT_FAILED : EXIT_OK;
}
