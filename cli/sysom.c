/* SPDX-License-Identifier: Apache-2.0
 * sysom - the command line. */
#include <curl/curl.h>
#include <signal.h>
#include <string.h>

#include "base/check.h"
#include "base/version.h"
#include "cli/commands.h"
#include "cli/term.h"

static const struct command commands[] = {
	{ .name = "run", .run = cmd_run_main, .flags = OPTION_JOB | OPTION_ROLE, .args = "-- CMD...",
	  .args_min = 1, .args_max = -1, .summary = "run a job with tracing",
	  .detail = "Puts libsysom_preload.so (SYSOM_PRELOAD, else ../lib beside this program) before\n"
		    "whatever LD_PRELOAD holds and runs CMD. Without the library, CMD runs untraced after\n"
		    "one warning. --job and --role set SYSOM_JOB and SYSOM_ROLE. The exit status is\n"
		    "CMD's; 127 when it is not found, 126 when it can't be run.\n" },
	{ .name = "status", .run = cmd_status_main, .flags = OPTION_JSON | OPTION_URL | OPTION_CONTROL,
	  .args = "", .summary = "this node's sysomd and the cluster's aggregator at a glance" },
	{ .name = "top", .run = cmd_status_top,
	  .flags = OPTION_JSON | OPTION_URL | OPTION_JOB | OPTION_ONCE, .args = "",
	  .summary = "all ranks, refreshed every second on a terminal" },
	{ .name = "incidents", .run = cmd_incidents_list,
	  .flags = OPTION_JSON | OPTION_URL | OPTION_JOB | OPTION_STATE | OPTION_LIMIT | OPTION_ALL,
	  .args = "", .summary = "the incidents, newest first" },
	{ .name = "show", .run = cmd_incidents_show, .flags = OPTION_JSON | OPTION_URL | OPTION_JOB,
	  .args = "ID|last", .args_min = 1, .args_max = 1,
	  .summary = "one incident: which rank, when, how slow, and what explains it" },
	{ .name = "trace", .run = cmd_trace_main,
	  .flags = OPTION_JSON | OPTION_URL | OPTION_JOB | OPTION_OUT | OPTION_FORMAT | OPTION_RANK,
	  .args = "ID|last", .args_min = 1, .args_max = 1,
	  .summary = "write an incident's windows as a Perfetto trace or Kineto JSON",
	  .detail = "Without --output the file is ID.pftrace (or ID.json). Open it in ui.perfetto.dev.\n" },
	{ .name = "report", .run = cmd_report_main,
	  .flags = OPTION_JSON | OPTION_URL | OPTION_JOB | OPTION_OUT, .args = "ID|last", .args_min = 1,
	  .args_max = 1, .summary = "write an incident as one self-contained HTML file",
	  .detail = "Without --output the file is ID.html.\n" },
	{ .name = "wait-incident", .run = cmd_wait_main,
	  .flags = OPTION_JSON | OPTION_URL | OPTION_JOB | OPTION_STATE | OPTION_TIMEOUT, .args = "",
	  .summary = "wait until an incident is closed and print its id",
	  .detail = "Progress goes to standard error. With --state open it returns as soon as there\n"
		    "is one. When the time is up, one that is still open is printed, else the status\n"
		    "is 1.\n" },
	{ .name = "off", .run = cmd_control_off,
	  .flags = OPTION_JSON | OPTION_CONTROL | OPTION_RANK | OPTION_JOB, .args = "",
	  .summary = "switch tracing off inside the running processes of this node" },
	{ .name = "on", .run = cmd_control_on,
	  .flags = OPTION_JSON | OPTION_CONTROL | OPTION_RANK | OPTION_JOB, .args = "",
	  .summary = "switch tracing on again" },
	{ .name = "capture", .run = cmd_control_capture,
	  .flags = OPTION_JSON | OPTION_CONTROL | OPTION_RANK | OPTION_SECONDS, .args = "",
	  .summary = "send what the recorder holds of one rank, without an anomaly" },
	{ .name = "doctor", .run = cmd_doctor_main,
	  .flags = OPTION_JSON | OPTION_URL | OPTION_CONTROL | OPTION_STATE_DIR, .args = "",
	  .summary = "what works here, what is off, why, and what to do",
	  .detail = "The status is 1 when a check failed; warnings leave it 0.\n" },
	{ .name = "replay", .raw = cmd_replay_main, .args = "KIND FILE...",
	  .summary = "run the analysis on trace files" },
};

static int usage(FILE *to)
{
	fputs("sysom - why is this GPU job slow, on which rank, and what shows it?\n\n"
	      "usage: sysom COMMAND [options]\n\n", to);
	for (size_t i = 0; i < ARRAY_LEN(commands); i++)
		fprintf(to, "  %-14s %s\n", commands[i].name, commands[i].summary);
	fputs("\nsysom COMMAND --help tells more; sysom --version\n", to);
	return to == stdout ? EXIT_OK : EXIT_USAGE;
}

static int run(const struct command *c, int argc, char **argv)
{
	struct options o;
	int r;

	if (c->raw)
		return c->raw(argc, argv);
	r = options_parse(&o, c, argc, argv);
	if (r)
		return r > 0 ? EXIT_OK : EXIT_USAGE;
	if (c->run != cmd_run_main)
		curl_global_init(CURL_GLOBAL_DEFAULT);
	r = c->run(&o);
	if (fflush(stdout) || ferror(stdout)) {
		fprintf(stderr, "sysom: standard output: write error\n");
		return EXIT_NOTHING;
	}
	return r;
}

int main(int argc, char **argv)
{
	term_init();
	if (argc < 2)
		return usage(stderr);
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help"))
		return usage(stdout);
	if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V")) {
		puts("sysom " SYSOM_VERSION);
		return EXIT_OK;
	}
	for (size_t i = 0; i < ARRAY_LEN(commands); i++)
		if (strcmp(argv[1], commands[i].name) == 0)
			return run(&commands[i], argc - 1, argv + 1);
	fprintf(stderr, "sysom: unknown command %s; try sysom --help\n", term_safe(argv[1], 40));
	return EXIT_USAGE;
}
