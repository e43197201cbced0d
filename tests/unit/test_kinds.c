/* SPDX-License-Identifier: Apache-2.0
 * Jobs of steps of 50 ms with their phases and faults. The judge is in it, as it says what is slow. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/expect/judge.h"
#include "base/check.h"

#define MS 1e6

struct job {
	struct judge *judge;
	uint64_t step, now_ns;
	uint32_t seed, flagged, of_kind, spikes;
	bool stated; /* the job says how much work a step has */
	uint64_t first_flag, last_flag;
	struct judge_verdict v; /* of the latest step */
};

static double uniform(struct job *j)
{
	j->seed = j->seed * 1664525u + 1013904223u;
	return (j->seed >> 8) / 16777216.0;
}

static double normal(struct job *j)
{
	double a = uniform(j);

	return sqrt(-2 * log(1 - a)) * cos(2 * M_PI * uniform(j));
}

static struct job job_of(uint32_t seed)
{
	struct job j = {.seed = seed};
	struct judge_config c;

	judge_config_default(&c);
	j.judge = judge_init(aligned_alloc(64, (judge_memory_bytes(&c) + 63) & ~63ul), &c);
	return j;
}

static void end(struct job *j)
{
	free(j->judge);
}

/* A step with so much more in each part. phase 1: evaluation, of other kernels. */
static void push(struct job *j, uint32_t phase, const double extra_ms[KINDS_PARTS])
{
	double compute =
		   (phase ? 15 : 30) * MS * (1 + 0.005 * normal(j)) + extra_ms[KINDS_COMPUTE] * MS,
	       wait = (phase ? 0 : 8) * MS * (1 + 0.02 * normal(j)) + extra_ms[KINDS_WAIT] * MS,
	       copy = 2 * MS + extra_ms[KINDS_COPY] * MS,
	       idle = 10 * MS * (1 + 0.01 * normal(j)) + extra_ms[KINDS_HOST] * MS;
	struct step s = {.index = j->step++,
			 .source = STEP_SOURCE_AUTO,
			 .phase = phase,
			 .kernels = 10,
			 .launches = phase ? 4 : 10,
			 .collectives = phase ? 0 : 4,
			 .flags = j->stated ? STEP_FLAG_STATED : 0,
			 .work_count = 1};

	s.key = steps_key(s.source, phase);
	s.work[0] = s.launches;
	s.begin_ns = j->now_ns;
	s.compute_ns = (uint64_t)compute;
	s.exposed_comm_ns = s.comm_ns = (uint64_t)wait;
	s.copy_ns = (uint64_t)copy;
	s.idle_ns = (uint64_t)idle;
	s.self_ns = (uint64_t)(compute + copy + idle);
	s.latency_ns = s.device_latency_ns = s.self_ns + s.comm_ns;
	s.end_ns = j->now_ns += s.latency_ns;
	j->v = judge_push(j->judge, &s, 0);
	assert_true(j->v.flagged || !j->v.self);
	assert_true(j->v.excess > -1 && j->v.expected_ns >= 0);
	j->of_kind += j->v.of_kind;
	j->spikes += j->v.spike;
	if (!j->v.flagged)
		return;
	if (!j->flagged++)
		j->first_flag = s.index;
	j->last_flag = s.index;
}

static void slower(struct job *j, uint32_t part, double ms)
{
	double extra[KINDS_PARTS] = {0};

	extra[part] = ms;
	push(j, 0, extra);
}

static void usual(struct job *j, uint32_t steps)
{
	for (uint32_t i = 0; i < steps; i++)
		slower(j, 0, 0);
}

/* Up to that step, each period-th one longer. */
static void recurs(struct job *j, uint64_t until, uint32_t period, uint32_t part, double ms)
{
	while (j->step < until)
		slower(j, part, j->step % period == period - 1 ? ms * (1 + 0.05 * normal(j)) : 0);
}

static void a_checkpoint_is_known_from_its_second_occurrence_on(void **unused)
{
	static const uint32_t parts[] = {KINDS_HOST, KINDS_WAIT, KINDS_COPY, KINDS_COMPUTE};

	for (uint32_t i = 0; i < 4 * 8; i++) {
		struct job j = job_of(i + 1);
		struct kinds_row row;

		recurs(&j, 1000, 50, parts[i % 4], 2000);
		assert_int_equal(j.flagged, 1);
		assert_in_range(j.first_flag, 49, 99); /* where the model is ready by then */
		assert_int_equal(judge_kinds(j.judge, &row, 1), 1);
		assert_false(row.by_work);
		assert_int_equal(row.part, parts[i % 4]);
		assert_int_equal(row.period, 50);
		assert_in_range(row.count, 19, 20);
		assert_float_equal(row.cost_ns, 2000 * MS, 100 * MS);
		assert_float_equal(row.steps, 1, 0);
		assert_float_equal(row.share, (double)row.count * 2000 / (20 * 2000 + 1000 * 50),
				   0.01);
		assert_false(row.grown);
		end(&j);
	}
}

/* The first one comes while the model learns. The job's first steps, which are as long, say nothing. */
static void an_occurrence_that_was_not_judged_counts(void **unused)
{
	for (uint32_t seed = 1; seed <= 16; seed++) {
		uint64_t at = seed % 2 ? 15 : 95;
		struct job j = job_of(seed);

		while (j.step < 1000) {
			bool writes = j.step % 100 == at || j.step < 3;

			slower(&j, KINDS_HOST, writes ? 500 * (1 + 0.05 * normal(&j)) : 0);
		}
		assert_in_range(j.flagged, 0, seed % 2 ? 0 : 1);
		end(&j);
	}
}

/* Other steps are a little longer while the model learns, or every 30th one is. */
static void short_delays_hide_no_checkpoint(void **unused)
{
	uint32_t late = 0;

	for (uint32_t seed = 1; seed <= 60; seed++) {
		struct job j = job_of(seed);

		while (j.step < 1000) {
			bool writes = j.step % 90 == 89;
			double delay = seed % 2		    ? (j.step % 30 == 29 ? 12 : 0)
				       : uniform(&j) < 0.35 ? 8 + 20 * uniform(&j)
							    : 0;

			slower(&j, KINDS_HOST, writes ? 700 : delay);
			late += writes && j.step > 200 && j.v.flagged;
		}
		end(&j);
	}
	print_message("of 540 checkpoints %u were flagged after the second one\n", late);
	assert_in_range(late, 0, 4);
}

