/* SPDX-License-Identifier: Apache-2.0
 * test_link.c - the link model: known lines and regimes are found again, whatever the order, the
 * instance or single slow transfers; best lines against an exhaustive search. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/link/link_fit.h"
#include "analysis/robust/regress.h"
#include "base/hash.h"

#define SEED 20260727u
#define WAYS 200

static struct link_scratch scratch;

static double uniform(uint64_t *state)
{
	*state += 0x9e3779b97f4a7c15ull;
	return (double)(hash_mix(*state) >> 11) / 9007199254740992.0;
}

static void near(double got, double want, double part)
{
	if (!(fabs(got - want) <= part * fabs(want)))
		fail_msg("%.17g, expected %.17g", got, want);
}

static struct link_fit fitted(const struct link_samples *s, enum link_centre centre,
			      uint32_t regimes)
{
	struct link_config c;
	struct link_fit f;

	link_config_default(&c);
	c.centre = centre;
	c.regimes_max = regimes;
	link_fit_run(&f, s, &c, &scratch);
	return f;
}

/* Sizes of 2^first to 2^last, so many transfers of each. */
static void line(struct link_samples *s, uint32_t first, uint32_t last, double latency_ns,
		 double ns_per_byte, uint32_t times, double noise, uint64_t *seed)
{
	for (uint32_t e = first; e <= last; e++)
		for (uint32_t k = 0; k < times; k++) {
			double bytes = ldexp(1, (int)e);
			double t = latency_ns + ns_per_byte * bytes;

			t *= 1 + noise * (2 * uniform(seed) - 1);
			link_samples_add(s, (uint64_t)bytes, (uint64_t)llround(t));
		}
}

static void one_line_comes_back(void **unused)
{
	uint64_t seed = SEED;

	for (uint32_t way = 0; way < WAYS; way++) {
		double latency = 1e3 + 1e5 * uniform(&seed), per_byte = 0.002 + uniform(&seed);
		struct link_samples s = {0};
		struct link_fit f;

		line(&s, 8, 28, latency, per_byte, 5, 0, &seed);
		f = fitted(&s, LINK_MEDIAN, 8);
		assert_int_equal(f.regimes, 1);
		near(f.regime[0].latency_ns, latency, 0.002);
		near(f.regime[0].ns_per_byte, per_byte, 0.002);
		assert_int_equal(f.regime[0].max_bytes, 1u << 28);
		assert_int_equal(f.samples, 21 * 5);
		assert_true(f.mape < 0.002 && f.r2 > 0.9999);
		assert_int_equal(s.refused, 0);
	}
}

static void regimes_end_where_the_line_changes(void **unused)
{
	uint64_t seed = SEED;

	for (uint32_t way = 0; way < WAYS; way++) {
		/* three protocols, each with more latency and a better rate */
		uint32_t a = 12 + (uint32_t)(uniform(&seed) * 4), b = a + 4, noisy = way & 1;
		struct link_samples s = {0};
		struct link_fit f;

		line(&s, 6, a, 8e3, 0.5, 9, noisy ? 0.01 : 0, &seed);
		line(&s, a + 1, b, 60e3, 0.2, 9, noisy ? 0.01 : 0, &seed);
		line(&s, b + 1, 30, 600e3, 0.005, 9, noisy ? 0.01 : 0, &seed);
		f = fitted(&s, LINK_MEDIAN, 8);
		assert_int_equal(f.regimes, 3);
		near(f.regime[0].max_bytes, ldexp(sqrt(2), (int)a), 0.01);
		near(f.regime[1].max_bytes, ldexp(sqrt(2), (int)b), 0.01);
		near(f.regime[0].latency_ns, 8e3, 0.03);
		near(f.regime[2].ns_per_byte, 0.005, 0.03);
		near(link_fit_predict(&f, ldexp(1, (int)a)), 8e3 + 0.5 * ldexp(1, (int)a), 0.03);
		near(link_fit_predict(&f, ldexp(1, (int)b)), 60e3 + 0.2 * ldexp(1, (int)b), 0.03);
		assert_true(f.mape < 0.012);
	}
}

