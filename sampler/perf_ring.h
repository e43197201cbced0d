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

/* What every event's sample_type has, so that the time is found in every record. */
#define PERF_RING_SAMPLE_TYPE (PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU)

struct perf_ring {
	struct perf_event_mmap_page *page; /* NULL: not open */
	uint64_t bytes;			   /* of data, a power of two */
	uint8_t *record;		   /* the next record, put together */
	uint64_t head, tail, time_ns;	   /* while the rings are read */
};

/* A descriptor, or -errno. */
int perf_ring_event(struct perf_event_attr *attr, pid_t pid, int cpu);
/* pages: a power of two, beside the first one. 0, -errno. */
int perf_ring_open(struct perf_ring *r, int fd, uint32_t pages);
void perf_ring_close(struct perf_ring *r);
/* Hands out every record that is there, of all the rings in order of time; each is contiguous and
 * borrowed during the call. A record whose size makes no sense empties its ring. count: at most
 * PERF_RING_MAX. sample_type of the events begins with PERF_RING_SAMPLE_TYPE, and sample_id_all is set. */
#define PERF_RING_MAX 1024u
void perf_ring_read(struct perf_ring *rings, uint32_t count,
		    void (*fn)(void *arg, const struct perf_event_header *record), void *arg);
/* CPUs that are online, at most room of them; returns how many. */
uint32_t perf_ring_cpus(int *cpus, uint32_t room);

#endif