/* Every 50th, 100th and 200th step does something more. */
static void phases_that_fall_on_each_other_are_all_known(void **unused)
{
	for (uint32_t seed = 1; seed <= 20; seed++) {
		struct job j = job_of(seed);

		while (j.step < 3000) {
			uint64_t n = j.step + 1;
			double ms = 0;

			for (uint32_t every = 50; every <= 200 && !(n % every); every *= 2)
				ms += (every == 50 ? 100 : 4.0 * every) * (1 + 0.05 * normal(&j));
			slower(&j, KINDS_HOST, ms);
		}
		assert_in_range(j.flagged, 1, 6);
		assert_in_range(j.last_flag, 49, 999);
		end(&j);
	}
}

/* Once a checkpoint takes longer, by as much as a later fault on each of them. */
static void a_transient_on_a_checkpoint_hides_no_fault_there(void **unused)
{
	uint32_t steps = 0, flagged = 0;

	for (uint32_t seed = 1; seed <= 20; seed++) {
		struct job j = job_of(seed);

		while (j.step < 3000) {
			bool checkpoint = j.step % 50 == 49, fault = checkpoint && j.step > 700;

			slower(&j, KINDS_HOST,
			       (checkpoint ? 500 * (1 + 0.05 * normal(&j)) : 0) +
				   (fault || j.step == 299 ? 400 * (1 + 0.05 * normal(&j)) : 0));
			steps += fault;
			flagged += fault && j.v.flagged;
		}
		end(&j);
	}
	print_message("of %u slow steps %u were flagged\n", steps, flagged);
	assert_true(flagged >= 0.97 * steps);
}

/* The others wait for it in the first step behind the evaluation. */
static void a_wait_behind_an_evaluation_is_of_its_kind(void **unused)
{
	for (uint32_t seed = 1; seed <= 16; seed++) {
		struct job j = job_of(seed);
		double extra[KINDS_PARTS] = {0};

		while (j.step < 1000) {
			bool evaluates = j.step >= 597 && j.step < 602;

			extra[KINDS_WAIT] = (j.step % 100 == 99 && !evaluates) || j.step == 602
						? 500 * (1 + 0.05 * normal(&j))
						: 0;
			push(&j, evaluates, extra);
			assert_false(j.step > 200 && j.v.flagged);
		}
		end(&j);
	}
}

/* Short delays are at the same distance before and after the first checkpoint, by chance. */
static void short_delays_around_a_checkpoint_do_not_hide_it(void **unused)
{
	for (uint32_t seed = 1; seed <= 16; seed++) {
		struct job j = job_of(seed);

		while (j.step < 1000) {
			bool writes = j.step % 150 == 149;

			slower(&j, KINDS_HOST,
			       writes			       ? 550
			       : j.step == 35 || j.step == 263 ? 12
							       : 0);
			assert_false(writes && j.v.flagged && j.step > 150);
		}
		end(&j);
	}
}

/* The third one is in the job's first evaluation, whose steps no model knows. */
static void a_checkpoint_in_an_evaluation_does_not_end_its_kind(void **unused)
{
	for (uint32_t seed = 1; seed <= 16; seed++) {
		struct job j = job_of(seed);
		double extra[KINDS_PARTS] = {0};

		while (j.step < 1000) {
			extra[KINDS_HOST] = j.step % 100 == 99 ? 500 * (1 + 0.05 * normal(&j)) : 0;
			push(&j, j.step >= 299 && j.step < 319, extra);
		}
		assert_in_range(j.flagged, 0, 1);
		end(&j);
	}
}

/* Waits that nothing explains: what a step takes is not known, but what it takes itself. */
static void a_checkpoint_is_known_by_self_time_alone(void **unused)
{
	uint32_t unknown = 0;

	for (uint32_t i = 0; i < 16; i++) {
		struct job j = job_of(i + 1);
		struct kinds_row row;

		while (j.step < 1500) {
			double extra[KINDS_PARTS] = {0};

			extra[KINDS_WAIT] = 200 * uniform(&j) * uniform(&j);
			extra[KINDS_HOST] = j.step % 50 == 49 ? 2000 * (1 + 0.05 * normal(&j)) : 0;
			push(&j, 0, extra);
			unknown += extra[KINDS_HOST] > 0 && j.v.state != ROOFLINE_READY;
		}
		assert_in_range(j.flagged, 0, 2);
		if (j.flagged)
			assert_int_equal(judge_kinds(j.judge, &row, 1), 1);
		end(&j);
	}
	assert_true(unknown > 100);
}

/* A busy machine delays the steps before most checkpoints. They are flagged, the checkpoints not. */
static void slow_steps_before_a_kind_do_not_hide_it(void **unused)
{
	for (uint32_t seed = 1; seed <= 20; seed++) {
		struct job j = job_of(seed);
		uint32_t late = 0;

		recurs(&j, 600, 30, KINDS_HOST, 40);
		while (j.step < 1200) {
			uint64_t at = j.step % 30;

			slower(&j, KINDS_HOST, at == 29 ? 40 : at >= 26 ? 25 : 0);
			late += at >= 26 && at < 29 && j.v.flagged;
			assert_false(at == 29 && j.v.flagged);
		}
		assert_in_range(late, 50, 60);
		end(&j);
	}
}

static void a_kind_that_grows_is_flagged_with_its_growth(void **unused)
{
	struct job j = job_of(3);
	struct kinds_row row;

	recurs(&j, 649, 50, KINDS_HOST, 400);
	assert_int_equal(j.flagged, 1);
	for (int k = 0; k < 3; k++) {
		slower(&j, KINDS_HOST, 1000);
		assert_true(j.v.flagged && j.v.self && j.v.of_kind);
		assert_float_equal(j.v.expected_ns, 450 * MS, 20 * MS);
		assert_float_equal(j.v.expected_self_ns, 442 * MS, 20 * MS);
		assert_int_equal(judge_kinds(j.judge, &row, 1), 1);
		assert_true(row.grown);
		usual(&j, 49);
	}
	assert_int_equal(j.flagged, 4);
	slower(&j, KINDS_HOST, 400);
	assert_int_equal(j.flagged, 4);
	end(&j);
}

