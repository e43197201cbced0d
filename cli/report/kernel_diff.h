/* SPDX-License-Identifier: Apache-2.0
 * kernel_diff.h - compares the kernels of two sides by base name, without template arguments, and names
 * the arguments that differ. Owns: its rows and texts. Threads: one caller. */
#pragma once

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
/* Which of a rank's steps. Only those with all their records count. */
enum kernel_steps {
	KERNEL_STEPS_SLOW = 1,
	KERNEL_STEPS_OTHER = 2,
	KERNEL_STEPS_ALL = 3,
};
/* The kernels and copies of these steps. *steps: their number; NULL if 0, or out of memory. The
 * caller frees it. */
struct kernel_time *kernel_diff_of_rank(const struct trace_model *m, const struct trace_rank *r,
					enum kernel_steps which, size_t *count, size_t *steps);
/* The same of the slow steps; if there are none, of all steps. */
struct kernel_time *kernel_diff_of_slow(const struct trace_model *m, const struct trace_rank *r,
					size_t *count, size_t *steps);
/* Returns one byte per step: 1 if the step has all its records. Adds the numbers of slow and of healthy
 * steps with all their records to *slow and *normal. The caller frees the array. NULL: out of memory. */
uint8_t *kernel_diff_whole(const struct trace_rank *r, size_t *slow, size_t *normal);
/* The step in which a device record was launched, or -1. */
ptrdiff_t kernel_diff_step(const struct trace_rank *r, const struct record *device);
