/* SPDX-License-Identifier: Apache-2.0
 * test_robust.c - analysis/robust against figures of others: Python's statistics module, printed
 * tables and the examples of the papers; and what each function makes of nothing, one, two, NAN
 * and equals. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/robust/block_noise.h"
#include "analysis/robust/chance.h"
#include "analysis/robust/change.h"
#include "analysis/robust/median.h"
#include "analysis/robust/regress.h"
#include "analysis/robust/spread.h"

#define COUNT(a) (uint32_t)(sizeof(a) / sizeof((a)[0]))

static const double ten[] = {3.5, -1.25, 8, 2, 2, 7.75, 0.5, 11, 4, 6.25};

static void near(double got, double want, double part)
{
	if (!(fabs(got - want) <= part * fabs(want)))
		fail_msg("%.17g, expected %.17g", got, want);
}

static void exactly(double got, double want)
{
	near(got, want, 0);
}

/* Many ties, reproducible. */
static void fill(double *v, uint32_t n, uint32_t kinds)
{
	uint32_t x = 12345 + n;

	for (uint32_t i = 0; i < n; i++) {
		x = x * 1664525u + 1013904223u;
		v[i] = (double)(x >> 8) / 0x1p24;
		v[i] = kinds ? floor(v[i] * kinds) : v[i];
	}
}

static int ascending(const void *x, const void *y)
{
	double a = *(const double *)x, b = *(const double *)y;

	return (a > b) - (a < b);
}

static void sorts_and_selects_as_qsort_does(void **unused)
{
	for (uint32_t n = 1; n < 90; n++)
		for (uint32_t kinds = 0; kinds < 4; kinds++) {
			double v[90], want[90], pick[90];

			fill(v, n, kinds);
			memcpy(want, v, sizeof(v));
			qsort(want, n, sizeof(*want), ascending);
			for (uint32_t k = 0; k < n; k++) {
				memcpy(pick, v, sizeof(v));
				exactly(median_nth(pick, n, k), want[k]);
			}
			memcpy(pick, v, sizeof(v));
			exactly(median_select(pick, n), (want[(n - 1) / 2] + want[n / 2]) / 2);
			exactly(median_of(v, n), (want[(n - 1) / 2] + want[n / 2]) / 2);
			assert_memory_equal(v, want, n * sizeof(*v));
		}
}

static void a_nan_ends_no_sort_and_loses_no_value(void **unused)
{
	for (uint32_t n = 2; n < 60; n++) {
		double v[60], sum = 0, want = 0;
		uint32_t nans = 0;

		fill(v, n, 7);
		v[n / 2] = NAN;
		for (uint32_t i = 0; i < n; i++)
			want += isnan(v[i]) ? 0 : v[i];
		median_sort(v, n);
		for (uint32_t i = 0; i < n; i++) {
			nans += isnan(v[i]);
			sum += isnan(v[i]) ? 0 : v[i];
		}
		assert_int_equal(nans, 1);
		exactly(sum, want);
	}
}

/* statistics.median, quantiles(n=20, method='inclusive') and the median of distances. */
static void medians_and_quantiles_are_pythons(void **unused)
{
	double v[10];

	memcpy(v, ten, sizeof(v));
	exactly(median_of(v, 10), 3.75);
	near(median_quantile(v, 10, 0.05), -0.4625, 1e-12);
	near(median_quantile(v, 10, 0.25), 2, 1e-12);
	near(median_quantile(v, 10, 0.75), 7.375, 1e-12);
	near(median_quantile(v, 10, 0.95), 9.65, 1e-12);
	exactly(median_quantile(v, 10, 0), -1.25);
	exactly(median_quantile(v, 10, 1), 11);
	exactly(median_mad(v, 10, 3.75), 2.875);
	memcpy(v, ten, sizeof(v));
	exactly(median_of(v, 9), 3.5);
	exactly(median_mad(v, 9, 3.5), 3);
	memcpy(v, ten, sizeof(v));
	exactly(median_lower(v, 10, 0.5), 3.5);
	exactly(median_lower(v, 10, 1), 11);
	near(1 / chance_normal(0.25), MEDIAN_MAD_SIGMA, 1e-5);
}