/* Storage is busy, so that writes differ by half. A single one of four times the usual length may be
 * chance, several in a row are not. */
static void a_noisy_kind_that_grows_is_flagged_after_a_few_occurrences(void **unused)
{
	uint32_t first = 0, third = 0, chance = 0;

	for (uint32_t seed = 1; seed <= 100; seed++) {
		struct job j = job_of(seed);

		for (uint32_t i = 0; i < 40; i++) {
			bool grown = i >= 37;

			usual(&j, 49);
			slower(&j, KINDS_HOST, (grown ? 1600 : 400) * exp(0.25 * normal(&j)));
			first += i == 37 && j.v.flagged;
			third += i == 39 && j.v.flagged;
			chance += i >= 10 && !grown && j.v.of_kind && j.v.flagged;
		}
		end(&j);
	}
	print_message("of 100 kinds that grew %u were flagged at once, %u in the third occurrence; "
		      "of 2700 usual occurrences %u\n",
		      first, third, chance);
	assert_true(third >= 75);
	assert_true(chance <= 13);
}

/* Whether it is as long as usual or has grown. A step of the usual kind has no period. */
static void a_step_is_compared_with_its_kind(void **unused)
{
	struct job j = job_of(3);

	recurs(&j, 649, 50, KINDS_HOST, 400);
	assert_int_equal(j.v.period, 0);
	slower(&j, KINDS_HOST, 400);
	assert_int_equal(j.v.period, 50);
	assert_false(j.v.out);
	assert_float_equal(j.v.expected_ns, 450 * MS, 20 * MS);
	assert_float_equal(j.v.excess, 0, 0.05);
	usual(&j, 49);
	slower(&j, KINDS_HOST, 1000);
	assert_int_equal(j.v.period, 50);
	assert_true(j.v.out);
	assert_float_equal(j.v.excess, 600.0 / 450, 0.1);
	end(&j);
}

/* All ranks write, and then wait for the one that writes longest. */
static void a_step_of_a_kind_that_waits_longer_is_of_its_kind(void **unused)
{
	for (uint32_t seed = 1; seed < 9; seed++) {
		struct job j = job_of(seed);
		double extra[KINDS_PARTS] = {0};

		recurs(&j, 649, 50, KINDS_HOST, 400);
		assert_int_equal(j.flagged, 1);
		extra[KINDS_HOST] = 400;
		extra[KINDS_WAIT] = 1000;
		push(&j, 0, extra);
		assert_true(j.v.of_kind && j.v.flagged && !j.v.self);
		assert_float_equal(j.v.expected_ns, 450 * MS, 20 * MS);
		assert_float_equal(j.v.expected_self_ns, 442 * MS, 20 * MS);
		assert_float_equal(j.v.self_excess, 0, 0.05);
		end(&j);
	}
}

/* All ranks write, on fewer CPUs: sometimes this one is late, sometimes it waits longer than it
 * writes. */
static void a_kind_is_known_whichever_account_is_longest(void **unused)
{
	uint32_t waits = 0;

	for (uint32_t seed = 1; seed < 17; seed++) {
		struct job j = job_of(seed);
		struct kinds_row row;

		while (j.step < 1000) {
			double extra[KINDS_PARTS] = {0};

			if (j.step % 100 == 99) {
				extra[KINDS_HOST] =
				    seed % 2 ? 70 + 60 * uniform(&j) : 20 + 140 * uniform(&j);
				extra[KINDS_WAIT] = 180 - extra[KINDS_HOST];
				waits += extra[KINDS_WAIT] > extra[KINDS_HOST];
			}
			push(&j, 0, extra);
		}
		assert_int_equal(j.flagged, 1);
		assert_int_equal(judge_kinds(j.judge, &row, 1), 1);
		assert_int_equal(row.period, 100);
		end(&j);
	}
	assert_in_range(waits, 16, 9 * 16);
}

/* A rank waits for another one's checkpoint, and its host is a little late in that step, too. A step
 * that is late by as much founds no kind with it: of the checkpoint that is next to nothing. */
static void a_small_part_of_a_stretch_founds_no_kind(void **unused)
{
	const double checkpoint[KINDS_PARTS] = {[KINDS_HOST] = 10, [KINDS_WAIT] = 500};

	for (uint32_t seed = 1; seed <= 8; seed++) {
		struct job j = job_of(seed);

		while (j.step < 1000)
			if (j.step % 100 == 99)
				push(&j, 0, checkpoint);
			else
				slower(&j, KINDS_HOST, j.step == 185 ? 10 : 0);
		assert_int_equal(j.flagged, 1);
		end(&j);
	}
	(void)unused;
}

static void a_fault_that_comes_again_and_again_is_no_kind(void **unused)
{
	static const uint32_t periods[] = {2, 3, 5, 10, 20, 37, 60};

	for (uint32_t i = 0; i < 7 * 8; i++) {
		struct job j = job_of(i + 1);
		uint32_t period = periods[i % 7], at = 200 + i;
		uint64_t begin;

		usual(&j, at);
		begin = j.step;
		recurs(&j, begin + 40 * period, period, KINDS_HOST, 100);
		assert_in_range(j.flagged, 39, 40);
		assert_true(j.first_flag >= begin);
		end(&j);
	}
}

static void a_fault_beside_a_checkpoint_is_reported(void **unused)
{
	struct job j = job_of(5);
	uint32_t at_checkpoints = 0;

	recurs(&j, 400, 50, KINDS_HOST, 2000);
	assert_int_equal(j.flagged, 1);
	while (j.step < 800) {
		bool checkpoint = j.step % 50 == 49, fault = j.step % 10 == 3;

		slower(&j, KINDS_HOST, checkpoint ? 2000 : fault ? 150 : 0);
		at_checkpoints += checkpoint && j.v.flagged;
	}
	assert_int_equal(j.flagged, 1 + 40);
	assert_int_equal(at_checkpoints, 0);
	end(&j);
}

/* Longer than the rank remembers each of its steps. */
static void a_fault_that_goes_on_for_long_is_no_kind(void **unused)
{
	static const uint32_t periods[] = {4, 16, 25};

	for (uint32_t i = 0; i < ARRAY_LEN(periods); i++) {
		struct job j = job_of(i + 1);
		uint32_t steps = 0;

		usual(&j, 200);
		for (; steps < 3 * KINDS_EVENTS; steps++) {
			usual(&j, periods[i] - 1);
			slower(&j, KINDS_HOST, 40 + 20 * uniform(&j));
		}
		assert_true(j.flagged >= steps - 1);
		end(&j);
	}
}

