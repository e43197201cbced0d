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

#include "base/check.h"
#include "base/limits.h"
#include "model/beat_sample.h"
#include "model/request.h"
#include "tests/wire_synth.h"
#include "wire/beat_columns.h"
#include "wire/codec_internal.h"

/* A rank of a steady job: `groups` rows of `count` steps of about step_ns each. */
static void steady_rank(struct beat_rank *r, uint32_t groups, uint32_t count, double step_ns,
			uint64_t *state)
{
	memset(r, 0, sizeof(*r));
	strcpy(r->rank.job, "llama-pretrain");
	strcpy(r->rank.node, "gpu-node-0172");
	strcpy(r->rank.role, "pp1");
	strcpy(r->rank.gpu_uuid, "GPU-5c1d6f2a-9d0e-4b7e-8f6b-0a7f2f0f6a11");
	strcpy(r->rank.program, "train.py");
	r->rank.rank = 1377;
	r->rank.world_size = 2048;
	r->rank.local_rank = 1;
	r->steps = 123456;
	r->latency_median_ns = r->self_median_ns = step_ns;
	r->latency_mad_ns = r->expected_ns = r->compute_ns = r->comm_ns = r->idle_ns = step_ns / 3;
	r->events = 86400ull * 1000000000ull;
	for (uint32_t i = 0; i < groups; i++) {
		struct beat_group *g = &r->groups[i];

		g->first_step = 4096 + (uint64_t)i * count;
		g->end_ns =
		    86400ull * 1000000000ull +
		    (uint64_t)(step_ns * count * (i + 1) + step_ns * 0.02 * synth_normal(state));
		g->count = count;
		g->used = count - (i % 7 == 3);
		g->flagged = i % 11 == 5;
		g->latency_ns = step_ns * (1 + 0.02 * synth_normal(state));
		g->self_ns = 0.8 * step_ns * (1 + 0.02 * synth_normal(state));
		g->self_mad_ns = 0.02 * step_ns * fabs(1 + 0.2 * synth_normal(state));
		g->exposed_comm_ns = 0.2 * step_ns * fabs(1 + 0.2 * synth_normal(state));
		g->compute_ns = 0.7 * step_ns * (1 + 0.02 * synth_normal(state));
		g->idle_ns = 0.1 * step_ns * fabs(1 + 0.2 * synth_normal(state));
		g->copy_ns = 0.01 * step_ns;
		g->kernels = 2600;
		g->blocks = i == 5 ? 0 : floor(20000 * (1 + 0.1 * synth_normal(state)));
	}
	r->group_count = groups;
}

static void add_collectives(struct beat_rank *r, uint32_t comms, uint32_t colls, uint64_t *state)
{
	uint64_t t = 86400ull * 1000000000ull;

	for (uint32_t i = 0; i < comms; i++)
		r->comms[i] =
		    (struct beat_comm){.comm = synth_random(state),
				       .ranks = 64,
				       .rank = i,
				       .entered = 1000000 + i,
				       .ended = 999999,
				       .func = 1,
				       .seq = 999999 + i,
				       .bytes = 33554432,
				       .call_ns = t + i * 1000003ull,
				       .done_ns = i % 2 ? 0 : t + i * 1000003ull + 777777};
	for (uint32_t i = 0; i < colls; i++) {
		t += 200000000ull + synth_random(state) % 9999999;
		r->colls[i] = (struct beat_coll){.comm = comms && i % 5 ? r->comms[i % comms].comm
									: synth_random(state),
						 .func = 1 + i % 4,
						 .seq = 999000 + i * 8,
						 .step = 4096 + i / 2,
						 .call_ns = t,
						 .begin_ns = i % 3 ? t + 150000 : 0,
						 .end_ns = i % 3 ? t + 1150001 : 0};
	}
	r->comm_count = comms;
	r->coll_count = colls;
}

static struct beat_rank *round_trip(struct beat_rank *r, size_t *bytes, struct beat *got)
{
	struct beat b = {.version = "12.34.56-7", .ranks = r, .rank_count = 1};
	struct buf out;

	buf_init(&out, LIMIT_WIRE_MESSAGE_BYTES);
	assert_int_equal(wire_beat_encode(&b, &out), 0);
	*bytes = out.bytes;
	assert_int_equal(wire_beat_decode(out.data, out.bytes, got), 0);
	buf_fini(&out);
	assert_string_equal(got->version, b.version);
	assert_int_equal(got->wire_version, WIRE_VERSION);
	return got->ranks;
}

#define ASSERT_NEAR(a, b, by) assert_true(fabs((a) - (b)) <= (by))

static void round_trips_groups_to_their_stated_fineness(void **unused)
{
	static const double steps_ns[] = {900, 12e6, 100e6, 40e9};
	uint64_t state = 20261122;

	for (size_t k = 0; k < sizeof(steps_ns) / sizeof(steps_ns[0]); k++) {
		static struct beat_rank r;
		struct beat got;
		size_t bytes;

		steady_rank(&r, BEAT_GROUPS_MAX, 8, steps_ns[k], &state);
		struct beat_rank *g = round_trip(&r, &bytes, &got);
		double least = r.groups[0].latency_ns, fine;

		for (int i = 0; i < BEAT_GROUPS_MAX; i++)
			least = fmin(least, r.groups[i].latency_ns);
		fine = fmax(least / 16384, 1) / 2 + 1e-6;
		assert_int_equal(g->group_count, BEAT_GROUPS_MAX);
		for (int i = 0; i < BEAT_GROUPS_MAX; i++) {
			const struct beat_group *a = &r.groups[i], *b = &g->groups[i];

			assert_int_equal(a->first_step, b->first_step);
			assert_int_equal(a->count, b->count);
			assert_int_equal(a->used, b->used);
			assert_int_equal(a->flagged, b->flagged);
			ASSERT_NEAR((double)a->end_ns, (double)b->end_ns, fine);
			ASSERT_NEAR(a->latency_ns, b->latency_ns, fine);
			ASSERT_NEAR(a->self_ns, b->self_ns, fine);
			ASSERT_NEAR(a->self_mad_ns, b->self_mad_ns, fine);
			ASSERT_NEAR(a->exposed_comm_ns, b->exposed_comm_ns, fine);
			ASSERT_NEAR(a->compute_ns, b->compute_ns, fine);
			ASSERT_NEAR(a->idle_ns, b->idle_ns, fine);
			ASSERT_NEAR(a->copy_ns, b->copy_ns, fine);
			assert_true(a->kernels == b->kernels && a->blocks == b->blocks);
		}
		wire_beat_free(&got);
	}
}

