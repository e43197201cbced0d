/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report/kernel_diff.h"
#include "tests/unit/cli_windows.h"

static void compares_slow_steps_with_the_others(void **state)
{
	struct cli_windows *c = cli_windows_make();
	struct kernel_time *slow, *other;
	struct kernel_diff diff;
	struct trace_model m;
	size_t count[2], steps[2];

	/* gemm takes twice as long in the slow steps of rank 1, which are 2 to 5 */
	for (uint32_t i = 0; i < c->w[0].device_count; i++) {
		struct record *d = &c->w[0].device[i];
		uint64_t step = (d->begin_ns - CLI_WINDOWS_BEGIN_NS) / CLI_WINDOWS_STEP_NS;

		if (d->name == 1 && step < 2)
			d->end_ns = d->begin_ns + 500000;
	}
	assert_int_equal(trace_model_init(&m), 0);
	assert_int_equal(trace_model_add(&m, &c->w[0]), 0);
	trace_model_finish(&m);
	other = kernel_diff_of_rank(&m, &m.ranks[0], KERNEL_STEPS_OTHER, &count[0], &steps[0]);
	slow = kernel_diff_of_rank(&m, &m.ranks[0], KERNEL_STEPS_SLOW, &count[1], &steps[1]);
	assert_int_equal(steps[1], 4);
	assert_int_equal(steps[0], 2);
	assert_int_equal(kernel_diff_make(&diff, other, count[0], slow, count[1]), 0);
	assert_int_equal(diff.count, 3);
	assert_string_equal(diff.rows[0].base, "gemm\\n");
	assert_true(diff.rows[0].time_ns[1] == 4e6 && diff.rows[0].time_ns[0] == 2e6);
	assert_true(diff.rows[0].count[1] == 4);
	kernel_diff_free(&diff);
	free(other);
	free(slow);
	trace_model_fini(&m);
}

static void copies_have_names_by_direction(void **state)
{
	struct cli_windows *c = cli_windows_make();
	struct kernel_time *k;
	struct trace_model m;
	size_t count, steps;
	unsigned found = 0;

	for (uint32_t i = 0; i < c->w[0].device_count; i++)
		if (c->w[0].device[i].name == 1) {
			c->w[0].device[i].kind = i % 2 ? RECORD_COPY : RECORD_MEMSET;
			c->w[0].device[i].func = 1;
			c->w[0].device[i].name = 0;
		}
	assert_int_equal(trace_model_init(&m), 0);
	assert_int_equal(trace_model_add(&m, &c->w[0]), 0);
	trace_model_finish(&m);
	k = kernel_diff_of_rank(&m, &m.ranks[0], KERNEL_STEPS_ALL, &count, &steps);
	for (size_t i = 0; i < count; i++) {
		assert_string_not_equal(k[i].name, "");
		found |= !strcmp(k[i].name, "copy host to device") ? 1u : 0;
		found |= !strcmp(k[i].name, "memset") ? 2u : 0;
	}
	assert_int_equal(found, 3);
	free(k);
	trace_model_fini(&m);
}

static void says_nothing_without_records(void **state)
{
	struct cli_windows *c = cli_windows_make();
	struct trace_model m;
	size_t count, steps;

	c->w[0].device_count = 0;
	assert_int_equal(trace_model_init(&m), 0);
	assert_int_equal(trace_model_add(&m, &c->w[0]), 0);
	trace_model_finish(&m);
	assert_null(kernel_diff_of_slow(&m, &m.ranks[0], &count, &steps));
	trace_model_fini(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(compares_slow_steps_with_the_others),
	    cmocka_unit_test(copies_have_names_by_direction),
	    cmocka_unit_test(says_nothing_without_records),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
