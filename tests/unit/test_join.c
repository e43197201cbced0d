/* SPDX-License-Identifier: Apache-2.0
 * test_join.c - constructed events in, records out: what must be joined is, what is lost is counted,
 * what is ambiguous is not joined. Stamps are CLOCK_MONOTONIC numbers of our own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "node/join/join.h"

#define MS     1000000ull
#define T0     (1000 * MS)
#define CTX    0xc0de0000ull
#define CTX_ID 3u

enum { NAME_GEMM = 1, NAME_RELU, NAME_NCCL };

struct rig {
	struct clockmap clock;
	struct join *j;
	struct record host[512], device[512];
	unsigned host_count, device_count;
	struct step_mark mark;
	struct transfer transfer;
	uint8_t gpu[16];
	unsigned gpu_count;
	uint64_t now_ns;
	uint32_t kernel_epoch, launched[256], ran[256]; /* by the last byte of handle and id */
};

static void got_host(void *arg, const struct record *r, const struct step_mark *mark)
{
	struct rig *g = arg;

	assert_true(g->host_count < 512);
	g->host[g->host_count++] = *r;
	if (mark)
		g->mark = *mark;
}

static void got_device(void *arg, const struct record *r)
{
	struct rig *g = arg;

	assert_true(g->device_count < 512);
	g->device[g->device_count++] = *r;
}

static void got_transfer(void *arg, const struct transfer *t)
{
	((struct rig *)arg)->transfer = *t;
}

static void got_gpu(void *arg, const uint8_t uuid[16])
{
	struct rig *g = arg;

	memcpy(g->gpu, uuid, sizeof(g->gpu));
	g->gpu_count++;
}

static const char *name_of(void *arg, uint32_t id)
{
	static const char *const names[] = {"", "gemm", "relu", "ncclDevKernel_AllReduce_Sum_f32"};

	return id < 4 ? names[id] : "";
}

static int setup(void **state)
{
	struct rig *g = calloc(1, sizeof(*g));
	struct join_sink sink = {g, got_host, got_device, name_of, got_transfer, got_gpu};

	g->clock.anchors[0] = (struct clockmap_anchor){1, 1, 1, 0};
	g->clock.count = 1;
	g->clock.ns_per_tick = 1;
	g->now_ns = T0;
	*state = g;
	return join_open(&g->j, &sink, &g->clock, 8);
}

static int teardown(void **state)
{
	struct rig *g = *state;

	join_close(g->j);
	free(g);
	return 0;
}

static void push(struct rig *g, unsigned lane, const void *event, size_t bytes, bool device)
{
	struct ring_lane_view v = {.lane = lane,
				   .tid = 100 + lane,
				   .generation = 1,
				   .kind = device ? RING_LANE_DEVICE : RING_LANE_HOST,
				   .clock_source = CLOCK_SOURCE_MONOTONIC};
	union ring_event e = {0};

	memcpy(&e, event, bytes);
	join_push(g->j, &e, 1, &v, g->now_ns);
}

/* Time goes on so that everything pushed so far is due. */
static void settle(struct rig *g)
{
	g->now_ns += 2000 * MS;
	join_run(g->j, g->now_ns);
	g->now_ns += 1000 * MS;
	join_run(g->j, g->now_ns);
}

static void push_stream(struct rig *g, uint64_t stream, uint32_t id)
{
	struct event_stream e = {.head = {.kind = EVENT_STREAM, .t = T0 - 100 * MS},
				 .stream = stream,
				 .context = CTX,
				 .stream_id = id,
				 .context_id = CTX_ID};

	push(g, 0, &e, sizeof(e), false);
}

static void launch(struct rig *g, unsigned lane, uint64_t t, uint64_t stream, uint32_t grid)
{
	struct event_launch e = {.head = {.kind = EVENT_LAUNCH, .t = t},
				 .func = 0x1000 + grid,
				 .stream = stream,
				 .grid = {grid, 1, 1},
				 .block = {128, 1, 1},
				 .duration = 5000,
				 .number = RING_NUMBER(0, ++g->launched[stream & 255])};

	push(g, lane, &e, sizeof(e), false);
}

static void kernel_named(struct rig *g, uint64_t t, uint32_t stream_id, uint32_t grid,
			 uint32_t correlation, uint32_t name)
{
	struct event_kernel e = {.head = {.kind = EVENT_KERNEL, .t = t},
				 .end = t + 10000,
				 .correlation = correlation,
				 .context_id = CTX_ID,
				 .stream_id = stream_id,
				 .name = name,
				 .grid = {grid, 1, 1},
				 .block = {128, 1, 1},
				 .number = RING_NUMBER(g->kernel_epoch, ++g->ran[stream_id & 255])};

	push(g, 7, &e, sizeof(e), true);
}

static void kernel(struct rig *g, uint64_t t, uint32_t stream_id, uint32_t grid,
		   uint32_t correlation)
{
	kernel_named(g, t, stream_id, grid, correlation, NAME_GEMM);
}

static const struct record *by_correlation(const struct rig *g, uint32_t correlation)
{
	for (unsigned i = 0; i < g->device_count; i++)
		if (g->device[i].correlation == correlation)
			return &g->device[i];
	fail_msg("no device record %u", correlation);
	return NULL;
}

static uint64_t loss(const struct rig *g, enum join_loss l)
{
	return join_stats(g->j)->loss[l];
}

static void joins_kernels_to_launches_in_order(void **state)
{
	struct rig *g = *state;

	push_stream(g, 0x50, 7);
	for (unsigned i = 0; i < 20; i++)
		launch(g, 0, T0 + i * MS, 0x50, 1 + i % 3);
	for (unsigned i = 0; i < 20; i++)
		kernel(g, T0 + i * MS + 20000, 7, 1 + i % 3, 10 + i);
	settle(g);
	assert_int_equal(g->device_count, 20);
	for (unsigned i = 0; i < 20; i++) {
		assert_int_equal(g->device[i].launch_ns, T0 + i * MS);
		assert_false(g->device[i].flags & RECORD_FLAG_UNMATCHED);
	}
	assert_int_equal(join_stats(g->j)->kernels_joined, 20);
	assert_int_equal(g->host[0].stream, 7);
}

static void merges_lanes_by_time(void **state)
{
	struct rig *g = *state;

	for (unsigned i = 0; i < 10; i++)
		launch(g, 0, T0 + (2 * i + 1) * MS, 0x50, 1);
	for (unsigned i = 0; i < 10; i++)
		launch(g, 1, T0 + 2 * i * MS, 0x60, 1);
	settle(g);
	assert_int_equal(g->host_count, 20);
	for (unsigned i = 1; i < 20; i++)
		assert_true(g->host[i - 1].begin_ns < g->host[i].begin_ns);
}

