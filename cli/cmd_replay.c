/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "cli/commands.h"
#include "cli/replay/replay.h"
#include "render/term.h"

static const struct command *const kinds[] = {&replay_steps,   &replay_events, &replay_ops,
					      &replay_timings, &replay_window, &replay_links,
					      &replay_stacks};

static const char *name_of(const struct command *kind)
{
	return kind->name + strlen("replay ");
}

static int usage(FILE *to)
{
	fputs("usage: sysom replay KIND [options] FILE...\n\n"
	      "Runs the analysis of sysomd and sysom-aggregator on files. Kinds:\n\n",
	      to);
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		fprintf(to, "  %-8s %s\n", name_of(kinds[i]), kinds[i]->summary);
	fputs("\nexamples:\n", to);
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		options_help(to, kinds[i], true);
	fputs("\nsysom replay KIND --help shows its options.\n"
	      "exit status: " REPLAY_STATUS ", 3 failed\n",
	      to);
	return to == stdout ? EXIT_OK : EXIT_USAGE;
}

const char *cmd_replay_kind(const char *word)
{
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		if (!strcmp(word, name_of(kinds[i])))
			return kinds[i]->name;
	return NULL;
}

int cmd_replay_main(int argc, char **argv)
{
	if (argc < 2)
		return usage(stderr);
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))
		return usage(stdout);
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		if (!strcmp(argv[1], name_of(kinds[i])))
			return kinds[i]->raw(argc - 1, argv + 1);
	fprintf(stderr, "sysom replay: unknown kind %s; try sysom replay --help\n",
		term_safe(argv[1], 40));
	return EXIT_USAGE;
}