/* A phase from the start on. Later also a fault: now and then it misses its turn, comes a step early or
 * late, or follows the phase. */
static void a_fault_that_is_not_quite_regular_is_no_kind(void **unused)
{
	static const struct {
		uint32_t phase, fault, jitter, behind;
		double often;
	} cases[] = {
	    {100, 20, 0, 0, 0.8}, {10, 200, 2, 0, 1}, {200, 200, 1, 3, 1}, {10, 200, 0, 1, 1}};

	for (uint32_t c = 0; c < ARRAY_LEN(cases); c++) {
		uint32_t slow = 0, of_slow = 0, of_phase = 0;

		for (uint32_t seed = 1; seed <= 5; seed++) {
			struct job j = job_of(seed);
			uint64_t next = 0;

			while (j.step < 5000) {
				bool phase = j.step % cases[c].phase == 0 && j.step, fault = false;

				if (j.step >= 700 && j.step % cases[c].fault == 5 % cases[c].phase)
					next = uniform(&j) < cases[c].often
						   ? j.step + cases[c].behind +
							 (uint64_t)(uniform(&j) *
								    (1 + 2 * cases[c].jitter))
						   : 0;
				fault = j.step == next && j.step >= 700;
				slower(&j, KINDS_HOST,
				       60 * (phase + fault) * (1 + 0.1 * normal(&j)));
				slow += fault && !phase;
				of_slow += fault && !phase && j.v.flagged;
				of_phase += phase && !fault && j.v.flagged && j.step > 1000;
			}
			end(&j);
		}
		print_message("case %u: %u of %u slow steps, %u of the phase\n", c, of_slow, slow,
			      of_phase);
		assert_true(of_slow > 0.9 * slow);
	}
}

/* One slow step early in the job hides no more of a fault than its first step. */
static void an_early_transient_founds_no_kind_with_a_fault(void **unused)
{
	for (uint32_t seed = 1; seed < 20; seed++) {
		struct job j = job_of(seed);

		usual(&j, 90);
		slower(&j, KINDS_HOST, 100);
		usual(&j, 150 + seed);
		recurs(&j, j.step + 120, 3, KINDS_HOST, 100);
		assert_in_range(j.flagged, 1 + 39, 1 + 40);
		end(&j);
	}
}

static void slowness_that_stays_is_no_kind(void **unused)
{
	struct job j = job_of(8);

	recurs(&j, 500, 50, KINDS_HOST, 100);
	assert_int_equal(j.flagged, 1);
	for (int i = 0; i < 100; i++) {
		slower(&j, KINDS_HOST, 100);
		assert_int_equal(j.v.period, 0); /* the kind takes one step */
	}
	assert_in_range(j.flagged, 1 + 98, 1 + 100);
	end(&j);
}

/* As after sysom off and on, with fewer steps before the slowness than in it. */
static void slowness_is_one_stretch_across_steps_that_were_not_judged(void **unused)
{
	for (uint32_t missing = 1; missing < 100; missing += 33) {
		struct job j = job_of(8);

		usual(&j, 200);
		for (int i = 0; i < 440; i++)
			slower(&j, KINDS_HOST, 84);
		j.step += missing;
		for (int i = 0; i < 200; i++)
			slower(&j, KINDS_HOST, 84);
		assert_int_equal(j.of_kind, 0);
		assert_in_range(j.flagged, 638, 640);
		end(&j);
	}
}

/* The other ranks collect garbage, each in a step of its own, so that this one waits. Every 100 steps it
 * writes, every 250 steps more of it: sometimes in the same step, or in the one behind. */
static void phases_are_distinguished_where_they_meet(void **unused)
{
	for (uint64_t place = 248; place <= 250; place++) {
		struct job j = job_of(11);

		while (j.step < 1700) {
			uint64_t k = j.step % 100;
			bool waits = k == 92 || k == 85 || k == 78;
			double more = j.step % 250 == place % 250 ? 900 : 0;

			slower(&j, waits ? KINDS_WAIT : KINDS_HOST,
			       waits || k == 99 ? 200 + more : more);
		}
		assert_in_range(j.flagged, 4, 10);
		assert_true(j.last_flag < 510);
		end(&j);
	}
}

/* Three of 40 steps are logged in detail, and every 50th collects garbage: as long, in the same
 * account. */
static void two_kinds_that_are_alike_are_known_both(void **unused)
{
	for (uint32_t seed = 1; seed <= 8; seed++) {
		struct kinds_row row[2];
		struct job j = job_of(seed);

		while (j.step < 1500) {
			bool one = j.step % 50 == 42 || j.step % 40 < 3;

			slower(&j, KINDS_HOST, one ? 35 * (1 + 0.1 * normal(&j)) : 0);
		}
		assert_in_range(j.flagged, 1, 12);
		assert_true(j.last_flag < 250);
		assert_int_equal(judge_kinds(j.judge, row, 2), 2);
		assert_int_equal(row[0].period, 40);
		assert_int_equal(row[1].period, 50);
		end(&j);
	}
}

static void a_checkpoint_in_the_background_is_one_stretch(void **unused)
{
	struct job j = job_of(13);
	struct kinds_row row;

	while (j.step < 1000)
		slower(&j, KINDS_HOST, j.step % 100 < 6 && j.step > 50 ? 30 : 0);
	assert_in_range(j.flagged, 5, 6);
	assert_int_equal(judge_kinds(j.judge, &row, 1), 1);
	assert_int_equal(row.period, 100);
	assert_float_equal(row.steps, 6, 0.1);
	assert_float_equal(row.cost_ns, 180 * MS, 10 * MS);
	end(&j);
}

static void an_evaluation_is_known_by_its_work(void **unused)
{
	struct job j = job_of(17);
	struct kinds_row row[2];
	double nothing[KINDS_PARTS] = {0};

	while (j.step < 900)
		push(&j, j.step % 60 >= 48, nothing);
	assert_int_equal(j.flagged, 0);
	assert_int_equal(judge_kinds(j.judge, row, 2), 1);
	assert_true(row[0].by_work);
	assert_int_equal(row[0].period, 60);
	assert_int_equal(row[0].count, 15);
	assert_float_equal(row[0].steps, 12, 0);
	assert_float_equal(row[0].cost_ns, 12 * 27 * MS, 5 * MS);
	assert_float_equal(row[0].launches, 4, 0);
	end(&j);
}