static void hands_out_a_late_event_and_says_so(void **state)
{
	struct rig *g = *state;

	launch(g, 0, T0 + 10 * MS, 0x50, 1);
	settle(g);
	launch(g, 1, T0 + 5 * MS, 0x60, 1);
	settle(g);
	assert_int_equal(g->host_count, 2);
}

static void keeps_streams_apart(void **state)
{
	struct rig *g = *state;

	push_stream(g, 0x50, 7);
	push_stream(g, 0x60, 13);
	for (unsigned i = 0; i < 10; i++) {
		launch(g, 0, T0 + 2 * i * MS, 0x50, 1);
		launch(g, 0, T0 + (2 * i + 1) * MS, 0x60, 1);
	}
	/* The second stream runs first. */
	for (unsigned i = 0; i < 10; i++)
		kernel(g, T0 + (2 * i + 1) * MS + 20000, 13, 1, 200 + i);
	for (unsigned i = 0; i < 10; i++)
		kernel(g, T0 + 100 * MS + i * MS, 7, 1, 100 + i);
	settle(g);
	for (unsigned i = 0; i < 10; i++) {
		assert_int_equal(by_correlation(g, 100 + i)->launch_ns, T0 + 2 * i * MS);
		assert_int_equal(by_correlation(g, 200 + i)->launch_ns, T0 + (2 * i + 1) * MS);
	}
}

/* The ring loses it; it was counted. */
static void a_lost_kernel_costs_its_launch_only(void **state)
{
	struct rig *g = *state;

	push_stream(g, 0x50, 7);
	for (unsigned i = 0; i < 30; i++)
		launch(g, 0, T0 + i * MS, 0x50, 1);
	for (unsigned i = 0; i < 30; i++)
		if (i != 11)
			kernel(g, T0 + i * MS + 20000, 7, 1, 100 + i);
		else
			g->ran[7]++;
	settle(g);
	assert_int_equal(g->device_count, 29);
	for (unsigned i = 0; i < 30; i++)
		if (i != 11)
			assert_int_equal(by_correlation(g, 100 + i)->launch_ns, T0 + i * MS);
	assert_int_equal(loss(g, JOIN_LAUNCH_NO_KERNEL), 1);
	assert_int_equal(join_stats(g->j)->kernels_unmatched, 0);
}

static void a_lost_launch_costs_its_kernel_only(void **state)
{
	struct rig *g = *state;

	push_stream(g, 0x50, 7);
	for (unsigned i = 0; i < 30; i++)
		if (i != 11 && i != 12)
			launch(g, 0, T0 + i * MS, 0x50, 1);
		else
			g->launched[0x50]++;
	for (unsigned i = 0; i < 30; i++)
		kernel(g, T0 + i * MS + 20000, 7, 1, 100 + i);
	settle(g);
	assert_int_equal(g->device_count, 30);
	for (unsigned i = 0; i < 30; i++) {
		const struct record *r = by_correlation(g, 100 + i);

		if (i == 11 || i == 12)
			assert_true(r->flags & RECORD_FLAG_UNMATCHED);
		else
			assert_int_equal(r->launch_ns, T0 + i * MS);
	}
	assert_int_equal(loss(g, JOIN_KERNEL_NO_LAUNCH), 2);
	assert_int_equal(loss(g, JOIN_LAUNCH_NO_KERNEL), 0);
}

static void never_joins_a_kernel_to_a_later_launch(void **state)
{
	struct rig *g = *state;

	push_stream(g, 0x50, 7);
	launch(g, 0, T0 + 100 * MS, 0x50, 1);
	kernel(g, T0, 7, 1, 1);
	settle(g);
	assert_true(g->device[0].flags & RECORD_FLAG_UNMATCHED);
	assert_int_equal(loss(g, JOIN_KERNEL_AMBIGUOUS), 1);
}

static void counts_an_ambiguous_alignment_and_joins_nothing(void **state)
{
	struct rig *g = *state;

	/* Records were lost uncounted before; skipping one launch or three fit alike. */
	push_stream(g, 0x50, 7);
	g->kernel_epoch = 1;
	for (unsigned i = 0; i < 6; i++)
		launch(g, 0, T0 + i * 1000, 0x50, 1 + i % 2);
	for (unsigned i = 0; i < 6; i++)
		kernel(g, T0 + 10 * MS + i * 20000, 7, 1 + (i + 1) % 2, 100 + i);
	settle(g);
	assert_int_equal(g->device_count, 6);
	assert_true(loss(g, JOIN_KERNEL_AMBIGUOUS) > 0);
	assert_true(g->device[0].flags & RECORD_FLAG_UNMATCHED);
}

static void learns_a_stream_without_reported_ids(void **state)
{
	struct rig *g = *state;

	for (unsigned i = 0; i < 16; i++) {
		launch(g, 0, T0 + 2 * i * MS, 0x50, 1 + i);
		launch(g, 0, T0 + (2 * i + 1) * MS, 0x60, 100 + i);
	}
	for (unsigned i = 0; i < 16; i++) {
		kernel(g, T0 + 2 * i * MS + 20000, 21, 1 + i, 1000 + i);
		kernel(g, T0 + (2 * i + 1) * MS + 20000, 22, 100 + i, 2000 + i);
	}
	settle(g);
	for (unsigned i = 0; i < 16; i++) {
		/* eight in a row have to fit */
		assert_int_equal(by_correlation(g, 1000 + i)->launch_ns,
				 i < 7 ? 0 : T0 + 2 * i * MS);
		assert_int_equal(by_correlation(g, 2000 + i)->launch_ns,
				 i < 7 ? 0 : T0 + (2 * i + 1) * MS);
	}
}

