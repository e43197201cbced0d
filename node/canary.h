/* SPDX-License-Identifier: Apache-2.0
 * canary.h - detect stalls of the whole machine with threads that only sleep and measure how late
 * they wake, so that no rank is blamed for such a stall. If real-time threads are allowed and there
 * are two CPUs or more, one thread is pinned to each of up to CANARY_CPUS CPUs. The machine stood
 * still while all of them were late. No job's thread delays them, and an interrupt on one CPU does
 * not count. This finds time that a hypervisor takes but /proc/stat omits. Otherwise there is one
 * ordinary thread. If it is late by more than CANARY_LATE_NS, all CPUs were busy or the machine
 * stood still; steps during that time are not evidence against a rank. Owns: its threads. Threads:
 * any may call. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define CANARY_CPUS	 4u
#define CANARY_PERIOD_NS 20000000ull
#define CANARY_LATE_NS	 10000000ull
/* For real-time threads: a halted virtual CPU may take this long to wake up. */
#define CANARY_REALTIME_LATE_NS 2000000ull

struct canary; /* opaque */
/* realtime: use real-time threads if allowed. 0 or -errno. */
int canary_open(struct canary **out, bool realtime);
void canary_close(struct canary *c); /* NULL is a no-op */
/* Starts or stops measuring; it is stopped after canary_open. NULL is a no-op. */
void canary_run(struct canary *c, bool on);
/* Whether stalls of the machine are detected. False for NULL, and after a thread ended because its
 * sleeps did not last. */
bool canary_is_on(const struct canary *c);
/* Whether real-time threads measure the stalls. */
bool canary_is_realtime(const struct canary *c);
/* Call when thread i was late from due_ns to woken_ns. Adds a stall for the time in which all
 * threads were late. */
void canary_late(struct canary *c, unsigned i, uint64_t due_ns, uint64_t woken_ns);
/* Nanoseconds of [begin, end] during which the machine stood still; 0 for NULL. */
uint64_t canary_stalled_ns(struct canary *c, uint64_t begin_ns, uint64_t end_ns);
/* Number and total length of stalls since open. */
void canary_totals(struct canary *c, uint64_t *count, uint64_t *total_ns);
/* Estimate of how long the machine stood still since open. A short stall hits a wake-up with the
 * probability length / period, so each hit counts as a whole period. The estimate is unbiased,
 * except that it omits the first CANARY_REALTIME_LATE_NS of each stall. 0 without real-time
 * threads, and for NULL. */
uint64_t canary_stolen_ns(struct canary *c);
