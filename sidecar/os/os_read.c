/* SPDX-License-Identifier: Apache-2.0
 * Turns the kernel's counters into rows per second. A thread or place gets a row only if it has at
 * least ROW_MIN_MS in a second, so a thousand threads without loss cost no rows. The sums per rank
 * include everything. */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/hash.h"
#include "ring/ring_format.h"
#include "sidecar/os/os_signals_private.h"

#define ROW_MIN_MS 0.5
#define CPU_MIN_MS 1.0
/* New connections looked up per read: each costs a search through descriptors. */
#define LOOKUPS_MAX 4u
#define FRAMES	    16u
#define NET_RX	    3u

static const char *const vectors[OS_SOFTIRQ_COUNT] = {
    "HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"};

#define FIELD(type, member) (uint32_t)(offsetof(struct type, member) / sizeof(uint64_t))

static double grown_ms(struct os_signals *s, enum os_map map, uint32_t field, const void *key,
		       size_t bytes, uint64_t ns)
{
	return (double)os_signals_delta(s, os_signals_key(map, field, key, bytes), ns,
					OS_FIRST_IS_ALL) *
	       1e-6;
}

static uint64_t grown(struct os_signals *s, enum os_map map, uint32_t field, const void *key,
		      size_t bytes, uint64_t count)
{
	return os_signals_delta(s, os_signals_key(map, field, key, bytes), count, OS_FIRST_IS_ALL);
}

/* Adds to the rank's total: a row without key and subject. */
static void total(struct os_signals *s, uint32_t root, uint32_t kind, double value)
{
	if (value > 0)
		os_series_add(s->series, root, kind, 0, value, NULL);
}

/* ---- processes ---- */

static void read_process(struct os_signals *s, uint32_t pid, const struct os_process *p)
{
#define NS(kind, member)                                                                           \
	total(s, p->root, kind,                                                                    \
	      grown_ms(s, OS_MAP_PROCESSES, FIELD(os_process, member), &pid, sizeof(pid),          \
		       p->member))
#define COUNT(kind, member)                                                                        \
	total(s, p->root, kind,                                                                    \
	      (double)grown(s, OS_MAP_PROCESSES, FIELD(os_process, member), &pid, sizeof(pid),     \
			    p->member))
	NS(OS_SIGNAL_RUN_WAIT, run_wait_ns);
	NS(OS_SIGNAL_IO_WAIT, io_wait_ns);
	NS(OS_SIGNAL_LOCK_WAIT, lock_ns);
	NS(OS_ROW_IO_NS, block_ns);
	COUNT(OS_ROW_IO_COUNT, block_count);
	COUNT(OS_SIGNAL_MIGRATIONS, migrations);
	COUNT(OS_SIGNAL_NODE_MIGRATIONS, node_migrations);
	COUNT(OS_SIGNAL_NUMA_MOVES, numa_moves);
	COUNT(OS_SIGNAL_PAGES_MIGRATED, pages_migrated);
	COUNT(OS_SIGNAL_FAULTS, faults);
#undef NS
#undef COUNT
}

static void read_processes(struct os_signals *s)
{
	uint32_t n = os_bpf_map(s, OS_MAP_PROCESSES);
	const struct os_process *p = s->values;
	const uint32_t *pid = s->keys;
	struct os_proc_stat st;

	s->pid_count = 0;
	for (uint32_t i = 0; i < n; i++) {
		if (s->pid_count == OS_PROCESS_MAX)
			break;
		read_process(s, pid[i], &p[i]);
		if (os_proc_stat(s->options.proc_root, pid[i], &st) ||
		    !os_signals_find(s, p[i].root)) {
			os_bpf_unwatch(s->bpf, pid[i]);
			continue;
		}
		s->pids[s->pid_count] = pid[i];
		s->roots[s->pid_count++] = p[i].root;
	}
}

/* ---- where packets come from ---- */