/* Launches whose kernels were lost to the gap, on a stream where all kernels look alike. */
static void a_gap_of(struct rig *g, uint16_t cause)
{
	struct event_gap gap = {
	    .head = {.kind = EVENT_GAP, .t = T0 + 4 * MS}, .to = T0 + 50 * MS, .cause = cause};

	push_stream(g, 0x51, 7);
	for (uint32_t i = 0; i < 4; i++)
		launch(g, 1, T0 + i * MS, 0x51, 8);
	for (uint32_t i = 0; i < 2; i++)
		kernel(g, T0 + 2 * MS + i * MS, 7, 8, i);
	settle(g);
	push(g, 1, &gap, sizeof(gap), false);
	g->kernel_epoch++;
	/* the launch after a kernel shows that none was missed before it */
	for (uint32_t k = 0; k < 2; k++) {
		for (uint32_t i = 0; i < 4; i++)
			launch(g, 1, T0 + (60 + 20 * k + i) * MS, 0x51, 8);
		for (uint32_t i = 0; i < 4; i++)
			kernel(g, T0 + (70 + 20 * k + i) * MS, 7, 8, 10 + 10 * k + i);
	}
	settle(g);
	for (uint32_t i = 0; i < 4; i++) {
		assert_int_equal(by_correlation(g, 10 + i)->launch_ns,
				 i < 3 ? 0 : T0 + (60 + i) * MS);
		assert_int_equal(by_correlation(g, 20 + i)->launch_ns, T0 + (80 + i) * MS);
	}
	/* What somebody asked for is counted, and no loss. */
	assert_int_equal(loss(g, JOIN_LAUNCH_NO_KERNEL), cause == GAP_SWITCHED_OFF ? 3 : 5);
	assert_int_equal(join_stats(g->j)->switched_off, cause == GAP_SWITCHED_OFF ? 2 : 0);
}

static void a_gap_shifts_nothing_after_it(void **state)
{
	static const uint16_t causes[] = {GAP_SWITCHED_OFF, GAP_CUPTI_YIELDED, GAP_GOVERNED,
					  GAP_NO_READER};

	for (size_t i = 0; i < sizeof(causes) / sizeof(causes[0]); i++) {
		a_gap_of(*state, causes[i]);
		teardown(state);
		assert_int_equal(setup(state), 0);
	}
}

static void wait_for(struct rig *g, uint64_t t, uint64_t ns, uint64_t handle, uint16_t scope)
{
	struct event_sync e = {.head = {.kind = EVENT_SYNC, .t = t},
			       .handle = handle,
			       .scope = scope,
			       .duration = (uint32_t)ns};

	push(g, 1, &e, sizeof(e), false);
}

/* A record too few on a stream where all look alike, counted by nobody: until the host waits. */
static void a_shift_ends_where_the_host_waits(void **state)
{
	static const uint16_t scopes[] = {SYNC_STREAM, SYNC_CONTEXT};

	for (size_t k = 0; k < 2; k++) {
		struct rig *g = *state;

		push_stream(g, 0x51, 7);
		for (uint32_t i = 0; i < 5; i++)
			launch(g, 1, T0 + i * MS, 0x51, 8);
		for (uint32_t i = 1; i < 5; i++) /* the first has no record */
			kernel(g, T0 + 10 * MS + i * MS, 7, 8, i);
		wait_for(g, T0 + 6 * MS, 30 * MS, k ? 0 : 0x51, scopes[k]);
		for (uint32_t i = 0; i < 8; i++) {
			launch(g, 1, T0 + 40 * MS + i * MS, 0x51, 8);
			kernel(g, T0 + 40 * MS + i * MS + 50000, 7, 8, 20 + i);
		}
		settle(g);
		assert_int_equal(by_correlation(g, 20)->launch_ns, 0);
		for (uint32_t i = 1; i < 8; i++)
			assert_int_equal(by_correlation(g, 20 + i)->launch_ns,
					 T0 + 40 * MS + i * MS);
		teardown(state);
		assert_int_equal(setup(state), 0);
	}
}

/* Waiting for an event, for another stream, in vain, or before the launch had returned, says
 * nothing about these launches. */
static void other_waits_drop_nothing(void **state)
{
	struct rig *g = *state;
	struct event_sync failed = {
	    .head = {.kind = EVENT_SYNC, .flags = EVENT_FLAG_FAILED, .t = T0 + 6 * MS},
	    .handle = 0x51,
	    .scope = SYNC_STREAM,
	    .duration = 1000};

	push_stream(g, 0x51, 7);
	push_stream(g, 0x52, 8);
	for (uint32_t i = 0; i < 4; i++)
		launch(g, 1, T0 + i * MS, 0x51, 8);
	wait_for(g, T0 + 5 * MS, MS, 0x51, SYNC_EVENT);
	wait_for(g, T0 + 5 * MS, MS, 0x52, SYNC_STREAM);
	push(g, 1, &failed, sizeof(failed), false);
	wait_for(g, T0 + 4000, 2000, 0x51, SYNC_STREAM); /* during the first launch */
	for (uint32_t i = 0; i < 4; i++)
		kernel(g, T0 + 20 * MS + i * MS, 7, 8, i);
	settle(g);
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(by_correlation(g, i)->launch_ns, T0 + i * MS);
	assert_int_equal(loss(g, JOIN_LAUNCH_NO_KERNEL), 0);
}

static void joins_whole_graph_launches_with_their_time(void **state)
{
	struct rig *g = *state;
	struct event_gap gap = {.head = {.kind = EVENT_GAP, .t = T0 - MS},
				.to = T0 + 50 * MS,
				.cause = GAP_GRAPH_NODES};

	push_stream(g, 0x51, 7);
	for (uint32_t i = 0; i < 3; i++) {
		struct event_launch e = {.head = {.kind = EVENT_GRAPH_LAUNCH, .t = T0 + i * MS},
					 .func = 0x9000,
					 .stream = 0x51,
					 .duration = 5000};
		struct event_kernel whole = {
		    .head = {.kind = EVENT_GRAPH_EXEC, .t = T0 + 10 * MS + i * MS},
		    .end = T0 + 10 * MS + i * MS + 500000,
		    .correlation = 30 + i,
		    .context_id = CTX_ID,
		    .stream_id = 7,
		    .graph_id = 4};

		push(g, 1, &e, sizeof(e), false);
		push(g, 7, &whole, sizeof(whole), true);
	}
	settle(g);
	push(g, 1, &gap, sizeof(gap), false);
	settle(g);
	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(by_correlation(g, 30 + i)->kind, RECORD_GRAPH_EXEC);
		assert_int_equal(by_correlation(g, 30 + i)->launch_ns, T0 + i * MS);
	}
	assert_int_equal(join_stats(g->j)->graph_coarse_ns, 51 * MS);
	/* it is no gap in the launches: the steps of that time can be judged */
	assert_int_equal(g->host[g->host_count - 1].kind, RECORD_GAP);
	assert_true(g->host[g->host_count - 1].flags & RECORD_FLAG_COARSE);
}

