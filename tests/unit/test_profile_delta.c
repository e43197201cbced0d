/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/cause/profile.h"
#include "base/limits.h"

static struct profile *fresh(void)
{
	struct profile *p;

	assert_int_equal(profile_open(&p, keyed_process()), 0);
	return p;
}

/* "a;b;c", n samples of weight 1 each */
static void add(struct profile *p, const char *stack, double n)
{
	const char *names[16];
	char text[200], *at = text;
	uint32_t count = 0;

	snprintf(text, sizeof(text), "%s", stack);
	for (char *name; (name = strsep(&at, ";"));)
		names[count++] = name;
	assert_int_equal(profile_add(p, names, count, n, n), 0);
}

static const struct profile_delta *find(const struct profile_delta *d, uint32_t n, const char *name)
{
	for (uint32_t i = 0; i < n; i++)
		if (!strcmp(d[i].name, name))
			return &d[i];
	fail_msg("no %s", name);
	return NULL;
}

static void counts_a_recursive_function_once_per_stack(void **state)
{
	struct profile *p = fresh();
	const struct profile_function *f;
	uint32_t n;

	(void)state;
	add(p, "main;fib;fib;fib", 3);
	add(p, "main;fib;add", 1);
	f = profile_functions(p, &n);
	assert_int_equal(n, 3);
	assert_string_equal(f[0].name, "fib"); /* main has as much; then by name */
	assert_true(f[0].total == 4 && f[0].self == 3);
	assert_true(f[1].total == 4 && f[1].self == 0);
	assert_true(profile_total(p) == 4 && profile_samples(p) == 4);
	profile_close(p);
}

static void effective_samples_count_unequal_weights(void **state)
{
	struct profile *p = fresh();
	const char *name = "f";

	(void)state;
	assert_int_equal(profile_add(p, &name, 1, 100, 1), 0); /* one of weight 100 */
	assert_int_equal(profile_add(p, &name, 1, 100, 100), 0);
	/* (200)^2 / (100^2 + 100 * 1^2) */
	assert_true(fabs(profile_samples(p) - 40000.0 / 10100.0) < 1e-9);
	profile_close(p);
	p = fresh();
	assert_int_equal(profile_add(p, &name, 1, 100, 0), 0);
	assert_true(isinf(profile_samples(p)));
	profile_close(p);
}

static void flags_what_is_new_and_not_what_it_dilutes(void **state)
{
	struct profile *a = fresh(), *b = fresh();
	struct profile_delta *d;
	uint32_t n;

	(void)state;
	for (int i = 0; i < 2; i++) {
		add(i ? b : a, "main;step;matmul", 500);
		add(i ? b : a, "main;step;copy", 300);
		add(i ? b : a, "main;load", 200);
	}
	add(b, "softirq;net_rx_action", 170);
	assert_int_equal(profile_compare(a, b, PROFILE_DELTA, &d, &n), 0);
	assert_string_equal(d[0].name,
			    "main"); /* the largest, of the three with 170 of 1170 by name */
	assert_true(fabs(find(d, n, "main")->delta + 170.0 / 1170) < 1e-9);
	assert_true(fabs(find(d, n, "main")->beyond) < 1e-9);
	for (uint32_t i = 0; i < n; i++)
		assert_int_equal(d[i].flagged, !strcmp(d[i].name, "net_rx_action") ||
						   !strcmp(d[i].name, "softirq"));
	for (uint32_t i = 1; i < n; i++)
		assert_true(fabs(d[i - 1].delta) >= fabs(d[i].delta));
	free(d);
	/* the other way round it is gone, and nothing else */
	assert_int_equal(profile_compare(b, a, PROFILE_DELTA, &d, &n), 0);
	for (uint32_t i = 0; i < n; i++)
		assert_int_equal(d[i].flagged, find(d, n, d[i].name)->base_self * 1170 == 170 ||
						   !strcmp(d[i].name, "softirq"));
	free(d);
	profile_close(a);
	profile_close(b);
}

