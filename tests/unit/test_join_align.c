/* SPDX-License-Identifier: Apache-2.0
 * test_join_align.c - large losses on either side: the join goes on by itself while events keep coming,
 * its work per event stays bounded, and every kernel and launch is in exactly one count. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "node/join/join.h"

#define MS     1000000ull
#define T0     (1000 * MS)
#define PERIOD 10000ull /* between launches: 100,000 of them a second */
#define BATCH  500u
#define STEP   400u /* launches, the last of them of shapes that no layer has */
#define LAYER  12u
/* Looks at launches, kernels and runs, per event: what an alignment may cost at any loss. */
#define WORK_MAX 8u

struct rig {
	struct clockmap clock;
	struct join *j;
	uint64_t now_ns, pushed, joined_from, wrong;
	uint64_t launch_of[200000]; /* by correlation; 0: never seen */
	uint64_t joined_after, both, random;
};

static void got_host(void *arg, const struct record *r, const struct step_mark *mark)
{
	(void)arg, (void)r, (void)mark;
}

static void got_device(void *arg, const struct record *r)
{
	struct rig *g = arg;

	if (r->flags & RECORD_FLAG_UNMATCHED)
		return;
	g->wrong += r->launch_ns != g->launch_of[r->correlation];
	g->joined_after += r->correlation >= g->joined_from;
}

static const char *name_of(void *arg, uint32_t id)
{
	(void)arg;
	return id ? "gemm" : "";
}

static void push(struct rig *g, const void *event, size_t bytes, bool device)
{
	struct ring_lane_view v = {.lane = device,
				   .tid = 100,
				   .generation = 1,
				   .kind = device ? RING_LANE_DEVICE : RING_LANE_HOST,
				   .clock_source = CLOCK_SOURCE_MONOTONIC};
	union ring_event e = {0};

	memcpy(&e, event, bytes);
	join_push(g->j, &e, 1, &v, g->now_ns);
	g->pushed++;
}

static int setup(void **state)
{
	struct rig *g = calloc(1, sizeof(*g));
	struct join_sink sink = {g, got_host, got_device, name_of, NULL, NULL};
	struct event_stream e = {.head = {.kind = EVENT_STREAM, .t = T0 - 100 * MS},
				 .stream = 0x50,
				 .context = 0xc0de,
				 .stream_id = 7,
				 .context_id = 3};

	g->clock.anchors[0] = (struct clockmap_anchor){1, 1, 1, 0};
	g->clock.count = 1;
	g->clock.ns_per_tick = 1;
	g->now_ns = T0;
	g->random = 88172645463325252ull;
	*state = g;
	assert_int_equal(join_open(&g->j, &sink, &g->clock, 2), 0);
	push(g, &e, sizeof(e), false);
	return 0;
}

static int teardown(void **state)
{
	struct rig *g = *state;

	join_close(g->j);
	free(g);
	return 0;
}

static uint32_t layers(uint32_t i)
{
	uint32_t at = i % STEP;

	return at < STEP - 40 ? 1 + at % LAYER : 100 + at;
}

static uint32_t never_the_same(uint32_t i)
{
	return 1 + i;
}

struct lost {
	uint32_t from, to; /* events [from, to) */
	bool kernels;	   /* else launches */
};

static bool is_lost(const struct lost *lost, uint32_t count, uint32_t i, bool kernel)
{
	for (uint32_t k = 0; k < count; k++)
		if (lost[k].kernels == kernel && i >= lost[k].from && i < lost[k].to)
			return true;
	return false;
}

/* n launches and their kernels, which come a batch later; the host never waits for the GPU. */
static void play(struct rig *g, uint32_t n, uint32_t (*shape)(uint32_t), const struct lost *lost,
		 uint32_t lost_count)
{
	for (uint32_t i = 0; i < n + BATCH; i++) {
		uint64_t t = T0 + i * PERIOD, t_kernel = t - BATCH * PERIOD + 4000;
		struct event_launch l = {.head = {.kind = EVENT_LAUNCH, .t = t},
					 .func = 0x1000,
					 .stream = 0x50,
					 .grid = {shape(i), 1, 1},
					 .block = {128, 1, 1},
					 .duration = 3000,
					 .number = RING_NUMBER(0, i + 1)};
		uint32_t k = i - BATCH;
		struct event_kernel e = {.head = {.kind = EVENT_KERNEL, .t = t_kernel},
					 .end = t_kernel + 5000,
					 .correlation = k,
					 .context_id = 3,
					 .stream_id = 7,
					 .name = 1,
					 .grid = {shape(k), 1, 1},
					 .block = {128, 1, 1},
					 .number = RING_NUMBER(0, k + 1)};

		g->now_ns = t;
		if (i < n && !is_lost(lost, lost_count, i, false)) {
			g->launch_of[i] = t;
			push(g, &l, sizeof(l), false);
		}
		if (i >= BATCH && !is_lost(lost, lost_count, k, true)) {
			push(g, &e, sizeof(e), true);
			g->both += g->launch_of[k] != 0;
		}
		if (i % BATCH == 0)
			join_run(g->j, g->now_ns);
	}
	join_finish(g->j);
}

