/* SPDX-License-Identifier: Apache-2.0
 * Streams of steps, and in which of them it is said that the program changed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "analysis/expect/growth.h"

#define MS 1000000ull

static struct growth g;
static struct growth_change change;
static uint64_t now;
static uint32_t said, phase;
static double blocks, bytes, copied;

static int setup(void **unused)
{
	g = (struct growth){.most = 0};
	now = said = phase = 0;
	blocks = 20000;
	bytes = 2e8;
	copied = 6e6;
	return 0;
}

static void step_of(enum step_source source, double launches, uint64_t ms)
{
	struct step s = {.index = now++,
			 .source = source,
			 .phase = phase,
			 .latency_ns = ms * MS,
			 .work = {[STEP_WORK_KERNELS] = launches,
				  [STEP_WORK_BLOCKS] = blocks,
				  [STEP_WORK_COMM_BYTES] = bytes,
				  [STEP_WORK_COPY_BYTES] = copied},
			 .work_count = STEP_WORK_MAX};

	said += growth_push(&g, &s, &change);
}

static void steps(uint32_t count, double launches, uint64_t ms)
{
	for (uint32_t i = 0; i < count; i++)
		step_of(STEP_SOURCE_AUTO, launches, ms);
}

static void more_launches_that_take_longer_for_good_are_said_once(void **unused)
{
	steps(200, 60, 70);
	steps(GROWTH_STEPS - 1, 1260, 290);
	assert_int_equal(said, 0);
	steps(1, 1260, 290);
	assert_int_equal(said, 1);
	assert_int_equal(change.first, 200);
	assert_float_equal(change.before_ns, 70e6, 1);
	steps(500, 1260, 290);
	assert_int_equal(said, 1);
	/* and once more, from there on */
	steps(2 * GROWTH_STEPS, 1900, 400);
	assert_int_equal(said, 2);
	assert_float_equal(change.before_ns, 290e6, 1);
}

/* Far more kernels, most of them small: a step takes a tenth longer. */
static void many_more_launches_that_cost_little_are_said(void **unused)
{
	steps(200, 49, 60);
	phase = 1;
	blocks = 116000;
	steps(GROWTH_STEPS, 1249, 66);
	assert_int_equal(said, 1);
	assert_float_equal(change.before_ns, 60e6, 1);
}

/* A step that the machine stopped is not judged. The steps before it are no less new. */
static void steps_that_were_not_judged_move_no_change(void **unused)
{
	steps(200, 60, 70);
	steps(10, 1260, 290);
	now += 3;
	steps(GROWTH_STEPS - 10, 1260, 290);
	assert_int_equal(said, 1);
	assert_int_equal(change.first, 200);
}

/* The steps of the new phase have a model of their own, which finds them usual. */
static void other_kernels_that_take_longer_are_said_once(void **unused)
{
	steps(200, 60, 70);
	phase = 1;
	steps(GROWTH_STEPS, 60, 80);
	assert_int_equal(said, 1);
	assert_int_equal(change.first, 200);
	assert_float_equal(change.before_ns, 70e6, 1);
	steps(500, 60, 80);
	for (phase = 0; phase < 2; phase++) /* both are known now */
		steps(200, 60, 70 + 20 * phase);
	assert_int_equal(said, 1);
	phase = 2;
	steps(200, 40, 130); /* fewer, longer ones */
	assert_int_equal(said, 2);
}

static void other_kernels_with_more_blocks_have_more_work(void **unused)
{
	steps(200, 60, 70);
	phase = 1;
	blocks *= 1.5; /* longer sequences, for which a library chooses another kernel */
	steps(200, 60, 100);
	assert_int_equal(said, 0);
	phase = 2;
	blocks *= 1.1;
	steps(200, 60, 125); /* more than by their blocks */
	assert_int_equal(said, 1);
	assert_float_equal(change.before_ns, 110e6, 1);
}

/* The gradients are no longer compressed, or reduced in a wider type. */
static void collectives_with_more_bytes_are_said_once(void **unused)
{
	steps(200, 60, 70);
	bytes *= 2;
	steps(GROWTH_STEPS - 1, 60, 80);
	assert_int_equal(said, 0);
	steps(500, 60, 80);
	assert_int_equal(said, 1);
	assert_int_equal(change.first, 200);
	assert_float_equal(change.before_ns, 70e6, 1);
	bytes /= 2;
	steps(200, 60, 70);
	bytes *= 2; /* was usual before */
	steps(200, 60, 80);
	assert_int_equal(said, 1);
}

/* The samples are copied as floats, or twice. */
static void copies_with_more_bytes_are_said_once(void **unused)
{
	steps(200, 60, 70);
	copied *= 8;
	steps(500, 60, 80);
	assert_int_equal(said, 1);
	assert_int_equal(change.first, 200);
	assert_float_equal(change.before_ns, 70e6, 1);
}

/* Batches of another size in each step; copies of a checkpoint now and then. */
static void copies_that_vary_are_not_said(void **unused)
{
	for (uint32_t i = 0; i < 800; i++) {
		copied = i % 20 == 19 ? 3e9 : 6e6 * (1 + i * 7 % 10);
		steps(1, 60, i % 20 == 19 ? 160 : 70 + i * 7 % 10);
	}
	assert_int_equal(said, 0);
}

