/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 * os_signals.bpf.c - what the operating system does to the threads of watched processes, counted where
 * it happens: interrupts that take their CPU, waits for a CPU and who had it, moves between CPUs and
 * NUMA nodes, page faults, block requests, TCP retransmits, contended kernel locks.
 * Typed tracepoints only (5.5); user space leaves out the programs that a kernel cannot load. */
#include "bpf/kernel_types.h"

#include <bpf/bpf_helpers.h>
/* after bpf_helpers.h */
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
#include <stdbool.h>

#include "bpf/os_signals_format.h"
#include "bpf/task_number.h"

char LICENSE[] SEC("license") = "GPL";

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct irqaction {
	const char *name;
};
struct gendisk {
	int major, first_minor;
};
struct request_queue {
	struct gendisk *disk;
};
struct request {
	struct request_queue *q;
	unsigned int cmd_flags;
	unsigned int __data_len;
};
struct request___before_5_15 {
	struct gendisk *rq_disk;
};
struct in6_kernel {
	__u8 bytes[16];
};
struct sock_common {
	__u32 skc_daddr, skc_rcv_saddr;
	__u16 skc_dport, skc_num;
	unsigned short skc_family;
	struct in6_kernel skc_v6_daddr, skc_v6_rcv_saddr;
};
struct sock {
	struct sock_common __sk_common;
};
struct task_struct___io_wait {
	unsigned int in_iowait : 1;
};
#pragma clang attribute pop

#define FAMILY_INET 2
#define FAMILY_INET6 10

/* Set before loading: the NUMA node of each CPU. */
const volatile __u8 os_node_of_cpu[OS_CPU_MAX] = {};

#define HASH(name, flavour, entries, k, v) \
	struct { \
		__uint(type, flavour); \
		__uint(max_entries, entries); \
		__type(key, k); \
		__type(value, v); \
	} name SEC(".maps")

HASH(os_cpus, BPF_MAP_TYPE_PERCPU_ARRAY, 1, __u32, struct os_cpu);
HASH(os_irqs, BPF_MAP_TYPE_LRU_HASH, 2048, struct os_irq_key, struct os_irq);
HASH(os_processes, BPF_MAP_TYPE_HASH, OS_PROCESS_MAX, __u32, struct os_process); /* the watched ones */
HASH(os_threads, BPF_MAP_TYPE_LRU_HASH, OS_THREAD_MAX, __u32, struct os_thread);
HASH(os_others, BPF_MAP_TYPE_LRU_HASH, 4096, struct os_behind_key, struct os_behind);
HASH(os_disks, BPF_MAP_TYPE_HASH, 256, struct os_disk_key, struct os_disk);
HASH(os_retransmits, BPF_MAP_TYPE_LRU_HASH, 1024, struct os_connection, __u64);
HASH(os_locks, BPF_MAP_TYPE_LRU_HASH, 4096, struct os_lock_key, struct os_lock);
HASH(os_counters, BPF_MAP_TYPE_PERCPU_ARRAY, OS_COUNTER_MAX, __u32, __u64);

struct request_begin {
	__u64 at_ns;
	__u32 pid;
	__u32 pad;
};
HASH(os_requests, BPF_MAP_TYPE_HASH, 4096, __u64, struct request_begin);

struct contention {
	__u64 lock, at_ns;
	__u32 flags, pad;
};
HASH(os_contentions, BPF_MAP_TYPE_LRU_HASH, 8192, __u32, struct contention);
struct {
	__uint(type, BPF_MAP_TYPE_STACK_TRACE);
	__uint(max_entries, 2048);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, OS_LOCK_STACK_FRAMES * sizeof(__u64));
} os_lock_stacks SEC(".maps");

/* The clock may step back by a little between CPUs. */
static __always_inline __u64 since(__u64 from, __u64 to)
{
	return to > from ? to - from : 0;
}

static __always_inline void lost(__u32 counter)
{
	__u64 *n = bpf_map_lookup_elem(&os_counters, &counter);

	if (n)
		*n += 1;
}

