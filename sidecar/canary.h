/* SPDX-License-Identifier: Apache-2.0
 * canary.h - tells stalls of the host from faults of a rank: a thread that does nothing but sleep for
 * 20 ms and see how late it wakes. When it is late by more than CANARY_LATE_NS, every CPU it might run
 * on was taken (or the virtual machine stood still), and what ranks did meanwhile proves nothing.
 * Owns: the thread. Threads: any may ask. */
#ifndef SYSOM_SIDECAR_CANARY_H
#define SYSOM_SIDECAR_CANARY_H

#include <stdint.h>

#define CANARY_PERIOD_NS 20000000ull
#define CANARY_LATE_NS	 10000000ull

struct canary; /* opaque */
int canary_open(struct canary **out);
void canary_close(struct canary *c); /* NULL is a no-op */
/* For tests and replay: a stall seen from begin to end. */
void canary_note(struct canary *c, uint64_t begin_ns, uint64_t end_ns);
/* Nanoseconds of [begin, end] that the host stood still; 0 for NULL. */
uint64_t canary_stalled_ns(struct canary *c, uint64_t begin_ns, uint64_t end_ns);
/* Stalls and their length since open. */
void canary_totals(struct canary *c, uint64_t *count, uint64_t *total_ns);

#endif
