/* SPDX-License-Identifier: Apache-2.0
 * copy_mode.c - see copy_mode.h. The unwinder is the kernel's own (bpf/unwind.h), over the copy and
 * the tables that readers compiled. It sees no other memory of the process: the process may be
 * gone, and an ordinary user may not be allowed to read it. So code without rules ends a stack,
 * unless rbp marks the outermost frame. */
#include "sampler/copy_mode.h"

#include <dirent.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "sampler/perf_ring.h"
#include "sampler/sampler_events.h"
#include "sampler/unwind/unwind_replay.h"

#define CPUS_MAX 256u
/* With the first page 516 KiB, which is the default of kernel.perf_event_mlock_kb for an ordinary
 * user. */
#define RING_PAGES  128u
#define STACK_BYTES 16384u
#define EVENTS_MAX  8192u

/* perf's numbers of the registers (asm/perf_regs.h), by DWARF number; 16 is rip. */
static const uint8_t perf_register[UNWIND_REGISTERS + 1] = {0,	3,  2,	1,  4,	5,  6,	7, 16,
							    17, 18, 19, 20, 21, 22, 23, 8};
#define REGISTER_MASK 0xff01ffull

struct copy_sample {
	uint32_t pid, tid, cpu;
	uint64_t time_ns;
	const uint64_t *kernel;
	uint64_t kernel_count;
	uint64_t reg[UNWIND_REGISTERS + 1]; /* the last is the pc */
	const uint8_t *stack;
	uint64_t stack_bytes;
	bool user;
};

struct copy_mode {
	struct processes *processes;
	struct kernel_symbols *kernel;
	const char *proc_root;
	struct copy_mode_settings settings;
	bool with_kernel;
	int cpus[CPUS_MAX];
	uint32_t cpu_count;
	struct perf_ring ring[CPUS_MAX];
	int ring_fd[CPUS_MAX]; /* the event that owns the ring; -1: none yet */
	int *fd;
	uint32_t fd_count;
	int epoll_fd;
	struct unwind_replay *replay;
	struct unwind_state state;
	const struct copy_sample *sample; /* of the current walk */
	struct stack_batch batch;
	uint64_t begin_ns;
	struct copy_mode_stats stats;
};

/* ---- one sample ---- */

static int on_read(void *context, void *to, size_t bytes, uint64_t address)
{
	const struct copy_mode *c = context;
	const struct copy_sample *s = c->sample;
	uint64_t from = s->reg[UNWIND_RSP];

	if (address < from || bytes > s->stack_bytes || address - from > s->stack_bytes - bytes)
		return -EFAULT;
	memcpy(to, s->stack + (address - from), bytes);
	return 0;
}

static void frame_fill(struct copy_mode *c, const struct process *process, struct stack_frame *to,
		       uint64_t frame)
{
	uint64_t pc = frame & UNWIND_FRAME_PC;
	const struct process_mapping *m =
	    process_mapping_find(process, frame & UNWIND_FRAME_RETURN ? pc - 1 : pc);
	const struct process_file *f = m ? processes_file(c->processes, m->file) : NULL;

	memset(to, 0, sizeof(*to));
	to->kind = STACK_FRAME_ANONYMOUS;
	to->address = pc;
	to->flags = (uint8_t)((frame & UNWIND_FRAME_RETURN ? STACK_FRAME_RETURN : 0) |
			      (frame & UNWIND_FRAME_SCANNED ? STACK_FRAME_SCANNED : 0) |
			      (frame & UNWIND_FRAME_FP ? STACK_FRAME_FP : 0));
	if (f && !stack_batch_object(&c->batch, f->elf.build_id, f->elf.build_id_bytes,
				     f->path ? f->path : "", &to->object)) {
		to->kind = STACK_FRAME_NATIVE;
		to->address = pc - m->load_bias;
	}
}

/* Uses the mappings of the time when the sample was taken, because records come in order of
 * time. */
static enum stack_end walk(struct copy_mode *c, const struct copy_sample *s,
			   struct stack_frame *frames, uint32_t *count)
{
	struct process *process = processes_find(c->processes, s->pid);
	struct unwind_state *u = &c->state;

