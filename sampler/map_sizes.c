/* SPDX-License-Identifier: Apache-2.0
 * map_sizes.c - see map_sizes.h. */
#include "sampler/map_sizes.h"

#include "base/limits.h"

#define DRAIN_S	       5u
#define COUNTS_MIN     16384u /* blocked time needs this many at any sampling rate */
#define SEEN	       16384u
#define BLOCKED	       16384u
#define SITES	       8192u
#define RING_CPU_BYTES (256u << 10)
#define RING_MIN_BYTES (1u << 20)
#define RING_MAX_BYTES (8u << 20)
/* It holds some 6,500 records and is emptied every 100 ms. The reader is woken when a quarter is
 * full. */
#define SWITCH_RING_BYTES (512u << 10)

static uint32_t power_of_two(uint64_t at_least, uint32_t min, uint32_t max)
{
	uint32_t v = min;

	while (v < at_least && v < max)
		v <<= 1;
	return v;
}

void map_sizes_for(struct map_sizes *out, uint32_t cpus, uint32_t rate_hz, uint32_t halvings)
{
	uint32_t by = halvings < MAP_SIZES_HALVINGS ? halvings : MAP_SIZES_HALVINGS;

	out->counts =
	    power_of_two((uint64_t)cpus * rate_hz * DRAIN_S, COUNTS_MIN, LIMIT_SAMPLER_COUNTS) >>
	    by;
	out->seen = SEEN >> by;
	out->blocked = BLOCKED >> by;
	out->sites = SITES >> by;
	out->ring_bytes =
	    power_of_two((uint64_t)cpus * RING_CPU_BYTES, RING_MIN_BYTES, RING_MAX_BYTES) >> by;
	out->switch_ring_bytes = SWITCH_RING_BYTES >> by;
}
