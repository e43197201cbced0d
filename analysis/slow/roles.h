/* SPDX-License-Identifier: Apache-2.0
 * roles.h - which ranks are comparable. Where the pipeline stage is known, it is the role; else roles are
 * learned from what the ranks launch and from whom they talk to: ranks with the same kernels in the same
 * numbers per step do the same work. Times play no part: a slow rank must stay among its peers, and so
 * must one that runs another variant of a kernel, so names are compared without template arguments and
 * counts, not times, are the weights. Deterministic, and the order of the ranks plays no part.
 * Pure; memory is the caller's. Threads: any. */
#ifndef SYSOM_ANALYSIS_SLOW_ROLES_H
#define SYSOM_ANALYSIS_SLOW_ROLES_H

#include <stddef.h>
#include <stdint.h>

struct roles_kernel {
	uint64_t key; /* roles_key of its name */
	float count;  /* launches per step */
};
struct roles_rank {
	int32_t stage; /* negative: not known */
	const struct roles_kernel *kernel; /* ascending keys, each once */
	uint32_t kernel_count;
	const uint64_t *comm; /* collective communicators of some ranks, not all; ascending */
	uint32_t comm_count;
};
/* Of a mangled or plain kernel name, apart from what variants of one kernel differ in: digits and
 * template arguments. */
uint64_t roles_key(const char *name);
/* How alike two ranks' launches are: sum of the smaller over sum of the larger counts, 0 to 1. */
double roles_alike(const struct roles_rank *a, const struct roles_rank *b);
/* role[i] for each of n ranks: 0 to the returned number - 1, in order of their lowest rank. */
uint32_t roles_learn(const struct roles_rank *rank, uint32_t n, uint32_t *role);

#endif
