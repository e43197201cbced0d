/* SPDX-License-Identifier: Apache-2.0
 * What a launch costs under the peers: a plain call of a driver-like function, the same with an
 * lttng-ust tracepoint beside it, and (when somebody attached one) under an entry+return uprobe.
 * Slices of about 20 ms alternate with a calibration loop, since the machine's speed swings.
 * usage: peer_launch plain|lttng SLICES  -> one "median_ns p10_ns p90_ns" line, cost per call. */
#define LTTNG_UST_TRACEPOINT_DEFINE
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#include "tests/bench/lttng_tp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

#define CALLS 20000

int peer_driver_launch(void *func, unsigned gx, unsigned gy, unsigned gz, void *stream);

/* Its own frame and a push first, as compiled drivers have. */
__attribute__((noinline, visibility("default"))) int
peer_driver_launch(void *func, unsigned gx, unsigned gy, unsigned gz, void *stream)
{
	static volatile uint64_t sink;

	__asm__ volatile("push %%rbx; pop %%rbx" ::: "memory");
	sink += (uint64_t)(uintptr_t)func + gx + gy + gz + (uint64_t)(uintptr_t)stream;
	return 0;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static double slice_ns(int lttng)
{
	uint64_t begin = clock_monotonic_ns();
	uint32_t grid[3] = {64, 1, 1};
	uint16_t block[3] = {256, 1, 1};

	for (int i = 0; i < CALLS; i++) {
		if (lttng) {
			uint64_t t = clock_ticks();

			peer_driver_launch((void *)(uintptr_t)i, 64, 1, 1, NULL);
			lttng_ust_tracepoint(sysom_bench, launch, (uint64_t)i, 0, grid, block, t);
		} else {
			peer_driver_launch((void *)(uintptr_t)i, 64, 1, 1, NULL);
		}
	}
	return (double)(clock_monotonic_ns() - begin) / CALLS;
}

int main(int argc, char **argv)
{
	int lttng = argc > 1 && !strcmp(argv[1], "lttng");
	int slices = argc > 2 ? atoi(argv[2]) : 100;
	double *ns;

	if (slices < 3 || slices > 100000)
		return 2;
	ns = calloc((size_t)slices, sizeof(*ns));
	if (!ns)
		return 1;
	for (int i = 0; i < slices; i++)
		ns[i] = slice_ns(lttng);
	qsort(ns, (size_t)slices, sizeof(*ns), by_value);
	printf("%.1f %.1f %.1f\n", ns[slices / 2], ns[slices / 10], ns[slices * 9 / 10]);
	free(ns);
	return 0;
}
