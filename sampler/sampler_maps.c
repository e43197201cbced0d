/* SPDX-License-Identifier: Apache-2.0
 * sampler_maps.c - see sampler_maps.h. */
#include "sampler/sampler_maps.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "bpf/off_cpu_loop.skel.h"
#include "bpf/off_cpu_tail.skel.h"
#include "bpf/sampler_loop.skel.h"
#include "bpf/sampler_tail.skel.h"
#include "sampler/map_sizes.h"
#include "sampler/pid_ns.h"

#define COUNT_BATCH	    4096u
#define BLOCKED_BATCH	    512u
#define PERF_BUFFER_PAGES   32u
#define SWITCH_BUFFER_PAGES 8u /* some 500 records per CPU in 100 ms */

/* Programs that observe sleeping and waking threads, and interrupts. */
static const char *const off_programs[] = {
    "on_switch",     "on_waking",      "on_soft_begin", "on_soft_end",	  "on_device_begin",
    "on_device_end", "on_timer_begin", "on_timer_end",	"on_clock_begin", "on_clock_end"};
#define OFF_PROGRAMS (sizeof(off_programs) / sizeof(off_programs[0]))

struct sampler_maps {
	bool tail, mmapable;
	bool memlock_free; /* no limit on locked memory */
	struct map_sizes sizes;
	struct sampler_loop *loop;
	struct sampler_tail *tail_calls;
	struct off_cpu_loop *off_loop;
	struct off_cpu_tail *off_tail;
	/* off_cpu_processes and off_cpu_threads of the programs; NULL: not writable */
	uint8_t *off_marks;
	struct sampler_mark *thread_marks;
	struct bpf_object *on, *off;
	struct bpf_link **links;
	uint32_t link_count;
	struct bpf_link *off_link[OFF_PROGRAMS]; /* by off_programs */
	struct ring_buffer *ring;
	struct perf_buffer *buffer, *switch_buffer;
	sampler_maps_stack_fn stack_fn, switch_fn;
	void *stack_arg, *switch_arg;
	int switch_threads, switch_wanted; /* -1: no switch records */
	int every_tick;
	uint32_t switch_count; /* threads that are recorded or wanted */
	int control, processes, python, counts, set[2], counters, blocked, shards;
	struct sampler_control now;
	bool batch; /* lookup-and-delete in batches works */
	int shard_fd[UNWIND_SHARD_MAX];
	uint32_t shard_count;
	uint64_t map_bytes;
	struct sampler_key keys[COUNT_BATCH];
	struct sampler_count values[COUNT_BATCH];
	struct sampler_blocked sleepers[BLOCKED_BATCH];
};

/* libbpf's last message in this thread: the reason why a load failed. */
static __thread char complaint[160];

static int keep_complaint(enum libbpf_print_level level, const char *format, va_list args)
{
	char text[1024], *line;

	if (level == LIBBPF_DEBUG)
		return 0;
	vsnprintf(text, sizeof(text), format, args);
	line = strncmp(text, "libbpf: ", 8) ? text : text + 8;
	line[strcspn(line, "\n")] = 0;
	if (!complaint[0])
		snprintf(complaint, sizeof(complaint), "%.150s", line);
	return 0;
}

static int map_fd(const struct bpf_object *o, const char *name)
{
	struct bpf_map *map = bpf_object__find_map_by_name(o, name);

	return map ? bpf_map__fd(map) : -ENOENT;
}

/* ---- loading ---- */

/* Leaves out the programs of a tracepoint that this kernel does not have. */
static void leave_out_clock(const struct bpf_object *o)
{
	struct btf *kernel = btf__load_vmlinux_btf();
	bool has = kernel && btf__find_by_name_kind(kernel, "btf_trace_local_timer_entry",
						    BTF_KIND_TYPEDEF) > 0;

	for (int i = 0; i < 2 && !has; i++)
		bpf_program__set_autoload(
		    bpf_object__find_program_by_name(o, i ? "on_clock_end" : "on_clock_begin"),
		    false);
	btf__free(kernel);
}

struct settings {
	uint32_t ring_bytes;
	struct pid_ns own;
	bool python;
	bool by_number; /* marks cannot be written from here */
};

#define SETTINGS_APPLY(skeleton, s)                                                                \
	do {                                                                                       \
		(skeleton)->rodata->task_number_ns = (s)->own.inode;                               \
		(skeleton)->rodata->sampler_pid_ns_dev = (s)->own.dev;                             \
		(skeleton)->rodata->sampler_python = (s)->python;                                  \
		(skeleton)->rodata->sampler_ring_bytes = (s)->ring_bytes;                          \
	} while (0)

