/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <time.h>

#include <cmocka.h>

#include "tests/unit/sim_child.h"

#define MS 1000000ull

static struct sim_cuda cuda;
static cu_function kernel;

static void begin(void)
{
	sim_cuda_open(&cuda, 0);
	kernel = sim_kernel(&cuda, "kernel");
}

static cu_event mark(cu_stream s)
{
	cu_event e;

	EXPECT(cuda.event_create(&e, 0) == 0);
	EXPECT(cuda.event_record(e, s) == 0);
	return e;
}

/* Milliseconds from a to b, once both are over. */
static float between(cu_event a, cu_event b)
{
	float ms;

	EXPECT(cuda.event_sync(a) == 0 && cuda.event_sync(b) == 0);
	EXPECT(cuda.event_elapsed(&ms, a, b) == 0);
	return ms;
}

static void one_stream(void *arg)
{
	cu_stream s;
	cu_event a, b, c;

	begin();
	EXPECT(cuda.stream_create(&s, 1) == 0);
	a = mark(s);
	sim_launch(&cuda, kernel, 200 * MS, s);
	b = mark(s);
	sim_launch(&cuda, kernel, 5 * MS, s);
	c = mark(s);
	EXPECT(cuda.stream_query(s) == CU_NOT_READY);
	EXPECT(between(a, b) >= 199.9f);
	EXPECT(between(b, c) >= 4.99f);
	EXPECT(cuda.stream_query(s) == CU_OK);
}

static void two_streams(void *arg)
{
	cu_stream s, t;
	cu_event b, c, d;

	begin();
	EXPECT(cuda.stream_create(&s, 1) == 0 && cuda.stream_create(&t, 1) == 0);
	sim_launch(&cuda, kernel, 200 * MS, s);
	b = mark(s);
	sim_launch(&cuda, kernel, 4 * MS, t);
	c = mark(t);
	EXPECT(cuda.wait_event(t, b, 0) == 0);
	sim_launch(&cuda, kernel, 3 * MS, t);
	d = mark(t);
	EXPECT(between(c, b) > 0);	/* side by side */
	EXPECT(between(b, d) >= 2.99f); /* after the event */
}

static void legacy_stream(void *arg)
{
	cu_stream blocking, other;
	cu_event a, b, c, d;

	begin();
	EXPECT(cuda.stream_create(&blocking, 0) == 0 && cuda.stream_create(&other, 1) == 0);
	a = mark(blocking);
	sim_launch(&cuda, kernel, 200 * MS, blocking);
	sim_launch(&cuda, kernel, 2 * MS, NULL);
	b = mark(NULL);
	sim_launch(&cuda, kernel, 1 * MS, other);
	c = mark(other);
	sim_launch(&cuda, kernel, 1 * MS, blocking);
	d = mark(blocking);
	EXPECT(between(a, b) >= 201.9f); /* the default stream waits for blocking ones */
	EXPECT(between(c, b) > 0);	 /* but others do not wait for it */
	EXPECT(between(b, d) >= 0.99f);	 /* and they wait for it */
}

static cu_event per_thread_mark(void)
{
	cu_result (*record)(cu_event, cu_stream);
	cu_event e;

	*(void **)&record = sim_symbol(cuda.lib, "cuEventRecord_ptsz");
	EXPECT(cuda.event_create(&e, 0) == 0);
	EXPECT(record(e, NULL) == 0);
	return e;
}

struct thread_marks {
	cu_event first, last;
};

static void *thread_main(void *arg)
{
	struct thread_marks *m = arg;
	uint64_t ns = 10 * MS;
	void *params[] = {&ns};

	EXPECT(SIM_CALL(cuda.lib, cu_result(*)(cu_context), "cuCtxSetCurrent")(cuda.context) == 0);
	m->first = per_thread_mark();
	EXPECT(cuda.launch_ptsz(kernel, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL) == 0);
	m->last = per_thread_mark();
	/* The stream lives as long as its thread and its work. */
	EXPECT(cuda.event_sync(m->last) == 0);
	return NULL;
}

static void per_thread(void *arg)
{
	struct thread_marks m[2];
	pthread_t t[2];

	begin();
	for (int i = 0; i < 2; i++)
		EXPECT(pthread_create(&t[i], NULL, thread_main, &m[i]) == 0);
	for (int i = 0; i < 2; i++)
		EXPECT(pthread_join(t[i], NULL) == 0);
	EXPECT(between(m[0].first, m[0].last) >= 9.99f);
	EXPECT(between(m[1].first, m[1].last) >= 9.99f);
}

