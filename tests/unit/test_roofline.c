/* SPDX-License-Identifier: Apache-2.0
 * Lines are known by construction; the few fitted references come from numpy (see golden_*). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/expect/roofline.h"
#include "base/clock.h"

static uint32_t random_state;

static double uniform(void)
{
	random_state = random_state * 1664525u + 1013904223u;
	return (random_state >> 8) / 16777216.0;
}

static double normal(void)
{
	double a = uniform();

	return sqrt(-2 * log(1 - a)) * cos(2 * M_PI * uniform());
}

static struct roofline_set *only; /* of the latest model, alone in it */

static struct roofline *model_with(const struct roofline_config *c)
{
	size_t bytes = (roofline_set_memory_bytes(c, 1) + 63) & ~63ul;

	only = roofline_set_init(aligned_alloc(64, bytes), c, 1);
	return roofline_set_get(only, 0);
}

static struct roofline *model(void)
{
	struct roofline_config c;

	roofline_config_default(&c);
	random_state = 7;
	return model_with(&c);
}

static struct roofline_summary summary(const struct roofline *m)
{
	struct roofline_summary s;

	roofline_summary(m, &s);
	return s;
}

/* 100 ms and sigma relative noise, times factor. */
static struct roofline_verdict push_flat(struct roofline *m, double sigma, double factor)
{
	return roofline_push(m, NULL, 0, 100e6 * (1 + sigma * normal()) * factor);
}

/* def lcg(n):  x = 7; for each of n: x = (x * 1664525 + 1013904223) % 2**32, yields (x >> 8) / 2**24
 * u = lcg(600).reshape(200, 3); x = floor(u0 * 1000) + 1; b = floor(u1 * 32) + 1
 * y = (3 + 0.02 x + 0.25 b) (1 + 0.04 (u2 - 0.5)); A = c_[ones(200), x, b]
 * c = lstsq(A / y, 1) = [3.024, 0.019902, 0.24946]; median(|y / (A c) - 1|) = 0.01003 */
static void golden_line_of_two_features(void **state)
{
	struct roofline *m = model();
	struct roofline_summary s;

	for (int i = 0; i < 200; i++) {
		double x = floor(uniform() * 1000) + 1, b = floor(uniform() * 32) + 1;
		double work[2] = {x, b};

		roofline_push(m, work, 2,
			      1e6 * (3 + 0.02 * x + 0.25 * b) * (1 + 0.04 * (uniform() - 0.5)));
	}
	s = summary(m);
	assert_int_equal(s.state, ROOFLINE_READY);
	assert_float_equal(s.intercept_ns, 3.024e6, 0.1e6);
	assert_float_equal(s.slope_ns[0], 0.019902e6, 0.0003e6);
	assert_float_equal(s.slope_ns[1], 0.24946e6, 0.005e6);
	assert_float_equal(s.spread, 0.01003, 0.0025);
	assert_true(s.r2 > 0.98);
	free(only);
}

/* v = 100 (1 + 0.04 (lcg(200) - 0.5)); median(v) = 99.952, median(|v / median(v) - 1|) = 0.01044 */
static void golden_spread_without_work(void **state)
{
	struct roofline *m = model();
	struct roofline_verdict v = {0};

	for (int i = 0; i < 200; i++)
		v = roofline_push(m, NULL, 0, 1e6 * 100 * (1 + 0.04 * (uniform() - 0.5)));
	assert_float_equal(v.expected_ns, 99.952e6, 0.3e6);
	assert_float_equal(summary(m).spread, 0.01044, 0.001);
	free(only);
}

static void says_learning_first_and_then_ready(void **state)
{
	struct roofline *m = model();
	struct roofline_verdict v = push_flat(m, 0.01, 1);

	assert_int_equal(v.state, ROOFLINE_LEARNING);
	assert_true(v.expected_ns == 0 && !v.flagged);
	for (int i = 0; i < 100; i++)
		v = push_flat(m, 0.01, 1);
	assert_int_equal(v.state, ROOFLINE_READY);
	assert_float_equal(v.expected_ns, 100e6, 1e6);
	free(only);
}

static void one_slow_step_is_flagged_at_once_and_its_neighbours_are_not(void **state)
{
	struct roofline *m = model();
	uint32_t missed = 0, wrong = 0;

	for (int i = 0; i < 2000; i++) {
		bool slow = i > 100 && i % 50 == 0;
		struct roofline_verdict v = push_flat(m, 0.01, slow ? 1.5 : 1);

		missed += slow && !v.flagged;
		wrong += !slow && v.flagged;
	}
	assert_int_equal(missed, 0);
	assert_int_equal(wrong, 0);
	free(only);
}