static void copies_of_longer_sequences_are_not_said(void **unused)
{
	steps(200, 60, 70);
	copied *= 2;
	blocks *= 2;
	steps(500, 60, 150);
	assert_int_equal(said, 0);
}

/* Another figure is read, and the steps are slow for another reason. */
static void a_few_bytes_more_are_not_said(void **unused)
{
	copied = 0;
	steps(200, 60, 70);
	copied = 4;
	steps(500, 60, 90);
	assert_int_equal(said, 0);
}

/* Longer sequences, whose activations are reduced; more bytes that cost nothing; and steps that reduce
 * nothing between those that do. */
static void bytes_that_the_work_explains_are_not_said(void **unused)
{
	steps(200, 60, 70);
	bytes *= 1.5;
	blocks *= 1.5;
	steps(200, 60, 105);
	bytes *= 3;
	steps(200, 60, 106);
	for (uint32_t i = 0; i < 800; i++) {
		bytes = i % 8 ? 0 : 3e9;
		steps(1, 60, i % 8 ? 100 : 160);
	}
	assert_int_equal(said, 0);
}

static void other_kernels_that_come_and_go_are_not_said(void **unused)
{
	for (uint32_t n = 0; n < 50; n++) {
		phase = 0;
		steps(100, 60, 70);
		phase = 1 + n % 7;
		steps(GROWTH_STEPS - 1, 60, 90);
	}
	assert_int_equal(said, 0);
}

static void a_growth_is_seen_between_evaluations(void **unused)
{
	for (int n = 0; n < 5; n++) {
		steps(48, 60, 70);
		steps(12, 20, 25);
	}
	for (int n = 0; n < 5; n++) {
		steps(48, 130, 100);
		steps(12, 40, 35);
	}
	assert_int_equal(said, 1);
	assert_int_equal(change.first, 288); /* with the evaluation before it */
}

/* The steps were cut into parts at first: the search for steps began anew. */
static void parts_of_steps_delay_it_only(void **unused)
{
	steps(200, 60, 70);
	for (int n = 0; n < 9; n++) {
		steps(2, 304, 50);
		steps(1, 620, 55);
		steps(1, 333, 80);
	}
	steps(2 * GROWTH_STEPS, 1260, 290);
	assert_int_equal(said, 1);
	assert_float_equal(change.before_ns, 70e6, 1);
}

/* Larger launches, fewer or as many; more that cost little; phases that come and go. */
static void what_is_no_growth_for_good_is_not_said(void **unused)
{
	steps(200, 60, 70);
	for (uint64_t ms = 70; ms < 200; ms++) /* sequences grow */
		steps(10, 60, ms);
	steps(200, 60, 70);
	steps(200, 40, 120); /* fewer, longer ones */
	steps(200, 42, 80);
	steps(200, 64, 84); /* not longer */
	for (int n = 0; n < 20; n++) {
		steps(100, 64, 84);
		steps(GROWTH_STEPS - 1, 300, 200); /* samples are drawn from the model */
	}
	assert_int_equal(said, 0);
}

static void a_long_phase_is_said_once_and_known_then(void **unused)
{
	for (int n = 0; n < 10; n++) {
		steps(200, 60, 70);
		steps(100, 300, 200);
	}
	assert_int_equal(said, 1);
}

/* Each step launches as many as its input wants. */
static void without_a_usual_number_of_launches_nothing_is_said(void **unused)
{
	for (uint32_t i = 0; i < 2000; i++)
		steps(1, 50 + (i * 2654435761u >> 16) % 100, 70);
	steps(500, 1000, 300);
	assert_int_equal(said, 0);
	for (uint32_t i = 0; i < 500; i++) /* the job states its work */
		step_of(STEP_SOURCE_EXPLICIT, i < 250 ? 60 : 120, i < 250 ? 70 : 200);
	assert_int_equal(said, 0);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup(f, setup)
	const struct CMUnitTest tests[] = {
	    T(more_launches_that_take_longer_for_good_are_said_once),
	    T(many_more_launches_that_cost_little_are_said),
	    T(steps_that_were_not_judged_move_no_change),
	    T(collectives_with_more_bytes_are_said_once),
	    T(copies_with_more_bytes_are_said_once),
	    T(copies_that_vary_are_not_said),
	    T(copies_of_longer_sequences_are_not_said),
	    T(a_few_bytes_more_are_not_said),
	    T(bytes_that_the_work_explains_are_not_said),
	    T(other_kernels_that_take_longer_are_said_once),
	    T(other_kernels_with_more_blocks_have_more_work),
	    T(other_kernels_that_come_and_go_are_not_said),
	    T(a_growth_is_seen_between_evaluations),
	    T(parts_of_steps_delay_it_only),
	    T(what_is_no_growth_for_good_is_not_said),
	    T(a_long_phase_is_said_once_and_known_then),
	    T(without_a_usual_number_of_launches_nothing_is_said),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
