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

#include "analysis/cause/diagnosis.h"
#include "base/limits.h"
#include "tests/wire_synth.h"
#include "wire/codec_internal.h"
#include "wire/pack.h"

#define FUNCTIONS 150
#define KERNELS	  60
#define SETTINGS  40

struct fixture {
	struct sketch s;
	struct sketch_function functions[LIMIT_SKETCH_FUNCTIONS + 1];
	struct sketch_kernel kernels[LIMIT_SKETCH_KERNELS + 1];
	struct sketch_setting settings[LIMIT_SKETCH_SETTINGS + 1];
	char text[LIMIT_SKETCH_FUNCTIONS + LIMIT_SKETCH_KERNELS + 2 * LIMIT_SKETCH_SETTINGS + 4]
		 [256];
};

static const char *const words[] = {
    "at::native::", "torch::autograd::", "vectorized_", "elementwise_", "kernel_impl", "engine_",
    "dispatch",	    "forward",		 "backward",	"cublasLt",	"gemm_",       "allocate"};

static char *make_text(struct fixture *f, uint32_t at, uint64_t *state)
{
	char *p = f->text[at];
	int n = 0;

	for (int i = 0; i < 4; i++)
		n += snprintf(p + n, 256 - (size_t)n, "%s", words[synth_random(state) % 12]);
	snprintf(p + n, 256 - (size_t)n, "%u", (unsigned)(synth_random(state) % 1000));
	return p;
}

static void make_sketch(struct fixture *f, uint32_t functions, uint32_t kernels, uint32_t settings,
			uint64_t *state)
{
	struct sketch *s = &f->s;
	uint32_t at = 0;

	memset(f, 0, sizeof(*f));
	strcpy(s->rank.job, "llama-pretrain");
	strcpy(s->rank.node, "gpu-node-0172");
	s->rank.rank = 5;
	s->rank.world_size = 8;
	s->begin_ns = 1000000000000;
	s->end_ns = 1060000000000;
	s->realtime_offset_ns = -12345;
	s->steps = 590;
	s->flagged = 2;
	s->latency_ns = 1.01e8;
	s->latency_mad_ns = 2.5e5;
	s->self_ns = 9e7;
	s->self_mad_ns = 2e5;
	s->compute_ns = 8e7;
	s->launches = 2600;
	s->cpu_ns = 1.2e8;
	s->samples = 5940;
	s->off_ns = 4e6;
	s->gil_wait_ns = 1e3;
	s->model_state = 1;
	s->model_r2 = 0.97;
	s->functions_cut = 7;
	s->functions = f->functions;
	s->kernels = f->kernels;
	s->settings = f->settings;
	s->function_count = functions;
	s->kernel_count = kernels;
	s->setting_count = settings;
	for (uint32_t i = 0; i < functions; i++)
		f->functions[i] = (struct sketch_function){
		    make_text(f, at++, state), i % 3, 0.5 / (i + 2), 1.0 / (i + 1), 1000.0 * i};
	for (uint32_t i = 0; i < kernels; i++)
		f->kernels[i] =
		    (struct sketch_kernel){make_text(f, at++, state), 0.125 * i, 1e6 * (i + 1)};
	for (uint32_t i = 0; i < settings; i++) {
		f->settings[i].name = make_text(f, at++, state);
		f->settings[i].value = make_text(f, at++, state);
	}
}

static void assert_same(const struct sketch *a, const struct sketch *b)
{
	assert_memory_equal(&a->rank, &b->rank, sizeof(a->rank));
	assert_memory_equal(&a->begin_ns, &b->begin_ns,
			    offsetof(struct sketch, functions) - offsetof(struct sketch, begin_ns));
	assert_int_equal(a->function_count, b->function_count);
	assert_int_equal(a->kernel_count, b->kernel_count);
	assert_int_equal(a->setting_count, b->setting_count);
	for (uint32_t i = 0; i < a->function_count; i++) {
		assert_string_equal(a->functions[i].name, b->functions[i].name);
		assert_int_equal(a->functions[i].kind, b->functions[i].kind);
		assert_true(fabs(a->functions[i].self_share - b->functions[i].self_share) < 1e-6);
		assert_true(fabs(a->functions[i].total_share - b->functions[i].total_share) < 1e-6);
		assert_true(a->functions[i].off_ns == b->functions[i].off_ns);
	}
	for (uint32_t i = 0; i < a->kernel_count; i++) {
		assert_string_equal(a->kernels[i].name, b->kernels[i].name);
		assert_true(fabs(a->kernels[i].per_step - b->kernels[i].per_step) < 1e-3);
		assert_true(a->kernels[i].ns_per_step == b->kernels[i].ns_per_step);
	}
	for (uint32_t i = 0; i < a->setting_count; i++) {
		assert_string_equal(a->settings[i].name, b->settings[i].name);
		assert_string_equal(a->settings[i].value, b->settings[i].value);
	}
}