static void few_samples_are_noise(void **state)
{
	struct profile *a = fresh(), *b = fresh();
	struct profile_delta *d;
	uint32_t n;

	(void)state;
	add(a, "main;f", 40);
	add(a, "main;g", 60);
	add(b, "main;f", 47);
	add(b, "main;g", 53);
	assert_int_equal(profile_compare(a, b, PROFILE_DELTA, &d, &n), 0);
	for (uint32_t i = 0; i < n; i++)
		assert_false(d[i].flagged);
	free(d);
	profile_close(a);
	profile_close(b);
	a = fresh();
	b = fresh();
	add(a, "main;f", 40000);
	add(a, "main;g", 60000);
	add(b, "main;f", 47000);
	add(b, "main;g", 53000);
	assert_int_equal(profile_compare(a, b, PROFILE_DELTA, &d, &n), 0);
	assert_true(find(d, n, "f")->flagged);
	free(d);
	profile_close(a);
	profile_close(b);
}

static void one_sample_flags_nothing(void **state)
{
	struct profile *a = fresh(), *b = fresh();
	struct profile_delta *d;
	uint32_t n;

	(void)state;
	add(a, "main;once", 1);
	add(b, "main;step;matmul", 5000);
	add(b, "main;step;norm", 5000);
	for (int turned = 0; turned < 2; turned++) {
		assert_int_equal(
		    profile_compare(turned ? b : a, turned ? a : b, PROFILE_DELTA, &d, &n), 0);
		for (uint32_t i = 0; i < n; i++)
			assert_false(d[i].flagged);
		free(d);
	}
	profile_close(a);
	profile_close(b);
}

static void a_small_share_is_below_delta_however_sure(void **state)
{
	struct profile *a = fresh(), *b = fresh();
	struct profile_delta *d;
	uint32_t n;

	(void)state;
	add(a, "main;f", 1e6);
	add(b, "main;f", 1e6);
	add(b, "main;new", 4900);
	assert_int_equal(profile_compare(a, b, PROFILE_DELTA, &d, &n), 0);
	assert_false(find(d, n, "new")->flagged);
	free(d);
	assert_int_equal(profile_compare(a, b, 0.004, &d, &n), 0);
	assert_true(find(d, n, "new")->flagged);
	free(d);
	profile_close(a);
	profile_close(b);
}

static double uniform(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005ull + 1442695040888963407ull;
	return (double)(*seed >> 11) / 9007199254740992.0;
}

/* Callers of falling share, each with callees of falling share: large totals above small self shares,
 * sampled twice from the same distribution. */
static void two_samplings_of_one_process_seldom_differ(void **state)
{
	uint64_t seed = 20261121;
	uint32_t comparisons = 400, wrong = 0;

	(void)state;
	print_message("seed %llu\n", (unsigned long long)seed);
	for (uint32_t t = 0; t < comparisons; t++) {
		struct profile *p[2] = {fresh(), fresh()};
		uint32_t n, flagged = 0, samples = t % 2 ? 200 : 1500;
		struct profile_delta *d;

		for (int i = 0; i < 2; i++)
			for (uint32_t s = 0; s < samples; s++) {
				int a = (int)(4 * pow(uniform(&seed), 3));
				int b = (int)(10 * pow(uniform(&seed), 2));
				char name[64];

				snprintf(name, sizeof(name), "main;a%d;a%d_b%d;a%d_b%d_c%d", a, a,
					 b, a, b, (int)(5 * uniform(&seed)));
				add(p[i], name, 1);
			}
		assert_int_equal(profile_compare(p[0], p[1], PROFILE_DELTA, &d, &n), 0);
		for (uint32_t i = 0; i < n; i++)
			flagged += d[i].flagged;
		wrong += flagged > 0;
		free(d);
		profile_close(p[0]);
		profile_close(p[1]);
	}
	/* a false discovery rate of 2% is, where nothing differs, 2 comparisons of a hundred at most: 8 of
	 * 400; 19 or more have a chance below 1 in 1,000 */
	assert_in_range(wrong, 0, 18);
}