static void settings_find(const struct sampler_maps *m, struct settings *s,
			  const struct sampler_options *o)
{
	memset(s, 0, sizeof(*s));
	s->own = pid_ns_own();
	s->python = o->python;
	s->by_number = s->own.inode || !m->mmapable;
	s->ring_bytes = m->sizes.ring_bytes;
}

static void resize(const struct bpf_object *o, const char *name, uint32_t entries)
{
	struct bpf_map *map = bpf_object__find_map_by_name(o, name);

	if (map)
		bpf_map__set_max_entries(map, entries);
}

static void size_maps(struct sampler_maps *m, struct bpf_object *o)
{
	struct bpf_map *map = bpf_object__find_map_by_name(o, "unwind_shards");

	resize(o, "counts_even", m->sizes.counts);
	resize(o, "counts_odd", m->sizes.counts);
	resize(o, "seen", m->sizes.seen);
	resize(o, "blocked", m->sizes.blocked);
	resize(o, "sites", m->sizes.sites);
	if (!m->tail) {
		resize(o, "stacks", m->sizes.ring_bytes);
		resize(o, "switches", m->sizes.switch_ring_bytes);
	}
	if (!m->mmapable && map)
		bpf_map__set_map_flags(bpf_map__inner_map(map), 0);
}

/* Whether user space can map BPF arrays: 5.5. */
static bool probe_mmapable(void)
{
	LIBBPF_OPTS(bpf_map_create_opts, opts, .map_flags = BPF_F_MMAPABLE);
	int fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "sysom_probe", 4, 8, 1, &opts);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

/* Tests batches on an empty period: the kernel returns -EINVAL if it has none (before 5.6). */
static bool probe_batch(struct sampler_maps *m)
{
	LIBBPF_OPTS(bpf_map_batch_opts, opts);
	uint32_t n = 1, at = 0;
	int err =
	    bpf_map_lookup_and_delete_batch(m->set[0], NULL, &at, m->keys, m->values, &n, &opts);

	return !err || err == -ENOENT;
}

static int load_on(struct sampler_maps *m, const struct sampler_options *o, struct settings *s)
{
	settings_find(m, s, o);
	if (m->tail) {
		m->tail_calls = sampler_tail__open();
		if (!m->tail_calls)
			return -errno;
		SETTINGS_APPLY(m->tail_calls, s);
		m->on = m->tail_calls->obj;
		size_maps(m, m->on);
		return sampler_tail__load(m->tail_calls);
	}
	m->loop = sampler_loop__open();
	if (!m->loop)
		return -errno;
	SETTINGS_APPLY(m->loop, s);
	m->on = m->loop->obj;
	size_maps(m, m->on);
	return sampler_loop__load(m->loop);
}

/* Shares all of the object's maps except its private ones. */
static int share_maps(struct sampler_maps *m, struct bpf_object *o)
{
	struct bpf_map *map;

	bpf_object__for_each_map(map, o)
	{
		const char *name = bpf_map__name(map);
		int fd = map_fd(m->on, name), err;

		if (fd < 0 || !strcmp(name, "scratch") || strchr(name, '.'))
			continue;
		err = bpf_map__reuse_fd(map, fd);
		if (err)
			return err;
	}
	return 0;
}

static int link_add(struct sampler_maps *m, struct bpf_link *link)
{
	struct bpf_link **grown;
	long err = libbpf_get_error(link);

	if (err)
		return (int)err;
	grown = realloc(m->links, (m->link_count + 1) * sizeof(*grown));
	if (!grown) {
		bpf_link__destroy(link);
		return -ENOMEM;
	}
	m->links = grown;
	m->links[m->link_count++] = link;
	return 0;
}

static int prog_slot(struct bpf_object *o, const char *array, uint32_t slot, const char *program)
{
	struct bpf_program *p = bpf_object__find_program_by_name(o, program);
	int fd = p ? bpf_program__fd(p) : -ENOENT;

	return fd < 0 ? fd : bpf_map_update_elem(map_fd(o, array), &slot, &fd, BPF_ANY);
}

static int attach_named(struct bpf_link **out, struct bpf_object *o, const char *program)
{
	struct bpf_program *p = bpf_object__find_program_by_name(o, program);
	long err;

	if (!p)
		return -ENOENT;
	*out = bpf_program__attach(p);
	err = libbpf_get_error(*out);
	if (err)
		*out = NULL;
	return (int)err;
}

static void detach_off(struct sampler_maps *m)
{
	for (size_t i = 0; i < OFF_PROGRAMS; i++) {
		bpf_link__destroy(m->off_link[i]);
		m->off_link[i] = NULL;
	}
}

static bool is_loaded(const struct bpf_object *o, const char *program)
{
	const struct bpf_program *p = bpf_object__find_program_by_name(o, program);

	return !p || bpf_program__autoload(p);
}