/* "name" of ip netns, or "netns:[4026532345]". */
static const char *netns_name(struct os_signals *s, uint32_t inode)
{
	uint32_t at;

	for (at = 0; at < OS_NETNS_NAMES; at++)
		if (s->netns[at].inode == inode)
			return s->netns[at].name;
	at = s->netns_next++ % OS_NETNS_NAMES;
	s->netns[at].inode = inode;
	os_proc_netns_name(s->options.proc_root, inode, s->netns[at].name,
			   sizeof(s->netns[at].name));
	return s->netns[at].name;
}

static void add_feeder(struct os_signals *s, uint32_t cpu, char *subject, size_t bytes)
{
	const struct os_feeder *f = cpu < OS_CPU_MAX ? &s->feeders[cpu] : NULL;
	size_t used = strlen(subject);
	const char *netns;

	if (!f || !f->all || 2 * f->most < f->all)
		return;
	netns = netns_name(s, f->netns);
	snprintf(subject + used, bytes - used, ", packets of %.16s%s%.40s", f->name,
		 *netns ? " in " : "", netns);
}

static void read_devices(struct os_signals *s)
{
	uint32_t n = os_bpf_map(s, OS_MAP_DEVICES);
	const struct os_device_key *key = s->keys;
	const struct os_device *d = s->values;

	memset(s->feeders, 0, sizeof(s->feeders));
	for (uint32_t i = 0; i < n; i++) {
		uint64_t more = grown(s, OS_MAP_DEVICES, 0, &key[i], sizeof(key[i]), d[i].packets);
		struct os_feeder *f = key[i].cpu < OS_CPU_MAX ? &s->feeders[key[i].cpu] : NULL;

		if (!f || !more)
			continue;
		f->all += more;
		if (more <= f->most)
			continue;
		f->most = more;
		f->netns = key[i].netns;
		memcpy(f->name, d[i].name, sizeof(f->name));
	}
}

/* ---- threads ---- */

static void thread_row(struct os_signals *s, uint32_t root, enum os_signal_kind kind, uint64_t key,
		       double ms, const char *subject)
{
	if (ms >= ROW_MIN_MS)
		os_series_add(s->series, root, kind, key, ms, subject);
}

/* "NAME", or "NAME of process 7" for a thread of a child. */
static void thread_name(struct os_signals *s, uint32_t tid, const struct os_thread *t,
			uint32_t root, char *out, size_t bytes)
{
	char name[sizeof(t->comm) + 1];

	os_proc_name(s->options.proc_root, t->pid, tid, name, sizeof(name));
	if (!strcmp(name, "?"))
		snprintf(name, sizeof(name), "%.16s", t->comm);
	if (t->pid == root)
		snprintf(out, bytes, "%s", name);
	else
		snprintf(out, bytes, "%s of process %u", name, t->pid);
}

/* Whether it is the preload's helper thread, in a rank or in a child of a rank: no step waits for
 * it. */
static bool is_helper(const char *name)
{
	size_t n = strlen(RING_HELPER_NAME);

	return !strncmp(name, RING_HELPER_NAME, n) && (!name[n] || name[n] == ' ');
}