static void a_fifth_of_bad_learning_steps_costs_no_recall(void **state)
{
	struct roofline *m = model();
	uint32_t slow = 0, found = 0, wrong = 0;

	for (int i = 0; i < 6000; i++) {
		double x = floor(exp(uniform() * 7)), b = floor(uniform() * 32) + 1;
		double work[2] = {x, b};
		double latency =
		    fmax(15e6, 4e6 + 1e5 * x) * (1 + 0.002 * b) * (1 + 0.01 * normal());
		bool bad = uniform() < (i < 2000 ? 0.2 : 0.02);
		struct roofline_verdict v;

		if (bad)
			latency *= i < 2000 ? 1.2 + 1.8 * uniform() : 1.5;
		v = roofline_push(m, work, 2, latency);
		if (i < 2000)
			continue;
		slow += bad;
		found += bad && v.flagged;
		wrong += !bad && v.flagged;
	}
	assert_true(slow > 50);
	assert_true(found >= 0.99 * slow);
	assert_true(wrong <= 10); /* 0.25% of 3,920 */
	free(only);
}

static void constant_and_collinear_work_do_no_harm(void **state)
{
	struct roofline *m = model();
	uint32_t wrong = 0;
	struct roofline_verdict v = {0};

	for (int i = 0; i < 1000; i++) {
		double x = floor(uniform() * 64) + 1, work[4] = {512, x, 2 * x + 3, 0};

		v = roofline_push(m, work, 4, (5 + 0.5 * x) * 1e6 * (1 + 0.01 * normal()));
		wrong += v.flagged;
		assert_true(isfinite(v.expected_ns) && isfinite(v.excess));
	}
	assert_int_equal(v.state, ROOFLINE_READY);
	assert_true(fabs(v.excess) < 0.05);
	assert_int_equal(wrong, 0);
	free(only);
}

static void two_of_three_flag_what_one_alone_does_not(void **state)
{
	struct roofline_config c;
	struct roofline *m;
	struct roofline_verdict v;

	roofline_config_default(&c);
	c.instant_mads = 60; /* 0.4 here */
	random_state = 7;
	m = model_with(&c);
	for (int i = 0; i < 300; i++)
		push_flat(m, 0.01, 1);
	v = push_flat(m, 0, 1.25);
	assert_true(v.out && !v.flagged);
	v = push_flat(m, 0, 1);
	assert_true(!v.out && !v.flagged);
	v = push_flat(m, 0, 1.25);
	assert_true(v.out && v.flagged);
	v = push_flat(m, 0, 1.9);
	assert_true(v.flagged);
	free(only);
}

static void refuses_what_work_does_not_explain_and_recovers(void **state)
{
	struct roofline *m = model();
	struct roofline_verdict v = {0};
	uint32_t flagged = 0;

	for (int i = 0; i < 1500; i++) {
		double work = 1 + floor(uniform() * 50);

		v = roofline_push(m, &work, 1, 400e6 * exp(0.6 * normal()));
		flagged += v.flagged;
	}
	assert_int_equal(v.state, ROOFLINE_REFUSED);
	assert_int_equal(flagged, 0);
	assert_true(summary(m).r2 < 0.1);
	for (int i = 0; i < 3000; i++) {
		double work = 1 + floor(uniform() * 50);

		v = roofline_push(m, &work, 1, (50 + 7 * work) * 1e6 * (1 + 0.01 * normal()));
	}
	assert_int_equal(v.state, ROOFLINE_READY);
	free(only);
}

static void sustained_slowdown_below_the_threshold_raises_drift_and_stays(void **state)
{
	struct roofline *m = model();
	struct roofline_verdict v = {0};
	int raised = -1;

	for (int i = 0; i < 3000; i++)
		assert_false(push_flat(m, 0.01, 1).drift);
	for (int i = 0; i < 5000; i++) {
		v = push_flat(m, 0.01, 1.04);
		if (v.drift && raised < 0)
			raised = i;
	}
	assert_in_range(raised, 1, 100);
	/* a baseline that updates itself would have absorbed it by now */
	assert_true(v.drift);
	assert_float_equal(v.expected_ns, 100e6, 1e6);
	for (int i = 0; i < 200; i++)
		v = push_flat(m, 0.01, 1);
	assert_false(v.drift);
	assert_true(summary(m).drift);
	free(only);
}