static int attach_off(struct sampler_maps *m)
{
	int err = 0;

	for (size_t i = 0; i < OFF_PROGRAMS && !err; i++)
		if (is_loaded(m->off, off_programs[i]))
			err = attach_named(&m->off_link[i], m->off, off_programs[i]);
	if (err)
		detach_off(m);
	return err;
}

/* Forgets sleeping threads: a thread that slept when the observation stopped may have woken
 * since. */
static void forget_blocked(struct sampler_maps *m)
{
	uint32_t tid;

	for (uint32_t i = 0; i < m->sizes.blocked && !bpf_map_get_next_key(m->blocked, NULL, &tid);
	     i++)
		bpf_map_delete_elem(m->blocked, &tid);
}

static int switches_change(struct sampler_maps *m, bool on);

int sampler_maps_off_cpu(struct sampler_maps *m, bool on)
{
	int err;

	if (m->blocked < 0 || on == (m->off_link[0] != NULL))
		return 0;
	if (on) {
		err = attach_off(m);
		return err ? err : switches_change(m, true);
	}
	detach_off(m);
	forget_blocked(m);
	return switches_change(m, false);
}

#define OFF_DATA(m, member) ((m)->tail ? (m)->off_tail->bss->member : (m)->off_loop->bss->member)

/* Loads the object with all marks set, so every process may be sampled. If its data is writable
 * from here (5.5) and our PIDs are those of the initial namespace, only the required marks are
 * set. */
static int load_marks(struct sampler_maps *m, const struct settings *s)
{
	const struct bpf_map *bss;
	int err;

	memset(OFF_DATA(m, off_cpu_processes), SAMPLER_MARK_SAMPLED, SAMPLER_MARKS);
	err = m->tail ? off_cpu_tail__load(m->off_tail) : off_cpu_loop__load(m->off_loop);
	bss = m->tail ? m->off_tail->maps.bss : m->off_loop->maps.bss;
	if (err || s->by_number || !(bpf_map__map_flags(bss) & BPF_F_MMAPABLE))
		return err;
	m->off_marks = OFF_DATA(m, off_cpu_processes);
	m->thread_marks = OFF_DATA(m, off_cpu_threads);
	memset(m->off_marks, 0, SAMPLER_MARKS);
	return 0;
}

#define SWITCH_SETTINGS_APPLY(skeleton, m, s)                                                      \
	do {                                                                                       \
		(skeleton)->rodata->switch_by_number = (s)->by_number;                             \
		(skeleton)->rodata->switch_ring_bytes = (m)->sizes.switch_ring_bytes;              \
	} while (0)

static int open_switches(struct sampler_maps *m);

static int load_off(struct sampler_maps *m, const struct settings *s)
{
	int err;

	if (m->tail) {
		m->off_tail = off_cpu_tail__open();
		if (!m->off_tail)
			return -errno;
		SETTINGS_APPLY(m->off_tail, s);
		SWITCH_SETTINGS_APPLY(m->off_tail, m, s);
		m->off = m->off_tail->obj;
	} else {
		m->off_loop = off_cpu_loop__open();
		if (!m->off_loop)
			return -errno;
		SETTINGS_APPLY(m->off_loop, s);
		SWITCH_SETTINGS_APPLY(m->off_loop, m, s);
		m->off = m->off_loop->obj;
	}
	leave_out_clock(m->off);
	size_maps(m, m->off);
	err = share_maps(m, m->off);
	if (!err)
		err = load_marks(m, s);
	if (!err && m->tail) {
		err = prog_slot(m->off, "switch_progs", 0, "switch_walk");
		err = err ? err : prog_slot(m->off, "switch_progs", 1, "switch_blind");
		err = err ? err : prog_slot(m->off, "switch_progs", 2, "switch_end");
		err = err ? err : prog_slot(m->off, "switch_progs", 3, "switch_stacks");
	}
	err = err ? err : open_switches(m);
	err = err ? err : attach_off(m);
	m->blocked = err ? -1 : map_fd(m->off, "blocked");
	m->switch_threads = err ? -1 : map_fd(m->off, "switch_threads");
	m->switch_wanted = err ? -1 : map_fd(m->off, "switch_wanted");
	return err;
}

/* ---- stacks ---- */

static int on_ring(void *arg, void *data, size_t bytes)
{
	struct sampler_maps *m = arg;

	m->stack_fn(m->stack_arg, data, bytes);
	return 0;
}

struct raw_event {
	struct perf_event_header header;
	uint32_t bytes;
	char data[];
};

static enum bpf_perf_event_ret on_buffer(void *arg, int cpu, struct perf_event_header *event)
{
	struct sampler_maps *m = arg;
	struct raw_event *raw = (void *)event;

	/* The program counts what found no room. */
	if (event->type == PERF_RECORD_SAMPLE && raw->bytes <= event->size)
		m->stack_fn(m->stack_arg, raw->data, raw->bytes);
	return LIBBPF_PERF_EVENT_CONT;
}

