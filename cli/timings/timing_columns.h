/* SPDX-License-Identifier: Apache-2.0
 * timing_columns.h - finds the columns that are times in a file of step times, their workers and unit, from
 * their names and the command line. It does not guess: other names are refused.
 * Owns: the names. Threads: one caller. Trust: the names are hostile. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "cli/trace/trace_reader.h"
#include "cli/timings/replay_unit.h"

struct timing_column {
	char *name; /* NULL without a header */
	bool is_time;
	int64_t number; /* at the end of the name, before a unit; -1 none */
};

struct timing_columns {
	bool header;
	bool list; /* a row per worker and step; else a column per worker */
	uint32_t width, times, step, worker, seconds; /* step, worker, seconds: = width if none */
	struct timing_column *column;		      /* [width] */
	const struct replay_unit *unit;
	const char *unit_from; /* "name", "option" or "assumed" */
	const char *which;     /* the column of an error */
};

/* Reads the first row; times, unit: of --time and --unit, or NULL. Returns NULL, or what is wrong with
 * columns->which, or "out of memory". */
const char *timing_columns_take(struct timing_columns *c, const struct trace_field *f, uint32_t n,
				const char *times, const struct replay_unit *unit);
void timing_columns_free(struct timing_columns *c);
/* Without a header: the file is a list, or its first column counts the rows. */
void timing_columns_found(struct timing_columns *c, bool list);
/* Whether a cell is empty, nan or the like. */
bool timing_columns_unknown(const struct trace_field *f);
/* The number at the end of a name: "worker 3", "rank3", "3". */
bool timing_columns_number(const char *text, size_t bytes, int64_t *out);
/* Prints the used columns and their unit as JSON members, or as text. */
void timing_columns_json(const struct timing_columns *c, FILE *to);
void timing_columns_text(const struct timing_columns *c, FILE *to);
