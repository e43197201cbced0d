/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/hash.h"
#include "model/stack.h"

static const uint8_t id_a[20] = {1, 2, 3}, id_b[20] = {9, 8, 7};

static void equal_content_gives_equal_indices(void **state)
{
	struct stack_batch b;
	uint32_t i, j;

	stack_batch_init(&b, keyed_process());
	assert_int_equal(stack_batch_string(&b, "train", 5, &i), 0);
	assert_int_equal(i, 1); /* 0 is "" */
	assert_int_equal(stack_batch_string(&b, "trainer", 7, &j), 0);
	assert_int_not_equal(i, j);
	assert_int_equal(stack_batch_string(&b, "trainer", 5, &j), 0);
	assert_int_equal(i, j);
	assert_int_equal(stack_batch_string(&b, "a\0b", 3, &i), 0);
	assert_string_equal(stack_batch_text(&b, i), "a");
	assert_string_equal(stack_batch_text(&b, 99), "");
	assert_int_equal(stack_batch_object(&b, id_a, 20, "/lib/libc.so.6", &i), 0);
	assert_int_equal(stack_batch_object(&b, id_b, 20, "/lib/libc.so.6", &j), 0);
	assert_int_not_equal(i, j);
	assert_int_equal(stack_batch_object(&b, id_a, 20, "/lib/libc.so.6", &j), 0);
	assert_int_equal(i, j);
	assert_true(stack_batch_valid(&b));
	stack_batch_fini(&b);
}

/* A stack of `depth` native frames of one object, distinguished by `seed`. */
static uint32_t push_stack(struct stack_batch *b, uint32_t seed, uint32_t depth)
{
	struct stack_frame f[64];
	uint32_t object, stack;

	assert_int_equal(stack_batch_object(b, id_a, 20, "/bin/job", &object), 0);
	memset(f, 0, sizeof(f));
	for (uint32_t i = 0; i < depth; i++) {
		f[i].kind = STACK_FRAME_NATIVE;
		f[i].object = object;
		f[i].address = 0x1000 + seed * 64 + i;
	}
	assert_int_equal(stack_batch_stack(b, f, depth, 0, STACK_END_ROOT, &stack), 0);
	return stack;
}

static void push_sample(struct stack_batch *b, uint32_t pid, uint64_t time_ns, uint32_t stack)
{
	struct stack_sample s = {.time_ns = time_ns,
				 .weight_ns = 10,
				 .pid = pid,
				 .tid = pid,
				 .stack = stack,
				 .count = 1,
				 .kind = STACK_ON_CPU};

	assert_int_equal(stack_batch_sample(b, &s), 0);
}

static void equal_samples_add_up_and_thousands_stay_apart(void **state)
{
	struct stack_batch b;

	stack_batch_init(&b, keyed_process());
	for (uint32_t round = 0; round < 3; round++) {
		for (uint32_t i = 0; i < 5000; i++)
			push_sample(&b, 7, 1000, push_stack(&b, i, 1 + i % 30));
	}
	assert_int_equal(b.stack_count, 5000);
	assert_int_equal(b.sample_count, 5000);
	for (uint32_t i = 0; i < 5000; i++) {
		assert_int_equal(b.samples[i].count, 3);
		assert_int_equal(b.samples[i].weight_ns, 30);
		assert_int_equal(b.stacks[b.samples[i].stack].count, 1 + i % 30);
	}
	assert_true(stack_batch_valid(&b));
	stack_batch_clear(&b);
	assert_int_equal(b.stack_count, 0);
	push_sample(&b, 1, 1, push_stack(&b, 1, 1));
	assert_int_equal(b.sample_count, 1);
	stack_batch_fini(&b);
}

