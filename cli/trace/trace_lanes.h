/* SPDX-License-Identifier: Apache-2.0
 * trace_lanes.h - lays slices out so that on each lane they nest properly (or do not overlap at
 * all): trace viewers pair begins and ends per track. Pure; memory is the caller's. */
#ifndef SYSOM_CLI_TRACE_TRACE_LANES_H
#define SYSOM_CLI_TRACE_TRACE_LANES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TRACE_LANES_MAX	  64 /* parallel graph branches, nested asynchronous spans: seldom above 8 */
#define TRACE_LANES_DEPTH 64 /* of nesting on one lane */
#define TRACE_LANES_NONE  0xff

struct trace_slice {
	uint64_t begin_ns, end_ns;
	const void *of; /* the caller's */
	uint8_t lane;	/* filled in; TRACE_LANES_NONE: no room */
};

/* slices: by (begin, end descending). nest: one may lie inside another. Returns the number of lanes;
 * *left_out counts slices without one. */
unsigned trace_lanes_assign(struct trace_slice *slices, size_t count, bool nest,
			    uint64_t *left_out);

#endif
