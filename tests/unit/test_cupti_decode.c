/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cupti/cupti_decode.h"

static const size_t kernel_bytes[] = {CUPTI_KERNEL5_BYTES, CUPTI_KERNEL6_BYTES,
				      CUPTI_KERNEL7_BYTES, CUPTI_KERNEL8_BYTES,
				      CUPTI_KERNEL9_BYTES, CUPTI_KERNEL10_BYTES};

/* A record of any version: the common part, then bytes that must not be looked at. */
static void make_kernel(uint8_t *record, size_t bytes, uint64_t start, uint64_t end)
{
	cupti_kernel k = {.kind = CUPTI_KIND_CONCURRENT_KERNEL,
			  .registers = 64,
			  .start = start,
			  .end = end,
			  .device = 3,
			  .context = 4,
			  .stream = 7,
			  .grid = {10, 20, 30},
			  .block = {256, 2, 1},
			  .shared_static_bytes = 100,
			  .shared_dynamic_bytes = 200,
			  .correlation = 99,
			  .name = "gemm",
			  .graph_node_id = 5,
			  .graph_id = 6};

	memset(record, 0xee, bytes);
	memcpy(record, &k, sizeof(k));
}

static void decodes_kernel_records_of_every_version_alike(void **state)
{
	for (size_t i = 0; i < sizeof(kernel_bytes) / sizeof(kernel_bytes[0]); i++) {
		uint8_t record[256];
		union cupti_decode_event e;
		const char *name;

		make_kernel(record, kernel_bytes[i], 1000, 3000);
		assert_int_equal(cupti_decode_record(record, &e, &name), CUPTI_DECODE_KERNEL);
		assert_int_equal(e.head.kind, EVENT_KERNEL);
		assert_int_equal(e.head.t, 1000);
		assert_int_equal(e.kernel.end, 3000);
		assert_int_equal(e.kernel.device, 3);
		assert_int_equal(e.kernel.context_id, 4);
		assert_int_equal(e.kernel.stream_id, 7);
		assert_int_equal(e.kernel.grid[2], 30);
		assert_int_equal(e.kernel.block[0], 256);
		assert_int_equal(e.kernel.registers, 64);
		assert_int_equal(e.kernel.shared_static_bytes, 100);
		assert_int_equal(e.kernel.shared_dynamic_bytes, 200);
		assert_int_equal(e.kernel.correlation, 99);
		assert_int_equal(e.kernel.graph_node_id, 5);
		assert_int_equal(e.kernel.graph_id, 6);
		assert_int_equal(e.head.flags, EVENT_FLAG_GRAPH_NODE);
		assert_string_equal(name, "gemm");
	}
}

static void decodes_a_whole_graph_launch_of_both_versions(void **state)
{
	for (size_t bytes = 48; bytes <= 56; bytes += 8) {
		cupti_graph_trace g = {.kind = CUPTI_KIND_GRAPH_TRACE,
				       .correlation = 7,
				       .start = 1000,
				       .end = 5000,
				       .device = 1,
				       .graph_id = 3,
				       .context = 4,
				       .stream = 9};
		union cupti_decode_event e;
		uint8_t record[56];
		const char *name;

		memset(record, 0xee, sizeof(record));
		memcpy(record, &g, sizeof(g));
		assert_int_equal(cupti_decode_record(record, &e, &name), CUPTI_DECODE_GRAPH);
		assert_int_equal(e.head.kind, EVENT_GRAPH_EXEC);
		assert_int_equal(e.head.t, 1000);
		assert_int_equal(e.kernel.end, 5000);
		assert_int_equal(e.kernel.correlation, 7);
		assert_int_equal(e.kernel.device, 1);
		assert_int_equal(e.kernel.graph_id, 3);
		assert_int_equal(e.kernel.context_id, 4);
		assert_int_equal(e.kernel.stream_id, 9);
		assert_null(name);
		((cupti_graph_trace *)record)->end = 0;
		assert_int_equal(cupti_decode_record(record, &e, &name), CUPTI_DECODE_PARTIAL);
	}
}

