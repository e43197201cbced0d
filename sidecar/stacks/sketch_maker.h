/* SPDX-License-Identifier: Apache-2.0
 * sketch_maker.h - send a sketch of each rank to the aggregator once a minute.
 * The loop collects the figures of healthy steps. A thread of lowest priority adds functions and
 * settings, and hands the message to the uplink.
 * Owns: the thread.  Threads: the loop's. */
#pragma once

#include "sidecar/stacks/cpu_profile.h"

struct node;
struct sketch_maker; /* opaque */

struct sketch_maker_stats {
	uint64_t made, failed; /* failed: no memory, or too large even when empty */
	uint64_t cut;	       /* functions and kernels omitted for lack of room */
	uint64_t cpu_ns;       /* CPU time of the thread */
	struct cpu_profile_stats profile;
};

int sketch_maker_open(struct node *n);
void sketch_maker_close(struct node *n); /* waits for the sketch in progress */
/* Starts the sketches that are due, of ranks whose model no longer learns. Never waits. */
void sketch_maker_tend(struct node *n, uint64_t now_ns);
void sketch_maker_stats_get(const struct node *n, struct sketch_maker_stats *out);