static void round_trips_collectives_that_do_not_end(void **unused)
{
	static struct beat_rank r, full;
	struct fields f;
	uint64_t state = 4;
	struct beat got;
	size_t bytes;

	steady_rank(&r, 0, 1, 1e8, &state);
	add_collectives(&r, BEAT_COMMS_MAX, 3, &state);
	for (int i = 1; i < BEAT_COMMS_MAX; i += 7) {
		r.comms[i].open_func = 1 + (uint32_t)i;
		r.comms[i].open_seq = 77 * (uint32_t)i;
		r.comms[i].open_dtype = 10;
		r.comms[i].open_bytes = 1ull << 3 * i;
	}
	struct beat_rank *g = round_trip(&r, &bytes, &got);

	assert_memory_equal(g->comms, r.comms, sizeof(r.comms));
	wire_beat_free(&got);
	/* rows that name none of the rank's communicators, or one twice */
	for (int k = 0; k < 3; k++) {
		uint8_t rows[] = {2, 0, 1, 2, 3, 4, (uint8_t)(k == 0 ? BEAT_COMMS_MAX : 0),
				  1, 2, 3, 4};

		full = r;
		if (k == 2) {
			rows[2] = 0; /* no function */
			rows[6] = 1;
		}
		f = (struct fields){.data = rows, .bytes = sizeof(rows)};
		assert_int_equal(beat_columns_opens(&f, &full), -EPROTO);
	}
	full.comm_count = 0;
	f = (struct fields){.data = (const uint8_t[]){1, 0, 1, 2, 3, 4}, .bytes = 6};
	assert_int_equal(beat_columns_opens(&f, &full), -EPROTO);
}

static void round_trips_what_a_gpu_does_not_end(void **unused)
{
	static struct beat_rank r;
	struct beat got;
	size_t bytes;

	memset(&r, 0, sizeof(r));
	r.unfinished = (struct beat_unfinished){.kind = BEAT_UNFINISHED_KERNEL,
						.stream = 13,
						.launch_ns = 86400000000123,
						.name = "gemm_bf16"};
	r.stalled_since_ns = 86400000000456;
	struct beat_rank *g = round_trip(&r, &bytes, &got);

	assert_memory_equal(&g->unfinished, &r.unfinished, sizeof(r.unfinished));
	assert_int_equal(g->stalled_since_ns, 86400000000456);
	wire_beat_free(&got);
	/* a kind of a later version says nothing to this one */
	r.unfinished.kind = BEAT_UNFINISHED_MESSAGE + 1;
	g = round_trip(&r, &bytes, &got);
	assert_int_equal(g->unfinished.kind, BEAT_UNFINISHED_NONE);
	assert_int_equal(g->unfinished.launch_ns, 0);
	wire_beat_free(&got);
	/* a cut name may end within a character */
	r.unfinished.kind = BEAT_UNFINISHED_KERNEL;
	memset(r.unfinished.name, 'x', sizeof(r.unfinished.name));
	memcpy(r.unfinished.name + 125, "\xc3\xa4", 2);
	r.unfinished.name[126] = 0;
	g = round_trip(&r, &bytes, &got);
	assert_int_equal(g->unfinished.kind, BEAT_UNFINISHED_KERNEL);
	assert_int_equal(strlen(g->unfinished.name), 126);
	wire_beat_free(&got);
}

static void round_trips_collectives_exactly(void **unused)
{
	static struct beat_rank r;
	uint64_t state = 4;
	struct beat got;
	size_t bytes;

	steady_rank(&r, 0, 1, 1e8, &state);
	add_collectives(&r, 3, BEAT_COLLS_MAX, &state);
	r.colls[7].seq = 0;
	r.colls[8].seq = UINT32_MAX;
	r.colls[9].call_ns = UINT64_MAX;
	struct beat_rank *g = round_trip(&r, &bytes, &got);

	assert_int_equal(g->comm_count, 3);
	assert_int_equal(g->coll_count, BEAT_COLLS_MAX);
	assert_memory_equal(g->comms, r.comms, sizeof(r.comms));
	assert_memory_equal(g->colls, r.colls, sizeof(r.colls));
	wire_beat_free(&got);
}

static void fits_a_full_rank_of_a_steady_job(void **unused)
{
	static struct beat_rank r;
	uint64_t state = 5;
	struct beat got;
	size_t bytes;

	steady_rank(&r, BEAT_GROUPS_MAX, 2, 1e8, &state);
	add_collectives(&r, 6, BEAT_COLLS_MAX, &state);
	round_trip(&r, &bytes, &got);
	print_message("# %zu bytes: 32 groups, 6 communicators, %d collectives\n", bytes,
		      BEAT_COLLS_MAX);
	assert_true((size_t)wire_beat_rank_bytes(&r) <= LIMIT_BEAT_BYTES_PER_RANK);
	assert_true(bytes <= (size_t)wire_beat_rank_bytes(&r) + 64);
	wire_beat_free(&got);
}

