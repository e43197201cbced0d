/* SPDX-License-Identifier: Apache-2.0
 * sysom - the command line. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/daemon/misspelt.h"
#include "base/text/text.h"
#include "base/version.h"
#include "cli/commands.h"
#include "render/term.h"

char **front_argv;

static const struct command commands[] = {
    {.name = "run",
     .run = cmd_run_main,
     .flags = OPTION_ROLE,
     .args = "-- CMD...",
     .args_min = 1,
     .args_max = -1,
     .summary = "run a job with tracing"},
    {.name = "preload",
     .run = cmd_preload_main,
     .flags = OPTION_OPTIONAL,
     .args = "DIR",
     .args_min = 1,
     .args_max = 1,
     .summary = "copy libsysom_preload.so to a directory that other containers mount"},
    {.name = "spans",
     .run = cmd_spans_main,
     .flags = OPTION_OUT,
     .args = "check|compile FILE...",
     .args_min = 2,
     .args_max = 64,
     .summary = "check catalogues of Python functions that become spans, or compile them"},
    {.name = "status",
     .run = cmd_status_main,
     .flags = OPTION_JSON | OPTION_URL | OPTION_CONTROL,
     .args = "",
     .summary = "this node's sysomd and the cluster's aggregator at a glance"},
    {.name = "top",
     .run = cmd_top_main,
     .flags = OPTION_JSON | OPTION_URL | OPTION_JOB | OPTION_ONCE,
     .args = "",
     .summary = "all ranks, refreshed every second on a terminal"},
    {.name = "requests",
     .run = cmd_requests_main,
     .flags = OPTION_JSON | OPTION_URL | OPTION_CONTROL | OPTION_JOB | OPTION_ONCE,
     .args = "[JOB|ID]",
     .args_max = 1,
     .summary = "requests of serving jobs, and those that missed an objective"},
    {.name = "incidents",
     .run = cmd_incidents_list,
     .flags = OPTION_JSON | OPTION_URL | OPTION_JOB | OPTION_STATE | OPTION_LIMIT | OPTION_ALL,
     .args = "",
     .summary = "the incidents, newest first"},
    {.name = "show",
     .run = cmd_incidents_show,
     .flags = OPTION_JSON | OPTION_URL | OPTION_JOB,
     .args = "ID|last|JOB",
     .args_min = 1,
     .args_max = 1,
     .summary = "one incident: which rank, when, how slow, and what explains it; or a job"},
    {.name = "trace",
     .run = cmd_trace_main,
     .flags = OPTION_JSON | OPTION_URL | OPTION_JOB | OPTION_OUT | OPTION_FORMAT | OPTION_RANK |
	      OPTION_DIFF,
     .args = "ID|last",
     .args_min = 1,
     .args_max = 1,
     .summary = "write an incident's windows, or one window, as a Perfetto trace or Kineto JSON"},
    {.name = "report",
     .run = cmd_report_main,
     .flags = OPTION_JSON | OPTION_URL | OPTION_JOB | OPTION_OUT,
     .args = "ID|last",
     .args_min = 1,
     .args_max = 1,
     .summary = "write an incident as one self-contained HTML file"},
    {.name = "flame",
     .run = cmd_flame_main,
     .flags = OPTION_JSON | OPTION_URL | OPTION_JOB | OPTION_OUT | OPTION_RANK | OPTION_DIFF |
	      OPTION_BASE,
     .args = "ID|last",
     .args_min = 1,
     .args_max = 1,
     .summary = "write the CPU stacks of an incident's culprit as a flame graph"},
    {.name = "diff",
     .run = cmd_diff_main,
     .flags = OPTION_JSON | OPTION_URL | OPTION_JOB | OPTION_LIMIT,
     .args = "A B",
     .args_min = 2,
     .args_max = 2,
     .summary = "two runs, builds or ranks side by side"},
    {.name = "wait-incident",
     .run = cmd_wait_main,
     .flags = OPTION_JSON | OPTION_URL | OPTION_JOB | OPTION_STATE | OPTION_TIMEOUT | OPTION_ANY,
     .args = "",
     .summary = "wait until an incident is closed and print its id"},
    {.name = "verdict",
     .run = cmd_verdict_main,
     .flags = OPTION_JSON | OPTION_URL | OPTION_TIMEOUT,
     .args = "[JOB]",
     .args_max = 1,
     .summary = "what slowed a job, in a few lines for the end of its own output"},
    {.name = "off",
     .run = cmd_control_off,
     .flags = OPTION_JSON | OPTION_CONTROL | OPTION_RANK | OPTION_JOB,
     .args = "",
     .summary = "switch tracing off inside the running processes of this node"},
    {.name = "on",
     .run = cmd_control_on,
     .flags = OPTION_JSON | OPTION_CONTROL | OPTION_RANK | OPTION_JOB | OPTION_CHANNELS,
     .args = "",
     .summary = "switch tracing on again"},
    {.name = "capture",
     .run = cmd_control_capture,
     .flags = OPTION_JSON | OPTION_CONTROL | OPTION_JOB | OPTION_RANK | OPTION_SECONDS,
     .args = "",
     .summary = "send the last seconds of one rank to the aggregator, without an anomaly"},
    {.name = "doctor",
     .run = cmd_doctor_main,
     .flags = OPTION_JSON | OPTION_URL | OPTION_CONTROL | OPTION_STATE_DIR | OPTION_THRESHOLDS |
	      OPTION_CLUSTER,
     .args = "",
     .summary = "what works here, what is off, why, and what to do"},
    {.name = "record",
     .raw = cmd_record_main,
     .args = "-p PID|--rank R|-a|-- CMD...",
     .summary = "CPU stacks of processes as a flame graph, folded stacks or pprof"},
    {.name = "replay",
     .raw = cmd_replay_main,
     .args = "KIND FILE...",
     .summary =
	 "run the analysis on files: traces, step times, transfers, stored windows, profiles"},
};

/* Status 0 promises that the output was written. */
static int written(const char *name, int status)
{
	if (!fflush(stdout) && !ferror(stdout))
		return status;
	if (status == EXIT_OK) /* else there was a message */
		fprintf(stderr, "sysom%s%s: standard output: %s\n", *name ? " " : "", name,
			strerror(errno));
	return status == EXIT_OK ? EXIT_FAILED : status;
}