static enum cupti_decode_result stamped(uint64_t start, uint64_t end)
{
	uint8_t record[CUPTI_KERNEL10_BYTES];
	union cupti_decode_event e;
	const char *name;

	make_kernel(record, sizeof(record), start, end);
	return cupti_decode_record(record, &e, &name);
}

static void names_the_cause_of_a_useless_stamp(void **state)
{
	assert_int_equal(stamped(0, 0), CUPTI_DECODE_ZERO_STAMP);
	assert_int_equal(stamped(0, 5), CUPTI_DECODE_ZERO_STAMP);
	assert_int_equal(stamped(5, 0), CUPTI_DECODE_PARTIAL);
	assert_int_equal(stamped(6, 5), CUPTI_DECODE_REVERSED);
	assert_int_equal(stamped(5, 5), CUPTI_DECODE_KERNEL);
}

static void decodes_copies(void **state)
{
	cupti_memcpy m = {.kind = CUPTI_KIND_MEMCPY,
			  .copy_kind = 1,
			  .src_kind = 2,
			  .dst_kind = 3,
			  .bytes = 1 << 20,
			  .start = 7,
			  .end = 9,
			  .device = 1,
			  .context = 2,
			  .stream = 3,
			  .correlation = 4};
	union cupti_decode_event e;
	const char *name = "x";

	assert_int_equal(cupti_decode_record(&m, &e, &name), CUPTI_DECODE_COPY);
	assert_null(name);
	assert_int_equal(e.head.kind, EVENT_COPY);
	assert_int_equal(e.copy.bytes, 1 << 20);
	assert_int_equal(e.copy.copy_kind, 1);
	assert_int_equal(e.copy.dst_kind, 3);
	assert_int_equal(e.copy.end, 9);
	assert_int_equal(e.head.flags, 0);
}

static void decodes_copies_between_gpus(void **state)
{
	cupti_memcpy_peer m = {.kind = CUPTI_KIND_MEMCPY2,
			       .copy_kind = CUPTI_COPY_PEER,
			       .bytes = 1 << 20,
			       .start = 7,
			       .end = 9,
			       .device = 1,
			       .context = 2,
			       .stream = 3,
			       .src_device = 1,
			       .dst_device = 4,
			       .correlation = 5,
			       .graph_node_id = 6};
	union cupti_decode_event e;
	const char *name = "x";

	assert_int_equal(cupti_decode_record(&m, &e, &name), CUPTI_DECODE_COPY);
	assert_null(name);
	assert_int_equal(e.head.kind, EVENT_COPY);
	assert_int_equal(e.copy.bytes, 1 << 20);
	assert_int_equal(e.copy.copy_kind, CUPTI_COPY_PEER);
	assert_int_equal(e.copy.device, 1);
	assert_int_equal(e.copy.stream_id, 3);
	assert_int_equal(e.copy.correlation, 5);
	assert_int_equal(e.head.flags, EVENT_FLAG_GRAPH_NODE);
}

static void refuses_kinds_that_it_does_not_know(void **state)
{
	uint64_t record[32] = {CUPTI_KIND_MEMSET};
	union cupti_decode_event e;
	const char *name;

	assert_int_equal(cupti_decode_record(record, &e, &name), CUPTI_DECODE_UNKNOWN);
	record[0] = 0;
	assert_int_equal(cupti_decode_record(record, &e, &name), CUPTI_DECODE_UNKNOWN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(decodes_kernel_records_of_every_version_alike),
	    cmocka_unit_test(decodes_a_whole_graph_launch_of_both_versions),
	    cmocka_unit_test(names_the_cause_of_a_useless_stamp),
	    cmocka_unit_test(decodes_copies),
	    cmocka_unit_test(decodes_copies_between_gpus),
	    cmocka_unit_test(refuses_kinds_that_it_does_not_know),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
