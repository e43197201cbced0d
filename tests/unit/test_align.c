/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/trace/align.h"

#define RANKS 4
#define COLLS 400
#define ZERO  1000000000000000ull

struct job {
	struct align_coll coll[RANKS][COLLS];
	struct align_rank rank[RANKS];
	struct align_job job;
	double offset[RANKS], drift[RANKS];
	uint64_t seed;
};

static double uniform(struct job *j)
{
	j->seed = j->seed * 6364136223846793005ull + 1442695040888963407ull;
	return (double)(j->seed >> 11) / 9007199254740992.0;
}

/* Steps of five collectives of three kinds; ranks enter within 5 ms, leave within 3 us. */
static struct job *job_new(uint64_t seed, double irregular)
{
	struct job *j = calloc(1, sizeof(*j));
	double at = 1e6;

	j->seed = seed;
	j->job = (struct align_job){.rank = j->rank, .rank_count = RANKS};
	for (uint32_t r = 1; r < RANKS; r++) {
		j->offset[r] = (uniform(j) - 0.5) * 100e6;
		j->drift[r] = (uniform(j) - 0.5) * 100e-6;
	}
	for (uint32_t i = 0; i < COLLS; i++) {
		at += 3e6 + (i % 5) * 1e6 + irregular * uniform(j);
		for (uint32_t r = 0; r < RANKS; r++) {
			double end = at + (uniform(j) - 0.5) * 6e3,
			       begin = end - 1e5 - 5e6 * uniform(j);

			j->coll[r][i] = (struct align_coll){
			    ZERO + (uint64_t)llround(begin + j->offset[r] + j->drift[r] * begin),
			    ZERO + (uint64_t)llround(end + j->offset[r] + j->drift[r] * end),
			    1 + i % 5 / 2, i, 0};
		}
	}
	for (uint32_t r = 0; r < RANKS; r++)
		j->rank[r] = (struct align_rank){.coll = j->coll[r], .count = COLLS};
	return j;
}

/* True time of a collective's end on the reference, from what align says of rank r's clock. */
static double worst_error(struct job *j)
{
	double worst = 0;

	for (uint32_t r = 0; r < RANKS; r++)
		for (double t = 1e6; t < 2e9; t += 1e8) {
			uint64_t local =
			    ZERO + (uint64_t)llround(t + j->offset[r] + j->drift[r] * t);
			double got =
			    (double)(int64_t)(align_to_reference(&j->job, r, local) - ZERO);

			worst = fmax(worst, fabs(got - t));
		}
	return worst;
}

static void all_pair(struct job *j, uint32_t missing)
{
	for (uint32_t r = 0; r < RANKS; r++)
		for (uint32_t i = 0; i < j->rank[r].count; i++) {
			const struct align_coll *c = &j->rank[r].coll[i];

			for (uint32_t q = 0; q < RANKS; q++)
				for (uint32_t k = 0; k < j->rank[q].count; k++) {
					const struct align_coll *d = &j->rank[q].coll[k];

					if (c->instance != ALIGN_NONE && d->instance == c->instance)
						assert_int_equal(c->order, d->order);
				}
		}
	assert_true(j->job.instances + missing >= COLLS);
}

static void recovers_offsets_and_drifts(void **state)
{
	for (uint64_t seed = 1; seed < 8; seed++) {
		struct job *j = job_new(seed, 3e5);

		assert_int_equal(align_job(&j->job), 0);
		assert_true(worst_error(j) < 5000);
		all_pair(j, 0);
		assert_int_equal(j->job.instances, COLLS);
		for (uint32_t r = 1; r < RANKS; r++) {
			assert_true(j->rank[r].known);
			assert_true(fabs(j->rank[r].drift - j->drift[r]) < 2e-6);
		}
		free(j);
	}
}

static void survives_missing_first_and_single_ones(void **state)
{
	struct job *j = job_new(3, 3e5);
	uint32_t n = 0;

	j->rank[1].coll += 37; /* begins later, not at a step */
	j->rank[1].count -= 37;
	j->rank[2].count -= 51;
	for (uint32_t i = 0; i < COLLS; i++) /* loses one in eleven */
		if (i % 11 != 4)
			j->coll[3][n++] = j->coll[3][i];
	j->rank[3].count = n;
	assert_int_equal(align_job(&j->job), 0);
	assert_true(worst_error(j) < 5000);
	all_pair(j, 0);
	free(j);
}

/* No step differs from the next: equal counts begin together. */
static void equal_steps_begin_together(void **state)
{
	struct job *j = job_new(5, 0);

	assert_int_equal(align_job(&j->job), 0);
	assert_true(worst_error(j) < 5000);
	all_pair(j, 0);
	free(j);
}

