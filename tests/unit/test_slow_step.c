/* SPDX-License-Identifier: Apache-2.0
 * A window of ten steps of 10 ms whose sixth takes 170 ms, because a Python function runs in one of its
 * spans. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/cause/slow_step.h"
#include "base/span_kind.h"

#define MS     1000000ull
#define STEPS  10u
#define SLOW   5u
#define BEGIN  (1000 * MS)
#define THREAD 7u
#define OTHER  8u

static const char *const names[] = {"", "Step", "Preprocess", "Forward", "Pad"};

static struct made {
	struct window w;
	struct window_step steps[STEPS];
	struct record host[64], device[64];
	bool slow[STEPS], healthy[STEPS];
} m;

static uint64_t begin_of(uint32_t step)
{
	return BEGIN + step * 10 * MS + (step > SLOW ? 160 * MS : 0);
}

static void span(uint32_t name, uint32_t depth, uint64_t begin, uint64_t end)
{
	m.host[m.w.host_count++] = (struct record){.kind = RECORD_SPAN,
						   .thread = THREAD,
						   .name = name,
						   .seq = depth,
						   .begin_ns = begin,
						   .end_ns = end};
}

static uint32_t text(const char *s)
{
	uint32_t at = 0;

	assert_int_equal(stack_batch_string(&m.w.stacks, s, strlen(s), &at), 0);
	return at;
}

/* The functions leaf first, each with its line. */
static uint32_t stack_of(const char *const *functions, const uint32_t *lines, uint32_t count)
{
	struct stack_frame f[8] = {{0}};
	uint32_t at = 0;

	for (uint32_t i = 0; i < count; i++) {
		f[i].kind = STACK_FRAME_PYTHON;
		f[i].object = text(functions[i]);
		f[i].file = text("/srv/serve.py");
		f[i].line = lines[i];
	}
	assert_int_equal(stack_batch_stack(&m.w.stacks, f, count, 0, STACK_END_ROOT, &at), 0);
	return at;
}

static void sample(uint32_t tid, uint32_t stack, uint64_t t, uint8_t gil)
{
	struct stack_sample s = {.time_ns = t / STACK_SLICE_NS * STACK_SLICE_NS,
				 .weight_ns = 10 * MS,
				 .tid = tid,
				 .stack = stack,
				 .count = 1,
				 .kind = STACK_ON_CPU,
				 .gil = gil,
				 .comm = text("loader")};

	assert_int_equal(stack_batch_sample(&m.w.stacks, &s), 0);
}

/* Each step has its marks, its spans, a kernel of 3 ms at its begin and one of 2 ms at its end. */
static void make(void)
{
	memset(&m, 0, sizeof(m));
	stack_batch_init(&m.w.stacks, keyed_process());
	m.w.steps = m.steps;
	m.w.host = m.host;
	m.w.device = m.device;
	m.w.names = (char **)(uintptr_t)names;
	m.w.name_count = 5;
	m.w.step_count = STEPS;
	m.w.realtime_offset_ns = 5;
	for (uint32_t i = 0; i < STEPS; i++) {
		uint64_t begin = begin_of(i), end = begin_of(i + 1);
		bool slow = i == SLOW;
		struct step s = {.index = 100 + i,
				 .source = STEP_SOURCE_EXPLICIT,
				 .begin_ns = begin,
				 .end_ns = end,
				 .latency_ns = end - begin,
				 .kernels = 2,
				 .flags = slow ? STEP_FLAG_CPU_BOUND : 0};

		m.steps[i] = (struct window_step){
		    .step = s,
		    .expected_ns = 10e6,
		    .flags = slow ? WINDOW_STEP_FLAGGED | WINDOW_STEP_OUT | WINDOW_STEP_SPIKE : 0};
		m.slow[i] = slow;
		m.healthy[i] = !slow;
		m.host[m.w.host_count++] = (struct record){.kind = RECORD_STEP_BEGIN,
							   .thread = THREAD,
							   .begin_ns = begin,
							   .end_ns = begin};
		span(1, 0, begin, end);
		span(2, 1, begin, begin + 4 * MS + (slow ? 160 * MS : 0));
		if (slow)
			span(4, 2, begin + MS, begin + 161 * MS);
		span(3, 1, end - 5 * MS, end);
		m.device[m.w.device_count++] = (struct record){
		    .kind = RECORD_KERNEL, .begin_ns = begin, .end_ns = begin + 3 * MS};
		m.device[m.w.device_count++] =
		    (struct record){.kind = RECORD_KERNEL, .begin_ns = end - 2 * MS, .end_ns = end};
	}
}

