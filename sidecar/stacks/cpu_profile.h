/* SPDX-License-Identifier: Apache-2.0
 * cpu_profile.h - CPU and blocked time of ranks by function, from drained periods, for sketches.
 * Native frames get their names from this node's symbol files, through a cache by (file, address).
 * A frame without a symbol is named by file and page: "libcuda.so.1+0x2f5000". Python and kernel
 * frames have names already. A new address costs a search, and a new file costs building its index.
 * So naming has a budget of CPU time per round. Frames beyond the budget are named by file and
 * page, and looked up in a later round.
 * Owns: the resolver, the tables. Threads: one caller. Trust: batches are valid
 * (stack_batch_valid), names in them anything; tables are bounded. */
#pragma once

#include "model/stack.h"
#include "model/window.h"
#include "node/normal.h"
#include "symbol/symbol_reader.h"

#define CPU_PROFILE_BUDGET_NS 2000000000ull /* of naming, per round; a round is a minute */

struct cpu_profile_options {
	const char *proc_root; /* borrowed */
	const char *index_dir; /* directory for symbol indexes; NULL: a private one */
	bool resolve;	       /* look symbols up at all */
	struct symbol_reader
	    *reader; /* reads the files, borrowed; NULL: this process does, for tests */
};

struct cpu_profile_rank {
	uint32_t pid; /* the rank's process */
	uint64_t begin_ns, end_ns;
	const struct normal_when *when; /* borrowed until the round's end; its spans are left out */
};

struct cpu_profile_stats {
	uint64_t rounds, named, unnamed, over_budget;
};

struct cpu_profile; /* opaque */
int cpu_profile_open(struct cpu_profile **out, const struct cpu_profile_options *o);
void cpu_profile_close(struct cpu_profile *p); /* NULL is a no-op */
/* Begins a round for count ranks, at most LIMIT_NODE_PROCESSES. 0, -ENOMEM. */
int cpu_profile_begin(struct cpu_profile *p, const struct cpu_profile_rank *ranks, uint32_t count);
/* Adds one drained period. root_of: the rank's process that pid belongs to; 0: none. 0, -ENOMEM. */
int cpu_profile_add(struct cpu_profile *p, const struct stack_batch *b,
		    uint32_t (*root_of)(void *arg, uint32_t pid), void *arg);
/* Fills s with the functions that took a thousandth of the rank's CPU or blocked time, largest
 * first, and with cpu_ns, samples, off_ns and gil_wait_ns. latency_ns of s must be set. 0,
 * -ENOMEM. */
int cpu_profile_take(struct cpu_profile *p, uint32_t rank, struct sketch *s);
void cpu_profile_stats_get(const struct cpu_profile *p, struct cpu_profile_stats *out);