/* Every 20th healthy step is late by up to 35%, as on a host that others use too. */
static void slow_stretches_below_the_tail_are_flagged_where_healthy_ones_have_none(void **state)
{
	struct roofline *m = model();
	uint32_t flagged = 0, first = 0;

	for (int i = 0; i < 400; i++)
		flagged += push_flat(m, 0.002, i % 20 == 19 ? 1.1 + 0.25 * uniform() : 1).flagged;
	assert_true(flagged <= 4);
	assert_true(summary(m).threshold > 0.13);
	flagged = 0;
	for (uint32_t i = 0; i < 34; i++)
		if (push_flat(m, 0.002, 1.12).flagged && !flagged++)
			first = i;
	assert_in_range(first, 12, 16);
	assert_in_range(flagged, 18, 22);
	flagged = 0;
	for (int i = 0; i < 100; i++)
		flagged += push_flat(m, 0.002, 1).flagged;
	assert_int_equal(flagged, 0);
	free(only);
}

/* On a busy host single steps scatter by 5%; a run of slow ones is found all the same. */
static void a_run_of_slow_steps_is_found_where_single_steps_scatter(void **state)
{
	for (uint32_t seed = 1; seed <= 10; seed++) {
		struct roofline *m = model();
		uint32_t flagged = 0;

		random_state = seed * 104729;
		for (int i = 0; i < 200; i++)
			flagged += push_flat(m, 0.05, 1).flagged;
		assert_true(flagged <= 1);
		for (int i = 0; i < 60; i++)
			flagged += push_flat(m, 0.05, 1.25).flagged;
		assert_in_range(flagged, 25, 60);
		free(only);
	}
}

/* A fault begins while the model knows 150 steps. The next fits have its steps among their samples. */
static void a_fault_that_begins_early_does_not_undo_the_model(void **state)
{
	for (uint32_t seed = 1; seed <= 10; seed++) {
		struct roofline *m = model();
		uint32_t flagged = 0;

		random_state = seed * 7919;
		for (int i = 0; i < 126; i++)
			push_flat(m, 0.02, i % 9 ? 1 : 1 + 0.3 * uniform());
		for (int i = 0; i < 600; i++) {
			struct roofline_verdict v = push_flat(m, 0.03, i % 5 ? 1.38 : 1.6);

			assert_int_equal(v.state, ROOFLINE_READY);
			assert_float_equal(v.expected_ns, 100e6, 5e6);
			flagged += v.flagged;
		}
		assert_in_range(flagged, 550, 600);
		free(only);
	}
}

/* A serving engine under growing load. In one stretch of the learning time another program slows the
 * GPU down. */
static void a_slow_stretch_while_learning_bends_no_curve(void **state)
{
	for (uint32_t seed = 1; seed <= 60; seed++) {
		struct roofline *m = model();
		double batch = 0, length = 0;
		uint32_t wrong = 0, missed = 0, off = 0, first = 140 + seed;

		random_state = seed * 7919;
		for (uint32_t i = 0; i < 600; i++) {
			double work[3], healthy;
			bool early = i >= first && i < first + 6 + seed % 3 * 6,
			     late = i >= 400 && i < 420;
			struct roofline_verdict v;

			batch += 4 * (uniform() - 0.5) - batch / 10;
			length += 20 * (uniform() - 0.5) - length / 10;
			work[0] = i > 50 || uniform() < 0.5 ? 512 : floor(512 * uniform());
			work[1] = floor(fmax(6 + fmin(i, 230) / 5 + batch, 1));
			work[2] = floor(work[1] * (220 + length));
			healthy =
			    1e6 * (25 + 0.1 * work[0] + 0.003 * work[2]) * (1 + 0.01 * uniform());
			v = roofline_push(m, work, 3, healthy * (early || late ? 2.4 : 1));
			wrong += v.flagged && !early && !late;
			missed += !v.flagged && late;
			off += v.state == ROOFLINE_READY && fabs(v.expected_ns / healthy - 1) > 0.1;
		}
		assert_int_equal(wrong, 0);
		assert_int_equal(missed, 0);
		assert_int_equal(off, 0);
		free(only);
	}
}

/* Decode steps: the same requests for long, and their cache grows. Groups that are spread over time
 * are wide, but their steps are many: the noise is known. */
static void work_that_changes_slowly_is_not_sparse(void **state)
{
	for (uint32_t seed = 1; seed <= 10; seed++) {
		struct roofline *m = model();
		double batch = 0, cache = 0;

		random_state = seed * 7919;
		for (int i = 0; i < 900; i++) {
			if (i % 150 == 0) {
				batch = floor(1 + 10 * uniform());
				cache = floor(batch * (50 + 600 * uniform()));
			}
			cache += batch;
			roofline_push(m, (double[]){batch, batch, cache}, 3,
				      1e6 * (25 + 0.02 * cache) * (1 + 0.02 * uniform()));
		}
		assert_int_equal(summary(m).state, ROOFLINE_READY);
		assert_float_equal(summary(m).spread, 0.005, 0.002);
		free(only);
	}
}