static void aligns_ranks_through_others(void **state)
{
	struct job *j = job_new(7, 3e5);

	/* 3 shares nothing with 0, but with 1, which has both kinds of names */
	for (uint32_t i = 0; i < COLLS; i++) {
		if (i % 2)
			j->coll[0][i].what = 900 + i % 3;
		else
			j->coll[3][i].what = 800 + i % 3;
		j->coll[1][i].what = i % 2 ? 900 + i % 3 : j->coll[1][i].what;
		if (i % 2)
			j->coll[3][i].what = j->coll[2][i].what;
		else
			j->coll[0][i].what = j->coll[1][i].what;
	}
	for (uint32_t i = 0, n = 0; i < COLLS; i++)
		if (i % 2) {
			j->coll[3][n] = j->coll[3][i];
			j->coll[3][n++].what = 77;
			j->rank[3].count = n;
		}
	for (uint32_t i = 1; i < COLLS; i += 2)
		j->coll[2][i].what = 77;
	assert_int_equal(align_job(&j->job), 0);
	assert_true(j->rank[2].known);
	assert_true(j->rank[3].known);
	assert_true(worst_error(j) < 8000);
	free(j);
}

static void says_when_nothing_is_common(void **state)
{
	struct job *j = job_new(9, 3e5);

	for (uint32_t i = 0; i < COLLS; i++)
		j->coll[2][i].what = 12345;
	assert_int_equal(align_job(&j->job), 0);
	assert_false(j->rank[2].known);
	assert_true(isinf(j->rank[2].error_ns));
	for (uint32_t i = 0; i < COLLS; i++)
		assert_int_equal(j->rank[2].coll[i].instance, ALIGN_NONE);
	j->rank[0].count = j->rank[1].count = j->rank[2].count = j->rank[3].count = 0;
	assert_int_equal(align_job(&j->job), 0);
	assert_int_equal(j->job.instances, 0);
	j->job.rank_count = 0;
	assert_int_equal(align_job(&j->job), 0);
	free(j);
}

/* Ends err by up to 3 us each: what four of them say is off by less than they own up to. */
static void few_common_ones_own_up_to_their_error(void **state)
{
	uint32_t too_small = 0, tried = 0;

	for (uint64_t seed = 1; seed <= 200; seed++) {
		struct job *j = job_new(seed, 3e5);

		for (uint32_t r = 0; r < RANKS; r++)
			j->rank[r].count = 4;
		assert_int_equal(align_job(&j->job), 0);
		for (uint32_t r = 1; r < RANKS; r++) {
			double at_zero = (double)(j->job.zero_ns - ZERO);
			double off = j->rank[r].offset_ns - j->offset[r] - j->drift[r] * at_zero;

			assert_true(j->rank[r].known);
			assert_int_equal(j->rank[r].common, 4);
			too_small += fabs(off) > j->rank[r].error_ns;
			tried++;
		}
		free(j);
	}
	assert_true(too_small * 100 <= tried);
}

static void one_common_one_says_nothing_of_its_error(void **state)
{
	struct job *j = job_new(4, 3e5);

	for (uint32_t r = 0; r < RANKS; r++)
		j->rank[r].count = 1;
	assert_int_equal(align_job(&j->job), 0);
	assert_true(isinf(j->rank[1].error_ns));
	free(j);
}

static void takes_any_numbers(void **state)
{
	struct job *j = job_new(11, 3e5);

	for (uint32_t r = 0; r < RANKS; r++)
		for (uint32_t i = 0; i < COLLS; i++) {
			j->coll[r][i].begin_ns = (uint64_t)(uniform(j) * 4e18);
			j->coll[r][i].end_ns = i % 3 ? (uint64_t)(uniform(j) * 4e18) : 77;
			j->coll[r][i].what = i % 2;
		}
	assert_int_equal(align_job(&j->job), 0);
	free(j);
}

/* Stamps so coarse that all is of one time, or of a few. */
static void collectives_of_one_time_cost_no_square_of_their_number(void **state)
{
	static const uint32_t times[] = {1, 3, 100};
	const uint32_t n = 50000;
	struct align_coll *coll = malloc(2 * n * sizeof(*coll));

	for (size_t k = 0; k < sizeof(times) / sizeof(times[0]); k++)
		for (uint32_t strange = 0; strange < 2; strange++) {
			struct align_rank rank[2] = {{.coll = coll, .count = n},
						     {.coll = coll + n, .count = n}};
			struct align_job job = {.rank = rank, .rank_count = 2};

			for (uint32_t i = 0; i < 2 * n; i++) {
				uint64_t end = ZERO + i % n / (n / times[k]) * 1000000;

				coll[i] = (struct align_coll){end - 10, end, 1 + i % 5, i % n, 0};
				/* half of one rank's have no partner */
				if (strange && i >= n && i % 2)
					coll[i].what += 100;
			}
			assert_int_equal(align_job(&job), 0);
			assert_in_range(job.looked, 1, 2000ull * n);
			if (!strange)
				assert_int_equal(rank[1].common, n);
			else if (times[k] == 100) /* else their times no longer differ */
				assert_int_equal(rank[1].common, n / 2);
		}
	free(coll);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(recovers_offsets_and_drifts),
	    cmocka_unit_test(survives_missing_first_and_single_ones),
	    cmocka_unit_test(equal_steps_begin_together),
	    cmocka_unit_test(aligns_ranks_through_others),
	    cmocka_unit_test(says_when_nothing_is_common),
	    cmocka_unit_test(few_common_ones_own_up_to_their_error),
	    cmocka_unit_test(one_common_one_says_nothing_of_its_error),
	    cmocka_unit_test(takes_any_numbers),
	    cmocka_unit_test(collectives_of_one_time_cost_no_square_of_their_number),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
