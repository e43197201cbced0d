/* SPDX-License-Identifier: Apache-2.0
 * test_durations.c - quantiles, merges and the ends of the range. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "model/durations.h"

static void quantiles_are_right_to_three_percent(void **state)
{
	static struct durations d;

	for (uint64_t ms = 1; ms <= 10000; ms++)
		durations_add(&d, ms * 1000000);
	for (int p = 1; p < 100; p++) {
		double want = p / 100.0 * 10000e6, got = durations_quantile(&d, p / 100.0);

		assert_true(got > want * 0.96 && got < want * 1.04);
	}
}

static void merging_counts_what_one_would_have_counted(void **state)
{
	static struct durations a, b, both;

	for (uint64_t i = 1; i < 3000; i++) {
		durations_add(i % 3 ? &a : &b, i * i * 1000);
		durations_add(&both, i * i * 1000);
	}
	durations_merge(&a, &b);
	assert_memory_equal(&a, &both, sizeof(a));
}

static void the_ends_of_the_range_hold_the_rest(void **state)
{
	static struct durations d;

	assert_true(durations_quantile(&d, 0.5) == 0);
	durations_add(&d, 0);
	assert_true(durations_quantile(&d, 0.99) < 1100);
	durations_add(&d, UINT64_MAX);
	durations_add(&d, UINT64_MAX);
	assert_true(durations_quantile(&d, 0.99) > 4e12);
	assert_true(d.total == 3);
}

static void a_full_class_stays_full(void **state)
{
	static struct durations d;

	durations_add_class(&d, 7, UINT32_MAX);
	durations_add_class(&d, 7, 5);
	durations_add_class(&d, 8, 5);
	assert_int_equal(d.count[7], UINT32_MAX);
	assert_true(d.total == UINT32_MAX + 5ull);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(quantiles_are_right_to_three_percent),
	    cmocka_unit_test(merging_counts_what_one_would_have_counted),
	    cmocka_unit_test(the_ends_of_the_range_hold_the_rest),
	    cmocka_unit_test(a_full_class_stays_full),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
