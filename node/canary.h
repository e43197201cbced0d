/* SPDX-License-Identifier: Apache-2.0
 * canary.h - tells stalls of the host from faults of a rank: threads that do nothing but sleep and see how
 * late they wake.
 * Real-time, where that is allowed and there are two CPUs or more: one is pinned to each of up to
 * CANARY_CPUS of them, and the time in which all were late at once is a stop of the machine. No thread of
 * a job delays them, and what interrupts one CPU alone does not count. That finds what a hypervisor takes
 * without a word in /proc/stat.
 * Else one ordinary thread, late by more than CANARY_LATE_NS: every CPU it might run on was taken (or the
 * machine stood still). What ranks did meanwhile proves nothing.
 * Owns: the threads. Threads: any may ask. */
#ifndef SYSOM_NODE_CANARY_H
#define SYSOM_NODE_CANARY_H

#include <stdbool.h>
#include <stdint.h>

#define CANARY_CPUS	 4u
#define CANARY_PERIOD_NS 20000000ull
#define CANARY_LATE_NS	 10000000ull
/* with real-time threads; a halted virtual CPU may take as long to wake up */
#define CANARY_REALTIME_LATE_NS 2000000ull

struct canary; /* opaque */
/* realtime: where that is allowed. 0 or -errno. */
int canary_open(struct canary **out, bool realtime);
void canary_close(struct canary *c); /* NULL is a no-op */
/* Whether it looks; from open on it does not. NULL is a no-op. */
void canary_run(struct canary *c, bool on);
/* Whether it sees stops of the machine. */
bool canary_is_realtime(const struct canary *c);
/* For tests and replay: a stall seen from begin to end. */
void canary_note(struct canary *c, uint64_t begin_ns, uint64_t end_ns);
/* Thread i of them was late from due to woken; the stall in which all were is noted. */
void canary_late(struct canary *c, unsigned i, uint64_t due_ns, uint64_t woken_ns);
/* Nanoseconds of [begin, end] that the host was seen to stand still; 0 for NULL. */
uint64_t canary_stalled_ns(struct canary *c, uint64_t begin_ns, uint64_t end_ns);
/* Stalls and their length since open. */
void canary_totals(struct canary *c, uint64_t *count, uint64_t *total_ns);
/* How long the machine stood still since open, estimated: a stop shorter than a period is met by chance,
 * as often as its length is to the period, so each meeting counts as a period. Without bias but for the
 * first CANARY_REALTIME_LATE_NS of each stop, which are not counted. 0 without real-time threads, and for
 * NULL. */
uint64_t canary_stolen_ns(struct canary *c);

#endif
