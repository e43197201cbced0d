/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "sidecar/drain.h"
#include "sidecar/node.h"

#define MS 1000000ull

/* Turns of one fill for so long; the time after them. */
static uint64_t turns(struct drain_pace *p, double fill, uint64_t from_ns, uint64_t length_ns)
{
	uint64_t t = from_ns;

	for (; t < from_ns + length_ns; t += p->ms * MS)
		drain_pace(p, fill, t);
	return t;
}

static void turns_get_rarer_while_lanes_stay_empty(void **state)
{
	struct drain_pace p = {0};
	uint64_t t = turns(&p, 0.1, 1, 4000 * MS);

	assert_int_equal(p.ms, DRAIN_MS);
	t = turns(&p, 0.1, t, 3000 * MS);
	assert_int_equal(p.ms, 2 * DRAIN_MS);
	turns(&p, 0.1, t, 60000 * MS);
	assert_int_equal(p.ms, DRAIN_MAX_MS);
}

static void one_full_lane_makes_them_frequent_at_once(void **state)
{
	struct drain_pace p = {0};
	uint64_t t = turns(&p, 0, 1, 60000 * MS);

	drain_pace(&p, 0.6, t);
	assert_int_equal(p.ms, DRAIN_MS);
}

static void a_burst_every_second_keeps_them_frequent(void **state)
{
	struct drain_pace p = {0};
	uint64_t t = 1;

	for (int i = 0; i < 60; i++) {
		t = turns(&p, 0.05, t, 1000 * MS);
		drain_pace(&p, 0.3, t);
		assert_int_equal(p.ms, DRAIN_MS);
	}
}

/* ---- rounds: rings that only count, and nobody behind them ---- */

#define ALICE 1001
#define BOB   1002

static struct process *crowd;
static uint32_t left[LIMIT_NODE_PROCESSES]; /* full batches that a process still has */
static uid_t served[256];
static uint32_t served_count;

/* What drain.c calls (--wrap); the types are those of the originals. */
__typeof__(ring_reader_drain_lane) __wrap_ring_reader_drain_lane;
__typeof__(ring_reader_lanes_used) __wrap_ring_reader_lanes_used;
__typeof__(ring_reader_publish) __wrap_ring_reader_publish;
__typeof__(ring_reader_stats) __wrap_ring_reader_stats;
__typeof__(join_push) __wrap_join_push;
__typeof__(join_run) __wrap_join_run;
__typeof__(join_watermark_ns) __wrap_join_watermark_ns;
__typeof__(rank_run) __wrap_rank_run;

size_t __wrap_ring_reader_drain_lane(struct ring_reader *r, uint32_t lane, union ring_event *out,
				     size_t max, struct ring_lane_view *view)
{
	struct process *p = (struct process *)(void *)r;

	*view = (struct ring_lane_view){.slots = LIMIT_DRAIN_BATCH};
	if (!left[p->slot])
		return 0;
	left[p->slot]--;
	served[served_count++] = p->uid;
	return max;
}

uint32_t __wrap_ring_reader_lanes_used(struct ring_reader *r)
{
	return 1;
}

void __wrap_ring_reader_publish(struct ring_reader *r, uint64_t now_ns)
{
}

const struct ring_stats *__wrap_ring_reader_stats(const struct ring_reader *r)
{
	static const struct ring_stats none;

	return &none;
}

void __wrap_join_push(struct join *j, const union ring_event *e, size_t n,
		      const struct ring_lane_view *v, uint64_t now_ns)
{
}

void __wrap_join_run(struct join *j, uint64_t now_ns)
{
}

uint64_t __wrap_join_watermark_ns(const struct join *j)
{
	return 0;
}

void __wrap_rank_run(struct rank *r, uint64_t device_ns, uint64_t now_ns)
{
}

/* However long a turn takes: it ends between two rounds, and the next one goes on with the next round. */
static void a_round_serves_each_user_once_however_many_processes(void **state)
{
	struct node *n = calloc(1, sizeof(*n));
	uint32_t of_alice = 0, of_bob = 0;

	assert_int_equal(drain_open(&n->drain), 0);
	crowd = calloc(LIMIT_NODE_PROCESSES, sizeof(*crowd));
	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++) {
		struct process *p = &crowd[i];

		*p = (struct process){.node = n, .slot = i, .uid = i == 40 ? BOB : ALICE};
		p->reader = (struct ring_reader *)(void *)p;
		p->join = (struct join *)(void *)p;
		p->lanes.kind[0] = RING_LANE_HOST;
		left[i] = i == 40 ? 10 : 2;
		n->processes[i] = p;
	}
	while (left[40])
		drain_turn(n);
	for (uint32_t i = 0; of_bob < 10; i++) {
		of_alice += served[i] == ALICE;
		of_bob += served[i] == BOB;
		assert_in_range(of_alice, of_bob - (of_bob > 0), of_bob + 1);
	}
	free(crowd);
	drain_close(n->drain);
	free(n);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(turns_get_rarer_while_lanes_stay_empty),
	    cmocka_unit_test(one_full_lane_makes_them_frequent_at_once),
	    cmocka_unit_test(a_burst_every_second_keeps_them_frequent),
	    cmocka_unit_test(a_round_serves_each_user_once_however_many_processes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
