/* SPDX-License-Identifier: Apache-2.0
 * explain.h - where the extra time of slow steps went: which kernels, or which gap.
 * A baseline of healthy steps per model key (running medians of the time per kernel name, and of
 * idle, launch gap, copy and exposed communication time) against the flagged ones.
 * Pure; memory is the caller's. */
#ifndef SYSOM_ANALYSIS_EXPLAIN_H
#define SYSOM_ANALYSIS_EXPLAIN_H

#include "analysis/steps.h"

enum explain_kind {
	EXPLAIN_KERNEL = 1,	  /* one kernel name takes longer */
	EXPLAIN_ALL_KERNELS = 2,  /* compute kernels are slower throughout: ratio in observed/expected */
	EXPLAIN_GAP = 3,	  /* the device idles: the host launches late */
	EXPLAIN_COPY = 4,
	EXPLAIN_COMM_WAIT = 5,	  /* waits in collectives: somebody else is late */
	EXPLAIN_EXTRA_KERNELS = 6,/* more kernels than usual */
};

struct explain_part {
	uint32_t kind; /* enum explain_kind */
	uint32_t name; /* KERNEL */
	double expected_ns, observed_ns; /* per step, medians */
	double share; /* of the whole excess, 0..1 */
};
#define EXPLAIN_PARTS_MAX 16

struct explain; /* opaque */
size_t explain_memory_bytes(uint32_t keys_max);
struct explain *explain_init(void *memory, uint32_t keys_max);
/* A healthy step (not out, no flags that forbid judging). */
void explain_learn(struct explain *e, const struct step *s, const struct step_kernel *kernels,
		   uint32_t kernel_count);
/* A flagged step of the open window; explain_begin forgets the earlier ones. */
void explain_begin(struct explain *e);
void explain_add(struct explain *e, const struct step *s, const struct step_kernel *kernels,
		 uint32_t kernel_count);
/* Parts by share, largest first; their count. 0 when there is no baseline for the steps' key. */
uint32_t explain_parts(const struct explain *e, struct explain_part *out, uint32_t max);
const char *explain_kind_name(unsigned kind); /* "kernel", "all-kernels", "gap", ... */

#endif
