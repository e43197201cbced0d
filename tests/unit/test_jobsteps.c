/* SPDX-License-Identifier: Apache-2.0
 * A job of two ranks by hand: each step a gemm, a norm and an all-reduce that both leave together. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/jobsteps.h"
#include "analysis/record.h"

#define RANKS 2u
#define STEPS 24u
#define MS    1000000ull
#define STEP  (100 * MS)
#define T0    (1000 * MS)

enum name { NAME_GEMM, NAME_NORM, NAME_REDUCE, NAMES };

static struct jobsteps_event events[RANKS][STEPS * NAMES];
static struct align_coll colls[RANKS][STEPS];
static uint64_t ends[RANKS][STEPS];
static struct jobsteps_rank ranks[RANKS];
static struct align_rank aligned[RANKS];
static struct align_job align;
static struct jobsteps job;

static void build(void)
{
	memset(ranks, 0, sizeof(ranks));
	memset(aligned, 0, sizeof(aligned));
	for (uint32_t r = 0; r < RANKS; r++) {
		for (uint32_t k = 0; k < STEPS; k++) {
			uint64_t t = T0 + k * STEP;
			struct jobsteps_event *e = &events[r][k * NAMES];

			e[0] = (struct jobsteps_event){ .begin_ns = t + MS, .end_ns = t + 41 * MS,
							.name = NAME_GEMM, .kind = RECORD_KERNEL };
			e[1] = (struct jobsteps_event){ .begin_ns = t + 50 * MS, .end_ns = t + 60 * MS,
							.name = NAME_NORM, .kind = RECORD_KERNEL };
			e[2] = (struct jobsteps_event){ .begin_ns = t + 80 * MS, .end_ns = t + STEP,
							.name = NAME_REDUCE, .kind = RECORD_COLL_KERNEL };
			colls[r][k] = (struct align_coll){ .begin_ns = e[2].begin_ns, .end_ns = e[2].end_ns,
							   .what = 7, .order = k * NAMES + 2 };
			ends[r][k] = t + STEP;
		}
		aligned[r] = (struct align_rank){ .coll = colls[r], .count = STEPS };
		ranks[r] = (struct jobsteps_rank){ .rank = (int32_t)r, .event = events[r],
						   .event_count = STEPS * NAMES, .step_end_ns = ends[r],
						   .step_count = STEPS };
	}
	align = (struct align_job){ .rank = aligned, .rank_count = RANKS };
	assert_int_equal(align_job(&align), 0);
	job = (struct jobsteps){ .rank = ranks, .rank_count = RANKS, .align = &align,
				 .name_count = NAMES };
}

/* The job's step in which the local time of a rank lies. */
static uint32_t step_at(uint32_t r, uint64_t ns)
{
	uint32_t k = 0;

	while (k + 1 < job.steps && ranks[r].cut_ns[k + 1] <= ns)
		k++;
	return k;
}

static void says_where_the_time_went(void **state)
{
	uint32_t k;

	(void)state;
	build();
	assert_int_equal(jobsteps_make(&job), 0);
	assert_true(job.steps >= STEPS - 2);
	for (uint32_t r = 0; r < RANKS; r++) {
		k = step_at(r, T0 + 10 * STEP + 50 * MS);
		assert_float_equal(jobsteps_value(&job, JOBSTEPS_LATENCY, r, k), 100e6, 1);
		assert_float_equal(jobsteps_value(&job, JOBSTEPS_SELF, r, k), 80e6, 1);
		assert_float_equal(jobsteps_value(&job, JOBSTEPS_COMPUTE, r, k), 50e6, 1);
	}
	jobsteps_fini(&job);
}

/* Of one rank nothing was recorded for a while: its steps there are not known, the other's are. */
static void a_hole_of_one_rank_is_no_idle_device(void **state)
{
	/* in one step; over the end of one; two holes in one step; from a step's begin to its end */
	static const struct jobsteps_hole holes[] = {
		{ T0 + 5 * STEP + 42 * MS, T0 + 5 * STEP + 49 * MS },
		{ T0 + 9 * STEP + 95 * MS, T0 + 10 * STEP + MS / 2 },
		{ T0 + 13 * STEP + 42 * MS, T0 + 13 * STEP + 43 * MS },
		{ T0 + 13 * STEP + 62 * MS, T0 + 13 * STEP + 63 * MS },
		{ T0 + 17 * STEP, T0 + 18 * STEP },
	};
	static const uint32_t unknown[] = { 5, 9, 10, 13, 17 };
	uint32_t first;

	(void)state;
	build();
	ranks[1].hole = holes;
	ranks[1].hole_count = sizeof(holes) / sizeof(*holes);
	assert_int_equal(jobsteps_make(&job), 0);
	first = step_at(1, T0 + 4 * STEP + 50 * MS);
	for (uint32_t k = 4; k < 20; k++) {
		bool known = true;

		for (size_t i = 0; i < sizeof(unknown) / sizeof(*unknown); i++)
			known &= unknown[i] != k;
		for (int m = 0; m < JOBSTEPS_MEASURES; m++) {
			if (m == JOBSTEPS_LATE)
				continue;
			assert_int_equal(!isnan(jobsteps_value(&job, m, 1, first + k - 4)), known);
			assert_false(isnan(jobsteps_value(&job, m, 0, first + k - 4)));
		}
	}
	jobsteps_fini(&job);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(says_where_the_time_went),
		cmocka_unit_test(a_hole_of_one_rank_is_no_idle_device),
	};

	return cmocka_run_group_tests_name("jobsteps", tests, NULL, NULL);
}
