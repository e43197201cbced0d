/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/limits.h"
#include "wire/codec.h"
#include "wire/pack.h"
#include "wire/stacks.h"

/* Of the counted ones some have nothing, some everything, and the rest a few. */
static void add_taken(struct stack_switch *w, uint32_t k)
{
	bool counted = w->flags & STACK_SWITCH_COUNTED;

	for (uint32_t i = 0; i < STACK_TAKEN_KINDS; i++)
		w->taken_ns[i] = !counted || (k >> i & 1) ? 0 : k % 5 ? k * 100 + i : UINT32_MAX;
	w->faults = counted && k % 3 ? k : 0;
}

static void add_sums(struct stack_switch *w, uint32_t k)
{
	bool folded = w->flags & STACK_SWITCH_FOLDED;

	w->count = folded ? k : 0;
	for (uint32_t i = 0; i < STACK_SWITCH_STATES; i++)
		w->ns[i] = folded ? k * 100 + i : 0;
}

/* A few threads that share their outer frames, of all kinds. */
static void fill(struct stack_batch *b, uint32_t samples, unsigned seed)
{
	static const uint8_t id[20] = {0xab, 0xcd, 3};
	uint32_t objects[3], strings[40], stack;
	struct stack_switch w = {.out_ns = 2000, .pid = 100};
	struct stack_switch_thread t;
	char text[32];

	b->begin_ns = 1000;
	b->end_ns = 5000001000;
	b->lost_samples = 3;
	for (int i = 0; i < 3; i++) {
		snprintf(text, sizeof(text), "/usr/lib/lib%d.so", i);
		assert_int_equal(
		    stack_batch_object(b, id, i ? 20 - (size_t)i : 0, text, &objects[i]), 0);
	}
	for (int i = 0; i < 40; i++) {
		snprintf(text, sizeof(text), "function_%d", i);
		assert_int_equal(stack_batch_string(b, text, strlen(text), &strings[i]), 0);
	}
	for (uint32_t k = 0; k < samples; k++) {
		struct stack_frame f[60];
		uint32_t n = 0, kernel = (uint32_t)rand_r(&seed) % 4;
		uint32_t depth = 30 + (uint32_t)rand_r(&seed) % 20;
		struct stack_sample s = {.time_ns = 1000 + k * 10000ull,
					 .weight_ns = 10101010,
					 .pid = 100,
					 .tid = 100 + k % 3,
					 .count = 1,
					 .kind = k % 7 ? STACK_ON_CPU : STACK_OFF_CPU,
					 .gil = (uint8_t)(k % 5),
					 .cpu = (uint16_t)(k % 2),
					 .comm = strings[k % 3]};

		if (!(k % 7)) {
			s.waker_tid = 55;
			s.waker_comm = strings[9];
		}
		memset(f, 0, sizeof(f));
		for (; n < kernel; n++)
			f[n] = (struct stack_frame){
			    .kind = STACK_FRAME_KERNEL, .object = strings[n], .address = n};
		for (; n < kernel + depth; n++) {
			uint32_t at = depth + kernel - n; /* outer frames are the same for all */

			f[n] = (struct stack_frame){.kind = STACK_FRAME_NATIVE,
						    .object = objects[at % 3],
						    .flags = STACK_FRAME_RETURN,
						    .address = 0x400000 + at * 100};
			if (at > 28)
				f[n].address += k % 50;
			if (at % 5 == 0)
				f[n] = (struct stack_frame){.kind = STACK_FRAME_PYTHON,
							    .object = strings[at % 40],
							    .file = strings[1],
							    .line = at};
		}
		assert_int_equal(stack_batch_stack(b, f, n, kernel, STACK_END_ROOT, &stack), 0);
		s.stack = stack;
		assert_int_equal(stack_batch_sample(b, &s), 0);
		w.out_ns += 1000 + k % 7;
		w.in_ns = w.out_ns + k * 10;
		w.woken_ns = k % 3 ? w.in_ns - k : 0;
		w.tid = 100 + k % 2;
		w.stack = k % 4 ? stack : STACK_SWITCH_NO_STACK;
		w.waker_tid = k % 5;
		w.next_tid = k % 6;
		w.state = k % STACK_SWITCH_STATES;
		w.flags = k % 32;
		add_sums(&w, k);
		add_taken(&w, k);
		assert_int_equal(stack_batch_switch(b, &w), 0);
		t = (struct stack_switch_thread){.begin_ns = 900 + k,
						 .end_ns = 5000 + 2 * k,
						 .missed = k % 3,
						 .pid = 100,
						 .tid = k};
		if (k % 10 == 0)
			assert_int_equal(stack_batch_switch_thread(b, &t), 0);
	}
}

