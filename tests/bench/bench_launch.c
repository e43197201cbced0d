/* SPDX-License-Identifier: Apache-2.0
 * bench_launch.c - what the launch and NCCL wrappers add to a call, beside this machine's clocks.
 * Runs itself again under the preload, over a libcuda and a libnccl that do nothing. Slices of the
 * variants alternate, since the machine's speed swings; median and 10th to 90th percentile of the
 * slices are printed, in nanoseconds per call.
 * usage: bench_launch [SLICES] */
#include <dlfcn.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "foreign/nccl.h"

#define CALLS 20000

typedef nccl_result (*all_reduce_fn)(const void *, void *, size_t, int, int, nccl_comm, cu_stream);
typedef nccl_result (*comm_init_fn)(nccl_comm *, int, nccl_unique_id, int);

static cu_launch_kernel_fn launch_plain, launch_wrapped;
static all_reduce_fn reduce_plain, reduce_wrapped;
static nccl_comm comm;
static uint64_t sink[16] __attribute__((aligned(64)));

static cu_stream stream;

static void call_launch(cu_launch_kernel_fn fn)
{
	fn((cu_function)0x10, 64, 1, 1, 256, 1, 1, 0, stream, NULL, NULL);
}
static void run_plain(void)
{
	call_launch(launch_plain);
}
static void run_wrapped(void)
{
	call_launch(launch_wrapped);
}
static void run_wrapped_default(void)
{
	launch_wrapped((cu_function)0x10, 64, 1, 1, 256, 1, 1, 0, NULL, NULL, NULL);
}
static void run_reduce_plain(void)
{
	reduce_plain(NULL, NULL, 1024, 7, 0, comm, NULL);
}
static void run_reduce_wrapped(void)
{
	reduce_wrapped(NULL, NULL, 1024, 7, 0, comm, NULL);
}
static void run_rdtsc(void)
{
	sink[0] += clock_ticks();
}
/* what people write first: two clock_gettime and a 64-byte store */
static void run_two_clocks(void)
{
	uint64_t a = clock_monotonic_ns();

	call_launch(launch_plain);
	sink[0] = a;
	sink[1] = clock_monotonic_ns();
	for (int i = 2; i < 8; i++)
		((volatile uint64_t *)sink)[i] = a;
}

static const struct {
	const char *name;
	void (*run)(void);
	int minus; /* index of the variant to subtract, -1 none */
} variants[] = {
    {"plain call of an empty launch", run_plain, -1},
    {"launch wrapper, added", run_wrapped, 0},
    {"launch wrapper on the default stream, added", run_wrapped_default, 0},
    {"two clock_gettime and a 64 B store, added", run_two_clocks, 0},
    {"one rdtsc", run_rdtsc, -1},
    {"plain call of an empty ncclAllReduce", run_reduce_plain, -1},
    {"ncclAllReduce wrapper, added", run_reduce_wrapped, 5},
};
#define VARIANTS (sizeof(variants) / sizeof(variants[0]))

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static double slice_ns(void (*run)(void))
{
	uint64_t begin = clock_monotonic_ns();

	for (int i = 0; i < CALLS; i++)
		run();
	return (double)(clock_monotonic_ns() - begin) / CALLS;
}

static void again_preloaded(char **argv)
{
	char exe[PATH_MAX] = "", path[PATH_MAX + 64];
	char *dir;

	if (readlink("/proc/self/exe", exe, sizeof(exe) - 1) < 0)
		exit(1);
	dir = dirname(exe);
	snprintf(path, sizeof(path), "%s/../lib/libsysom_preload.so", dir);
	setenv("LD_PRELOAD", path, 1);
	snprintf(path, sizeof(path), "%s/../test/null", dir);
	setenv("LD_LIBRARY_PATH", path, 1);
	setenv("SYSOM_SOCKET_PATH", "/nonexistent/sysom.sock", 1);
	setenv("SYSOM_CUPTI", "0", 1);
	setenv("BENCH_LAUNCH_AGAIN", "1", 1);
	execv("/proc/self/exe", argv);
	exit(1);
}

static int set_up(void)
{
	void *cuda = dlopen("libcuda.so.1", RTLD_NOW), *nccl = dlopen("libnccl.so.2", RTLD_NOW);
	nccl_unique_id id = {"bench"};
	cu_result (*create)(cu_stream *, unsigned);
	comm_init_fn init;

	if (!cuda || !nccl)
		return -1;
	launch_plain = (cu_launch_kernel_fn)dlsym(cuda, "null_launch");
	launch_wrapped = (cu_launch_kernel_fn)dlsym(cuda, "cuLaunchKernel");
	reduce_plain = (all_reduce_fn)dlsym(nccl, "null_all_reduce");
	reduce_wrapped = (all_reduce_fn)dlsym(nccl, "ncclAllReduce");
	create = (cu_result(*)(cu_stream *, unsigned))dlsym(cuda, "cuStreamCreate");
	init = (comm_init_fn)dlsym(nccl, "ncclCommInitRank");
	if (!launch_plain || !launch_wrapped || !reduce_plain || !reduce_wrapped || !init ||
	    !create || create(&stream, 0))
		return -1;
	return init(&comm, 8, id, 0);
}

int main(int argc, char **argv)
{
	int slices = argc > 1 ? atoi(argv[1]) : 60;
	double *ns[VARIANTS];

	if (slices < 3 || slices > 100000)
		return 2;
	if (!getenv("BENCH_LAUNCH_AGAIN"))
		again_preloaded(argv);
	if (set_up()) {
		fprintf(stderr, "bench_launch: the null libraries are missing\n");
		return 1;
	}
	for (unsigned v = 0; v < VARIANTS; v++)
		ns[v] = calloc((size_t)slices, sizeof(double));
	for (int i = -2; i < slices; i++)
		for (unsigned v = 0; v < VARIANTS; v++) {
			double t = slice_ns(variants[v].run);

			if (i >= 0)
				ns[v][i] = t;
		}
	/* subtract slice by slice: neighbours in time */
	for (unsigned v = VARIANTS; v-- > 0;)
		for (int i = 0; variants[v].minus >= 0 && i < slices; i++)
			ns[v][i] -= ns[variants[v].minus][i];
	for (unsigned v = 0; v < VARIANTS; v++) {
		qsort(ns[v], (size_t)slices, sizeof(double), by_value);
		printf("%-44s %7.1f ns  (%.1f .. %.1f)\n", variants[v].name, ns[v][slices / 2],
		       ns[v][slices / 10], ns[v][slices * 9 / 10]);
		free(ns[v]);
	}
	return 0;
}
