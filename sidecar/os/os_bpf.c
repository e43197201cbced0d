/* SPDX-License-Identifier: Apache-2.0
 * If the kernel cannot load one program, libbpf refuses the whole object. So programs whose
 * tracepoint does not exist are left out first. If the verifier still refuses the object, each
 * program is tried alone to find the bad ones.
 * A thread's row is stored with its task where the kernel supports that (5.12), else in a hash.
 * There are two sets of scheduler programs for the two modes. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/check.h"

#include "sidecar/os/os_signals_private.h"

#ifdef SIDECAR_BPF
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>

#include "bpf/os_programs.skel.h"
#include "sampler/pid_ns.h"

#define PROGRAMS_MAX	  32u
#define BTF_TYPEDEF_BYTES 96
#define TASKS_OPTION	  "task_storage" /* in options.without: do not use task storage */
#define MIGRATE_TYPE	  "btf_trace_mm_migrate_pages"

/* Programs of one tracepoint family are attached and detached together. */
static const struct {
	const char *program;
	enum os_group group;
	enum { BOTH, BY_STORAGE, BY_HASH } mode;
} programs[] = {
    {"os_tell", OS_GROUP_ALWAYS, BY_STORAGE},
    {"os_fork", OS_GROUP_ALWAYS, BOTH},
    {"os_exit", OS_GROUP_ALWAYS, BOTH},
    {"os_switch", OS_GROUP_CPU, BY_STORAGE},
    {"os_switch_hash", OS_GROUP_CPU, BY_HASH},
    {"os_wakeup", OS_GROUP_CPU, BY_HASH},
    {"os_wakeup_new", OS_GROUP_CPU, BY_HASH},
    {"os_migrate", OS_GROUP_CPU, BOTH},
    {"os_softirq_entry", OS_GROUP_INTERRUPTS, BOTH},
    {"os_softirq_exit", OS_GROUP_INTERRUPTS, BOTH},
    {"os_irq_entry", OS_GROUP_INTERRUPTS, BOTH},
    {"os_irq_exit", OS_GROUP_INTERRUPTS, BOTH},
    {"os_receive", OS_GROUP_PACKETS, BOTH},
    {"os_fault", OS_GROUP_MEMORY, BY_HASH},
    {"os_move_numa", OS_GROUP_MEMORY, BOTH},
    {"os_migrate_pages", OS_GROUP_MEMORY, BOTH},
    {"os_block_issue", OS_GROUP_STORAGE, BOTH},
    {"os_block_complete", OS_GROUP_STORAGE, BOTH},
    {"os_retransmit", OS_GROUP_NETWORK, BOTH},
    {"os_contention_begin", OS_GROUP_LOCKS, BOTH},
    {"os_contention_end", OS_GROUP_LOCKS, BOTH},
};

struct os_bpf {
	struct os_programs *object;
	struct bpf_link
	    *link[PROGRAMS_MAX]; /* indexed as the object's programs; NULL: not attached */
	uint32_t link_count;
	bool by_storage;
	int stats_fd; /* -1: the kernel does not count run times now */
	int fd[OS_MAP_COUNT], stacks_fd;
	uint32_t key_bytes[OS_MAP_COUNT], value_bytes[OS_MAP_COUNT], entries[OS_MAP_COUNT];
	uint32_t cpu_count;
};

static int on_print(enum libbpf_print_level level, const char *fmt, va_list ap)
{
	return 0; /* libbpf's error code is enough */
}

/* Programs that are not loaded, indexed as the object's programs. */
struct left_out {
	bool program[PROGRAMS_MAX];
};

static void name_missing(struct os_signals *s, const char *program, const char *why)
{
	size_t used = strlen(s->stats.missing);

	snprintf(s->stats.missing + used, sizeof(s->stats.missing) - used, "%s%s (%s)",
		 used ? ", " : "", program, why);
}

static bool listed(const char *list, const char *name)
{
	size_t n = strlen(name);

	while (list && *list) {
		if (strcspn(list, ",") == n && !strncmp(list, name, n))
			return true;
		list += strcspn(list, ",");
		list += *list == ',';
	}
	return false;
}

