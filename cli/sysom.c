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

static const char status_words[] =
    "trace     on; off (sysom off); latched: off for good, because sysom failed in that "
    "process\n"
    "model     learning; ready: steps are judged; refused: step times fit no line, nothing is "
    "flagged\n"
    "          gone: the process ended; detached: the process closed its connection, may return\n"
    "stacks    how CPU stacks are taken: bpf-loop, bpf-tail (unwound in the kernel), copy (no "
    "rights\n"
    "          for BPF: no Python names, no blocked time), none; why, and what was lost\n"
    "roofline  how a step's expected time is learned: robust, or p99 (the paper's)\n"
    "canary    on: a rank is not blamed for steps in which the whole host stood still\n"
    "stops     seen: sysomd measures short stops of the machine, which a hypervisor causes\n"
    "spool     where windows wait until the aggregator has them: disk, or memory (disk full)\n"
    "lost      lost events, by cause; every loss is counted\n"
    "uploaded  all bytes sent, as a share of the bytes that the jobs' processes wrote\n"
    "Without the right to open the control socket, status asks sysomd's default HTTP address.\n"
    "Root and the user that runs sysomd see all ranks, other users their own.\n";

static const char top_words[] =
    "self      self time: the latency without waiting in collectives\n"
    "excess    self time minus the typical self time of the rank's role\n"
    "latency   median of the last steps; expected: predicted from their work\n"
    "compute, comm, idle   GPU time in kernels; in collectives that no kernel overlaps; idle\n"
    "flag      number of flagged steps\n"
    "state     suspect (marked !), hangs, the state of the rank's model (learning, ready, "
    "refused),\n"
    "          ended or gone\n"
    "A narrow terminal gets fewer columns. Suspects come first. Keys: q quits, s sorts by self\n"
    "time, latency or rank, / filters by job, node, role or rank, arrows select, Enter shows the\n"
    "incident of the selected rank, as sysom show does.\n";

static const char requests_words[] =
    "Without an argument: each serving job's requests, running and waiting now, how long the "
    "oldest\n"
    "waits, time to first token (ttft) and time per output token (tpot) of the last one to two\n"
    "minutes (median and p99), and how many missed the objective. With a job also those that did,\n"
    "the newest first: the phase that took most of the time, its longest step with the span that\n"
    "fills it, the request's incident, and the one that has the step's time. On a terminal the "
    "table\n"
    "is refreshed every second.\n"
    "ID       a request's id as its client gave it, or the 16 digits that sysom prints: its "
    "phases,\n"
    "         steps and longest steps, from this node's sysomd\n"
    "Objectives are sysomd's requests.ttft and requests.tpot.\n";

static const char control_words[] =
    "Needs sysomd's control socket. Root and the user that runs sysomd reach all ranks with it,\n"
    "other users their own. The package's unit makes it for root alone: use sudo.\n";

