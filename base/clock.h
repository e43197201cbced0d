/* SPDX-License-Identifier: Apache-2.0
 * clock.h - clock readings and their ids. Header-only and libc-only, so that preload/ may use it.
 * INV-8: producers store raw stamps and name the clock; only sysomd converts them. */
#pragma once

#include <errno.h>
#include <stdint.h>
#include <time.h>

enum clock_source {
	CLOCK_SOURCE_MONOTONIC = 1, /* CLOCK_MONOTONIC, nanoseconds */
	CLOCK_SOURCE_REALTIME = 2,  /* CLOCK_REALTIME, nanoseconds */
	CLOCK_SOURCE_TSC = 3,	    /* x86 time stamp counter or AArch64 virtual counter, ticks */
};

static inline uint64_t clock_ns(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

static inline uint64_t clock_monotonic_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

static inline uint64_t clock_realtime_ns(void)
{
	return clock_ns(CLOCK_REALTIME);
}

static inline struct timespec clock_timespec(uint64_t ns)
{
	return (struct timespec){(time_t)(ns / 1000000000ull), (long)(ns % 1000000000ull)};
}

/* Sleeps until this CLOCK_MONOTONIC time, even if signals arrive; keeps errno. */
static inline void clock_sleep_until(uint64_t monotonic_ns)
{
	struct timespec ts = clock_timespec(monotonic_ns);

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
		;
}

/* CLOCK_BOOTTIME: keeps counting while the machine is suspended, cannot be set, and starts at 0 at
 * boot. */
static inline uint64_t clock_boottime_ns(void)
{
	return clock_ns(CLOCK_BOOTTIME);
}

/* Reads the raw counter. It is meaningful only if the producer checked that it is invariant. */
static inline uint64_t clock_ticks(void)
{
#if defined(__x86_64__)
	uint32_t lo, hi;

	__asm__ volatile("rdtsc" : "=a"(lo), "=d"(hi));
	return (uint64_t)hi << 32 | lo;
#elif defined(__aarch64__)
	uint64_t v;

	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(v));
	return v;
#else
	return clock_monotonic_ns();
#endif
}