static void assert_bounded_and_counted(const struct rig *g)
{
	const struct join_stats *s = join_stats(g->j);

	/* what has both, and nothing else */
	assert_int_equal(g->wrong, 0);
	assert_int_equal(s->kernels_joined, g->both);
	assert_true(s->align_steps <= WORK_MAX * g->pushed);
	assert_int_equal(s->kernels_joined + s->kernels_unmatched, s->kernels);
	assert_int_equal(s->kernels_unmatched,
			 s->loss[JOIN_KERNEL_NO_LAUNCH] + s->loss[JOIN_KERNEL_AMBIGUOUS]);
	assert_int_equal(s->kernels_joined + s->loss[JOIN_LAUNCH_NO_KERNEL], s->launches);
}

static void goes_on_after_thousands_of_lost_kernels(void **state)
{
	static const struct lost lost[] = {{2000, 9000, true}};
	struct rig *g = *state;

	g->joined_from = 9000;
	play(g, 20000, never_the_same, lost, 1);
	assert_int_equal(g->wrong, 0);
	assert_int_equal(g->joined_after, 11000);
	assert_int_equal(join_stats(g->j)->loss[JOIN_LAUNCH_NO_KERNEL], 7000);
	assert_bounded_and_counted(g);
}

static void goes_on_after_thousands_of_lost_launches(void **state)
{
	static const struct lost lost[] = {{2000, 9000, false}};
	struct rig *g = *state;

	g->joined_from = 9000;
	play(g, 20000, never_the_same, lost, 1);
	assert_int_equal(g->wrong, 0);
	assert_int_equal(g->joined_after, 11000);
	assert_int_equal(join_stats(g->j)->loss[JOIN_KERNEL_NO_LAUNCH], 7000);
	assert_bounded_and_counted(g);
}

static uint64_t next_random(struct rig *g)
{
	g->random ^= g->random << 13;
	g->random ^= g->random >> 7;
	return g->random ^= g->random << 17;
}

/* Every few batches a ring overflows, and the load goes on. */
static void work_per_event_is_bounded_whatever_is_lost(void **state)
{
	struct lost lost[60];
	struct rig *g = *state;

	for (uint32_t i = 0; i < 60; i++) {
		uint64_t x = next_random(g);

		lost[i].from = i * 2500 + (uint32_t)(x % 1000);
		lost[i].to = lost[i].from + 1 + (uint32_t)(x >> 20) % (i % 3 ? 2000 : 60);
		lost[i].kernels = x >> 60 & 1;
	}
	play(g, 150000, layers, lost, 60);
	assert_bounded_and_counted(g);
}

/* Kernels whose launches never come: the costliest a stream can be. */
static void a_stream_without_any_match_costs_little(void **state)
{
	static const struct lost lost[] = {{1000, 60000, false}};
	struct rig *g = *state;

	play(g, 60000, layers, lost, 1);
	assert_bounded_and_counted(g);
}

static uint32_t all_alike(uint32_t i)
{
	(void)i;
	return 4;
}

static void streams_of_equal_kernels_cost_little(void **state)
{
	static const struct lost lost[] = {{1000, 4000, true}, {9000, 12000, false}};
	struct rig *g = *state;

	play(g, 40000, all_alike, lost, 2);
	assert_bounded_and_counted(g);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
	    T(goes_on_after_thousands_of_lost_kernels),
	    T(goes_on_after_thousands_of_lost_launches),
	    T(work_per_event_is_bounded_whatever_is_lost),
	    T(a_stream_without_any_match_costs_little),
	    T(streams_of_equal_kernels_cost_little),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