static int on_switch_ring(void *arg, void *data, size_t bytes)
{
	struct sampler_maps *m = arg;

	if (m->switch_fn)
		m->switch_fn(m->switch_arg, data, bytes);
	return 0;
}

/* The kernel side counts the records that found no room. */
static enum bpf_perf_event_ret on_switch_buffer(void *arg, int cpu, struct perf_event_header *event)
{
	struct sampler_maps *m = arg;
	struct raw_event *raw = (void *)event;

	if (event->type == PERF_RECORD_SAMPLE && raw->bytes <= event->size && m->switch_fn)
		m->switch_fn(m->switch_arg, raw->data, raw->bytes);
	return LIBBPF_PERF_EVENT_CONT;
}

static struct perf_buffer *open_buffer(struct sampler_maps *m, int fd, uint32_t pages,
				       perf_buffer_event_fn fn)
{
	struct perf_event_attr attr = {
	    .size = sizeof(attr),
	    .type = PERF_TYPE_SOFTWARE,
	    .config = PERF_COUNT_SW_BPF_OUTPUT,
	    .sample_type = PERF_SAMPLE_RAW,
	    .sample_period = 1,
	    .watermark = 1,
	    .wakeup_watermark = pages * 4096 / 4,
	};

	return perf_buffer__new_raw(fd, pages, &attr, fn, m, NULL);
}

static int open_stacks(struct sampler_maps *m)
{
	int fd = map_fd(m->on, "stacks");

	if (m->tail) {
		m->buffer = open_buffer(m, fd, PERF_BUFFER_PAGES, on_buffer);
		return m->buffer ? 0 : -errno;
	}
	m->ring = ring_buffer__new(fd, on_ring, m, NULL);
	return m->ring ? 0 : -errno;
}

static int open_switches(struct sampler_maps *m)
{
	int fd = map_fd(m->off, "switches");

	if (!m->tail)
		return ring_buffer__add(m->ring, fd, on_switch_ring, m);
	m->switch_buffer = open_buffer(m, fd, SWITCH_BUFFER_PAGES, on_switch_buffer);
	return m->switch_buffer ? 0 : -errno;
}

int sampler_maps_stacks(struct sampler_maps *m, sampler_maps_stack_fn fn, void *arg)
{
	m->stack_fn = fn;
	m->stack_arg = arg;
	if (m->switch_buffer)
		perf_buffer__consume(m->switch_buffer);
	return m->tail ? perf_buffer__consume(m->buffer) : ring_buffer__consume(m->ring);
}

int sampler_maps_fd(const struct sampler_maps *m)
{
	return m->tail ? perf_buffer__epoll_fd(m->buffer) : ring_buffer__epoll_fd(m->ring);
}

/* ---- tables ---- */

static int shard_grow(void *context, uint32_t shard, uint32_t **words)
{
	struct sampler_maps *m = context;
	LIBBPF_OPTS(bpf_map_create_opts, opts, .map_flags = m->mmapable ? BPF_F_MMAPABLE : 0);
	size_t bytes = (size_t)UNWIND_SHARD_WORDS * 4;
	void *at = MAP_FAILED;
	int fd, err;

	if (shard >= UNWIND_SHARD_MAX || shard != m->shard_count)
		return -EINVAL;
	fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "unwind_shard", 4, sizeof(struct unwind_chunk),
			    UNWIND_SHARD_CHUNKS, &opts);
	/* before 5.11 the locked-memory limit may be reached: the tables keep their size */
	if (fd < 0)
		return errno == EPERM ? -ENOSPC : -errno;
	at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		  m->mmapable ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, m->mmapable ? fd : -1, 0);
	err = at == MAP_FAILED ? -errno : bpf_map_update_elem(m->shards, &shard, &fd, BPF_ANY);
	if (err) {
		if (at != MAP_FAILED)
			munmap(at, bytes);
		close(fd);
		return err;
	}
	m->shard_fd[m->shard_count++] = fd;
	*words = at;
	return 0;
}

static int shard_commit(void *context, const uint32_t *words, uint32_t first, uint32_t count)
{
	struct sampler_maps *m = context;
	uint32_t shard = first / UNWIND_SHARD_WORDS;
	uint32_t from = first % UNWIND_SHARD_WORDS / UNWIND_CHUNK_WORDS;
	uint32_t to =
	    (first % UNWIND_SHARD_WORDS + count + UNWIND_CHUNK_WORDS - 1) / UNWIND_CHUNK_WORDS;
	const uint32_t *begin = words - first % UNWIND_SHARD_WORDS;

	for (uint32_t chunk = from; chunk < to; chunk++) {
		if (bpf_map_update_elem(m->shard_fd[shard], &chunk,
					begin + (size_t)chunk * UNWIND_CHUNK_WORDS, BPF_ANY))
			return -errno;
	}
	return 0;
}