	if (!process || !processes_publish(c->processes, process)) {
		c->stats.unmapped++;
		return STACK_END_NO_MAPPING;
	}
	c->sample = s;
	u->pc = s->reg[UNWIND_REGISTERS];
	memcpy(u->reg, s->reg, sizeof(u->reg));
	u->owner = s->pid;
	u->process = process->published;
	unwind_replay_walk(c->replay, u);
	for (uint32_t i = 0; i < u->count; i++)
		frame_fill(c, process, &frames[i], u->frame[i]);
	*count = u->count;
	c->stats.scanned += u->scanned != 0;
	if (u->end == UNWIND_END_ROOT &&
	    (u->scanned || u->by_fp || process_replaced(process, process->generation, 0)))
		return STACK_END_GUESSED;
	return (enum stack_end)u->end;
}

static uint32_t kernel_part(struct copy_mode *c, const struct copy_sample *s,
			    struct stack_frame *frames)
{
	uint32_t n = 0;

	for (uint64_t i = 0; i < s->kernel_count && n < 127; i++) {
		struct stack_frame *f = &frames[n];
		const char *name;
		uint64_t offset;

		if (s->kernel[i] >= (uint64_t)-4095)
			continue; /* a marker of the kernel */
		name = kernel_symbols_find(c->kernel, s->kernel[i], &offset);
		memset(f, 0, sizeof(*f));
		f->kind = STACK_FRAME_KERNEL;
		f->flags = n ? STACK_FRAME_RETURN : 0;
		f->address = offset;
		if (stack_batch_string(&c->batch, name, strlen(name), &f->object))
			f->object = 0;
		n++;
	}
	return n;
}

static void sample_add(struct copy_mode *c, const struct copy_sample *s)
{
	static struct stack_frame
	    frames[UNWIND_FRAME_MAX + 128]; /* large, and used by one caller */
	uint64_t slice_ns = c->settings.slice_ns;
	struct stack_sample out = {.weight_ns = c->settings.weight_ns,
				   .pid = s->pid,
				   .tid = s->tid,
				   .count = 1,
				   .kind = STACK_ON_CPU,
				   .cpu = (uint16_t)s->cpu};
	uint32_t kernel_count, count, user = 0;
	enum stack_end end = STACK_END_NO_MAPPING;

	kernel_count = kernel_part(c, s, frames);
	if (s->user)
		end = walk(c, s, frames + kernel_count, &user);
	count = kernel_count + user;
	out.time_ns = slice_ns ? s->time_ns / slice_ns * slice_ns : c->begin_ns;
	if (stack_batch_stack(&c->batch, frames, count, kernel_count, end, &out.stack) ||
	    stack_batch_sample(&c->batch, &out)) {
		c->stats.lost++;
		return;
	}
	c->stats.samples++;
	c->stats.frames += count;
	c->stats.end[end]++;
}

/* ---- records ---- */

struct cursor {
	const uint8_t *at, *end;
	bool bad;
};

static uint64_t take_u64(struct cursor *c)
{
	uint64_t v = 0;

	if (c->end - c->at < 8) {
		c->bad = true;
		return 0;
	}
	memcpy(&v, c->at, 8);
	c->at += 8;
	return v;
}

static const uint8_t *take_bytes(struct cursor *c, uint64_t bytes)
{
	const uint8_t *at = c->at;

	if (c->bad || (uint64_t)(c->end - c->at) < bytes) {
		c->bad = true;
		return NULL;
	}
	c->at += bytes;
	return at;
}