static void medians_of_next_to_nothing(void **unused)
{
	double v[3] = {7, 5, 7}, equal[4] = {2, 2, 2, 2};

	exactly(median_of(v, 0), 0);
	exactly(median_mad(v, 0, 3), 0);
	exactly(median_quantile(v, 0, 0.5), 0);
	exactly(median_centre(v, 0, 1), 0);
	assert_true(isnan(median_lower(v, 0, 0.5)));
	assert_true(isnan(median_known(v, 0, v)));
	exactly(median_of(v, 1), 7);
	exactly(median_select(v, 1), 7);
	exactly(median_quantile(v, 1, 0.99), 7);
	exactly(median_lower(v, 1, 0.99), 7);
	exactly(median_of(v, 2), 6);
	exactly(median_lower(v, 2, 0.5), 5);
	exactly(median_of(equal, 4), 2);
	exactly(median_mad(equal, 4, 2), 0);
	exactly(median_centre(equal, 4, 0), 0); /* distances, all 0 */
}

static void what_is_not_known_has_no_part_in_the_median(void **unused)
{
	const double v[] = {NAN, 5, INFINITY, 1, NAN, 3, -INFINITY}, none[] = {NAN, NAN};
	double scratch[7];

	exactly(median_known(v, 7, scratch), 3);
	exactly(median_known(v, 4, scratch), 3); /* of 5 and 1 */
	exactly(median_known(v, 2, scratch), 5);
	assert_true(isnan(median_known(none, 2, scratch)));
	memcpy(scratch, v, sizeof(v));
	exactly(median_known(scratch, 7, scratch), 3);
}

static void the_centre_is_where_most_values_are(void **unused)
{
	const double v[] = {0, 1, 1.1, 1.2, 5, 5.05, 9}, two[] = {1, 1.1, 4, 4.1};

	exactly(median_centre(v, 7, 0.25), 1.1);
	exactly(median_centre(v, 7, 100), 1.2);
	exactly(median_centre(two, 4, 0.2), 1.05); /* of two as dense the lower */
	exactly(median_centre(v, 1, 1), 0);
}

static void half_of_the_weight_lies_up_to_the_weighted_median(void **unused)
{
	struct median_weighted v[] = {{3, 0.3}, {1, 0.2}, {2, 0.5}}, half[] = {{2, 1}, {1, 1}};
	struct median_weighted no[] = {{4, 0}};

	exactly(median_of_weighted(v, 3, -1), 2);
	exactly(median_of_weighted(half, 2, -1), 1);
	exactly(median_of_weighted(half, 1, -1), 1);
	exactly(median_of_weighted(no, 1, -1), -1);
	exactly(median_of_weighted(v, 0, -1), -1);
}

/* statistics.NormalDist().inv_cdf and .cdf */
static void normal_deviations_are_pythons(void **unused)
{
	near(chance_normal(0.25), 0.6744897501960817, 1e-12);
	near(chance_normal(0.05), 1.6448536269514726, 1e-12);
	near(chance_normal(1e-3), 3.090232306167813, 1e-12);
	near(chance_normal(1e-9), 5.9978070150076865, 1e-12);
	assert_true(chance_normal(0.5) < 1e-12);
	exactly(chance_beyond(0), 1);
	near(chance_beyond(1), 0.31731050786291415, 1e-12);
	near(chance_beyond(1.96), 0.049995790296440745, 1e-12);
	assert_true(isnan(chance_beyond(NAN)));
	exactly(chance_normal(0), 12);
}

/* Abramowitz and Stegun, table 26.10, to its digits. */
static void student_deviations_are_the_tables(void **unused)
{
	near(chance_student(0.05, 1), 6.314, 1e-4);
	near(chance_student(0.005, 1), 63.657, 1e-4);
	near(chance_student(0.005, 2), 9.925, 1e-4);
	near(chance_student(0.005, 5), 4.032, 2e-4);
	near(chance_student(0.005, 10), 3.169, 2e-4);
	near(chance_student(0.005, 30), 2.750, 2e-4);
	near(chance_student(0.0005, 5), 6.869, 1e-4);
	near(chance_student(0.001, 100000), chance_normal(0.001), 1e-4);
	exactly(chance_student(0.005, 0), chance_student(0.005, 1));
}