/* Its loader starts anew: the first training step behind it is longer. */
static void a_step_after_an_evaluation_is_a_kind_too(void **unused)
{
	uint32_t flagged = 0;

	for (uint32_t seed = 1; seed <= 20; seed++) {
		struct job j = job_of(seed);
		double late[KINDS_PARTS] = {0}, nothing[KINDS_PARTS] = {0};

		late[KINDS_HOST] = 500;
		while (j.step < 1200) {
			/* an evaluation is not found in the same number of steps each time */
			uint32_t more = (uint32_t)(uniform(&j) * 3);

			for (uint32_t i = 0; i < 87 + more; i++)
				push(&j, 0, nothing);
			for (uint32_t i = 0; i < 12; i++)
				push(&j, 1, nothing);
			push(&j, 0, late);
		}
		assert_in_range(j.flagged, 1, 4);
		flagged += j.flagged;
		end(&j);
	}
	print_message("of 220 steps after evaluations %u were flagged\n", flagged);
	assert_true(flagged <= 40);
}

/* The numbers of steps between two of them differ, since evaluations of any length come between. */
static void a_checkpoint_by_the_clock_is_known(void **unused)
{
	uint32_t flagged = 0, late = 0, written = 0, by_clock = 0;

	for (uint32_t seed = 1; seed <= 20; seed++) {
		struct job j = job_of(seed);
		double nothing[KINDS_PARTS] = {0}, writes[KINDS_PARTS] = {0}, due = 15e9;
		uint32_t evaluates = 0;
		struct kinds_row row[4];

		while (j.step < 6000) {
			bool is_due = (double)j.now_ns >= due;

			if (!evaluates && uniform(&j) < 0.01)
				evaluates = 1 + (uint32_t)(uniform(&j) * 60);
			evaluates -= evaluates > 0;
			writes[KINDS_HOST] = 700 * (1 + 0.1 * normal(&j));
			push(&j, evaluates > 0, is_due ? writes : nothing);
			due += is_due ? 15e9 : 0;
			written += is_due;
			late += is_due && j.v.flagged && due > 7 * 15e9;
		}
		flagged += j.flagged;
		assert_int_equal(judge_kinds(j.judge, row, ARRAY_LEN(row)), 2);
		assert_int_equal(row[0].by_work + row[1].by_work, 1);
		if (row[row[0].by_work].period_ns)
			assert_in_range(row[row[0].by_work].period_ns, 14800 * MS, 15200 * MS);
		by_clock += row[row[0].by_work].period_ns > 0;
		end(&j);
	}
	print_message("of %u checkpoints %u were flagged, %u after the fifth\n", written, flagged,
		      late);
	assert_in_range(flagged, 20, 22); /* the first one of each job */
	assert_int_equal(by_clock, 20);
	assert_int_equal(late, 0);
}

static void a_fault_by_the_clock_is_no_kind(void **unused)
{
	uint32_t flagged = 0, slow = 0;

	for (uint32_t seed = 1; seed <= 20; seed++) {
		struct job j = job_of(seed);
		double due = 40e9;

		while (j.step < 4000) {
			bool is_due = (double)j.now_ns >= due;

			slower(&j, KINDS_HOST, is_due ? 300 : 0);
			due += is_due ? 5e9 : 0;
			slow += is_due;
			flagged += is_due && j.v.flagged;
		}
		end(&j);
	}
	print_message("of %u slow steps %u were flagged\n", slow, flagged);
	assert_true(flagged > 0.98 * slow);
}

static void a_kind_that_ends_is_reported_no_more(void **unused)
{
	struct job j = job_of(23);
	struct kinds_row row;

	recurs(&j, 400, 20, KINDS_HOST, 100);
	assert_int_equal(judge_kinds(j.judge, &row, 1), 1);
	usual(&j, 100);
	assert_int_equal(judge_kinds(j.judge, &row, 1), 0);
	end(&j);
}

static void what_was_there_before_the_watch_is_no_kind(void **unused)
{
	struct job j = job_of(29);
	struct judge_sample l = {
	    .key = steps_key(STEP_SOURCE_AUTO, 0), .work = {10}, .work_count = 1, .known = 1};

	for (int i = 0; i < 200; i++) {
		l.self_ns = 42 * MS * (1 + 0.005 * normal(&j));
		l.latency_ns = l.self_ns + 8 * MS * (1 + 0.02 * normal(&j));
		judge_restore(j.judge, &l);
	}
	judge_settle(j.judge);
	recurs(&j, 400, 10, KINDS_HOST, 100);
	assert_int_equal(j.flagged, 40);
	end(&j);
}

/* The other ranks are so uneven that the latency proves little, but the self time proves much. If the
 * latency does not show the additional self time, because this rank waits less for the others, the
 * step is not slow. */
static void uneven_peers_hide_no_slow_host(void **unused)
{
	for (int hidden = 0; hidden < 2; hidden++) {
		struct job j = job_of(17);
		uint32_t learned = 0;

		while (j.step < 600) {
			double extra[KINDS_PARTS] = {0};
			bool slow = j.step >= 400 && j.step % 4 == 0;

			if (j.step == 400)
				learned = j.flagged;
			extra[KINDS_HOST] = slow ? 17 : 0;
			extra[KINDS_WAIT] = 20 + 24 * uniform(&j) - (slow && hidden ? 17 : 0);
			push(&j, 0, extra);
		}
		if (hidden)
			assert_in_range(j.flagged - learned, 0, 2);
		else
			assert_in_range(j.flagged - learned, 20, 50);
		end(&j);
	}
}

/* Evaluation has a model of its own, which is still learning when the first checkpoint falls into it. */
static void a_checkpoint_within_an_evaluation_is_the_same_kind(void **unused)
{
	struct job j = job_of(21);

	while (j.step < 3000) {
		double extra[KINDS_PARTS] = {0};

		extra[KINDS_HOST] = j.step % 100 == 99 ? 500 : 0;
		push(&j, j.step % 150 >= 147, extra);
	}
	assert_in_range(j.flagged, 1, 3);
	end(&j);
}