/* Pointers of typed tracepoints are read without a helper. */
static __always_inline __u32 process_of(struct task_struct *task)
{
	return task_number_ns ? task_process_number(task) : (__u32)task->tgid;
}

static __always_inline __u32 thread_number(struct task_struct *task)
{
	return task_number_ns ? task_number(task) : (__u32)task->pid;
}

static __always_inline struct os_process *watched(__u32 pid)
{
	return pid ? bpf_map_lookup_elem(&os_processes, &pid) : NULL;
}

/* The thread's row, made at its first event. */
static __always_inline struct os_thread *thread_of(struct task_struct *task, __u32 pid)
{
	__u32 tid = thread_number(task);
	struct os_thread *t = bpf_map_lookup_elem(&os_threads, &tid), fresh = {};

	if (t)
		return t;
	fresh.pid = pid;
	bpf_probe_read_kernel(fresh.comm, sizeof(fresh.comm),
			      (char *)task + bpf_core_field_offset(struct task_struct, comm));
	bpf_map_update_elem(&os_threads, &tid, &fresh, BPF_NOEXIST);
	t = bpf_map_lookup_elem(&os_threads, &tid);
	if (!t)
		lost(OS_LOST_THREADS);
	return t;
}

static __always_inline __u32 bucket(__u64 ns)
{
	__u64 us = ns / 1000;
	__u32 b = 0;

	if (us >> 16) {
		b += 16;
		us >>= 16;
	}
	if (us >> 8) {
		b += 8;
		us >>= 8;
	}
	if (us >> 4) {
		b += 4;
		us >>= 4;
	}
	if (us >> 2) {
		b += 2;
		us >>= 2;
	}
	b += us >> 1 ? 2 : (__u32)us;
	return b < OS_LATENCY_BUCKETS ? b : OS_LATENCY_BUCKETS - 1;
}

/* ---- interrupts ---- */

static __always_inline struct os_cpu *this_cpu(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&os_cpus, &zero);
}

/* The thread under an interrupt, if it is a watched one. */
static __always_inline struct os_thread *victim(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 pid;

	if (!task->pid)
		return NULL; /* idle */
	pid = process_of(task);
	return watched(pid) ? thread_of(task, pid) : NULL;
}

SEC("tp_btf/softirq_entry")
int BPF_PROG(os_softirq_entry, unsigned int vector)
{
	struct os_cpu *c = this_cpu();

	if (c) {
		c->softirq_since = bpf_ktime_get_ns();
		c->irq_within = 0;
	}
	return 0;
}

SEC("tp_btf/softirq_exit")
int BPF_PROG(os_softirq_exit, unsigned int vector)
{
	struct os_cpu *c = this_cpu();
	struct os_thread *t;
	__u64 ns;

	if (!c || !c->softirq_since || vector >= OS_SOFTIRQ_COUNT)
		return 0;
	ns = since(c->softirq_since, bpf_ktime_get_ns());
	ns -= c->irq_within < ns ? c->irq_within : ns;
	c->softirq_since = 0;
	c->softirq_ns[vector] += ns;
	c->softirq_count[vector] += 1;
	t = victim();
	if (t)
		__sync_fetch_and_add(&t->softirq_ns[vector], ns);
	return 0;
}