static void round_trips_a_sketch(void **unused)
{
	static struct fixture f;
	uint64_t state = 1;
	struct sketch got;
	struct buf b;

	buf_init(&b, LIMIT_WIRE_MESSAGE_BYTES);
	for (uint32_t k = 0; k < 4; k++) {
		buf_clear(&b);
		make_sketch(&f, k & 1 ? FUNCTIONS : 0, k & 2 ? KERNELS : 0, k == 3 ? SETTINGS : 0,
			    &state);
		assert_int_equal(wire_sketch_encode(&f.s, &b), 0);
		assert_int_equal(codec_kind(b.data, b.bytes), WIRE_SKETCH);
		assert_int_equal(wire_sketch_decode(b.data, b.bytes, &got), 0);
		assert_same(&f.s, &got);
		wire_sketch_free(&got);
	}
	print_message("# %zu bytes: %d functions, %d kernels, %d settings\n", b.bytes, FUNCTIONS,
		      KERNELS, SETTINGS);
	assert_true(b.bytes <= LIMIT_SKETCH_BYTES_PER_RANK);
	buf_fini(&b);
}

static const struct kinds_row two_kinds[] = {
    {.part = KINDS_HOST,
     .period = 50,
     .period_ns = 15e9,
     .count = 20,
     .first_step = 49,
     .last_step = 999,
     .steps = 1,
     .cost_ns = 1.9e9,
     .share = 0.42,
     .grown = true},
    {.by_work = true,
     .period = 60,
     .count = 15,
     .first_step = 48,
     .last_step = 888,
     .steps = 12,
     .cost_ns = 3.24e8,
     .share = 0.075,
     .launches = 37.5,
     .collectives = 0.25},
};

static void round_trips_kinds_of_steps(void **unused)
{
	static struct fixture f;
	uint64_t state = 7;
	struct sketch got;
	struct buf b;

	buf_init(&b, LIMIT_WIRE_MESSAGE_BYTES);
	make_sketch(&f, 1, 1, 0, &state);
	memcpy(f.s.kinds, two_kinds, sizeof(two_kinds));
	f.s.kind_count = 2;
	assert_int_equal(wire_sketch_encode(&f.s, &b), 0);
	assert_int_equal(wire_sketch_decode(b.data, b.bytes, &got), 0);
	assert_same(&f.s, &got);
	assert_int_equal(got.kind_count, 2);
	for (int i = 0; i < 2; i++) {
		const struct kinds_row *x = &two_kinds[i], *y = &got.kinds[i];

		assert_true(x->by_work == y->by_work && x->part == y->part && x->grown == y->grown);
		assert_true(x->period == y->period && x->count == y->count);
		assert_true(x->period_ns == y->period_ns);
		assert_true(x->first_step == y->first_step && x->last_step == y->last_step);
		assert_float_equal(x->steps, y->steps, 1e-3);
		assert_float_equal(x->cost_ns, y->cost_ns, 1);
		assert_float_equal(x->share, y->share, 1e-6);
		assert_float_equal(x->launches, y->launches, 1e-3);
		assert_float_equal(x->collectives, y->collectives, 1e-3);
	}
	wire_sketch_free(&got);
	buf_clear(&b);
	f.s.kind_count = SKETCH_KINDS_MAX + 1;
	assert_int_equal(wire_sketch_encode(&f.s, &b), -EMSGSIZE);
	buf_fini(&b);
}

static void refuses_what_is_too_large_or_absurd(void **unused)
{
	static struct fixture f;
	uint64_t state = 2;
	struct buf b;

	buf_init(&b, LIMIT_WIRE_MESSAGE_BYTES);
	make_sketch(&f, LIMIT_SKETCH_FUNCTIONS, LIMIT_SKETCH_KERNELS, LIMIT_SKETCH_SETTINGS,
		    &state);
	assert_int_equal(wire_sketch_encode(&f.s, &b), -EMSGSIZE);
	f.s.function_count = LIMIT_SKETCH_FUNCTIONS + 1;
	assert_int_equal(wire_sketch_encode(&f.s, &b), -EMSGSIZE);
	make_sketch(&f, 2, 2, 2, &state);
	f.functions[1].total_share = 1.5;
	assert_int_equal(wire_sketch_encode(&f.s, &b), -EINVAL);
	f.functions[1].total_share = 0.5;
	f.functions[1].kind = 3;
	assert_int_equal(wire_sketch_encode(&f.s, &b), -EINVAL);
	assert_int_equal(b.bytes, 0);
	buf_fini(&b);
}