/* CPU time of the longest push until a baseline of so many steps is complete: its last fit. */
static double fit_ns(uint32_t steps)
{
	struct roofline_config c;
	struct roofline *m;
	double most = 0;

	roofline_config_default(&c);
	c.learn_max = steps;
	random_state = 7;
	m = model_with(&c);
	for (uint32_t i = 0; i < steps; i++) {
		double work = exp(10 * uniform());
		uint64_t begin_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);

		roofline_push(m, &work, 1, (1e6 + 1e3 * work) * (1 + 0.01 * uniform()));
		most = fmax(most, (double)(clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin_ns));
	}
	assert_int_equal(summary(m).state, ROOFLINE_READY);
	free(only);
	return most;
}

/* A node judges no step meanwhile. With a time that grows as the square, the ratio is 12. */
static void a_fit_of_many_steps_takes_little_longer_for_each(void **state)
{
	assert_true(fit_ns(16000) < 8 * fit_ns(4000));
}

static void levels_that_become_a_curve_are_learned_and_not_refused(void **state)
{
	struct roofline *m = model();

	for (int i = 0; i < 80; i++) {
		double work[] = {i < 20 ? 500 * (1 + i % 10) : 500 + 4500 * uniform()};
		struct roofline_verdict v =
		    roofline_push(m, work, 1, 1e5 * work[0] * (1 + 0.005 * normal()));

		assert_int_not_equal(v.state, ROOFLINE_REFUSED);
	}
	assert_int_equal(summary(m).state, ROOFLINE_READY);
	free(only);
}

static void slowdown_right_at_the_threshold_is_not_absorbed_as_a_mixture(void **state)
{
	for (uint32_t seed = 1; seed <= 10; seed++) {
		struct roofline *m = model();
		struct roofline_verdict v = {0};

		random_state = seed * 7919;
		for (int i = 0; i < 2500; i++)
			v = push_flat(m, 0.01, i < 1000 ? 1 : 1.08);
		assert_true(v.drift);
		assert_float_equal(v.expected_ns, 100e6, 1.5e6);
		free(only);
	}
}

/* As when somebody gives the number of the row for its work. */
/* The same work then takes one of several times, in no stretches: no fault does that. A baseline that
 * is old is given up if times lie on both sides of it. */
static void steps_that_become_a_mixture_are_not_flagged_for_ever(void **state)
{
	(void)state;
	for (int kinds = 2; kinds <= 3; kinds++) {
		struct roofline *m = model();
		uint32_t flagged = 0;

		for (int i = 0; i < (kinds == 2 ? 100 : 2100); i++)
			push_flat(m, 0.01, 1);
		assert_int_equal(summary(m).state, ROOFLINE_READY);
		for (int i = 0; i < 600; i++) {
			double factor = kinds == 2	  ? (i % 2 ? 1 : 1.4)
					: uniform() < 0.3 ? 1.5
					: uniform() < 0.4 ? 0.6
							  : 1;

			flagged += push_flat(m, 0.01, factor).flagged && i >= 400;
		}
		assert_int_equal(flagged, 0);
		free(only);
	}
}

/* Every third step is disturbed by the host, as on a machine with two other jobs. */
static void a_fault_on_a_noisy_machine_is_not_learned(void **state)
{
	for (uint32_t seed = 1; seed <= 20; seed++) {
		struct roofline *m = model();
		uint32_t flagged = 0;

		random_state = seed * 7919;
		for (int i = 0; i < 1400; i++) {
			double work[] = {1 + floor(32 * uniform()), 4};
			double factor = i < 400 ? 1 : 1.8;
			double noise_ms = uniform() < 0.3 ? -20 * log(1 - uniform()) : 0;
			double step_ms = factor * (15 + 0.24 * work[0]) + 0.1 * uniform();

			flagged += roofline_push(m, work, 2, (step_ms + noise_ms) * 1e6).flagged &&
				   i >= 400;
		}
		assert_true(flagged > 900);
		free(only);
	}
}

static void work_that_only_grows_raises_no_drift_of_its_own(void **state)
{
	for (uint32_t seed = 1; seed <= 6; seed++) {
		struct roofline *m = model();

		random_state = seed;
		for (int i = 0; i < 3000; i++) {
			double work = i;

			roofline_push(m, &work, 1, 100e6 * (1 + 0.01 * normal()));
		}
		assert_int_equal(summary(m).state, ROOFLINE_READY);
		assert_false(summary(m).drift);
		free(only);
	}
}

static void wandering_healthy_noise_is_no_drift(void **state)
{
	for (uint32_t seed = 1; seed <= 10; seed++) {
		struct roofline *m = model();
		double wander = 0;

		random_state = seed * 7919;
		for (int i = 0; i < 10000; i++) {
			wander = 0.9 * wander + 0.003 * normal();
			roofline_push(m, NULL, 0, 100e6 * (1 + wander + 0.005 * normal()));
		}
		assert_false(summary(m).drift);
		assert_true(summary(m).flagged <= 10);
		free(only);
	}
}

