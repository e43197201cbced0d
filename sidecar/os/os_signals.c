/* SPDX-License-Identifier: Apache-2.0
 * A window is requested only after its slowness began. So every second is stored, and the seconds
 * before the window give the usual value of each signal. */
#include "sidecar/os/os_signals.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/keyed.h"
#include "base/probe.h"
#include "node/canary.h"
#include "sidecar/os/first_touch.h"
#include "sidecar/os/os_signals_private.h"

#define CGROUP_AGAIN_NS	  2000000000ull /* the rank may have been moved into another group */
#define CHILDREN_AGAIN_NS 5000000000ull /* without BPF no program reports forks */
#define CHILDREN_MAX	  256u
#define PROGRAMS_MAX	  32u
#define SHARERS_NAMED	  2u
#define SHARERS_NS	  60000000000ull
/* The most candidates for a window's list, which keeps the strongest. */
#define CANDIDATES_MAX 1024u
/* Values read from /proc, not by BPF: fields of os_signals_key. */
enum {
	FIELD_FAULTS = 1000,
	FIELD_FAULTS_MAJOR,
	FIELD_THROTTLED,
	FIELD_PRESSURE,
	FIELD_RUN_WAIT,
	FIELD_CGROUP_PRESSURE,
	FIELD_IO_BYTES,
	FIELD_IO_OPS,
	FIELD_REFAULTS,
	FIELD_STOPS,
	FIELD_STOLEN
};
#define IO_LIMIT_AGAIN_NS 500000000ull /* in a shorter time a rate is inaccurate */
#define MEMORY_AGAIN_NS	  500000000ull /* the kernel sums all CPUs for each read */
#define IO_LIMITS_MAX	  16u
/* the most CPUs of a rank whose clock is read each time: two files per CPU */
#define CLOCKS_MAX 16u
#define FIRST_TOUCH_AGAIN_NS                                                                       \
	10000000000ull /* costs a millisecond where page faults are expensive */
#define LEVELS_MAX 64u
#define LOCKS_MAX  64u /* waits for file locks on the node */

/* ---- counters ---- */

uint64_t os_signals_key(uint32_t map, uint32_t field, const void *key, size_t bytes)
{
	uint64_t h = keyed_words(keyed_process(), keyed_bytes(keyed_process(), key, bytes),
				 (uint64_t)map << 32 | field);

	return h ? h : 1;
}

static struct os_counter_seen *seen_slot(struct os_counter_seen *table, uint64_t key)
{
	PROBE_PLACES (at, key, LIMIT_OS_COUNTERS)
		if (!table[at].key || table[at].key == key)
			return &table[at];
}

/* Drops counters that recent reads did not see: ended threads, unused places. */
static void seen_sweep(struct os_signals *s)
{
	struct os_counter_seen *old = s->seen;
	struct os_counter_seen *fresh = calloc(LIMIT_OS_COUNTERS, sizeof(*fresh));

	s->seen_count = 0;
	if (!fresh) { /* no memory: all counters start again, and their growth is lost */
		memset(old, 0, LIMIT_OS_COUNTERS * sizeof(*old));
		return;
	}
	for (uint32_t i = 0; i < LIMIT_OS_COUNTERS; i++)
		if (old[i].key && s->serial - old[i].serial < 3) {
			*seen_slot(fresh, old[i].key) = old[i];
			s->seen_count++;
		}
	s->seen = fresh;
	free(old);
}

uint64_t os_signals_delta(struct os_signals *s, uint64_t key, uint64_t value, enum os_first first)
{
	struct os_counter_seen *c;
	uint64_t before;

	if (!value && first == OS_FIRST_IS_ALL)
		return 0;
	if (s->seen_count >= LIMIT_OS_COUNTERS / 4 * 3)
		return 0;
	c = seen_slot(s->seen, key);
	if (!c->key) {
		s->seen_count++;
		c->key = key;
		c->value = first == OS_FIRST_IS_ALL ? 0 : value;
	}
	before = c->value;
	c->value = value;
	c->serial = s->serial;
	/* a counter that fell was created anew, so its whole value is growth */
	return value >= before ? value - before : value;
}

/* ---- watched processes ---- */

struct os_rank *os_signals_find(struct os_signals *s, uint32_t pid)
{
	for (uint32_t i = 0; pid && i < LIMIT_NODE_PROCESSES; i++)
		if (s->ranks[i].pid == pid)
			return &s->ranks[i];
	return NULL;
}

uint32_t os_signals_root(const struct os_signals *s, uint32_t pid)
{
	for (uint32_t i = 0; pid && i < s->pid_count; i++)
		if (s->pids[i] == pid)
			return s->roots[i];
	return 0;
}

static void note_pid(struct os_signals *s, uint32_t pid, uint32_t root)
{
	uint32_t at = 0;

	while (at < s->pid_count && s->pids[at] != pid)
		at++;
	if (at == OS_PROCESS_MAX)
		return;
	s->pid_count += at == s->pid_count;
	s->pids[at] = pid;
	s->roots[at] = root;
}