static void refuses_a_rank_above_its_bytes(void **unused)
{
	static struct beat_rank r;
	struct beat b = {.ranks = &r, .rank_count = 1};
	uint64_t state = 6;
	struct buf out;

	steady_rank(&r, BEAT_GROUPS_MAX, 2, 1e8, &state);
	add_collectives(&r, BEAT_COMMS_MAX, BEAT_COLLS_MAX, &state);
	for (uint32_t i = 0; i < BEAT_COLLS_MAX; i++) {
		r.colls[i].comm = synth_random(&state);
		r.colls[i].step = synth_random(&state);
		r.colls[i].begin_ns = synth_random(&state) | 1;
		r.colls[i].end_ns = synth_random(&state) | 1;
	}
	assert_true(wire_beat_rank_bytes(&r) > LIMIT_BEAT_BYTES_PER_RANK);
	buf_init(&out, LIMIT_WIRE_MESSAGE_BYTES);
	assert_int_equal(wire_beat_encode(&b, &out), -EMSGSIZE);
	r.coll_count = 1;
	assert_int_equal(wire_beat_encode(&b, &out), 0);
	buf_fini(&out);
}

static void refuses_groups_that_are_none(void **unused)
{
	static struct beat_rank r;
	uint64_t state = 7;

	steady_rank(&r, 4, 8, 1e8, &state);
	assert_true(wire_beat_rank_bytes(&r) > 0);
	r.groups[1].count = 6;
	assert_int_equal(wire_beat_rank_bytes(&r), -EINVAL);
	r.groups[1].count = 16; /* not a multiple, and reaches into the next */
	assert_int_equal(wire_beat_rank_bytes(&r), -EINVAL);
	r.groups[1].count = 8;
	r.groups[1].used = 9;
	assert_int_equal(wire_beat_rank_bytes(&r), -EINVAL);
	r.groups[1].used = 8;
	r.groups[2].first_step = r.groups[1].first_step;
	assert_int_equal(wire_beat_rank_bytes(&r), -EINVAL);
	steady_rank(&r, 0, 1, 1e8, &state);
	add_collectives(&r, 1, 0, &state);
	r.comms[0].ended = r.comms[0].entered + 1;
	assert_int_equal(wire_beat_rank_bytes(&r), -EINVAL);
}

static void keeps_figures_that_are_no_numbers_out(void **unused)
{
	static struct beat_rank r;
	uint64_t state = 8;
	struct beat got;
	size_t bytes;

	steady_rank(&r, 2, 8, 1e8, &state);
	r.groups[0].self_ns = NAN;
	r.groups[0].idle_ns = -5;
	r.groups[1].compute_ns = INFINITY;
	struct beat_rank *g = round_trip(&r, &bytes, &got);

	assert_true(g->groups[0].self_ns == 0);
	assert_true(g->groups[0].idle_ns == 0);
	assert_true(isfinite(g->groups[1].compute_ns));
	wire_beat_free(&got);
}

/* ---- hostile bytes ---- */

static int unpack(struct buf *b, int (*fn)(struct fields *, struct beat_rank *))
{
	static struct beat_rank r;

	return fn(&(struct fields){.data = b->data, .bytes = b->bytes}, &r);
}

static void put(struct buf *b, int count, ...)
{
	va_list ap;

	buf_clear(b);
	va_start(ap, count);
	for (int i = 0; i < count; i++)
		buf_varint(b, va_arg(ap, uint64_t));
	va_end(ap);
}

#define U(v) ((uint64_t)(v))

static void rejects_group_rows_out_of_bounds(void **unused)
{
	struct buf b;

	buf_init(&b, 4096);
	/* count, shift, then log, skip, unused, flagged, end, eight figures */
	put(&b, 15, U(1), U(0), U(3), U(0), U(0), U(0), U(2), U(2), U(2), U(2), U(2), U(2), U(2),
	    U(2), U(2));
	assert_int_equal(unpack(&b, beat_columns_groups), 0);
	for (size_t n = 1; n < b.bytes; n++) {
		struct buf cut = b;

		cut.bytes = n;
		assert_int_equal(unpack(&cut, beat_columns_groups), -EPROTO);
	}
	put(&b, 1, U(0));
	assert_int_equal(unpack(&b, beat_columns_groups), -EPROTO);
	put(&b, 2, U(BEAT_GROUPS_MAX + 1), U(0));
	assert_int_equal(unpack(&b, beat_columns_groups), -EPROTO);
	put(&b, 2, U(1) << 63, U(0));
	assert_int_equal(unpack(&b, beat_columns_groups), -EPROTO);
	put(&b, 15, U(1), U(64), U(3), U(0), U(0), U(0), U(2), U(2), U(2), U(2), U(2), U(2), U(2),
	    U(2), U(2)); /* shift */
	assert_int_equal(unpack(&b, beat_columns_groups), -EPROTO);
	put(&b, 15, U(1), U(0), U(3), U(1), U(0), U(0), U(2), U(2), U(2), U(2), U(2), U(2), U(2),
	    U(2), U(2)); /* 1 is no multiple of 8 */
	assert_int_equal(unpack(&b, beat_columns_groups), -EPROTO);
	put(&b, 15, U(1), U(0), U(3), U(0), U(9), U(0), U(2), U(2), U(2), U(2), U(2), U(2), U(2),
	    U(2), U(2)); /* unused */
	assert_int_equal(unpack(&b, beat_columns_groups), -EPROTO);
	put(&b, 15, U(1), U(0), U(21), U(0), U(0), U(0), U(2), U(2), U(2), U(2), U(2), U(2), U(2),
	    U(2), U(2)); /* log */
	assert_int_equal(unpack(&b, beat_columns_groups), -EPROTO);
	put(&b, 15, U(1), U(0), U(3), U(0), U(0), U(0), U(2), U(1), U(2), U(2), U(2), U(2), U(2),
	    U(2), U(2)); /* a latency of -1 */
	assert_int_equal(unpack(&b, beat_columns_groups), -EPROTO);
	buf_fini(&b);
}

