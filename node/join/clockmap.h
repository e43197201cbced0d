/* SPDX-License-Identifier: Apache-2.0
 * clockmap.h - convert raw stamps to CLOCK_MONOTONIC nanoseconds, using our own anchors. Owns: a
 * history of anchors. Threads: one caller. Trust: a stamp may be any number, and so may the result;
 * the caller checks it against its own clock. The map interpolates between anchors. Before the
 * first and after the last it extrapolates with the recent rate. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

/* Two minutes at one per second: the longest that an event may wait in a ring or a CUPTI buffer. */
#define CLOCKMAP_ANCHORS 128

struct clockmap_anchor {
	uint64_t ticks, monotonic_ns, realtime_ns;
	uint64_t spread_ns; /* uncertainty of the readings */
};

struct clockmap {
	struct clockmap_anchor anchors[CLOCKMAP_ANCHORS]; /* oldest first */
	uint32_t count;
	double ns_per_tick;
	uint64_t error_ns; /* recent error of extrapolation */
};

/* Reads the three clocks together. Takes the best of a few tries. */
void clockmap_read(struct clockmap_anchor *out);
/* Reads the clocks twice, some milliseconds apart. */
void clockmap_init(struct clockmap *m);
/* Adds an anchor. Ignores one that is not later than the last. */
void clockmap_add(struct clockmap *m, const struct clockmap_anchor *a);
/* Slow path of clockmap_ns: for a stamp before the newest anchor, or of another clock. */
uint64_t clockmap_convert(const struct clockmap *m, uint8_t source, uint64_t stamp);

/* source: enum clock_source; an unknown one gives 0. */
static inline uint64_t clockmap_ns(const struct clockmap *m, uint8_t source, uint64_t stamp)
{
	const struct clockmap_anchor *last = &m->anchors[m->count - 1];

	if (source == CLOCK_SOURCE_MONOTONIC)
		return stamp;
	if (source == CLOCK_SOURCE_TSC && stamp >= last->ticks)
		return last->monotonic_ns +
		       (uint64_t)((double)((stamp - last->ticks) & INT64_MAX) * m->ns_per_tick);
	return clockmap_convert(m, source, stamp);
}

/* Converts a difference of stamps to nanoseconds. */
static inline uint64_t clockmap_duration(const struct clockmap *m, uint8_t source, uint64_t ticks)
{
	return source == CLOCK_SOURCE_TSC ? (uint64_t)((double)ticks * m->ns_per_tick) : ticks;
}