static void assert_equal_batches(const struct stack_batch *a, const struct stack_batch *b)
{
	assert_int_equal(a->begin_ns, b->begin_ns);
	assert_int_equal(a->end_ns, b->end_ns);
	assert_int_equal(a->lost_samples, b->lost_samples);
	assert_int_equal(a->string_bytes, b->string_bytes);
	assert_memory_equal(a->strings, b->strings, a->string_bytes);
	assert_int_equal(a->object_count, b->object_count);
	assert_memory_equal(a->objects, b->objects, a->object_count * sizeof(*a->objects));
	assert_int_equal(a->frame_count, b->frame_count);
	assert_memory_equal(a->frames, b->frames, a->frame_count * sizeof(*a->frames));
	assert_int_equal(a->stack_count, b->stack_count);
	assert_memory_equal(a->stacks, b->stacks, a->stack_count * sizeof(*a->stacks));
	assert_int_equal(a->sample_count, b->sample_count);
	for (uint32_t i = 0; i < a->sample_count; i++)
		assert_memory_equal(&a->samples[i], &b->samples[i],
				    offsetof(struct stack_sample, waker_comm));
	assert_int_equal(a->switch_count, b->switch_count);
	assert_memory_equal(a->switches, b->switches, a->switch_count * sizeof(*a->switches));
	assert_int_equal(a->switch_thread_count, b->switch_thread_count);
	assert_memory_equal(a->switch_threads, b->switch_threads,
			    a->switch_thread_count * sizeof(*a->switch_threads));
}

static int unpack_plain(const struct buf *plain)
{
	struct pack_part part = {plain->data, plain->bytes};
	struct stack_batch b;
	struct buf packed;
	int err;

	buf_init(&packed, LIMIT_WIRE_MESSAGE_BYTES);
	stack_batch_init(&b, keyed_process());
	assert_int_equal(pack_write(&part, 1, PACK_CLOSE, &packed), 0);
	err = stacks_unpack(packed.data, packed.bytes, &b);
	stack_batch_fini(&b);
	buf_fini(&packed);
	return err;
}

/* The block ends with a switch that has page faults alone: its word with the bit, nobody woke it or ran
 * next, the set of bits, the count. */
static void refuses_kinds_and_numbers_that_do_not_exist(void **state)
{
	static const uint8_t counted[] = {0x80, 0x80, 1, 0, 0, 0x80, 8, 77};
	struct stack_switch s = {.out_ns = 10,
				 .in_ns = 20,
				 .flags = STACK_SWITCH_COUNTED,
				 .faults = 77,
				 .stack = STACK_SWITCH_NO_STACK};
	struct buf out, plain;
	struct stack_batch b;
	uint8_t *raw, *end;
	size_t bytes;

	stack_batch_init(&b, keyed_process());
	buf_init(&out, LIMIT_WIRE_MESSAGE_BYTES);
	buf_init(&plain, LIMIT_WIRE_MESSAGE_BYTES);
	assert_int_equal(stack_batch_switch(&b, &s), 0);
	assert_int_equal(stacks_pack(&b, &out), 0);
	assert_int_equal(pack_read(out.data, out.bytes, LIMIT_WIRE_UNPACKED_BYTES, &raw, &bytes),
			 0);
	buf_append(&plain, raw, bytes);
	buf_append(&plain, "\xff\xff\xff\x7f", 4); /* there is room for them */
	plain.bytes -= 4;
	free(raw);
	end = plain.data + bytes - sizeof(counted);
	assert_memory_equal(end, counted, sizeof(counted));
	assert_int_equal(unpack_plain(&plain), 0);
	end[6] = 16; /* a kind past the page faults */
	assert_int_equal(unpack_plain(&plain), -EPROTO);
	end[6] = 8;
	end[1] = 0xd0; /* a state of the GIL that is not one */
	assert_int_equal(unpack_plain(&plain), -EPROTO);
	end[1] = 0x80;
	plain.bytes--; /* the count is missing */
	assert_int_equal(unpack_plain(&plain), -EPROTO);
	end[7] = 0xff; /* it has more than 32 bits */
	plain.bytes += 5;
	assert_int_equal(unpack_plain(&plain), -EPROTO);
	buf_fini(&plain);
	buf_fini(&out);
	stack_batch_fini(&b);
}

static void a_batch_comes_back_as_it_was(void **state)
{
	struct stack_batch a, b;
	struct buf out;

	for (uint32_t samples = 0; samples < 2000; samples = samples * 3 + 1) {
		stack_batch_init(&a, keyed_process());
		stack_batch_init(&b, keyed_process());
		buf_init(&out, LIMIT_WIRE_MESSAGE_BYTES);
		fill(&a, samples, 7);
		assert_int_equal(stacks_pack(&a, &out), 0);
		assert_int_equal(stacks_unpack(out.data, out.bytes, &b), 0);
		assert_equal_batches(&a, &b);
		assert_true(stack_batch_valid(&b));
		stack_batch_fini(&a);
		stack_batch_fini(&b);
		buf_fini(&out);
	}
}