static void lasting_speed_up_becomes_the_new_baseline(void **state)
{
	struct roofline *m = model();
	struct roofline_verdict v = {0};

	for (int i = 0; i < 1000; i++)
		push_flat(m, 0.01, 1);
	for (int i = 0; i < 500; i++)
		v = push_flat(m, 0.01, 0.8);
	assert_int_equal(v.state, ROOFLINE_READY);
	assert_float_equal(v.expected_ns, 80e6, 1e6);
	free(only);
}

/* 40% at each stair; 1% noise. */
static void stairs_are_followed_on_both_sides_of_a_jump(void **state)
{
	struct roofline *m = model();
	uint32_t missed = 0, wrong = 0, slow = 0;

	for (int i = 0; i < 4000; i++) {
		double work = floor(uniform() * 2000) + 1;
		double latency = 5e6 * pow(1.4, floor(work / 250)) * (1 + 0.01 * normal());
		bool bad = i > 2000 && i % 20 == 0;
		struct roofline_verdict v =
		    roofline_push(m, &work, 1, bad ? 1.3 * latency : latency);

		slow += bad;
		missed += bad && !v.flagged;
		wrong += i > 2000 && !bad && v.flagged;
	}
	assert_true(missed <= slow / 20);
	assert_true(wrong <= 4);
	free(only);
}

/* 260 levels in stairs, three learning steps each, a tenth of them slow: what is seen seldom neither
 * hides a slow step nor accuses a healthy one. */
static void levels_seen_seldom_are_judged_by_themselves_and_their_neighbours(void **state)
{
	uint32_t missed = 0, wrong = 0, slow = 0, healthy = 0;

	for (uint32_t round = 0; round < 5; round++) {
		struct roofline *m = model();

		random_state = 100 + round;
		for (int i = 0; i < 1100; i++) {
			double work = 8 * (floor(uniform() * 260) + 1);
			double latency = 5e4 * ceil(pow(work / 64, 0.8)) * (1 + 0.01 * normal());
			bool bad = uniform() < 0.1;
			struct roofline_verdict v;

			latency *= !bad ? 1 : i < 700 ? 1.2 + 1.8 * uniform() : 1.5;
			v = roofline_push(m, &work, 1, latency);
			if (i < 700)
				continue;
			slow += bad;
			healthy += !bad;
			missed += bad && !v.flagged;
			wrong += !bad && v.flagged;
		}
		free(only);
	}
	assert_true(missed <= slow / 50);
	assert_true(wrong <= healthy / 200);
}

/* Every tenth step of a level does something more: no anomaly, but the same again is. */
static void a_habit_of_a_level_is_no_anomaly(void **state)
{
	struct roofline *m = model();
	uint32_t wrong = 0;

	for (int i = 0; i < 4000; i++) {
		double work = 64 * (1 + floor(uniform() * 4));
		double habit = uniform() < 0.1 ? 1.2 : 1;
		struct roofline_verdict v =
		    roofline_push(m, &work, 1, 1e5 * (50 + work) * habit * (1 + 0.01 * normal()));

		wrong += i > 2000 && v.flagged;
	}
	assert_true(wrong <= 4);
	free(only);
}

static void heavy_tails_to_both_sides_without_relation_are_refused(void **state)
{
	struct roofline *m = model();
	uint32_t flagged = 0;

	for (int i = 0; i < 4000; i++) {
		double work = floor(uniform() * 50), cauchy = tan(M_PI * (uniform() - 0.5));

		flagged += roofline_push(m, &work, 1, 1e8 * fmax(0.05, 1 + 0.01 * cauchy)).flagged;
	}
	assert_int_equal(summary(m).state, ROOFLINE_REFUSED);
	assert_true(flagged <= 40);
	free(only);
}

/* On a busy host, some steps are slower by half. They are so far apart that no two of three are out,
 * and not slow enough to be flagged at once. */
static void slow_steps_that_recur_are_flagged(void **state)
{
	static const struct {
		int every, least, most; /* flagged of 200 steps */
	} row[] = {{4, 44, 50}, {7, 12, 29}, {40, 0, 1}};

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		struct roofline_config c;
		struct roofline *m;
		int flagged = 0;

		roofline_config_default(&c);
		c.instant_mads = 21;
		random_state = 7;
		m = model_with(&c);
		for (int k = 0; k < 400; k++)
			push_flat(m, 0.05, 1);
		for (int k = 1; k <= 200; k++) {
			bool slow = k % row[i].every == 0;
			bool is = push_flat(m, 0.05, slow ? 1.5 : 1).flagged;

			assert_true(slow || !is);
			flagged += is;
		}
		assert_in_range(flagged, row[i].least, row[i].most);
		free(only);
	}
}