static void look_up(void *arg)
{
	cu_get_proc_address_v1_fn v1;
	cu_get_proc_address_v2_fn v2;
	void *fn, *other;
	int q;

	begin();
	*(void **)&v1 = sim_symbol(cuda.lib, "cuGetProcAddress");
	*(void **)&v2 = sim_symbol(cuda.lib, "cuGetProcAddress_v2");
	EXPECT(v2("cuGetProcAddress", &fn, 11030, 0, &q) == 0 && fn == (void *)v1);
	EXPECT(v2("cuGetProcAddress", &fn, 12000, 0, &q) == 0 && fn == (void *)v2);
	EXPECT(v2("cuLaunchKernel", &fn, 4000, 0, &q) == 0 && fn == (void *)cuda.launch);
	EXPECT(v2("cuLaunchKernel", &fn, 7000, CU_GPA_PTSZ, &q) == 0);
	EXPECT(fn == (void *)cuda.launch_ptsz);
	EXPECT(v2("cuMemAlloc", &fn, 13000, 0, &q) == 0);
	EXPECT(fn == sim_symbol(cuda.lib, "cuMemAlloc_v2"));
	/* No per-thread twin: the plain one. */
	EXPECT(v2("cuMemAlloc", &other, 13000, CU_GPA_PTSZ, &q) == 0 && other == fn);
	EXPECT(v2("", &fn, 13000, 0, &q) == 0 && !fn && q == CU_GPA_SYMBOL_NOT_FOUND);
	EXPECT(v2("cuGLGetDevices", &fn, 13000, 0, &q) == 0 && !fn);
	EXPECT(q == CU_GPA_SYMBOL_NOT_FOUND);
	EXPECT(v2("cuLaunchKernelEx", &fn, 11000, 0, &q) == 0 && !fn);
	EXPECT(q == CU_GPA_VERSION_INSUFFICIENT);
	EXPECT(v2("cuInit", &fn, 99000, 0, &q) == CU_INVALID_VALUE);
	EXPECT(v1("cuNoSuchThing", &fn, 12000, 0) == CU_NOT_FOUND && !fn);
	EXPECT(v2("cuStreamBeginCapture", &fn, 10010, CU_GPA_PTSZ, NULL) == 0);
	EXPECT(fn == sim_symbol(cuda.lib, "cuStreamBeginCapture_v2_ptsz"));
}

static void bounded_queue(void *arg)
{
	struct timespec a, b;

	begin();
	clock_gettime(CLOCK_MONOTONIC, &a);
	for (int i = 0; i < 1200; i++)
		sim_launch(&cuda, kernel, 100000, NULL);
	clock_gettime(CLOCK_MONOTONIC, &b);
	/* 176 of 100 us had to end before the last launch got in. */
	EXPECT((b.tv_sec - a.tv_sec) * 1000000000ll + b.tv_nsec - a.tv_nsec >= 17000000);
	EXPECT(cuda.ctx_sync() == 0);
}

static int host_calls;

static void host_function(void *arg)
{
	EXPECT(host_calls == *(int *)arg);
	host_calls++;
}

static void host_functions(void *arg)
{
	cu_result (*host)(cu_stream, void (*)(void *), void *);
	static int order[3] = {0, 1, 2};
	cu_stream s;

	begin();
	*(void **)&host = sim_symbol(cuda.lib, "cuLaunchHostFunc");
	EXPECT(cuda.stream_create(&s, 1) == 0);
	for (int i = 0; i < 3; i++) {
		sim_launch(&cuda, kernel, 2 * MS, s);
		EXPECT(host(s, host_function, &order[i]) == 0);
	}
	sim_launch(&cuda, kernel, 1 * MS, s);
	EXPECT(cuda.stream_sync(s) == 0);
	EXPECT(host_calls == 3);
}

