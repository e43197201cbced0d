/* SPDX-License-Identifier: Apache-2.0
 * test_skew.c - what is true by construction: who is the heaviest, by how much, how often. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/slow/skew.h"
#include "model/thresholds.h"

#define N     5
#define STEPS 40

static struct skew_step step[STEPS];
static uint32_t times[N];
static double loss[STEPS], scratch[N];

static struct skew all(void)
{
	return skew_of(step, STEPS, times, N, loss);
}

static void a_step_has_the_heaviest_and_its_excess(void **unused)
{
	const double v[N] = {10, 12, NAN, 15, 0}, one[N] = {NAN, 7, NAN, 0, -3};
	struct skew_step s = skew_of_step(v, NULL, N, scratch);

	assert_int_equal(s.members, 3); /* nothing is reported of what is not known */
	assert_int_equal(s.heaviest, 3);
	assert_true(fabs(s.loss - 0.25) < 1e-12); /* 15 above a median of 12 */
	s = skew_of_step(one, NULL, N, scratch);
	assert_int_equal(s.members, 1);
	assert_true(s.loss <= 0 && s.loss >= 0);
}

/* Who has most to do is the heaviest, whoever takes longest; and by no more than it has to do. */
static void with_the_work_known_times_alone_are_no_skew(void **unused)
{
	const double v[N] = {150, 100, 120, 100, 100}, even[N] = {9, 9, 9, 9, 9},
		     third[N] = {9, 9, 12, 9, 9}, some[N] = {NAN, 9, 9.9, 9, 0};
	struct skew_step s = skew_of_step(v, even, N, scratch);

	assert_int_equal(s.members, N);
	assert_true(s.loss <= 0 && s.loss >= 0);
	s = skew_of_step(v, third, N, scratch);
	assert_int_equal(s.heaviest, 2);
	assert_true(fabs(s.loss - 0.2) < 1e-12);
	s = skew_of_step(v, some, N, scratch);
	assert_int_equal(s.members, 3);
	assert_true(fabs(s.loss - 0.1) < 1e-12);
}

/* Members take turns: in step s it is s % turn that needs 30% more. */
static void turns(uint32_t turn, double more)
{
	for (uint32_t s = 0; s < STEPS; s++) {
		double v[N] = {100, 100, 100, 100, 100};

		v[s % turn] *= 1 + more;
		step[s] = skew_of_step(v, NULL, N, scratch);
	}
}

static void who_takes_turns_is_uneven_and_who_does_not_is_slow(void **unused)
{
	struct skew k;

	turns(N, 0.3);
	k = all();
	assert_int_equal(k.members, N);
	assert_int_equal(k.steps, STEPS);
	assert_true(fabs(k.loss - 0.3) < 1e-12 && fabs(k.rare - 0.3) < 1e-12);
	assert_true(fabs(k.most - 1.0 / N) < 1e-12);
	assert_true(skew_is_uneven(&k));
	assert_true(skew_explains(&k, 0.7));   /* 2.5 times 0.3 */
	assert_false(skew_explains(&k, 0.80)); /* beyond that it is the member's own */
	turns(1, 0.3);			       /* always the same one */
	k = all();
	assert_true(fabs(k.most - 1) < 1e-12);
	assert_false(skew_is_uneven(&k));
	assert_false(skew_explains(&k, 0.1));
	turns(2, 0.3); /* two are slow at once, now this one more and now that one */
	k = all();
	assert_true(fabs(k.most - 0.5) < 1e-12 && fabs(k.two - 1) < 1e-12);
	assert_false(skew_is_uneven(&k));
	turns(3, 0.3);
	k = all();
	assert_true(fabs(k.two - 27.0 / STEPS) < 1e-12); /* 14, 13 and 13 of 40 */
	assert_true(skew_is_uneven(&k));
	turns(N, 0.05); /* too little to speak of */
	k = all();
	assert_false(skew_is_uneven(&k));
}

static void a_pair_and_few_steps_need_their_own_measure(void **unused)
{
	struct skew k;

	for (uint32_t s = 0; s < STEPS; s++) {
		double v[2] = {100, 100};

		v[s % 2] *= 1.2; /* the median of two lies between them */
		step[s] = skew_of_step(v, NULL, 2, scratch);
	}
	k = skew_of(step, STEPS, times, 2, loss);
	assert_true(fabs(k.loss - (120.0 / 110 - 1)) < 1e-12);
	assert_true(skew_is_uneven(&k));
	k = skew_of(step, thresholds.count.some - 1, times, 2, loss);
	assert_false(skew_is_uneven(&k));
	k = skew_of(step, 0, times, 2, loss);
	assert_int_equal(k.steps, 0);
	assert_false(skew_is_uneven(&k));
}

static void it_is_said_with_its_figures(void **unused)
{
	struct finding f = {.kind = FINDING_IMBALANCE};
	struct skew k;

	turns(N, 0.3);
	k = all();
	skew_say(&f, &k, 3e6, 2);
	assert_int_equal(f.evidence_count, 2);
	assert_non_null(strstr(f.evidence[0].text, "5 ranks takes 30.0% more"));
	assert_non_null(strstr(f.evidence[0].text, "more than 20% of the steps"));
	assert_non_null(strstr(f.evidence[1].text, "2 stretches"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_step_has_the_heaviest_and_its_excess),
	    cmocka_unit_test(with_the_work_known_times_alone_are_no_skew),
	    cmocka_unit_test(who_takes_turns_is_uneven_and_who_does_not_is_slow),
	    cmocka_unit_test(a_pair_and_few_steps_need_their_own_measure),
	    cmocka_unit_test(it_is_said_with_its_figures),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