static int usage(FILE *to)
{
	fputs("sysom - why is this GPU job slow, on which rank, and what is the evidence?\n\n"
	      "usage: sysom COMMAND [options]\n\n",
	      to);
	for (size_t i = 0; i < ARRAY_LEN(commands); i++)
		fprintf(to, "  %-14s %s\n", commands[i].name, commands[i].summary);
	fputs("\nexamples:\n"
	      "  sysom run -- torchrun --nproc-per-node 8 train.py\n"
	      "  sysom show last\n"
	      "\nsysom COMMAND --help shows more; sysom --version\n",
	      to);
	return to == stdout ? written("", EXIT_OK) : EXIT_USAGE;
}

static int run(const struct command *c, int argc, char **argv)
{
	struct options o;
	int status;

	if (c->raw)
		return written(c->name, c->raw(argc, argv));
	status = options_parse(&o, c, argc, argv);
	return written(c->name, status == OPTIONS_GO_ON ? c->run(&o) : status);
}

static const struct command *find(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(commands); i++)
		if (strcmp(name, commands[i].name) == 0)
			return &commands[i];
	return NULL;
}

/* A command that begins with this word, or that this word begins with; else the nearest one, if half of its
 * letters are right. */
static const char *nearest(const char *word)
{
	const char *near = NULL;
	unsigned least = (unsigned)strnlen(word, 31) / 2 + 1;

	for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
		const char *name = commands[i].name;
		unsigned d = text_distance(word, name);

		if (*word &&
		    (!strncmp(word, name, strlen(word)) || !strncmp(word, name, strlen(name))))
			return name;
		if (d < least) {
			least = d;
			near = name;
		}
	}
	return near;
}

/* sysom has done it before it executed sysom-full. */
static void warn_of_environment(const char *program)
{
	char warning[MISSPELT_BYTES];
	size_t at = 0;

	while (strcmp(program, COMMANDS_FULL) && misspelt_warning(&at, warning))
		fprintf(stderr, "sysom: %s\n", term_safe(warning, TERM_COLUMNS_MAX));
}

int main(int argc, char **argv)
{
	char help[] = "--help", *asked[] = {NULL, help, NULL};
	const struct command *c;
	const char *near;

	front_argv = argv;
	term_init();
	warn_of_environment(argv[0]);
	if (argc < 2)
		return usage(stderr);
	if (argc > 2 && !strcmp(argv[1], "help") && find(argv[2])) {
		asked[0] = argv[2];
		return run(find(argv[2]), 2, asked);
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help"))
		return usage(stdout);
	if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V")) {
		puts("sysom " SYSOM_VERSION);
		return written("", EXIT_OK);
	}
	c = find(argv[1]);
	if (c)
		return run(c, argc - 1, argv + 1);
	near = cmd_replay_kind(argv[1]);
	if (!near)
		near = nearest(argv[1]);
	fprintf(stderr, "sysom: unknown command %s%s%s%s; try sysom --help\n",
		term_safe(argv[1], 40), near ? " (did you mean " : "", near ? near : "",
		near ? "?)" : "");
	return EXIT_USAGE;
}
