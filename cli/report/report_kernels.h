/* SPDX-License-Identifier: Apache-2.0
 * report_kernels.h - GPU time per step and kernel name: in slow steps, and in the other steps of the same
 * windows. Pure; the caller frees the result. */
#ifndef SYSOM_CLI_REPORT_REPORT_KERNELS_H
#define SYSOM_CLI_REPORT_REPORT_KERNELS_H

#include "cli/trace/trace_model.h"

struct report_kernel {
	uint32_t name;
	uint64_t slow_count, normal_count;
	double slow_ns, normal_ns; /* per step */
};

/* Sorted by difference, largest first. *slow_steps, *normal_steps: the numbers of steps with all their
 * records; others don't count. NULL: no such steps, or out of memory. */
struct report_kernel *report_kernels_make(const struct trace_model *m, const struct trace_rank *r,
					  size_t *count, size_t *slow_steps, size_t *normal_steps);
/* Per step 1 if it has all its records; adds their numbers to *slow and *normal. The caller frees it. NULL:
 * out of memory. */
uint8_t *report_kernels_whole(const struct trace_rank *r, size_t *slow, size_t *normal);
/* The step in which a device record was launched, or -1. */
ptrdiff_t report_kernels_step(const struct trace_rank *r, const struct record *device);

#endif
