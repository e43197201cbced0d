/* SPDX-License-Identifier: Apache-2.0
 * options.h - the command line of `sysom`: one table of flags, and which of them each command takes.
 * Threads: one caller. Texts are borrowed from argv and the environment. */
#ifndef SYSOM_CLI_OPTIONS_H
#define SYSOM_CLI_OPTIONS_H

#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/exit_status.h"

enum option_bit {
	OPTION_JSON = 1 << 0,
	OPTION_URL = 1 << 1,
	OPTION_CONTROL = 1 << 2,
	OPTION_JOB = 1 << 3,
	OPTION_ROLE = 1 << 4,
	OPTION_RANK = 1 << 5,
	OPTION_ONCE = 1 << 6,
	OPTION_STATE = 1 << 7,
	OPTION_LIMIT = 1 << 8,
	OPTION_OUT = 1 << 9,
	OPTION_FORMAT = 1 << 10,
	OPTION_TIMEOUT = 1 << 11,
	OPTION_SECONDS = 1 << 12,
	OPTION_STATE_DIR = 1 << 13,
	OPTION_ALL = 1 << 14,
	OPTION_ANY = 1 << 15,
	OPTION_DIFF = 1 << 16,
	OPTION_BASE = 1 << 17,
	OPTION_THRESHOLDS = 1 << 18,
	OPTION_CLUSTER = 1 << 19,
};

struct options {
	int argc; /* positional arguments */
	char **argv;
	const char *url;     /* --url, SYSOM_URL, or NULL: access.h decides */
	const char *control; /* --control, or NULL: paths.h decides */
	const char *job, *role, *state, *out, *format, *state_dir; /* NULL: not given */
	const char *base;
	bool json, once, all, any, have_rank, diff, thresholds, cluster;
	int rank;
	unsigned limit;	  /* default 20 */
	double timeout_s; /* default 60 */
	double seconds;	  /* default 0: sysomd decides */
};

struct command {
	const char *name;
	int (*run)(const struct options *o);
	int (*raw)(int argc, char **argv); /* instead of run: parses its own arguments */
	unsigned flags;			   /* enum option_bit */
	const char *args;		   /* positional arguments, for the usage line */
	int args_min, args_max;		   /* args_max -1: any number */
	const char *summary;		   /* one line */
	const char *detail;		   /* further lines of --help */
	const char *examples;		   /* command lines, two spaces before each */
};

/* argv[0] is the command's name. 0; 1: --help was printed; -EINVAL: after a message. */
int options_parse(struct options *o, const struct command *c, int argc, char **argv);
/* For a command that parses its own options, long ones and -h: hands each one but -h and --help to
 * `take`, which returns 0 or an exit status; '?' is one that getopt refused, after its message. 0,
 * with optind at the arguments; OPTIONS_HELP; or what `take` returned. */
#define OPTIONS_HELP (-1)
int options_each(int argc, char **argv, const struct option *longs,
		 int (*take)(void *arg, int option, const char *value), void *arg);
/* Reads the whole text as a number from least to most; false leaves *out. */
bool options_number(const char *text, double least, double most, double *out);

#endif