static void rejects_collective_rows_out_of_bounds(void **unused)
{
	struct buf b;

	buf_init(&b, 4096);
	put(&b, 2, U(1), U(1)); /* refers to a communicator that is not there */
	assert_int_equal(unpack(&b, beat_columns_colls), -EPROTO);
	put(&b, 1, U(BEAT_COLLS_MAX + 1));
	assert_int_equal(unpack(&b, beat_columns_colls), -EPROTO);
	put(&b, 1, U(BEAT_COMMS_MAX + 1));
	assert_int_equal(unpack(&b, beat_columns_comms), -EPROTO);
	/* id, ranks, rank, entered 1, open 2 */
	put(&b, 13, U(1), U(1), U(1), U(1), U(1), U(1), U(1), U(1), U(1), U(4), U(0), U(1), U(2));
	assert_int_equal(unpack(&b, beat_columns_comms), -EPROTO);
	buf_fini(&b);
}

static void survives_any_flip_of_a_full_beat(void **unused)
{
	static struct beat_rank r;
	struct beat b = {.ranks = &r, .rank_count = 1};
	uint64_t state = 9;
	struct buf out;

	steady_rank(&r, 20, 4, 1e8, &state);
	add_collectives(&r, 5, 20, &state);
	buf_init(&out, LIMIT_WIRE_MESSAGE_BYTES);
	assert_int_equal(wire_beat_encode(&b, &out), 0);
	for (int i = 0; i < 20000; i++) {
		size_t at = synth_random(&state) % out.bytes;
		uint8_t was = out.data[at];
		struct beat got;

		out.data[at] ^= (uint8_t)(1 + synth_random(&state) % 255);
		if (!wire_beat_decode(out.data, out.bytes, &got)) {
			for (uint32_t k = 0; k < got.rank_count; k++) {
				assert_true(got.ranks[k].group_count <= BEAT_GROUPS_MAX);
				assert_true(got.ranks[k].comm_count <= BEAT_COMMS_MAX);
				assert_true(got.ranks[k].coll_count <= BEAT_COLLS_MAX);
			}
			wire_beat_free(&got);
		}
		out.data[at] = was;
	}
	buf_fini(&out);
}

/* A beat of one rank as the first version wrote it (protoc --encode, of that version's sysom.proto):
 * without rows, flags and shift. */
static const uint8_t first_version[] = {
    0x08, 0x01, 0x10, 0x02, 0x22, 0x45, 0x0a, 0x03, 0x6e, 0x6f, 0x64, 0x12, 0x10, 0x01, 0x02,
    0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f, 0x10, 0x18,
    0x07, 0x20, 0x80, 0x94, 0xeb, 0xdc, 0x03, 0x7a, 0x24, 0x0a, 0x0b, 0x0a, 0x03, 0x6a, 0x6f,
    0x62, 0x38, 0x06, 0x40, 0x10, 0x50, 0x63, 0x10, 0x01, 0x20, 0x02, 0x30, 0xe8, 0x07, 0x49,
    0x00, 0x00, 0x00, 0x00, 0x84, 0xd7, 0x97, 0x41, 0xa8, 0x01, 0xd0, 0x0f, 0xb0, 0x01, 0x05,
};

static void reads_a_beat_of_the_first_version(void **unused)
{
	struct beat got;

	assert_int_equal(wire_beat_decode(first_version, sizeof(first_version), &got), 0);
	assert_string_equal(got.node, "nod");
	assert_string_equal(got.version, "");
	assert_int_equal(got.sequence, 7);
	assert_int_equal(got.now_ns, 1000000000);
	assert_int_equal(got.rank_count, 1);
	assert_string_equal(got.ranks[0].rank.job, "job");
	assert_int_equal(got.ranks[0].rank.rank, 3);
	assert_int_equal(got.ranks[0].steps, 1000);
	assert_true(got.ranks[0].latency_median_ns == 1e8);
	assert_int_equal(got.ranks[0].model_state, 2);
	assert_int_equal(got.ranks[0].kernels_joined, 5);
	assert_int_equal(got.ranks[0].group_count, 0);
	assert_int_equal(got.ranks[0].comm_count, 0);
	assert_int_equal(got.ranks[0].coll_count, 0);
	assert_int_equal(got.ranks[0].flags, 0);
	wire_beat_free(&got);
}