static void unmake(void)
{
	stack_batch_fini(&m.w.stacks);
}

static const char *name_of(void *arg, uint32_t frame)
{
	static char list[64][64];
	const struct stack_batch *b = &m.w.stacks;

	assert_true(frame < 64);
	if (b->frames[frame].kind == STACK_FRAME_NATIVE)
		return stack_batch_text(b, b->objects[b->frames[frame].object].path);
	snprintf(list[frame], sizeof(list[frame]), "%s (serve.py)",
		 stack_batch_text(b, b->frames[frame].object));
	return list[frame];
}

static struct slow_step find(void)
{
	struct slow_step s;

	assert_true(slow_step_find(&m.w, m.slow, m.healthy, name_of, NULL, &s));
	return s;
}

static void names_the_innermost_span_that_took_the_time(void **unused)
{
	struct slow_step s;

	make();
	s = find();
	assert_true(s.known && s.spike);
	assert_int_equal(s.index, 100 + SLOW);
	assert_int_equal(s.begin_unix_ns, begin_of(SLOW) + 5);
	assert_string_equal(s.span, "Pad");
	assert_true(s.span_ns == 160e6 && s.span_usual_ns == 0);
	for (uint32_t i = 0; i < m.w.host_count; i++)
		if (m.host[i].name == 4)
			m.host[i].thread = OTHER;
	s = find();
	assert_string_equal(s.span, "Preprocess");
	assert_true(s.span_ns == 164e6 && s.span_usual_ns == 4e6);
	unmake();
}

/* vLLM: ModelRunner::Sample is _sample, and Sampler.forward in it. */
static void counts_a_span_within_one_of_its_name_once(void **unused)
{
	struct slow_step s;

	(void)unused;
	make();
	for (uint32_t i = 0; i < m.w.host_count; i++)
		if (m.host[i].kind == RECORD_SPAN && m.host[i].name == 4)
			m.host[i].name = 2;
	s = find();
	assert_string_equal(s.span, "Preprocess");
	assert_true(s.span_ns == 164e6 && s.span_usual_ns == 4e6);
	unmake();
}

/* pad calls a helper now and then; line 41 is where it is longest. */
static void names_the_function_with_its_line(void **unused)
{
	static const char *const pad[] = {"pad", "step", "main"}, *const helper[] = {"to_int",
										     "pad", "step",
										     "main"};
	static const uint32_t first[] = {40, 12, 3}, second[] = {41, 12, 3},
			      third[] = {9, 41, 12, 3};
	uint32_t stack[3];
	struct slow_step s;

	make();
	stack[0] = stack_of(pad, first, 3);
	stack[1] = stack_of(pad, second, 3);
	stack[2] = stack_of(helper, third, 4);
	for (uint32_t i = 0; i < 15; i++)
		sample(THREAD, stack[i % 3], begin_of(SLOW) + 5 * MS + i * 10 * MS,
		       STACK_GIL_HOLDER);
	for (uint32_t i = 0; i < 30; i++) /* elsewhere, and another thread's */
		sample(i % 2 ? OTHER : THREAD, stack[2], begin_of(i % 2 ? SLOW : 1),
		       STACK_GIL_NONE);
	s = find();
	assert_string_equal(s.function, "pad (serve.py:41)");
	assert_string_equal(s.function_name, "pad (serve.py)");
	assert_int_equal(s.samples, 15);
	assert_true(s.function_ns == 150e6 && s.blocked_ns == 0 && s.known_ns == 150e6);
	unmake();
}

/* The name of a Python function could not be read: its caller is named. */
static void a_function_without_a_name_is_not_named(void **unused)
{
	static const char *const pad[] = {STACK_NO_NAME, "pad", "step"};
	static const uint32_t lines[] = {0, 41, 12};
	struct slow_step s;
	uint32_t stack;

	make();
	stack = stack_of(pad, lines, 3);
	for (uint32_t i = 0; i < 15; i++)
		sample(THREAD, stack, begin_of(SLOW) + 5 * MS + i * 10 * MS, STACK_GIL_NONE);
	s = find();
	assert_string_equal(s.function, "pad (serve.py:41)");
	unmake();
}