/* Benjamini and Hochberg 1995, their example: the four smallest of 15 are significant at 0.05. */
static void the_cut_is_that_of_the_papers_example(void **unused)
{
	double p[] = {0.0459, 0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.0000, 0.0001,
		      0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344};
	double none[] = {0.2, 0.9, NAN}, equal[] = {0.04, 0.04, 0.04};

	exactly(chance_cut(p, COUNT(p), 0.05), 0.0095);
	assert_true(chance_cut(none, 2, 0.05) < 0);
	assert_true(chance_cut(none, 0, 0.05) < 0);
	assert_true(chance_cut(none + 2, 1, 0.05) < 0);
	exactly(chance_cut(equal, 3, 0.05), 0.04);
	exactly(chance_cut(equal, 1, 0.05), 0.04);
}

/* statistics.fmean and pstdev; a sum over the points; and the books' formulas with numbers in
 * them. */
static void spreads_are_pythons_and_the_books(void **unused)
{
	double sigma, mean = spread_mean(ten, 10, &sigma), squares = 0;

	near(mean, 4.375, 1e-12);
	near(sigma, 3.616369035372358, 1e-12);
	exactly(spread_mean(ten, 0, &sigma), 0);
	exactly(sigma, 0);
	exactly(spread_mean(ten, 1, &sigma), 3.5);
	exactly(sigma, 0);
	exactly(spread_mean(ten + 3, 2, &sigma), 2); /* equals */
	exactly(sigma, 0);
	spread_mean((const double[]){1, NAN}, 2, &sigma);
	assert_true(isnan(sigma));
	near(spread_of_median(10, 25), 2 * sqrt(M_PI / 2), 1e-4);
	assert_true(isinf(spread_of_median(10, 0)));
	for (int i = 0; i < 1000; i++)
		squares += (i - 499.5) * (i - 499.5);
	near(spread_of_slope(3, 1000, 999), 3 / sqrt(squares), 2e-3);
	near(spread_of_share(0.3, 100, 0), 0.0021, 1e-12);
	near(spread_of_share(0, 100, 1), 1e-4, 1e-12);
	assert_true(isinf(spread_of_share(0.3, 0, 1)));
	near(spread_of_shares(0.25, 100, 300), 0.0025, 1e-12);
	near(spread_of_shares(0.25, 100, INFINITY), 0.001875, 1e-12);
	exactly(spread_of_shares(0.25, INFINITY, INFINITY), 0);
}

/* Hollander and Wolfe, Nonparametric Statistical Methods, example 9.1 (cloud seeding); of the ten
 * slopes what statistics.median says, and what linear_regression and correlation do. */
static const double years[] = {1, 2, 3, 4, 5}, rain[] = {1.26, 1.27, 1.12, 1.16, 1.03};

static struct regress_sums sums_of(const double *x, const double *y, uint32_t n)
{
	struct regress_sums s = {0};

	for (uint32_t i = 0; i < n; i++)
		regress_add(&s, x[i], y[i]);
	return s;
}

static void lines_are_those_of_the_book_and_of_python(void **unused)
{
	struct regress_sums s = sums_of(years, rain, 5);
	double slopes[16], a, slope;

	near(regress_median_slope(years, rain, 5, 5, 0, slopes, 16), -0.05625, 1e-12);
	assert_true(regress_line(&s, &a, &slope));
	near(a, 1.339, 1e-12);
	near(slope, -0.057, 1e-9);
	near(regress_correlation(&s), -0.8981112256201378, 1e-9);
}

static void lines_through_too_few_points(void **unused)
{
	static const double same[] = {3, 3, 3};
	struct regress_sums none = {0}, one = sums_of(years, rain, 1), x = sums_of(same, rain, 3),
			    y = sums_of(years, same, 3), two = sums_of(years, rain, 2);
	double slopes[4], a = 9, slope = 9;

	assert_false(regress_line(&none, &a, &slope));
	assert_false(regress_line(&one, &a, &slope));
	assert_false(regress_line(&x, &a, &slope));
	exactly(a, 9);
	exactly(regress_correlation(&none), 0);
	exactly(regress_correlation(&x), 0);
	exactly(regress_correlation(&y), 0);
	assert_true(regress_line(&two, &a, &slope));
	near(slope, 0.01, 1e-9);
	exactly(regress_median_slope(years, rain, 0, 0, 0, slopes, 4), 0);
	exactly(regress_median_slope(years, rain, 1, 1, 0, slopes, 4), 0);
	near(regress_median_slope(years, rain, 2, 2, 0, slopes, 4), 0.01, 1e-9);
	exactly(regress_median_slope(same, rain, 3, 3, 0, slopes, 4), 0);
	exactly(regress_median_slope(years, rain, 5, 5, 100, slopes, 4), 0);
}