static void shard_release(void *context, uint32_t shard, uint32_t *words)
{
	munmap(words, (size_t)UNWIND_SHARD_WORDS * 4);
}

void sampler_maps_backing(struct sampler_maps *m, struct unwind_backing *out)
{
	out->context = m;
	out->grow = shard_grow;
	out->commit = m->mmapable ? NULL : shard_commit;
	out->release = shard_release;
}

/* ---- processes and control ---- */

int sampler_maps_process(struct sampler_maps *m, uint32_t pid, const struct unwind_process *p,
			 uint8_t generation)
{
	struct sampler_process value = {.maps = *p, .generation = generation};

	if (m->off_marks)
		m->off_marks[pid % SAMPLER_MARKS] |= SAMPLER_MARK_SAMPLED;
	return bpf_map_update_elem(m->processes, &pid, &value, BPF_ANY) ? -errno : 0;
}

void sampler_maps_process_remove(struct sampler_maps *m, uint32_t pid)
{
	bpf_map_delete_elem(m->processes, &pid);
	bpf_map_delete_elem(m->python, &pid);
}

int sampler_maps_python(struct sampler_maps *m, uint32_t pid, const struct python_process *p)
{
	if (p)
		return bpf_map_update_elem(m->python, &pid, p, BPF_ANY) ? -errno : 0;
	bpf_map_delete_elem(m->python, &pid);
	return 0;
}

int sampler_maps_control(struct sampler_maps *m, const struct sampler_control *c)
{
	uint32_t zero = 0, epoch = m->now.epoch, wanted = m->now.switch_wanted;

	m->now = *c;
	m->now.epoch = epoch;
	m->now.switch_wanted = wanted;
	return bpf_map_update_elem(m->control, &zero, &m->now, BPF_ANY) ? -errno : 0;
}

int sampler_maps_swap(struct sampler_maps *m, uint32_t *old)
{
	uint32_t zero = 0, slot = m->now.epoch & 1;

	*old = m->now.epoch++;
	if (bpf_map_update_elem(m->control, &zero, &m->now, BPF_ANY))
		return -errno;
	/* Changes nothing, but returns only after a grace period: see bpf/sampler_core.h. */
	return bpf_map_update_elem(m->counts, &slot, &m->set[slot], BPF_ANY) ? -errno : 0;
}

/* ---- switch records ---- */

void sampler_maps_switch_sink(struct sampler_maps *m, sampler_maps_stack_fn fn, void *arg)
{
	m->switch_fn = fn;
	m->switch_arg = arg;
}

int sampler_maps_switch_fd(const struct sampler_maps *m)
{
	return m->switch_buffer ? perf_buffer__epoll_fd(m->switch_buffer) : -1;
}

/* Whether the kernel must look up threads by their numbers in our namespace. */
static int switches_look(struct sampler_maps *m)
{
	uint32_t zero = 0, key;

	m->now.switch_wanted = !bpf_map_get_next_key(m->switch_wanted, NULL, &key);
	return bpf_map_update_elem(m->control, &zero, &m->now, BPF_ANY) ? -errno : 0;
}

static void row_begin(struct sampler_switch_thread *row)
{
	row->since_ns = row->credit_at_ns = clock_monotonic_ns();
	row->state = SAMPLER_SWITCH_UNKNOWN;
	row->phase = SAMPLER_SWITCH_BEGUN;
	row->woken_ns = row->in_ns = 0;
	row->soft_since_ns = row->device_since_ns = row->queue = 0;
	row->on_known = 0;
	row->faults_known = 0;
	memset(&row->stacks, 0, sizeof(row->stacks));
	memset(&row->taken, 0, sizeof(row->taken));
}

int sampler_maps_switch_add(struct sampler_maps *m, struct sampler_switch_thread *row)
{
	int err;

	if (m->switch_threads < 0)
		return -ENOTSUP;
	if (m->switch_count >= SAMPLER_SWITCH_THREADS)
		return -ENOSPC;
	row_begin(row);
	row->credit_ns = SAMPLER_SWITCH_BURST_NS;
	row->skipped.tid = row->tid;
	row->skipped.kind = SAMPLER_SWITCH_SKIPPED;
	if (m->thread_marks) {
		row->first_pid = row->pid;
		m->off_marks[row->pid % SAMPLER_MARKS] |= SAMPLER_MARK_RECORDED;
		m->thread_marks[row->tid % SAMPLER_MARKS].recorded = 1;
		err = bpf_map_update_elem(m->switch_threads, &row->tid, row, BPF_ANY) ? -errno : 0;
	} else {
		err = bpf_map_update_elem(m->switch_wanted, &row->tid, row, BPF_ANY) ? -errno : 0;
		err = err ? err : switches_look(m);
	}
	err = err || !bpf_map_update_elem(m->every_tick, &row->tid, &row->pid, BPF_ANY) ? err
											: -errno;
	m->switch_count += !err;
	return err;
}