/* Four ranks collect garbage every 100 steps, each so many steps after the one before. One first occurrence
 * is not judged, and other pairs are 100 steps and one such distance apart. */
static void phases_beside_each_other_are_known_though_one_was_not_judged(void **unused)
{
	for (uint32_t i = 0; i < 2 * 4; i++) {
		uint64_t apart = i % 2 ? 7 : 3, missing = i / 2;
		struct job j = job_of(i + 31);
		struct kinds_row row[5];

		while (j.step < 2000) {
			uint64_t k = j.step % 100;
			bool any = k >= 78 && k <= 78 + 3 * apart && (k - 78) % apart == 0;

			if (j.step == 78 + apart * missing)
				j.step++;
			else
				slower(&j, k == 78 + apart ? KINDS_HOST : KINDS_WAIT,
				       any ? 55 * (1 + 0.05 * normal(&j)) : 0);
		}
		assert_in_range(j.flagged, 3, 7);
		assert_true(j.last_flag < 500);
		if (apart == 7) /* 3: each may stand for the one beside it */
			assert_int_equal(judge_kinds(j.judge, row, ARRAY_LEN(row)), 4);
		for (uint32_t q = 0; q < 4 && apart == 7; q++) {
			assert_int_equal(row[q].period, 100);
			assert_in_range(row[q].count, 18, 20);
		}
		end(&j);
	}
}

/* Two steps after every second checkpoint the others write, for longer. */
static void a_phase_beside_a_known_one_is_a_kind_too(void **unused)
{
	struct job j = job_of(41);

	while (j.step < 3000) {
		bool late = j.step > 100 && j.step % 200 == 2;

		slower(&j, late ? KINDS_WAIT : KINDS_HOST,
		       late			     ? 300
		       : j.step % 100 == 0 && j.step ? 100
						     : 0);
	}
	assert_in_range(j.flagged, 2, 3);
	assert_true(j.last_flag < 500);
	end(&j);
}

/* The machine has other work: some steps take longer, by times like the checkpoint's or less. */
static void chance_slow_steps_hide_no_checkpoint(void **unused)
{
	uint32_t of_checkpoints = 0, late = 0;

	for (uint32_t seed = 1; seed <= 20; seed++) {
		struct job j = job_of(seed);

		while (j.step < 4000) {
			bool checkpoint = j.step % 100 == 99, chance = uniform(&j) < 0.01;
			double more = chance ? 20 * exp(3 * uniform(&j)) : 0;

			slower(&j, KINDS_HOST, more + (checkpoint ? 500 : 0));
			if (!checkpoint)
				continue;
			of_checkpoints += j.v.flagged;
			late += j.v.flagged && j.step > 1000;
		}
		end(&j);
	}
	print_message("of 800 checkpoints %u were flagged, %u after step 1000\n", of_checkpoints,
		      late);
	assert_in_range(of_checkpoints, 20, 40);
	assert_in_range(late, 0, 3);
}

/* Two steps are slow by chance, and a fault begins about as long after the second one as the second
 * one came after the first. */
static void stretches_of_different_lengths_are_no_proof(void **unused)
{
	uint32_t flagged = 0;

	for (uint32_t seed = 1; seed <= 40; seed++) {
		struct job j = job_of(seed);

		while (j.step < 330) {
			double ms = j.step == 60    ? 25
				    : j.step == 160 ? 168
				    : j.step >= 257 ? 22
						    : 0;

			slower(&j, KINDS_HOST, ms);
			flagged += j.step > 257 && j.v.flagged;
		}
		end(&j);
	}
	print_message("of %u slow steps %u were flagged\n", 40 * (330 - 257), flagged);
	assert_true(flagged > 0.95 * 40 * (330 - 257));
}

/* A multiple of its distance fits, within what a phase may miss its place by. */
static void a_fault_of_varying_distance_is_no_kind(void **unused)
{
	uint32_t slow = 0, flagged = 0;

	for (uint32_t seed = 1; seed <= 20; seed++) {
		struct job j = job_of(seed);
		uint64_t next = 80;

		while (j.step < 4000) {
			bool fault = j.step == next;

			slower(&j, KINDS_HOST, fault ? 60 * (1 + 0.1 * normal(&j)) : 0);
			next += fault ? 7 + (uint64_t)(uniform(&j) * 3) : 0;
			slow += fault;
			flagged += fault && j.v.flagged;
		}
		end(&j);
	}
	print_message("of %u slow steps %u were flagged\n", slow, flagged);
	assert_true(flagged > 0.98 * slow);
}

/* A fault in each evaluation from that step on. When it begins, the model of evaluation has hardly
 * learned. The latest 40 or 55 usual steps are of training, and tell nothing about an evaluation's. */
static void a_fault_in_each_evaluation_is_no_kind(void **unused)
{
	static const struct {
		uint64_t every, steps, from;
	} cases[] = {{60, 20, 60}, {150, 20, 150}, {60, 20, 120},  {60, 12, 120}, {60, 5, 240},
		     {60, 5, 300}, {40, 10, 80},   {150, 20, 300}, {150, 20, 450}};

	for (uint32_t i = 0; i < 8 * ARRAY_LEN(cases); i++) {
		uint64_t every = cases[i / 8].every, steps = cases[i / 8].steps, slow = 0;
		struct job j = job_of(i + 1);

		while (j.step < 12 * every) {
			bool evaluates = j.step % every >= every - steps,
			     is_slow = evaluates && j.step >= cases[i / 8].from;
			double extra[KINDS_PARTS] = {0};

			extra[KINDS_HOST] = is_slow ? 33 * (1 + 0.03 * normal(&j)) : 0;
			push(&j, evaluates, extra);
			slow += is_slow;
		}
		assert_int_equal(j.of_kind, 0);
		assert_int_equal(j.flagged, slow);
		end(&j);
	}
}

/* The same in a job that evaluates: the first checkpoints fall into steps that are not judged yet, and
 * slow steps by chance look like kinds of their own. */
