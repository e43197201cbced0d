/* SPDX-License-Identifier: Apache-2.0
 * kernel_diff.h - the kernels of two sides by what they are called: template arguments put aside, and
 * told where the variant differs. Owns: its rows and texts. Threads: one caller. */
#ifndef SYSOM_CLI_REPORT_KERNEL_DIFF_H
#define SYSOM_CLI_REPORT_KERNEL_DIFF_H

#include <stdbool.h>
#include <stddef.h>

#include "cli/trace/trace_model.h"

struct kernel_time {
	const char *name;      /* mangled, as the GPU reports it; borrowed */
	double count, time_ns; /* per step */
};

struct kernel_diff_row {
	char *base;		     /* without template arguments */
	double count[2], time_ns[2]; /* per step, of all variants */
	char *main[2]; /* the variant with the most time on each side; NULL: it has none */
	char *changed; /* "argument 2: 128, now 64; ..."; NULL: the same variants lead */
};

struct kernel_diff {
	struct kernel_diff_row *rows; /* by the difference of their times, largest first */
	size_t count;
};

/* 0, -ENOMEM. */
int kernel_diff_make(struct kernel_diff *d, const struct kernel_time *a, size_t a_count,
		     const struct kernel_time *b, size_t b_count);
void kernel_diff_free(struct kernel_diff *d); /* of a zeroed struct: a no-op */
/* The kernels and copies of a rank's whole steps, to be freed; slow: of the slow ones where there are
 * any. *steps of them; 0: NULL. */
struct kernel_time *kernel_diff_of_rank(const struct trace_model *m, const struct trace_rank *r,
					bool slow, size_t *count, size_t *steps);

#endif