void sampler_maps_switch_remove(struct sampler_maps *m, uint32_t first_tid, uint32_t tid)
{
	bpf_map_delete_elem(m->every_tick, &tid);
	if (first_tid)
		bpf_map_delete_elem(m->switch_threads, &first_tid);
	if (!m->thread_marks) {
		bpf_map_delete_elem(m->switch_wanted, &tid);
		switches_look(m);
	}
	if (--m->switch_count || !m->thread_marks)
		return;
	for (uint32_t i = 0; i < SAMPLER_MARKS; i++) {
		m->off_marks[i] &= (uint8_t)~SAMPLER_MARK_RECORDED;
		m->thread_marks[i].recorded = 0;
	}
}

/* Reads the keys first: a row deleted meanwhile would restart the walk. */
void sampler_maps_switch_rows(struct sampler_maps *m, sampler_maps_switch_fn fn, void *arg)
{
	uint32_t keys[SAMPLER_SWITCH_THREADS], count = 0;
	struct sampler_switch_thread row;

	if (m->switch_threads < 0 || !m->switch_count)
		return;
	while (
	    count < SAMPLER_SWITCH_THREADS &&
	    !bpf_map_get_next_key(m->switch_threads, count ? &keys[count - 1] : NULL, &keys[count]))
		count++;
	for (uint32_t i = 0; i < count; i++)
		if (!bpf_map_lookup_elem(m->switch_threads, &keys[i], &row))
			fn(arg, keys[i], &row);
	if (m->now.switch_wanted)
		switches_look(m);
}

struct switches_change {
	struct sampler_maps *m;
	bool on;
	int err;
};

static void row_change(void *arg, uint32_t first_tid, const struct sampler_switch_thread *row)
{
	struct switches_change *c = arg;
	struct sampler_switch_thread now = *row;

	if (now.phase == SAMPLER_SWITCH_ENDED)
		return;
	if (c->on)
		row_begin(&now);
	else
		now.phase = SAMPLER_SWITCH_IGNORED;
	if (bpf_map_update_elem(c->m->switch_threads, &first_tid, &now, BPF_EXIST))
		c->err = -errno;
}

/* The programs do not update rows between off and on, so nothing is known about that time. */
static int switches_change(struct sampler_maps *m, bool on)
{
	struct switches_change c = {.m = m, .on = on};

	sampler_maps_switch_rows(m, row_change, &c);
	return c.err;
}

/* ---- draining ---- */

static int counts_one_by_one(int fd, sampler_maps_count_fn fn, void *arg)
{
	struct sampler_key key;
	struct sampler_count count;

	while (!bpf_map_get_next_key(fd, NULL, &key)) {
		if (!bpf_map_lookup_elem(fd, &key, &count))
			fn(arg, &key, &count);
		if (bpf_map_delete_elem(fd, &key))
			return -errno;
	}
	return 0;
}

int sampler_maps_counts(struct sampler_maps *m, uint32_t old, sampler_maps_count_fn fn, void *arg)
{
	LIBBPF_OPTS(bpf_map_batch_opts, opts);
	int fd = m->set[old & 1], err;
	uint32_t at = 0, n;
	bool first = true;

	if (!m->batch)
		return counts_one_by_one(fd, fn, arg);
	do {
		n = COUNT_BATCH;
		err = bpf_map_lookup_and_delete_batch(fd, first ? NULL : &at, &at, m->keys,
						      m->values, &n, &opts);
		first = false;
		if (err && err != -ENOENT)
			return counts_one_by_one(fd, fn, arg); /* a bucket exceeds a batch */
		for (uint32_t i = 0; i < n; i++)
			fn(arg, &m->keys[i], &m->values[i]);
	} while (!err);
	return 0;
}

static int blocked_batches(struct sampler_maps *m, sampler_maps_blocked_fn fn, void *arg)
{
	LIBBPF_OPTS(bpf_map_batch_opts, opts);
	uint32_t at = 0, n, tids[BLOCKED_BATCH];
	bool first = true;
	int err;

	do {
		n = BLOCKED_BATCH;
		err = bpf_map_lookup_batch(m->blocked, first ? NULL : &at, &at, tids, m->sleepers,
					   &n, &opts);
		if (err && err != -ENOENT)
			return err; /* a bucket exceeds a batch */
		first = false;
		for (uint32_t i = 0; i < n; i++)
			fn(arg, &m->sleepers[i]);
	} while (!err);
	return 0;
}