static uint32_t program_at(const char *name)
{
	uint32_t i = 0;

	while (i < ARRAY_LEN(programs) && strcmp(programs[i].program, name))
		i++;
	CHECK(i < ARRAY_LEN(programs));
	return i;
}

enum os_group os_bpf_group(const char *program)
{
	return programs[program_at(program)].group;
}

/* Whether this mode does not use the program, so that it is not missing. */
static bool is_elsewhere(const struct os_signals *s, const char *name, bool by_storage)
{
	uint32_t at = program_at(name);

	if (programs[at].mode != BOTH && (programs[at].mode == BY_STORAGE) != by_storage)
		return true;
	/* with task storage the scheduler counts moves within one node itself */
	return by_storage && s->numa_nodes < 2 && !strcmp(name, "os_migrate");
}

/* Before 5.11 the block tracepoints had the queue as their first argument. */
static bool is_before_5_11(void)
{
	unsigned major = 0, minor = 0;
	struct utsname u;

	return !uname(&u) && sscanf(u.release, "%u.%u", &major, &minor) == 2 &&
	       (major < 5 || (major == 5 && minor < 11));
}

/* Number of a tracepoint's arguments; 0: unknown. */
static uint32_t argument_count(const struct btf *kernel, const char *type)
{
	const struct btf_type *t = btf__type_by_id(
	    kernel, (uint32_t)btf__find_by_name_kind(kernel, type, BTF_KIND_TYPEDEF));

	t = t ? btf__type_by_id(kernel, t->type) : NULL; /* a pointer */
	t = t ? btf__type_by_id(kernel, t->type)
	      : NULL; /* to a function; its first argument is the context */
	return t && btf_is_func_proto(t) && btf_vlen(t) ? btf_vlen(t) - 1 : 0;
}

/* Why the program cannot be loaded; NULL: it can be tried. */
static const char *why_not(const struct os_signals *s, const struct btf *kernel,
			   const struct bpf_program *p)
{
	const char *section = bpf_program__section_name(p), *slash = strchr(section, '/');
	char type[BTF_TYPEDEF_BYTES];

	if (listed(s->options.without, bpf_program__name(p)))
		return "left out";
	if (!strncmp(section, "iter/", 5))
		return NULL;
	snprintf(type, sizeof(type), "btf_trace_%s", slash ? slash + 1 : section);
	if (btf__find_by_name_kind(kernel, type, BTF_KIND_TYPEDEF) < 0)
		return "no such tracepoint";
	if (!strncmp(type, "btf_trace_block_rq_", 19) && is_before_5_11())
		return "kernel before 5.11";
	if (!strcmp(type, MIGRATE_TYPE) && s->migrate_arguments != 4 && s->migrate_arguments != 7 &&
	    s->migrate_arguments != 8)
		return "unknown arguments";
	return NULL;
}

static bool has_member(const struct btf *kernel, const char *type, const char *name)
{
	const struct btf_type *t = btf__type_by_id(
	    kernel, (uint32_t)btf__find_by_name_kind(kernel, type, BTF_KIND_STRUCT));

	for (uint32_t i = 0; t && btf_is_composite(t) && i < btf_vlen(t); i++)
		if (!strcmp(btf__name_by_offset(kernel, btf_members(t)[i].name_off), name))
			return true;
	return false;
}

/* Whether the kernel has what task storage needs. CO-RE would notice too, but would refuse the
 * object. */
static bool has_task_storage(const struct os_signals *s, const struct btf *kernel)
{
	return !listed(s->options.without, TASKS_OPTION) &&
	       btf__find_by_name_kind(kernel, "bpf_local_storage", BTF_KIND_STRUCT) > 0 &&
	       has_member(kernel, "task_struct", "sched_info") &&
	       has_member(kernel, "sched_info", "last_queued") &&
	       has_member(kernel, "sched_entity", "cfs_rq") && has_member(kernel, "cfs_rq", "rq") &&
	       btf__find_by_name_kind(kernel, "bpf_iter__task", BTF_KIND_STRUCT) > 0;
}

