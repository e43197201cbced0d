/* SPDX-License-Identifier: Apache-2.0
 * folded.h - reads folded stacks: "root;...;leaf VALUE" per line, as stackcollapse-*.pl, perf,
 * async-profiler and `sysom record -o F.folded` write them; plain, gzip, zstd or standard input.
 * Owns: the text of all lines. Threads: one caller. Trust: the file is hostile: lines, depth and the whole
 * are bounded.
 *
 * One sample adds 1 to a line if values are counts. If every value is at least FOLDED_NANOSECONDS_MIN,
 * they are times, and a sample adds the file's smallest value. If values have fractions, the number of
 * samples is not known. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "analysis/cause/profile.h"

/* The period at 10,000 samples a second; no profile has that many counts in every line. */
#define FOLDED_NANOSECONDS_MIN 100000.0
/* The range of a value above 0, and of a sample's weight. Sums of all lines, their squares and quotients
 * stay finite. */
#define FOLDED_VALUE_MIN 1e-9
#define FOLDED_VALUE_MAX 18446744073709551616.0

struct folded_line {
	size_t at;	/* offset of its first name in text */
	uint32_t count; /* names, root first, each ending with a NUL */
	double weight;
};

struct folded {
	char *text;
	struct folded_line *lines;
	size_t bytes, room, line_room;
	uint32_t count;
	double total;
	double sample_weight; /* 0: not known */
	uint64_t rows;	      /* lines with a stack, including those left out */
	/* left out: blank lines; more than LIMIT_STACK_DEPTH frames */
	uint64_t blank, deep;
};

/* sample_weight > 0: what one sample adds to a line; 0: as above. Returns 0; or -errno after a message
 * with file and line (-EBADMSG: malformed). */
int folded_load(struct folded *f, const char *path, double sample_weight);
void folded_free(struct folded *f); /* of a zeroed struct: a no-op */
/* Fills names (room for LIMIT_STACK_DEPTH); returns their number. */
uint32_t folded_names(const struct folded *f, uint32_t line, const char **names);
/* The caller owns *out, which counts stacks without room. 0, -ENOMEM. */
int folded_profile(const struct folded *f, struct profile **out);
/* The name of a frame (enum stack_frame_kind) in such a line; file: its path, "" none. The caller frees
 * it. NULL: out of memory. */
char *folded_name(int kind, const char *function, const char *file);
