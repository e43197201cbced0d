/* SPDX-License-Identifier: Apache-2.0
 * trace_lanes.h - distributes slices to lanes so that they nest properly (or do not overlap) on each lane:
 * trace viewers match the start and end of slices per track. Pure; the caller owns the memory. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TRACE_LANES_MAX	  64 /* for parallel graph branches and asynchronous spans; rarely above 8 */
#define TRACE_LANES_DEPTH 64 /* of nesting on one lane */
#define TRACE_LANES_NONE  0xff

struct trace_slice {
	uint64_t begin_ns, end_ns;
	const void *of; /* the caller's */
	uint8_t lane;	/* result; TRACE_LANES_NONE: no room */
};

/* slices: sorted by start, longer ones first. nest: one may be inside another. Returns the number of lanes;
 * *left_out: slices without a lane. */
unsigned trace_lanes_assign(struct trace_slice *slices, size_t count, bool nest,
			    uint64_t *left_out);
