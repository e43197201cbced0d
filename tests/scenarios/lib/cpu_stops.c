/* SPDX-License-Identifier: Apache-2.0
 * cpu_stops: how long this machine's CPUs stand still, as real-time threads see it that do nothing but
 * sleep for 10 ms: one pinned to each CPU. No thread of a job delays them, and only long interrupts do:
 * what is left is a hypervisor that runs others, whether or not it says so in /proc/stat. A line every
 * 250 ms until it is ended: the Unix time in ns, and ms a second, mean over the CPUs. Exit 1: it may not
 * be real-time. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/daemon/realtime.h"

#define PERIOD_NS 10000000ull
#define LATE_NS	  500000ull /* less is the usual waking up */
#define LINE_NS	  250000000ull
#define CPUS_MAX  64

static uint64_t late_ns; /* of all CPUs, since the last line */

static void *watch(void *arg)
{
	uint64_t due = clock_monotonic_ns() + PERIOD_NS;

	(void)arg;
	for (;;) {
		uint64_t woken;

		clock_sleep_until(due);
		woken = clock_monotonic_ns();
		if (woken - due > LATE_NS)
			__atomic_fetch_add(&late_ns, woken - due, __ATOMIC_RELAXED);
		due = woken > due + PERIOD_NS ? woken + PERIOD_NS : due + PERIOD_NS;
	}
	return NULL;
}

int main(void)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	uint64_t at = clock_monotonic_ns();

	cpus = cpus > CPUS_MAX ? CPUS_MAX : cpus;
	for (int k = 0; k < cpus; k++) {
		pthread_t t;
		int err = -realtime_thread(&t, k, watch, NULL);

		if (err) {
			fprintf(stderr, "cpu_stops: CPU %d: %s\n", k, strerror(err));
			return 1;
		}
	}
	for (;;) {
		uint64_t began = at, sum;

		clock_sleep_until(at + LINE_NS);
		at = clock_monotonic_ns();
		sum = __atomic_exchange_n(&late_ns, 0, __ATOMIC_RELAXED);
		printf("%llu %.1f\n", (unsigned long long)clock_realtime_ns(),
		       (double)sum / (double)cpus / (double)(at - began) * 1e3);
		if (fflush(stdout))
			return 0; /* who asked is gone */
	}
}
