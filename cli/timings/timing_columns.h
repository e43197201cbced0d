/* SPDX-License-Identifier: Apache-2.0
 * timing_columns.h - which columns of a file of step times are times, whose, and in what unit: from their
 * names and from the command line. What is no time by its name is refused, not guessed.
 * Owns: the names. Threads: one caller. Trust: the names are hostile. */
#ifndef SYSOM_CLI_TIMINGS_TIMING_COLUMNS_H
#define SYSOM_CLI_TIMINGS_TIMING_COLUMNS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "cli/timings/replay_csv.h"
#include "cli/timings/replay_unit.h"

struct timing_column {
	char *name; /* NULL without a header */
	bool is_time;
	int64_t number; /* at the name's end, before its unit; -1 none */
};

struct timing_columns {
	bool header;
	bool list; /* a row per worker and step; else a column per worker */
	uint32_t width, times, step, worker, seconds; /* step, worker, seconds: width for none */
	struct timing_column *column;		      /* [width] */
	const struct replay_unit *unit;
	const char *unit_from; /* "name", "option"; "assumed": nothing says it */
	const char *which;     /* what an error is about */
};

/* The first row; times and unit as --time and --unit have them, NULL for neither. NULL, or what is wrong
 * (of columns->which), or "out of memory". */
const char *timing_columns_take(struct timing_columns *c, const struct trace_field *f, uint32_t n,
				const char *times, const struct replay_unit *unit);
void timing_columns_free(struct timing_columns *c);
/* The file turned out to be a list or to count its rows, without a header. */
void timing_columns_found(struct timing_columns *c, bool list);
/* An empty cell, nan and the like: not known. */
bool timing_columns_unknown(const struct trace_field *f);
/* The number at a name's end: "worker 3", "rank3", "3". */
bool timing_columns_number(const char *text, size_t bytes, int64_t *out);
/* Which columns are used and their unit, as members of an object, or in words. */
void timing_columns_json(const struct timing_columns *c, FILE *to);
void timing_columns_text(const struct timing_columns *c, FILE *to);

#endif
