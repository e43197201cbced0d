/* SPDX-License-Identifier: Apache-2.0
 * rival.c - a job that profiles itself with CUPTI for a while, as torch.profiler does, over the
 * simulated GPU. Three phases of launches: before, while and after.
 * usage: rival N [finalize|share|solo|busy|alone]; share, solo: by CUPTI's versioned calls, allowing other
 * subscribers or not; busy: another thread launches all the time, deep queue, no wait between; alone:
 * the same without a profiler. Prints what its own profiler saw. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "foreign/cuda.h"
#include "foreign/cupti_v2.h"

static void *cuda, *cupti_lib;
static cu_launch_kernel_fn launch;
static cu_result (*synchronize)(void);
static cupti_activity_next_record_fn next_record;
static unsigned seen, strange, zero_clock, foreign_buffers, given, back;
static uint8_t *buffers[256];
static cupti_activity_next_record_v2_fn next_record_v2;
static cupti_subscriber subscriber;
static bool versioned;

static void sleep_ms(unsigned ms)
{
	struct timespec t = {ms / 1000, (long)(ms % 1000) * 1000000};

	nanosleep(&t, NULL);
}

static void requested(uint8_t **buffer, size_t *bytes, size_t *max)
{
	*bytes = 64 << 10;
	/* not zeroed: CUPTI must do it for us */
	*buffer = malloc(*bytes);
	memset(*buffer, 0xa5, *bytes);
	*max = 0;
	if (given < 256)
		buffers[given++] = *buffer;
}

static void completed(void *context, uint32_t stream, uint8_t *buffer, size_t bytes, size_t valid)
{
	uint64_t real = clock_realtime_ns();
	void *record = NULL;
	unsigned i = 0;

	while (i < given && buffers[i] != buffer)
		i++;
	if (i == given)
		foreign_buffers++;
	back++;
	while ((versioned ? next_record_v2(subscriber, buffer, valid, &record)
			  : next_record(buffer, valid, &record)) == CUPTI_OK) {
		const cupti_kernel *k = record;

		seen++;
		strange += k->kind != CUPTI_KIND_CONCURRENT_KERNEL;
		/* it asked for no clock of its own: CUPTI's default */
		zero_clock += k->start + 60000000000ull < real || k->start > real + 1000000000ull;
	}
	if (i < given)
		free(buffer);
}

static void requested_v2(uint8_t **buffer, size_t *bytes, size_t *max, void *info)
{
	requested(buffer, bytes, max);
}

static void completed_v2(uint8_t *buffer, size_t bytes, size_t valid, void *info)
{
	completed(NULL, 0, buffer, bytes, valid);
}

static void run(cu_function f, unsigned n)
{
	uint64_t ns = 20000;
	void *params[] = {&ns};

	for (unsigned i = 0; i < n; i++)
		launch(f, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL);
	synchronize();
	sleep_ms(30);
}

static void *get(void *lib, const char *name)
{
	void *p = dlsym(lib, name);

	if (!p) {
		fprintf(stderr, "rival: no %s\n", name);
		exit(3);
	}
	return p;
}

static cu_function start_cuda(void)
{
	cu_context context;
	cu_module module;
	cu_function f;

	cuda = dlopen("libcuda.so.1", RTLD_NOW);
	cupti_lib = dlopen("libcupti.so.13", RTLD_NOW);
	if (!cuda || !cupti_lib)
		exit(3);
	launch = (cu_launch_kernel_fn)get(cuda, "cuLaunchKernel");
	synchronize = (cu_result(*)(void))get(cuda, "cuCtxSynchronize");
	next_record = (cupti_activity_next_record_fn)get(cupti_lib, "cuptiActivityGetNextRecord");
	((cu_result(*)(unsigned))get(cuda, "cuInit"))(0);
	((cu_result(*)(cu_context *, int))get(cuda, "cuDevicePrimaryCtxRetain"))(&context, 0);
	((cu_result(*)(cu_context))get(cuda, "cuCtxSetCurrent"))(context);
	((cu_result(*)(cu_module *, const char *))get(cuda, "cuModuleLoadData"))(&module, "image");
	((cu_result(*)(cu_function *, cu_module, const char *))get(cuda, "cuModuleGetFunction"))(
	    &f, module, "test_kernel");
	return f;
}

static void profile_versioned(cu_function f, unsigned n, bool share, cupti_result *res)
{
	cupti_subscriber_params params = {.struct_bytes = sizeof(params), .share = share};

	versioned = true;
	next_record_v2 =
	    (cupti_activity_next_record_v2_fn)get(cupti_lib, "cuptiActivityGetNextRecord_v2");
	res[0] = ((cupti_subscribe_v2_fn)get(cupti_lib, "cuptiSubscribe_v2"))(&subscriber, NULL,
									      NULL, &params);
	res[1] = ((cupti_activity_register_callbacks_v2_fn)get(
	    cupti_lib, "cuptiActivityRegisterCallbacks_v2"))(subscriber, requested_v2,
							     completed_v2);
	res[2] = ((cupti_activity_enable_v2_fn)get(cupti_lib, "cuptiActivityEnable_v2"))(
	    subscriber, CUPTI_KIND_CONCURRENT_KERNEL, NULL);
	run(f, n);
	res[3] = ((cupti_activity_disable_v2_fn)get(cupti_lib, "cuptiActivityDisable_v2"))(
	    subscriber, CUPTI_KIND_CONCURRENT_KERNEL, NULL);
	((cupti_activity_flush_all_fn)get(cupti_lib, "cuptiActivityFlushAll"))(0);
	/* longer than it takes us to come back after kinds went off */
	sleep_ms(1500);
	res[4] = ((cupti_unsubscribe_fn)get(cupti_lib, "cuptiUnsubscribe"))(subscriber);
}