/* A class has the sizes from its begin to before its end, and no others. */
static void the_class_of_a_size_has_its_bounds(void **unused)
{
	uint64_t seed = SEED;
	struct link_size z[LINK_SIZES_MAX];

	for (uint32_t way = 0; way < 1000; way++) {
		struct link_samples s = {0};
		uint64_t bytes = (uint64_t)exp(uniform(&seed) * 28) + 1;
		double begin, end;

		link_samples_class((double)bytes, &begin, &end);
		assert_true(begin <= (double)bytes && (double)bytes < end);
		link_samples_add(&s, bytes, 1000);
		link_samples_add(&s, (uint64_t)ceil(begin), 1000);
		link_samples_add(&s, (uint64_t)ceil(end) - 1, 1000);
		assert_int_equal(link_samples_sizes(&s, LINK_AVG, z), 1);
		link_samples_add(&s, (uint64_t)ceil(end), 1000);
		assert_int_equal(link_samples_sizes(&s, LINK_AVG, z), 2);
	}
}

/* 10 us up to 64 KiB, 40 us from 256 KiB on; nothing was seen between. */
static void between_two_regimes_time_goes_straight(void **unused)
{
	uint64_t seed = SEED;
	struct link_samples s = {0};
	struct link_fit f;
	double end;

	line(&s, 8, 16, 10e3, 0, 3, 0, &seed);
	line(&s, 18, 26, 40e3, 0, 3, 0, &seed);
	f = fitted(&s, LINK_MEDIAN, 8);
	assert_int_equal(f.regimes, 2);
	end = f.regime[0].end_bytes;
	assert_true(end == 1.25 * (1 << 16) && f.regime[1].begin_bytes == 1 << 18);
	near(link_fit_predict(&f, 1 << 16), 10e3, 1e-6);
	near(link_fit_predict(&f, end - 1), 10e3, 1e-6);
	near(link_fit_predict(&f, (end + (1 << 18)) / 2), 25e3, 1e-6);
	near(link_fit_predict(&f, 1 << 18), 40e3, 1e-6);
	near(link_fit_predict(&f, 1ull << 40), 40e3, 1e-6);
}

static void slow_transfers_move_no_line(void **unused)
{
	uint64_t seed = SEED;
	struct link_samples s = {0};
	struct link_fit f, avg;

	line(&s, 10, 28, 20e3, 0.02, 50, 0.02, &seed);
	/* one in five takes ten times as long, and one size was only ever seen like that */
	line(&s, 10, 28, 200e3, 0.2, 12, 0.02, &seed);
	for (uint32_t k = 0; k < 5; k++)
		link_samples_add(&s, 3u << 15, 2000000);
	f = fitted(&s, LINK_MEDIAN, 1);
	near(f.regime[0].latency_ns, 20e3, 0.05);
	near(f.regime[0].ns_per_byte, 0.02, 0.05);
	avg = fitted(&s, LINK_AVG, 1);
	near(avg.regime[0].ns_per_byte, (0.02 * 50 + 0.2 * 12) / 62, 0.05);
}

static void the_mode_says_which_time_of_a_size_counts(void **unused)
{
	struct link_samples s = {0};
	struct link_size z[LINK_SIZES_MAX];
	static const uint64_t times[] = {1000, 1000, 1000, 4000, 9000};

	for (uint32_t i = 0; i < 5; i++)
		link_samples_add(&s, 4096, times[i]);
	assert_int_equal(link_samples_sizes(&s, LINK_MEDIAN, z), 1);
	assert_true(z[0].bytes == 4096 && z[0].time_ns == 1000 && z[0].count == 5);
	link_samples_sizes(&s, LINK_AVG, z);
	assert_true(z[0].time_ns == 3200);
	link_samples_sizes(&s, LINK_MIN, z);
	assert_true(z[0].time_ns == 1000);
	link_samples_add(&s, 4096, 4000); /* now the middle lies between two */
	link_samples_sizes(&s, LINK_MEDIAN, z);
	assert_true(z[0].time_ns == 2500);
}