static void read_thread(struct os_signals *s, uint32_t tid, const struct os_thread *t,
			uint32_t root)
{
#define GROWN(member)                                                                              \
	grown_ms(s, OS_MAP_THREADS, FIELD(os_thread, member), &tid, sizeof(tid), t->member)
	char name[64] = "", subject[OS_SIGNAL_SUBJECT_BYTES];
	double wait_ms = GROWN(run_wait_ns), io_ms = GROWN(io_wait_ns), irq_ms = GROWN(irq_ns);
	struct os_rank *r = os_signals_find(s, root);

	if (r && t->cpu < OS_CPU_MAX &&
	    (t->on_cpu ||
	     grown(s, OS_MAP_THREADS, FIELD(os_thread, switches), &tid, sizeof(tid), t->switches)))
		r->cpus[t->cpu / 64] |= 1ull << t->cpu % 64;
	if (wait_ms >= ROW_MIN_MS || io_ms >= ROW_MIN_MS || irq_ms >= ROW_MIN_MS)
		thread_name(s, tid, t, root, name, sizeof(name));
	if (is_helper(name))
		return;
	thread_row(s, root, OS_SIGNAL_RUN_WAIT_THREAD, tid, wait_ms, name);
	thread_row(s, root, OS_SIGNAL_IO_WAIT_THREAD, tid, io_ms, name);
	snprintf(subject, sizeof(subject), "from thread %s on CPU %u", name, t->cpu);
	thread_row(s, root, OS_SIGNAL_IRQ_STOLEN, (uint64_t)tid << 16 | t->cpu, irq_ms, subject);
	for (uint32_t v = 0; v < OS_SOFTIRQ_COUNT; v++) {
		double ms = t->softirq_ns[v] ? GROWN(softirq_ns[v]) : 0;

		if (ms < ROW_MIN_MS)
			continue;
		thread_name(s, tid, t, root, name, sizeof(name));
		snprintf(subject, sizeof(subject), "%s from thread %s on CPU %u", vectors[v], name,
			 t->cpu);
		if (v == NET_RX)
			add_feeder(s, t->cpu, subject, sizeof(subject));
		thread_row(s, root, OS_SIGNAL_SOFTIRQ_STOLEN,
			   (uint64_t)tid << 32 | (uint64_t)v << 16 | t->cpu, ms, subject);
	}
#undef GROWN
}

static void read_threads(struct os_signals *s, uint32_t count)
{
	uint32_t live = 0;

	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++)
		memset(s->ranks[i].cpus, 0, sizeof(s->ranks[i].cpus));
	for (uint32_t i = 0; i < count; i++) {
		const struct os_thread *t = &s->threads[i];
		uint32_t root = os_signals_root(s, t->pid);

		if (root) {
			read_thread(s, t->tid, t, root);
			live++;
		} else {
			os_bpf_delete(s->bpf, OS_MAP_THREADS, &t->tid);
		}
	}
	s->stats.threads = live;
}

/* ---- who had the CPU ---- */

/* Uses the name that was seen when the process ran in place of a waiting thread; otherwise looks
 * the name up. */
static void hog_text(const struct os_signals *s, uint32_t root, uint32_t other, const char *comm,
		     char *out, size_t bytes)
{
	uint32_t whose = os_signals_root(s, other);
	char name[17];

	snprintf(name, sizeof(name), "%.16s", comm);
	if (!*name && !(other & OS_NOT_OURS))
		os_proc_name(s->options.proc_root, other, other, name, sizeof(name));
	if (whose == root)
		snprintf(out, bytes, "its own thread %s", name);
	else if (whose)
		snprintf(out, bytes, "%s of another rank (pid %u)", name, other);
	else if (other & OS_NOT_OURS)
		snprintf(out, bytes, "%s (pid %u of the host)", *name ? name : "?",
			 other & ~OS_NOT_OURS);
	else
		snprintf(out, bytes, "%s (pid %u)", name, other);
}

static void read_others(struct os_signals *s)
{
	uint32_t n = os_bpf_map(s, OS_MAP_OTHERS);
	const struct os_behind_key *key = s->keys;
	const struct os_behind *b = s->values;

	for (uint32_t i = 0; i < n; i++) {
		char subject[OS_SIGNAL_SUBJECT_BYTES];
		uint32_t root = os_signals_root(s, key[i].pid);
		double ms;

		if (!root) {
			os_bpf_delete(s->bpf, OS_MAP_OTHERS, &key[i]);
			continue;
		}
		ms = grown_ms(s, OS_MAP_OTHERS, 0, &key[i], sizeof(key[i]), b[i].ns);
		if (ms < ROW_MIN_MS)
			continue;
		hog_text(s, root, key[i].other, b[i].comm, subject, sizeof(subject));
		os_series_add(s->series, root, OS_SIGNAL_CPU_HOG, key[i].other, ms, subject);
	}
}

/* ---- interrupts ---- */

static bool ran_on(const struct os_rank *r, uint32_t cpu)
{
	return cpu < OS_CPU_MAX && r->cpus[cpu / 64] >> cpu % 64 & 1;
}