static void profile(cu_function f, unsigned n, cupti_result *res)
{
	cupti_subscriber s = NULL;

	res[0] = ((cupti_subscribe_fn)get(cupti_lib, "cuptiSubscribe"))(&s, NULL, NULL);
	res[1] = ((cupti_activity_register_callbacks_fn)get(
	    cupti_lib, "cuptiActivityRegisterCallbacks"))(requested, completed);
	res[2] = ((cupti_activity_enable_fn)get(cupti_lib, "cuptiActivityEnable"))(
	    CUPTI_KIND_CONCURRENT_KERNEL);
	run(f, n);
	res[3] = ((cupti_activity_disable_fn)get(cupti_lib, "cuptiActivityDisable"))(
	    CUPTI_KIND_CONCURRENT_KERNEL);
	((cupti_activity_flush_all_fn)get(cupti_lib, "cuptiActivityFlushAll"))(0);
	res[4] = ((cupti_unsubscribe_fn)get(cupti_lib, "cuptiUnsubscribe"))(s);
}

static cu_function busy_function;
static cu_context busy_context;
static unsigned busy_done;

/* All alike, a few hundred microseconds each, up to some hundred ahead of the GPU. */
static void *busy(void *arg)
{
	uint64_t ns = 200000;
	void *params[] = {&ns};

	((cu_result(*)(cu_context))get(cuda, "cuCtxSetCurrent"))(busy_context);
	for (unsigned i = 0; !__atomic_load_n(&busy_done, __ATOMIC_RELAXED); i++) {
		launch(busy_function, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL);
		if (i % 20 == 19)
			sleep_ms(3);
	}
	return NULL;
}

/* How often a kind went on so far, as the simulated CUPTI notes it; 0 where it does not. */
static unsigned kinds_on(void)
{
	const char *path = getenv("SIM_CUPTI_TRUTH");
	FILE *f = path ? fopen(path, "r") : NULL;
	unsigned lines = 0;
	int c;

	while (f && (c = getc(f)) != EOF)
		lines += c == '\n';
	if (f)
		fclose(f);
	return lines;
}

/* Until the tracer under test has its kinds on again, at most 20 s, and half a second of launches more. */
static void until_kinds_on(unsigned before)
{
	for (int i = 0; i < 2000 && kinds_on() <= before; i++)
		sleep_ms(10);
	sleep_ms(500);
}

/* Its kernels are in the way of the counting: what the profiler saw is not printed. */
static int profile_busy(cu_function f, bool alone)
{
	cupti_result res[3] = {CUPTI_OK, CUPTI_OK, CUPTI_OK};
	unsigned before;
	pthread_t thread;

	busy_function = f;
	((cu_result(*)(cu_context *))get(cuda, "cuCtxGetCurrent"))(&busy_context);
	pthread_create(&thread, NULL, busy, NULL);
	for (int i = 0; i < 2; i++) {
		sleep_ms(300);
		if (alone) {
			until_kinds_on(kinds_on());
			continue;
		}
		res[0] = ((cupti_activity_register_callbacks_fn)get(
		    cupti_lib, "cuptiActivityRegisterCallbacks"))(requested, completed);
		res[1] = ((cupti_activity_enable_fn)get(cupti_lib, "cuptiActivityEnable"))(
		    CUPTI_KIND_CONCURRENT_KERNEL);
		sleep_ms(300);
		before = kinds_on();
		res[2] = ((cupti_activity_disable_fn)get(cupti_lib, "cuptiActivityDisable"))(
		    CUPTI_KIND_CONCURRENT_KERNEL);
		((cupti_activity_flush_all_fn)get(cupti_lib, "cuptiActivityFlushAll"))(0);
		until_kinds_on(before);
	}
	__atomic_store_n(&busy_done, 1, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	synchronize();
	sleep_ms(150);
	printf("results=%d%d%d\n", res[0], res[1], res[2]);
	return 0;
}

int main(int argc, char **argv)
{
	unsigned n = argc > 1 ? (unsigned)atoi(argv[1]) : 50;
	const char *how = argc > 2 ? argv[2] : "";
	cu_function f = start_cuda();
	cupti_result res[5];

	if (!strcmp(how, "busy") || !strcmp(how, "alone"))
		return profile_busy(f, !strcmp(how, "alone"));
	run(f, n);
	if (!strcmp(how, "share") || !strcmp(how, "solo"))
		profile_versioned(f, n, !strcmp(how, "share"), res);
	else
		profile(f, n, res);
	/* as torch does with TEARDOWN_CUPTI=1 */
	if (!strcmp(how, "finalize"))
		((cupti_result(*)(void))get(cupti_lib, "cuptiFinalize"))();
	printf("seen=%u strange=%u wrong_clock=%u foreign=%u lost=%d results=%d%d%d%d%d\n", seen,
	       strange, zero_clock, foreign_buffers, (int)(given - back) > 1, res[0], res[1],
	       res[2], res[3], res[4]);
	fflush(stdout);
	sleep_ms(1500);
	run(f, n);
	sleep_ms(150);
	return 0;
}
