/* SPDX-License-Identifier: Apache-2.0
 * copy_mode.c - see copy_mode.h.
 * libunwind reads through callbacks: the stack from the copy, everything else from the files that
 * are mapped, never from the process, which may be gone and which an ordinary user may not be
 * allowed to read. */
#include "sampler/copy_mode.h"

#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <libunwind.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/limits.h"
#include "sampler/perf_ring.h"
#include "symbol/symbol_elf.h"

#define CPUS_MAX 256u
/* With the first page 516 KiB, what kernel.perf_event_mlock_kb gives an ordinary user by default.
 */
#define RING_PAGES	   128u
#define STACK_BYTES	   16384u
#define EVENTS_MAX	   8192u
#define DEPTH_MAX	   256u
#define FILES_OPEN_MAX	   512u
#define SEGMENTS_MAX	   16u
#define EH_FRAME_TABLE_ENC 0x3b /* data-relative, signed, 4 bytes: what every linker writes */

/* perf's numbers of the registers (asm/perf_regs.h), by DWARF number; 16 is rip. */
static const uint8_t perf_register[17] = {0,  3,  2,  1,  4,  5,  6,  7, 16,
					  17, 18, 19, 20, 21, 22, 23, 8};
#define REGISTER_MASK 0xff01ffull

/* libunwind's own search of an .eh_frame_hdr, for callbacks like ours; it has no header. */
extern int _Ux86_64_dwarf_search_unwind_table(unw_addr_space_t as, unw_word_t ip,
					      unw_dyn_info_t *di, unw_proc_info_t *pi, int need,
					      void *arg);

/* A mapped file, open. */
struct copy_file {
	uint32_t number;	 /* 0: free */
	int fd;			 /* -1: could not be opened */
	uint64_t hdr, hdr_bytes; /* .eh_frame_hdr, ELF virtual address; 0: none */
	struct {
		uint64_t offset, address, bytes;
	} load[SEGMENTS_MAX];
	uint32_t load_count;
};

struct copy_sample {
	uint32_t pid, tid, cpu;
	uint64_t time_ns;
	const uint64_t *kernel;
	uint64_t kernel_count;
	uint64_t reg[17];
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
	int ring_fd[CPUS_MAX]; /* the event that the ring belongs to; -1: none yet */
	int *fd;
	uint32_t fd_count;
	int epoll_fd;
	unw_addr_space_t space;
	struct copy_file *files; /* FILES_OPEN_MAX, by number modulo */
	/* of the walk */
	const struct copy_sample *sample;
	struct process *process;
	struct copy_file *current;
	uint64_t current_bias;
	struct stack_batch batch;
	uint64_t begin_ns;
	struct copy_mode_stats stats;
};

/* ---- files ---- */

static void file_segments(struct copy_file *f)
{
	Elf64_Ehdr eh;
	Elf64_Phdr ph;

	if (symbol_elf_read(f->fd, &eh, sizeof(eh), 0) || memcmp(eh.e_ident, ELFMAG, SELFMAG) ||
	    eh.e_phentsize != sizeof(ph) || eh.e_phnum > LIMIT_SYMBOL_SEGMENTS)
		return;
	for (uint32_t i = 0; i < eh.e_phnum && f->load_count < SEGMENTS_MAX; i++) {
		if (symbol_elf_read(f->fd, &ph, sizeof(ph), eh.e_phoff + i * sizeof(ph)))
			return;
		if (ph.p_type == PT_GNU_EH_FRAME) {
			f->hdr = ph.p_vaddr;
			f->hdr_bytes = ph.p_memsz;
		}
		if (ph.p_type != PT_LOAD)
			continue;
		f->load[f->load_count].offset = ph.p_offset;
		f->load[f->load_count].address = ph.p_vaddr;
		f->load[f->load_count++].bytes = ph.p_filesz;
	}
}

static struct copy_file *file_of(struct copy_mode *c, const struct process_mapping *m)
{
	struct copy_file *f = &c->files[m->file % FILES_OPEN_MAX];
	const struct process_file *known = processes_file(c->processes, m->file);

	if (!m->file || !known)
		return NULL;
	if (f->number == m->file)
		return f->fd >= 0 ? f : NULL;
	if (f->number && f->fd >= 0)
		close(f->fd);
	memset(f, 0, sizeof(*f));
	f->number = m->file;
	f->fd = mapping_open(c->proc_root, c->process->pid, m->begin, m->end, known->path);
	if (f->fd < 0)
		return NULL;
	file_segments(f);
	return f;
}

static int file_read(const struct copy_file *f, uint64_t address, void *to, size_t bytes)
{
	for (uint32_t i = 0; i < f->load_count; i++) {
		if (address >= f->load[i].address && bytes <= f->load[i].bytes &&
		    address - f->load[i].address <= f->load[i].bytes - bytes)
			return symbol_elf_read(f->fd, to, bytes,
					       f->load[i].offset + address - f->load[i].address);
	}
	return -EFAULT;
}

/* ---- libunwind's callbacks ---- */