static void forked(void *arg)
{
	pid_t pid;
	int status;

	begin();
	sim_launch(&cuda, kernel, 1 * MS, NULL);
	pid = fork();
	if (pid == 0) {
		uint64_t ns = 1;
		void *params[] = {&ns};

		_exit(cuda.launch(kernel, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL) !=
		      CU_NOT_INITIALIZED);
	}
	EXPECT(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
	EXPECT(cuda.ctx_sync() == 0);
}

static void misuse(void *arg)
{
	uint64_t ns = 1;
	void *params[] = {&ns};
	const char *name;
	const void *table;

	begin();
	EXPECT(cuda.launch(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL) == CU_INVALID_HANDLE);
	EXPECT(cuda.launch(kernel, 0, 1, 1, 1, 1, 1, 0, NULL, params, NULL) == CU_INVALID_VALUE);
	EXPECT(SIM_CALL(cuda.lib, cu_result(*)(const void **, const void *),
			"cuGetExportTable")(&table, "0123456789abcdef") == CU_NOT_FOUND);
	EXPECT(SIM_CALL(cuda.lib, cu_result(*)(const char **, cu_function),
			"cuFuncGetName")(&name, kernel) == 0 &&
	       !strcmp(name, "kernel"));
	EXPECT(SIM_CALL(cuda.lib, cu_result(*)(cu_context), "cuCtxSetCurrent")(NULL) == 0);
	EXPECT(cuda.launch(kernel, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL) == CU_INVALID_CONTEXT);
}

static void nvml_file(void *arg)
{
	char path[] = "/tmp/sim_nvml_XXXXXX", uuid[96];
	struct timespec ms = {.tv_nsec = 20000000};
	cu_result (*handle)(unsigned, void **), (*init)(void);
	cu_result (*clock_of)(void *, int, unsigned *);
	cu_result (*why)(void *, unsigned long long *);
	cu_result (*uuid_of)(void *, char *, unsigned);
	unsigned mhz;
	unsigned long long reasons;
	void *lib = sim_library("libnvidia-ml.so.1"), *dev;
	int fd = mkstemp(path);

	EXPECT(fd >= 0);
	setenv("SIM_NVML_FILE", path, 1);
	*(void **)&init = sim_symbol(lib, "nvmlInit_v2");
	*(void **)&handle = sim_symbol(lib, "nvmlDeviceGetHandleByIndex_v2");
	*(void **)&clock_of = sim_symbol(lib, "nvmlDeviceGetClockInfo");
	*(void **)&why = sim_symbol(lib, "nvmlDeviceGetCurrentClocksThrottleReasons");
	*(void **)&uuid_of = sim_symbol(lib, "nvmlDeviceGetUUID");
	EXPECT(handle(0, &dev) == 1); /* not initialised */
	EXPECT(init() == 0 && handle(3, &dev) == 0);
	EXPECT(uuid_of(dev, uuid, sizeof(uuid)) == 0);
	EXPECT(!strcmp(uuid, "GPU-53494d47-5055-0000-0000-000000000003"));
	EXPECT(clock_of(dev, 1, &mhz) == 0 && mhz == 1980);
	nanosleep(&ms, NULL);
	EXPECT(write(fd, "3.sm_clock_mhz 1200\nthrottle 0x40\n", 34) == 34);
	EXPECT(clock_of(dev, 1, &mhz) == 0 && mhz == 1200);
	EXPECT(why(dev, &reasons) == 0 && reasons == 0x40);
	EXPECT(handle(2, &dev) == 0 && clock_of(dev, 1, &mhz) == 0 && mhz == 1980);
	unlink(path);
}

static void clock_down(void *arg)
{
	char path[] = "/tmp/sim_clock_XXXXXX";
	struct timespec ms = {.tv_nsec = 80000000};
	int fd = mkstemp(path);
	cu_event a, b, c, d;
	cu_stream s;

	EXPECT(fd >= 0 && write(fd, "1.sm_clock_mhz 660\n", 19) == 19);
	setenv("SIM_NVML_FILE", path, 1);
	begin();
	EXPECT(cuda.stream_create(&s, 1) == 0);
	a = mark(s);
	sim_launch(&cuda, kernel, 60 * MS, s);
	b = mark(s);
	EXPECT(between(a, b) >= 59.9f && between(a, b) < 119); /* another device's clock */
	EXPECT(write(fd, "0.sm_clock_mhz 660\n", 19) == 19);
	nanosleep(&ms, NULL);
	c = mark(s);
	sim_launch(&cuda, kernel, 60 * MS, s);
	d = mark(s);
	EXPECT(between(c, d) >= 179.9f); /* a third of 1,980 MHz */
	unlink(path);
}

#define CASE(name, fn)                                                                             \
	static void name(void **state)                                                             \
	{                                                                                          \
		assert_int_equal(sim_child(fn, NULL), 0);                                          \
	}
CASE(a_stream_runs_its_work_in_order, one_stream)
CASE(streams_run_side_by_side_unless_an_event_orders_them, two_streams)
CASE(the_legacy_stream_waits_for_blocking_streams_both_ways, legacy_stream)
CASE(per_thread_streams_belong_to_their_threads, per_thread)
CASE(look_ups_follow_version_flags_and_absence, look_up)
CASE(a_launch_blocks_on_a_full_queue, bounded_queue)
CASE(host_functions_run_in_stream_order, host_functions)
CASE(a_forked_child_has_no_gpu, forked)
CASE(misuse_returns_the_drivers_errors, misuse)
CASE(nvml_follows_its_file, nvml_file)
CASE(a_clock_that_is_down_slows_kernels, clock_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_stream_runs_its_work_in_order),
	    cmocka_unit_test(streams_run_side_by_side_unless_an_event_orders_them),
	    cmocka_unit_test(the_legacy_stream_waits_for_blocking_streams_both_ways),
	    cmocka_unit_test(per_thread_streams_belong_to_their_threads),
	    cmocka_unit_test(look_ups_follow_version_flags_and_absence),
	    cmocka_unit_test(a_launch_blocks_on_a_full_queue),
	    cmocka_unit_test(host_functions_run_in_stream_order),
	    cmocka_unit_test(a_forked_child_has_no_gpu),
	    cmocka_unit_test(misuse_returns_the_drivers_errors),
	    cmocka_unit_test(nvml_follows_its_file),
	    cmocka_unit_test(a_clock_that_is_down_slows_kernels),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