static void work_never_seen_may_take_longer(void **state)
{
	struct roofline *m = model();
	struct roofline_verdict v = {0};
	double work = 4;

	for (int i = 0; i < 3000; i++)
		roofline_push(m, &work, 1, 10e6 * (1 + 0.01 * normal()));
	work = 64;
	v = roofline_push(m, &work, 1, 90e6);
	assert_true(v.novel && !v.flagged && !v.out);
	for (int i = 0; i < 200; i++)
		v = roofline_push(m, &work, 1, 90e6 * (1 + 0.01 * normal()));
	assert_false(v.novel);
	assert_float_equal(v.expected_ns, 90e6, 2e6);
	assert_true(roofline_push(m, &work, 1, 140e6).flagged);
	free(only);
}

static void work_that_was_always_nothing_has_a_finite_threshold(void **state)
{
	static const double late[] = {1, 1e17};

	for (int i = 0; i < 2; i++) {
		struct roofline *m = model();
		double work[] = {4, 0};
		struct roofline_verdict v;

		for (int k = 0; k < 2000; k++)
			roofline_push(m, work, 2, 10e6 * (1 + 0.01 * normal()));
		work[1] = late[i];
		v = roofline_push(m, work, 2, 90e6);
		assert_true(v.novel && !v.flagged);
		assert_true(isfinite(v.threshold));
		free(only);
	}
}

/* Batches of 2 to 33 requests were learned. A decode step of 1 or of 34 requests is flagged if it is
 * stopped for half a second, and healthy if not. */
static void a_stop_in_work_never_seen_is_flagged(void **state)
{
	static const double batch[] = {1, 34};

	for (int stopped = 0; stopped < 2; stopped++)
		for (int i = 0; i < 2; i++) {
			struct roofline *m = model();
			struct roofline_verdict v;
			double work[2];

			for (int k = 0; k < 2000; k++) {
				work[0] = 2 + rand() % 32;
				work[1] = work[0] * (500 + rand() % 500);
				roofline_push(m, work, 2,
					      (20e6 + 2e6 * work[0] + 50 * work[1]) *
						  (1 + 0.01 * normal()));
			}
			work[0] = batch[i];
			work[1] = work[0] * 900;
			v = roofline_push(m, work, 2,
					  20e6 + 2e6 * work[0] + 50 * work[1] + stopped * 500e6);
			assert_true(v.novel);
			assert_int_equal(v.flagged, stopped);
			free(only);
		}
}

/* Samples are floats: of what is nothing in one there is no logarithm. */
static void a_step_of_next_to_no_time_is_ignored(void **state)
{
	struct roofline *m = model();

	for (int i = 0; i < 3000; i++) {
		push_flat(m, 0.01, i % 2 ? 2 : 1);
		if (i % 100 == 7)
			roofline_push(m, NULL, 0, 1e-302);
	}
	assert_int_equal(summary(m).steps, 3000);
	assert_true(isfinite(summary(m).r2));
	free(only);
}

/* Constant, level, random and growing work, some of it never seen; single slow steps, and a fault. */
static void scaling_time_changes_no_verdict_of_any_work(void **state)
{
	static const double scale[] = {1.0 / 1024, 1e-6, 1000, 1e9};

	for (uint32_t seed = 1; seed <= 60; seed++) {
		struct roofline *m = model(), *scaled;
		struct roofline_set *first = only;
		uint32_t count = 1 + seed % 3, flagged = 0;

		scaled = model();
		random_state = seed * 7919;
		for (uint32_t i = 0; i < 500; i++) {
			double work[3] = {0}, ns, far = uniform() < 0.01 ? 1 + 8 * uniform() : 1;
			struct roofline_verdict v, w;

			for (uint32_t k = 0; k < count; k++)
				work[k] = far * (seed % 4 == 0	 ? 512
						 : seed % 4 == 1 ? 1 + floor(8 * uniform())
						 : seed % 4 == 2 ? exp(8 * uniform())
								 : 1000 + i * (k + 1));
			ns = 1e6 * (5 + 0.01 * work[0] + 0.02 * work[1] + 0.001 * work[2]) *
			     (1 + 0.01 * (uniform() - 0.5));
			ns *= uniform() < 0.02 ? 1.2 + uniform() : i > 400 && i < 440 ? 1.3 : 1;
			v = roofline_push(m, work, count, ns);
			w = roofline_push(scaled, work, count, ns * scale[seed / 4 % 4]);
			assert_int_equal(v.state, w.state);
			assert_true(v.out == w.out && v.flagged == w.flagged &&
				    v.persists == w.persists && v.novel == w.novel &&
				    v.drift == w.drift);
			flagged += v.flagged;
		}
		assert_in_range(flagged, 1, 200);
		free(first);
		free(only);
	}
}

