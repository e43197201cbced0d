/* SPDX-License-Identifier: Apache-2.0
 * Two ranks of one incident, whose windows have more healthy steps than slow ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cli/diff/run_diff.h"
#include "model/window.h"

#define STEPS 60u
#define MS    1000000ull

static struct window_step steps[2][STEPS];
static struct trace_rank ranks[2];
static struct diff_source sides[2];

/* Rank 1's self time is 16 ms in its slow steps, all others' 10; each step lasts as long on both. */
static void two_ranks(uint32_t slow, const uint32_t flags[2])
{
	memset(sides, 0, sizeof(sides));
	memset(steps, 0, sizeof(steps));
	for (uint32_t s = 0; s < 2; s++) {
		for (uint32_t i = 0; i < STEPS; i++) {
			bool is_slow = i >= 20 && i < 20 + slow;
			struct step *x = &steps[s][i].step;

			x->begin_ns = 1000 * MS + i * 20 * MS;
			x->latency_ns = is_slow ? 20 * MS : 14 * MS;
			x->end_ns = x->begin_ns + x->latency_ns;
			x->self_ns = is_slow && s ? 16 * MS : 10 * MS;
			steps[s][i].flags = is_slow ? flags[s] : 0;
		}
		ranks[s] = (struct trace_rank){.steps = steps[s], .step_count = STEPS};
		sides[s].kind = "incident";
		sides[s].rank = &ranks[s];
	}
}

static void few_slow_steps_are_not_hidden_by_healthy_ones(void **state)
{
	static const uint32_t flags[2] = {0, WINDOW_STEP_FLAGGED};
	struct run_diff d;

	two_ranks(9, flags);
	assert_int_equal(run_diff_make(&d, &sides[0], &sides[1]), 0);
	assert_int_equal(d.slow_steps[0], 0);
	assert_int_equal(d.slow_steps[1], 9);
	assert_int_equal(d.steps[1], STEPS);
	assert_string_equal(d.metric[1].name, "self time");
	assert_float_equal(d.metric[1].median[0], 10e6, 1);
	assert_float_equal(d.metric[1].median[1], 16e6, 1);
	assert_true(d.metric[1].differs);
	run_diff_free(&d);
}

/* A victim's steps are out, too, since it waits: slow ones stand beside slow ones. */
static void slow_steps_of_both_are_compared(void **state)
{
	static const uint32_t flags[2] = {WINDOW_STEP_OUT, WINDOW_STEP_FLAGGED};
	struct run_diff d;

	two_ranks(9, flags);
	assert_int_equal(run_diff_make(&d, &sides[0], &sides[1]), 0);
	assert_int_equal(d.slow_steps[0], 9);
	assert_false(d.metric[0].differs); /* all wait for the slow one */
	assert_true(d.metric[1].differs);
	run_diff_free(&d);
}

static void one_slow_step_speaks_for_no_rank(void **state)
{
	static const uint32_t flags[2] = {0, WINDOW_STEP_FLAGGED};
	struct run_diff d;

	two_ranks(1, flags);
	assert_int_equal(run_diff_make(&d, &sides[0], &sides[1]), 0);
	assert_int_equal(d.slow_steps[1], 0);
	assert_false(d.metric[1].differs);
	run_diff_free(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(few_slow_steps_are_not_hidden_by_healthy_ones),
	    cmocka_unit_test(slow_steps_of_both_are_compared),
	    cmocka_unit_test(one_slow_step_speaks_for_no_rank),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
