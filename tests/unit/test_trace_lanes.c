/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/trace/trace_lanes.h"

static void slices_that_follow_each_other_share_a_lane(void **state)
{
	struct trace_slice s[] = {
	    {0, 10, NULL, 9}, {10, 20, NULL, 9}, {20, 20, NULL, 9}, {20, 30, NULL, 9}};
	uint64_t left_out = 0;

	/* the one without length ends before the next begins */
	assert_int_equal(trace_lanes_assign(s, 4, false, &left_out), 1);
	assert_int_equal(left_out, 0);
}

static void slices_that_overlap_take_another_lane(void **state)
{
	struct trace_slice s[] = {{0, 10, NULL, 9}, {5, 15, NULL, 9}, {10, 20, NULL, 9}};
	uint64_t left_out = 0;

	assert_int_equal(trace_lanes_assign(s, 3, true, &left_out), 2);
	assert_int_equal(s[1].lane, 1);
	assert_int_equal(s[2].lane, 0);
}

static void slices_inside_others_nest_only_where_asked(void **state)
{
	struct trace_slice s[] = {{0, 10, NULL, 9}, {0, 5, NULL, 9}, {5, 10, NULL, 9}};
	uint64_t left_out = 0;

	assert_int_equal(trace_lanes_assign(s, 3, true, &left_out), 1);
	assert_int_equal(trace_lanes_assign(s, 3, false, &left_out), 2);
}

static void slices_beyond_all_lanes_are_counted(void **state)
{
	struct trace_slice s[TRACE_LANES_MAX + 5];
	uint64_t left_out = 0;

	for (size_t i = 0; i < TRACE_LANES_MAX + 5; i++)
		s[i] = (struct trace_slice){i, i + 1000, NULL, 0};
	assert_int_equal(trace_lanes_assign(s, TRACE_LANES_MAX + 5, false, &left_out),
			 TRACE_LANES_MAX);
	assert_int_equal(left_out, 5);
	assert_int_equal(s[TRACE_LANES_MAX].lane, TRACE_LANES_NONE);
}

static int by_begin(const void *x, const void *y)
{
	const struct trace_slice *a = x, *b = y;

	if (a->begin_ns != b->begin_ns)
		return a->begin_ns < b->begin_ns ? -1 : 1;
	return a->end_ns > b->end_ns ? -1 : a->end_ns < b->end_ns;
}

/* Any two slices of a lane are apart, or (nest) one encloses the other. */
static void random_slices_never_cross_on_a_lane(void **state)
{
	const unsigned seed = 20261121;

	print_message("seed %u\n", seed);
	srand(seed);
	for (int round = 0; round < 200; round++) {
		struct trace_slice s[60];
		uint64_t left_out = 0;
		bool nest = round & 1;

		for (int i = 0; i < 60; i++) {
			s[i].begin_ns = (uint64_t)rand() % 100;
			s[i].end_ns = s[i].begin_ns + (uint64_t)rand() % 30;
		}
		qsort(s, 60, sizeof(s[0]), by_begin);
		trace_lanes_assign(s, 60, nest, &left_out);
		for (int i = 0; i < 60; i++) {
			for (int k = i + 1; k < 60; k++) {
				bool apart = s[i].end_ns <= s[k].begin_ns;
				bool inside = s[k].end_ns <= s[i].end_ns;

				if (s[i].lane == s[k].lane && s[i].lane != TRACE_LANES_NONE)
					assert_true(apart || (nest && inside));
			}
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(slices_that_follow_each_other_share_a_lane),
	    cmocka_unit_test(slices_that_overlap_take_another_lane),
	    cmocka_unit_test(slices_inside_others_nest_only_where_asked),
	    cmocka_unit_test(slices_beyond_all_lanes_are_counted),
	    cmocka_unit_test(random_slices_never_cross_on_a_lane),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