/* only: load just the program at this index; PROGRAMS_MAX: all that are not left out. */
static int load(struct os_signals *s, const struct left_out *out, uint32_t only, bool by_storage,
		struct os_programs **object)
{
	struct os_programs *o = os_programs__open();
	struct bpf_program *p;
	struct timespec tick;
	const struct pid_ns own = pid_ns_own();
	uint32_t at = 0;
	int err;

	if (!o)
		return -errno;
	bpf_object__for_each_program(p, o->obj)
	{
		bool wanted =
		    at < PROGRAMS_MAX && !out->program[at] && (only == PROGRAMS_MAX || only == at);

		bpf_program__set_autoload(p, wanted);
		at++;
	}
	if (own.inode) {
		o->rodata->task_number_ns = own.inode;
		/* os_marks is indexed by PIDs of the initial namespace, which we do not know */
		memset(o->bss->os_marks, 1, sizeof(o->bss->os_marks));
	}
	o->rodata->os_by_storage = by_storage;
	o->rodata->os_migrate_arguments = s->migrate_arguments;
	/* the resolution of a coarse clock is the tick */
	if (!clock_getres(CLOCK_MONOTONIC_COARSE, &tick))
		o->rodata->os_jiffy_ns = (uint64_t)tick.tv_nsec;
	if (by_storage)
		bpf_map__set_max_entries(o->maps.os_threads, 1);
	else
		bpf_map__set_autocreate(o->maps.os_tasks, false);
	memcpy((void *)(uintptr_t)o->rodata->os_node_of_cpu, s->node_of_cpu,
	       sizeof(s->node_of_cpu));
	err = os_programs__load(o);
	if (err) {
		os_programs__destroy(o);
		return err;
	}
	*object = o;
	return 0;
}

/* Tries each program alone. Adds the refused ones to out; returns how many load. */
static uint32_t try_each(struct os_signals *s, struct left_out *out, bool by_storage,
			 const struct os_programs *names)
{
	struct bpf_program *p;
	uint32_t at = 0, good = 0;

	bpf_object__for_each_program(p, names->obj)
	{
		struct os_programs *one;
		int err;

		if (at >= PROGRAMS_MAX)
			break;
		if (!out->program[at]) {
			err = load(s, out, at, by_storage, &one);
			if (!err)
				os_programs__destroy(one);
			out->program[at] = err != 0;
			good += !err;
			if (err)
				name_missing(s, bpf_program__name(p), strerror(-err));
		}
		at++;
	}
	return good;
}

static int load_mode(struct os_signals *s, const struct btf *kernel,
		     const struct os_programs *names, bool by_storage, struct os_programs **object)
{
	struct left_out out = {{false}};
	struct bpf_program *p;
	uint32_t at = 0;
	int err;

	s->stats.missing[0] = '\0';
	bpf_object__for_each_program(p, names->obj)
	{
		bool elsewhere = is_elsewhere(s, bpf_program__name(p), by_storage);
		const char *why = elsewhere ? NULL : why_not(s, kernel, p);

		if (at < PROGRAMS_MAX)
			out.program[at] = elsewhere || why;
		if (why)
			name_missing(s, bpf_program__name(p), why);
		at++;
	}
	err = load(s, &out, PROGRAMS_MAX, by_storage, object);
	if (err && err != -EPERM && try_each(s, &out, by_storage, names))
		err = load(s, &out, PROGRAMS_MAX, by_storage, object);
	return err;
}

static int load_most(struct os_signals *s, struct os_bpf *b)
{
	struct btf *kernel = btf__load_vmlinux_btf();
	struct os_programs *names = os_programs__open();
	int err;

	if (!kernel || !names) {
		err = kernel ? -errno : -ENOENT;
		snprintf(s->stats.why, sizeof(s->stats.why), "%s",
			 kernel ? "out of memory"
				: "the kernel has no BTF (CONFIG_DEBUG_INFO_BTF)");
		goto end;
	}
	s->migrate_arguments = argument_count(kernel, MIGRATE_TYPE);
	b->by_storage = has_task_storage(s, kernel);
	err = load_mode(s, kernel, names, b->by_storage, &b->object);
	/* os_tell reads the rows, so task storage is useless without it */
	if (b->by_storage && err != -EPERM &&
	    (err || bpf_program__fd(b->object->progs.os_tell) < 0)) {
		if (!err)
			os_programs__destroy(b->object);
		b->object = NULL;
		b->by_storage = false;
		err = load_mode(s, kernel, names, false, &b->object);
	}
	if (err)
		snprintf(s->stats.why, sizeof(s->stats.why), "%s",
			 err == -EPERM || err == -EACCES
			     ? "not allowed (needs root, or CAP_BPF and CAP_PERFMON)"
			     : strerror(-err));
end:
	os_programs__destroy(names);
	btf__free(kernel);
	return err;
}