static void follows_a_stream_handle_that_is_used_again(void **state)
{
	struct rig *g = *state;
	struct event_stream e = {.head = {.kind = EVENT_STREAM, .t = T0 + 50 * MS},
				 .stream = 0x50,
				 .context = CTX,
				 .stream_id = 8,
				 .context_id = CTX_ID};

	push_stream(g, 0x50, 7);
	launch(g, 0, T0, 0x50, 1);
	push(g, 0, &e, sizeof(e), false);
	g->launched[0x50] = 0;
	launch(g, 0, T0 + 60 * MS, 0x50, 1);
	kernel(g, T0 + 70 * MS, 8, 1, 2);
	kernel(g, T0 + 80 * MS, 7, 1, 1);
	settle(g);
	assert_int_equal(by_correlation(g, 1)->launch_ns, T0);
	assert_int_equal(by_correlation(g, 2)->launch_ns, T0 + 60 * MS);
}

static void separates_default_streams_of_threads(void **state)
{
	struct rig *g = *state;
	struct event_launch e = {.head = {.kind = EVENT_LAUNCH, .flags = EVENT_FLAG_PTSZ},
				 .grid = {1, 1, 1},
				 .block = {1, 1, 1}};
	struct event_context_like {
		struct event_stream s;
	} c = {
	    {.head = {.kind = EVENT_CONTEXT, .t = T0 - MS}, .context = CTX, .context_id = CTX_ID}};

	push(g, 0, &c, sizeof(c), false);
	push(g, 1, &c, sizeof(c), false);
	for (unsigned i = 0; i < 3; i++) {
		e.head.t = T0 + i * MS;
		e.head.flags = i < 2 ? EVENT_FLAG_PTSZ : 0;
		push(g, i == 1, &e, sizeof(e), false);
	}
	settle(g);
	assert_int_not_equal(g->host[0].stream, g->host[1].stream);
	assert_int_not_equal(g->host[0].stream, g->host[2].stream);
	assert_int_not_equal(g->host[1].stream, g->host[2].stream);
}

static void says_which_device_the_driver_names(void **state)
{
	struct rig *g = *state;
	struct event_stream e = {
	    .head = {.kind = EVENT_CONTEXT, .t = T0}, .context = CTX, .context_id = CTX_ID};

	push(g, 0, &e, sizeof(e), false);
	settle(g);
	assert_int_equal(g->gpu_count, 0); /* a library without UUIDs, or a writer before them */
	e.head.t = T0 + MS;
	memset(e.device_uuid, 0x5a, sizeof(e.device_uuid));
	push(g, 0, &e, sizeof(e), false);
	settle(g);
	assert_int_equal(g->gpu_count, 1);
	assert_memory_equal(g->gpu, e.device_uuid, sizeof(g->gpu));
}

static void push_comm(struct rig *g, uint64_t handle, uint64_t id)
{
	struct event_comm e = {.head = {.kind = EVENT_COMM, .t = T0 - 90 * MS},
			       .comm = handle,
			       .id = id,
			       .nranks = 8,
			       .rank = 1,
			       .action = COMM_INIT};

	push(g, 0, &e, sizeof(e), false);
}

static void coll(struct rig *g, uint64_t t, uint64_t comm, uint8_t func, uint32_t seq,
		 uint16_t flags, uint64_t capture)
{
	struct event_coll e = {.head = {.kind = EVENT_COLL, .flags = flags, .t = t},
			       .comm = comm,
			       .stream = 0x60,
			       .count = 1000,
			       .capture = capture,
			       .seq = seq,
			       .peer = -1,
			       .func = func,
			       .dtype = 7,
			       .duration = 500000};

	push(g, 0, &e, sizeof(e), false);
}

static void gives_a_nccl_kernel_its_collective(void **state)
{
	struct rig *g = *state;

	push_stream(g, 0x60, 9);
	push_comm(g, 0xabc, 0x1234);
	for (unsigned i = 0; i < 5; i++) {
		coll(g, T0 + i * MS, 0xabc, COLL_ALL_REDUCE, i, 0, 0);
		launch(g, 0, T0 + i * MS + 100000, 0x60, 24); /* inside the call */
		kernel_named(g, T0 + i * MS + 600000, 9, 24, 10 + i, NAME_NCCL);
	}
	settle(g);
	for (unsigned i = 0; i < 5; i++) {
		const struct record *r = by_correlation(g, 10 + i);

		assert_int_equal(r->kind, RECORD_COLL_KERNEL);
		assert_int_equal(r->key, 0x1234);
		assert_int_equal(r->seq, i);
		assert_int_equal(r->func, RECORD_COLL_ALL_REDUCE);
		assert_int_equal(r->bytes, 4000);
		assert_int_equal(r->launch_ns, T0 + i * MS + 100000);
	}
}

static void gives_a_nccl_kernel_its_collective_where_its_launch_is_not_seen(void **state)
{
	struct rig *g = *state;

	push_stream(g, 0x60, 9);
	push_comm(g, 0xabc, 0x1234);
	for (unsigned i = 0; i < 5; i++) {
		coll(g, T0 + i * MS, 0xabc, COLL_ALL_GATHER, i, 0, 0);
		kernel_named(g, T0 + i * MS + 600000, 9, 24, 10 + i, NAME_NCCL);
	}
	settle(g);
	for (unsigned i = 0; i < 5; i++) {
		assert_int_equal(by_correlation(g, 10 + i)->seq, i);
		assert_int_equal(by_correlation(g, 10 + i)->launch_ns, T0 + i * MS);
	}
}

static void one_kernel_may_stand_for_a_whole_group(void **state)
{
	struct rig *g = *state;
	struct event_coll group = {
	    .head = {.kind = EVENT_COLL, .t = T0}, .peer = -1, .func = COLL_GROUP_START};

	push_stream(g, 0x60, 9);
	push_comm(g, 0xabc, 0x1234);
	push(g, 0, &group, sizeof(group), false);
	for (unsigned i = 0; i < 3; i++)
		coll(g, T0 + (i + 1) * 10000, 0xabc, COLL_ALL_REDUCE, i, EVENT_FLAG_AGGREGATE, 0);
	group.head.t = T0 + MS;
	group.func = COLL_GROUP_END;
	group.duration = 200000;
	push(g, 0, &group, sizeof(group), false);
	launch(g, 0, T0 + MS + 50000, 0x60, 24);
	kernel_named(g, T0 + 2 * MS, 9, 24, 1, NAME_NCCL);
	coll(g, T0 + 5 * MS, 0xabc, COLL_ALL_REDUCE, 3, 0, 0);
	launch(g, 0, T0 + 5 * MS + 1000, 0x60, 24);
	kernel_named(g, T0 + 6 * MS, 9, 24, 2, NAME_NCCL);
	settle(g);
	assert_int_equal(by_correlation(g, 1)->seq, 0);
	assert_int_equal(by_correlation(g, 2)->seq, 3);
	assert_int_equal(loss(g, JOIN_COLL_NO_KERNEL), 0);
}

