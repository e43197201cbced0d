/* SPDX-License-Identifier: Apache-2.0
 * sampler_events.c - see sampler_events.h. Each CPU has its own ring, and a process may exec on
 * another CPU than the one where it was forked. So the records of all rings are taken in order of
 * time. */
#include "sampler/sampler_events.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "sampler/perf_ring.h"

#define RING_PAGES 16u

struct sampler_events {
	int epoll_fd;
	uint32_t cpu_count;
	int *fd;
	struct perf_ring *ring;
	struct processes *processes; /* only while events are passed on */
	bool lost;
};

struct record_task {
	struct perf_event_header header;
	uint32_t pid, ppid, tid, ptid;
};

struct record_mmap {
	struct perf_event_header header;
	uint32_t pid, tid;
	uint64_t address, length, offset;
	uint32_t major, minor;
	uint64_t inode, inode_generation;
	uint32_t prot, flags;
	char path[];
};

static void on_mmap(struct processes *p, const struct record_mmap *r)
{
	struct process_mapping m = {.begin = r->address, .end = r->address + r->length};

	if (m.end <= m.begin || m.end >> 56 || (m.begin | m.end) & 4095 ||
	    !memchr(r->path, 0, r->header.size - sizeof(*r)))
		return;
	processes_on_mmap(p, r->pid, &m, r->path);
}

bool sampler_events_record(struct processes *p, const struct perf_event_header *h)
{
	/* pid is the first field of all these records */
	const struct record_task *t = (const void *)h;
	bool whole = h->size >= sizeof(*t);

	if (h->type == PERF_RECORD_FORK && whole && t->pid != t->ppid)
		processes_on_fork(p, t->ppid, t->pid);
	else if (h->type == PERF_RECORD_EXIT && whole && t->pid == t->tid)
		processes_on_exit(p, t->pid);
	else if (h->type == PERF_RECORD_COMM && whole && h->misc & PERF_RECORD_MISC_COMM_EXEC)
		processes_on_exec(p, t->pid);
	else if (h->type == PERF_RECORD_MMAP2 && h->size > sizeof(struct record_mmap))
		on_mmap(p, (const void *)h);
	else
		return false;
	return true;
}

static void on_record(void *arg, const struct perf_event_header *h)
{
	struct sampler_events *e = arg;

	e->lost |= !sampler_events_record(e->processes, h) && h->type == PERF_RECORD_LOST;
}

void sampler_events_poll(struct sampler_events *e, struct processes *p)
{
	e->lost = false;
	e->processes = p;
	perf_ring_read(e->ring, e->cpu_count, on_record, e);
	if (e->lost)
		processes_on_lost(p);
}

void sampler_events_pause(struct sampler_events *e, bool paused, struct processes *p)
{
	if (paused)
		sampler_events_poll(e, p);
	for (uint32_t i = 0; i < e->cpu_count; i++)
		if (e->fd[i] >= 0)
			ioctl(e->fd[i], paused ? PERF_EVENT_IOC_DISABLE : PERF_EVENT_IOC_ENABLE, 0);
	if (!paused)
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

	if (fd < 0)
		return fd;
	e->fd[i] = fd;
	err = perf_ring_open(&e->ring[i], fd, RING_PAGES);
	if (!err && epoll_ctl(e->epoll_fd, EPOLL_CTL_ADD, fd, &event))
		err = -errno;
	return err;
}

int sampler_events_open(struct sampler_events **out, const int *cpus, uint32_t cpu_count)
{
	struct perf_event_attr attr = {
	    .size = sizeof(attr),
	    .type = PERF_TYPE_SOFTWARE,
	    .config = PERF_COUNT_SW_DUMMY,
	    .sample_type = PERF_RING_SAMPLE_TYPE,
	    .exclude_kernel = 1,
	    .mmap = 1,
	    .mmap2 = 1,
	    .comm = 1,
	    .comm_exec = 1,
	    .task = 1,
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
		if (err == -ENODEV) /* the CPU went offline */
			err = 0;
	}
	if (err) {
		sampler_events_close(e);
		return err;
	}
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
	free(e->fd);
	free(e->ring);
	free(e);
}