/* A third of the points is wild; of 100 x 100 pairs 50 are looked at. */
static void the_median_slope_bears_wild_points(void **unused)
{
	double t[300], y[300], slopes[50];

	for (int i = 0; i < 300; i++) {
		t[i] = i;
		y[i] = 5 + 0.25 * i + (i % 7 == 3 ? 1000 * (i % 2 ? 1 : -1) : 0);
	}
	y[0] = 1e6; /* the 50 are not all of the first point */
	near(regress_median_slope(t, y, 300, 100, 0, slopes, 50), 0.25, 1e-9);
	near(regress_median_slope(t, y, 300, 300, 10, slopes, 50), 0.25, 1e-9);
}

/* By hand, from the conditions of Karush, Kuhn and Tucker. */
static void sums_of_non_negative_terms(void **unused)
{
	const double g[] = {2, 1, 0, 1, 2, 0, 0, 0, 0}, inside[] = {4, 5, 1}, edge[] = {1, -1, 1};
	const double same[] = {1, 1, 1, 1}, one[] = {1, 1};
	double b[3] = {0};

	regress_nonnegative(g, 3, inside, 3, b);
	near(b[0], 1, 1e-5);
	near(b[1], 2, 1e-5);
	exactly(b[2], 0); /* a term that is always 0 */
	memset(b, 0, sizeof(b));
	regress_nonnegative(g, 3, edge, 3, b);
	near(b[0], 0.5, 1e-5);
	exactly(b[1], 0);
	memset(b, 0, sizeof(b));
	regress_nonnegative(same, 2, one, 2, b);
	near(b[0] + b[1], 1, 1e-5);
	regress_nonnegative(g, 3, edge, 0, NULL);
}

/* NIST/SEMATECH e-Handbook, 6.3.2.3: the rising sums of 20 samples about 325, slack 0.3175. */
static void a_cusum_is_that_of_the_handbook(void **unused)
{
	static const double v[] = {324.925, 324.675, 324.725, 324.350, 325.350, 325.225, 324.125,
				   324.525, 325.225, 324.600, 324.625, 325.150, 328.325, 327.250,
				   327.825, 328.500, 326.675, 327.775, 326.875, 328.350};
	static const double want[] = {0, 0, 0,	  0,	0.03, 0,     0,	    0,	   0,	  0,
				      0, 0, 3.01, 4.94, 7.45, 10.63, 11.99, 14.44, 16.00, 19.04};
	double sum = 0;

	for (uint32_t i = 0; i < COUNT(v); i++) {
		sum = change_cusum(sum, v[i] - 325, INFINITY, 0.3175);
		if (fabs(sum - want[i]) > 0.006)
			fail_msg("sample %u: %g, expected %g", i + 1, sum, want[i]);
	}
	exactly(change_cusum(1, 100, 3, 0.5), 3.5); /* no value for more than the clip */
	exactly(change_cusum(1, -100, 3, 0.5), 0);
	assert_true(isnan(change_cusum(1, NAN, 3, 0.5)));
}

static void an_onset_is_where_the_level_rose(void **unused)
{
	const double v[] = {0, 9, 0, 0, NAN, 0, 0, 1, NAN, 1, 1, 1, 1}, low[] = {0, 0}, one[] = {1};
	const double nan[] = {NAN}, equal[] = {1, 1, 1};

	assert_int_equal(change_onset(v, COUNT(v), 0.5, 0.5), 7); /* a single high value is none */
	assert_int_equal(change_onset(low, 2, 0.5, 1), 2);
	assert_int_equal(change_onset(low, 0, 0.5, 1), 0);
	assert_int_equal(change_onset(one, 1, 0.5, 1), 0);
	assert_int_equal(change_onset(nan, 1, 0.5, 1), 1);
	assert_int_equal(change_onset(equal, 3, 1, 1), 0); /* of several the first */
}

