/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>

#include "analysis/levels.h"

#define N 600

static uint64_t seed;

static double uniform(void)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (double)(seed >> 11) / 9007199254740992.0;
}

static double normal(void)
{
	return sqrt(-2 * log(1 - uniform())) * cos(6.283185307179586 * uniform());
}

static uint32_t find(const double *v, uint32_t n, struct level *out, struct levels_noise *noise)
{
	double *scratch = malloc((4 * (size_t)n + 16) * sizeof(*scratch));
	struct levels_config c = {.least = 3, .change_min = 0.001};
	uint32_t count;

	levels_noise(v, 1, n, 1e-6, scratch, noise);
	c.threshold = levels_threshold(noise, 1, n, 1e-3);
	count = levels_find(v, n, noise, &c, out, scratch);
	free(scratch);
	return count;
}

static void white_noise_is_one_level(void **state)
{
	double v[N];
	struct level out[LEVELS_MAX];
	struct levels_noise noise;
	uint32_t split = 0;

	for (seed = 1; seed < 60; seed += 2) {
		uint64_t keep = seed;

		for (int i = 0; i < N; i++)
			v[i] = normal();
		split += find(v, N, out, &noise) != 1;
		assert_true(fabs(noise.scale[0] - 1) < 0.2);
		assert_true(fabs(levels_error(&noise, 16) - 0.25) < 0.1);
		seed = keep;
	}
	assert_int_equal(split, 0);
}

static void finds_where_a_stretch_begins_and_ends(void **state)
{
	for (seed = 5; seed < 40; seed += 4) {
		uint64_t keep = seed;
		double v[N];
		struct level out[LEVELS_MAX];
		struct levels_noise noise;

		for (int i = 0; i < N; i++)
			v[i] = normal() + (i >= 200 && i < 212 ? 6 : 0);
		assert_int_equal(find(v, N, out, &noise), 3);
		assert_int_equal(out[1].first, 200);
		assert_int_equal(out[1].last, 211);
		assert_true(fabs(out[1].value - 6) < 1.5);
		assert_int_equal(out[0].first, 0);
		assert_int_equal(out[2].last, N - 1);
		seed = keep;
	}
}

static void wild_values_alone_are_no_level(void **state)
{
	double v[N];
	struct level out[LEVELS_MAX];
	struct levels_noise noise;

	seed = 3;
	for (int i = 0; i < N; i++)
		v[i] = normal() + (i % 50 == 7 ? 300 : 0);
	assert_int_equal(find(v, N, out, &noise), 1);
}

/* A walk is not white: what it does is no level. */
static void wandering_raises_the_bar(void **state)
{
	double v[N];
	struct level out[LEVELS_MAX];
	struct levels_noise noise;

	seed = 9;
	for (int i = 0; i < N; i++)
		v[i] = 0.02 * normal() + 0.05 * sin(i / 40.0) * sin(i / 11.0);
	find(v, N, out, &noise);
	assert_true(levels_error(&noise, 16) > 2 * noise.scale[0] / 4);
}

static void small_changes_show_in_long_series(void **state)
{
	static double v[5000];
	struct level out[LEVELS_MAX];
	struct levels_noise noise;
	uint32_t n;

	seed = 21;
	for (int i = 0; i < 5000; i++)
		v[i] = normal() + (i >= 2500 ? 0.5 : 0);
	n = find(v, 5000, out, &noise);
	assert_int_equal(n, 2);
	assert_in_range(out[1].first, 2450, 2550);
}

/* Beyond what every pair of ends is tried of: a coarse grid, and ends refined about it. */
static void finds_a_stretch_in_a_long_series(void **state)
{
	enum { LONG = 9000 };
	double *v = malloc(LONG * sizeof(*v));

	for (uint32_t at = 7; at < LONG - 90; at += 1111) {
		struct level out[LEVELS_MAX];
		struct levels_noise noise;

		seed = at;
		for (uint32_t i = 0; i < LONG; i++)
			v[i] = normal() + (i >= at && i < at + 80 ? 5 : 0);
		assert_int_equal(find(v, LONG, out, &noise), 3);
		assert_in_range(out[1].first, at - 2, at + 2);
		assert_in_range(out[1].last, at + 77, at + 81);
	}
	for (uint32_t i = 0; i < LONG; i++) /* a step in the middle, and wild values at the end */
		v[i] = normal() * 0.1 + (i >= LONG / 2) + (i > LONG - 4 ? 5 : 0);
	for (uint32_t n = LONG - 40; n <= LONG; n++) {
		struct level out[LEVELS_MAX];
		struct levels_noise noise;

		assert_true(find(v, n, out, &noise) >= 2);
	}
	free(v);
}

static void takes_few_values(void **state)
{
	double v[7] = {1, 2, 3, 4, 5, 6, 7};
	struct level out[LEVELS_MAX];
	struct levels_noise noise;

	for (uint32_t n = 0; n < 7; n++) {
		uint32_t count = find(v, n, out, &noise);

		assert_int_equal(count, n ? 1 : 0);
		if (n)
			assert_int_equal(out[0].last, n - 1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(white_noise_is_one_level),
	    cmocka_unit_test(finds_where_a_stretch_begins_and_ends),
	    cmocka_unit_test(wild_values_alone_are_no_level),
	    cmocka_unit_test(wandering_raises_the_bar),
	    cmocka_unit_test(small_changes_show_in_long_series),
	    cmocka_unit_test(finds_a_stretch_in_a_long_series),
	    cmocka_unit_test(takes_few_values),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
