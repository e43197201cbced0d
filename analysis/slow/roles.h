/* SPDX-License-Identifier: Apache-2.0
 * roles.h - which ranks are comparable, learned from the kernels that they launch: ranks with the same
 * kernels and the same launches per step do the same work. Times do not count, because a slow rank
 * must stay among its peers. Names are compared without template arguments, because a rank with
 * another variant of a kernel must stay as well. Deterministic; independent of the order of the
 * ranks. Pure; memory is the caller's. Threads: any. */
#pragma once

#include <stdint.h>

struct roles_kernel {
	uint64_t key; /* roles_key of its name */
	float count;  /* launches per step */
};
struct roles_rank {
	const struct roles_kernel *kernel; /* ascending keys, each once */
	uint32_t kernel_count;
};
/* Key of a kernel name, mangled or not. Variants of one kernel have the same key, since digits and
 * template arguments are left out. */
uint64_t roles_key(const char *name);
/* Similarity of two ranks' launches, 0 to 1: the sum of the smaller counts over the sum of the
 * larger. */
double roles_alike(const struct roles_rank *a, const struct roles_rank *b);
/* Sets role[i] of each of n ranks, and returns the number of roles. Roles are numbered from 0, in
 * order of their lowest rank. */
uint32_t roles_learn(const struct roles_rank *rank, uint32_t n, uint32_t *role);