void sampler_maps_blocked(struct sampler_maps *m, sampler_maps_blocked_fn fn, void *arg)
{
	struct sampler_blocked b;
	uint32_t key, next;
	bool more;

	if (m->blocked < 0 || (m->batch && !blocked_batches(m, fn, arg)))
		return;
	/* bounded: threads come and go during the read, and a deleted key restarts it */
	more = !bpf_map_get_next_key(m->blocked, NULL, &key);
	for (uint32_t i = 0; more && i < 32768; i++) {
		more = !bpf_map_get_next_key(m->blocked, &key, &next);
		if (!bpf_map_lookup_elem(m->blocked, &key, &b))
			fn(arg, &b);
		key = next;
	}
}

void sampler_maps_counters(const struct sampler_maps *m, uint64_t out[SAMPLER_COUNT_MAX])
{
	int cpus = libbpf_num_possible_cpus();
	uint64_t *values = cpus > 0 ? calloc((size_t)cpus, sizeof(*values)) : NULL;

	memset(out, 0, SAMPLER_COUNT_MAX * sizeof(*out));
	for (uint32_t k = 0; values && k < SAMPLER_COUNT_MAX; k++) {
		if (bpf_map_lookup_elem(m->counters, &k, values))
			continue;
		for (int cpu = 0; cpu < cpus; cpu++)
			out[k] += values[cpu];
	}
	free(values);
}

void sampler_maps_run_stats(const struct sampler_maps *m, uint64_t *runs, uint64_t *ns)
{
	struct bpf_object *objects[2] = {m->on, m->off};
	struct bpf_program *p;

	*runs = *ns = 0;
	for (int i = 0; i < 2; i++) {
		if (!objects[i])
			continue;
		bpf_object__for_each_program(p, objects[i])
		{
			struct bpf_prog_info info = {0};
			uint32_t bytes = sizeof(info);
			int fd = bpf_program__fd(p);

			if (fd < 0 || bpf_obj_get_info_by_fd(fd, &info, &bytes))
				continue;
			*runs += info.run_cnt;
			*ns += info.run_time_ns;
		}
	}
}

/* A map's size as the kernel reports it. */
static uint64_t map_memory(int fd)
{
	char name[64], line[128];
	unsigned long bytes = 0;
	FILE *f;

	snprintf(name, sizeof(name), "/proc/self/fdinfo/%d", fd);
	f = fopen(name, "re");
	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "memlock: %lu", &bytes) == 1)
			break;
	}
	if (f)
		fclose(f);
	return bytes;
}

static uint64_t maps_memory(const struct bpf_object *o, const struct bpf_object *shared)
{
	uint64_t sum = 0;
	struct bpf_map *map;

	bpf_object__for_each_map(map, o)
	{
		const char *name = bpf_map__name(map);

		if (shared && map_fd(shared, name) >= 0 && strcmp(name, "scratch"))
			continue;
		if (bpf_map__fd(map) >= 0)
			sum += map_memory(bpf_map__fd(map));
	}
	return sum;
}

uint64_t sampler_maps_bytes(const struct sampler_maps *m)
{
	return m->map_bytes + (uint64_t)m->shard_count * UNWIND_SHARD_WORDS * 4;
}

/* ---- open and close ---- */

/* Removes the limit on locked memory. Returns whether there is none now. */
static bool raise_memlock(void)
{
	struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};

	if (!setrlimit(RLIMIT_MEMLOCK, &limit))
		return true;
	if (getrlimit(RLIMIT_MEMLOCK, &limit))
		return false;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_MEMLOCK, &limit);
	return limit.rlim_cur == RLIM_INFINITY;
}

static void missing_add(char missing[160], const char *what)
{
	size_t at = strlen(missing);

	snprintf(missing + at, 160 - at, "%s%s", at ? "; " : "", what);
}

static int maps_find(struct sampler_maps *m)
{
	m->control = map_fd(m->on, "control");
	m->processes = map_fd(m->on, "processes");
	m->python = map_fd(m->on, "python_processes");
	m->counts = map_fd(m->on, "counts");
	m->set[0] = map_fd(m->on, "counts_even");
	m->set[1] = map_fd(m->on, "counts_odd");
	m->counters = map_fd(m->on, "counters");
	m->shards = map_fd(m->on, "unwind_shards");
	m->every_tick = map_fd(m->on, "every_tick");
	return m->every_tick < 0 || m->control < 0 || m->processes < 0 || m->python < 0 ||
		       m->counts < 0 || m->set[0] < 0 || m->set[1] < 0 || m->counters < 0 ||
		       m->shards < 0
		   ? -ENOENT
		   : 0;
}

static void objects_close(struct sampler_maps *m)
{
	off_cpu_loop__destroy(m->off_loop);
	off_cpu_tail__destroy(m->off_tail);
	sampler_loop__destroy(m->loop);
	sampler_tail__destroy(m->tail_calls);
	m->off_loop = NULL;
	m->off_tail = NULL;
	m->loop = NULL;
	m->tail_calls = NULL;
	m->on = m->off = NULL;
}

