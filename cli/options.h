/* SPDX-License-Identifier: Apache-2.0
 * options.h - the command line of `sysom`: every command lists its options in a table. The parser
 * and --help use this table. Threads: one caller. Texts are borrowed from argv and the
 * environment. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/exit_status.h"

/* How the text after an option becomes a field. */
enum option_kind {
	OPTION_SWITCH, /* bool, set */
	OPTION_OFF,    /* bool, cleared */
	OPTION_TEXT,   /* const char * */
	OPTION_WORD,   /* int: the word's number; also an enum */
	OPTION_NUMBER, /* double */
	OPTION_COUNT,  /* uint32_t or int */
	OPTION_TAKEN,  /* by a function of the command */
};

struct option_row {
	const char *name; /* NULL: end of the table */
	char letter;	  /* 0: only the long form */
	/* What help calls the value; NULL: the option has no value. With bars: the words that are
	 * allowed. In brackets: the value may be left out. */
	const char *value;
	const char *help;
	enum option_kind kind;
	size_t at;	    /* offset of the field */
	double least, most; /* of a number */
	double preset;	    /* the value if it is left out */
	/* Returns NULL, or what was expected instead. */
	const char *(*take)(void *to, const char *text);
	unsigned bit; /* only for commands with this flag; 0: for all that have the table */
};

/* Groups of the options that most commands take. */
enum option_bit {
	OPTION_JSON = 1 << 0,
	OPTION_URL = 1 << 1,
	OPTION_CONTROL = 1 << 2,
	OPTION_JOB = 1 << 3,
	OPTION_ROLE = 1 << 4, /* and the job's name */
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
	OPTION_OPTIONAL = 1 << 20,
	OPTION_CHANNELS = 1 << 21,
};

struct options {
	int argc; /* positional arguments */
	char **argv;
	const char *url;     /* --url, SYSOM_URL, or NULL: access.h decides */
	const char *control; /* --control, or NULL: paths.h decides */
	const char *job, *role, *state, *out, *format, *state_dir; /* NULL: not given */
	const char *base;
	bool json, once, all, any, diff, thresholds, cluster, optional;
	int rank;	  /* -1: not given */
	unsigned limit;	  /* default 20 */
	double timeout_s; /* default 60 */
	double seconds;	  /* default 0: sysomd decides */
	double channels;  /* -1: not given */
};

#define OPTIONS_ANY INT_MAX /* any number of positional arguments */

struct command {
	const char *name;
	int (*run)(const struct options *o);
	int (*raw)(int argc, char **argv); /* instead of run: has a table of its own */
	const struct option_row *rows;	   /* NULL: those of struct options */
	unsigned flags;			   /* the bits of its rows */
	const char *args;		   /* positional arguments, for the usage line */
	int args_min, args_max; /* args_max -1: another command, whose options are its own */
	const char *summary;	/* one line */
	const char *status;	/* exit statuses; NULL: the usual ones */
};

/* Reads the command's options into *to, which has their presets. argv[0] is the command's name.
 * OPTIONS_GO_ON, with optind at the positional arguments; EXIT_OK: --help was printed;
 * EXIT_USAGE: after a message. */
#define OPTIONS_GO_ON (-1)
int options_read(const struct command *c, void *to, int argc, char **argv);
/* The same into struct options, which it fills. */
int options_parse(struct options *o, const struct command *c, int argc, char **argv);
/* Reads the whole text as a number from least to most; false leaves *out. */
bool options_number(const char *text, double least, double most, double *out);
/* Prints the command's section of cli/help.txt: what it does, or its examples. */
void options_help(FILE *to, const struct command *c, bool examples);