static int attach(struct os_signals *s, struct os_bpf *b)
{
	struct bpf_program *p;
	int err = -ENOENT;
	uint32_t at = 0;

	b->object->bss->os_attached_ns = clock_monotonic_ns();
	bpf_object__for_each_program(p, b->object->obj)
	{
		uint32_t place = at++;

		if (bpf_program__fd(p) < 0 || place >= PROGRAMS_MAX)
			continue;
		b->link[place] = bpf_program__attach(p);
		if (b->link[place]) {
			b->link_count++;
			continue;
		}
		err = -errno;
		name_missing(s, bpf_program__name(p), strerror(-err));
	}
	if (b->link_count)
		return 0;
	snprintf(s->stats.why, sizeof(s->stats.why), "not attached: %s", strerror(-err));
	return err;
}

void os_bpf_set_group(struct os_bpf *b, enum os_group group, bool on)
{
	struct bpf_program *p;
	uint32_t at = 0;

	if (!b)
		return;
	/* ignore waits that began earlier: their start may have been missed */
	if (on)
		b->object->bss->os_attached_ns = clock_monotonic_ns();
	bpf_object__for_each_program(p, b->object->obj)
	{
		uint32_t place = at++;

		if (place >= PROGRAMS_MAX || bpf_program__fd(p) < 0 ||
		    os_bpf_group(bpf_program__name(p)) != group)
			continue;
		if (!on) {
			bpf_link__destroy(b->link[place]);
			b->link[place] = NULL;
		} else if (!b->link[place]) {
			b->link[place] = bpf_program__attach(p);
		}
	}
}

bool os_bpf_stats(struct os_bpf *b, bool on)
{
	if (!b)
		return false;
	if (on && b->stats_fd < 0) {
		b->stats_fd = bpf_enable_stats(BPF_STATS_RUN_TIME);
	} else if (!on && b->stats_fd >= 0) {
		close(b->stats_fd);
		b->stats_fd = -1;
	}
	return b->stats_fd >= 0;
}

/* Runs the iterator over all tasks. Copies rows to out (NULL: discards them). Returns their
 * number. */
static uint32_t read_tasks(struct os_signals *s, struct os_thread *out, uint32_t max)
{
	struct os_bpf *b = s->bpf;
	uint32_t at = 0, bytes = 0, limit = max * (uint32_t)sizeof(*out);
	struct bpf_program *p;
	char nothing[16384];
	int fd = -1;

	bpf_object__for_each_program(p, b->object->obj)
	{
		if (p == b->object->progs.os_tell && b->link[at])
			fd = bpf_iter_create(bpf_link__fd(b->link[at]));
		at++;
	}
	while (fd >= 0) {
		ssize_t n = out && bytes < limit ? read(fd, (char *)out + bytes, limit - bytes)
						 : read(fd, nothing, sizeof(nothing));

		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (n <= 0)
			break;
		if (out && bytes < limit)
			bytes += (uint32_t)n;
		else if (out)
			s->lost_rows += (uint64_t)n / sizeof(*out);
	}
	if (fd >= 0)
		close(fd);
	return bytes / (uint32_t)sizeof(*out);
}

void os_bpf_adopt(struct os_signals *s)
{
	if (s->bpf && s->bpf->by_storage)
		read_tasks(s, NULL, 0);
}

uint32_t os_bpf_threads(struct os_signals *s)
{
	uint32_t count;

	if (!s->bpf)
		return 0;
	if (s->bpf->by_storage)
		return read_tasks(s, s->threads, OS_THREAD_MAX);
	count = os_bpf_map(s, OS_MAP_THREADS);
	memcpy(s->threads, s->values, count * sizeof(*s->threads));
	return count;
}