/* By hand, from docs/wire-format.md. */
static const uint8_t golden_groups[] = {
    /* two rows, times in units of 2^12 ns */
    2,
    12,
    /* 4 steps from 8 on, one not used, none flagged, end 500,000 units = 2.048 s */
    2,
    8,
    1,
    0,
    0xc0,
    0x84,
    0x3d,
    /* latency 20,000 units, self 16,000, MAD 10, exposed 4,000, compute 15,000, idle 0, copy 0, 9
	 * launches */
    0xc0,
    0xb8,
    0x02,
    0x80,
    0xfa,
    0x01,
    0x14,
    0xc0,
    0x3e,
    0xb0,
    0xea,
    0x01,
    0,
    0,
    0x12,
    /* the next 4, all used, two flagged, 80,000 units later; latency 1 unit more, self 1 less */
    2,
    0,
    0,
    2,
    0x80,
    0xe2,
    0x09,
    2,
    1,
    0,
    0,
    0,
    0,
    0,
    0,
};
static const uint8_t golden_comms[] = {
    1,	  0xef, 0xbe, 0xad, 0xde, 0, 0, 0, 0x80, /* id */
    8,	  3,					 /* of 8 ranks the 3rd */
    0xac, 2,	1,				 /* 300 entered, one of them open */
    1,	  0xab, 2,    0x80, 8,			 /* all-reduce 299 of 1,024 bytes */
    1,	  0xd0, 0x0f,				 /* called at 1,000, no end seen */
};
static const uint8_t golden_colls[] = {
    2,
    /* of communicator 1: reduce-scatter 5, in step 10, called at 1,000; no kernel */
    1,
    5,
    10,
    20,
    1,
    0xd0,
    0x0f,
    /* of one that is in no list: broadcast 4, in step 11, called at 900, 950 to 970 */
    0,
    1,
    2,
    3,
    4,
    5,
    6,
    7,
    8,
    2,
    1,
    2,
    7,
    0xc7,
    1,
    0x64,
    0x28,
};

static void golden_rank(struct beat_rank *r)
{
	memset(r, 0, sizeof(*r));
	r->group_count = 2;
	for (int i = 0; i < 2; i++)
		r->groups[i] =
		    (struct beat_group){.first_step = i ? 12 : 8,
					.end_ns = i ? 580000ull * 4096 : 500000ull * 4096,
					.count = 4,
					.used = i ? 4 : 3,
					.flagged = i ? 2 : 0,
					.latency_ns = (20000 + i) * 4096.0,
					.self_ns = (16000 - i) * 4096.0,
					.self_mad_ns = 10 * 4096.0,
					.exposed_comm_ns = 4000 * 4096.0,
					.compute_ns = 15000 * 4096.0,
					.kernels = 9};
	r->comm_count = 1;
	r->comms[0] = (struct beat_comm){.comm = 0x80000000deadbeef,
					 .ranks = 8,
					 .rank = 3,
					 .entered = 300,
					 .ended = 299,
					 .func = 1,
					 .seq = 299,
					 .bytes = 1024,
					 .call_ns = 1000};
	r->coll_count = 2;
	r->colls[0] = (struct beat_coll){
	    .comm = 0x80000000deadbeef, .func = 5, .seq = 5, .step = 10, .call_ns = 1000};
	r->colls[1] = (struct beat_coll){.comm = 0x0807060504030201,
					 .func = 2,
					 .seq = 4,
					 .step = 11,
					 .call_ns = 900,
					 .begin_ns = 950,
					 .end_ns = 970};
}

static int read_blocks(const uint8_t *data, size_t bytes, struct beat_rank *r)
{
	return beat_columns_blocks(&(struct fields){.data = data, .bytes = bytes}, r);
}

/* One number per group: none may be missing, left over or out of range. */
static void blocks_are_as_many_as_groups(void **unused)
{
	static const uint8_t bytes[] = {4, 1, 4, 3, 0x80};
	static struct beat_rank r;

	r.group_count = 2;
	assert_int_equal(read_blocks(bytes, 0, &r), 0);
	assert_int_equal(read_blocks(bytes, 2, &r), 0);
	assert_true(r.groups[0].blocks == 2 && r.groups[1].blocks == 1);
	assert_int_equal(read_blocks(bytes, 1, &r), -EPROTO);
	assert_int_equal(read_blocks(bytes, 3, &r), -EPROTO);
	assert_int_equal(read_blocks(bytes + 1, 2, &r), -EPROTO); /* below 0 */
	assert_int_equal(read_blocks(bytes + 2, 3, &r), -EPROTO);
	assert_int_equal(read_blocks(bytes + 4, 1, &r), -EPROTO);
}

static void reads_and_writes_the_golden_rows(void **unused)
{
	static const struct {
		int (*rows)(struct fields *, struct beat_rank *);
		const uint8_t *golden;
		size_t bytes;
	} parts[] = {{beat_columns_groups, golden_groups, sizeof(golden_groups)},
		     {beat_columns_comms, golden_comms, sizeof(golden_comms)},
		     {beat_columns_colls, golden_colls, sizeof(golden_colls)}};
	static struct beat_rank want, got;
	struct buf b;

	golden_rank(&want);
	buf_init(&b, 4096);
	for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
		struct fields f = {.data = parts[i].golden, .bytes = parts[i].bytes};

		buf_clear(&b);
		assert_int_equal(parts[i].rows(&(struct fields){.out = &b}, &want), 0);
		assert_int_equal(b.bytes, parts[i].bytes);
		assert_memory_equal(b.data, parts[i].golden, parts[i].bytes);
		assert_int_equal(parts[i].rows(&f, &got), 0);
	}
	buf_fini(&b);
	assert_memory_equal(&got, &want, sizeof(want));
}

static void samples_sets_that_hold_one_another(void **unused)
{
	uint32_t count[12] = {0};

	for (uint32_t comm = 0; comm < 4; comm++)
		for (uint32_t seq = 0; seq < 1u << 16; seq++) {
			bool before = true;

			for (uint32_t shift = 0; shift < 12; shift++) {
				bool now =
				    beat_sample(0x1234567800000000ull + comm, 1 + comm, seq, shift);

				assert_true(before || !now);
				count[shift] += now;
				before = now;
			}
		}
	assert_int_equal(count[0], 4 << 16);
	for (uint32_t shift = 1; shift < 12; shift++) {
		double mean = (double)(4u << 16) / (1u << shift);

		/* five deviations of a binomial count */
		assert_true(fabs(count[shift] - mean) < 5 * sqrt(mean));
	}
}