/* Watches a rank's process and its descendants. A process belongs to its nearest ancestor that is a
 * rank: the workers of a serving engine are ranks, and descendants of other watched processes. */
static void watch_family(struct os_signals *s, uint32_t root)
{
	uint32_t children[CHILDREN_MAX], ranks[LIMIT_NODE_PROCESSES], n;

	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++)
		ranks[i] = s->ranks[i].pid;
	note_pid(s, root, root);
	/* the rank comes first, so that the kernel side also watches what it forks from now on */
	os_bpf_watch(s->bpf, root, root);
	n = os_proc_children(s->options.proc_root, root, ranks, LIMIT_NODE_PROCESSES, children,
			     CHILDREN_MAX);
	for (uint32_t i = 0; i < n; i++) {
		note_pid(s, children[i], root);
		os_bpf_watch(s->bpf, children[i], root);
	}
	os_bpf_adopt(s);
}

int os_signals_watch(struct os_signals *s, uint32_t pid, uint64_t now_ns)
{
	struct os_rank *r = os_signals_find(s, pid);

	if (r || !pid)
		return 0;
	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES && !r; i++)
		if (!s->ranks[i].pid)
			r = &s->ranks[i];
	if (!r)
		return -ENOSPC;
	memset(r, 0, sizeof(*r));
	r->pid = pid;
	r->since_ns = now_ns;
	watch_family(s, pid);
	return 0;
}

void os_signals_unwatch(struct os_signals *s, uint32_t pid)
{
	struct os_rank *r = os_signals_find(s, pid);
	uint32_t kept = 0;

	if (!r)
		return;
	for (uint32_t i = 0; i < s->pid_count; i++) {
		if (s->roots[i] == pid) {
			os_bpf_unwatch(s->bpf, s->pids[i]);
			continue;
		}
		s->pids[kept] = s->pids[i];
		s->roots[kept++] = s->roots[i];
	}
	s->pid_count = kept;
	os_series_forget(s->series, pid);
	r->pid = 0;
}

bool os_signals_watches(const struct os_signals *s, uint32_t pid)
{
	return os_signals_find((struct os_signals *)(uintptr_t)s, pid) != NULL;
}

uint32_t os_signals_rank(const struct os_signals *s, uint32_t n)
{
	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++)
		if (s->ranks[i].pid && !n--)
			return s->ranks[i].pid;
	return 0;
}

/* ---- /proc ---- */

struct wait_arg {
	struct os_signals *s;
	uint32_t pid, root;
};

static void on_run_wait(void *arg, uint32_t tid, uint64_t wait_ns)
{
	struct wait_arg *w = arg;
	struct os_signals *s = w->s;
	double ms =
	    (double)os_signals_delta(s, os_signals_key(0, FIELD_RUN_WAIT, &tid, sizeof(tid)),
				     wait_ns, OS_FIRST_IS_NOTHING) *
	    1e-6;
	char name[32];

	if (ms <= 0)
		return;
	os_series_add(s->series, w->root, OS_SIGNAL_RUN_WAIT, 0, ms, NULL);
	if (ms < 0.5)
		return;
	os_proc_name(s->options.proc_root, w->pid, tid, name, sizeof(name));
	os_series_add(s->series, w->root, OS_SIGNAL_RUN_WAIT_THREAD, tid, ms, name);
}

static uint64_t counter_delta(struct os_signals *s, uint32_t owner, uint32_t field, uint32_t id,
			      uint64_t value)
{
	return os_signals_delta(s, os_signals_key(owner, field, &id, sizeof(id)), value,
				OS_FIRST_IS_NOTHING);
}

static void add_counter(struct os_signals *s, uint32_t owner, enum os_signal_kind kind,
			uint32_t field, uint32_t id, uint64_t value, double unit, uint64_t key,
			const char *subject)
{
	uint64_t grown = counter_delta(s, owner, field, id, value);

	if (grown)
		os_series_add(s->series, owner, kind, key, (double)grown * unit, subject);
}

static void read_proc_process(struct os_signals *s, uint32_t pid, uint32_t root)
{
	struct os_proc_stat st;
	struct wait_arg w = {s, pid, root};

	if (os_proc_stat(s->options.proc_root, pid, &st))
		return;
	add_counter(s, root, OS_SIGNAL_FAULTS_MAJOR, FIELD_FAULTS_MAJOR, pid, st.faults_major, 1, 0,
		    NULL);
	if (s->bpf)
		return;
	add_counter(s, root, OS_SIGNAL_FAULTS, FIELD_FAULTS, pid, st.faults, 1, 0, NULL);
	os_proc_run_wait(s->options.proc_root, pid, on_run_wait, &w);
}

static const char *const pressures[] = {"cpu", "memory", "io"};
#define PRESSURES (sizeof(pressures) / sizeof(pressures[0]))

