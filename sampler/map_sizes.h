/* SPDX-License-Identifier: Apache-2.0
 * map_sizes.h - sizes of the sampler's BPF maps, by node and rate.
 * Owns: nothing.  Threads: any. */
#pragma once

#include <stdint.h>

/* If the maps do not fit after this many halvings, the locked-memory limit is too small. */
#define MAP_SIZES_HALVINGS 4u

struct map_sizes {
	uint32_t counts;	    /* entries of each of the two sets, a power of two */
	uint32_t seen;		    /* hashes of stacks that were already sent */
	uint32_t blocked;	    /* threads asleep */
	uint32_t sites;		    /* places of sleep */
	uint32_t ring_bytes;	    /* a power of two, whole pages */
	uint32_t switch_ring_bytes; /* for records of switches; a power of two, whole pages */
};

/* Sizes for the samples of one drain of 5 s: every tick is sampled (fraction 100%, as in an
 * anomaly) on `cpus` CPUs at rate_hz, and each sample has a count of its own, within
 * LIMIT_SAMPLER_COUNTS. halvings: how often the sizes are halved, if the kernel grants less locked
 * memory (before Linux 5.11). */
void map_sizes_for(struct map_sizes *out, uint32_t cpus, uint32_t rate_hz, uint32_t halvings);
