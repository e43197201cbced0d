/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report_kernels.h"
#include "tests/unit/cli_windows.h"

static void compares_slow_steps_with_the_others(void **state)
{
	struct cli_windows *c = cli_windows_make();
	struct report_kernel *k;
	struct trace_model m;
	struct report_kernel_steps steps;
	size_t count;

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
	k = report_kernels_make(&m, &m.ranks[0], &count, &steps);
	assert_non_null(k);
	assert_int_equal(steps.slow, 4);
	assert_int_equal(steps.normal, 2);
	assert_int_equal(steps.unlike, 0);
	assert_int_equal(count, 3);
	assert_string_equal(m.names[k[0].name], cli_windows_names[1]);
	assert_true(k[0].slow_ns == 4e6 && k[0].normal_ns == 2e6);
	assert_int_equal(k[0].slow_count, 16);
	free(k);
	trace_model_fini(&m);
}

/* Nine steps of 100 ns; a slow one has kernels of another step too, as its boundary moved. */
static void leaves_out_a_step_whose_boundary_moved(void **state)
{
	char *names[] = { "", "gemm" };
	struct trace_model m = { .names = names, .name_count = 2 };
	struct window_step steps[9] = { 0 };
	struct record device[9 * 20 + 10] = { 0 };
	struct trace_rank r = { .steps = steps, .step_count = 9, .device = device };
	struct report_kernel_steps told;
	struct report_kernel *k;
	size_t count;

	for (uint64_t i = 0; i < 9; i++) {
		steps[i].step.begin_ns = 100 * i + 1;
		steps[i].step.end_ns = 100 * i + 101;
		steps[i].step.kernels = i == 2 ? 30 : 20;
		steps[i].flags = i < 2 ? WINDOW_STEP_MARGIN : WINDOW_STEP_FLAGGED;
		for (uint32_t n = 0; n < steps[i].step.kernels; n++) {
			struct record *d = &device[r.device_count++];

			d->name = 1;
			d->launch_ns = d->begin_ns = 100 * i + 2 + n;
			d->end_ns = d->begin_ns + 1;
		}
	}
	k = report_kernels_make(&m, &r, &count, &told);
	assert_non_null(k);
	assert_int_equal(told.slow, 6);
	assert_int_equal(told.normal, 2);
	assert_int_equal(told.unlike, 1);
	assert_int_equal(count, 1);
	assert_true(k[0].slow_ns == 20 && k[0].normal_ns == 20);
	free(k);
	/* where half of the steps differ, that is how they are */
	for (size_t i = 3; i < 6; i++)
		steps[i].step.kernels = 15;
	k = report_kernels_make(&m, &r, &count, &told);
	assert_int_equal(told.slow, 7);
	assert_int_equal(told.unlike, 0);
	free(k);
}

static void says_nothing_without_records(void **state)
{
	struct cli_windows *c = cli_windows_make();
	struct trace_model m;
	struct report_kernel_steps steps;
	size_t count;

	c->w[0].device_count = 0;
	assert_int_equal(trace_model_init(&m), 0);
	assert_int_equal(trace_model_add(&m, &c->w[0]), 0);
	trace_model_finish(&m);
	assert_null(report_kernels_make(&m, &m.ranks[0], &count, &steps));
	trace_model_fini(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(compares_slow_steps_with_the_others),
		cmocka_unit_test(leaves_out_a_step_whose_boundary_moved),
		cmocka_unit_test(says_nothing_without_records),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