/* ---- requests ---- */

static void busy_job(struct request_job *r)
{
	*r = (struct request_job){.job = "llama-pretrain",
				  .running = 31,
				  .waiting = 1200,
				  .oldest_wait_ns = 7000000000ull,
				  .counts = {.arrived = 1 << 20,
					     .ended = 5,
					     .lost = 1,
					     .judged = {4, 3},
					     .violated = {2, 1}},
				  .violation_count = REQUEST_VIOLATIONS_MAX};
	for (uint64_t i = 0; i < 400; i++) {
		durations_add(&r->ttft, 50000000 + i * i * 100000);
		durations_add(&r->tpot, 20000000 + i * 10000);
	}
	durations_add(&r->queue, 1);
	for (uint32_t i = 0; i < REQUEST_VIOLATIONS_MAX; i++)
		r->violation[i] = (struct request_violation){
		    .id = UINT64_MAX - i,
		    .objective = i & 1,
		    .phase = i % REQUEST_PHASES,
		    .prompt_tokens = 7000,
		    .output_tokens = 300,
		    .arrival_ns = 86400ull * 1000000000ull,
		    .scheduled_ns = 86402ull * 1000000000ull,
		    .first_ns = 86412ull * 1000000000ull,
		    .last_ns = 86420ull * 1000000000ull,
		    .value_ns = 12000000000ull,
		    .phase_ns = 10000000000ull,
		    .objective_ns = 9000000000ull,
		    .slow = {86401ull * 1000000000ull, 86411ull * 1000000000ull, 7, 4096, 64},
		    .span = "ModelRunner::Preprocess"};
}

static int send_requests(struct request_job *r, struct beat *got)
{
	static struct beat_rank rank;
	struct beat b = {.ranks = &rank, .rank_count = 1, .requests = r, .request_count = 1};
	uint64_t state = 8;
	struct buf out;
	int err;

	steady_rank(&rank, 2, 8, 1e8, &state);
	buf_init(&out, LIMIT_WIRE_MESSAGE_BYTES);
	err = wire_beat_encode(&b, &out);
	if (!err)
		err = wire_beat_decode(out.data, out.bytes, got);
	buf_fini(&out);
	return err;
}

static void round_trips_requests(void **unused)
{
	static struct request_job r;
	struct beat got;

	busy_job(&r);
	assert_in_range(wire_beat_requests_fit(&r, LIMIT_BEAT_BYTES_PER_RANK), 1,
			LIMIT_BEAT_BYTES_PER_RANK);
	assert_int_equal(r.violation_count, REQUEST_VIOLATIONS_MAX);
	assert_int_equal(send_requests(&r, &got), 0);
	assert_int_equal(got.request_count, 1);
	assert_memory_equal(&got.requests[0], &r, sizeof(r));
	wire_beat_free(&got);
}

static void requests_without_room_lose_violations_and_then_times(void **unused)
{
	static struct request_job r;

	busy_job(&r);
	assert_in_range(wire_beat_requests_fit(&r, 900), 1, 900);
	assert_in_range(r.violation_count, 0, REQUEST_VIOLATIONS_MAX - 1);
	assert_int_equal(r.counts.violations_dropped, REQUEST_VIOLATIONS_MAX - r.violation_count);
	assert_in_range(wire_beat_requests_fit(&r, 120), 1, 120);
	assert_int_equal(r.ttft.total, 0);
	assert_int_equal(r.counts.arrived, 1 << 20);
	assert_int_equal(wire_beat_requests_fit(&r, 10), 0);
}

static void refuses_requests_that_cannot_be(void **unused)
{
	static struct request_job r;
	struct beat got;

	busy_job(&r);
	strcpy(r.job, "another");
	assert_int_equal(send_requests(&r, &got), -EPROTO);
	busy_job(&r);
	r.violation[0].objective = REQUEST_OBJECTIVES;
	assert_int_equal(send_requests(&r, &got), -EPROTO);
	busy_job(&r);
	r.violation[0].slow.end_ns = r.violation[0].slow.begin_ns - 1;
	assert_int_equal(send_requests(&r, &got), -EPROTO);
	busy_job(&r);
	r.violation[0].phase = 77; /* of a later version */
	assert_int_equal(send_requests(&r, &got), 0);
	assert_int_equal(got.requests[0].violation[0].phase, REQUEST_PHASE_NONE);
	wire_beat_free(&got);
}

/* ---- pieces of requests ---- */

