/* SPDX-License-Identifier: Apache-2.0
 * replay_input.h - reads the CSV file of a kind of replay, row by row, with the same messages for
 * all kinds.
 * Threads: one caller. Trust: the file is hostile: what is quoted of it is made harmless. */
#pragma once

#include "cli/text/intern.h"
#include "cli/trace/trace_reader.h"

#define REPLAY_INPUT_COLUMNS_MAX 8

struct replay_input {
	const char *path;
	struct trace_reader *csv;
	uint32_t width; /* fields of each row */
	uint64_t row;	/* number of the present one, from 0 */
	uint64_t blank; /* lines without a row, of all files */
};

/* Takes one row. 0, or an exit status after a message. */
typedef int replay_input_row(void *arg, const struct replay_input *in, struct trace_field *f);

/* Calls `row` for every row of the file, or until standard output fails. 0, or an exit status after a
 * message. Only in->blank is kept from file to file. */
int replay_input_each(struct replay_input *in, const char *path, replay_input_row *row, void *arg);
/* Prints "path:line: what: which"; which NULL: without. Returns EXIT_USAGE. */
int replay_input_bad(const struct replay_input *in, const char *what, const char *which);
/* Finds the columns of header f by their comma-separated names; NULL: none. Returns how many, or -1 after
 * a message. */
int replay_input_columns(const struct replay_input *in, const struct trace_field *f,
			 const char *names, uint32_t *out, uint32_t most);

/* Numbers the keys of rows: the values of some columns, joined by commas. */
struct replay_keys {
	struct intern texts;
	uint32_t column[REPLAY_INPUT_COLUMNS_MAX], count;
};
/* The number of the row's key; -1 after a message. */
int64_t replay_input_key(const struct replay_input *in, const struct trace_field *f,
			 struct replay_keys *keys, uint32_t most);
