/* SPDX-License-Identifier: Apache-2.0
 * perf_ring.h - perf events and the rings that the kernel writes their records to.
 * Owns: the mapping, not the event's descriptor.  Threads: one caller. */
#ifndef SYSOM_SAMPLER_PERF_RING_H
#define SYSOM_SAMPLER_PERF_RING_H

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct perf_ring {
	struct perf_event_mmap_page *page; /* NULL: not open */
	uint64_t bytes;			   /* of data, a power of two */
	uint8_t *record;		   /* one record, put together */
};

/* A descriptor, or -errno. */
int perf_ring_event(struct perf_event_attr *attr, pid_t pid, int cpu);
/* pages: a power of two, beside the first one. 0, -errno. */
int perf_ring_open(struct perf_ring *r, int fd, uint32_t pages);
void perf_ring_close(struct perf_ring *r);
/* Hands out every record that is there; each is contiguous and borrowed during the call. A record
 * whose size makes no sense empties the ring. */
void perf_ring_read(struct perf_ring *r,
		    void (*fn)(void *arg, const struct perf_event_header *record), void *arg);
/* CPUs that are online, at most room of them; returns how many. */
uint32_t perf_ring_cpus(int *cpus, uint32_t room);

#endif
