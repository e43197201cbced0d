/* SPDX-License-Identifier: Apache-2.0
 * neighbours.h - which other processes ran on a rank's CPUs, and which contended for its locks,
 * from samples of the whole node. Used when no kernel program counts that (os_signals.h, without
 * BPF). A CPU is the rank's if a twentieth of the rank's samples are on it. A lock is identified by
 * the function that wanted it. Another process that spins in the same kind of lock is evidence, not
 * proof. Owns: nothing but this struct. Threads: one caller. Pure. Trust: names come from
 * processes. */
#pragma once

#include "model/os_signal.h"
#include "model/stack.h"

#define NEIGHBOURS_ROWS	       2048u /* (period, process, CPU, lock): the oldest are dropped */
#define NEIGHBOURS_PLACE_BYTES 64u

struct neighbours_row {
	uint64_t begin_ns, end_ns, ns;
	uint32_t pid, root; /* root: the rank's process that it belongs to; 0: none */
	uint16_t cpu;
	uint16_t lock; /* kind of lock that it spun or waited in; 0: none */
	char comm[16];
	char place[NEIGHBOURS_PLACE_BYTES]; /* "d_alloc_parallel in lookup_open" */
};

struct neighbours {
	struct neighbours_row row[NEIGHBOURS_ROWS];
	uint32_t first, count;
	uint64_t lost; /* rows dropped to make room for others of the same period */
};

void neighbours_add(struct neighbours *n, const struct stack_batch *b,
		    uint32_t (*root_of)(void *arg, uint32_t pid), void *arg);
/* Adds the signals of the rank with process root in [begin, end) to the list: means per second of
 * the sampled time. */
void neighbours_signals(const struct neighbours *n, uint32_t root, uint64_t begin_ns,
			uint64_t end_ns, double step_ms, struct os_signal *list, uint32_t *count,
			uint32_t max);