static void for_ranks_on(struct os_signals *s, uint32_t cpu, enum os_signal_kind kind, uint64_t key,
			 double ms, const char *subject)
{
	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++)
		if (s->ranks[i].pid && ran_on(&s->ranks[i], cpu))
			os_series_add(s->series, s->ranks[i].pid, kind, key, ms, subject);
}

static void read_interrupts(struct os_signals *s)
{
	uint32_t n = os_bpf_map(s, OS_MAP_CPUS);
	const struct os_cpu *c = s->values;
	const struct os_irq_key *key = s->keys;
	const struct os_irq *line = s->values;
	char subject[OS_SIGNAL_SUBJECT_BYTES];

	for (uint32_t cpu = 0; cpu < n; cpu++)
		for (uint32_t v = 0; v < OS_SOFTIRQ_COUNT; v++) {
			double ms =
			    grown_ms(s, OS_MAP_CPUS, v, &cpu, sizeof(cpu), c[cpu].softirq_ns[v]);

			if (ms < CPU_MIN_MS)
				continue;
			snprintf(subject, sizeof(subject), "%s on CPU %u", vectors[v], cpu);
			if (v == NET_RX)
				add_feeder(s, cpu, subject, sizeof(subject));
			for_ranks_on(s, cpu, OS_SIGNAL_SOFTIRQ_CPU, (uint64_t)cpu << 8 | v, ms,
				     subject);
		}
	n = os_bpf_map(s, OS_MAP_IRQS);
	for (uint32_t i = 0; i < n; i++) {
		double ms = grown_ms(s, OS_MAP_IRQS, 0, &key[i], sizeof(key[i]), line[i].ns);

		if (ms < CPU_MIN_MS)
			continue;
		snprintf(subject, sizeof(subject), "%u (%.16s) on CPU %u", key[i].irq, line[i].name,
			 key[i].cpu);
		for_ranks_on(s, key[i].cpu, OS_SIGNAL_IRQ_LINE,
			     (uint64_t)key[i].cpu << 32 | key[i].irq, ms, subject);
	}
}

/* ---- storage and network ---- */

static void read_disks(struct os_signals *s)
{
	uint32_t n = os_bpf_map(s, OS_MAP_DISKS);
	const struct os_disk_key *key = s->keys;
	const struct os_disk *d = s->values;

	for (uint32_t i = 0; i < n; i++) {
		uint64_t count = grown(s, OS_MAP_DISKS, 1, &key[i], sizeof(key[i]), d[i].count);
		double ms = grown_ms(s, OS_MAP_DISKS, 0, &key[i], sizeof(key[i]), d[i].ns);
		uint64_t row = (uint64_t)key[i].device << 1 | (key[i].write & 1);
		char disk[32], subject[OS_SIGNAL_SUBJECT_BYTES];

		if (!count)
			continue;
		os_proc_disk_name(s->options.sys_root, key[i].device, disk, sizeof(disk));
		snprintf(subject, sizeof(subject), "%s of %s", key[i].write ? "writes" : "reads",
			 disk);
		os_series_add(s->series, 0, OS_ROW_DISK_NS, row, ms, subject);
		os_series_add(s->series, 0, OS_ROW_DISK_COUNT, row, (double)count, subject);
	}
}

static void connection_text(const struct os_connection *c, char *out, size_t bytes)
{
	char from[INET6_ADDRSTRLEN] = "?", to[INET6_ADDRSTRLEN] = "?";
	int family = c->family == AF_INET6 ? AF_INET6 : AF_INET;

	inet_ntop(family, c->source, from, sizeof(from));
	inet_ntop(family, c->destination, to, sizeof(to));
	snprintf(out, bytes, "%.38s:%u to %.38s:%u", from, c->source_port & 0xffffu, to,
		 c->destination_port & 0xffffu);
}