static void nor_in_a_job_that_evaluates(void **unused)
{
	uint32_t late = 0;

	for (uint32_t seed = 1; seed <= 40; seed++) {
		struct job j = job_of(seed);

		while (j.step < 4000) {
			double extra[KINDS_PARTS] = {0};
			bool checkpoint = j.step % 100 == 99;

			extra[KINDS_HOST] = (checkpoint ? 480 + 40 * uniform(&j) : 0) +
					    (uniform(&j) < 0.05 ? 50 * uniform(&j) : 0);
			push(&j, j.step % 150 >= 143, extra);
			late += checkpoint && j.v.flagged && j.step > 1000;
		}
		end(&j);
	}
	print_message("of 1200 checkpoints %u were flagged after step 1000\n", late);
	assert_in_range(late, 0, 12);
}

/* The same with a fault that began later, in every 20th step. */
static void chance_slow_steps_hide_no_fault(void **unused)
{
	uint32_t steps = 0, flagged = 0;

	for (uint32_t seed = 1; seed <= 20; seed++) {
		struct job j = job_of(seed);

		while (j.step < 3000) {
			bool fault = j.step > 500 + seed && j.step % 20 == 7;
			double more = uniform(&j) < 0.01 ? 20 * exp(3 * uniform(&j)) : 0;

			slower(&j, KINDS_HOST, more + (fault ? 200 : 0));
			steps += fault;
			flagged += fault && j.v.flagged;
		}
		end(&j);
	}
	print_message("of %u slow steps %u were flagged\n", steps, flagged);
	assert_true(flagged > 0.97 * steps);
}

/* Other work delays each tenth step, by as much as the collector takes, which it delays too. From some
 * step on each 20th step is slow. */
static void a_loaded_machine_hides_neither_a_kind_nor_a_fault(void **unused)
{
	uint32_t collections = 0, of_collections = 0, slow = 0, of_slow = 0;

	for (uint32_t seed = 1; seed <= 40; seed++) {
		uint64_t from = 700 + 10 * seed;
		struct job j = job_of(seed);

		while (j.step < 2000) {
			bool collects = j.step % 100 == 93,
			     fault = j.step > from && j.step % 20 == 7;
			double extra[KINDS_PARTS] = {0};

			extra[uniform(&j) < 0.5 ? KINDS_HOST : KINDS_WAIT] =
			    uniform(&j) < 0.1 ? 10 + 50 * uniform(&j) : 0;
			extra[KINDS_HOST] +=
			    (collects ? 50 * exp(0.15 * normal(&j)) : 0) + 80 * fault;
			push(&j, 0, extra);
			collections += collects && j.step > 500;
			of_collections += collects && j.step > 500 && j.v.flagged;
			slow += fault;
			of_slow += fault && j.v.flagged;
		}
		end(&j);
	}
	print_message("%u of %u collections were flagged, %u of %u slow steps\n", of_collections,
		      collections, of_slow, slow);
	assert_true(of_collections < 0.1 * collections);
	assert_true(of_slow > 0.99 * slow);
}

/* Places are looked for across them, at a distance of three steps. */
static void many_steps_that_were_not_judged_are_passed_at_once(void **unused)
{
	struct kinds_config c;
	struct kinds *k;

	kinds_config_default(&c);
	k = kinds_init(malloc(kinds_memory_bytes()), &c);
	for (uint64_t step = 0; step < 400; step++) {
		uint64_t index = step < 20 ? step : (1ull << 50) + step;
		bool slow = step >= 20 && step % 3 == 0;
		struct step s = {.index = index,
				 .key = 1,
				 .latency_ns = slow ? 90000 : 50000,
				 .self_ns = slow ? 82000 : 42000,
				 .compute_ns = 30000};

		assert_false(kinds_push(k, &s, 50000, 42000, slow).of_kind);
	}
	free(k);
}

/* Steps of a busy host, so much slower from step 150 on, and each eighth one by 30 ms more. The
 * number of drifts. */
static unsigned drifts(double slower_ms)
{
	struct job j = job_of(5);
	unsigned drift = 0;

	for (uint64_t i = 0; i < 500; i++) {
		double extra[KINDS_PARTS] = {[KINDS_HOST] = 2.5 * fabs(normal(&j))};

		if (i >= 150)
			extra[KINDS_HOST] += slower_ms + 30 * (uniform(&j) < 0.125);
		push(&j, 0, extra);
		drift += j.v.drift;
	}
	assert_true(j.flagged > 10);
	end(&j);
	return drift;
}

static void steps_that_are_flagged_do_not_hide_that_all_are_slower(void **unused)
{
	assert_int_equal(drifts(4), 1);
	assert_int_equal(drifts(0), 0);
}

/* Times in another unit: the same verdicts. */
static void scaling_time_changes_no_verdict(void **unused)
{
	struct kinds_config c;
	struct kinds *k[2];
	uint32_t seed = 1;

	kinds_config_default(&c);
	for (int i = 0; i < 2; i++)
		k[i] = kinds_init(malloc(kinds_memory_bytes()), &c);
	for (uint64_t step = 0; step < 20000; step++) {
		struct kinds_verdict v[2];
		bool slow;

		seed = seed * 1664525u + 1013904223u;
		slow = step % 64 == 5 || (seed >> 8) % 50 == 0;
		for (int i = 0; i < 2; i++) {
			uint64_t unit = i ? 7000 : 1000;
			uint64_t extra = slow ? 10 + (seed >> 20) % 1000 : 0;
			struct step s = {.index = step,
					 .key = 1,
					 .latency_ns = unit * (50 + extra),
					 .self_ns = unit * (42 + extra),
					 .compute_ns = unit * 30};

			v[i] = kinds_push(k[i], &s, 50.0 * (double)unit, 42.0 * (double)unit, slow);
		}
		assert_int_equal(v[0].of_kind, v[1].of_kind);
		assert_int_equal(v[0].grown, v[1].grown);
		assert_int_equal(v[0].self_grown, v[1].self_grown);
		assert_float_equal(v[0].usual_ns * 7, v[1].usual_ns, 1e-6 * v[1].usual_ns);
	}
	for (int i = 0; i < 2; i++)
		free(k[i]);
}

/* Requests wait for each step, so a habit of slow ones is no excuse. */
static void a_spike_of_stated_work_counts_each_time(void **unused)
{
	struct job j = job_of(30);

	j.stated = true;
	recurs(&j, 1000, 100, KINDS_HOST, 160);
	assert_in_range(j.spikes, 8, 10); /* the first ones are before the model */
	assert_int_equal(j.flagged, j.spikes);
	assert_int_equal(j.of_kind, 0);
	end(&j);
}