/* How much of each I/O limit was used since the last read. */
static void read_io_limits(struct os_signals *s, struct os_rank *r)
{
	struct os_proc_io_limit limit[IO_LIMITS_MAX];
	double seconds = (double)(s->now_ns - r->io_at_ns) * 1e-9;
	bool first = !r->io_at_ns;
	uint64_t group = hash_bytes(HASH_SEED, r->cgroup.io.path[0], strlen(r->cgroup.io.path[0]));
	uint32_t n;

	if (!first && s->now_ns - r->io_at_ns < IO_LIMIT_AGAIN_NS)
		return;
	r->io_at_ns = s->now_ns;
	n = os_proc_cgroup_io(&r->cgroup, limit, IO_LIMITS_MAX);
	for (uint32_t i = 0; i < n; i++) {
		const struct os_proc_io_limit *l = &limit[i];
		uint64_t id[3] = {group, (uint64_t)l->device << 1 | l->write, l->level};
		uint64_t bytes =
		    os_signals_delta(s, os_signals_key(r->pid, FIELD_IO_BYTES, id, sizeof(id)),
				     l->bytes, OS_FIRST_IS_NOTHING);
		uint64_t ops =
		    os_signals_delta(s, os_signals_key(r->pid, FIELD_IO_OPS, id, sizeof(id)),
				     l->ops, OS_FIRST_IS_NOTHING);
		double used = 0;
		char disk[32], subject[OS_SIGNAL_SUBJECT_BYTES];

		if (first)
			continue;
		if (l->bytes_max)
			used = (double)bytes / seconds / (double)l->bytes_max;
		if (l->ops_max && (double)ops / seconds / (double)l->ops_max > used)
			used = (double)ops / seconds / (double)l->ops_max;
		os_proc_disk_name(s->options.sys_root, l->device, disk, sizeof(disk));
		if (l->bytes_max)
			snprintf(subject, sizeof(subject), "%s of %s (%.3g MB/s)",
				 l->write ? "writes" : "reads", disk, (double)l->bytes_max * 1e-6);
		else
			snprintf(subject, sizeof(subject), "%s of %s (%.3g operations/s)",
				 l->write ? "writes" : "reads", disk, (double)l->ops_max);
		os_signals_level(s, r->pid, OS_SIGNAL_IO_LIMIT, (uint64_t)l->level << 48 | id[1],
				 100 * used, subject);
	}
}

/* Makes the group a part of a counter's key, because another group has another counter. */
static uint32_t group_id(const char *path)
{
	return (uint32_t)hash_bytes(HASH_SEED, path, strlen(path));
}

static void read_memory(struct os_signals *s, struct os_rank *r)
{
	struct os_proc_memory m;
	char subject[OS_SIGNAL_SUBJECT_BYTES];

	if (r->memory_at_ns && s->now_ns - r->memory_at_ns < MEMORY_AGAIN_NS)
		return;
	r->memory_at_ns = s->now_ns;
	if (!os_proc_cgroup_memory(&r->cgroup, &m))
		return;
	snprintf(subject, sizeof(subject), "%.4g MB", (double)m.limit_bytes * 1e-6);
	add_counter(s, r->pid, OS_SIGNAL_REFAULTS, FIELD_REFAULTS,
		    group_id(r->cgroup.memory.path[m.level]), m.refaults, 1, 0, subject);
}

static void read_cgroup(struct os_signals *s, struct os_rank *r)
{
	uint64_t v;

	if (!r->cgroup_at_ns || s->now_ns - r->cgroup_at_ns > CGROUP_AGAIN_NS) {
		os_proc_cgroup_find(&s->hierarchies, s->options.proc_root, s->options.sys_root,
				    r->pid, &r->cgroup);
		r->cgroup_at_ns = s->now_ns;
	}
	if (os_proc_cgroup_throttled(&r->cgroup, &v))
		add_counter(s, r->pid, OS_SIGNAL_THROTTLED, FIELD_THROTTLED,
			    group_id(r->cgroup.path[0]), v, 1e-6, 0, NULL);
	for (uint32_t i = 0; i < PRESSURES; i++) {
		char subject[OS_SIGNAL_SUBJECT_BYTES];

		if (os_proc_cgroup_pressure(&r->cgroup, pressures[i], &v))
			continue;
		snprintf(subject, sizeof(subject), "%s in its cgroup", pressures[i]);
		add_counter(s, r->pid, OS_SIGNAL_PRESSURE, FIELD_CGROUP_PRESSURE + i * 100,
			    group_id(r->cgroup.unified), v, 1e-3, PRESSURES + i, subject);
	}
	read_io_limits(s, r);
	read_memory(s, r);
}

/* How long the machine stood still since the last call, as the canary saw it. The estimate also stands
 * for short stops between its wake-ups, but each stop that it sees counts as 20 ms there: too rough if
 * the hypervisor reports short stops itself. */
static double seen_ms(struct os_signals *s, bool reports)
{
	struct canary *c = s->options.canary;
	uint64_t count, stops_ns, estimate_ns = canary_stolen_ns(c);

	canary_totals(c, &count, &stops_ns);
	stops_ns = counter_delta(s, 0, FIELD_STOPS, 0, canary_is_realtime(c) ? stops_ns : 0);
	estimate_ns = counter_delta(s, 0, FIELD_STOLEN, 0, estimate_ns);
	return (double)(reports ? stops_ns : estimate_ns) * 1e-6;
}

