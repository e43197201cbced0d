/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "cli/commands.h"
#include "cli/incident_load.h"
#include "cli/jsonget.h"
#include "cli/outfile.h"
#include "cli/report_html.h"
#include "cli/term.h"

static void print_file(const char *path)
{
	json_t *j = json_pack("{s:s}", "file", path);

	commands_print_json(j);
	json_decref(j);
}

int cmd_report_main(const struct options *o)
{
	struct trace_model m;
	struct outfile out;
	struct client c;
	char path[64];
	const char *to = o->out;
	json_t *in;
	int r;

	if (commands_aggregator(o, &c))
		return EXIT_USAGE;
	in = commands_incident(o, &c, o->argv[0]);
	if (!in)
		return EXIT_NOTHING;
	if (!to) {
		snprintf(path, sizeof(path), "%.8s.html", term_safe(jsonget_text(in, "id"), 32));
		to = path;
	}
	r = trace_model_init(&m);
	if (!r)
		r = incident_load_windows(&c, in, -1, &m);
	if (r >= 0)
		r = outfile_open(&out, to);
	if (!r)
		r = outfile_close(&out, report_html_write(out.f, in, &m));
	if (r)
		fprintf(stderr, "sysom report: %s: %s\n", to, strerror(-r));
	else if (o->json && strcmp(to, "-"))
		print_file(to);
	else if (strcmp(to, "-"))
		printf("%s\n", to);
	json_decref(in);
	trace_model_fini(&m);
	return r ? EXIT_NOTHING : EXIT_OK;
}