static void group_call(struct rig *g, uint64_t t, uint8_t func)
{
	struct event_coll e = {
	    .head = {.kind = EVENT_COLL, .t = t}, .peer = -1, .func = func, .duration = 100000};

	push(g, 0, &e, sizeof(e), false);
}

static void a_lost_end_of_a_group_costs_that_group_only(void **state)
{
	struct rig *g = *state;

	push_stream(g, 0x60, 9);
	push_comm(g, 0xabc, 0x1234);
	for (unsigned i = 0; i < 10; i++) {
		uint64_t t = T0 + i * 10 * MS;

		group_call(g, t, COLL_GROUP_START);
		coll(g, t + 10000, 0xabc, COLL_ALL_REDUCE, i, EVENT_FLAG_AGGREGATE, 0);
		if (i != 3) {
			group_call(g, t + MS, COLL_GROUP_END);
			launch(g, 0, t + MS + 50000, 0x60, 24);
		} else {
			g->launched[0x60]++;
		}
		kernel_named(g, t + 2 * MS, 9, 24, 10 + i, NAME_NCCL);
		settle(g);
	}
	for (unsigned i = 0; i < 10; i++)
		if (i != 3)
			assert_int_equal(by_correlation(g, 10 + i)->seq, i);
	assert_true(by_correlation(g, 13)->flags & RECORD_FLAG_UNMATCHED);
	assert_int_equal(loss(g, JOIN_COLL_NO_KERNEL), 1);
}

static void replays_of_a_graph_take_the_captured_collectives(void **state)
{
	struct rig *g = *state;
	struct event_graph graph = {.head = {.kind = EVENT_GRAPH, .t = T0 + 2 * MS},
				    .graph = 0x700,
				    .exec = 0x800,
				    .capture = 5,
				    .action = GRAPH_INSTANTIATE};
	uint32_t seqs[4], n = 0;

	push_stream(g, 0x60, 9);
	push_comm(g, 0xabc, 0x1234);
	coll(g, T0, 0xabc, COLL_ALL_REDUCE, 0, EVENT_FLAG_CAPTURED, 5);
	coll(g, T0 + MS, 0xabc, COLL_ALL_GATHER, 1, EVENT_FLAG_CAPTURED, 5);
	push(g, 0, &graph, sizeof(graph), false);
	for (uint32_t i = 0; i < 2; i++) {
		struct event_launch e = {
		    .head = {.kind = EVENT_GRAPH_LAUNCH, .t = T0 + (10 + i) * MS},
		    .func = 0x800,
		    .stream = 0x60,
		    .grid = {i, 5, 0}};

		push(g, 0, &e, sizeof(e), false);
		for (unsigned k = 0; k < 4; k++) {
			struct event_kernel node = {
			    .head = {.kind = EVENT_KERNEL,
				     .flags = EVENT_FLAG_GRAPH_NODE,
				     .t = T0 + (10 + i) * MS + 100000 + k * 20000},
			    .end = T0 + (10 + i) * MS + 110000 + k * 20000,
			    .correlation = 50 + i,
			    .context_id = CTX_ID,
			    .stream_id = 9,
			    .graph_id = 1,
			    .name = k % 2 ? NAME_NCCL : NAME_GEMM};

			push(g, 7, &node, sizeof(node), true);
		}
	}
	settle(g);
	assert_int_equal(g->device_count, 8);
	for (unsigned i = 0; i < 8; i++) {
		assert_int_equal(g->device[i].launch_ns, T0 + (10 + i / 4) * MS);
		assert_true(g->device[i].flags & RECORD_FLAG_GRAPH);
		if (!(i % 2))
			continue;
		assert_int_equal(g->device[i].key, 0x1234);
		assert_int_equal(g->device[i].func,
				 i % 4 == 1 ? RECORD_COLL_ALL_REDUCE : RECORD_COLL_ALL_GATHER);
		assert_true(g->device[i].seq & 0x80000000u);
		seqs[n++] = g->device[i].seq;
	}
	/* Instances are distinguished by node and replay. */
	for (unsigned a = 0; a < 4; a++)
		for (unsigned b = 0; b < a; b++)
			assert_int_not_equal(seqs[a], seqs[b]);
}

static void drops_times_that_cannot_be(void **state)
{
	struct rig *g = *state;

	launch(g, 0, 0, 0x50, 1);
	launch(g, 0, UINT64_MAX, 0x50, 1);
	launch(g, 0, g->now_ns + 100000 * MS, 0x50, 1);
	settle(g);
	assert_int_equal(g->host_count, 0);
	assert_int_equal(loss(g, JOIN_BAD_STAMP), 3);
}

static void passes_step_marks_with_their_work(void **state)
{
	struct rig *g = *state;
	struct event_step e = {.head = {.kind = EVENT_STEP_BEGIN, .t = T0},
			       .work = {1.5, 2.5, 0, 0},
			       .work_count = 2,
			       .index = 9};

	push(g, 0, &e, sizeof(e), false);
	e.work_count = 4000000000u; /* a hostile count */
	e.head.t = T0 + MS;
	push(g, 0, &e, sizeof(e), false);
	settle(g);
	assert_int_equal(g->host_count, 2);
	assert_int_equal(g->host[0].kind, RECORD_STEP_BEGIN);
	assert_int_equal(g->host[0].key, 9);
	assert_int_equal(g->mark.work_count, STEP_WORK_MAX);
	assert_true(g->mark.work[1] == 2.5);
}

/* ---- what a GPU does not end ---- */

static struct join_unfinished unfinished(struct rig *g, uint64_t after_ns)
{
	struct join_unfinished u;

	join_unfinished(g->j, after_ns, &u);
	return u;
}

/* Streams 0x50 and 0x60; the first one's second kernel does not end, the other's collective was launched
 * later and waits. */