/* Steal as the hypervisor reports it, or as the canary measured it, whichever is larger: not all
 * hypervisors report everything. */
static void read_steal(struct os_signals *s)
{
	double said_ms = 0, stops_ms, passed_ms = (double)(s->now_ns - s->steal_at_ns) * 1e-6;
	uint64_t us;

	if (!os_proc_steal(s->options.proc_root, &us)) {
		/* the counter falls when the machine moves to another host; that time is unknown */
		if (s->steal_at_ns && us > s->steal_us)
			said_ms = (double)(us - s->steal_us) * 1e-3 /
				  (double)sysconf(_SC_NPROCESSORS_ONLN);
		said_ms = said_ms < passed_ms ? said_ms : passed_ms;
		s->steal_us = us;
		s->steal_at_ns = s->now_ns;
	}
	stops_ms = seen_ms(s, s->steal_us > 0);
	if (said_ms > 0 || stops_ms > 0)
		os_series_add(s->series, 0, OS_SIGNAL_STEAL, 0,
			      said_ms > stops_ms ? said_ms : stops_ms, NULL);
}

/* One measurement for all ranks: it changes rarely. */
static void read_first_touch(struct os_signals *s)
{
	if (!s->touch_at_ns || s->now_ns - s->touch_at_ns >= FIRST_TOUCH_AGAIN_NS) {
		s->touch_us = (double)first_touch_ns() * 1e-3;
		s->touch_at_ns = s->now_ns;
	}
	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++)
		if (s->ranks[i].pid)
			os_signals_level(s, s->ranks[i].pid, OS_SIGNAL_FIRST_TOUCH, 0, s->touch_us,
					 NULL);
}

/* The mean clock of the CPUs that the rank used. Without BPF these are not known, and the first
 * CPUs stand for them. */
static void read_clock(struct os_signals *s, const struct os_rank *r)
{
	double sum = 0, most = 0, mhz, most_mhz;
	char subject[OS_SIGNAL_SUBJECT_BYTES];
	uint32_t read = 0, count = 0;
	bool known = false;

	for (uint32_t i = 0; i < OS_CPU_WORDS; i++)
		known |= r->cpus[i] != 0;
	for (uint32_t cpu = 0; cpu < OS_CPU_MAX && read < CLOCKS_MAX; cpu++) {
		if (known && !(r->cpus[cpu / 64] >> cpu % 64 & 1))
			continue;
		read++;
		if (os_proc_clock(s->options.sys_root, cpu, &mhz, &most_mhz))
			continue;
		count++;
		sum += mhz;
		most = most_mhz > most ? most_mhz : most;
	}
	if (!count) {
		s->no_clocks = true;
		return;
	}
	snprintf(subject, sizeof(subject), "its CPUs (at most %.0f MHz)", most);
	os_signals_level(s, r->pid, OS_SIGNAL_CPU_CLOCK, 0, sum / count, subject);
}

static void read_locks(struct os_signals *s)
{
	struct os_proc_lock lock[LOCKS_MAX];
	uint32_t n = os_proc_locks(s->options.proc_root, lock, LOCKS_MAX);
	double passed_ms = s->locks_at_ns ? (double)(s->now_ns - s->locks_at_ns) * 1e-6 : 0;

	s->locks_at_ns = s->now_ns;
	for (uint32_t i = 0; i < n; i++) {
		uint32_t root = os_signals_root(s, lock[i].waits);
		char name[32], subject[OS_SIGNAL_SUBJECT_BYTES];

		if (!root || !(passed_ms > 0))
			continue;
		os_proc_name(s->options.proc_root, lock[i].holds, lock[i].holds, name,
			     sizeof(name));
		snprintf(subject, sizeof(subject), "%s (pid %u)", name, lock[i].holds);
		os_series_add(s->series, root, OS_SIGNAL_FILE_LOCK, lock[i].holds, passed_ms,
			      subject);
	}
}

static void read_proc(struct os_signals *s)
{
	uint64_t v;

	for (uint32_t i = 0; i < s->pid_count; i++)
		read_proc_process(s, s->pids[i], s->roots[i]);
	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++) {
		if (!s->ranks[i].pid)
			continue;
		read_cgroup(s, &s->ranks[i]);
		if (!s->no_clocks)
			read_clock(s, &s->ranks[i]);
	}
	for (uint32_t i = 0; i < PRESSURES; i++)
		if (!os_proc_pressure(s->options.proc_root, pressures[i], &v))
			add_counter(s, 0, OS_SIGNAL_PRESSURE, FIELD_PRESSURE, i, v, 1e-3, i,
				    pressures[i]);
	read_steal(s);
	read_first_touch(s);
	read_locks(s);
}

/* ---- reading ---- */

/* Without BPF, searches for children at intervals. */
static void refresh(struct os_signals *s)
{
	if (s->bpf || (s->children_at_ns && s->now_ns - s->children_at_ns < CHILDREN_AGAIN_NS))
		return;
	s->children_at_ns = s->now_ns;
	s->pid_count = 0;
	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++)
		if (s->ranks[i].pid)
			watch_family(s, s->ranks[i].pid);
}