SEC("tp_btf/irq_handler_entry")
int BPF_PROG(os_irq_entry, int irq, struct irqaction *action)
{
	struct os_cpu *c = this_cpu();

	if (c)
		c->irq_since = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/irq_handler_exit")
int BPF_PROG(os_irq_exit, int irq, struct irqaction *action, int result)
{
	struct os_irq_key key = { .cpu = bpf_get_smp_processor_id(), .irq = (__u32)irq };
	struct os_cpu *c = this_cpu();
	struct os_irq *i, fresh = {};
	struct os_thread *t;
	__u64 ns;

	if (!c || !c->irq_since)
		return 0;
	ns = since(c->irq_since, bpf_ktime_get_ns());
	c->irq_since = 0;
	c->irq_ns += ns;
	c->irq_count += 1;
	if (c->softirq_since)
		c->irq_within += ns;
	i = bpf_map_lookup_elem(&os_irqs, &key);
	if (i) {
		i->ns += ns;
		i->count += 1;
	} else {
		fresh.ns = ns;
		fresh.count = 1;
		bpf_probe_read_kernel_str(fresh.name, sizeof(fresh.name), BPF_CORE_READ(action, name));
		bpf_map_update_elem(&os_irqs, &key, &fresh, BPF_NOEXIST);
	}
	t = victim();
	if (t)
		__sync_fetch_and_add(&t->irq_ns, ns);
	return 0;
}

/* ---- waiting for a CPU ---- */

static __always_inline void runnable(struct task_struct *task)
{
	__u32 pid = process_of(task);
	struct os_thread *t;

	if (!watched(pid))
		return;
	t = thread_of(task, pid);
	/* one that is woken before it has gone to sleep waits for nothing */
	if (t && !t->runnable_since && !t->on_cpu)
		t->runnable_since = bpf_ktime_get_ns();
}

/* A thread that slept in wait for storage goes on. */
static __always_inline void io_waited(struct task_struct *task)
{
	__u32 tid = thread_number(task);
	struct os_thread *t = bpf_map_lookup_elem(&os_threads, &tid);
	struct os_process *p;
	__u64 ns;

	if (!t || !t->io_since)
		return;
	ns = since(t->io_since, bpf_ktime_get_ns());
	t->io_since = 0;
	t->io_wait_ns += ns;
	p = watched(t->pid);
	if (p) {
		__sync_fetch_and_add(&p->io_wait_ns, ns);
		__sync_fetch_and_add(&p->io_wait_count, 1);
	}
}

static __always_inline __u64 task_state(struct task_struct *task)
{
	struct task_struct___before_5_14 *old = (void *)task;

	if (bpf_core_field_exists(task->__state))
		return task->__state;
	return (__u64)old->state;
}

/* Leaves the CPU. */
static __always_inline void off_cpu(struct task_struct *prev, bool preempt)
{
	struct task_struct___io_wait *io = (void *)prev;
	__u32 pid = process_of(prev), tid;
	struct os_thread *t;

	if (!watched(pid))
		return;
	tid = thread_number(prev);
	t = bpf_map_lookup_elem(&os_threads, &tid);
	if (!t)
		return;
	t->on_cpu = 0;
	t->runnable_since = 0;
	if (preempt || !task_state(prev))
		t->runnable_since = bpf_ktime_get_ns(); /* it would have gone on */
	else if (BPF_CORE_READ_BITFIELD(io, in_iowait))
		t->io_since = bpf_ktime_get_ns();
}

SEC("tp_btf/sched_wakeup")
int BPF_PROG(os_wakeup, struct task_struct *task)
{
	io_waited(task);
	runnable(task);
	return 0;
}

SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(os_wakeup_new, struct task_struct *task)
{
	runnable(task);
	return 0;
}

/* Who ran on this CPU of late, a slice each; the same process again lengthens its slice. */
#define SLICES 32u
struct slice {
	__u64 from_ns, to_ns;
	__u32 process, pad; /* 0: idle */
	char comm[16];
};
struct slices {
	__u64 from_ns; /* of the one that runs */
	__u32 next, pad;
	struct slice slice[SLICES];
};
HASH(os_slices, BPF_MAP_TYPE_PERCPU_ARRAY, 1, __u32, struct slices);

static __always_inline struct slices *slice_end(struct task_struct *prev, __u64 now)
{
	__u32 zero = 0, process = 0, at;
	struct slices *l = bpf_map_lookup_elem(&os_slices, &zero);
	struct slice *s;

	if (!l)
		return NULL;
	if (prev->pid) {
		process = process_of(prev);
		if (!process) /* outside our namespace */
			process = (__u32)prev->tgid;
	}
	at = l->next - 1;
	s = &l->slice[at & (SLICES - 1)];
	if (s->process != process || s->to_ns != l->from_ns) {
		at = l->next++;
		s = &l->slice[at & (SLICES - 1)];
		s->from_ns = l->from_ns;
		s->process = process;
		bpf_probe_read_kernel(s->comm, sizeof(s->comm),
				      (char *)prev + bpf_core_field_offset(struct task_struct, comm));
	}
	s->to_ns = l->from_ns = now;
	return l;
}

static __always_inline void blame(__u32 pid, const struct slice *s, __u64 ns)
{
	struct os_behind_key key = { .pid = pid, .other = s->process };
	struct os_behind *b, fresh = {};

	b = bpf_map_lookup_elem(&os_others, &key);
	if (b) {
		__sync_fetch_and_add(&b->ns, ns);
		__sync_fetch_and_add(&b->count, 1);
		__builtin_memcpy(b->comm, s->comm, sizeof(b->comm)); /* it may have changed */
		return;
	}
	fresh.ns = ns;
	fresh.count = 1;
	__builtin_memcpy(fresh.comm, s->comm, sizeof(fresh.comm));
	if (bpf_map_update_elem(&os_others, &key, &fresh, BPF_NOEXIST))
		lost(OS_LOST_OTHERS);
}

/* Those that ran on this CPU since then; a wait on another CPU's queue is laid at this one's door. */
static __always_inline void blame_all(__u32 pid, const struct slices *l, __u64 begin)
{
	for (__u32 i = 1; i <= SLICES; i++) {
		const struct slice *s = &l->slice[(l->next - i) & (SLICES - 1)];
		__u64 from = s->from_ns > begin ? s->from_ns : begin;

		if (s->to_ns <= begin)
			break;
		if (s->process)
			blame(pid, s, since(from, s->to_ns));
	}
}

SEC("tp_btf/sched_switch")
int BPF_PROG(os_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	__u32 pid = process_of(next), cpu = bpf_get_smp_processor_id();
	__u64 now = bpf_ktime_get_ns();
	struct slices *l = slice_end(prev, now);
	struct os_process *p;
	struct os_thread *t;
	__u64 ns, from;

	off_cpu(prev, preempt);
	p = watched(pid);
	t = p ? thread_of(next, pid) : NULL;
	if (!t)
		return 0;
	t->cpu = cpu;
	t->on_cpu = 1;
	t->switches += 1;
	if (!t->runnable_since)
		return 0;
	from = t->runnable_since;
	ns = since(from, now);
	t->runnable_since = 0;
	t->run_wait_ns += ns;
	t->run_wait_count += 1;
	__sync_fetch_and_add(&p->run_wait_ns, ns);
	__sync_fetch_and_add(&p->run_wait_count, 1);
	__sync_fetch_and_add(&p->run_wait_hist[bucket(ns)], 1);
	if (ns > p->run_wait_max_ns)
		p->run_wait_max_ns = ns;
	if (l && ns >= OS_WAIT_MIN_NS)
		blame_all(pid, l, from);
	return 0;
}

/* A child of a watched process is watched: data loaders. A number that is used again is not. */
SEC("tp_btf/sched_process_fork")
int BPF_PROG(os_fork, struct task_struct *parent, struct task_struct *child)
{
	__u32 pid = process_of(child);
	struct os_process *p, fresh = {};

	if (!pid || child->pid != child->tgid)
		return 0; /* a thread, or none of our namespace */
	p = watched(process_of(parent));
	if (p) {
		fresh.root = p->root;
		if (bpf_map_update_elem(&os_processes, &pid, &fresh, BPF_ANY))
			lost(OS_LOST_PROCESSES);
	} else if (watched(pid)) {
		bpf_map_delete_elem(&os_processes, &pid);
	}
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(os_exit, struct task_struct *task)
{
	__u32 tid = thread_number(task);

	if (watched(process_of(task)))
		bpf_map_delete_elem(&os_threads, &tid);
	return 0;
}

static __always_inline __u8 node_of(__u32 cpu)
{
	asm volatile("" : "+r"(cpu));
	return os_node_of_cpu[cpu & (OS_CPU_MAX - 1)];
}

SEC("tp_btf/sched_migrate_task")
int BPF_PROG(os_migrate, struct task_struct *task, int destination)
{
	__u32 pid = process_of(task), to = (__u32)destination, from;
	struct os_process *p = watched(pid);
	struct os_thread *t = p ? thread_of(task, pid) : NULL;

	if (!t)
		return 0;
	from = t->cpu;
	__sync_fetch_and_add(&t->migrations, 1);
	__sync_fetch_and_add(&p->migrations, 1);
	/* masked rather than compared: the verifier loses a bound that the compiler has merged */
	if (node_of(from) != node_of(to))
		__sync_fetch_and_add(&p->node_migrations, 1);
	return 0;
}

/* ---- memory ---- */

static __always_inline struct os_process *current_watched(void)
{
	return watched(process_of(bpf_get_current_task_btf()));
}

SEC("tp_btf/sched_move_numa")
int BPF_PROG(os_move_numa, struct task_struct *task, int from, int to)
{
	struct os_process *p = watched(process_of(task));

	if (p)
		__sync_fetch_and_add(&p->numa_moves, 1);
	return 0;
}

SEC("tp_btf/mm_migrate_pages")
int BPF_PROG(os_migrate_pages, unsigned long succeeded)
{
	struct os_process *p = current_watched();

	if (p)
		__sync_fetch_and_add(&p->pages_migrated, succeeded);
	return 0;
}

SEC("tp_btf/page_fault_user")
int BPF_PROG(os_fault, unsigned long address)
{
	struct os_process *p = current_watched();

	if (p)
		__sync_fetch_and_add(&p->faults, 1);
	return 0;
}

/* ---- storage ---- */

SEC("tp_btf/block_rq_issue")
int BPF_PROG(os_block_issue, struct request *request)
{
	struct request_begin b = { .at_ns = bpf_ktime_get_ns() };
	__u64 key = (__u64)request;
	__u32 pid = process_of(bpf_get_current_task_btf());

	if (watched(pid))
		b.pid = pid;
	if (bpf_map_update_elem(&os_requests, &key, &b, BPF_ANY))
		lost(OS_LOST_BLOCK);
	return 0;
}

static __always_inline struct os_disk *disk_of(struct request *request)
{
	struct request___before_5_15 *old = (void *)request;
	struct os_disk_key key = {};
	struct gendisk *disk;
	struct os_disk *d;

	if (bpf_core_field_exists(old->rq_disk))
		disk = BPF_CORE_READ(old, rq_disk);
	else
		disk = BPF_CORE_READ(request, q, disk);
	key.device = (__u32)BPF_CORE_READ(disk, major) << 20 | (__u32)BPF_CORE_READ(disk, first_minor);
	key.write = BPF_CORE_READ(request, cmd_flags) & 1;
	d = bpf_map_lookup_elem(&os_disks, &key);
	if (!d) {
		struct os_disk fresh = {};

		bpf_map_update_elem(&os_disks, &key, &fresh, BPF_NOEXIST);
		d = bpf_map_lookup_elem(&os_disks, &key);
	}
	return d;
}

SEC("tp_btf/block_rq_complete")
int BPF_PROG(os_block_complete, struct request *request, int error, unsigned int bytes)
{
	__u64 key = (__u64)request, ns;
	struct request_begin *b = bpf_map_lookup_elem(&os_requests, &key);
	struct os_process *p;
	struct os_disk *d;

	if (!b)
		return 0;
	ns = since(b->at_ns, bpf_ktime_get_ns());
	d = disk_of(request);
	if (d) {
		__sync_fetch_and_add(&d->ns, ns);
		__sync_fetch_and_add(&d->count, 1);
		__sync_fetch_and_add(&d->bytes, bytes);
		__sync_fetch_and_add(&d->hist[bucket(ns)], 1);
		if (ns > d->max_ns)
			d->max_ns = ns;
	}
	p = watched(b->pid);
	if (p) {
		__sync_fetch_and_add(&p->block_ns, ns);
		__sync_fetch_and_add(&p->block_count, 1);
		__sync_fetch_and_add(&p->block_bytes, bytes);
	}
	bpf_map_delete_elem(&os_requests, &key);
	return 0;
}

/* ---- network ---- */

SEC("tp_btf/tcp_retransmit_skb")
int BPF_PROG(os_retransmit, struct sock *sk)
{
	struct os_connection c = {};
	__u64 *n, one = 1;

	c.family = BPF_CORE_READ(sk, __sk_common.skc_family);
	c.source_port = BPF_CORE_READ(sk, __sk_common.skc_num);
	c.destination_port = __builtin_bswap16(BPF_CORE_READ(sk, __sk_common.skc_dport));
	if (c.family == FAMILY_INET6) {
		BPF_CORE_READ_INTO((struct in6_kernel *)c.source, sk, __sk_common.skc_v6_rcv_saddr);
		BPF_CORE_READ_INTO((struct in6_kernel *)c.destination, sk, __sk_common.skc_v6_daddr);
	} else {
		__u32 source = BPF_CORE_READ(sk, __sk_common.skc_rcv_saddr);
		__u32 destination = BPF_CORE_READ(sk, __sk_common.skc_daddr);

		__builtin_memcpy(c.source, &source, 4);
		__builtin_memcpy(c.destination, &destination, 4);
	}
	n = bpf_map_lookup_elem(&os_retransmits, &c);
	if (n)
		__sync_fetch_and_add(n, 1);
	else
		bpf_map_update_elem(&os_retransmits, &c, &one, BPF_NOEXIST);
	return 0;
}

/* ---- locks ---- */

SEC("tp_btf/contention_begin")
int BPF_PROG(os_contention_begin, void *lock, unsigned int flags)
{
	__u32 tid = (__u32)bpf_get_current_pid_tgid();
	struct contention *c, fresh = { .lock = (__u64)lock, .flags = flags };

	if (!tid)
		return 0;
	c = bpf_map_lookup_elem(&os_contentions, &tid);
	if (c) { /* its own: nobody else writes */
		c->lock = (__u64)lock;
		c->flags = flags;
		c->at_ns = bpf_ktime_get_ns();
		return 0;
	}
	fresh.at_ns = bpf_ktime_get_ns();
	bpf_map_update_elem(&os_contentions, &tid, &fresh, BPF_ANY);
	return 0;
}

SEC("tp_btf/contention_end")
int BPF_PROG(os_contention_end, void *lock, int result)
{
	__u32 tid = (__u32)bpf_get_current_pid_tgid();
	struct contention *c = bpf_map_lookup_elem(&os_contentions, &tid);
	struct os_lock_key key = { .stack = -1 };
	struct os_lock *l, fresh = {};
	struct os_process *p;
	__u64 ns, times = 1;

	if (!c || c->lock != (__u64)lock || !c->at_ns)
		return 0;
	ns = since(c->at_ns, bpf_ktime_get_ns());
	key.pid = process_of(bpf_get_current_task_btf());
	p = watched(key.pid);
	if (p) {
		__sync_fetch_and_add(&p->lock_ns, ns);
		__sync_fetch_and_add(&p->lock_count, 1);
	}
	/* A stack costs microseconds: of a watched process's, and of short waits one in some. */
	if (p && ns < OS_LOCK_LONG_NS) {
		if (bpf_get_prandom_u32() % OS_LOCK_SAMPLE)
			goto end;
		times = OS_LOCK_SAMPLE;
	}
	if (p)
		key.stack = (__s32)bpf_get_stackid(ctx, &os_lock_stacks, BPF_F_FAST_STACK_CMP);
	l = bpf_map_lookup_elem(&os_locks, &key);
	if (l) {
		__sync_fetch_and_add(&l->ns, ns * times);
		__sync_fetch_and_add(&l->count, times);
		if (ns > l->max_ns)
			l->max_ns = ns;
		l->flags = c->flags;
		l->lock = c->lock;
	} else {
		fresh.max_ns = ns;
		fresh.ns = ns * times;
		fresh.count = times;
		fresh.flags = c->flags;
		fresh.lock = c->lock;
		bpf_get_current_comm(fresh.comm, sizeof(fresh.comm));
		if (bpf_map_update_elem(&os_locks, &key, &fresh, BPF_NOEXIST))
			lost(OS_LOST_LOCKS);
	}
end:
	c->at_ns = 0;
	return 0;
}