/* TID, TIME, CPU, CALLCHAIN (with the kernel), REGS_USER, STACK_USER: in this order. */
static void on_sample(struct copy_mode *c, const struct perf_event_header *h)
{
	struct cursor at = {.at = (const uint8_t *)(h + 1), .end = (const uint8_t *)h + h->size};
	struct copy_sample s = {0};
	uint64_t ids = take_u64(&at), value[24] = {0}, copied;

	s.pid = (uint32_t)ids;
	s.tid = (uint32_t)(ids >> 32);
	s.time_ns = take_u64(&at);
	s.cpu = (uint32_t)take_u64(&at);
	if (c->with_kernel) {
		s.kernel_count = take_u64(&at);
		s.kernel = (const uint64_t *)(const void *)take_bytes(
		    &at, s.kernel_count > 1024 ? ~0ull : s.kernel_count * 8);
	}
	s.user = take_u64(&at) != PERF_SAMPLE_REGS_ABI_NONE;
	for (int i = 0; s.user && i < 24; i++) {
		if (REGISTER_MASK >> i & 1)
			value[i] = take_u64(&at);
	}
	for (int i = 0; i <= UNWIND_REGISTERS; i++)
		s.reg[i] = value[perf_register[i]];
	s.stack_bytes = take_u64(&at);
	s.stack = take_bytes(&at, s.stack_bytes);
	copied = s.stack_bytes ? take_u64(&at) : 0;
	if (at.bad || copied > s.stack_bytes)
		return;
	s.stack_bytes = copied;
	sample_add(c, &s);
}

static void on_record(void *arg, const struct perf_event_header *h)
{
	struct copy_mode *c = arg;
	uint64_t lost[2] = {0};

	if (sampler_events_record(c->processes, h))
		return;
	if (h->type == PERF_RECORD_SAMPLE) {
		on_sample(c, h);
	} else if (h->type == PERF_RECORD_LOST) {
		memcpy(lost, h + 1, h->size >= sizeof(*h) + sizeof(lost) ? sizeof(lost) : 0);
		c->stats.lost += lost[1];
		processes_on_lost(c->processes); /* a mapping may be lost */
	}
}

/* ---- events ---- */

static void attr_fill(const struct copy_mode *c, struct perf_event_attr *a)
{
	memset(a, 0, sizeof(*a));
	a->size = sizeof(*a);
	a->type = PERF_TYPE_SOFTWARE;
	a->config = PERF_COUNT_SW_CPU_CLOCK;
	a->sample_period = c->settings.period_ns;
	a->sample_type = PERF_RING_SAMPLE_TYPE | PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER |
			 (c->with_kernel ? PERF_SAMPLE_CALLCHAIN : 0);
	a->sample_regs_user = REGISTER_MASK;
	a->sample_stack_user = STACK_BYTES;
	a->exclude_callchain_user = 1;
	a->exclude_kernel = !c->with_kernel;
	a->exclude_hv = 1;
	a->inherit = 1;
	a->mmap = a->mmap2 = a->comm = a->comm_exec = a->task = a->sample_id_all = 1;
	a->use_clockid = 1;
	a->clockid = CLOCK_MONOTONIC;
	a->watermark = 1;
	a->wakeup_watermark = RING_PAGES * 4096 / 4;
}

/* The first event of a CPU opens the ring; the other events write to it. */
static int event_add(struct copy_mode *c, uint32_t cpu, uint32_t tid)
{
	struct epoll_event wake = {.events = EPOLLIN};
	struct perf_event_attr a;
	int fd, err = 0;

	if (c->fd_count >= EVENTS_MAX)
		return -EMFILE;
	attr_fill(c, &a);
	fd = perf_ring_event(&a, (pid_t)tid, c->cpus[cpu]);
	if (fd < 0)
		return fd;
	if (c->ring_fd[cpu] >= 0) {
		if (ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, c->ring_fd[cpu]))
			err = -errno;
	} else {
		err = perf_ring_open(&c->ring[cpu], fd, RING_PAGES);
		if (!err && epoll_ctl(c->epoll_fd, EPOLL_CTL_ADD, fd, &wake))
			err = -errno;
		if (!err)
			c->ring_fd[cpu] = fd;
	}
	if (err) {
		close(fd);
		return err;
	}
	c->fd[c->fd_count++] = fd;
	return 0;
}