static void cost_sums(const struct os_signals *s, struct os_cost_sums *sums)
{
	struct os_signals_program p[PROGRAMS_MAX];
	uint32_t n = os_bpf_programs(s->bpf, p, PROGRAMS_MAX);

	memset(sums, 0, sizeof(*sums));
	for (uint32_t i = 0; i < n; i++) {
		enum os_group g = os_bpf_group(p[i].name);

		sums->run_ns[g] += p[i].run_time_ns;
	}
}

/* Notes the time since the last read for each detached group. */
static void note_missed(struct os_signals *s, uint64_t before_ns)
{
	for (unsigned g = 0; g < OS_GROUP_COUNT; g++)
		if (before_ns && !os_cost_is_attached(&s->cost, g))
			os_series_add(s->series, 0, OS_ROW_MISSED, g,
				      (double)(s->now_ns - before_ns), NULL);
}

void os_signals_closer(struct os_signals *s, bool closer)
{
	s->closer = closer;
}

void os_signals_pause(struct os_signals *s, bool paused)
{
	if (paused)
		os_bpf_stats(s->bpf, false);
	s->cost.measuring &= !paused;
	for (unsigned g = 0; g < OS_GROUP_COUNT; g++)
		os_bpf_set_group(s->bpf, g, !paused && os_cost_is_attached(&s->cost, g));
}

/* Keeps the programs within their budget. */
static void govern(struct os_signals *s)
{
	struct os_cost_sums sums;
	enum os_group g = os_cost_again(&s->cost, s->now_ns);
	bool on;

	if (g < OS_GROUP_COUNT)
		os_bpf_set_group(s->bpf, g, true);
	while ((g = os_cost_look(&s->cost, s->closer, s->now_ns, &on)) < OS_GROUP_COUNT)
		os_bpf_set_group(s->bpf, g, on);
	if (s->cost.measuring) {
		cost_sums(s, &sums);
		if (!os_cost_end(&s->cost, &sums, s->now_ns, &g))
			return;
		os_bpf_stats(s->bpf, false);
		if (g < OS_GROUP_COUNT)
			os_bpf_set_group(s->bpf, g, false);
	}
	if (os_cost_due(&s->cost, s->now_ns) && os_bpf_stats(s->bpf, true)) {
		cost_sums(s, &sums);
		os_cost_begin(&s->cost, &sums, s->now_ns);
	}
}

void os_signals_read(struct os_signals *s, uint64_t now_ns)
{
	uint64_t before_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID), last_ns = s->now_ns;

	s->now_ns = now_ns;
	s->serial++;
	os_series_advance(s->series, now_ns);
	if (s->seen_count >= LIMIT_OS_COUNTERS / 2)
		seen_sweep(s);
	if (s->bpf) {
		os_read_maps(s);
		note_missed(s, last_ns);
		govern(s);
	}
	refresh(s);
	read_proc(s);
	s->stats.reads++;
	s->stats.read_ns += clock_ns(CLOCK_THREAD_CPUTIME_ID) - before_ns;
}

/* ---- windows ---- */

struct pick {
	struct os_signals *s;
	struct os_signal *list;
	uint32_t count;
	double step_ms;
	bool had[OS_SIGNAL_KINDS];
	/* numerators and denominators of means */
	struct os_series_row io_ns, io_count;
	struct {
		struct os_series_row ns, count;
	} disk[32];
	uint32_t disks;
	double missed[OS_GROUP_COUNT], usually_missed[OS_GROUP_COUNT]; /* share of the time */
	struct {
		uint32_t kind;
		uint64_t key;
		struct os_series_row sum, readings;
		char subject[OS_SIGNAL_SUBJECT_BYTES];
	} level[LEVELS_MAX];
	uint32_t levels;
};

/* ---- signals from other sources ---- */

uint64_t os_signals_readings_key(uint32_t kind, uint64_t key)
{
	return (uint64_t)kind << 56 | (key & ((1ull << 56) - 1));
}

void os_signals_level(struct os_signals *s, uint32_t pid, enum os_signal_kind kind, uint64_t key,
		      double value, const char *subject)
{
	if (!os_signals_watches(s, pid))
		return;
	os_series_add(s->series, pid, kind, key, value, subject);
	os_series_add(s->series, pid, OS_ROW_READINGS, os_signals_readings_key(kind, key), 1, NULL);
}

void os_signals_count(struct os_signals *s, uint32_t pid, enum os_signal_kind kind, uint64_t key,
		      double value, const char *subject)
{
	if (value > 0 && os_signals_watches(s, pid))
		os_series_add(s->series, pid, kind, key, value, subject);
}

/* The group of programs that counts a signal per second. */
static enum os_group group_of(enum os_signal_kind kind)
{
	switch (kind) {
	case OS_SIGNAL_LOCK_WAIT:
	case OS_SIGNAL_LOCK_PLACE:
		return OS_GROUP_LOCKS;
	case OS_SIGNAL_IO_WAIT:
	case OS_SIGNAL_IO_WAIT_THREAD:
	case OS_SIGNAL_CPU_HOG:
		return OS_GROUP_CPU;
	case OS_SIGNAL_SOFTIRQ_STOLEN:
	case OS_SIGNAL_IRQ_STOLEN:
		return OS_GROUP_INTERRUPTS;
	default: /* read elsewhere too, or not per second */
		return OS_GROUP_ALWAYS;
	}
}

