/* SPDX-License-Identifier: Apache-2.0
 * report_kernels.h - device time per step and kernel name, in slow steps against the others of the
 * same windows. Pure; the result is the caller's to free. */
#ifndef SYSOM_CLI_REPORT_KERNELS_H
#define SYSOM_CLI_REPORT_KERNELS_H

#include "cli/trace_model.h"

struct report_kernel {
	uint32_t name;
	uint64_t slow_count, normal_count;
	double slow_ns, normal_ns; /* per step */
};

/* By the difference, largest first. *slow_steps, *normal_steps: steps whose records are all there;
 * others don't count. NULL when there are none, or no memory. */
struct report_kernel *report_kernels_make(const struct trace_model *m, const struct trace_rank *r,
					  size_t *count, size_t *slow_steps, size_t *normal_steps);

#endif
