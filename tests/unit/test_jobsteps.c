/* SPDX-License-Identifier: Apache-2.0
 * A job of two ranks by hand: each step a gemm, a norm and an all-reduce that both leave together. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/trace/jobsteps.h"
#include "model/record.h"
#include "tests/jobsteps_synth.h"

#define RANKS 2u
#define STEPS 24u
#define MS    1000000ull
#define STEP  (100 * MS)
#define T0    (1000 * MS)

enum name { NAME_GEMM, NAME_NORM, NAME_REDUCE, NAMES };

static struct jobsteps_event events[RANKS][STEPS * NAMES];
static struct align_coll colls[RANKS][STEPS];
static struct jobsteps_rank ranks[RANKS];
static struct align_rank aligned[RANKS];
static struct align_job align;
static struct jobsteps job;

static void build(const uint64_t (*hole)[2], uint32_t holes)
{
	memset(ranks, 0, sizeof(ranks));
	memset(aligned, 0, sizeof(aligned));
	for (uint32_t r = 0; r < RANKS; r++) {
		for (uint32_t k = 0; k < STEPS; k++) {
			uint64_t t = T0 + k * STEP;
			struct jobsteps_event *e = &events[r][k * NAMES];

			e[0] = (struct jobsteps_event){.begin_ns = t + MS,
						       .end_ns = t + 41 * MS,
						       .name = NAME_GEMM,
						       .kind = RECORD_KERNEL};
			e[1] = (struct jobsteps_event){.begin_ns = t + 50 * MS,
						       .end_ns = t + 60 * MS,
						       .name = NAME_NORM,
						       .kind = RECORD_KERNEL};
			e[2] = (struct jobsteps_event){.begin_ns = t + 80 * MS,
						       .end_ns = t + STEP,
						       .name = NAME_REDUCE,
						       .kind = RECORD_COLL_KERNEL};
			colls[r][k] = (struct align_coll){.begin_ns = e[2].begin_ns,
							  .end_ns = e[2].end_ns,
							  .what = 7,
							  .order = k * NAMES + 2};
		}
		aligned[r] = (struct align_rank){.coll = colls[r], .count = STEPS};
		ranks[r].rank = (int32_t)r;
		jobsteps_synth_steps(&ranks[r], events[r], STEPS * NAMES, hole, r == 1 ? holes : 0);
	}
	align = (struct align_job){.rank = aligned, .rank_count = RANKS};
	assert_int_equal(align_job(&align), 0);
	job = (struct jobsteps){
	    .rank = ranks, .rank_count = RANKS, .align = &align, .name_count = NAMES};
}

static void drop(void)
{
	jobsteps_fini(&job);
	for (uint32_t r = 0; r < RANKS; r++)
		jobsteps_synth_free(&ranks[r]);
}

static void says_where_the_time_went(void **state)
{
	uint32_t k;

	(void)state;
	build(NULL, 0);
	assert_int_equal(jobsteps_make(&job), 0);
	assert_true(job.steps >= STEPS - 2);
	for (uint32_t r = 0; r < RANKS; r++) {
		k = jobsteps_at(&job, r, T0 + 10 * STEP + 50 * MS);
		assert_float_equal(jobsteps_value(&job, JOBSTEPS_LATENCY, r, k), 100e6, 1);
		assert_float_equal(jobsteps_value(&job, JOBSTEPS_SELF, r, k), 80e6, 1);
		assert_float_equal(jobsteps_value(&job, JOBSTEPS_COMPUTE, r, k), 50e6, 1);
	}
	drop();
}

/* Of one rank nothing was recorded for a while: its steps there are not known, the other's are. */
static void a_hole_of_one_rank_is_no_idle_device(void **state)
{
	/* in one step; over the end of one, all of whose kernels are there; two holes in one step; from a
	 * step's begin to its end */
	static const uint64_t holes[][2] = {
	    {T0 + 5 * STEP + 42 * MS, T0 + 5 * STEP + 49 * MS},
	    {T0 + 9 * STEP + 95 * MS, T0 + 10 * STEP + MS / 2},
	    {T0 + 13 * STEP + 42 * MS, T0 + 13 * STEP + 43 * MS},
	    {T0 + 13 * STEP + 62 * MS, T0 + 13 * STEP + 63 * MS},
	    {T0 + 17 * STEP, T0 + 18 * STEP},
	};
	static const uint32_t unknown[] = {5, 10, 13, 17};
	uint32_t first;

	(void)state;
	build(holes, sizeof(holes) / sizeof(*holes));
	assert_int_equal(jobsteps_make(&job), 0);
	first = jobsteps_at(&job, 1, T0 + 4 * STEP + 50 * MS);
	for (uint32_t k = 4; k < 20; k++) {
		bool known = true;

		for (size_t i = 0; i < sizeof(unknown) / sizeof(*unknown); i++)
			known &= unknown[i] != k;
		for (int m = 0; m < JOBSTEPS_MEASURES; m++) {
			assert_int_equal(!isnan(jobsteps_value(&job, m, 1, first + k - 4)), known);
			assert_false(isnan(jobsteps_value(&job, m, 0, first + k - 4)));
		}
	}
	drop();
}