static uint32_t owner_of(struct os_signals *s, const struct os_connection *c, uint32_t *lookups)
{
	uint32_t at, pid;

	for (at = 0; at < OS_CONNECTIONS; at++)
		if (s->connections[at].known && !memcmp(&s->connections[at].c, c, sizeof(*c)))
			return os_signals_root(s, s->connections[at].pid);
	if (++*lookups > LOOKUPS_MAX)
		return 0;
	pid = os_proc_socket_owner(s->options.proc_root, s->pids, s->pid_count, c);
	at = s->connection_next++ % OS_CONNECTIONS;
	s->connections[at].c = *c;
	s->connections[at].pid = pid;
	s->connections[at].known = true;
	return os_signals_root(s, pid);
}

static void read_retransmits(struct os_signals *s)
{
	uint32_t n = os_bpf_map(s, OS_MAP_RETRANSMITS), lookups = 0;
	const struct os_connection *c = s->keys;
	const struct os_retransmits *r = s->values;

	for (uint32_t i = 0; i < n; i++) {
		uint64_t key = hash_bytes(HASH_SEED, &c[i], sizeof(c[i]));
		uint64_t more = grown(s, OS_MAP_RETRANSMITS, 0, &c[i], sizeof(c[i]), r[i].segments);
		double ms = grown_ms(s, OS_MAP_RETRANSMITS, 1, &c[i], sizeof(c[i]), r[i].waited_ns);
		char subject[OS_SIGNAL_SUBJECT_BYTES];
		uint32_t owner;

		if (!more)
			continue;
		owner = owner_of(s, &c[i], &lookups);
		connection_text(&c[i], subject, sizeof(subject));
		os_series_add(s->series, owner,
			      owner ? OS_SIGNAL_RETRANSMITS : OS_SIGNAL_RETRANSMITS_OTHER, key,
			      (double)more, subject);
		if (owner)
			os_series_add(s->series, owner, OS_SIGNAL_RETRANSMIT_WAIT, key, ms,
				      subject);
	}
}

/* ---- locks ---- */

/* Whether the function only waits for or implements a lock: it does not name the place. */
static bool is_waiting(const char *name)
{
	static const char *const parts[] = {
	    "bpf_",    "__bpf",		"trace_",	   "__traceiter",
	    "queued_", "native_queued", "_raw_",	   "__raw_",
	    "rwsem_",  "__mutex",	"mutex_lock",	   "down_",
	    "__down",  "percpu_",	"__percpu",	   "__pv_",
	    "pv_",     "osq_",		"lock_",	   "do_raw",
	    "__rwsem", "rt_",		"futex_wait_queue"};

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		if (!strncmp(name, parts[i], strlen(parts[i])))
			return true;
	return false;
}

static bool is_entry(const char *name)
{
	return !strncmp(name, "__x64_sys", 9) || !strncmp(name, "do_syscall", 10) ||
	       !strncmp(name, "entry_", 6) || !strncmp(name, "x64_sys", 7);
}

void os_read_place(struct os_signals *s, int32_t stack, char *out, size_t bytes)
{
	uint64_t frames[FRAMES], offset;
	uint32_t n = os_bpf_stack(s->bpf, stack, frames, FRAMES), named = 0;
	char place[48] = "";

	if (!s->symbols)
		n = 0;
	for (uint32_t i = 0; i < n && named < 2; i++) {
		/* a return address: the call is before it */
		const char *name = kernel_symbols_find(s->symbols, frames[i] - 1, &offset);

		if (!*name || is_waiting(name))
			continue;
		if (is_entry(name))
			break;
		if (!named)
			snprintf(place, sizeof(place), "%.40s", name);
		else
			snprintf(out, bytes, "%s in %.40s", place, name);
		named++;
	}
	if (named < 2)
		snprintf(out, bytes, "%s", named ? place : "an unknown place");
}