int copy_mode_add(struct copy_mode *c, uint32_t pid)
{
	char name[192];
	int err = -ESRCH;
	DIR *d;

	snprintf(name, sizeof(name), "%s/%u/task", c->proc_root, pid);
	d = opendir(name);
	if (!d)
		return -ESRCH;
	for (struct dirent *e; (e = readdir(d));) {
		uint32_t tid = (uint32_t)strtoul(e->d_name, NULL, 10);

		for (uint32_t cpu = 0; tid && cpu < c->cpu_count; cpu++) {
			int one = event_add(c, cpu, tid);

			if (!one)
				err = 0;
			else if (err)
				err = one;
		}
	}
	closedir(d);
	return err;
}

int copy_mode_settings_set(struct copy_mode *c, const struct copy_mode_settings *settings)
{
	uint64_t period = settings->period_ns;
	int err = 0;

	c->settings = *settings;
	for (uint32_t i = 0; i < c->fd_count; i++) {
		if (ioctl(c->fd[i], PERF_EVENT_IOC_PERIOD, &period))
			err = -errno;
	}
	return err;
}

int copy_mode_fd(const struct copy_mode *c)
{
	return c->epoll_fd;
}

void copy_mode_poll(struct copy_mode *c)
{
	perf_ring_read(c->ring, c->cpu_count, on_record, c);
}

int copy_mode_drain(struct copy_mode *c, struct stack_batch *b)
{
	int err = stack_batch_merge(b, &c->batch, NULL, 0, 0, UINT64_MAX);

	stack_batch_clear(&c->batch);
	c->begin_ns = clock_monotonic_ns();
	return err;
}

void copy_mode_stats_get(const struct copy_mode *c, struct copy_mode_stats *out)
{
	*out = c->stats;
}

/* Tests on this process whether copy mode is permitted. */
static int permitted(struct copy_mode *c, char why[160], char missing[160])
{
	struct perf_event_attr a;
	int fd;

	c->with_kernel = true;
	attr_fill(c, &a);
	fd = perf_ring_event(&a, 0, -1);
	if (fd == -EACCES || fd == -EPERM) {
		c->with_kernel = false;
		attr_fill(c, &a);
		fd = perf_ring_event(&a, 0, -1);
		snprintf(missing, 160, "no kernel stacks (kernel.perf_event_paranoid above 1)");
	}
	if (fd < 0) {
		snprintf(why, 160, "perf_event_open refused (kernel.perf_event_paranoid): %s",
			 strerror(-fd));
		return fd;
	}
	close(fd);
	return 0;
}

int copy_mode_open(struct copy_mode **out, struct processes *processes,
		   const struct unwind_store *store, struct kernel_symbols *kernel,
		   const char *proc_root, const struct copy_mode_settings *settings, char why[160],
		   char missing[160])
{
	struct copy_mode *c = calloc(1, sizeof(*c));
	int err;

	missing[0] = 0;
	if (!c)
		return -ENOMEM;
	c->processes = processes;
	c->kernel = kernel;
	c->proc_root = proc_root;
	c->settings = *settings;
	c->begin_ns = clock_monotonic_ns();
	for (uint32_t i = 0; i < CPUS_MAX; i++)
		c->ring_fd[i] = -1;
	stack_batch_init(&c->batch, keyed_process());
	c->cpu_count = perf_ring_cpus(c->cpus, CPUS_MAX);
	c->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	c->fd = malloc(EVENTS_MAX * sizeof(*c->fd));
	err = c->epoll_fd < 0 || !c->fd ? -ENOMEM : permitted(c, why, missing);
	if (!err)
		err = unwind_replay_open(&c->replay, store, UNWIND_MODE_TABLE, on_read, c);
	if (err) {
		copy_mode_close(c);
		return err;
	}
	*out = c;
	return 0;
}

void copy_mode_close(struct copy_mode *c)
{
	if (!c)
		return;
	for (uint32_t cpu = 0; cpu < c->cpu_count; cpu++)
		perf_ring_close(&c->ring[cpu]);
	for (uint32_t i = 0; i < c->fd_count; i++)
		close(c->fd[i]);
	if (c->epoll_fd >= 0)
		close(c->epoll_fd);
	stack_batch_fini(&c->batch);
	unwind_replay_close(c->replay);
	free(c->fd);
	free(c);
}