static int find_maps(struct os_bpf *b)
{
	const struct os_programs *o = b->object;
	const struct bpf_map *maps[OS_MAP_COUNT] = {
	    [OS_MAP_CPUS] = o->maps.os_cpus,
	    [OS_MAP_IRQS] = o->maps.os_irqs,
	    [OS_MAP_PROCESSES] = o->maps.os_processes,
	    [OS_MAP_THREADS] = o->maps.os_threads,
	    [OS_MAP_OTHERS] = o->maps.os_others,
	    [OS_MAP_DISKS] = o->maps.os_disks,
	    [OS_MAP_RETRANSMITS] = o->maps.os_retransmits,
	    [OS_MAP_LOCKS] = o->maps.os_locks,
	    [OS_MAP_LOCK_USERS] = o->maps.os_lock_users,
	    [OS_MAP_DEVICES] = o->maps.os_devices,
	    [OS_MAP_COUNTERS] = o->maps.os_counters,
	};

	b->cpu_count = (uint32_t)libbpf_num_possible_cpus();
	for (uint32_t i = 0; i < OS_MAP_COUNT; i++) {
		bool per_cpu = i == OS_MAP_CPUS || i == OS_MAP_COUNTERS;
		size_t values;

		b->fd[i] = bpf_map__fd(maps[i]);
		b->key_bytes[i] = bpf_map__key_size(maps[i]);
		b->value_bytes[i] = bpf_map__value_size(maps[i]);
		b->entries[i] = bpf_map__max_entries(maps[i]);
		values = (size_t)b->value_bytes[i] * b->entries[i] * (per_cpu ? b->cpu_count : 1);
		if (values > OS_VALUES_BYTES || b->key_bytes[i] * b->entries[i] > OS_KEYS_BYTES)
			return -E2BIG;
	}
	b->stacks_fd = bpf_map__fd(o->maps.os_lock_stacks);
	return 0;
}

int os_bpf_open(struct os_signals *s)
{
	struct os_bpf *b = calloc(1, sizeof(*b));
	int err;

	if (!b)
		return -ENOMEM;
	libbpf_set_print(on_print);
	b->stats_fd = -1;
	s->numa_nodes = os_proc_numa(s->options.sys_root, s->node_of_cpu);
	err = load_most(s, b);
	if (!err)
		err = find_maps(b);
	if (!err)
		err = attach(s, b);
	if (err) {
		if (!s->stats.why[0])
			snprintf(s->stats.why, sizeof(s->stats.why), "%s", strerror(-err));
		os_bpf_close(b);
		return err;
	}
	s->bpf = b;
	return 0;
}

void os_bpf_close(struct os_bpf *b)
{
	if (!b)
		return;
	os_bpf_stats(b, false);
	for (uint32_t i = 0; i < PROGRAMS_MAX; i++)
		bpf_link__destroy(b->link[i]);
	os_programs__destroy(b->object);
	free(b);
}

int os_bpf_watch(struct os_bpf *b, uint32_t pid, uint32_t root)
{
	struct os_process p = {.root = root}, before;

	if (!b)
		return 0;
	/* mark it, but keep a row that already counts for this rank */
	b->object->bss->os_marks[pid % sizeof(b->object->bss->os_marks)] = 1;
	if (!bpf_map_lookup_elem(b->fd[OS_MAP_PROCESSES], &pid, &before) && before.root == root)
		return 0;
	if (bpf_map_update_elem(b->fd[OS_MAP_PROCESSES], &pid, &p, BPF_ANY))
		return errno == E2BIG ? -ENOSPC : -errno;
	return 0;
}

void os_bpf_unwatch(struct os_bpf *b, uint32_t pid)
{
	if (b)
		bpf_map_delete_elem(b->fd[OS_MAP_PROCESSES], &pid);
}

void os_bpf_delete(struct os_bpf *b, enum os_map map, const void *key)
{
	if (b)
		bpf_map_delete_elem(b->fd[map], key);
}