/* Of a program in C: its own function sleeps, not nanosleep of the C library. */
static void the_programs_function_comes_before_the_c_runtimes(void **unused)
{
	static const char *const path[] = {"/lib/libc.so.6", "/srv/train"};
	struct stack_frame f[2] = {{0}};
	struct stack_switch blocked = {.out_ns = begin_of(SLOW) + 2 * MS,
				       .in_ns = begin_of(SLOW) + 160 * MS,
				       .tid = THREAD,
				       .count = 1};
	struct slow_step s;

	make();
	for (uint32_t i = 0; i < 2; i++) {
		f[i].kind = STACK_FRAME_NATIVE;
		f[i].address = 0x1000 + i;
		assert_int_equal(stack_batch_object(&m.w.stacks, NULL, 0, path[i], &f[i].object),
				 0);
	}
	assert_int_equal(stack_batch_stack(&m.w.stacks, f, 2, 0, STACK_END_ROOT, &blocked.stack),
			 0);
	assert_int_equal(stack_batch_switch(&m.w.stacks, &blocked), 0);
	s = find();
	assert_string_equal(s.function, path[1]);
	unmake();
}

static void counts_what_it_waited_in(void **unused)
{
	static const char *const wait[] = {"recv", "step"};
	static const uint32_t lines[] = {88, 12};
	struct stack_switch blocked = {.out_ns = begin_of(SLOW) + 2 * MS,
				       .in_ns = begin_of(SLOW) + 400 * MS,
				       .tid = THREAD,
				       .count = 1};
	struct slow_step s;

	make();
	blocked.stack = stack_of(wait, lines, 2);
	assert_int_equal(stack_batch_switch(&m.w.stacks, &blocked), 0);
	s = find();
	assert_string_equal(s.function, "recv (serve.py:88)");
	assert_true(s.blocked_ns == 159e6 && s.function_ns == s.blocked_ns);
	assert_int_equal(s.samples, 0);
	unmake();
}

/* The hypervisor took half of pad's ticks, and then the thread waits for a slow GPU, longer than
 * the known time of pad. The span is pad's. */
static void looks_for_the_function_in_the_span_only(void **unused)
{
	static const char *const pad[] = {"pad", "step"}, *const wait[] = {"synchronize", "step"};
	static const uint32_t pad_line[] = {41, 12}, wait_line[] = {60, 14};
	struct stack_switch blocked = {.out_ns = begin_of(SLOW) + 100 * MS,
				       .in_ns = begin_of(SLOW + 1),
				       .tid = THREAD,
				       .count = 1};
	struct slow_step s;
	uint32_t stack;

	make();
	for (uint32_t i = 0; i < m.w.host_count; i++)
		if (m.host[i].kind == RECORD_SPAN && m.host[i].name == 4)
			m.host[i].end_ns = begin_of(SLOW) + 105 * MS;
	stack = stack_of(pad, pad_line, 2);
	for (uint32_t i = 0; i < 5; i++)
		sample(THREAD, stack, begin_of(SLOW) + 5 * MS + i * 20 * MS, STACK_GIL_NONE);
	blocked.stack = stack_of(wait, wait_line, 2);
	assert_int_equal(stack_batch_switch(&m.w.stacks, &blocked), 0);
	s = find();
	assert_string_equal(s.span, "Pad");
	assert_string_equal(s.function, "pad (serve.py:41)");
	assert_true(s.function_ns == 50e6 && s.known_ns == 55e6);
	assert_int_equal(s.samples, 5);
	unmake();
}

static void tells_who_held_the_gil_while_the_gpu_waited(void **unused)
{
	static const char *const spin[] = {"spin", "run"};
	static const uint32_t lines[] = {17, 5};
	struct stack_switch blocked = {.out_ns = begin_of(SLOW) + 4 * MS,
				       .in_ns = begin_of(SLOW) + 104 * MS,
				       .tid = THREAD,
				       .count = 1,
				       .gil = STACK_GIL_WAITER,
				       .stack = STACK_SWITCH_NO_STACK};
	struct slow_step s;

	make();
	sample(OTHER, stack_of(spin, lines, 2), begin_of(SLOW) + 50 * MS, STACK_GIL_HOLDER);
	assert_int_equal(stack_batch_switch(&m.w.stacks, &blocked), 0);
	s = find();
	assert_int_equal(s.bound, SLOW_STEP_CPU);
	assert_int_equal(s.bubble_count, 1);
	assert_int_equal(s.bubble[0].offset_ns, 3 * MS);
	assert_int_equal(s.bubble[0].ns, 165 * MS);
	assert_true(s.bubble[0].gil_wait_ns == 100e6);
	assert_string_equal(s.bubble[0].holder, "spin (serve.py:17) in thread loader");
	m.steps[SLOW].step.flags = 0;
	assert_int_equal(find().bound, SLOW_STEP_GPU);
	m.steps[SLOW].step.kernels = 0;
	assert_int_equal(find().bound, SLOW_STEP_UNKNOWN);
	unmake();
}

