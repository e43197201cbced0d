/* SPDX-License-Identifier: Apache-2.0
 * replay_input.h - messages about a CSV file that is wrong, the same for all kinds of replay.
 * Threads: one caller. Trust: the file is hostile: what is quoted of it is made harmless. */
#ifndef SYSOM_CLI_TIMINGS_REPLAY_INPUT_H
#define SYSOM_CLI_TIMINGS_REPLAY_INPUT_H

#include "cli/timings/replay_csv.h"

/* Prints "path:line: what: which"; which NULL: without. Returns EXIT_USAGE. */
int replay_input_bad(const char *path, const struct replay_csv *c, const char *what,
		     const char *which);
/* replay_csv_columns of the header that was read last. -ENOENT after a message; -E2BIG without
 * one: that is a mistake in the arguments. */
int replay_input_columns(const char *path, const struct replay_csv *c, const struct trace_field *f,
			 uint32_t n, const char *names, uint32_t *out, uint32_t most);

#endif
