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

void perf_ring_read(struct perf_ring *r,
		    void (*fn)(void *arg, const struct perf_event_header *record), void *arg)
{
	const uint8_t *data = (const uint8_t *)r->page + PAGE_BYTES;
	uint64_t head, tail;

	if (!r->page)
		return;
	/* acquire: the kernel wrote the records before data_head */
	head = __atomic_load_n(&r->page->data_head, __ATOMIC_ACQUIRE);
	tail = r->page->data_tail;
	while (tail < head) {
		uint64_t at = tail & (r->bytes - 1), first;
		struct perf_event_header h;

		memcpy(&h, data + at,
		       sizeof(h)); /* records are aligned to 8: a header never wraps */
		if (h.size < sizeof(h) || h.size > head - tail) {
			tail = head;
			break;
		}
		first = r->bytes - at < h.size ? r->bytes - at : h.size;
		memcpy(r->record, data + at, first);
		memcpy(r->record + first, data, h.size - first);
		fn(arg, (const struct perf_event_header *)(const void *)r->record);
		tail += h.size;
	}
	/* release: what was read may be overwritten from here on */
	__atomic_store_n(&r->page->data_tail, tail, __ATOMIC_RELEASE);
}

uint32_t perf_ring_cpus(int *cpus, uint32_t room)
{
	FILE *f = fopen("/sys/devices/system/cpu/online", "re");
	uint32_t n = 0;
	int first, last;
	char after;

	while (f && n < room) {
		int got = fscanf(f, "%d", &first);

		if (got != 1)
			break;
		last = first;
		got = fscanf(f, "%c", &after);
		if (got == 1 && after == '-') {
			if (fscanf(f, "%d", &last) != 1)
				break;
			got = fscanf(f, "%c", &after);
		}
		for (int cpu = first; cpu <= last && n < room; cpu++)
			cpus[n++] = cpu;
		if (got != 1 || after != ',')
			break;
	}
	if (f)
		fclose(f);
	return n;
}