/* Rows have the CPU in their key (os_read.c). */
static uint32_t cpu_of(enum os_signal_kind kind, uint64_t key)
{
	switch (kind) {
	case OS_SIGNAL_SOFTIRQ_STOLEN:
	case OS_SIGNAL_IRQ_STOLEN:
		return (uint32_t)(key & 0xffff) + 1;
	case OS_SIGNAL_SOFTIRQ_CPU:
		return (uint32_t)(key >> 8) + 1;
	default:
		return 0;
	}
}

static void take(struct pick *p, enum os_signal_kind kind, uint64_t key, const char *subject,
		 double value, double usual)
{
	struct os_signal sig;

	p->had[kind] = true;
	os_signal_make(&sig, kind, subject, value, usual, p->step_ms);
	sig.cpu = cpu_of(kind, key);
	if (os_signal_is_notable(&sig))
		os_signal_put(p->list, &p->count, CANDIDATES_MAX, &sig);
}

/* If a group was attached for part of the time, values are per second of that part. Below this
 * share they are unknown. */
#define COUNTED_MIN 0.1

static void take_row(struct pick *p, const struct os_series_row *row, const char *subject)
{
	enum os_group g = group_of(row->kind);
	double counted = 1 - p->missed[g], usually = 1 - p->usually_missed[g];

	if (counted < COUNTED_MIN)
		return;
	take(p, row->kind, row->key, subject, row->value / counted,
	     row->usual < 0 || usually < COUNTED_MIN ? -1 : row->usual / usually);
}

static double ratio(double a, double b)
{
	return b > 0 ? a / b : 0;
}

static void take_mean(struct pick *p, enum os_signal_kind kind, const char *subject,
		      const struct os_series_row *ns, const struct os_series_row *count)
{
	if (count->value > 0)
		take(p, kind, 0, subject, ratio(ns->value, count->value),
		     count->usual > 0 ? ratio(ns->usual, count->usual) : -1);
}

static const struct os_lock_place *place_of(const struct os_signals *s, uint32_t root, uint64_t key)
{
	for (uint32_t i = 0; i < OS_PLACES; i++)
		if (s->places[i].at_ns && s->places[i].root == root &&
		    (uint32_t)s->places[i].stack == (uint32_t)key)
			return &s->places[i];
	return NULL;
}

static bool is_lock_of(const struct os_lock_place *p, uint64_t lock)
{
	for (uint32_t k = 0; k < OS_LOCK_ADDRESSES; k++)
		if (lock && lock == p->lock[k])
			return true;
	return false;
}

/* How long a process waited recently for the locks of a place, and its longest wait. */
struct sharer {
	double ms;
	const struct os_lock_use *use;
};

/* Finds other processes, and the rank's own threads except its first. Returns their number, at most
 * OS_SHARERS. */
static uint32_t sharers_of(const struct os_signals *s, const struct os_lock_place *p,
			   struct sharer *out)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < OS_SHARERS; i++) {
		const struct os_lock_use *u = &s->uses[i];
		uint32_t at = 0;

		if (!is_lock_of(p, u->lock) || u->at_ns + SHARERS_NS < s->now_ns)
			continue;
		if (u->pid == p->root && !u->tid)
			continue;
		while (at < n &&
		       (out[at].use->pid != u->pid || strcmp(out[at].use->comm, u->comm) != 0))
			at++;
		if (at == n) {
			if (u->pid != p->root && os_signals_root(s, u->pid) == p->root)
				continue;
			out[n++] = (struct sharer){.use = u};
		}
		out[at].ms += u->ms;
		if (u->ms > out[at].use->ms)
			out[at].use = u;
	}
	return n;
}

static size_t sharer_name(const struct sharer *sharer, uint32_t root, bool next, char *out,
			  size_t bytes)
{
	const struct os_lock_use *u = sharer->use;
	const char *joint = next ? ", " : ", which is shared with ";

	return (size_t)(u->pid == root
			    ? snprintf(out, bytes, "%sits thread %.16s", joint, u->comm)
			    : snprintf(out, bytes, "%s%.16s (pid %u)", joint, u->comm, u->pid));
}

/* Appends who contends most for the rank's locks at this place. A name without room is left out; to
 * fit the first name, the place is shortened. */
static void add_sharers(const struct os_signals *s, uint32_t root, uint64_t key, char *subject,
			size_t bytes)
{
	const struct os_lock_place *p = place_of(s, root, key);
	struct sharer sharer[OS_SHARERS];
	uint32_t n = p ? sharers_of(s, p, sharer) : 0;

	for (uint32_t count = 0; count < SHARERS_NAMED; count++) {
		char name[80];
		size_t used = strlen(subject), len;
		uint32_t best = 0;

		for (uint32_t i = 1; i < n; i++)
			if (sharer[i].ms > sharer[best].ms)
				best = i;
		if (!n || !(sharer[best].ms > 0))
			return;
		len = sharer_name(&sharer[best], p->root, count > 0, name, sizeof(name));
		if (used + len >= bytes) {
			if (count)
				return;
			used = bytes - 1 - len;
		}
		memcpy(subject + used, name, len + 1);
		sharer[best].ms = 0; /* already named */
	}
}