static void a_slow_step_of_stated_work_counts_each_time(void **unused)
{
	struct job j = job_of(33);

	j.stated = true;
	recurs(&j, 1000, 100, KINDS_COMPUTE, 40);
	assert_in_range(j.flagged, 8, 10);
	assert_int_equal(j.spikes, 0);
	assert_int_equal(j.of_kind, 0);
	end(&j);
}

static void work_that_is_only_counted_makes_no_spike(void **unused)
{
	struct job j = job_of(31);

	recurs(&j, 1000, 100, KINDS_HOST, 160);
	assert_int_equal(j.spikes, 0);
	assert_true(j.of_kind > 5);
	end(&j);
}

/* Twice the time may be a slow step like others; a spike is several times as long. */
static void a_slow_step_of_stated_work_is_no_spike(void **unused)
{
	struct job j = job_of(32);

	j.stated = true;
	usual(&j, 500);
	slower(&j, KINDS_HOST, 60);
	assert_true(j.v.flagged);
	slower(&j, KINDS_HOST, 120);
	assert_true(j.v.flagged && j.v.spike);
	assert_int_equal(j.spikes, 1);
	end(&j);
}

/* All steps of a fault are slow, and some of them slower. */
static void in_a_fault_a_spike_is_longer_than_its_steps(void **unused)
{
	struct job j = job_of(34);
	uint32_t before;

	j.stated = true;
	usual(&j, 500);
	for (int i = 0; i < 10; i++) {
		for (int k = 0; k < 3; k++)
			slower(&j, KINDS_COMPUTE, 80);
		slower(&j, KINDS_COMPUTE, 120);
	}
	before = j.spikes;
	assert_in_range(before, 1, 2); /* before the fault was half of the latest steps */
	slower(&j, KINDS_HOST, 500);
	assert_int_equal(j.spikes, before + 1);
	usual(&j, 20);
	slower(&j, KINDS_HOST, 120);
	assert_int_equal(j.spikes, before + 2);
	end(&j);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_checkpoint_is_known_from_its_second_occurrence_on),
	    cmocka_unit_test(an_occurrence_that_was_not_judged_counts),
	    cmocka_unit_test(short_delays_hide_no_checkpoint),
	    cmocka_unit_test(phases_that_fall_on_each_other_are_all_known),
	    cmocka_unit_test(a_transient_on_a_checkpoint_hides_no_fault_there),
	    cmocka_unit_test(a_wait_behind_an_evaluation_is_of_its_kind),
	    cmocka_unit_test(short_delays_around_a_checkpoint_do_not_hide_it),
	    cmocka_unit_test(a_checkpoint_in_an_evaluation_does_not_end_its_kind),
	    cmocka_unit_test(a_checkpoint_is_known_by_self_time_alone),
	    cmocka_unit_test(slow_steps_before_a_kind_do_not_hide_it),
	    cmocka_unit_test(a_kind_that_grows_is_flagged_with_its_growth),
	    cmocka_unit_test(a_noisy_kind_that_grows_is_flagged_after_a_few_occurrences),
	    cmocka_unit_test(a_step_is_compared_with_its_kind),
	    cmocka_unit_test(a_kind_is_known_whichever_account_is_longest),
	    cmocka_unit_test(a_step_of_a_kind_that_waits_longer_is_of_its_kind),
	    cmocka_unit_test(a_small_part_of_a_stretch_founds_no_kind),
	    cmocka_unit_test(a_fault_that_comes_again_and_again_is_no_kind),
	    cmocka_unit_test(a_fault_that_goes_on_for_long_is_no_kind),
	    cmocka_unit_test(a_fault_that_is_not_quite_regular_is_no_kind),
	    cmocka_unit_test(a_fault_beside_a_checkpoint_is_reported),
	    cmocka_unit_test(an_early_transient_founds_no_kind_with_a_fault),
	    cmocka_unit_test(slowness_that_stays_is_no_kind),
	    cmocka_unit_test(slowness_is_one_stretch_across_steps_that_were_not_judged),
	    cmocka_unit_test(phases_are_distinguished_where_they_meet),
	    cmocka_unit_test(two_kinds_that_are_alike_are_known_both),
	    cmocka_unit_test(a_checkpoint_in_the_background_is_one_stretch),
	    cmocka_unit_test(an_evaluation_is_known_by_its_work),
	    cmocka_unit_test(a_step_after_an_evaluation_is_a_kind_too),
	    cmocka_unit_test(a_checkpoint_by_the_clock_is_known),
	    cmocka_unit_test(a_fault_by_the_clock_is_no_kind),
	    cmocka_unit_test(uneven_peers_hide_no_slow_host),
	    cmocka_unit_test(a_checkpoint_within_an_evaluation_is_the_same_kind),
	    cmocka_unit_test(many_steps_that_were_not_judged_are_passed_at_once),
	    cmocka_unit_test(phases_beside_each_other_are_known_though_one_was_not_judged),
	    cmocka_unit_test(a_phase_beside_a_known_one_is_a_kind_too),
	    cmocka_unit_test(chance_slow_steps_hide_no_checkpoint),
	    cmocka_unit_test(nor_in_a_job_that_evaluates),
	    cmocka_unit_test(chance_slow_steps_hide_no_fault),
	    cmocka_unit_test(a_loaded_machine_hides_neither_a_kind_nor_a_fault),
	    cmocka_unit_test(stretches_of_different_lengths_are_no_proof),
	    cmocka_unit_test(a_fault_of_varying_distance_is_no_kind),
	    cmocka_unit_test(a_fault_in_each_evaluation_is_no_kind),
	    cmocka_unit_test(a_kind_that_ends_is_reported_no_more),
	    cmocka_unit_test(what_was_there_before_the_watch_is_no_kind),
	    cmocka_unit_test(steps_that_are_flagged_do_not_hide_that_all_are_slower),
	    cmocka_unit_test(scaling_time_changes_no_verdict),
	    cmocka_unit_test(a_spike_of_stated_work_counts_each_time),
	    cmocka_unit_test(a_slow_step_of_stated_work_counts_each_time),
	    cmocka_unit_test(work_that_is_only_counted_makes_no_spike),
	    cmocka_unit_test(a_slow_step_of_stated_work_is_no_spike),
	    cmocka_unit_test(in_a_fault_a_spike_is_longer_than_its_steps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
