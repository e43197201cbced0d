/* SPDX-License-Identifier: Apache-2.0
 * One window as bytes, written down: what version 1 wrote must stay readable, and what is written now
 * must be the same (up to zstd's own choices, so packed fields are compared unpacked).
 * WIRE_GOLDEN_PRINT=1 prints the bytes of today's writer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/limits.h"
#include "wire/codec_internal.h"
#include "wire/pack.h"

static const uint8_t golden[] = {
#include "tests/unit/test_wire_golden.inc"
};

#define ROWS 6
static struct record host[ROWS], device[ROWS];
static struct window_step steps[2];
static char *names[] = {"", "gemm", "ncclDevKernel_AllReduce_Sum_f32"};

static void fill_rows(void)
{
	for (uint32_t i = 0; i < ROWS; i++) {
		bool coll = i % 3 == 2;

		memset(&host[i], 0, sizeof(host[i]));
		host[i].kind = coll ? RECORD_COLL : RECORD_LAUNCH;
		host[i].begin_ns = 5000000000000 + 10007 * i;
		host[i].end_ns = host[i].begin_ns + 3000 + i;
		host[i].name = coll ? 2 : 1;
		host[i].thread = 4242;
		host[i].stream = 7;
		host[i].correlation = 100 + 2 * i;
		host[i].peer = -1;
		device[i] = host[i];
		device[i].kind = coll ? RECORD_COLL_KERNEL : RECORD_KERNEL;
		device[i].thread = 0;
		device[i].begin_ns += 20000;
		device[i].end_ns = device[i].begin_ns + 9000 + 13 * i;
		device[i].launch_ns = host[i].begin_ns;
		device[i].grid[0] = 128;
		device[i].grid[1] = device[i].grid[2] = 1;
		device[i].block[0] = 256;
		device[i].block[1] = device[i].block[2] = 1;
		device[i].registers = 64;
		if (coll) {
			host[i].key = device[i].key = 0xfeedfacecafebeef;
			host[i].seq = device[i].seq = i;
			host[i].func = device[i].func = RECORD_COLL_ALL_REDUCE;
			host[i].bytes = device[i].bytes = 1 << 20;
		}
	}
	device[4].flags = RECORD_FLAG_UNMATCHED;
	device[4].launch_ns = 0;
}

static void fill_window(struct window *w)
{
	*w = (struct window){.id = "golden window 1",
			     .anomaly_id = "golden anomaly ",
			     .begin_ns = 5000000000000,
			     .end_ns = 5000000100000,
			     .realtime_offset_ns = 1700000000000000000,
			     .clock_error_ns = 50,
			     .reason = WINDOW_SELF,
			     .sequence = 3,
			     .model_state = 1,
			     .model_r2 = 0.99,
			     .model_spread = 0.01,
			     .raw_bytes = 4096,
			     .steps = steps,
			     .step_count = 2,
			     .host = host,
			     .device = device,
			     .host_count = ROWS,
			     .device_count = ROWS,
			     .names = names,
			     .name_count = 3,
			     .loss_count = 1};
	strcpy(w->rank.job, "job-1");
	strcpy(w->rank.node, "n\xc3\xb6"
			     "de");
	w->rank.rank = 3;
	w->rank.world_size = 8;
	w->rank.local_rank = -1;
	w->rank.pid = 99;
	strcpy(w->losses[0].cause, "lapped");
	w->losses[0].count = 12;
	memset(steps, 0, sizeof(steps));
	for (uint32_t i = 0; i < 2; i++) {
		steps[i].step = (struct step){.index = 10 + i,
					      .begin_ns = 5000000000000 + 50000 * i,
					      .end_ns = 5000000050000 + 50000 * i,
					      .latency_ns = 50000,
					      .self_ns = 40000,
					      .kernels = 6,
					      .work = {6, 768},
					      .work_count = 2,
					      .source = STEP_SOURCE_AUTO};
		steps[i].expected_ns = 33333.25;
		steps[i].flags = WINDOW_STEP_OUT | (i ? WINDOW_STEP_FLAGGED : 0);
	}
	fill_rows();
}

static void print(const struct buf *b)
{
	if (!getenv("WIRE_GOLDEN_PRINT"))
		return;
	for (size_t i = 0; i < b->bytes; i++)
		fprintf(stderr, "0x%02x,%s", b->data[i], i % 16 == 15 ? "\n" : " ");
	fprintf(stderr, "\n");
}

static void reads_the_golden_window(void **state)
{
	struct window w, got;

	fill_window(&w);
	assert_int_equal(wire_window_decode(golden, sizeof(golden), &got), 0);
	assert_string_equal((char *)got.id, "golden window 1");
	assert_memory_equal(&got.rank, &w.rank, sizeof(w.rank));
	assert_int_equal(got.realtime_offset_ns, w.realtime_offset_ns);
	assert_memory_equal(got.steps, steps, sizeof(steps));
	assert_memory_equal(got.host, host, sizeof(host));
	assert_memory_equal(got.device, device, sizeof(device));
	assert_string_equal(got.names[2], names[2]);
	assert_string_equal(got.losses[0].cause, "lapped");
	wire_window_free(&got);
}

static void assert_same_unpacked(const ProtobufCBinaryData *a, const ProtobufCBinaryData *b)
{
	uint8_t *x, *y;
	size_t n, m;

	assert_int_equal(pack_read(a->data, a->len, 1 << 20, &x, &n), 0);
	assert_int_equal(pack_read(b->data, b->len, 1 << 20, &y, &m), 0);
	assert_int_equal(n, m);
	assert_memory_equal(x, y, n);
	free(x);
	free(y);
}

static void writes_the_golden_window(void **state)
{
	Sysom__Wire__Envelope *old, *new;
	struct window w;
	struct buf b;

	fill_window(&w);
	buf_init(&b, LIMIT_WIRE_MESSAGE_BYTES);
	assert_int_equal(wire_window_encode(&w, &b), 0);
	print(&b);
	old = sysom__wire__envelope__unpack(NULL, sizeof(golden), golden);
	new = sysom__wire__envelope__unpack(NULL, b.bytes, b.data);
	assert_non_null(old);
	assert_non_null(new);
	assert_same_unpacked(&old->window->steps, &new->window->steps);
	assert_same_unpacked(&old->window->names, &new->window->names);
	assert_same_unpacked(&old->window->records, &new->window->records);
	/* all before the parts, which are no longer sent, is the same, byte for byte */
	assert_memory_equal(golden + 8, b.data + 8, 125);
	sysom__wire__envelope__free_unpacked(old, NULL);
	sysom__wire__envelope__free_unpacked(new, NULL);
	buf_fini(&b);
}

static void writes_the_golden_reply(void **state)
{
	static const uint8_t bytes[] = {0x08, 0x01, 0x10, 0x03, 0x2a, 0x1c, 0x08, 0x02, 0x12,
					0x10, 1,    1,	  1,	1,    1,    1,	  1,	1,
					1,    1,    1,	  1,	1,    1,    1,	  1,	0x1a,
					0x06, 'n',  'o',  't',	' ',  'y',  'o'};
	static struct wire_reply r;
	struct buf b;

	r.status = WIRE_RETRY;
	memset(r.id, 1, 16);
	strcpy(r.message, "not yo");
	buf_init(&b, 4096);
	assert_int_equal(wire_reply_encode(&r, &b), 0);
	assert_int_equal(b.bytes, sizeof(bytes));
	assert_memory_equal(b.data, bytes, sizeof(bytes));
	buf_fini(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(reads_the_golden_window),
	    cmocka_unit_test(writes_the_golden_window),
	    cmocka_unit_test(writes_the_golden_reply),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