/* Reads entry by entry: before 5.6 the kernel has no batches. */
static uint32_t map_walk(const struct os_bpf *b, enum os_map map, uint8_t *keys, uint8_t *values)
{
	uint32_t kb = b->key_bytes[map], vb = b->value_bytes[map], n = 0;
	const void *before = NULL;

	while (n < b->entries[map] && !bpf_map_get_next_key(b->fd[map], before, keys + n * kb)) {
		before = keys + n * kb;
		if (bpf_map_lookup_elem(b->fd[map], before, values + n * vb))
			break; /* the entry was deleted: the next read gets the rest */
		n++;
	}
	return n;
}

uint32_t os_bpf_map(struct os_signals *s, enum os_map map)
{
	const struct os_bpf *b = s->bpf;
	LIBBPF_OPTS(bpf_map_batch_opts, opts);
	uint32_t n, zero = 0, from[16];
	int err;

	if (!b)
		return 0;
	if (map == OS_MAP_CPUS || map == OS_MAP_COUNTERS) {
		if (map == OS_MAP_CPUS)
			return bpf_map_lookup_elem(b->fd[map], &zero, s->values) ? 0 : b->cpu_count;
		for (uint32_t i = 0; i < OS_COUNTER_MAX; i++)
			if (bpf_map_lookup_elem(b->fd[map], &i,
						(uint64_t *)s->values + i * b->cpu_count))
				return 0;
		return b->cpu_count;
	}
	n = b->entries[map];
	err = bpf_map_lookup_batch(b->fd[map], NULL, from, s->keys, s->values, &n, &opts);
	if (!err || errno == ENOENT) /* the end of the map */
		return n;
	return map_walk(b, map, s->keys, s->values);
}

uint32_t os_bpf_stack(const struct os_bpf *b, int32_t id, uint64_t *out, uint32_t max)
{
	uint64_t frames[OS_LOCK_STACK_FRAMES] = {0};
	uint32_t key = (uint32_t)id, n = 0;

	if (!b || id < 0 || bpf_map_lookup_elem(b->stacks_fd, &key, frames))
		return 0;
	while (n < max && n < OS_LOCK_STACK_FRAMES && frames[n]) {
		out[n] = frames[n];
		n++;
	}
	return n;
}

uint32_t os_bpf_programs(const struct os_bpf *b, struct os_signals_program *out, uint32_t max)
{
	struct bpf_program *p;
	uint32_t n = 0;

	if (!b)
		return 0;
	bpf_object__for_each_program(p, b->object->obj)
	{
		struct bpf_prog_info info = {0};
		uint32_t bytes = sizeof(info);

		if (n == max || bpf_program__fd(p) < 0 ||
		    bpf_obj_get_info_by_fd(bpf_program__fd(p), &info, &bytes))
			continue;
		snprintf(out[n].name, sizeof(out[n].name), "%s", bpf_program__name(p));
		out[n].run_count = info.run_cnt;
		out[n++].run_time_ns = info.run_time_ns;
	}
	return n;
}

uint64_t os_bpf_bytes(const struct os_bpf *b)
{
	struct bpf_map *m;
	uint64_t sum = 0;

	if (!b)
		return 0;
	bpf_object__for_each_map(m, b->object->obj)
	{
		char path[64], line[128];
		unsigned long long bytes;
		FILE *f;

		snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", bpf_map__fd(m));
		f = fopen(path, "re");
		while (f && fgets(line, sizeof(line), f))
			if (sscanf(line, "memlock: %llu", &bytes) == 1)
				sum += bytes;
		if (f)
			fclose(f);
	}
	return sum;
}

#else /* no BPF at build time: bpf stays NULL, for which all but open are no-ops */

int os_bpf_open(struct os_signals *s)
{
	snprintf(s->stats.why, sizeof(s->stats.why), "built without BPF");
	return -ENOSYS;
}

__attribute__((used)) static long nothing(void)
{
	return 0;
}

#define NONE(name) __asm__(".globl os_bpf_" #name "\n.set os_bpf_" #name ", nothing")
NONE(close);
NONE(watch);
NONE(unwatch);
NONE(map);
NONE(delete);
NONE(adopt);
NONE(threads);
NONE(group);
NONE(set_group);
NONE(stats);
NONE(stack);
NONE(programs);
NONE(bytes);

#endif