static void stuck_kernel(struct rig *g)
{
	push_stream(g, 0x50, 13);
	push_stream(g, 0x60, 14);
	for (unsigned i = 0; i < 3; i++)
		launch(g, 0, T0 + i * MS, 0x50, i + 1);
	push_comm(g, 0xabc, 0x1234);
	coll(g, T0 + 3 * MS, 0xabc, COLL_ALL_REDUCE, 0, 0, 0);
	launch(g, 0, T0 + 3 * MS + 50000, 0x60, 24);
	kernel(g, T0 + MS / 2, 13, 1, 100);
	settle(g);
}

static void reports_the_oldest_launch_that_has_not_ended(void **state)
{
	struct rig *g = *state;
	struct join_unfinished u;

	assert_int_equal(unfinished(g, 0).kind, JOIN_UNFINISHED_NONE);
	stuck_kernel(g);
	u = unfinished(g, 0);
	assert_int_equal(u.kind, JOIN_UNFINISHED_KERNEL);
	assert_int_equal(u.launch_ns, T0 + MS);
	assert_int_equal(u.stream, 13);
	/* what was launched before the time asked for is not reported */
	u = unfinished(g, T0 + 3 * MS);
	assert_int_equal(u.kind, JOIN_UNFINISHED_COLL);
	assert_int_equal(u.func, RECORD_COLL_ALL_REDUCE);
	assert_int_equal(u.stream, 14);
	kernel(g, T0 + 4 * MS, 13, 2, 101);
	kernel(g, T0 + 5 * MS, 13, 3, 102);
	settle(g);
	assert_int_equal(unfinished(g, 0).kind, JOIN_UNFINISHED_COLL);
	kernel_named(g, T0 + 6 * MS, 14, 24, 103, NAME_NCCL);
	settle(g);
	assert_int_equal(unfinished(g, 0).kind, JOIN_UNFINISHED_NONE);
}

static void what_the_host_has_waited_for_has_ended(void **state)
{
	struct rig *g = *state;

	stuck_kernel(g);
	wait_for(g, T0 + 10 * MS, 500000, 0x50, SYNC_STREAM); /* their records are lost */
	settle(g);
	assert_int_equal(unfinished(g, 0).kind, JOIN_UNFINISHED_COLL);
	wait_for(g, T0 + 20 * MS, 500000, 0x60, SYNC_STREAM);
	settle(g);
	assert_int_equal(unfinished(g, 0).kind, JOIN_UNFINISHED_NONE);
}

static void a_stuck_kernel_is_reported_for_minutes(void **state)
{
	struct rig *g = *state;

	stuck_kernel(g);
	for (unsigned i = 0; i < 120; i++)
		settle(g);
	assert_int_equal(unfinished(g, 0).launch_ns, T0 + MS);
	for (unsigned i = 0; i < 120; i++) /* but not for ever */
		settle(g);
	assert_int_equal(unfinished(g, 0).kind, JOIN_UNFINISHED_NONE);
}

static void which_kernel_of_a_graph_is_not_reported(void **state)
{
	struct rig *g = *state;
	struct event_launch e = {.head = {.kind = EVENT_GRAPH_LAUNCH, .t = T0},
				 .func = 0x99,
				 .stream = 0x50,
				 .duration = 5000};
	struct event_kernel k = {
	    .head = {.kind = EVENT_KERNEL, .t = T0 + MS, .flags = EVENT_FLAG_GRAPH_NODE},
	    .end = T0 + MS + 1000,
	    .correlation = 7,
	    .context_id = CTX_ID,
	    .stream_id = 13,
	    .name = NAME_GEMM,
	    .grid = {1, 1, 1},
	    .block = {32, 1, 1}};

	push_stream(g, 0x50, 13);
	push(g, 0, &e, sizeof(e), false);
	settle(g);
	assert_int_equal(unfinished(g, 0).kind, JOIN_UNFINISHED_GRAPH);
	/* its first kernel has ended; of the others nothing is known */
	push(g, 7, &k, sizeof(k), true);
	launch(g, 0, T0 + 2 * MS, 0x50, 5);
	settle(g);
	assert_int_equal(unfinished(g, 0).kind, JOIN_UNFINISHED_GRAPH);
	assert_int_equal(unfinished(g, 0).launch_ns, T0);
}

/* A collective in a graph waits for other ranks: the rank's GPU is not idle, though the launch has met its
 * first kernels. */
static void a_graph_whose_collectives_have_not_ended_is_reported(void **state)
{
	struct rig *g = *state;
	struct event_graph graph = {.head = {.kind = EVENT_GRAPH, .t = T0 + 2 * MS},
				    .graph = 0x700,
				    .exec = 0x800,
				    .capture = 5,
				    .action = GRAPH_INSTANTIATE};
	struct event_launch e = {.head = {.kind = EVENT_GRAPH_LAUNCH, .t = T0 + 10 * MS},
				 .func = 0x800,
				 .stream = 0x60,
				 .grid = {0, 5, 0}};
	struct event_kernel node = {
	    .head = {.kind = EVENT_KERNEL, .flags = EVENT_FLAG_GRAPH_NODE, .t = T0 + 11 * MS},
	    .end = T0 + 12 * MS,
	    .correlation = 50,
	    .context_id = CTX_ID,
	    .stream_id = 9,
	    .graph_id = 1,
	    .name = NAME_GEMM};

	push_stream(g, 0x60, 9);
	push_comm(g, 0xabc, 0x1234);
	coll(g, T0, 0xabc, COLL_ALL_REDUCE, 0, EVENT_FLAG_CAPTURED, 5);
	push(g, 0, &graph, sizeof(graph), false);
	push(g, 0, &e, sizeof(e), false);
	push(g, 7, &node, sizeof(node), true);
	settle(g);
	assert_int_equal(unfinished(g, 0).kind, JOIN_UNFINISHED_GRAPH);
	assert_int_equal(unfinished(g, 0).launch_ns, T0 + 10 * MS);
	assert_int_equal(unfinished(g, T0 + 11 * MS).kind, JOIN_UNFINISHED_NONE);
	node.head.t = T0 + 12 * MS;
	node.end = T0 + 13 * MS;
	node.name = NAME_NCCL;
	push(g, 7, &node, sizeof(node), true);
	settle(g);
	assert_int_equal(unfinished(g, 0).kind, JOIN_UNFINISHED_NONE);
	/* the next replay's records are lost, but the host has waited for it */
	e.head.t = T0 + 20 * MS;
	e.grid[0] = 1;
	node.head.t = T0 + 21 * MS;
	node.end = T0 + 22 * MS;
	node.correlation = 51;
	node.name = NAME_GEMM;
	push(g, 0, &e, sizeof(e), false);
	push(g, 7, &node, sizeof(node), true);
	settle(g);
	assert_int_equal(unfinished(g, 0).kind, JOIN_UNFINISHED_GRAPH);
	wait_for(g, T0 + 23 * MS, 500000, 0x60, SYNC_STREAM);
	settle(g);
	assert_int_equal(unfinished(g, 0).kind, JOIN_UNFINISHED_NONE);
}

