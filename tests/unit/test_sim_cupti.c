/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <time.h>

#include <cmocka.h>

#include "foreign/cupti.h"
#include "tests/unit/sim_child.h"

struct seen {
	uint32_t kind, correlation, stream;
	uint64_t start, end, node;
	uint32_t graph;
	char name[64];
	size_t size;
};

static struct {
	struct sim_cuda cuda;
	void *lib;
	cupti_activity_next_record_fn next;
	cupti_activity_flush_all_fn flush;
	cupti_activity_enable_fn enable;
	struct seen seen[4096];
	unsigned count, requests, buffers;
	unsigned published; /* count, for a thread that does not flush */
	size_t buffer_bytes;
	bool refuse;
} t;

static uint64_t monotonic(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

static void requested(uint8_t **buffer, size_t *bytes, size_t *max)
{
	t.requests++;
	*max = 0;
	*bytes = t.refuse ? 0 : t.buffer_bytes;
	*buffer = t.refuse ? NULL : aligned_alloc(8, t.buffer_bytes);
}

static void completed(void *ctx, uint32_t stream, uint8_t *buffer, size_t bytes, size_t valid)
{
	uint8_t *previous = NULL;
	void *record = NULL;

	t.buffers++;
	while (t.next(buffer, valid, &record) == CUPTI_OK && t.count < 4096) {
		struct seen *s = &t.seen[t.count++];
		cupti_kernel *k = record;

		if (previous && t.count > 1)
			s[-1].size = (size_t)((uint8_t *)record - previous);
		previous = record;
		s->kind = k->kind;
		if (k->kind == CUPTI_KIND_GRAPH_TRACE) {
			s->correlation = ((uint32_t *)record)[1];
			continue;
		}
		s->start = k->start;
		s->end = k->end;
		if (k->kind == CUPTI_KIND_CONCURRENT_KERNEL) {
			s->correlation = k->correlation;
			s->stream = k->stream;
			s->node = k->graph_node_id;
			s->graph = k->graph_id;
			snprintf(s->name, sizeof(s->name), "%s", k->name);
			EXPECT(k->grid[0] == 3 && k->grid[1] == 2 && k->block[0] == 128);
			EXPECT(k->shared_dynamic_bytes == 64);
		} else {
			cupti_memcpy *m = record;

			s->start = m->start;
			s->end = m->end;
			s->correlation = m->correlation;
			s->stream = m->stream;
		}
	}
	__atomic_store_n(&t.published, t.count, __ATOMIC_RELEASE);
	free(buffer);
}

static void begin(const char *library)
{
	t.buffer_bytes = 65536;
	sim_cuda_open(&t.cuda, 0);
	t.lib = sim_library(library);
	*(void **)&t.next = sim_symbol(t.lib, "cuptiActivityGetNextRecord");
	*(void **)&t.flush = sim_symbol(t.lib, "cuptiActivityFlushAll");
	*(void **)&t.enable = sim_symbol(t.lib, "cuptiActivityEnable");
	EXPECT(SIM_CALL(t.lib, cupti_activity_register_callbacks_fn,
			"cuptiActivityRegisterCallbacks")(requested, completed) == 0);
	if (dlsym(t.lib, "cuptiActivityRegisterTimestampCallback"))
		EXPECT(SIM_CALL(t.lib, cupti_timestamp_callback_fn,
				"cuptiActivityRegisterTimestampCallback")(monotonic) == 0);
	EXPECT(t.enable(CUPTI_KIND_CONCURRENT_KERNEL) == 0);
	EXPECT(t.enable(CUPTI_KIND_MEMCPY) == 0);
}

static void run_kernels(unsigned n)
{
	cu_function f = sim_kernel(&t.cuda, "some_kernel(float*)");

	for (unsigned i = 0; i < n; i++)
		sim_launch(&t.cuda, f, 20000, NULL);
	EXPECT(t.cuda.ctx_sync() == 0);
}

static void records_are_in_order(void *arg)
{
	uint64_t before, after;

	begin("libcupti.so.13");
	before = monotonic();
	run_kernels(50);
	after = monotonic();
	EXPECT(t.flush(0) == 0);
	EXPECT(t.count == 50);
	EXPECT(t.requests >= 1);
	for (unsigned i = 0; i < 50; i++) {
		EXPECT(!strcmp(t.seen[i].name, "some_kernel(float*)"));
		EXPECT(t.seen[i].end - t.seen[i].start >= 19990 &&
		       t.seen[i].end - t.seen[i].start <= 20010);
		EXPECT(t.seen[i].stream == 7);
		EXPECT(t.seen[i].start + 100000 > before && t.seen[i].end < after + 100000);
		if (i) {
			EXPECT(t.seen[i].correlation > t.seen[i - 1].correlation);
			EXPECT(t.seen[i].start >= t.seen[i - 1].end);
		}
	}
}

static void copies_share_the_correlation_sequence(void *arg)
{
	cu_result (*alloc)(cu_deviceptr *, size_t);
	cu_result (*copy)(cu_deviceptr, const void *, size_t, cu_stream);
	cu_result (*back)(void *, cu_deviceptr, size_t);
	cu_function f;
	cu_deviceptr d;
	char data[64] = "what goes in", out[64] = "";

	begin("libcupti.so.13");
	*(void **)&alloc = sim_symbol(t.cuda.lib, "cuMemAlloc_v2");
	*(void **)&copy = sim_symbol(t.cuda.lib, "cuMemcpyHtoDAsync_v2");
	*(void **)&back = sim_symbol(t.cuda.lib, "cuMemcpyDtoH_v2");
	f = sim_kernel(&t.cuda, "k");
	EXPECT(alloc(&d, 64) == 0);
	EXPECT(copy(d, data, 64, NULL) == 0);
	sim_launch(&t.cuda, f, 5000, NULL);
	EXPECT(back(out, d, 64) == 0);
	EXPECT(!strcmp(out, "what goes in"));
	EXPECT(t.flush(0) == 0);
	EXPECT(t.count == 3);
	EXPECT(t.seen[0].kind == CUPTI_KIND_MEMCPY && t.seen[2].kind == CUPTI_KIND_MEMCPY);
	EXPECT(t.seen[0].correlation < t.seen[1].correlation);
	EXPECT(t.seen[1].correlation < t.seen[2].correlation);
}

static void layout_has_the_size(void *arg)
{
	static const size_t sizes[] = {160, 168, 176, 200, 208, 216};
	int version = *(int *)arg;
	char text[8];

	snprintf(text, sizeof(text), "%d", version);
	setenv("SIM_CUPTI_KERNEL_VERSION", text, 1);
	begin("libcupti.so.13");
	run_kernels(4);
	EXPECT(t.flush(0) == 0);
	EXPECT(t.count == 4);
	EXPECT(t.seen[0].size == sizes[version - 5]);
	EXPECT(t.seen[3].correlation > 0 && t.seen[3].end > t.seen[3].start);
}

static void zero_and_reversed(void *arg)
{
	unsigned zero = 0, reversed = 0;

	setenv("SIM_CUPTI_ZERO_EVERY", "10", 1);
	setenv("SIM_CUPTI_REVERSE_EVERY", "7", 1);
	begin("libcupti.so.13");
	run_kernels(70);
	EXPECT(t.flush(0) == 0);
	EXPECT(t.count == 70);
	for (unsigned i = 0; i < 70; i++) {
		zero += !t.seen[i].start && !t.seen[i].end;
		reversed += t.seen[i].start > t.seen[i].end;
	}
	EXPECT(zero == 7 && reversed == 9);
}

static size_t dropped(void)
{
	size_t n = 0;

	EXPECT(SIM_CALL(t.lib, cupti_activity_dropped_fn,
			"cuptiActivityGetNumDroppedRecords")(NULL, 0, &n) == 0);
	return n;
}

static void refused_buffers_drop(void *arg)
{
	begin("libcupti.so.13");
	t.refuse = true;
	run_kernels(30);
	EXPECT(t.flush(0) == 0);
	EXPECT(t.count == 0);
	EXPECT(dropped() == 30);
	EXPECT(dropped() == 0);
	t.refuse = false;
	run_kernels(5);
	EXPECT(t.flush(0) == 0);
	EXPECT(t.count == 5);
}

static void small_buffers_come_full(void *arg)
{
	begin("libcupti.so.13");
	t.buffer_bytes = 1024; /* four records of 216 bytes */
	run_kernels(41);
	EXPECT(t.flush(0) == 0);
	EXPECT(t.count == 41);
	EXPECT(t.buffers == 11);
}

static void forced_flush(void *arg)
{
	struct timespec ms = {.tv_nsec = 5000000};
	cu_function f;

	begin("libcupti.so.13");
	f = sim_kernel(&t.cuda, "long");
	sim_launch(&t.cuda, f, 60000000, NULL);
	nanosleep(&ms, NULL);
	EXPECT(t.flush(0) == 0);
	EXPECT(t.count == 0);
	EXPECT(t.flush(CUPTI_FLUSH_FORCED) == 0);
	EXPECT(t.count == 1 && t.seen[0].start && t.seen[0].end == 0);
	EXPECT(t.cuda.ctx_sync() == 0);
	EXPECT(t.flush(0) == 0);
	EXPECT(t.count == 1);
}

static void graphs(void *arg)
{
	cu_result (*capture)(cu_stream, int), (*end)(cu_stream, cu_graph *);
	cu_result (*make)(cu_graph_exec *, cu_graph, unsigned long long);
	cu_graph_launch_fn launch;
	cu_graph_exec e;
	cu_stream s;
	cu_graph g;
	cu_function f;

	begin("libcupti.so.13");
	f = sim_kernel(&t.cuda, "node");
	*(void **)&capture = sim_symbol(t.cuda.lib, "cuStreamBeginCapture_v2");
	*(void **)&end = sim_symbol(t.cuda.lib, "cuStreamEndCapture");
	*(void **)&make = sim_symbol(t.cuda.lib, "cuGraphInstantiateWithFlags");
	*(void **)&launch = sim_symbol(t.cuda.lib, "cuGraphLaunch");
	EXPECT(t.cuda.stream_create(&s, 1) == 0);
	EXPECT(capture(s, 0) == 0);
	for (int i = 0; i < 5; i++)
		sim_launch(&t.cuda, f, 10000, s);
	EXPECT(end(s, &g) == 0 && g);
	EXPECT(make(&e, g, 0) == 0);
	EXPECT(launch(e, s) == 0 && launch(e, s) == 0);
	EXPECT(t.cuda.stream_sync(s) == 0);
	EXPECT(t.flush(0) == 0);
	EXPECT(t.count == 10);
	for (int i = 0; i < 10; i++) {
		EXPECT(t.seen[i].graph && t.seen[i].node);
		EXPECT(t.seen[i].node == t.seen[i % 5].node);
		EXPECT(t.seen[i].correlation == t.seen[i / 5 * 5].correlation);
		EXPECT(!i || t.seen[i].start >= t.seen[i - 1].end);
	}
	EXPECT(t.seen[0].correlation != t.seen[5].correlation);
	t.count = 0;
	EXPECT(t.enable(CUPTI_KIND_GRAPH_TRACE) == 0);
	EXPECT(launch(e, s) == 0);
	EXPECT(t.cuda.stream_sync(s) == 0);
	EXPECT(t.flush(0) == 0);
	EXPECT(t.count == 1 && t.seen[0].kind == CUPTI_KIND_GRAPH_TRACE);
}

static void one_subscriber(void *arg)
{
	cupti_subscriber a, b;
	cupti_subscribe_fn subscribe;
	cupti_unsubscribe_fn unsubscribe;

	begin("libcupti.so.13");
	*(void **)&subscribe = sim_symbol(t.lib, "cuptiSubscribe");
	*(void **)&unsubscribe = sim_symbol(t.lib, "cuptiUnsubscribe");
	EXPECT(subscribe(&a, NULL, NULL) == CUPTI_OK);
	EXPECT(subscribe(&b, NULL, NULL) == CUPTI_MULTIPLE_SUBSCRIBERS);
	EXPECT(unsubscribe(a) == CUPTI_OK);
	EXPECT(subscribe(&b, NULL, NULL) == CUPTI_OK);
}

static void the_older_library(void *arg)
{
	begin("libcupti.so.12");
	EXPECT(!dlsym(t.lib, "cuptiSubscribe_v2"));
	EXPECT(!dlsym(t.lib, "cuptiActivityRegisterTimestampCallback"));
	run_kernels(3);
	EXPECT(t.flush(0) == 0);
	EXPECT(t.count == 3 && t.seen[0].size == 208);
	/* The default clock is the real-time one. */
	EXPECT(t.seen[0].start > 1000000000ull * 1000000000ull);
}

static void delivered_without_a_flush(void *arg)
{
	struct timespec ms = {.tv_nsec = 2000000};

	begin("libcupti.so.13");
	t.buffer_bytes = 1024;
	run_kernels(100);
	/* The worker fills and hands over buffers by itself. */
	for (int i = 0; i < 1000 && __atomic_load_n(&t.published, __ATOMIC_ACQUIRE) < 90; i++)
		nanosleep(&ms, NULL);
	EXPECT(__atomic_load_n(&t.published, __ATOMIC_ACQUIRE) >= 90);
}

#define CASE(name, fn)                                                                             \
	static void name(void **state)                                                             \
	{                                                                                          \
		assert_int_equal(sim_child(fn, NULL), 0);                                          \
	}
CASE(kernel_records_come_in_stream_order, records_are_in_order)
CASE(kernels_and_copies_share_one_correlation_sequence, copies_share_the_correlation_sequence)
CASE(zeroed_and_reversed_stamps_come_as_often_as_asked, zero_and_reversed)
CASE(refused_buffers_count_as_dropped_records, refused_buffers_drop)
CASE(full_buffers_are_delivered_and_replaced, small_buffers_come_full)
CASE(a_forced_flush_gives_running_kernels_once_with_end_zero, forced_flush)
CASE(a_graph_gives_a_record_per_node_or_one_per_launch, graphs)
CASE(a_second_subscriber_gets_error_39, one_subscriber)
CASE(the_older_library_lacks_newer_symbols, the_older_library)
CASE(a_worker_delivers_without_a_flush, delivered_without_a_flush)

static void every_record_layout_has_its_size(void **state)
{
	for (int v = 5; v <= 10; v++)
		assert_int_equal(sim_child(layout_has_the_size, &v), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(kernel_records_come_in_stream_order),
	    cmocka_unit_test(kernels_and_copies_share_one_correlation_sequence),
	    cmocka_unit_test(every_record_layout_has_its_size),
	    cmocka_unit_test(zeroed_and_reversed_stamps_come_as_often_as_asked),
	    cmocka_unit_test(refused_buffers_count_as_dropped_records),
	    cmocka_unit_test(full_buffers_are_delivered_and_replaced),
	    cmocka_unit_test(a_forced_flush_gives_running_kernels_once_with_end_zero),
	    cmocka_unit_test(a_graph_gives_a_record_per_node_or_one_per_launch),
	    cmocka_unit_test(a_second_subscriber_gets_error_39),
	    cmocka_unit_test(the_older_library_lacks_newer_symbols),
	    cmocka_unit_test(a_worker_delivers_without_a_flush),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
