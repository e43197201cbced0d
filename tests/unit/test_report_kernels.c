/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report/report_kernels.h"
#include "tests/unit/cli_windows.h"

static void compares_slow_steps_with_the_others(void **state)
{
	struct cli_windows *c = cli_windows_make();
	struct report_kernel *k;
	struct trace_model m;
	size_t count, slow, normal;

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
	k = report_kernels_make(&m, &m.ranks[0], &count, &slow, &normal);
	assert_non_null(k);
	assert_int_equal(slow, 4);
	assert_int_equal(normal, 2);
	assert_int_equal(count, 3);
	assert_string_equal(m.names.text[k[0].name], cli_windows_names[1]);
	assert_true(k[0].slow_ns == 4e6 && k[0].normal_ns == 2e6);
	assert_int_equal(k[0].slow_count, 16);
	free(k);
	trace_model_fini(&m);
}

static void says_nothing_without_records(void **state)
{
	struct cli_windows *c = cli_windows_make();
	struct trace_model m;
	size_t count, slow, normal;

	c->w[0].device_count = 0;
	assert_int_equal(trace_model_init(&m), 0);
	assert_int_equal(trace_model_add(&m, &c->w[0]), 0);
	trace_model_finish(&m);
	assert_null(report_kernels_make(&m, &m.ranks[0], &count, &slow, &normal));
	trace_model_fini(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(compares_slow_steps_with_the_others),
	    cmocka_unit_test(says_nothing_without_records),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