/* Collects the two rows of a level, which come in any order. */
static void level_row(struct pick *p, const struct os_series_row *row)
{
	bool readings = row->kind == OS_ROW_READINGS;
	uint64_t key = readings ? row->key : os_signals_readings_key(row->kind, row->key);
	uint32_t i = 0;

	while (i < p->levels && p->level[i].key != key)
		i++;
	if (i == LEVELS_MAX)
		return;
	if (i == p->levels) {
		p->levels++;
		p->level[i].key = key;
		p->level[i].kind = (uint32_t)(key >> 56);
	}
	if (readings) {
		p->level[i].readings = *row;
	} else {
		p->level[i].sum = *row;
		snprintf(p->level[i].subject, sizeof(p->level[i].subject), "%s", row->subject);
	}
}

static void on_rank_row(void *arg, const struct os_series_row *row)
{
	struct pick *p = arg;
	char subject[OS_SIGNAL_SUBJECT_BYTES];

	if (row->kind == OS_ROW_READINGS ||
	    (row->kind < OS_SIGNAL_KINDS && os_signal_info(row->kind)->level)) {
		level_row(p, row);
		return;
	}

	if (row->kind == OS_ROW_IO_NS)
		p->io_ns = *row;
	else if (row->kind == OS_ROW_IO_COUNT)
		p->io_count = *row;
	if (row->kind >= OS_SIGNAL_KINDS)
		return;
	snprintf(subject, sizeof(subject), "%s", row->subject);
	if (row->kind == OS_SIGNAL_LOCK_PLACE)
		add_sharers(p->s, row->owner, row->key, subject, sizeof(subject));
	take_row(p, row, subject);
}

static void on_missed_row(void *arg, const struct os_series_row *row)
{
	struct pick *p = arg;

	if (row->kind != OS_ROW_MISSED || row->key >= OS_GROUP_COUNT)
		return;
	p->missed[row->key] = row->value * 1e-9;
	p->usually_missed[row->key] = row->usual > 0 ? row->usual * 1e-9 : 0;
}

static void on_host_row(void *arg, const struct os_series_row *row)
{
	struct pick *p = arg;
	uint32_t i = 0;

	if (row->kind < OS_SIGNAL_KINDS) {
		take_row(p, row, row->subject);
		return;
	}
	if (row->kind == OS_ROW_MISSED)
		return;
	while (i < p->disks && p->disk[i].ns.key != row->key)
		i++;
	if (i == sizeof(p->disk) / sizeof(p->disk[0]))
		return;
	if (i == p->disks) {
		memset(&p->disk[i], 0, sizeof(p->disk[i]));
		p->disk[p->disks++].ns.key = row->key;
	}
	if (row->kind == OS_ROW_DISK_NS)
		p->disk[i].ns = *row;
	else
		p->disk[i].count = *row;
}

/* Whether the signal was counted at all. Only then is a zero meaningful. */
static bool is_counted(const struct pick *p, enum os_signal_kind kind)
{
	const struct os_signals *s = p->s;

	switch (kind) {
	case OS_SIGNAL_FAULTS_MAJOR:
	case OS_SIGNAL_THROTTLED:
	case OS_SIGNAL_FAULTS:
	case OS_SIGNAL_RUN_WAIT:
		return true;
	case OS_SIGNAL_LOCK_WAIT:
	case OS_SIGNAL_IO_WAIT:
		return s->bpf && p->missed[group_of(kind)] < 1 - COUNTED_MIN;
	default: /* a level is known only if it was read */
		return s->bpf && !os_signal_info(kind)->level;
	}
}

/* Adds totals that are zero, because zero is evidence. */
static void take_zeroes(struct pick *p, double usual)
{
	for (unsigned k = 0; k < OS_SIGNAL_KINDS; k++) {
		if (!os_signal_info(k)->total || p->had[k] || !is_counted(p, k))
			continue;
		take(p, k, 0, "", 0, usual);
	}
}

static void keep_unusual(struct os_rank *r, uint64_t begin_ns, uint64_t end_ns)
{
	struct os_span *last = &r->unusual[(r->unusual_next + OS_UNUSUAL_MAX - 1) % OS_UNUSUAL_MAX];

	if (last->end_ns && begin_ns <= last->end_ns + 5000000000ull &&
	    begin_ns >= last->begin_ns) {
		last->end_ns = end_ns > last->end_ns ? end_ns : last->end_ns;
		return;
	}
	r->unusual[r->unusual_next++ % OS_UNUSUAL_MAX] = (struct os_span){begin_ns, end_ns};
}