static int on_find(unw_addr_space_t as, unw_word_t ip, unw_proc_info_t *pi, int need, void *arg)
{
	struct copy_mode *c = arg;
	const struct process_mapping *m = process_mapping_find(c->process, ip);
	struct copy_file *f = m ? file_of(c, m) : NULL;
	unw_dyn_info_t di = {0};
	uint8_t head[12];
	uint32_t count;

	if (!f || !f->hdr || f->hdr_bytes < sizeof(head) ||
	    file_read(f, f->hdr, head, sizeof(head)) || head[0] != 1 || head[2] != 3 ||
	    head[3] != EH_FRAME_TABLE_ENC)
		return -UNW_ENOINFO;
	memcpy(&count, head + 8, sizeof(count));
	if (count > (f->hdr_bytes - sizeof(head)) / 8)
		return -UNW_ENOINFO;
	c->current = f;
	c->current_bias = m->load_bias;
	di.format = UNW_INFO_FORMAT_REMOTE_TABLE;
	di.start_ip = m->begin;
	di.end_ip = m->end;
	di.u.rti.segbase = f->hdr + m->load_bias;
	di.u.rti.table_data = di.u.rti.segbase + sizeof(head);
	di.u.rti.table_len = (unw_word_t)count * 8 / sizeof(unw_word_t);
	return _Ux86_64_dwarf_search_unwind_table(as, ip, &di, pi, need, arg);
}

static void on_put(unw_addr_space_t as, unw_proc_info_t *pi, void *arg)
{
}

static int on_list(unw_addr_space_t as, unw_word_t *address, void *arg)
{
	return -UNW_ENOINFO;
}

static int on_mem(unw_addr_space_t as, unw_word_t address, unw_word_t *value, int write, void *arg)
{
	struct copy_mode *c = arg;
	const struct copy_sample *s = c->sample;
	uint64_t from = s->reg[7];
	const struct process_mapping *m;
	struct copy_file *f;

	if (write)
		return -UNW_EINVAL;
	if (address >= from && s->stack_bytes >= 8 && address - from <= s->stack_bytes - 8) {
		memcpy(value, s->stack + (address - from), 8);
		return 0;
	}
	if (c->current && !file_read(c->current, address - c->current_bias, value, 8))
		return 0;
	m = process_mapping_find(c->process, address);
	f = m ? file_of(c, m) : NULL;
	return f && !file_read(f, address - m->load_bias, value, 8) ? 0 : -UNW_EUNSPEC;
}

static int on_reg(unw_addr_space_t as, unw_regnum_t reg, unw_word_t *value, int write, void *arg)
{
	struct copy_mode *c = arg;

	if (write || reg < 0 || reg > 16)
		return -UNW_EBADREG;
	*value = c->sample->reg[reg];
	return 0;
}

static int on_fpreg(unw_addr_space_t as, unw_regnum_t reg, unw_fpreg_t *value, int write, void *arg)
{
	return -UNW_EBADREG;
}

static int on_resume(unw_addr_space_t as, unw_cursor_t *cursor, void *arg)
{
	return -UNW_EINVAL;
}

static int on_name(unw_addr_space_t as, unw_word_t address, char *name, size_t bytes,
		   unw_word_t *offset, void *arg)
{
	return -UNW_ENOINFO;
}

static unw_accessors_t accessors = {on_find, on_put,   on_list,	  on_mem,
				    on_reg,  on_fpreg, on_resume, on_name};

/* ---- one sample ---- */

static void frame_fill(struct copy_mode *c, struct stack_frame *to, uint64_t pc, bool first)
{
	const struct process_mapping *m = process_mapping_find(c->process, first ? pc : pc - 1);
	const struct process_file *f = m ? processes_file(c->processes, m->file) : NULL;

	memset(to, 0, sizeof(*to));
	to->kind = STACK_FRAME_ANONYMOUS;
	to->address = pc;
	to->flags = first ? 0 : STACK_FRAME_RETURN;
	if (f && !stack_batch_object(&c->batch, f->elf.build_id, f->elf.build_id_bytes,
				     f->path ? f->path : "", &to->object)) {
		to->kind = STACK_FRAME_NATIVE;
		to->address = pc - m->load_bias;
	}
}

static enum stack_end walk(struct copy_mode *c, struct stack_frame *frames, uint32_t *count)
{
	enum stack_end end = STACK_END_DEPTH;
	unw_cursor_t cursor;
	unw_word_t pc;
	int rc;