static void merge_takes_the_named_processes_and_the_time_asked_for(void **state)
{
	struct stack_frame f = {.kind = STACK_FRAME_PYTHON, .line = 12};
	struct stack_batch from, into;
	uint32_t pids[] = {7}, unused, python;

	stack_batch_init(&from, keyed_process());
	stack_batch_init(&into, keyed_process());
	assert_int_equal(stack_batch_string(&into, "shifts every index", 18, &unused), 0);
	assert_int_equal(stack_batch_string(&from, "step", 4, &f.object), 0);
	assert_int_equal(stack_batch_string(&from, "train.py", 8, &f.file), 0);
	assert_int_equal(stack_batch_stack(&from, &f, 1, 0, STACK_END_ROOT, &python), 0);
	push_sample(&from, 7, 100, python);
	push_sample(&from, 7, 100, push_stack(&from, 1, 3));
	push_sample(&from, 8, 100, push_stack(&from, 2, 3));
	push_sample(&from, 7, 900, push_stack(&from, 3, 3));
	assert_int_equal(stack_batch_merge(&into, &from, pids, 1, 100, 900), 0);
	assert_int_equal(into.sample_count, 2);
	assert_int_equal(into.stack_count, 2);
	assert_string_equal(stack_batch_text(&into, into.frames[0].object), "step");
	assert_string_equal(stack_batch_text(&into, into.frames[0].file), "train.py");
	assert_int_equal(into.frames[0].line, 12);
	assert_true(stack_batch_valid(&into));
	assert_int_equal(stack_batch_merge(&into, &from, NULL, 0, 0, UINT64_MAX), 0);
	assert_int_equal(into.sample_count, 4); /* two known ones counted again */
	assert_int_equal(into.samples[0].count, 2);
	stack_batch_fini(&from);
	stack_batch_fini(&into);
}

static void a_batch_with_an_index_out_of_range_is_invalid(void **state)
{
	struct stack_batch b;

	stack_batch_init(&b, keyed_process());
	push_sample(&b, 7, 100, push_stack(&b, 1, 3));
	assert_true(stack_batch_valid(&b));
	b.frames[1].object = 1;
	assert_false(stack_batch_valid(&b));
	b.frames[1].object = 0;
	b.stacks[0].first = UINT32_MAX;
	assert_false(stack_batch_valid(&b));
	b.stacks[0].first = 0;
	b.samples[0].stack = 1;
	assert_false(stack_batch_valid(&b));
	b.samples[0].stack = 0;
	b.samples[0].kind = 0;
	assert_false(stack_batch_valid(&b));
	stack_batch_fini(&b);
}

/* What a sampler that could not unwind sends: no frame anywhere, so no array of them. */
static void frameless_stacks_are_found_again(void **state)
{
	struct stack_batch b;
	uint32_t first, again, other;

	stack_batch_init(&b, keyed_process());
	assert_int_equal(stack_batch_stack(&b, NULL, 0, 0, STACK_END_ROOT, &first), 0);
	assert_int_equal(stack_batch_stack(&b, NULL, 0, 0, STACK_END_ROOT, &again), 0);
	for (uint32_t i = 1; i <= 3000; i++)
		assert_int_equal(stack_batch_stack(&b, NULL, 0, i, STACK_END_ROOT, &other), 0);
	assert_int_equal(again, first);
	assert_int_equal(b.stack_count, 3001);
	stack_batch_fini(&b);
}

/* The plain hash with its fixed start (base/hash.h), as the tables once had it. */
static uint64_t plain_hash(const struct stack_frame *f, uint32_t count)
{
	uint64_t h = HASH_SEED;

	for (uint32_t i = 0; i < count; i++) {
		h = hash_mix(h ^ f[i].address);
		h += (uint64_t)f[i].object << 32 | f[i].kind << 8 | f[i].flags;
	}
	return hash_mix(h);
}