static void neither_latency_nor_rate_is_negative(void **unused)
{
	uint64_t seed = SEED;

	for (uint32_t way = 0; way < WAYS; way++) {
		struct link_samples s = {0};
		struct link_fit f;
		uint32_t n = 1 + (uint32_t)(uniform(&seed) * 300);

		for (uint32_t i = 0; i < n; i++)
			link_samples_add(&s, (uint64_t)exp(uniform(&seed) * 25) + 1,
					 (uint64_t)exp(uniform(&seed) * 20) + 1);
		f = fitted(&s, (enum link_centre)(way % 3), 1 + way % 8);
		assert_in_range(f.regimes, 1, 1 + way % 8);
		for (uint32_t k = 0; k < f.regimes; k++) {
			const struct link_regime *r = &f.regime[k];

			assert_true(r->latency_ns >= 0 && r->ns_per_byte >= 0);
			assert_true(isfinite(r->latency_ns) && isfinite(r->ns_per_byte));
			assert_true(!k || r->max_bytes > f.regime[k - 1].max_bytes);
		}
		assert_true(link_fit_predict(&f, 1e6) > 0);
	}
	{
		/* time that falls with the size: the best line is level */
		struct link_samples s = {0};
		struct link_fit f;

		for (uint32_t i = 1; i < 10; i++)
			link_samples_add(&s, i << 20, 1000000 - i * 50000);
		f = fitted(&s, LINK_MEDIAN, 1);
		assert_true(f.regime[0].ns_per_byte == 0 && f.regime[0].latency_ns > 500000);
	}
}

/* The best line goes through two points, or through one with a part that is 0: all are tried. */
static double best_by_search(const double *x, const double *y, uint32_t n)
{
	double best = INFINITY;

	for (uint32_t i = 0; i < n; i++)
		for (uint32_t j = 0; j < n + 2; j++) {
			double a, b, sum = 0;

			if (j < n && x[i] == x[j])
				continue;
			b = j == n ? 0 : j > n ? y[i] / x[i] : (y[j] - y[i]) / (x[j] - x[i]);
			a = y[i] - b * x[i];
			if (a < -1e-9 * y[i] || b < 0)
				continue;
			for (uint32_t k = 0; k < n; k++)
				sum += fabs(a + b * x[k] - y[k]) / y[k];
			best = sum < best ? sum : best;
		}
	return best;
}

static void the_line_is_the_best_there_is(void **unused)
{
	uint64_t seed = SEED;

	for (uint32_t way = 0; way < WAYS; way++) {
		double x[40], y[40], a, b, sum, want;
		uint32_t n = 2 + (uint32_t)(uniform(&seed) * 38);

		for (uint32_t i = 0; i < n; i++) {
			x[i] = exp(uniform(&seed) * 15);
			y[i] = (5e3 + 0.1 * x[i]) * exp(0.4 * uniform(&seed));
			if (uniform(&seed) < 0.1)
				y[i] *= 10;
		}
		sum = regress_line_relative(x, y, n, &a, &b);
		want = best_by_search(x, y, n);
		/* reweighting ends near the best line, never far from it */
		assert_true(sum >= want * (1 - 1e-9) - 1e-9);
		if (sum > want * 1.02 + 1e-3)
			fail_msg("seed %u way %u: %g, best %g", SEED, way, sum, want);
	}
}

static void instances_merge_in_any_order(void **unused)
{
	uint64_t seed = SEED;
	static struct link_samples all, part[4], merged[2];
	struct link_fit a, b;

	for (uint32_t i = 0; i < 4000; i++) {
		uint64_t bytes = 1ull << (10 + (uint32_t)(uniform(&seed) * 8));
		uint64_t t = (uint64_t)(2e4 + 0.05 * (double)bytes * (1 + 0.3 * uniform(&seed)));

		link_samples_add(&all, bytes, t);
		link_samples_add(&part[i % 7 % 4], bytes, t);
	}
	for (uint32_t i = 0; i < 4; i++) {
		link_samples_merge(&merged[0], &part[i]);
		link_samples_merge(&merged[1], &part[3 - i]);
	}
	assert_memory_equal(&merged[0], &all, sizeof(all));
	assert_memory_equal(&merged[1], &all, sizeof(all));
	a = fitted(&all, LINK_MEDIAN, 8);
	b = fitted(&merged[1], LINK_MEDIAN, 8);
	assert_memory_equal(&a, &b, sizeof(a));
}