uint32_t os_signals_window(struct os_signals *s, uint32_t pid, uint64_t begin_ns, uint64_t end_ns,
			   double step_ms, bool unusual, struct os_signal *list, uint32_t max)
{
	struct os_rank *r = os_signals_find(s, pid);
	struct os_series_query q = {.begin_ns = begin_ns, .end_ns = end_ns};
	struct pick *p = r ? calloc(1, sizeof(*p)) : NULL;
	uint32_t n = 0;

	if (p)
		p->list = calloc(CANDIDATES_MAX, sizeof(*p->list));
	if (!p || !p->list) {
		free(p);
		return 0;
	}
	p->s = s;
	p->step_ms = step_ms;
	q.from_ns = r->since_ns;
	q.unusual = r->unusual;
	q.unusual_count = OS_UNUSUAL_MAX;
	os_series_each(s->series, 0, &q, on_missed_row, p);
	os_series_each(s->series, pid, &q, on_rank_row, p);
	os_series_each(s->series, 0, &q, on_host_row, p);
	take_mean(p, OS_SIGNAL_IO_LATENCY, "", &p->io_ns, &p->io_count);
	for (uint32_t i = 0; i < p->disks; i++)
		if (p->disk[i].ns.subject)
			take_mean(p, OS_SIGNAL_DISK_LATENCY, p->disk[i].ns.subject, &p->disk[i].ns,
				  &p->disk[i].count);
	for (uint32_t i = 0; i < p->levels; i++)
		take_mean(p, p->level[i].kind, p->level[i].subject, &p->level[i].sum,
			  &p->level[i].readings);
	take_zeroes(p, os_series_knows_usual(s->series, &q) ? 0 : -1);
	qsort(p->list, p->count, sizeof(*p->list), os_signal_order);
	for (uint32_t i = 0; i < p->count; i++)
		os_signal_put(list, &n, max, &p->list[i]);
	qsort(list, n, sizeof(*list), os_signal_order);
	if (unusual)
		keep_unusual(r, begin_ns, end_ns);
	free(p->list);
	free(p);
	return n;
}

/* ---- open, close ---- */

/* Reports at once, not only with the first rank, if the cgroups of ranks cannot be read from
 * here. */
static void look_at_cgroups(struct os_signals *s)
{
	size_t used = strlen(s->stats.missing);
	struct os_proc_cgroup own;

	os_proc_cgroup_find(&s->hierarchies, s->options.proc_root, s->options.sys_root,
			    (uint32_t)getpid(), &own);
	if (os_hierarchy_is_inside(&s->hierarchies))
		snprintf(s->stats.missing + used, sizeof(s->stats.missing) - used,
			 "%scgroups of other containers (needs CAP_DAC_READ_SEARCH)",
			 used ? ", " : "");
}

int os_signals_open(struct os_signals **out, const struct os_signals_options *o, uint64_t now_ns)
{
	struct os_signals *s = calloc(1, sizeof(*s));
	uint64_t offset;
	int err = -ENOMEM;

	if (!s)
		return err;
	s->options = *o;
	if (!s->options.proc_root)
		s->options.proc_root = "/proc";
	if (!s->options.sys_root)
		s->options.sys_root = "/sys";
	s->seen = calloc(LIMIT_OS_COUNTERS, sizeof(*s->seen));
	s->keys = malloc(OS_KEYS_BYTES);
	s->values = malloc(OS_VALUES_BYTES);
	s->threads = malloc(OS_THREAD_MAX * sizeof(*s->threads));
	if (!s->seen || !s->keys || !s->values || !s->threads ||
	    os_series_open(&s->series, now_ns)) {
		os_signals_close(s);
		return err;
	}
	s->now_ns = now_ns;
	if (o->no_bpf)
		snprintf(s->stats.why, sizeof(s->stats.why), "switched off");
	else if (os_bpf_open(s) == -ENOMEM) {
		os_signals_close(s);
		return err;
	}
	s->stats.bpf = s->bpf != NULL;
	look_at_cgroups(s);
	os_cost_init(&s->cost, o->bpf_budget, (uint32_t)sysconf(_SC_NPROCESSORS_ONLN), now_ns);
	/* Loads the symbols now, not at the first contended lock: it takes a tenth of a second. */
	if (s->bpf && !kernel_symbols_open(&s->symbols, NULL))
		kernel_symbols_find(s->symbols, 1, &offset);
	s->stats.map_bytes = os_bpf_bytes(s->bpf);
	*out = s;
	return 0;
}

void os_signals_close(struct os_signals *s)
{
	if (!s)
		return;
	os_bpf_close(s->bpf);
	os_series_close(s->series);
	kernel_symbols_close(s->symbols);
	os_hierarchy_fini(&s->hierarchies);
	free(s->seen);
	free(s->keys);
	free(s->values);
	free(s->threads);
	free(s);
}

void os_signals_stats(const struct os_signals *s, struct os_signals_stats *out)
{
	*out = s->stats;
	out->processes = s->pid_count;
	out->series = os_series_count(s->series);
	out->lost_series = os_series_lost(s->series);
	out->cost = s->cost.total;
	out->budget = s->cost.budget;
	out->cost_measurements = s->cost.measurements;
	os_cost_text(&s->cost, out->turned_down, sizeof(out->turned_down));
	while (os_signals_rank(s, out->ranks))
		out->ranks++;
}