static double seconds_of(bool prepared)
{
	struct stack_frame f[2] = {{.kind = STACK_FRAME_ANONYMOUS},
				   {.kind = STACK_FRAME_ANONYMOUS}};
	clock_t begun = clock();
	struct stack_batch b;
	uint64_t want = 0;
	uint32_t stack;

	stack_batch_init(&b, keyed_process());
	for (uint32_t i = 0; i < 10000; i++) {
		f[0].address = i;
		f[1].address = 7 * i;
		if (prepared) { /* the second address takes back what the first one changed */
			f[1].address =
			    (hash_mix(HASH_SEED ^ i) + (STACK_FRAME_ANONYMOUS << 8)) ^ 4711;
			want = want ? want : plain_hash(f, 2);
			assert_true(plain_hash(f, 2) == want);
		}
		assert_int_equal(stack_batch_stack(&b, f, 2, 0, STACK_END_ROOT, &stack), 0);
		assert_int_equal(stack, i);
	}
	stack_batch_fini(&b);
	return (double)(clock() - begun) / CLOCKS_PER_SEC;
}

/* In one chain they would take several hundred times as long. */
static void stacks_prepared_against_a_known_hash_share_no_chain(void **state)
{
	double plain = seconds_of(false), prepared = seconds_of(true);

	(void)state;
	print_message("# 10000 stacks: %.4f s, prepared ones %.4f s\n", plain, prepared);
	assert_true(prepared < 50 * plain + 0.01);
}

static void short_times_off_the_cpu_pass_on_what_was_taken(void **state)
{
	static const struct stack_switch made[] = {
	    {.tid = 1,
	     .out_ns = 10,
	     .in_ns = 20,
	     .faults = 3,
	     .taken_ns = {7, [STACK_TAKEN_THROTTLED] = 9}},
	    {.tid = 1, .out_ns = 30, .in_ns = 35, .faults = UINT32_MAX - 1, .taken_ns = {1}},
	    {.tid = 1,
	     .out_ns = 100,
	     .in_ns = 900,
	     .faults = 2,
	     .taken_ns = {[STACK_TAKEN_THROTTLED] = 4}},
	    {.tid = 1, .out_ns = 950, .in_ns = 951, .taken_ns = {5}},
	    {.tid = 2, .out_ns = 40, .in_ns = 41, .flags = STACK_SWITCH_FOLDED, .faults = 1},
	    {.tid = 2, .out_ns = 50, .in_ns = 51, .faults = 8},
	    {.tid = 2, .out_ns = 60, .in_ns = 61, .faults = 16},
	    {.tid = 3, .out_ns = 60, .in_ns = 61},
	};
	struct stack_batch b;

	stack_batch_init(&b, keyed_process());
	for (size_t i = 0; i < sizeof(made) / sizeof(*made); i++)
		assert_int_equal(stack_batch_switch(&b, &made[i]), 0);
	stack_batch_switches_thin(&b, 100);
	assert_int_equal(b.switch_count, 4);
	assert_int_equal(b.switches[0].out_ns, 100);
	assert_int_equal(b.switches[0].taken_ns[0], 8);
	assert_int_equal(b.switches[0].taken_ns[STACK_TAKEN_THROTTLED], 4);
	assert_int_equal(b.switches[0].faults, UINT32_MAX);
	assert_int_equal(b.switches[1].out_ns, 950); /* its last */
	assert_int_equal(b.switches[2].faults, 1);
	assert_int_equal(b.switches[3].faults, 24);
	stack_batch_fini(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(equal_content_gives_equal_indices),
	    cmocka_unit_test(equal_samples_add_up_and_thousands_stay_apart),
	    cmocka_unit_test(merge_takes_the_named_processes_and_the_time_asked_for),
	    cmocka_unit_test(a_batch_with_an_index_out_of_range_is_invalid),
	    cmocka_unit_test(frameless_stacks_are_found_again),
	    cmocka_unit_test(stacks_prepared_against_a_known_hash_share_no_chain),
	    cmocka_unit_test(short_times_off_the_cpu_pass_on_what_was_taken),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
