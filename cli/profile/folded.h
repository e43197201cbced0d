/* SPDX-License-Identifier: Apache-2.0
 * folded.h - folded stacks of a file: "root;...;leaf VALUE" per line, as stackcollapse-*.pl, perf,
 * async-profiler and `sysom record -o F.folded` write them; plain, gzip, zstd or standard input.
 * Owns: the text of all lines. Threads: one caller. Trust: the file is hostile: lines, depth and
 * the whole are bounded.
 *
 * One sample adds 1 to a line, or, where every value is FOLDED_NANOSECONDS_MIN or more, the
 * smallest value of the file: such values are times, and no line stands for less than a sample.
 * Where values have fractions they are no counts, and nothing is known of samples. */
#ifndef SYSOM_CLI_PROFILE_FOLDED_H
#define SYSOM_CLI_PROFILE_FOLDED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/cause/profile.h"

/* 10,000 samples a second; nobody's counts of every line reach it. */
#define FOLDED_NANOSECONDS_MIN 100000.0
/* Of a line above 0, and of a sample: a 64-bit count, or a billionth. Sums of all lines, their
 * squares and their quotients stay finite. */
#define FOLDED_VALUE_MIN 1e-9
#define FOLDED_VALUE_MAX 18446744073709551616.0

struct folded_line {
	size_t at;	/* of its first name in text */
	uint32_t count; /* names, root first, each NUL-terminated, one behind the other */
	double weight;
};

struct folded {
	char *text;
	struct folded_line *lines;
	size_t bytes, room, line_room;
	uint32_t count;
	double total;
	double sample_weight; /* 0: not known */
	uint64_t rows;	      /* lines with a stack, those left out too */
	/* left out: nothing on the line; more than LIMIT_STACK_DEPTH frames */
	uint64_t blank, deep;
};

/* sample_weight > 0: what one sample adds to a line, else as above. 0; or -errno after a line on
 * standard error that names the file and the line (-EBADMSG: malformed). */
int folded_load(struct folded *f, const char *path, double sample_weight);
void folded_free(struct folded *f); /* of a zeroed struct: a no-op */
/* Fills names (room for LIMIT_STACK_DEPTH) of the line; returns their count. */
uint32_t folded_names(const struct folded *f, uint32_t line, const char **names);
/* Its functions; stacks without room are counted in the profile. *out is the caller's. 0, -ENOMEM. */
int folded_profile(const struct folded *f, struct profile **out);
/* Samples that stand behind the line; 0: not known. */
double folded_samples(const struct folded *f, uint32_t line);

#endif
