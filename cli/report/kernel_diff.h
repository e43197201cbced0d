/* SPDX-License-Identifier: Apache-2.0
 * kernel_diff.h - compares the kernels of two sides by base name, without template arguments, and names
 * the arguments that differ. Owns: its rows and texts. Threads: one caller. */
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
	double count[2], time_ns[2]; /* per step, sums of all variants */
	char *main[2];		     /* each side's variant with the most time, or NULL */
	char *changed; /* "argument 2: 128, now 64; ..."; NULL: main[0] and main[1] are equal */
};

struct kernel_diff {
	struct kernel_diff_row *rows; /* sorted by difference of time, largest first */
	size_t count;
};

/* 0, -ENOMEM. */
int kernel_diff_make(struct kernel_diff *d, const struct kernel_time *a, size_t a_count,
		     const struct kernel_time *b, size_t b_count);
void kernel_diff_free(struct kernel_diff *d); /* of a zeroed struct: a no-op */
/* The kernels and copies of a rank's whole steps; slow: of the slow steps, if there are any. *steps: their
 * number; NULL if 0. The caller frees it. */
struct kernel_time *kernel_diff_of_rank(const struct trace_model *m, const struct trace_rank *r,
					bool slow, size_t *count, size_t *steps);

#endif