static void cleans_names_and_figures_that_are_none(void **unused)
{
	static struct fixture f;
	uint64_t state = 3;
	struct sketch got;
	struct buf b;

	make_sketch(&f, 1, 1, 1, &state);
	f.functions[0].name = strcpy(f.text[0], "na\xffme\xc3");
	f.functions[0].self_share = NAN;
	f.s.latency_ns = -3;
	f.s.self_ns = INFINITY;
	buf_init(&b, LIMIT_WIRE_MESSAGE_BYTES);
	assert_int_equal(wire_sketch_encode(&f.s, &b), 0);
	assert_int_equal(wire_sketch_decode(b.data, b.bytes, &got), 0);
	assert_string_equal(got.functions[0].name, "na?me?");
	assert_true(got.functions[0].self_share == 0);
	assert_true(got.latency_ns == 0 && got.self_ns == 0);
	wire_sketch_free(&got);
	buf_fini(&b);
}

/* ---- hostile ---- */

/* The message with its envelope changed by hand, and a body of its own. */
static int decode_bent(void (*bend)(Sysom__Wire__Sketch *s), const struct buf *body)
{
	static struct fixture f;
	Sysom__Wire__Envelope *e;
	uint64_t state = 4;
	struct pack_part part;
	struct sketch got;
	struct buf b, packed;
	uint8_t *own = NULL;
	int err;

	make_sketch(&f, 3, 2, 1, &state);
	buf_init(&b, LIMIT_WIRE_MESSAGE_BYTES);
	buf_init(&packed, LIMIT_WIRE_MESSAGE_BYTES);
	assert_int_equal(wire_sketch_encode(&f.s, &b), 0);
	e = sysom__wire__envelope__unpack(NULL, b.bytes, b.data);
	assert_non_null(e);
	if (body) {
		part = (struct pack_part){body->data, body->bytes};
		assert_int_equal(pack_write(&part, 1, PACK_CLOSE, &packed), 0);
		own = e->sketch->body.data;
		e->sketch->body = (ProtobufCBinaryData){packed.bytes, packed.data};
	}
	if (bend)
		bend(e->sketch);
	buf_clear(&b);
	assert_int_equal(codec_emit(e, WIRE_SKETCH, LIMIT_WIRE_MESSAGE_BYTES, &b), 0);
	err = wire_sketch_decode(b.data, b.bytes, &got);
	if (!err)
		wire_sketch_free(&got);
	if (own)
		e->sketch->body = (ProtobufCBinaryData){1, own};
	sysom__wire__envelope__free_unpacked(e, NULL);
	buf_fini(&packed);
	buf_fini(&b);
	return err;
}

static void bend_more_functions(Sysom__Wire__Sketch *s)
{
	s->function_count++;
}
static void bend_fewer_settings(Sysom__Wire__Sketch *s)
{
	s->setting_count--;
}
static void bend_many_functions(Sysom__Wire__Sketch *s)
{
	s->function_count = LIMIT_SKETCH_FUNCTIONS;
}
static void bend_too_many_kernels(Sysom__Wire__Sketch *s)
{
	s->kernel_count = UINT32_MAX;
}
static void bend_no_counts(Sysom__Wire__Sketch *s)
{
	s->function_count = s->kernel_count = s->setting_count = 0;
}
static void bend_nan(Sysom__Wire__Sketch *s)
{
	s->cpu_ns = NAN;
}
static void bend_negative(Sysom__Wire__Sketch *s)
{
	s->idle_ns = -1;
}

static void rejects_counts_and_figures_that_cannot_be(void **unused)
{
	assert_int_equal(decode_bent(NULL, NULL), 0);
	assert_int_equal(decode_bent(bend_more_functions, NULL), -EPROTO);
	assert_int_equal(decode_bent(bend_fewer_settings, NULL), -EPROTO);
	assert_int_equal(decode_bent(bend_many_functions, NULL), -EPROTO);
	assert_int_equal(decode_bent(bend_too_many_kernels, NULL), -EMSGSIZE);
	assert_int_equal(decode_bent(bend_no_counts, NULL), -EPROTO);
	assert_int_equal(decode_bent(bend_nan, NULL), -EPROTO);
	assert_int_equal(decode_bent(bend_negative, NULL), -EPROTO);
}

static void bend_one_function(Sysom__Wire__Sketch *s)
{
	s->function_count = 1;
	s->kernel_count = s->setting_count = 0;
}

