/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "node/join/clockmap.h"

static int64_t distance(uint64_t a, uint64_t b)
{
	return a > b ? (int64_t)(a - b) : (int64_t)(b - a);
}

/* A counter of 2.5 GHz against a monotonic clock, an anchor a second. */
static void fill(struct clockmap *m, unsigned anchors, double ppm)
{
	*m = (struct clockmap){.ns_per_tick = 1};
	for (unsigned i = 0; i < anchors; i++) {
		struct clockmap_anchor a = {
		    .ticks = 1000000 + i * 2500000000ull,
		    .monotonic_ns = 5000000000ull + (uint64_t)(i * 1e9 * (1 + ppm * 1e-6)),
		    .realtime_ns = 1700000000000000000ull + i * 1000000000ull,
		    .spread_ns = 50};

		clockmap_add(m, &a);
	}
}

static void converts_within_the_error_bound(void **state)
{
	struct clockmap m;

	fill(&m, 20, 0);
	/* between anchors, after the last, before the first */
	assert_in_range(
	    distance(clockmap_ns(&m, CLOCK_SOURCE_TSC, 1000000 + 3750000000ull), 6500000000ull), 0,
	    10);
	assert_in_range(distance(clockmap_ns(&m, CLOCK_SOURCE_TSC, 1000000 + 20 * 2500000000ull),
				 25000000000ull),
			0, 10);
	assert_in_range(distance(clockmap_ns(&m, CLOCK_SOURCE_TSC, 500000), 4999800000ull), 0, 10);
	assert_true(m.error_ns >= 50);
	assert_true(m.error_ns < 200);
}

static void follows_a_clock_that_is_slewed(void **state)
{
	struct clockmap m;

	fill(&m, 30, 400);
	assert_in_range(distance(clockmap_ns(&m, CLOCK_SOURCE_TSC,
					     1000000 + 29 * 2500000000ull + 1250000000ull),
				 5000000000ull + (uint64_t)(29.5e9 * 1.0004)),
			0, 1000);
}

static void never_runs_backwards_over_an_anchor(void **state)
{
	struct clockmap m;
	uint64_t last = 0;

	fill(&m, 10, 30);
	for (uint64_t t = 0; t < 12 * 2500000000ull; t += 100000000) {
		uint64_t ns = clockmap_ns(&m, CLOCK_SOURCE_TSC, 1000000 + t);

		assert_true(ns >= last);
		last = ns;
	}
}

static void keeps_a_bounded_history(void **state)
{
	struct clockmap m;

	fill(&m, 1000, 0);
	assert_int_equal(m.count, CLOCKMAP_ANCHORS);
	assert_in_range(distance(clockmap_ns(&m, CLOCK_SOURCE_TSC, 1000000 + 990 * 2500000000ull),
				 995000000000ull),
			0, 10);
}

static void ignores_an_anchor_that_goes_back(void **state)
{
	struct clockmap_anchor a = {.ticks = 5, .monotonic_ns = 5, .realtime_ns = 5};
	struct clockmap m;

	fill(&m, 5, 0);
	clockmap_add(&m, &a);
	assert_int_equal(m.count, 5);
}

static void converts_the_real_time_clock(void **state)
{
	struct clockmap m;

	fill(&m, 5, 0);
	assert_int_equal(clockmap_ns(&m, CLOCK_SOURCE_REALTIME, 1700000002500000000ull),
			 7500000000ull);
	assert_int_equal(clockmap_ns(&m, CLOCK_SOURCE_MONOTONIC, 77), 77);
	assert_int_equal(clockmap_ns(&m, 99, 77), 0);
}

static void takes_any_stamp(void **state)
{
	struct clockmap m;

	fill(&m, 5, 0);
	clockmap_ns(&m, CLOCK_SOURCE_TSC, 0);
	clockmap_ns(&m, CLOCK_SOURCE_TSC, UINT64_MAX);
	clockmap_ns(&m, CLOCK_SOURCE_REALTIME, 0);
	clockmap_ns(&m, CLOCK_SOURCE_REALTIME, UINT64_MAX);
}

static void reads_this_machines_clocks(void **state)
{
	struct clockmap m;
	uint64_t before, ns, after;

	clockmap_init(&m);
	before = clock_monotonic_ns();
	ns = clockmap_ns(&m, CLOCK_SOURCE_TSC, clock_ticks());
	after = clock_monotonic_ns();
	/* The bound and some microseconds of a preemption between the readings. */
	assert_true(ns + m.error_ns + 1000000 >= before);
	assert_true(ns <= after + m.error_ns + 1000000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(converts_within_the_error_bound),
	    cmocka_unit_test(follows_a_clock_that_is_slewed),
	    cmocka_unit_test(never_runs_backwards_over_an_anchor),
	    cmocka_unit_test(keeps_a_bounded_history),
	    cmocka_unit_test(ignores_an_anchor_that_goes_back),
	    cmocka_unit_test(converts_the_real_time_clock),
	    cmocka_unit_test(takes_any_stamp),
	    cmocka_unit_test(reads_this_machines_clocks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
