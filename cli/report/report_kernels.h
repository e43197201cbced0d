/* SPDX-License-Identifier: Apache-2.0
 * report_kernels.h - device time per step and kernel name, in slow steps against the others of the
 * same windows. Pure; the result is the caller's to free. */
#ifndef SYSOM_CLI_REPORT_REPORT_KERNELS_H
#define SYSOM_CLI_REPORT_REPORT_KERNELS_H

#include "cli/trace/trace_model.h"

struct report_kernel {
	uint32_t name;
	uint64_t slow_count, normal_count;
	double slow_ns, normal_ns; /* per step */
};

/* By the difference, largest first. *slow_steps, *normal_steps: steps whose records are all there;
 * others don't count. NULL when there are none, or no memory. */
struct report_kernel *report_kernels_make(const struct trace_model *m, const struct trace_rank *r,
					  size_t *count, size_t *slow_steps, size_t *normal_steps);
/* Per step, 1 where its records are all there, to be freed; adds how many of those are slow and not to
 * *slow and *normal. NULL: no memory. */
uint8_t *report_kernels_whole(const struct trace_rank *r, size_t *slow, size_t *normal);
/* The step that a device record was launched in, or -1. */
ptrdiff_t report_kernels_step(const struct trace_rank *r, const struct record *device);

#endif
