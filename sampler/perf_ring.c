/* SPDX-License-Identifier: Apache-2.0
 * perf_ring.c - see perf_ring.h. */
#include "sampler/perf_ring.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sampler/cpu_list.h"

#define PAGE_BYTES	 4096u
#define RECORD_BYTES_MAX 65536u

int perf_ring_event(struct perf_event_attr *attr, pid_t pid, int cpu)
{
	int fd = (int)syscall(SYS_perf_event_open, attr, pid, cpu, -1, PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

int perf_ring_open(struct perf_ring *r, int fd, uint32_t pages)
{
	void *at =
	    mmap(NULL, (size_t)(pages + 1) * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	memset(r, 0, sizeof(*r));
	if (at == MAP_FAILED)
		return -errno;
	r->record = malloc(RECORD_BYTES_MAX);
	if (!r->record) {
		munmap(at, (size_t)(pages + 1) * PAGE_BYTES);
		return -ENOMEM;
	}
	r->page = at;
	r->bytes = (uint64_t)pages * PAGE_BYTES;
	return 0;
}

void perf_ring_close(struct perf_ring *r)
{
	if (r->page)
		munmap(r->page, r->bytes + PAGE_BYTES);
	free(r->record);
	memset(r, 0, sizeof(*r));
}

/* The time follows the ids in a sample; in other records it precedes the CPU, which is last. */
static uint64_t record_time(const uint8_t *record, uint16_t bytes, uint32_t type)
{
	uint16_t at = type == PERF_RECORD_SAMPLE ? 16 : (uint16_t)(bytes - 16);
	uint64_t time_ns = 0;

	if (bytes >= 32)
		memcpy(&time_ns, record + at, sizeof(time_ns));
	return time_ns;
}

/* Makes the record at the tail contiguous. False: there is none. */
static bool ring_next(struct perf_ring *r)
{
	const uint8_t *data = (const uint8_t *)r->page + PAGE_BYTES;
	uint64_t at = r->tail & (r->bytes - 1), first;
	struct perf_event_header h;

	if (r->tail < r->head) {
		memcpy(&h, data + at,
		       sizeof(h)); /* records are aligned to 8: a header never wraps */
		if (h.size >= sizeof(h) && h.size <= r->head - r->tail) {
			first = r->bytes - at < h.size ? r->bytes - at : h.size;
			memcpy(r->record, data + at, first);
			memcpy(r->record + first, data, h.size - first);
			r->time_ns = record_time(r->record, h.size, h.type);
			r->tail += h.size;
			return true;
		}
		r->tail = r->head;
	}
	/* release: the kernel may overwrite what was read */
	__atomic_store_n(&r->page->data_tail, r->tail, __ATOMIC_RELEASE);
	return false;
}

/* Restores the heap below `at`: a parent's next record is never newer than its children's. */
static void heap_sift(struct perf_ring **heap, uint32_t count, uint32_t at)
{
	for (;;) {
		uint32_t least = at, child = 2 * at + 1;
		struct perf_ring *moved = heap[at];

		for (uint32_t i = child; i < child + 2 && i < count; i++)
			least = heap[i]->time_ns < heap[least]->time_ns ? i : least;
		if (least == at)
			return;
		heap[at] = heap[least];
		heap[least] = moved;
		at = least;
	}
}

void perf_ring_read(struct perf_ring *rings, uint32_t count,
		    void (*fn)(void *arg, const struct perf_event_header *record), void *arg)
{
	struct perf_ring *heap[PERF_RING_MAX];
	uint32_t left = 0;

	for (uint32_t i = 0; i < count && i < PERF_RING_MAX; i++) {
		struct perf_ring *r = &rings[i];

		if (!r->page)
			continue;
		/* acquire: the kernel wrote the records before data_head */
		r->head = __atomic_load_n(&r->page->data_head, __ATOMIC_ACQUIRE);
		r->tail = r->page->data_tail;
		if (ring_next(r))
			heap[left++] = r;
	}
	for (uint32_t i = left / 2; i-- > 0;)
		heap_sift(heap, left, i);
	while (left) {
		fn(arg, (const struct perf_event_header *)(const void *)heap[0]->record);
		if (!ring_next(heap[0]))
			heap[0] = heap[--left];
		heap_sift(heap, left, 0);
	}
}

uint32_t perf_ring_cpus(int *cpus, uint32_t room)
{
	FILE *f = fopen("/sys/devices/system/cpu/online", "re");
	char text[4096] = "";
	const char *at = f ? fgets(text, sizeof(text), f) : NULL;
	unsigned cpu, last;
	uint32_t n = 0;

	while (at && (at = cpu_list_next(at, &cpu, &last)))
		for (; cpu <= last && n < room; cpu++)
			cpus[n++] = (int)cpu;
	if (f)
		fclose(f);
	return n;
}