/* One rank's steps were found as two each: what the other numbers as one is one. */
static void parts_of_a_step_add_up(void **state)
{
	static struct step halves[2 * STEPS];
	static uint32_t at[2 * STEPS + 1];
	struct jobsteps_rank whole;
	uint32_t n = 0, k;

	(void)state;
	build(NULL, 0);
	whole = ranks[1];
	for (k = 0; k < whole.step_count; k++) {
		struct step a = whole.step[k], b = a;

		a.device_end_ns =
		    a.device_begin_ns + 60 * MS; /* the kernels; then the collective */
		a.device_latency_ns = a.device_latency_ns ? 60 * MS : 0;
		a.comm_ns = a.exposed_comm_ns = 0;
		b.device_begin_ns = a.device_end_ns;
		b.device_latency_ns = whole.step[k].device_end_ns - a.device_end_ns;
		b.compute_ns = 0;
		b.flags = 0;
		at[n] = whole.kernel_at[k];
		halves[n++] = a;
		at[n] = whole.kernel_at[k + 1];
		halves[n++] = b;
	}
	at[n] = whole.kernel_at[whole.step_count];
	ranks[1].step = halves;
	ranks[1].step_count = n;
	ranks[1].kernel_at = at;
	assert_int_equal(jobsteps_make(&job), 0);
	assert_int_equal(job.steps, whole.step_count);
	k = jobsteps_at(&job, 1, T0 + 10 * STEP + 50 * MS);
	assert_int_equal(k, jobsteps_at(&job, 1, T0 + 10 * STEP + 90 * MS));
	assert_int_equal(k, jobsteps_at(&job, 0, T0 + 10 * STEP + 90 * MS));
	for (uint32_t r = 0; r < RANKS; r++) {
		assert_float_equal(jobsteps_value(&job, JOBSTEPS_LATENCY, r, k), 100e6, 2e6);
		assert_float_equal(jobsteps_value(&job, JOBSTEPS_SELF, r, k), 80e6, 2e6);
		assert_float_equal(jobsteps_value(&job, JOBSTEPS_COMPUTE, r, k), 50e6, 1);
		assert_float_equal(jobsteps_value(&job, JOBSTEPS_KERNELS, r, k), 2, 0.1);
	}
	jobsteps_fini(&job);
	ranks[1] = whole;
	jobsteps_synth_free(&ranks[0]);
	jobsteps_synth_free(&ranks[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(says_where_the_time_went),
	    cmocka_unit_test(a_hole_of_one_rank_is_no_idle_device),
	    cmocka_unit_test(parts_of_a_step_add_up),
	};

	return cmocka_run_group_tests_name("jobsteps", tests, NULL, NULL);
}