static void lock_used(struct os_signals *s, const struct os_lock_user_key *key, const char *comm,
		      double ms)
{
	struct os_lock_use *u = NULL, *oldest = &s->uses[0];

	for (uint32_t i = 0; i < OS_SHARERS && !u; i++) {
		if (s->uses[i].lock == key->lock && s->uses[i].pid == key->pid &&
		    s->uses[i].tid == key->tid)
			u = &s->uses[i];
		if (s->uses[i].at_ns < oldest->at_ns)
			oldest = &s->uses[i];
	}
	if (!u) {
		u = oldest;
		*u = (struct os_lock_use){.lock = key->lock, .pid = key->pid, .tid = key->tid};
	}
	u->ms = u->ms / 2 + ms;
	u->at_ns = s->now_ns;
	memcpy(u->comm, comm, sizeof(u->comm));
}

static void read_lock_users(struct os_signals *s)
{
	uint32_t n = os_bpf_map(s, OS_MAP_LOCK_USERS);
	const struct os_lock_user_key *key = s->keys;
	const struct os_lock_user *u = s->values;

	for (uint32_t i = 0; i < n; i++) {
		double ms = grown_ms(s, OS_MAP_LOCK_USERS, 0, &key[i], sizeof(key[i]), u[i].ns);

		if (ms > 0)
			lock_used(s, &key[i], u[i].comm, ms);
	}
}

static void lock_placed(struct os_signals *s, uint32_t root, int32_t stack, const struct os_lock *l)
{
	struct os_lock_place *p = NULL, *oldest = &s->places[0];

	for (uint32_t i = 0; i < OS_PLACES && !p; i++) {
		if (s->places[i].at_ns && s->places[i].root == root && s->places[i].stack == stack)
			p = &s->places[i];
		if (s->places[i].at_ns < oldest->at_ns)
			oldest = &s->places[i];
	}
	p = p ? p : oldest;
	p->root = root;
	p->stack = stack;
	memcpy(p->lock, l->lock, sizeof(p->lock));
	p->at_ns = s->now_ns;
}

static void read_locks(struct os_signals *s)
{
	uint32_t n = os_bpf_map(s, OS_MAP_LOCKS);
	const struct os_lock_key *key = s->keys;
	const struct os_lock *l = s->values;

	for (uint32_t i = 0; i < n; i++) {
		double ms = grown_ms(s, OS_MAP_LOCKS, 0, &key[i], sizeof(key[i]), l[i].ns);
		uint32_t root = os_signals_root(s, key[i].pid);
		char subject[OS_SIGNAL_SUBJECT_BYTES];

		if (ms < ROW_MIN_MS || !root)
			continue;
		lock_placed(s, root, key[i].stack, &l[i]);
		if (!os_series_has(s->series, root, OS_SIGNAL_LOCK_PLACE, (uint32_t)key[i].stack))
			os_read_place(s, key[i].stack, subject, sizeof(subject));
		else
			subject[0] = '\0';
		os_series_add(s->series, root, OS_SIGNAL_LOCK_PLACE, (uint32_t)key[i].stack, ms,
			      subject);
	}
}

static uint64_t sum(const uint64_t *v, uint32_t n)
{
	uint64_t total_count = 0;

	for (uint32_t i = 0; i < n; i++)
		total_count += v[i];
	return total_count;
}

static void read_counters(struct os_signals *s)
{
	uint32_t cpus = os_bpf_map(s, OS_MAP_COUNTERS);
	const uint64_t *v = s->values;

	s->stats.lost_threads = sum(v + OS_LOST_THREADS * cpus, cpus) + s->lost_rows;
	s->stats.lost_others = sum(v + OS_LOST_OTHERS * cpus, cpus);
	s->stats.lost_block = sum(v + OS_LOST_BLOCK * cpus, cpus);
	s->stats.lost_locks = sum(v + OS_LOST_LOCKS * cpus, cpus);
	s->stats.lost_processes = sum(v + OS_LOST_PROCESSES * cpus, cpus);
}

void os_read_maps(struct os_signals *s)
{
	/* must come first, because it also updates the processes' sums from the tasks */
	uint32_t threads = os_bpf_threads(s);

	read_processes(s);
	read_devices(s); /* reads names that read_interrupts uses */
	read_threads(s, threads);
	read_others(s);
	read_interrupts(s);
	read_disks(s);
	read_retransmits(s);
	read_lock_users(s);
	read_locks(s);
	read_counters(s);
}
