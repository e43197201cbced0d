/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/check.h"
#include "cli/commands.h"
#include "cli/replay/replay.h"
#include "cli/text/naming.h"
#include "render/term.h"

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
} kinds[] = {{"steps", replay_steps_main},     {"events", replay_events_main},
	     {"stacks", replay_stacks_main},   {"ops", replay_ops_main},
	     {"timings", replay_timings_main}, {"window", replay_window_main},
	     {"links", replay_links_main}};

/* Kinds that are documented but not in this version. */
static const char *const later[] = {"metrics", "points"};

static int usage(FILE *to)
{
	fputs(
	    "usage: sysom replay KIND [options] FILE...\n\n"
	    "Runs the analysis of sysomd and sysom-aggregator on files. Kinds:\n\n"
	    "  steps    one row per step: expected latency, excess, flagged\n"
	    "  events   kernel traces, one file per rank: steps, collectives, clocks, findings\n"
	    "  ops      operations of a data and pipeline parallel job: slow ranks, uneven stages\n"
	    "  timings  step times by worker: slow workers\n"
	    "  window   stored windows, or what sysomd --record-analysis wrote: verdicts, "
	    "findings\n"
	    "  links    times of transfers by size: latency, rate and regimes, and their error\n"
	    "  stacks   two files of folded stacks: shares by function, flagged differences\n\n"
	    "examples:\n"
	    "  sysom replay steps steps.csv --latency ms --latency-unit ms --work tokens --key "
	    "gpu\n"
	    "  sysom replay events --json rank0.json.gz rank1.json.gz | jq 'select(.flagged)'\n\n"
	    "sysom replay KIND --help shows its options.\n"
	    "exit status: 0 read to the end, 2 bad arguments or malformed input, 3 failed\n",
	    to);
	return to == stdout ? EXIT_OK : EXIT_USAGE;
}

int cmd_replay_main(int argc, char **argv)
{
	if (argc < 2)
		return usage(stderr);
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))
		return usage(stdout);
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		if (!strcmp(argv[1], kinds[i].name))
			return kinds[i].run(argc - 1, argv + 1);
	if (naming_among(later, ARRAY_LEN(later), argv[1]) >= 0)
		fprintf(stderr, "sysom replay %s: not available in this version\n", argv[1]);
	else
		fprintf(stderr, "sysom replay: unknown kind %s; try sysom replay --help\n",
			term_safe(argv[1], 40));
	return EXIT_USAGE;
}