static void refuses_what_it_has_no_room_for_and_counts_it(void **state)
{
	static const char *deep[LIMIT_STACK_DEPTH + 3];
	struct profile *p = fresh(), *empty = fresh();
	struct profile_delta *d;
	const char *name = "f";
	uint32_t n;

	(void)state;
	for (uint32_t i = 0; i < LIMIT_STACK_DEPTH + 3; i++)
		deep[i] = "f";
	assert_int_equal(profile_add(p, deep, LIMIT_STACK_DEPTH + 3, 1, 1), -E2BIG);
	assert_int_equal(profile_dropped(p), 1);
	assert_int_equal(profile_add(p, &name, 0, 1, 1), -EINVAL);
	assert_int_equal(profile_add(p, &name, 1, NAN, 1), -EINVAL);
	assert_int_equal(profile_add(p, &name, 1, -1, 1), -EINVAL);
	assert_int_equal(profile_add(p, &name, 1, 1, INFINITY), -EINVAL);
	assert_int_equal(profile_add(p, &name, 1, 5, 5), 0);
	assert_int_equal(profile_compare(p, empty, 0.01, &d, &n), -EINVAL);
	assert_null(d);
	for (int i = 0; i < 5000; i++) {
		char text[16];

		snprintf(text, sizeof(text), "n%d", i);
		name = text;
		assert_int_equal(profile_add(p, &name, 1, 1, 1), 0);
	}
	profile_functions(p, &n);
	assert_int_equal(n, 5001);
	profile_close(p);
	profile_close(empty);
}

/* The same as stacks and as a list of their functions. */
static void functions_without_stacks_compare_like_stacks(void **unused)
{
	struct profile *base = fresh(), *other = fresh(), *listed = fresh();
	struct profile_delta *a, *b;
	uint32_t n, m;

	add(base, "main;work", 3000);
	add(base, "main;io", 1000);
	add(other, "main;work", 3000);
	add(other, "main;io;spin", 1000);
	add(other, "main;io", 1000);
	assert_int_equal(profile_put(listed, "main", 0, 1), 0);
	assert_int_equal(profile_put(listed, "work", 0.6, 0.6), 0);
	assert_int_equal(profile_put(listed, "io", 0.2, 0.4), 0);
	assert_int_equal(profile_put(listed, "spin", 0.2, 0.2), 0);
	profile_set_total(listed, 1, 5000);
	assert_true(fabs(profile_samples(listed) - 5000) < 1e-9);
	assert_int_equal(profile_compare(base, other, PROFILE_DELTA, &a, &n), 0);
	assert_int_equal(profile_compare(base, listed, PROFILE_DELTA, &b, &m), 0);
	assert_int_equal(n, 4);
	assert_int_equal(m, 4);
	for (uint32_t i = 0; i < n; i++) {
		const struct profile_delta *k = find(b, m, a[i].name);

		assert_int_equal(k->flagged, a[i].flagged);
		assert_true(fabs(k->delta - a[i].delta) + fabs(k->other_self - a[i].other_self) <
			    1e-12);
		assert_true(fabs(k->chance - a[i].chance) < 1e-12);
	}
	assert_true(find(b, m, "spin")->flagged && !find(b, m, "main")->flagged);
	free(a);
	free(b);
	profile_close(base);
	profile_close(other);
	profile_close(listed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(counts_a_recursive_function_once_per_stack),
	    cmocka_unit_test(effective_samples_count_unequal_weights),
	    cmocka_unit_test(flags_what_is_new_and_not_what_it_dilutes),
	    cmocka_unit_test(few_samples_are_noise),
	    cmocka_unit_test(one_sample_flags_nothing),
	    cmocka_unit_test(a_small_share_is_below_delta_however_sure),
	    cmocka_unit_test(two_samplings_of_one_process_seldom_differ),
	    cmocka_unit_test(functions_without_stacks_compare_like_stacks),
	    cmocka_unit_test(refuses_what_it_has_no_room_for_and_counts_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
