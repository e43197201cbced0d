/* SPDX-License-Identifier: Apache-2.0
 * perf_ring.h - perf events and the rings of records that the kernel writes.
 * Owns: the mapping, not the event's descriptor.  Threads: one caller. */
#pragma once

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Part of every event's sample_type, so that every record has its time. */
#define PERF_RING_SAMPLE_TYPE (PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU)

struct perf_ring {
	struct perf_event_mmap_page *page; /* NULL: not open */
	uint64_t bytes;			   /* size of the data, a power of two */
	uint8_t *record;		   /* the next record, made contiguous */
	uint64_t head, tail, time_ns;	   /* only while the rings are read */
};

/* A descriptor, or -errno. */
int perf_ring_event(struct perf_event_attr *attr, pid_t pid, int cpu);
/* pages: a power of two, without the first page. 0, -errno. */
int perf_ring_open(struct perf_ring *r, int fd, uint32_t pages);
void perf_ring_close(struct perf_ring *r);
/* Passes on all records of all rings in order of time; each is contiguous and borrowed during the
 * call. A record with an invalid size empties its ring. count: at most PERF_RING_MAX. The events'
 * sample_type begins with PERF_RING_SAMPLE_TYPE, and sample_id_all is set. */
#define PERF_RING_MAX 1024u
void perf_ring_read(struct perf_ring *rings, uint32_t count,
		    void (*fn)(void *arg, const struct perf_event_header *record), void *arg);
/* Lists the online CPUs, at most room; returns how many. */
uint32_t perf_ring_cpus(int *cpus, uint32_t room);