static void add_blocks(struct block_noise *no, const double *v, uint32_t n, double *blocks)
{
	for (uint32_t j = 0; j < BLOCK_NOISE_SCALES; j++) {
		uint32_t length = 1u << j;

		for (uint32_t at = 0; at + 2 * length <= n; at += length) {
			double ignored;

			block_noise_add(no, j,
					spread_mean(v + at + length, length, &ignored) -
					    spread_mean(v + at, length, &ignored));
		}
		blocks[j] = (double)no->count[j];
	}
}

/* NIST Special Publication 1065 (Riley 2008), section 12.4: 1000 numbers of a given generator,
 * whose Allan deviation is 2.922319e-01 at 1 and 9.965736e-02 at 10. Single ones are uniform: of
 * the median of their differences statistics.median makes 0.3300970; a bin is up to an eighth
 * wide. Means of 8 are near normal. */
static void block_noise_is_the_allan_deviation_of_white_noise(void **unused)
{
	static struct block_noise no;
	static double v[1000];
	double blocks[BLOCK_NOISE_SCALES];
	uint64_t x = 1234567890;
	uint32_t from;

	for (uint32_t i = 0; i < 1000; i++, x = x * 16807 % 2147483647)
		v[i] = (double)x / 2147483647;
	memset(&no, 0, sizeof(no));
	add_blocks(&no, v, 1000, blocks);
	block_noise_renew(&no, blocks, true);
	near(no.scale[0], 0.3300970, 0.01);
	near(no.scale[3], 9.965736e-02 * sqrt(10 / 8.0), 0.1);
	near(block_noise_of(&no, 10, &from) / (1 + 0.1 / sqrt(10 / 8.0)), 9.965736e-02, 0.1);
	assert_int_equal(from, 3);
	assert_true(block_noise_of(&no, 1, &from) > block_noise_of(&no, 10, &from));
}

static void block_noise_of_next_to_nothing(void **unused)
{
	static const double same[64];
	static struct block_noise no;
	double blocks[BLOCK_NOISE_SCALES] = {0};
	uint32_t from = 9;

	block_noise_renew(&no, blocks, false);
	exactly(block_noise_of(&no, 10, &from), 0);
	assert_int_equal(from, 0);
	add_blocks(&no, ten, 2, blocks); /* one difference */
	block_noise_renew(&no, blocks, false);
	exactly(block_noise_of(&no, 10, &from), 0);
	memset(&no, 0, sizeof(no));
	add_blocks(&no, same, 64, blocks);
	block_noise_renew(&no, blocks, false);
	assert_true(block_noise_of(&no, 1, &from) < 0x1p-20); /* equals: the least there is */
	assert_int_equal(block_noise_bin(0), 0);
	assert_int_equal(block_noise_bin(1), 168); /* 21 octaves of 8 */
	assert_int_equal(block_noise_bin(INFINITY), BLOCK_NOISE_BINS - 1);
	assert_int_equal(block_noise_bin(NAN), BLOCK_NOISE_BINS - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(sorts_and_selects_as_qsort_does),
	    cmocka_unit_test(a_nan_ends_no_sort_and_loses_no_value),
	    cmocka_unit_test(medians_and_quantiles_are_pythons),
	    cmocka_unit_test(medians_of_next_to_nothing),
	    cmocka_unit_test(what_is_not_known_has_no_part_in_the_median),
	    cmocka_unit_test(the_centre_is_where_most_values_are),
	    cmocka_unit_test(half_of_the_weight_lies_up_to_the_weighted_median),
	    cmocka_unit_test(normal_deviations_are_pythons),
	    cmocka_unit_test(student_deviations_are_the_tables),
	    cmocka_unit_test(the_cut_is_that_of_the_papers_example),
	    cmocka_unit_test(spreads_are_pythons_and_the_books),
	    cmocka_unit_test(lines_are_those_of_the_book_and_of_python),
	    cmocka_unit_test(lines_through_too_few_points),
	    cmocka_unit_test(the_median_slope_bears_wild_points),
	    cmocka_unit_test(sums_of_non_negative_terms),
	    cmocka_unit_test(a_cusum_is_that_of_the_handbook),
	    cmocka_unit_test(an_onset_is_where_the_level_rose),
	    cmocka_unit_test(block_noise_is_the_allan_deviation_of_white_noise),
	    cmocka_unit_test(block_noise_of_next_to_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
