/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "analysis/cross/clocks.h"
#include "tests/wire_synth.h"

#define S     1000000000ll
#define UNIX  (1800000000ll * S)
#define NODES 4u

static struct clocks *clocks;
static bool drifting;

static int setup(void **unused)
{
	drifting = false;
	return clocks_open(&clocks);
}

static int teardown(void **unused)
{
	clocks_close(clocks);
	return 0;
}

static const double offset_ms[NODES] = {0, 50, -50, 12}, drift_ppm[NODES] = {0, 50, -50, 20};

static double truth_ns(uint32_t node, double at_s)
{
	return offset_ms[node] * 1e6 + (drifting ? drift_ppm[node] * 1e3 * at_s : 0);
}

static double estimate_ns(uint32_t node, double at_s)
{
	struct clocks_state s;

	clocks_state(clocks, node, UNIX + (int64_t)(at_s * 1e9), &s);
	assert_true(s.known);
	return s.offset_ns;
}

/* Ends within some microseconds of each other, on clocks that stand apart and drift. */
static void run(double from_s, double until_s, const uint32_t *nodes, uint32_t count,
		uint64_t *state)
{
	for (double at = from_s; at < until_s; at += 0.5) {
		int64_t ends[NODES];

		for (uint32_t i = 0; i < count; i++)
			ends[i] = UNIX + (int64_t)(at * 1e9 + truth_ns(nodes[i], at) +
						   3000 * synth_normal(state));
		clocks_push(clocks, nodes, ends, count);
	}
}

static void recovers_offsets_and_drifts(void **unused)
{
	const uint32_t all[] = {0, 1, 2, 3};
	uint64_t state = 1;

	drifting = true;
	run(0, 60, all, NODES, &state);
	for (uint32_t n = 1; n < NODES; n++) {
		struct clocks_state s;
		double at = 60, apart = estimate_ns(n, at) - estimate_ns(0, at);

		assert_true(fabs(apart - (truth_ns(n, at) - truth_ns(0, at))) < 20000);
		clocks_state(clocks, n, UNIX + 60 * S, &s);
		assert_true(s.error_ns < 20000);
	}
}

static void chains_nodes_that_share_nothing(void **unused)
{
	const uint32_t pairs[][2] = {{0, 1}, {1, 2}, {2, 3}};
	uint64_t state = 2;

	for (int round = 0; round < 1200; round++)
		run(round * 0.5, round * 0.5 + 0.1, pairs[round % 3], 2, &state);
	for (uint32_t n = 1; n < NODES; n++)
		assert_true(fabs(estimate_ns(n, 600) - estimate_ns(0, 600) -
				 (truth_ns(n, 600) - truth_ns(0, 600))) < 20000);
}

static void one_wrong_clock_moves_nobody(void **unused)
{
	const uint32_t all[] = {0, 1, 2, 3};
	uint64_t state = 3;

	for (double at = 0; at < 60; at += 0.5) {
		int64_t ends[NODES];

		for (uint32_t i = 0; i < NODES; i++)
			ends[i] = UNIX + (int64_t)(at * 1e9 + 3000 * synth_normal(&state));
		ends[3] = (int64_t)(synth_random(&state) >> 2);
		clocks_push(clocks, all, ends, NODES);
	}
	for (uint32_t n = 0; n < 3; n++)
		assert_true(fabs(estimate_ns(n, 60)) < 20000);
	assert_int_equal(clocks_correction(clocks, 1u << 30, UNIX), 0);
}

static void a_number_that_is_used_again_begins_anew(void **unused)
{
	const uint32_t all[] = {0, 1, 2, 3};
	struct clocks_state s;
	uint64_t state = 4;

	run(0, 60, all, NODES, &state);
	clocks_forget(clocks, 2);
	clocks_state(clocks, 2, UNIX + 60 * S, &s);
	assert_false(s.known);
	clocks_state(clocks, 1, UNIX + 60 * S, &s);
	assert_true(s.known);
	clocks_forget(clocks, 1u << 30);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
	    T(recovers_offsets_and_drifts),
	    T(chains_nodes_that_share_nothing),
	    T(one_wrong_clock_moves_nobody),
	    T(a_number_that_is_used_again_begins_anew),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
