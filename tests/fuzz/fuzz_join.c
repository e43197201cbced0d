/* SPDX-License-Identifier: Apache-2.0
 * fuzz_join.c - any sequence of events that passed the ring's checks: the join's counts add up and
 * no record is handed out that breaks record.h's promises. Input: per event one byte of lane and
 * kind, then as many bytes of the slot as are left, 24 at most; the rest is small and regular, so that
 * handles and shapes meet. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "node/join/join.h"
#include "node/links.h"
#include "tests/fuzz/fuzz_budget.h"

#define MS 1000000ull

struct counts {
	uint64_t host, device, unmatched;
	struct links *links;
};

/* The state of a join and of what receives its records. */
struct fuzz_bounds fuzz_bounds = {
    .moved = 1u << 20,
    .moved_per_byte = 1024,
    .allocated = 32u << 20,
    .allocated_per_byte = 1024,
    .cpu_us = 20000,
    .cpu_ns_per_byte = 10000,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void got_host(void *arg, const struct record *r, const struct step_mark *mark)
{
	CHECK(!RECORD_IS_DEVICE(r->kind));
	CHECK(!mark || mark->work_count <= STEP_WORK_MAX);
	((struct counts *)arg)->host++;
}

static void got_device(void *arg, const struct record *r)
{
	struct counts *c = arg;

	CHECK(RECORD_IS_DEVICE(r->kind));
	CHECK(r->end_ns >= r->begin_ns);
	c->device++;
	if (r->flags & RECORD_FLAG_UNMATCHED) {
		CHECK(!r->launch_ns);
		c->unmatched++;
	}
}

static void got_transfer(void *arg, const struct transfer *t)
{
	links_add(((struct counts *)arg)->links, t);
}

static void got_link(void *arg, const struct links_verdict *v)
{
	CHECK(v->change.low <= v->change.ratio);
	CHECK(v->lost_ns >= 0);
}

static const char *name_of(void *arg, uint32_t id)
{
	return id == 1	 ? "ncclDevKernel_AllReduce"
	       : id == 2 ? "adam_kernel"
	       : id == 3 ? "gemm"
			 : "";
}

static void make_event(union ring_event *e, uint8_t head, uint32_t n, uint32_t *number)
{
	static const uint8_t host[] = {1, 1, 20, 3, 3, 4, 2, 11, 12, 13, 19, 18, 7, 8, 9, 10};
	static const uint8_t device[] = {32, 32, 32, 33, 34, 32, 32, 32};
	bool dev = head & 0x80;

	memset(e, 0, sizeof(*e));
	e->head.kind = dev ? device[head & 7] : host[head & 15];
	e->head.t = 1000 * MS + n * 10000;
	if (dev) {
		e->kernel.end = e->head.t + 5000;
		e->kernel.correlation = n;
		e->kernel.stream_id = 7;
		e->kernel.grid[0] = head >> 3 & 3;
		e->kernel.name = head >> 5 & 3;
		e->kernel.number = number[1] += 1 + (head >> 3 & 1);
	} else if (e->head.kind == EVENT_LAUNCH) {
		e->launch.stream = 0x50;
		e->launch.grid[0] = head >> 4 & 3;
		e->launch.number = ++number[0];
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct clockmap clock = {.count = 1, .ns_per_tick = 1, .anchors = {{1, 1, 1, 0}}};
	struct counts c = {0};
	struct join_sink sink = {&c, got_host, got_device, name_of, got_transfer, NULL};
	uint64_t now_ns = 1100 * MS, copies;
	const struct join_stats *st;
	struct join *j;
	uint32_t n = 0, number[2] = {0}; /* of launches and kernels */

	CHECK(!links_open(&c.links, NULL));
	CHECK(!join_open(&j, &sink, &clock, 4));
	for (size_t at = 0; at + 2 <= bytes; n++) {
		struct ring_lane_view v = {.lane = data[at] & 3,
					   .tid = data[at] & 1,
					   .clock_source = CLOCK_SOURCE_MONOTONIC,
					   .generation = data[at] >> 6};
		size_t take = data[at + 1] >> 3 & 0x18;
		union ring_event e;

		v.kind = data[at] & 0x80 ? RING_LANE_DEVICE : RING_LANE_HOST;
		make_event(&e, data[at], n, number);
		at += 2;
		if (take > bytes - at)
			take = bytes - at;
		memcpy(e.bytes + 8 + (data[at - 1] & 7) * 5, data + at, take);
		at += take;
		join_push(j, &e, 1, &v, now_ns);
		if (n % 64 == 63)
			join_run(j, now_ns += 50 * MS);
		if (n % 256 == 255)
			links_judge(c.links, now_ns, got_link, NULL);
	}
	join_finish(j);
	st = join_stats(j);
	copies = st->copies;
	CHECK(c.device == st->device_events - st->loss[JOIN_UNKNOWN_EVENT] ||
	      c.device <= st->device_events);
	CHECK(st->kernels_joined + st->kernels_unmatched + copies == c.device);
	CHECK(c.unmatched == st->kernels_unmatched);
	links_judge(c.links, now_ns, got_link, NULL);
	links_close(c.links);
	join_close(j);
	return 0;
}
