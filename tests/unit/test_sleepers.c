/* SPDX-License-Identifier: Apache-2.0
 * Who sleeps on at a drain: the parts add up to the whole, whenever the count of a sleep comes. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "sampler/map_sizes.h"
#include "sampler/stacks/sleepers.h"

#define MS 1000000ull

static struct sampler_blocked sleeper(uint32_t tid, uint64_t since_ns)
{
	struct sampler_blocked b = {0};

	b.key.kind = SAMPLER_OFF_CPU;
	b.key.pid = 7;
	b.key.tid = tid;
	b.key.user_hash = 100 + tid;
	b.since_ns = since_ns;
	return b;
}

static void adds_up_over_drains(void **state)
{
	struct sampler_blocked b = sleeper(8, 1000 * MS), other = sleeper(9, 4000 * MS);
	struct sleepers *s;

	assert_int_equal(sleepers_open(&s), 0);
	sleepers_begin(s, 1000 * MS + 5, 10 * MS);
	assert_int_equal(sleepers_see(s, &b), 0); /* not long enough yet */
	sleepers_end(s);
	sleepers_begin(s, 5000 * MS, 10 * MS);
	assert_int_equal(sleepers_see(s, &b), 4000 * MS);
	assert_int_equal(sleepers_see(s, &b), 0); /* the map handed it out twice */
	assert_int_equal(sleepers_see(s, &other), 1000 * MS);
	sleepers_end(s);
	sleepers_begin(s, 10000 * MS, 10 * MS);
	assert_int_equal(sleepers_see(s, &b), 5000 * MS);
	assert_int_equal(sleepers_see(s, &other), 5000 * MS);
	sleepers_end(s);
	sleepers_begin(s, 15000 * MS, 10 * MS);
	/* woke after 12 s; on-CPU counts with these stacks are no business of this */
	assert_int_equal(sleepers_repay(s, &b.key, 12000 * MS), 3000 * MS);
	b.key.kind = SAMPLER_ON_CPU;
	assert_int_equal(sleepers_repay(s, &b.key, 12000 * MS), 12000 * MS);
	assert_int_equal(sleepers_see(s, &other), 5000 * MS);
	sleepers_end(s);
	sleepers_close(s);
}

/* It woke between the swap and the reading of the sleepers: the count comes a drain later, and by
 * then the thread may sleep again at the same place. */
static void repays_a_drain_later(void **state)
{
	struct sampler_blocked first = sleeper(8, 1000 * MS), second = sleeper(8, 9001 * MS);
	struct sleepers *s;

	assert_int_equal(sleepers_open(&s), 0);
	sleepers_begin(s, 5000 * MS, 10 * MS);
	assert_int_equal(sleepers_see(s, &first), 4000 * MS);
	sleepers_end(s);
	sleepers_begin(s, 9000 * MS, 10 * MS);
	assert_int_equal(sleepers_see(s, &second), 0); /* began behind this drain's time */
	sleepers_end(s);
	sleepers_begin(s, 14000 * MS, 10 * MS);
	assert_int_equal(sleepers_repay(s, &first.key, 8000 * MS), 4000 * MS);
	assert_int_equal(sleepers_see(s, &second), 4999 * MS);
	sleepers_end(s);
	sleepers_begin(s, 19000 * MS, 10 * MS);
	assert_int_equal(sleepers_repay(s, &second.key, 5000 * MS), 1 * MS);
	sleepers_end(s);
	sleepers_close(s);
}

/* A count that never comes is not taken off what comes much later. */
static void forgives_a_lost_count(void **state)
{
	struct sampler_blocked b = sleeper(8, 1000 * MS);
	struct sleepers *s;

	assert_int_equal(sleepers_open(&s), 0);
	sleepers_begin(s, 5000 * MS, 10 * MS);
	assert_int_equal(sleepers_see(s, &b), 4000 * MS);
	sleepers_end(s);
	for (int i = 2; i < 4; i++) {
		sleepers_begin(s, (uint64_t)i * 5000 * MS, 10 * MS);
		sleepers_end(s);
	}
	sleepers_begin(s, 20000 * MS, 10 * MS);
	assert_int_equal(sleepers_repay(s, &b.key, 3000 * MS), 3000 * MS);
	sleepers_end(s);
	sleepers_close(s);
}

/* Threads that sleep and wake at random: what is reported is what they slept. */
static void adds_up_at_random(void **state)
{
	enum { THREADS = 200, DRAINS = 200 };
	static struct sampler_blocked at[THREADS];
	static uint64_t wakes[THREADS];
	uint64_t now = 1000 * MS, reported = 0, slept = 0, asleep = 0;
	struct sleepers *s;

	srandom(11);
	assert_int_equal(sleepers_open(&s), 0);
	for (int d = 0; d < DRAINS; d++) {
		uint64_t before = now;

		now += 1000 * MS;
		sleepers_begin(s, now, 0);
		for (uint32_t i = 0; i < THREADS; i++) {
			if (!at[i].since_ns || wakes[i] >= now)
				continue;
			reported += sleepers_repay(s, &at[i].key, wakes[i] - at[i].since_ns);
			slept += wakes[i] - at[i].since_ns;
			at[i].since_ns = 0;
		}
		for (uint32_t i = 0; i < THREADS; i++) {
			if (!at[i].since_ns && random() % 2) {
				at[i] = sleeper(1 + i, before + (uint64_t)random() % (1000 * MS));
				at[i].key.user_hash = (uint64_t)random() % 3;
				wakes[i] = now + (uint64_t)random() % (4000 * MS);
			}
			if (at[i].since_ns)
				reported += sleepers_see(s, &at[i]);
		}
		sleepers_end(s);
	}
	for (uint32_t i = 0; i < THREADS; i++)
		asleep += at[i].since_ns ? now - at[i].since_ns : 0;
	assert_true(slept > 0 && asleep > 0);
	assert_int_equal(reported, slept + asleep);
	sleepers_close(s);
}

/* Maps follow the node and the rate, within bounds, and halve where memory is short. */
static void sizes_maps(void **state)
{
	struct map_sizes small, large, huge, halved;

	map_sizes_for(&small, 2, 99, 0);
	map_sizes_for(&large, 128, 99, 0);
	map_sizes_for(&huge, 1024, 999, 0);
	assert_int_equal(small.counts, 16384);
	assert_true(large.counts >= 128 * 99 * 5);
	assert_int_equal(huge.counts, LIMIT_SAMPLER_COUNTS);
	assert_int_equal(small.ring_bytes, 1 << 20);
	assert_int_equal(huge.ring_bytes, 8 << 20);
	for (uint32_t i = 1; i <= MAP_SIZES_HALVINGS; i++) {
		map_sizes_for(&halved, 128, 99, i);
		assert_int_equal(halved.counts, large.counts >> i);
		assert_int_equal(halved.blocked, large.blocked >> i);
		assert_int_equal(halved.ring_bytes % 4096, 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(adds_up_over_drains),
	    cmocka_unit_test(repays_a_drain_later),
	    cmocka_unit_test(forgives_a_lost_count),
	    cmocka_unit_test(adds_up_at_random),
	    cmocka_unit_test(sizes_maps),
	};

	return cmocka_run_group_tests_name("sleepers", tests, NULL, NULL);
}
