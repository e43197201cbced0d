/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/trace/trace_lanes.h"

struct lane {
	uint64_t ends[TRACE_LANES_DEPTH];
	unsigned depth;
};

static bool fits(struct lane *l, const struct trace_slice *s, bool nest)
{
	while (l->depth && l->ends[l->depth - 1] <= s->begin_ns)
		l->depth--;
	if (!l->depth)
		return true;
	return nest && l->depth < TRACE_LANES_DEPTH && s->end_ns <= l->ends[l->depth - 1];
}

unsigned trace_lanes_assign(struct trace_slice *slices, size_t count, bool nest, uint64_t *left_out)
{
	struct lane lanes[TRACE_LANES_MAX];
	unsigned used = 0;

	for (size_t i = 0; i < count; i++) {
		struct trace_slice *s = &slices[i];
		unsigned k = 0;

		while (k < used && !fits(&lanes[k], s, nest))
			k++;
		if (k == TRACE_LANES_MAX) {
			s->lane = TRACE_LANES_NONE;
			(*left_out)++;
			continue;
		}
		if (k == used)
			lanes[used++].depth = 0;
		lanes[k].ends[lanes[k].depth++] = s->end_ns;
		s->lane = (uint8_t)k;
	}
	return used;
}
