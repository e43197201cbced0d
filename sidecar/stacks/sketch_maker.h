/* SPDX-License-Identifier: Apache-2.0
 * sketch_maker.h - once a minute, what is normal of each rank, to the aggregator (DESIGN.md 1, sketch).
 * The loop takes the figures of the healthy steps; a thread that runs only when nobody else wants the CPU
 * adds the functions and settings, and hands the message to the uplink.
 * Owns: the thread.  Threads: the loop's. */
#ifndef SYSOM_SIDECAR_STACKS_SKETCH_MAKER_H
#define SYSOM_SIDECAR_STACKS_SKETCH_MAKER_H

#include "sidecar/stacks/cpu_profile.h"

struct node;
struct sketch_maker; /* opaque */

struct sketch_maker_stats {
	uint64_t made, failed; /* failed: for want of memory, or too large with nothing in them */
	uint64_t cut; /* entries that had no room, of functions and kernels */
	uint64_t cpu_ns; /* of the thread */
	struct cpu_profile_stats profile;
};

int sketch_maker_open(struct node *n);
void sketch_maker_close(struct node *n); /* what is being made is still handed over */
/* Takes those that are due, of ranks whose model no longer learns. Never waits. */
void sketch_maker_tend(struct node *n, uint64_t now_ns);
void sketch_maker_stats_get(const struct node *n, struct sketch_maker_stats *out);

#endif