static void impossible_input_is_ignored(void **state)
{
	struct roofline *m = model();
	double work[5] = {NAN, INFINITY, -3, 1e300, 1};

	for (int i = 0; i < 100; i++) {
		roofline_push(m, work, 5, 5e6);
		roofline_push(m, work, 5, NAN);
		roofline_push(m, work, 5, INFINITY);
		roofline_push(m, work, 5, -1);
		roofline_push(m, work, 5, 0);
	}
	assert_int_equal(summary(m).steps, 100);
	assert_int_equal(summary(m).flagged, 0);
	assert_true(isfinite(summary(m).intercept_ns) && isfinite(summary(m).r2));
	free(only);
}

static void the_same_input_gives_the_same_output(void **state)
{
	struct roofline_verdict a[500];

	for (int round = 0; round < 2; round++) {
		struct roofline *m = model();

		for (int i = 0; i < 500; i++) {
			double work = floor(uniform() * 100);
			struct roofline_verdict v = roofline_push(m, &work, 1, 1e6 * (9 + work));

			if (round)
				assert_true(v.expected_ns == a[i].expected_ns && v.out == a[i].out);
			a[i] = v;
		}
		free(only);
	}
}

static void p99_mode_collapses_on_bad_learning_steps_as_published(void **state)
{
	struct roofline_config c;
	uint32_t found[2] = {0};

	roofline_config_default(&c);
	c.mode = ROOFLINE_P99;
	for (int dirty = 0; dirty < 2; dirty++) {
		struct roofline *m = model_with(&c);

		random_state = 7;
		for (int i = 0; i < 2600; i++) {
			double work = floor(uniform() * 1000);
			double latency = (10 + 0.1 * work) * 1e6 * (1 + 0.01 * normal());
			bool slow = i > 2000 && i % 20 == 0;

			if (slow || (dirty && i < 2000 && uniform() < 0.05))
				latency *= slow ? 1.5 : 2.5;
			found[dirty] += roofline_push(m, &work, 1, latency).flagged && slow;
		}
		assert_int_equal(summary(m).state, ROOFLINE_READY);
		free(only);
	}
	assert_int_equal(found[0], 29);
	assert_true(found[1] < 3);
}

static void p99_mode_absorbs_a_sustained_slowdown_when_it_retrains(void **state)
{
	struct roofline_config c;
	struct roofline *m;
	uint32_t flagged[2] = {0};

	roofline_config_default(&c);
	c.mode = ROOFLINE_P99;
	random_state = 7;
	m = model_with(&c);
	for (int i = 0; i < 1050; i++) /* trained at 20, 520, 1020, ... */
		push_flat(m, 0.01, 1);
	for (int i = 0; i < 3000; i++) {
		bool hit = push_flat(m, 0.01, 1.3).flagged;

		flagged[0] += i < 400 && hit;
		flagged[1] += i >= 2600 && hit;
	}
	assert_true(flagged[0] > 380);
	assert_true(flagged[1] < 20);
	free(only);
}

/* Three bins of five lie on a line that the others are nowhere near: R2 = 1 - 0.4 / (0.4 * 0.6). */
static void p99_mode_refuses_a_line_that_is_worse_than_the_mean(void **state)
{
	struct roofline_config c;
	struct roofline *m;
	uint32_t flagged = 0;

	roofline_config_default(&c);
	c.mode = ROOFLINE_P99;
	m = model_with(&c);
	for (int i = 0; i < 1000; i++) {
		uint32_t bin = i % 30;
		double work = 10 + bin * 30, latency = bin % 5 < 2 ? 1e5 : work;

		flagged += roofline_push(m, &work, 1, 1e6 * latency).flagged;
	}
	assert_true(summary(m).r2 < -0.1);
	assert_int_equal(summary(m).state, ROOFLINE_REFUSED);
	assert_int_equal(flagged, 0);
	/* it goes on learning */
	for (int i = 0; i < 3000; i++) {
		double work = 10 + i % 24 * 30;

		roofline_push(m, &work, 1, 1e6 * (10 + work));
	}
	assert_int_equal(summary(m).state, ROOFLINE_READY);
	free(only);
}