static void shared_callers_are_stored_once(void **state)
{
	struct stack_batch a;
	struct buf out;

	stack_batch_init(&a, keyed_process());
	buf_init(&out, LIMIT_WIRE_MESSAGE_BYTES);
	fill(&a, 1093, 7);
	assert_int_equal(stacks_pack(&a, &out), 0);
	/* about 40 frames a sample as 32-byte rows */
	assert_true(out.bytes * 20 < a.frame_count * sizeof(*a.frames));
	stack_batch_fini(&a);
	buf_fini(&out);
}

static void damaged_blocks_are_refused_or_valid(void **state)
{
	struct stack_batch a, b;
	struct buf out;
	unsigned seed = 11;

	stack_batch_init(&a, keyed_process());
	buf_init(&out, LIMIT_WIRE_MESSAGE_BYTES);
	fill(&a, 40, 7);
	assert_int_equal(stacks_pack(&a, &out), 0);
	for (size_t cut = 0; cut < out.bytes; cut++) {
		stack_batch_init(&b, keyed_process());
		assert_true(stacks_unpack(out.data, cut, &b) < 0);
		stack_batch_fini(&b);
	}
	for (int i = 0; i < 20000; i++) {
		size_t at = (size_t)rand_r(&seed) % out.bytes;
		uint8_t was = out.data[at];

		out.data[at] = (uint8_t)rand_r(&seed);
		stack_batch_init(&b, keyed_process());
		if (!stacks_unpack(out.data, out.bytes, &b))
			assert_true(stack_batch_valid(&b));
		stack_batch_fini(&b);
		out.data[at] = was;
	}
	stack_batch_fini(&a);
	buf_fini(&out);
}

static void a_window_carries_its_stacks_unless_only_the_rest_is_decoded(void **state)
{
	struct window w = {.reason = WINDOW_SELF, .begin_ns = 1, .end_ns = 2}, out;
	struct buf b;

	buf_init(&b, LIMIT_WIRE_MESSAGE_BYTES);
	stack_batch_init(&w.stacks, keyed_process());
	fill(&w.stacks, 100, 3);
	assert_int_equal(wire_window_encode(&w, &b), 0);
	assert_int_equal(wire_window_decode(b.data, b.bytes, &out), 0);
	assert_equal_batches(&w.stacks, &out.stacks);
	wire_window_free(&out);
	assert_int_equal(wire_window_decode_admitted(b.data, b.bytes, false, &out), 0);
	assert_int_equal(out.stacks.sample_count, 0);
	wire_window_free(&out);
	stack_batch_fini(&w.stacks);
	buf_fini(&b);
}

/* 40 kB of zeros and ones, packed to some 100 bytes, that say the same deep stack again and again. */
static void a_stack_that_was_there_before_is_work_too(void **unused)
{
	uint32_t depth = 1000, stacks = 20000;
	const uint64_t head[] = {0, 1, 0, 1, 0, 1, depth, stacks, 0};
	struct stack_batch b;
	struct pack_part part;
	struct buf plain, out;

	(void)unused;
	buf_init(&plain, LIMIT_WIRE_UNPACKED_BYTES);
	buf_init(&out, LIMIT_WIRE_MESSAGE_BYTES);
	for (size_t i = 0; i < ARRAY_LEN(head); i++)
		buf_varint(&plain, head[i]);
	buf_varint(&plain, 0); /* string 0 */
	buf_varint(&plain, STACK_FRAME_ANONYMOUS);
	buf_varint(&plain, 0);
	buf_varint(&plain, 2); /* its address */
	for (uint32_t i = 0; i < depth; i++) {
		buf_varint(&plain, 1); /* called by the one before; the first one by none */
		buf_varint(&plain, 0);
	}
	for (uint32_t i = 0; i < stacks; i++) {
		buf_varint(&plain, depth);
		buf_varint(&plain, 0);
	}
	part = (struct pack_part){plain.data, plain.bytes};
	assert_int_equal(pack_write(&part, 1, PACK_CLOSE, &out), 0);
	assert_true(out.bytes < 1000);
	stack_batch_init(&b, keyed_process());
	assert_int_equal(stacks_unpack(out.data, out.bytes, &b), -EMSGSIZE);
	stack_batch_fini(&b);
	buf_fini(&plain);
	buf_fini(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_stack_that_was_there_before_is_work_too),
	    cmocka_unit_test(a_window_carries_its_stacks_unless_only_the_rest_is_decoded),
	    cmocka_unit_test(a_batch_comes_back_as_it_was),
	    cmocka_unit_test(refuses_kinds_and_numbers_that_do_not_exist),
	    cmocka_unit_test(shared_callers_are_stored_once),
	    cmocka_unit_test(damaged_blocks_are_refused_or_valid),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