static void rejects_a_body_that_holds_something_else(void **unused)
{
	static const uint8_t good[] = {1, 'f', 2, 10, 0xc0, 0x84, 0x3d, 5};
	static const struct {
		uint8_t at, value;
	} bad[] = {
	    {0, 100},  /* longer than there is */
	    {1, 0},    /* NUL in a name */
	    {1, 0xff}, /* no UTF-8 */
	    {2, 3},    /* a kind that is none */
	    {4, 0xc1}, /* a share above 1 */
	};
	struct buf b;

	buf_init(&b, 1 << 20);
	buf_append(&b, good, sizeof(good));
	assert_int_equal(decode_bent(bend_one_function, &b), 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		b.data[bad[i].at] = bad[i].value;
		assert_int_equal(decode_bent(bend_one_function, &b), -EPROTO);
		memcpy(b.data, good, sizeof(good));
	}
	buf_append(&b, good, 1); /* something behind it */
	assert_int_equal(decode_bent(bend_one_function, &b), -EPROTO);
	buf_clear(&b);
	for (int i = 0; i < 200000; i++) /* packs to nothing, unpacks past the bound */
		buf_append(&b, "", 1);
	assert_int_equal(decode_bent(bend_one_function, &b), -EMSGSIZE);
	buf_fini(&b);
}

static void survives_every_cut_and_any_flip(void **unused)
{
	static struct fixture f;
	uint64_t state = 5;
	struct sketch got;
	struct buf b;

	make_sketch(&f, 50, 20, 10, &state);
	buf_init(&b, LIMIT_WIRE_MESSAGE_BYTES);
	assert_int_equal(wire_sketch_encode(&f.s, &b), 0);
	for (size_t n = 0; n < b.bytes; n++)
		assert_true(wire_sketch_decode(b.data, n, &got) < 0);
	for (int i = 0; i < 20000; i++) {
		size_t at = synth_random(&state) % b.bytes;
		uint8_t was = b.data[at];

		b.data[at] ^= (uint8_t)(1 + synth_random(&state) % 255);
		if (!wire_sketch_decode(b.data, b.bytes, &got))
			wire_sketch_free(&got);
		b.data[at] = was;
	}
	buf_fini(&b);
}

/* The envelope by protoc --encode, the body by hand as one stored zstd block: 1 'f', kind 2, shares of
 * 10 and 1,000,000 millionths, 5 ns off the CPU. */
static const uint8_t golden[] = {
    0x08, 0x01, 0x10, 0x04, 0x32, 0x40, 0x0a, 0x0c, 0x0a, 0x01, 0x6a, 0x12, 0x01, 0x6e,
    0x38, 0x0a, 0x40, 0x10, 0x50, 0x07, 0x10, 0xe8, 0x07, 0x18, 0xd0, 0x0f, 0x20, 0x03,
    0x28, 0x0a, 0x30, 0x01, 0x39, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x59, 0x40, 0xa8,
    0x01, 0x01, 0xb8, 0x01, 0x02, 0xc8, 0x01, 0x01, 0xe2, 0x01, 0x11, 0x28, 0xb5, 0x2f,
    0xfd, 0x20, 0x08, 0x41, 0x00, 0x00, 0x01, 0x66, 0x02, 0x0a, 0xc0, 0x84, 0x3d, 0x05,
};

static void reads_the_golden_sketch(void **unused)
{
	struct sketch got;

	assert_int_equal(wire_sketch_decode(golden, sizeof(golden), &got), 0);
	assert_string_equal(got.rank.job, "j");
	assert_string_equal(got.rank.node, "n");
	assert_int_equal(got.rank.rank, 5);
	assert_int_equal(got.rank.world_size, 8);
	assert_int_equal(got.begin_ns, 1000);
	assert_int_equal(got.end_ns, 2000);
	assert_int_equal(got.realtime_offset_ns, -2);
	assert_int_equal(got.steps, 10);
	assert_int_equal(got.flagged, 1);
	assert_true(got.latency_ns == 100);
	assert_int_equal(got.model_state, 1);
	assert_int_equal(got.functions_cut, 2);
	assert_int_equal(got.function_count, 1);
	assert_string_equal(got.functions[0].name, "f");
	assert_int_equal(got.functions[0].kind, FUNCTION_PYTHON);
	assert_true(fabs(got.functions[0].self_share - 1e-5) < 1e-12);
	assert_true(got.functions[0].total_share == 1);
	assert_true(got.functions[0].off_ns == 5);
	wire_sketch_free(&got);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(round_trips_a_sketch),
	    cmocka_unit_test(round_trips_kinds_of_steps),
	    cmocka_unit_test(refuses_what_is_too_large_or_absurd),
	    cmocka_unit_test(cleans_names_and_figures_that_are_none),
	    cmocka_unit_test(rejects_counts_and_figures_that_cannot_be),
	    cmocka_unit_test(rejects_a_body_that_holds_something_else),
	    cmocka_unit_test(survives_every_cut_and_any_flip),
	    cmocka_unit_test(reads_the_golden_sketch),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
