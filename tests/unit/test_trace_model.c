/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "cli/trace/trace_model.h"
#include "tests/unit/cli_windows.h"

/* The windows of rank 1 overlap; the clocks' offset was read anew for each. */
static void counts(int64_t offset_ns, size_t *host, size_t *device, size_t *steps)
{
	struct cli_windows *c = cli_windows_make();
	struct trace_model m;

	assert_int_equal(trace_model_init(&m), 0);
	c->w[1].realtime_offset_ns += offset_ns;
	for (int i = 0; i < 2; i++)
		assert_int_equal(trace_model_add(&m, &c->w[i]), 0);
	trace_model_finish(&m);
	assert_int_equal(m.rank_count, 1);
	*host = m.ranks[0].host_count;
	*device = m.ranks[0].device_count;
	*steps = m.ranks[0].step_count;
	trace_model_fini(&m);
}

static void a_record_in_two_windows_is_one_whatever_the_clocks_jitter(void **state)
{
	size_t host, device, steps, n[3];

	counts(0, &host, &device, &steps);
	for (int64_t ns = -5; ns <= 5; ns += 10) {
		counts(ns, &n[0], &n[1], &n[2]);
		assert_int_equal(n[0], host);
		assert_int_equal(n[1], device);
		assert_int_equal(n[2], steps);
	}
}

static void a_clock_that_was_set_keeps_its_windows_apart(void **state)
{
	size_t host, device, steps, n[3];

	counts(0, &host, &device, &steps);
	counts(3600000000000, &n[0], &n[1], &n[2]);
	assert_true(n[1] > device);
}

static void an_offset_at_the_edge_of_numbers_is_survived(void **state)
{
	size_t n[3];

	counts(INT64_MIN, &n[0], &n[1], &n[2]);
	assert_true(n[1] > 0);
}

/* Two windows that share 0.1 s; every tenth of a second has a sample. */
static void add_samples(struct window *w, uint64_t begin_ns, uint64_t end_ns)
{
	struct stack_frame f = {.kind = STACK_FRAME_ANONYMOUS, .address = 1};
	struct stack_sample s = {
	    .pid = 1, .tid = 1, .count = 1, .weight_ns = 10, .kind = STACK_ON_CPU};

	w->begin_ns = begin_ns;
	w->end_ns = end_ns;
	stack_batch_init(&w->stacks, keyed_process());
	assert_int_equal(stack_batch_stack(&w->stacks, &f, 1, 0, STACK_END_ROOT, &s.stack), 0);
	for (s.time_ns = begin_ns; s.time_ns < end_ns; s.time_ns += 100000000)
		assert_int_equal(stack_batch_sample(&w->stacks, &s), 0);
}

static void a_stack_in_two_windows_is_one(void **state)
{
	struct cli_windows *c = cli_windows_make();
	uint64_t t = 50000000000ull, tenth = 100000000;
	struct trace_model m;

	assert_int_equal(trace_model_init(&m), 0);
	add_samples(&c->w[0], t + 5 * tenth, t + 10 * tenth);
	add_samples(&c->w[1], t, t + 6 * tenth);
	for (int i = 0; i < 2; i++)
		assert_int_equal(trace_model_add(&m, &c->w[i]), 0);
	trace_model_finish(&m);
	assert_int_equal(m.ranks[0].stacks.sample_count, 10);
	for (uint32_t i = 0; i < 10; i++)
		assert_int_equal(m.ranks[0].stacks.samples[i].count, 1);
	assert_int_equal(trace_model_covered_ns(&m.ranks[0]), 10 * tenth);
	trace_model_fini(&m);
	for (int i = 0; i < 2; i++)
		stack_batch_fini(&c->w[i].stacks);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_record_in_two_windows_is_one_whatever_the_clocks_jitter),
	    cmocka_unit_test(a_clock_that_was_set_keeps_its_windows_apart),
	    cmocka_unit_test(a_stack_in_two_windows_is_one),
	    cmocka_unit_test(an_offset_at_the_edge_of_numbers_is_survived),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