static void what_does_not_fit_is_counted(void **unused)
{
	uint64_t seed = SEED, want = 0;
	static struct link_samples s, other;
	uint64_t got;

	memset(&s, 0, sizeof(s));
	link_samples_add(&s, 0, 5);
	link_samples_add(&s, 5, 0);
	link_samples_add(&s, 1ull << 42, 5);
	link_samples_add(&s, 5, UINT64_MAX);
	assert_int_equal(s.refused, 4);
	assert_int_equal(s.cells, 0);
	for (uint32_t i = 0; i < 20000; i++) {
		link_samples_add(&s, 1 + (uint64_t)exp(uniform(&seed) * 28),
				 1 + (uint64_t)exp(uniform(&seed) * 28));
		want++;
	}
	assert_int_equal(s.cells, LINK_CELLS_MAX);
	got = s.refused - 4;
	for (uint32_t i = 0; i < s.cells; i++)
		got += s.cell[i].count;
	assert_int_equal(got, want);
	/* a full cell refuses, too */
	link_samples_add(&other, 64, 64);
	for (uint32_t i = 0; i < 23; i++) {
		struct link_samples copy = other;

		link_samples_merge(&other, &copy);
	}
	assert_int_equal(other.cell[0].count, LINK_COUNT_MAX);
	assert_true(other.cell[0].bytes == 64ull * LINK_COUNT_MAX && other.refused > 0);
}

static void of_nothing_there_is_no_fit(void **unused)
{
	struct link_samples s = {0};
	struct link_fit f = fitted(&s, LINK_MEDIAN, 8);

	assert_int_equal(f.regimes, 0);
	assert_true(link_fit_predict(&f, 1e6) == 0);
	assert_int_equal(link_change_of(&f, &s, 3).samples, 0);
	/* one size: no latency can be told apart, all of it is rate */
	link_samples_add(&s, 1000, 2000);
	assert_int_equal(link_change_of(&f, &s, 3).samples, 0);
	f = fitted(&s, LINK_MEDIAN, 8);
	assert_int_equal(f.regimes, 1);
	assert_int_equal(f.regime[0].sizes, 1);
	assert_true(f.regime[0].latency_ns == 0);
	near(f.regime[0].ns_per_byte, 2, 1e-9);
	assert_true(f.r2 == 1 && f.mape < 1e-9);
}

static void a_change_is_told_from_noise(void **unused)
{
	uint64_t seed = SEED;
	uint32_t wrong = 0, found = 0;

	for (uint32_t way = 0; way < WAYS; way++) {
		static struct link_samples before, after, slow;
		struct link_change same, worse;
		struct link_fit f;

		memset(&before, 0, sizeof(before));
		memset(&after, 0, sizeof(after));
		memset(&slow, 0, sizeof(slow));
		line(&before, 14, 20, 30e3, 0.08, 60, 0.2, &seed);
		line(&after, 14, 20, 30e3, 0.08, 20, 0.2, &seed);
		line(&slow, 14, 20, 1.15 * 30e3, 1.15 * 0.08, 20, 0.2, &seed);
		f = fitted(&before, LINK_MEDIAN, 1);
		same = link_change_of(&f, &after, 4);
		worse = link_change_of(&f, &slow, 4);
		assert_true(same.low <= same.ratio);
		assert_int_equal(same.samples, 140);
		wrong += same.low > 1.05;
		found += worse.low > 1.05;
		near(worse.ratio, 1.15, 0.07);
	}
	assert_int_equal(wrong, 0);
	assert_true(found > WAYS / 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(one_line_comes_back),
	    cmocka_unit_test(regimes_end_where_the_line_changes),
	    cmocka_unit_test(the_class_of_a_size_has_its_bounds),
	    cmocka_unit_test(between_two_regimes_time_goes_straight),
	    cmocka_unit_test(slow_transfers_move_no_line),
	    cmocka_unit_test(the_mode_says_which_time_of_a_size_counts),
	    cmocka_unit_test(neither_latency_nor_rate_is_negative),
	    cmocka_unit_test(the_line_is_the_best_there_is),
	    cmocka_unit_test(instances_merge_in_any_order),
	    cmocka_unit_test(what_does_not_fit_is_counted),
	    cmocka_unit_test(of_nothing_there_is_no_fit),
	    cmocka_unit_test(a_change_is_told_from_noise),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
