/* SPDX-License-Identifier: Apache-2.0
 * sampler_events.c - see sampler_events.h.
 * A process that execs may do so on another CPU than the one that it forked on, and each CPU has
 * its ring: all rings are read, then the records are taken in order of their time. */
#include "sampler/sampler_events.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "sampler/perf_ring.h"

#define RING_PAGES 16u
/* Of records that wait to be sorted; more are read as if they were lost. */
#define PENDING_BYTES_MAX (4u << 20)

struct pending {
	uint64_t time_ns;
	struct perf_event_header *record;
};

struct sampler_events {
	int epoll_fd;
	uint32_t cpu_count;
	int *fd;
	struct perf_ring *ring;
	struct pending *pending;
	uint32_t count, room;
	size_t bytes;
	bool lost;
};

struct record_task {
	struct perf_event_header header;
	uint32_t pid, ppid, tid, ptid;
};

struct record_comm {
	struct perf_event_header header;
	uint32_t pid, tid;
};

struct record_mmap {
	struct perf_event_header header;
	uint32_t pid, tid;
	uint64_t address, length, offset;
	uint8_t build_id_bytes, pad[3], build_id[20];
	uint32_t prot, flags;
	char path[];
};

static void take(void *arg, const struct perf_event_header *h)
{
	struct sampler_events *e = arg;
	struct pending *grown;

	if (h->type == PERF_RECORD_LOST) {
		e->lost = true;
		return;
	}
	if (h->type != PERF_RECORD_MMAP2 && h->type != PERF_RECORD_FORK &&
	    h->type != PERF_RECORD_EXIT && h->type != PERF_RECORD_COMM)
		return;
	if (e->bytes + h->size > PENDING_BYTES_MAX) {
		e->lost = true;
		return;
	}
	if (e->count == e->room) {
		uint32_t room = e->room ? e->room * 2 : 256;

		grown = realloc(e->pending, room * sizeof(*grown));
		if (!grown) {
			e->lost = true;
			return;
		}
		e->pending = grown;
		e->room = room;
	}
	e->pending[e->count].record = malloc(h->size + 1u);
	if (!e->pending[e->count].record) {
		e->lost = true;
		return;
	}
	memcpy(e->pending[e->count].record, h, h->size);
	((char *)e->pending[e->count].record)[h->size] = 0;
	/* sample_id_all with nothing but the time */
	memcpy(&e->pending[e->count++].time_ns, (const char *)h + h->size - 8, 8);
	e->bytes += h->size;
}

static int by_time(const void *a, const void *b)
{
	const struct pending *x = a, *y = b;

	return x->time_ns < y->time_ns ? -1 : x->time_ns > y->time_ns;
}

static void on_mmap(struct processes *p, const struct record_mmap *r)
{
	bool told = r->header.misc & PERF_RECORD_MISC_MMAP_BUILD_ID;
	struct process_mapping m = {
	    .begin = r->address, .end = r->address + r->length, .offset = r->offset};

	if (r->header.size < sizeof(*r) + 8 || m.end <= m.begin || m.end >> 56 ||
	    (m.begin | m.end) & 4095)
		return;
	if (told && r->build_id_bytes && r->build_id_bytes <= sizeof(r->build_id))
		processes_on_mmap(p, r->pid, &m, r->build_id, r->build_id_bytes, r->path);
	else
		processes_on_mmap(p, r->pid, &m, NULL, 0, r->path);
}

static void hand_out(struct processes *p, const struct perf_event_header *h)
{
	const struct record_task *t = (const void *)h;
	const struct record_comm *c = (const void *)h;

	if (h->type == PERF_RECORD_FORK && t->pid != t->ppid)
		processes_on_fork(p, t->ppid, t->pid);
	else if (h->type == PERF_RECORD_EXIT && t->pid == t->tid)
		processes_on_exit(p, t->pid);
	else if (h->type == PERF_RECORD_COMM && h->misc & PERF_RECORD_MISC_COMM_EXEC)
		processes_on_exec(p, c->pid);
	else if (h->type == PERF_RECORD_MMAP2)
		on_mmap(p, (const void *)h);
}

void sampler_events_poll(struct sampler_events *e, struct processes *p)
{
	e->count = 0;
	e->bytes = 0;
	e->lost = false;
	for (uint32_t i = 0; i < e->cpu_count; i++)
		perf_ring_read(&e->ring[i], take, e);
	qsort(e->pending, e->count, sizeof(*e->pending), by_time);
	for (uint32_t i = 0; i < e->count; i++) {
		hand_out(p, e->pending[i].record);
		free(e->pending[i].record);
	}
	if (e->lost)
		processes_on_lost(p);
}

int sampler_events_fd(const struct sampler_events *e)
{
	return e->epoll_fd;
}

static int open_cpu(struct sampler_events *e, uint32_t i, int cpu, struct perf_event_attr *attr)
{
	struct epoll_event event = {.events = EPOLLIN};
	int fd = perf_ring_event(attr, -1, cpu), err;

	if (fd == -EINVAL && attr->build_id) {
		attr->build_id = 0;
		fd = perf_ring_event(attr, -1, cpu);
	}
	if (fd < 0)
		return fd;
	e->fd[i] = fd;
	err = perf_ring_open(&e->ring[i], fd, RING_PAGES);
	if (!err && epoll_ctl(e->epoll_fd, EPOLL_CTL_ADD, fd, &event))
		err = -errno;
	return err;
}

int sampler_events_open(struct sampler_events **out, const int *cpus, uint32_t cpu_count,
			bool *build_ids)
{
	struct perf_event_attr attr = {
	    .size = sizeof(attr),
	    .type = PERF_TYPE_SOFTWARE,
	    .config = PERF_COUNT_SW_DUMMY,
	    .sample_type = PERF_SAMPLE_TIME,
	    .exclude_kernel = 1,
	    .mmap = 1,
	    .mmap2 = 1,
	    .comm = 1,
	    .comm_exec = 1,
	    .task = 1,
	    .build_id = 1,
	    .sample_id_all = 1,
	    .use_clockid = 1,
	    .clockid = CLOCK_MONOTONIC,
	    .watermark = 1,
	    .wakeup_watermark = 1,
	};
	struct sampler_events *e = calloc(1, sizeof(*e));
	int err = 0;

	if (!e)
		return -ENOMEM;
	e->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	e->fd = malloc(cpu_count * sizeof(*e->fd));
	e->ring = calloc(cpu_count, sizeof(*e->ring));
	if (e->epoll_fd < 0 || !e->fd || !e->ring)
		err = -ENOMEM;
	for (uint32_t i = 0; !err && i < cpu_count; i++) {
		e->fd[i] = -1;
		e->cpu_count = i + 1;
		err = open_cpu(e, i, cpus[i], &attr);
		if (err == -ENODEV) /* the CPU went away */
			err = 0;
	}
	if (err) {
		sampler_events_close(e);
		return err;
	}
	*build_ids = attr.build_id;
	*out = e;
	return 0;
}

void sampler_events_close(struct sampler_events *e)
{
	if (!e)
		return;
	for (uint32_t i = 0; i < e->cpu_count; i++) {
		perf_ring_close(&e->ring[i]);
		if (e->fd[i] >= 0)
			close(e->fd[i]);
	}
	if (e->epoll_fd >= 0)
		close(e->epoll_fd);
	free(e->pending);
	free(e->fd);
	free(e->ring);
	free(e);
}