static void a_set_keeps_models_apart_and_forgets_the_least_used(void **state)
{
	struct roofline_config c;
	struct roofline_set *s;
	uint64_t key;

	roofline_config_default(&c);
	s = roofline_set_init(aligned_alloc(64, (roofline_set_memory_bytes(&c, 3) + 63) & ~63ul),
			      &c, 3);
	random_state = 7;
	for (int i = 0; i < 100; i++)
		for (uint64_t k = 1; k <= 3; k++)
			roofline_push(roofline_set_get(s, k), NULL, 0,
				      (double)k * 1e6 * (1 + 0.01 * normal()));
	assert_int_equal(roofline_set_count(s), 3);
	assert_float_equal(roofline_push(roofline_set_get(s, 2), NULL, 0, 2e6).expected_ns, 2e6,
			   2e4);
	roofline_set_get(s, 1);
	roofline_set_get(s, 99); /* 3 is the least recently used */
	assert_int_equal(roofline_set_count(s), 3);
	assert_int_equal(summary(roofline_set_get(s, 99)).steps, 0);
	assert_int_equal(summary(roofline_set_get(s, 1)).steps, 100);
	assert_non_null(roofline_set_at(s, 0, &key));
	assert_int_equal(key, 1);
	roofline_set_at(s, 2, &key);
	assert_int_equal(key, 99);
	assert_null(roofline_set_at(s, 3, &key));
	assert_int_equal(summary(roofline_set_get(s, 3)).steps, 0);
	free(s);
}

static void names_of_states_are_stable(void **state)
{
	assert_string_equal(roofline_state_name(ROOFLINE_REFUSED), "refused");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(golden_line_of_two_features),
	    cmocka_unit_test(golden_spread_without_work),
	    cmocka_unit_test(says_learning_first_and_then_ready),
	    cmocka_unit_test(one_slow_step_is_flagged_at_once_and_its_neighbours_are_not),
	    cmocka_unit_test(a_fifth_of_bad_learning_steps_costs_no_recall),
	    cmocka_unit_test(constant_and_collinear_work_do_no_harm),
	    cmocka_unit_test(two_of_three_flag_what_one_alone_does_not),
	    cmocka_unit_test(refuses_what_work_does_not_explain_and_recovers),
	    cmocka_unit_test(sustained_slowdown_below_the_threshold_raises_drift_and_stays),
	    cmocka_unit_test(
		slow_stretches_below_the_tail_are_flagged_where_healthy_ones_have_none),
	    cmocka_unit_test(a_run_of_slow_steps_is_found_where_single_steps_scatter),
	    cmocka_unit_test(a_fault_that_begins_early_does_not_undo_the_model),
	    cmocka_unit_test(a_slow_stretch_while_learning_bends_no_curve),
	    cmocka_unit_test(work_that_changes_slowly_is_not_sparse),
	    cmocka_unit_test(a_fit_of_many_steps_takes_little_longer_for_each),
	    cmocka_unit_test(levels_that_become_a_curve_are_learned_and_not_refused),
	    cmocka_unit_test(slowdown_right_at_the_threshold_is_not_absorbed_as_a_mixture),
	    cmocka_unit_test(steps_that_become_a_mixture_are_not_flagged_for_ever),
	    cmocka_unit_test(a_fault_on_a_noisy_machine_is_not_learned),
	    cmocka_unit_test(work_that_only_grows_raises_no_drift_of_its_own),
	    cmocka_unit_test(wandering_healthy_noise_is_no_drift),
	    cmocka_unit_test(lasting_speed_up_becomes_the_new_baseline),
	    cmocka_unit_test(stairs_are_followed_on_both_sides_of_a_jump),
	    cmocka_unit_test(levels_seen_seldom_are_judged_by_themselves_and_their_neighbours),
	    cmocka_unit_test(a_habit_of_a_level_is_no_anomaly),
	    cmocka_unit_test(heavy_tails_to_both_sides_without_relation_are_refused),
	    cmocka_unit_test(slow_steps_that_recur_are_flagged),
	    cmocka_unit_test(work_never_seen_may_take_longer),
	    cmocka_unit_test(work_that_was_always_nothing_has_a_finite_threshold),
	    cmocka_unit_test(a_stop_in_work_never_seen_is_flagged),
	    cmocka_unit_test(a_step_of_next_to_no_time_is_ignored),
	    cmocka_unit_test(scaling_time_changes_no_verdict_of_any_work),
	    cmocka_unit_test(impossible_input_is_ignored),
	    cmocka_unit_test(the_same_input_gives_the_same_output),
	    cmocka_unit_test(p99_mode_collapses_on_bad_learning_steps_as_published),
	    cmocka_unit_test(p99_mode_absorbs_a_sustained_slowdown_when_it_retrains),
	    cmocka_unit_test(p99_mode_refuses_a_line_that_is_worse_than_the_mean),
	    cmocka_unit_test(a_set_keeps_models_apart_and_forgets_the_least_used),
	    cmocka_unit_test(names_of_states_are_stable),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