static void survives_any_bytes(void **state)
{
	struct rig *g = *state;
	unsigned long long x = 88172645463325252ull;

	for (unsigned i = 0; i < 400; i++) {
		union ring_event e;

		for (size_t k = 0; k < sizeof(e); k += 8) {
			x ^= x << 13;
			x ^= x >> 7;
			x ^= x << 17;
			memcpy(e.bytes + k, &x, 8);
		}
		e.head.kind = (uint16_t)(i % 40);
		e.head.t = T0 + i * 1000;
		if (i % 4 == 0)
			e.kernel.end = e.head.t + 10;
		push(g, i % 8, &e, sizeof(e), i % 4 == 0);
	}
	settle(g);
	unfinished(g, 0);
	join_finish(g->j);
}

/* One end of a catalogue's span at its nesting depth. */
static void python_span(struct rig *g, uint64_t t, bool begin, uint32_t depth, uint32_t name,
			const float work[4])
{
	struct event_span e = {.head = {.kind = begin ? EVENT_SPAN_BEGIN : EVENT_SPAN_END, .t = t},
			       .domain = begin ? 0xabc : 0,
			       .name = name,
			       .source = SPAN_SOURCE_PYTHON,
			       .process = begin ? 3 : 0,
			       .thread = begin ? 2 : 0,
			       .depth = depth};

	if (work)
		memcpy(e.work, work, sizeof(e.work));
	push(g, 1, &e, sizeof(e), false);
}

static void span_of_a_catalogue_has_its_work_kinds_and_request(void **state)
{
	struct rig *g = *state;
	const struct record *r = &g->host[0];

	python_span(g, T0, true, 0, NAME_GEMM, (const float[]){512, 0, 7, -3});
	python_span(g, T0 + 5 * MS, false, 0, 0, (const float[]){0, 16, 0, 1e30f});
	settle(g);
	assert_int_equal(g->host_count, 1);
	assert_int_equal(r->kind, RECORD_SPAN);
	assert_int_equal(r->flags & RECORD_FLAG_PYTHON, RECORD_FLAG_PYTHON);
	assert_int_equal(r->name, NAME_GEMM);
	assert_int_equal(r->end_ns - r->begin_ns, 5 * MS);
	assert_int_equal(r->key, 0xabc);
	assert_int_equal(r->grid[0], 512);
	assert_int_equal(r->grid[1], 16);
	assert_int_equal(r->grid[2], 7);
	assert_int_equal(r->bytes, 0);
	assert_int_equal(r->func, 3);
	assert_int_equal(r->dtype, 2);
}

static void requests_of_a_span_are_records(void **state)
{
	struct rig *g = *state;
	struct event_span_request e = {.head = {.kind = EVENT_SPAN_REQUEST, .t = T0},
				       .request = {0xabc, 0, 0xdef},
				       .tokens = {512, 7, UINT32_MAX},
				       .name = NAME_GEMM,
				       .done = 0xfc};

	python_span(g, T0, true, 0, NAME_GEMM, NULL);
	push(g, 1, &e, sizeof(e), false);
	python_span(g, T0 + 5 * MS, false, 0, 0, NULL);
	settle(g);
	assert_int_equal(g->host_count, 3);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(g->host[i].kind, RECORD_SPAN_REQUEST);
		assert_int_equal(g->host[i].name, NAME_GEMM);
		assert_true(g->host[i].begin_ns == T0 && g->host[i].end_ns == T0);
		assert_int_equal(g->host[i].thread, g->host[2].thread);
	}
	assert_true(g->host[0].key == 0xabc && g->host[0].bytes == 512);
	assert_true(g->host[1].key == 0xdef && g->host[1].bytes == UINT32_MAX);
	assert_int_equal(g->host[0].flags & RECORD_FLAG_DONE, 0);
	assert_int_equal(g->host[1].flags & RECORD_FLAG_DONE, RECORD_FLAG_DONE);
	assert_int_equal(g->host[2].kind, RECORD_SPAN);
	assert_true(g->host[2].begin_ns == T0);
}

/* What the ring lost costs the spans whose ends it were, and no others. */
static void lost_ends_do_not_shift_spans(void **state)
{
	struct rig *g = *state;
	uint64_t t = T0;

	for (unsigned i = 0; i < 200; i++) {
		python_span(g, t += MS, true, 0, NAME_GEMM, NULL);
		python_span(g, t += MS, true, 1, NAME_RELU, NULL);
		if (i % 2) /* else the end is lost */
			python_span(g, t += MS, false, 1, 0, NULL);
		python_span(g, t += MS, false, 0, 0, NULL);
	}
	settle(g);
	assert_int_equal(g->host_count, 300);
	for (unsigned i = 0; i < g->host_count; i++)
		assert_int_equal(g->host[i].end_ns - g->host[i].begin_ns,
				 g->host[i].name == NAME_RELU		 ? MS
				 : i && g->host[i - 1].name == NAME_RELU ? 3 * MS
									 : 2 * MS);
}

static void range_at(struct rig *g, uint64_t t, bool begin, uint16_t depth)
{
	struct event_span e = {.head = {.kind = begin ? EVENT_SPAN_BEGIN : EVENT_SPAN_END, .t = t},
			       .name = begin ? NAME_RELU : 0,
			       .source = SPAN_SOURCE_NVTX,
			       .depth = depth};

	push(g, 1, &e, sizeof(e), false);
}

static void range(struct rig *g, uint64_t t, bool begin)
{
	range_at(g, t, begin, 0);
}

/* sysomd starts again while three ranges and a function are open. */
static void ranges_that_began_before_anybody_looked_are_no_mistake(void **state)
{
	struct rig *g = *state;
	uint64_t t = T0;

	range_at(g, t += MS, true, 3);
	range_at(g, t += MS, false, 3);
	range_at(g, t += MS, false, 2);
	python_span(g, t += MS, false, 0, 0, NULL);
	range_at(g, t += MS, false, 1);
	range_at(g, t += MS, true, 1);
	range_at(g, t += MS, false, 1);
	range_at(g, t += MS, false, 0);
	settle(g);
	assert_int_equal(g->host_count, 2);
	assert_int_equal(join_stats(g->j)->loss[JOIN_SPAN_UNPAIRED], 0);
	/* one end too many is */
	range_at(g, t += MS, false, 0);
	settle(g);
	assert_int_equal(join_stats(g->j)->loss[JOIN_SPAN_UNPAIRED], 1);
}