static const struct command commands[] = {
    {.name = "run",
     .run = cmd_run_main,
     .flags = OPTION_ROLE,
     .args = "-- CMD...",
     .args_min = 1,
     .args_max = -1,
     .summary = "run a job with tracing",
     .detail =
	 "Puts libsysom_preload.so (SYSOM_PRELOAD, else ../lib beside this program) first in\n"
	 "LD_PRELOAD and runs CMD. Without the library, CMD runs untraced after one warning.\n"
	 "--job and --role set SYSOM_JOB and SYSOM_ROLE. The exit status is CMD's; 127 if it is\n"
	 "not found, 126 if it can't be run.\n",
     .examples = "  sysom run -- torchrun --nproc-per-node 8 train.py\n"
		 "  sysom run --job llama-7b -- python3 train.py --lr 3e-4\n"},
    {.name = "preload",
     .run = cmd_preload_main,
     .flags = OPTION_OPTIONAL,
     .args = "DIR",
     .args_min = 1,
     .args_max = 1,
     .summary = "copy libsysom_preload.so to a directory that other containers mount",
     .detail =
	 "Prints the value for their LD_PRELOAD, in which glibc replaces $LIB. In a container\n"
	 "with musl the file is not found and the program runs untraced. glibc 2.34 or newer.\n"
	 "An init container needs --optional: Kubernetes starts no job after one that fails.\n",
     .examples = "  sysom preload /sysom    # LD_PRELOAD='/sysom/$LIB/libsysom_preload.so'\n"},
    {.name = "spans",
     .run = cmd_spans_main,
     .flags = OPTION_OUT,
     .args = "check|compile FILE...",
     .args_min = 2,
     .args_max = 64,
     .summary = "check catalogues of Python functions that become spans, or compile them",
     .detail =
	 "check prints each error with its line. compile writes a file: name it by SYSOM_SPANS\n"
	 "in a job's environment, and it replaces the catalogues in libsysom_preload.so.\n",
     .examples = "  sysom spans check my.yaml\n"
		 "  sysom spans compile my.yaml -o my.spans; SYSOM_SPANS=$PWD/my.spans sysom run "
		 "-- CMD\n"},
    {.name = "status",
     .run = cmd_status_main,
     .flags = OPTION_JSON | OPTION_URL | OPTION_CONTROL,
     .args = "",
     .summary = "this node's sysomd and the cluster's aggregator at a glance",
     .detail = status_words,
     .examples = "  sysom status\n  sysom status --json | jq '.node.ranks[] | {rank, model}'\n"},
    {.name = "top",
     .run = cmd_top_main,
     .flags = OPTION_JSON | OPTION_URL | OPTION_JOB | OPTION_ONCE,
     .args = "",
     .summary = "all ranks, refreshed every second on a terminal",
     .detail = top_words,
     .examples = "  sysom top --job llama-7b\n  sysom top --once | grep -w gone\n"},
    {.name = "requests",
     .run = cmd_requests_main,
     .flags = OPTION_JSON | OPTION_URL | OPTION_CONTROL | OPTION_JOB | OPTION_ONCE,
     .args = "[JOB|ID]",
     .args_max = 1,
     .summary = "requests of serving jobs, and those that missed an objective",
     .detail = requests_words,
     .examples = "  sysom requests\n  sysom requests llama-serve\n  sysom requests cmpl-8f3a\n"},
    {.name = "incidents",
     .run = cmd_incidents_list,
     .flags = OPTION_JSON | OPTION_URL | OPTION_JOB | OPTION_STATE | OPTION_LIMIT | OPTION_ALL,
     .args = "",
     .summary = "the incidents, newest first",
     .examples = "  sysom incidents --state open\n"
		 "  sysom incidents --job llama-7b --limit 5 --json\n"},
    {.name = "show",
     .run = cmd_incidents_show,
     .flags = OPTION_JSON | OPTION_URL | OPTION_JOB,
     .args = "ID|last|JOB",
     .args_min = 1,
     .args_max = 1,
     .summary = "one incident: which rank, when, how slow, and what explains it; or a job",
     .detail =
	 "For a job: its planned phases (checkpoints, evaluation), what each costs, and its\n"
	 "share of the job's time. If a job's name looks like an incident's id, write JOB@UID.\n",
     .examples = "  sysom show last\n  sysom show llama-7b\n"
		 "  sysom show 1234abcd --json | jq .diagnosis\n"},
    {.name = "trace",
     .run = cmd_trace_main,
     .flags = OPTION_JSON | OPTION_URL | OPTION_JOB | OPTION_OUT | OPTION_FORMAT | OPTION_RANK |
	      OPTION_DIFF,
     .args = "ID|last",
     .args_min = 1,
     .args_max = 1,
     .summary = "write an incident's windows, or one window, as a Perfetto trace or Kineto JSON",
     .detail = "Without --output the file is ID.pftrace (or ID.json). Open it in ui.perfetto.dev.\n"
	       "Common collectives put all ranks on one clock. --diff writes only the culprit (or\n"
	       "--rank) and a healthy peer.\n",
     .examples = "  sysom trace last -o slow.pftrace\n"
		 "  sysom trace last --diff -o pair.pftrace\n"
		 "  sysom trace 1234abcd --rank 3 --format kineto -o - | gzip >rank3.json.gz\n"},
    {.name = "report",
     .run = cmd_report_main,
     .flags = OPTION_JSON | OPTION_URL | OPTION_JOB | OPTION_OUT,
     .args = "ID|last",
     .args_min = 1,
     .args_max = 1,
     .summary = "write an incident as one self-contained HTML file",
     .detail = "Without --output the file is ID.html.\n",
     .examples = "  sysom report last -o slow.html\n"},
    {.name = "flame",
     .run = cmd_flame_main,
     .flags = OPTION_JSON | OPTION_URL | OPTION_JOB | OPTION_OUT | OPTION_RANK | OPTION_DIFF |
	      OPTION_BASE,
     .args = "ID|last",
     .args_min = 1,
     .args_max = 1,
     .summary = "write the CPU stacks of an incident's culprit as a flame graph",
     .detail =
	 "Without --output the file is ID.flame.html. Its ending selects the format: .folded\n"
	 "(nanoseconds on the CPU), .pb.gz (pprof), else HTML. --rank selects another rank.\n"
	 "--diff and --base draw both sides in one graph: red grew, blue shrank. --diff shows\n"
	 "times per step, and blocked and GPU time too.\n",
     .examples = "  sysom flame last -o slow.html\n"
		 "  sysom flame last --diff -o diff.html\n"
		 "  sysom flame last --base healthy.folded -o diff.html\n"
		 "  sysom flame 1234abcd --rank 3 -o r3.pb.gz && go tool pprof -top r3.pb.gz\n"},
    {.name = "diff",
     .run = cmd_diff_main,
     .flags = OPTION_JSON | OPTION_URL | OPTION_JOB | OPTION_LIMIT,
     .args = "A B",
     .args_min = 2,
     .args_max = 2,
     .summary = "two runs, builds or ranks side by side",
     .detail =
	 "A and B: an incident's id (its culprit), ID:RANK, a window's file, a trace file\n"
	 "as sysom replay events reads it (events as CSV, Kineto JSON), a profile (folded\n"
	 "stacks, pprof), baseline:JOB[:ROLE[:RUN]] (a healthy earlier run; default: the newest\n"
	 "one that has ended) or sketch:JOB:RANK (what is usual for a running rank). Compares\n"
	 "what both have: steps, how many are flagged, spans, kernels by name with the\n"
	 "template arguments that changed, functions, settings. In a name, write %3A for a\n"
	 "colon. --limit N: at most N rows in each table.\n",
     .examples = "  sysom diff 1234abcd:5 1234abcd:4\n"
		 "  sysom diff baseline:llama-7b 1234abcd\n"
		 "  sysom diff baseline:llama-7b sketch:llama-7b:0\n"
		 "  sysom diff before/rank0.json.gz after/rank0.json.gz\n"
		 "  sysom diff healthy.folded slow.folded --json | jq .functions\n"},
    {.name = "wait-incident",
     .run = cmd_wait_main,
     .flags = OPTION_JSON | OPTION_URL | OPTION_JOB | OPTION_STATE | OPTION_TIMEOUT | OPTION_ANY,
     .args = "",
     .summary = "wait until an incident is closed and print its id",
     .detail =
	 "An incident that was closed before does not count, unless --any is given. Progress\n"
	 "goes to standard error. --state open returns when an incident opens. At the timeout an\n"
	 "incident that is still open is printed; if there is none, the status is 1.\n",
     .examples = "  sysom show $(sysom wait-incident --job llama-7b --timeout 3600)\n"},
    {.name = "verdict",
     .run = cmd_verdict_main,
     .flags = OPTION_JSON | OPTION_URL | OPTION_TIMEOUT,
     .args = "[JOB]",
     .args_max = 1,
     .summary = "what slowed a job, in a few lines for the end of its own output",
     .detail =
	 "Waits until the job's ranks have ended and each incident has a cause, at most\n"
	 "--timeout. Without JOB, the environment names the job (SYSOM_JOB, Slurm, PBS, LSF), so\n"
	 "the command can be the last line of a batch script. The status is 1 if no rank of the\n"
	 "job was traced.\n",
     .examples = "  sysom verdict --timeout 15    # in a batch script, at its end\n"
		 "  sysom verdict llama-7b#1234\n"},
    {.name = "off",
     .run = cmd_control_off,
     .flags = OPTION_JSON | OPTION_CONTROL | OPTION_RANK | OPTION_JOB,
     .args = "",
     .summary = "switch tracing off inside the running processes of this node",
     .detail = control_words,
     .examples = "  sudo sysom off\n  sysom off --job llama-7b --rank 3\n"},
    {.name = "on",
     .run = cmd_control_on,
     .flags = OPTION_JSON | OPTION_CONTROL | OPTION_RANK | OPTION_JOB,
     .args = "",
     .summary = "switch tracing on again",
     .detail = control_words,
     .examples = "  sudo sysom on\n"},
    {.name = "capture",
     .run = cmd_control_capture,
     .flags = OPTION_JSON | OPTION_CONTROL | OPTION_JOB | OPTION_RANK | OPTION_SECONDS,
     .args = "",
     .summary = "send the last seconds of one rank to the aggregator, without an anomaly",
     .detail = control_words,
     .examples = "  sudo sysom capture --rank 3 --seconds 20\n"},
    {.name = "doctor",
     .run = cmd_doctor_main,
     .flags = OPTION_JSON | OPTION_URL | OPTION_CONTROL | OPTION_STATE_DIR | OPTION_THRESHOLDS |
	      OPTION_CLUSTER,
     .args = "",
     .summary = "what works here, what is off, why, and what to do",
     .detail =
	 "The status is 1 if a check failed; warnings leave it 0. --thresholds checks nothing\n"
	 "and prints each threshold of detection: its unit, why it has this value and what\n"
	 "happens when it is wrong. All programs use the same ones. --cluster asks the\n"
	 "aggregator for its nodes (version, certificate, when each was last heard from), and\n"
	 "whether jobs are beyond their quota.\n",
     .examples = "  sysom doctor\n"
		 "  sysom doctor --thresholds\n"
		 "  sysom doctor --cluster\n"
		 "  sysom doctor --json | jq '.checks[] | select(.state != \"ok\")'\n"},
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
	fputs("sysom - why is this GPU job slow, on which rank, and what shows it?\n\n"
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

/* A command that this word begins or goes on, else the nearest one of which half the letters are right. */
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

/* The program that became sysom-full has done it. */
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
	near = nearest(argv[1]);
	fprintf(stderr, "sysom: unknown command %s%s%s%s; try sysom --help\n",
		term_safe(argv[1], 40), near ? " (did you mean " : "", near ? near : "",
		near ? "?)" : "");
	return EXIT_USAGE;
}
