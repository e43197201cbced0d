/* SPDX-License-Identifier: Apache-2.0
 * waterline.h - each function's normal CPU share among the ranks of one role, over the sketches of
 * a sliding window (SysOM-AI 5.2: mean and standard deviation per function, line at mean + k
 * sigma). Besides the paper's line there is a robust one, from the median and 1.4826 MAD. One hot
 * rank does not move it. A function that a sketch does not name has the share 0 there.
 *
 * Bounded by LIMIT_WATERLINE_FUNCTIONS and LIMIT_WATERLINE_SKETCHES. If a role is too large, only
 * the sketches of every n-th rank are kept. Pure but for memory. Threads: one caller. Trust: the
 * codec ensures shares of 0 to 1; names are untrusted. */
#pragma once

#include "model/window.h"

struct waterline;

struct waterline_row {
	const char *name;	 /* owned by the waterline, valid until the next push */
	uint32_t kind, sketches; /* sketches: number of sketches in the window that name it */
	double mean, sigma;	 /* mean and deviation of the total share, 0 to 1 */
	double median, spread;	 /* its median and 1.4826 MAD */
	double self_median;
	double highest;
	uint32_t highest_slot;
};

int waterline_open(struct waterline **out, uint64_t window_ns); /* 0, -ENOMEM */
void waterline_close(struct waterline *w);			/* NULL is a no-op */
/* slot: the rank; ranks: size of the role, which decides whose sketches are stored. */
void waterline_push(struct waterline *w, uint32_t slot, uint32_t ranks, const struct sketch *s,
		    uint64_t now_ns);
/* Rows by mean, largest first, leaving out the sketches of the slots in except. The caller frees
 * *rows. Returns the number of sketches in the window, or -ENOMEM. */
int waterline_rows(struct waterline *w, uint64_t now_ns, const uint32_t *except,
		   uint32_t except_count, struct waterline_row **rows, uint32_t *count);
/* The line is this many spreads above the middle. */
#define WATERLINE_SPREADS 2
/* functions dropped because the table was full */
uint64_t waterline_no_room(const struct waterline *w);
uint64_t waterline_bytes(const struct waterline *w);