	c->current = NULL;
	if (unw_init_remote(&cursor, c->space, c))
		return STACK_END_FAULT;
	for (uint32_t n = 0; n < DEPTH_MAX; n++) {
		if (unw_get_reg(&cursor, UNW_REG_IP, &pc) || !pc)
			return STACK_END_ROOT;
		if (!process_mapping_find(c->process, n ? pc - 1 : pc))
			return STACK_END_NO_MAPPING;
		frame_fill(c, &frames[(*count)++], pc, n == 0);
		rc = unw_step(&cursor);
		if (rc == 0)
			return STACK_END_ROOT;
		if (rc < 0) {
			end = rc == -UNW_ENOINFO ? STACK_END_NO_ROW : STACK_END_FAULT;
			break;
		}
	}
	return end;
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
			continue; /* a marker of the kernel's */
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
	static struct stack_frame frames[DEPTH_MAX + 128]; /* large, and used by one caller */
	uint64_t slice_ns = c->settings.slice_ns;
	struct stack_sample out = {.weight_ns = c->settings.weight_ns,
				   .pid = s->pid,
				   .tid = s->tid,
				   .count = 1,
				   .kind = STACK_ON_CPU,
				   .cpu = (uint16_t)s->cpu};
	uint32_t kernel_count, count, user = 0;
	enum stack_end end = STACK_END_NO_MAPPING;

	c->process = processes_find(c->processes, s->pid);
	c->sample = s;
	kernel_count = kernel_part(c, s, frames);
	if (c->process && s->user)
		end = walk(c, frames + kernel_count, &user);
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
	for (int i = 0; i < 17; i++)
		s.reg[i] = value[perf_register[i]];
	s.stack_bytes = take_u64(&at);
	s.stack = take_bytes(&at, s.stack_bytes);
	copied = s.stack_bytes ? take_u64(&at) : 0;
	if (at.bad || copied > s.stack_bytes)
		return;
	s.stack_bytes = copied;
	sample_add(c, &s);
}

static void on_mmap(struct copy_mode *c, const struct perf_event_header *h)
{
	struct cursor at = {.at = (const uint8_t *)(h + 1), .end = (const uint8_t *)h + h->size};
	uint64_t ids = take_u64(&at);
	struct process_mapping m = {.begin = take_u64(&at)};
	const uint8_t *path;

	m.end = m.begin + take_u64(&at);
	m.offset = take_u64(&at);
	take_bytes(&at, 32); /* device, inode, protection */
	path = take_bytes(&at, 1);
	if (at.bad || m.end <= m.begin || m.end >> 56 || !memchr(path, 0, (size_t)(at.end - path)))
		return;
	processes_on_mmap(c->processes, (uint32_t)ids, &m, NULL, 0, (const char *)path);
}

static void on_record(void *arg, const struct perf_event_header *h)
{
	struct copy_mode *c = arg;
	uint32_t ids[4] = {0};

	if (h->size >= sizeof(*h) + sizeof(ids))
		memcpy(ids, h + 1,
		       sizeof(ids)); /* fork, exit: pid, ppid, tid, ptid; comm: pid, tid */
	if (h->type == PERF_RECORD_SAMPLE)
		on_sample(c, h);
	else if (h->type == PERF_RECORD_MMAP2)
		on_mmap(c, h);
	else if (h->type == PERF_RECORD_FORK && ids[0] != ids[1])
		processes_on_fork(c->processes, ids[1], ids[0]);
	else if (h->type == PERF_RECORD_EXIT && ids[0] == ids[2])
		processes_on_exit(c->processes, ids[0]);
	else if (h->type == PERF_RECORD_COMM && h->misc & PERF_RECORD_MISC_COMM_EXEC)
		processes_on_exec(c->processes, ids[0]);
	else if (h->type == PERF_RECORD_LOST) {
		uint64_t lost[2] = {0};

		memcpy(lost, h + 1, h->size >= sizeof(*h) + sizeof(lost) ? sizeof(lost) : 0);
		c->stats.lost += lost[1];
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
	a->sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU |
			 PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER |
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

/* The first event of a CPU brings the ring, the others write to it. */
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
	for (uint32_t cpu = 0; cpu < c->cpu_count; cpu++)
		perf_ring_read(&c->ring[cpu], on_record, c);
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

/* Tries it on ourselves. */
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
		   struct kernel_symbols *kernel, const char *proc_root,
		   const struct copy_mode_settings *settings, char why[160], char missing[160])
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
	stack_batch_init(&c->batch);
	c->cpu_count = perf_ring_cpus(c->cpus, CPUS_MAX);
	c->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	c->fd = malloc(EVENTS_MAX * sizeof(*c->fd));
	c->files = calloc(FILES_OPEN_MAX, sizeof(*c->files));
	c->space = unw_create_addr_space(&accessors, 0);
	err = c->epoll_fd < 0 || !c->fd || !c->files || !c->space ? -ENOMEM
								  : permitted(c, why, missing);
	if (err) {
		copy_mode_close(c);
		return err;
	}
	unw_set_caching_policy(c->space, UNW_CACHE_NONE);
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
	for (uint32_t i = 0; c->files && i < FILES_OPEN_MAX; i++) {
		if (c->files[i].number && c->files[i].fd >= 0)
			close(c->files[i].fd);
	}
	if (c->space)
		unw_destroy_addr_space(c->space);
	if (c->epoll_fd >= 0)
		close(c->epoll_fd);
	stack_batch_fini(&c->batch);
	free(c->files);
	free(c->fd);
	free(c);
}