static void names_kernels_that_took_longer_than_usual(void **unused)
{
	struct slow_step s;

	make();
	assert_int_equal(find().kernel_count, 0);
	for (uint32_t i = 0; i < m.w.device_count; i++)
		m.device[i].name = 2 + i % 2;
	m.device[2 * SLOW].end_ns = m.device[2 * SLOW].begin_ns + 100 * MS;
	s = find();
	assert_int_equal(s.kernel_count, 1);
	assert_string_equal(s.kernel[0].name, "Preprocess");
	assert_true(s.kernel[0].ns == 100e6 && s.kernel[0].usual_ns == 3e6);
	assert_int_equal(s.kernel[0].count, 1);
	unmake();
}

static void without_a_slow_step_there_is_nothing_to_tell(void **unused)
{
	make();
	m.slow[SLOW] = false;
	assert_false(find().known);
	m.slow[0] = true; /* it lost no time */
	assert_false(find().known);
	m.w.step_count = 0;
	assert_false(find().known);
	unmake();
}

/* An engine's window of the time in which a request was late has no steps, and 50 ms more on both sides. */
static void names_what_a_process_without_steps_did(void **unused)
{
	static const char *const sort[] = {"sort", "schedule"};
	static const uint32_t lines[] = {87, 30};
	struct slow_step s;
	uint32_t stack;

	make();
	m.w.step_count = 0;
	m.w.reason = WINDOW_ASKED;
	m.w.begin_ns = begin_of(SLOW) - 50 * MS;
	m.w.end_ns = begin_of(SLOW + 1) + 50 * MS;
	stack = stack_of(sort, lines, 2);
	for (uint32_t i = 0; i < 15; i++)
		sample(THREAD, stack, begin_of(SLOW) + 5 * MS + i * 10 * MS, STACK_GIL_NONE);
	s = find();
	assert_true(s.known && !s.spike && s.bound == SLOW_STEP_UNKNOWN);
	assert_int_equal(s.begin_unix_ns, begin_of(SLOW) + 5);
	assert_true(s.latency_ns == 170e6 && s.span_ns == 160e6);
	assert_string_equal(s.span, "Pad");
	assert_string_equal(s.function, "sort (serve.py:87)");
	assert_int_equal(s.samples, 15);
	assert_int_equal(s.bubble_count + s.kernel_count, 0);
	/* another thread waits for the engine, for longer */
	m.host[m.w.host_count++] = (struct record){.kind = RECORD_SPAN,
						   .flags = RECORD_FLAG_PYTHON,
						   .thread = OTHER,
						   .name = 3,
						   .func = SPAN_PROCESS_API,
						   .seq = 9,
						   .begin_ns = begin_of(SLOW) - 20 * MS,
						   .end_ns = begin_of(SLOW + 1) + 20 * MS};
	assert_string_equal(find().span, "Pad");
	m.w.host_count--;
	m.w.reason = WINDOW_STALL;
	assert_false(find().known);
	m.w.reason = WINDOW_ASKED;
	m.w.end_ns = m.w.begin_ns + 100 * MS; /* nothing but margins */
	assert_false(find().known);
	m.w.end_ns = begin_of(SLOW + 1) + 50 * MS;
	m.w.host_count = 0; /* no span: no thread is known */
	assert_false(find().known);
	unmake();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(names_the_innermost_span_that_took_the_time),
	    cmocka_unit_test(counts_a_span_within_one_of_its_name_once),
	    cmocka_unit_test(names_the_function_with_its_line),
	    cmocka_unit_test(a_function_without_a_name_is_not_named),
	    cmocka_unit_test(the_programs_function_comes_before_the_c_runtimes),
	    cmocka_unit_test(counts_what_it_waited_in),
	    cmocka_unit_test(looks_for_the_function_in_the_span_only),
	    cmocka_unit_test(tells_who_held_the_gil_while_the_gpu_waited),
	    cmocka_unit_test(names_kernels_that_took_longer_than_usual),
	    cmocka_unit_test(without_a_slow_step_there_is_nothing_to_tell),
	    cmocka_unit_test(names_what_a_process_without_steps_did),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