static void fill_pieces(struct request_pieces *p, struct request_piece *piece, uint32_t count)
{
	*p = (struct request_pieces){.job = "llama-pretrain",
				     .ttft_ns = 1000000000,
				     .tpot_ns = 50000000,
				     .piece = piece,
				     .count = count};
	for (uint32_t i = 0; i < count; i++) {
		uint64_t at = 86400000000000ull + 30000000ull * i;

		piece[i] = (struct request_piece){.id = 0x8899aabbccddee00ull + i,
						  .serial = 86400000000000ull + i,
						  .flags = REQUEST_PIECE_OPEN};
		if (i & 1)
			continue;
		piece[i] =
		    (struct request_piece){.id = 0x8899aabbccddee00ull + i,
					   .serial = 86400000000000ull + i,
					   .flags = REQUEST_PIECE_COUNTED,
					   .arrival_ns = at,
					   .handed_ns = at + 10000,
					   .queued_ns = at + 200000,
					   .scheduled_ns = at + 400000,
					   .first_ns = at + 150000000,
					   .last_ns = at + 2000000000,
					   .ended_ns = at + 2000100000,
					   .delivered_last_ns = at + 2000050000,
					   .prefill_ns = 149000000,
					   .decode_ns = 1700000000,
					   .transfer_ns = 40000000,
					   .prompt_tokens = 1332,
					   .prefill_tokens = 1332,
					   .output_tokens = 31,
					   .prefill_steps = 3,
					   .decode_steps = 30,
					   .longest = {{at + 400000, at + 80000000, 512, 512, 1},
						       {at + 900000000, at + 940000000, 1, 2, 2},
						       {0},
						       {at + 150000000, at + 190000000, 0, 0, 0}}};
	}
}

static int encode_pieces(const struct request_pieces *p, uint32_t jobs, struct buf *out)
{
	static struct beat_rank rank[2];
	struct beat b = {.ranks = rank,
			 .rank_count = 2,
			 .pieces = (struct request_pieces *)(uintptr_t)p,
			 .piece_jobs = jobs};
	uint64_t state = 8;

	steady_rank(&rank[0], 2, 8, 1e8, &state);
	steady_rank(&rank[1], 2, 8, 1e8, &state);
	buf_init(out, LIMIT_WIRE_MESSAGE_BYTES);
	return wire_beat_encode(&b, out);
}

static int send_pieces(const struct request_pieces *p, struct beat *got, struct buf *out)
{
	int err = encode_pieces(p, 1, out);

	return err ? err : wire_beat_decode(out->data, out->bytes, got);
}

/* Of the beat that they add to. */
static size_t bytes_of(const struct request_pieces *p, uint32_t jobs)
{
	struct buf with, without;
	size_t bytes;

	assert_int_equal(encode_pieces(p, jobs, &with), 0);
	assert_int_equal(encode_pieces(p, 0, &without), 0);
	bytes = with.bytes - without.bytes;
	buf_fini(&with);
	buf_fini(&without);
	return bytes;
}

static void assert_same_piece(const struct request_piece *a, const struct request_piece *b)
{
#define X(f) assert_true(a->f == b->f);
	X(id)
	X(serial)
	X(flags)
	REQUEST_PIECE_TIMES(X)
	REQUEST_PIECE_SUMS(X)
	REQUEST_PIECE_COUNTS(X)
	for (int i = 0; i < REQUEST_PIECE_STEPS; i++) {
		X(longest[i].begin_ns)
		X(longest[i].end_ns)
		X(longest[i].tokens)
		X(longest[i].step_tokens)
		X(longest[i].batch)
	}
#undef X
}

static void round_trips_pieces(void **unused)
{
	struct request_piece piece[6];
	struct request_pieces p;
	struct beat got;
	struct buf out;

	fill_pieces(&p, piece, 6);
	assert_int_equal(send_pieces(&p, &got, &out), 0);
	assert_int_equal(got.piece_jobs, 1);
	assert_string_equal(got.pieces[0].job, p.job);
	assert_true(got.pieces[0].ttft_ns == p.ttft_ns && got.pieces[0].tpot_ns == p.tpot_ns);
	assert_int_equal(got.pieces[0].count, 6);
	for (int i = 0; i < 6; i++)
		assert_same_piece(&got.pieces[0].piece[i], &piece[i]);
	wire_beat_free(&got);
	buf_fini(&out);
}

/* docs/wire-format.md, "Pieces of requests": what is written must stay readable. */
static void the_bytes_of_pieces_stay(void **unused)
{
	static const uint8_t golden[] = {
	    0x02, 0x00, 0xee, 0xdd, 0xcc, 0xbb, 0xaa, 0x99, 0x88, 0x80, 0x80, 0xf8, 0x94, 0x92,
	    0xa5, 0x27, 0x04, 0xff, 0x02, 0x80, 0x80, 0xf8, 0x94, 0x92, 0xa5, 0x27, 0xa0, 0x9c,
	    0x01, 0xe0, 0x98, 0x17, 0x80, 0xb5, 0x18, 0x80, 0xdc, 0xd5, 0x8e, 0x01, 0x80, 0x8a,
	    0xa6, 0xe4, 0x0d, 0xc0, 0x9a, 0x0c, 0x9f, 0x8d, 0x06, 0x0b, 0x9f, 0xf3, 0x81, 0xf3,
	    0x0e, 0x80, 0xb3, 0xfa, 0x25, 0x80, 0x04, 0x80, 0x04, 0x01, 0x80, 0xba, 0xf6, 0xd9,
	    0x06, 0x80, 0xb4, 0x89, 0x13, 0x01, 0x02, 0x02, 0xff, 0xdd, 0xa0, 0xcb, 0x05, 0x80,
	    0xb4, 0x89, 0x13, 0x00, 0x00, 0x00, 0xc0, 0x9e, 0x86, 0x47, 0x80, 0xe2, 0xcf, 0xaa,
	    0x06, 0x00, 0x80, 0xb4, 0x89, 0x13, 0xb4, 0x0a, 0xb4, 0x0a, 0x00, 0x1f, 0x03, 0x1e,
	    0x01, 0xee, 0xdd, 0xcc, 0xbb, 0xaa, 0x99, 0x88, 0x02, 0x01};
	struct request_piece piece[2];
	struct request_pieces p;
	struct beat got;
	struct buf out;

	fill_pieces(&p, piece, 2);
	assert_int_equal(send_pieces(&p, &got, &out), 0);
	assert_non_null(memmem(out.data, out.bytes, golden, sizeof(golden)));
	wire_beat_free(&got);
	buf_fini(&out);
}