/* Before 5.11 maps count against the locked-memory limit, and exceeding it is -EPERM: retry a few
 * times with half the size. */
static int load_fitting(struct sampler_maps *m, const struct sampler_options *o,
			struct settings *settings, char missing[160])
{
	int cpus = libbpf_num_possible_cpus();
	char text[64];
	int err = -EPERM;

	for (uint32_t halvings = 0; err == -EPERM && halvings <= MAP_SIZES_HALVINGS; halvings++) {
		if (halvings && m->memlock_free)
			return err;
		objects_close(m);
		map_sizes_for(&m->sizes, cpus > 0 ? (uint32_t)cpus : 1, o->rate_hz, halvings);
		err = load_on(m, o, settings);
		if (!err && halvings) {
			snprintf(text, sizeof(text), "locked memory: maps are 1/%u",
				 1u << halvings);
			missing_add(missing, text);
		}
	}
	return err;
}

static int maps_load(struct sampler_maps *m, const struct sampler_options *o, char missing[160])
{
	struct settings settings;
	int err = load_fitting(m, o, &settings, missing);

	err = err ? err : maps_find(m);
	if (!err && m->tail) {
		err = prog_slot(m->on, "tick_progs", 0, "tick_walk");
		err = err ? err : prog_slot(m->on, "tick_progs", 1, "tick_blind");
		err = err ? err : prog_slot(m->on, "tick_progs", 2, "tick_end");
	}
	err = err ? err : open_stacks(m);
	if (err)
		return err;
	m->batch = probe_batch(m);
	if (!m->batch)
		missing_add(missing, "no batched map reads (5.6)");
	if (!m->mmapable)
		missing_add(missing, "no mapped arrays (5.5): tables are copied");
	if (o->off_cpu && load_off(m, &settings)) {
		missing_add(missing, "no off-CPU time: ");
		missing_add(missing, complaint);
	}
	m->map_bytes = maps_memory(m->on, NULL) + (m->off ? maps_memory(m->off, m->on) : 0);
	return 0;
}

int sampler_maps_open(struct sampler_maps **out, enum sampler_mode mode,
		      const struct sampler_options *o, char why[160], char missing[160])
{
	struct sampler_maps *m = calloc(1, sizeof(*m));
	int err;

	/* never restored: another thread of the process may load BPF too, and libbpf should never
	 * print */
	libbpf_set_print(keep_complaint);
	missing[0] = 0;
	complaint[0] = 0;
	if (!m)
		return -ENOMEM;
	m->tail = mode == SAMPLER_BPF_TAIL;
	m->blocked = m->switch_threads = m->switch_wanted = -1;
	m->memlock_free = raise_memlock();
	if (access("/sys/kernel/btf/vmlinux", R_OK)) {
		err = -ENOENT;
		snprintf(why, 160, "the kernel has no BTF (CONFIG_DEBUG_INFO_BTF)");
	} else if (!m->tail &&
		   libbpf_probe_bpf_helper(BPF_PROG_TYPE_PERF_EVENT, BPF_FUNC_loop, NULL) == 0) {
		err = -ENOTSUP;
		snprintf(why, 160, "the kernel has no bpf_loop (5.17)");
	} else {
		m->mmapable = probe_mmapable();
		err = maps_load(m, o, missing);
		if (err == -EPERM || err == -EACCES)
			snprintf(why, 160,
				 "no permission to load BPF (CAP_BPF and CAP_PERFMON, or root)");
		else if (err)
			snprintf(why, 160, "BPF did not load: %.120s",
				 complaint[0] ? complaint : strerror(-err));
	}
	if (err) {
		sampler_maps_close(m);
		return err;
	}
	*out = m;
	return 0;
}

int sampler_maps_attach(struct sampler_maps *m, int perf_fd)
{
	struct bpf_program *p = bpf_object__find_program_by_name(m->on, "tick");
	/* a copy, because libbpf closes the descriptor that it attached to */
	int fd = p ? dup(perf_fd) : -1;
	int err = fd < 0 ? -EMFILE : link_add(m, bpf_program__attach_perf_event(p, fd));

	if (err && fd >= 0)
		close(fd);
	return err;
}

void sampler_maps_close(struct sampler_maps *m)
{
	if (!m)
		return;
	for (uint32_t i = 0; i < m->link_count; i++)
		bpf_link__destroy(m->links[i]);
	detach_off(m);
	free(m->links);
	ring_buffer__free(m->ring);
	perf_buffer__free(m->buffer);
	perf_buffer__free(m->switch_buffer);
	objects_close(m);
	for (uint32_t i = 0; i < m->shard_count; i++)
		close(m->shard_fd[i]);
	free(m);
}