static void handle(struct rig *g, unsigned lane, uint64_t t, bool begin, uint64_t id)
{
	struct event_span e = {.head = {.kind = begin ? EVENT_SPAN_BEGIN : EVENT_SPAN_END, .t = t},
			       .span = id,
			       .name = begin ? NAME_RELU : 0,
			       .source = SPAN_SOURCE_NVTX};

	push(g, lane, &e, sizeof(e), false);
}

/* NVTX's ranges with a handle may end on any thread, in any order. */
static void a_range_with_a_handle_may_end_on_another_thread(void **state)
{
	struct rig *g = *state;
	uint64_t t = T0;

	handle(g, 2, t, false, 6); /* it began before anybody looked */
	handle(g, 1, t += MS, true, 7);
	handle(g, 1, t += MS, true, 8);
	range(g, t += MS, true);
	handle(g, 2, t += MS, false, 7);
	range(g, t += MS, false);
	handle(g, 2, t += MS, false, 8);
	handle(g, 2, t += MS, false, 8); /* twice */
	settle(g);
	assert_int_equal(g->host_count, 3);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(g->host[i].end_ns - g->host[i].begin_ns, (i == 0   ? 3
									   : i == 1 ? 2
										    : 4) *
									      MS);
		assert_int_equal(g->host[i].thread, g->host[1].thread);
	}
	assert_int_equal(join_stats(g->j)->loss[JOIN_SPAN_UNPAIRED], 1);
	for (uint64_t id = 9; id < 9 + 600; id++)
		handle(g, 1, t += 1000, true, id);
	handle(g, 2, t += 1000, false, 608);
	settle(g);
	assert_int_equal(g->host_count, 4);
	join_finish(g->j);
	assert_int_equal(join_stats(g->j)->loss[JOIN_SPAN_UNPAIRED], 1 + 599);
}

/* Each round one range more, and a function and a range that end. */
static void ranges_that_never_end_hide_no_others_and_are_counted(void **state)
{
	struct rig *g = *state;
	uint64_t t = T0;

	for (unsigned i = 0; i < 100; i++) {
		range(g, t += MS, true);
		python_span(g, t += MS, true, 0, NAME_GEMM, NULL);
		range(g, t += MS, true);
		range(g, t += MS, false);
		python_span(g, t += MS, false, 0, 0, NULL);
	}
	python_span(g, t += MS, true, 0, NAME_GEMM, NULL); /* still runs at the end */
	settle(g);
	assert_int_equal(g->host_count, 200);
	for (unsigned i = 0; i < 200; i++)
		assert_int_equal(g->host[i].end_ns - g->host[i].begin_ns, i % 2 ? 3 * MS : MS);
	join_finish(g->j);
	assert_int_equal(join_stats(g->j)->loss[JOIN_SPAN_UNPAIRED], 100);
}

static void a_transfer_has_its_times_in_nanoseconds(void **state)
{
	struct rig *g = *state;
	struct event_transfer e = {.head = {.kind = EVENT_TRANSFER, .t = T0},
				   .comm_hash = 0xc0ffee,
				   .bytes = 1u << 20,
				   .wait = 6ull << 32, /* longer than a duration can be */
				   .seq = 7,
				   .transfers = 8,
				   .peer = 3,
				   .rank = 2,
				   .func = COLL_ALL_GATHER,
				   .channel = 5,
				   .duration = 4000};
	const struct transfer *t = &g->transfer;

	g->clock.ns_per_tick = 0.5;
	push(g, 0, &e, sizeof(e), false);
	settle(g);
	assert_true(t->begin_ns == T0 && t->end_ns == T0 + 4000);
	assert_true(t->wait_ns == 6ull << 32 && t->bytes == 1u << 20 && t->count == 8);
	assert_true(t->comm == 0xc0ffee && t->seq == 7 && t->func == RECORD_COLL_ALL_GATHER);
	assert_true(t->peer == 3 && t->rank == 2 && t->channel == 5);
	assert_int_equal(g->host_count, 0);
	assert_int_equal(join_stats(g->j)->loss[JOIN_UNKNOWN_EVENT], 0);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
	    T(span_of_a_catalogue_has_its_work_kinds_and_request),
	    T(lost_ends_do_not_shift_spans),
	    T(ranges_that_never_end_hide_no_others_and_are_counted),
	    T(a_range_with_a_handle_may_end_on_another_thread),
	    T(ranges_that_began_before_anybody_looked_are_no_mistake),
	    T(requests_of_a_span_are_records),
	    T(joins_kernels_to_launches_in_order),
	    T(a_transfer_has_its_times_in_nanoseconds),
	    T(a_graph_whose_collectives_have_not_ended_is_reported),
	    T(merges_lanes_by_time),
	    T(hands_out_a_late_event_and_says_so),
	    T(keeps_streams_apart),
	    T(a_lost_kernel_costs_its_launch_only),
	    T(a_lost_launch_costs_its_kernel_only),
	    T(a_gap_shifts_nothing_after_it),
	    T(a_shift_ends_where_the_host_waits),
	    T(other_waits_drop_nothing),
	    T(joins_whole_graph_launches_with_their_time),
	    T(never_joins_a_kernel_to_a_later_launch),
	    T(counts_an_ambiguous_alignment_and_joins_nothing),
	    T(learns_a_stream_without_reported_ids),
	    T(follows_a_stream_handle_that_is_used_again),
	    T(separates_default_streams_of_threads),
	    T(says_which_device_the_driver_names),
	    T(gives_a_nccl_kernel_its_collective),
	    T(gives_a_nccl_kernel_its_collective_where_its_launch_is_not_seen),
	    T(one_kernel_may_stand_for_a_whole_group),
	    T(a_lost_end_of_a_group_costs_that_group_only),
	    T(replays_of_a_graph_take_the_captured_collectives),
	    T(drops_times_that_cannot_be),
	    T(passes_step_marks_with_their_work),
	    T(reports_the_oldest_launch_that_has_not_ended),
	    T(what_the_host_has_waited_for_has_ended),
	    T(a_stuck_kernel_is_reported_for_minutes),
	    T(which_kernel_of_a_graph_is_not_reported),
	    T(survives_any_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