/* How many of so many pieces fit. */
static uint32_t fitting(struct request_pieces *p, uint32_t count, size_t room)
{
	p->count = count;
	wire_beat_pieces_fit(p, 1, room);
	return p->count;
}

static void as_many_pieces_as_there_is_room_for(void **unused)
{
	static struct request_piece piece[REQUEST_PIECES_MAX + 1];
	struct request_pieces p;

	fill_pieces(&p, piece, REQUEST_PIECES_MAX + 1);
	assert_int_equal(fitting(&p, REQUEST_PIECES_MAX + 1, 1u << 20), REQUEST_PIECES_MAX);
	assert_int_equal(fitting(&p, 200, 20), 0);
	for (size_t room = 100; room < 4000; room += 37)
		if (fitting(&p, 200, room))
			assert_true(bytes_of(&p, 1) <= room);
	/* 40 whole ones in 4 KB */
	assert_in_range(fitting(&p, 200, 4000), 40, 80);
}

/* Of three jobs, one has more pieces than there is room for. */
static void each_job_has_its_share_of_the_room(void **unused)
{
	static struct request_piece piece[REQUEST_PIECES_MAX];
	const uint32_t first[3] = {REQUEST_PIECES_MAX, 5, 0};

	for (uint32_t turn = 0; turn < 3; turn++) {
		struct request_pieces p[3];
		uint32_t alone;

		fill_pieces(&p[0], piece, REQUEST_PIECES_MAX);
		alone = fitting(&p[0], REQUEST_PIECES_MAX, 4000);
		for (uint32_t i = 0; i < 3; i++) {
			p[(i + turn) % 3] = p[0];
			p[(i + turn) % 3].count = first[i];
		}
		wire_beat_pieces_fit(p, 3, 4000);
		assert_int_equal(p[(1 + turn) % 3].count, 5);
		assert_in_range(p[turn].count, alone - 8, alone - 3);
		for (uint32_t i = 0; i < 3; i++)
			p[i].count = REQUEST_PIECES_MAX;
		wire_beat_pieces_fit(p, 3, 4000);
		assert_true(bytes_of(p, 3) <= 4000);
		for (uint32_t i = 0; i < 3; i++)
			assert_in_range(p[i].count, alone / 3 - 2, alone / 3 + 1);
	}
}

static int send_changed(void (*change)(struct request_pieces *p))
{
	struct request_piece piece[3];
	struct request_pieces p;
	struct beat got;
	struct buf out;
	int err;

	fill_pieces(&p, piece, 3);
	change(&p);
	err = send_pieces(&p, &got, &out);
	if (!err)
		wire_beat_free(&got);
	buf_fini(&out);
	return err;
}

static void no_rank(struct request_pieces *p)
{
	strcpy(p->job, "another");
}
static void no_id(struct request_pieces *p)
{
	p->piece[1].id = 0;
}
static void many_tokens(struct request_pieces *p)
{
	p->piece[2].output_tokens = REQUEST_TOKENS_MAX + 1;
}
static void long_step(struct request_pieces *p)
{
	p->piece[2].longest[0].end_ns += REQUEST_PIECE_NS_MAX;
}
static void backwards(struct request_pieces *p)
{
	p->piece[2].longest[0].end_ns = p->piece[2].longest[0].begin_ns - 1;
}
static void none_at_all(struct request_pieces *p)
{
	p->count = 0;
}

static void refuses_pieces_that_cannot_be(void **unused)
{
	assert_int_equal(send_changed(no_rank), -EPROTO);
	assert_int_equal(send_changed(no_id), -EINVAL);
	assert_int_equal(send_changed(many_tokens), -EINVAL);
	assert_int_equal(send_changed(long_step), -EINVAL);
	assert_int_equal(send_changed(backwards), -EINVAL);
	assert_int_equal(send_changed(none_at_all), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(round_trips_groups_to_their_stated_fineness),
	    cmocka_unit_test(round_trips_requests),
	    cmocka_unit_test(requests_without_room_lose_violations_and_then_times),
	    cmocka_unit_test(refuses_requests_that_cannot_be),
	    cmocka_unit_test(round_trips_pieces),
	    cmocka_unit_test(the_bytes_of_pieces_stay),
	    cmocka_unit_test(as_many_pieces_as_there_is_room_for),
	    cmocka_unit_test(each_job_has_its_share_of_the_room),
	    cmocka_unit_test(refuses_pieces_that_cannot_be),
	    cmocka_unit_test(round_trips_what_a_gpu_does_not_end),
	    cmocka_unit_test(round_trips_collectives_that_do_not_end),
	    cmocka_unit_test(round_trips_collectives_exactly),
	    cmocka_unit_test(fits_a_full_rank_of_a_steady_job),
	    cmocka_unit_test(refuses_a_rank_above_its_bytes),
	    cmocka_unit_test(refuses_groups_that_are_none),
	    cmocka_unit_test(keeps_figures_that_are_no_numbers_out),
	    cmocka_unit_test(rejects_group_rows_out_of_bounds),
	    cmocka_unit_test(rejects_collective_rows_out_of_bounds),
	    cmocka_unit_test(survives_any_flip_of_a_full_beat),
	    cmocka_unit_test(reads_a_beat_of_the_first_version),
	    cmocka_unit_test(blocks_are_as_many_as_groups),
	    cmocka_unit_test(reads_and_writes_the_golden_rows),
	    cmocka_unit_test(samples_sets_that_hold_one_another),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
