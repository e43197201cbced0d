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

struct report_kernel_steps {
	size_t slow, normal; /* that count: their records are all there */
	size_t unlike;	     /* that don't, as they have more or fewer kernels than nearly all others */
};

/* By the difference, largest first. NULL when there are none, or no memory. */
struct report_kernel *report_kernels_make(const struct trace_model *m, const struct trace_rank *r,
					  size_t *count, struct report_kernel_steps *steps);

#endif
