/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 * os_signals.bpf.c - counts what the operating system does to the threads of watched processes: interrupts
 * on their CPU, waits for a CPU and who had it, moves between CPUs and NUMA nodes, page faults, block
 * requests, TCP retransmits, contended kernel locks.
 *
 * Most events of a node concern threads that are not watched, so they must cost next to nothing. If the
 * kernel has task storage for tracing (5.12), a watched thread's row is attached to its task, and one load
 * shows whether there is one. The scheduler's own counts (waits, faults, migrations) are then not counted
 * again: os_tell reads them from the task once a second. Times come from the run queue's clock, which the
 * scheduler has just set. On older kernels (os_by_storage is false) rows are in a hash, and a table of
 * marks shows quickly who is not watched. All tracepoints are typed (5.5); user space leaves out programs
 * that the kernel cannot load. */
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
struct timer_list {
	unsigned long expires;
};
struct inet_connection_sock {
	struct timer_list icsk_retransmit_timer;
	__u32 icsk_rto; /* in jiffies */
	__u8 icsk_ca_state : 5;
	__u8 icsk_pending; /* the timer's purpose */
};
struct tcp_sock {
	__u32 srtt_us; /* times 8 */
	__u32 packets_out;
	__u32 total_retrans, dsack_dups;
};
/* The timer's place in later kernels. */
struct sock___timer {
	struct timer_list tcp_retransmit_timer;
};
struct net {
	struct ns_common ns;
};
struct net_device {
	int ifindex;
	char name[16];
	struct {
		struct net *net;
	} nd_net;
};
struct sk_buff {
	struct net_device *dev;
};
struct sched_info {
	unsigned long pcount; /* how often it got a CPU */
	unsigned long long run_delay;
	unsigned long long last_arrival, last_queued; /* on the run queue's clock; 0: not queued */
};
struct rq {
	__u64 clock;
};
struct cfs_rq {
	struct rq *rq;
};
struct sched_entity {
	__u64 nr_migrations;
	struct cfs_rq *cfs_rq; /* of the task's CPU, in every scheduling class */
};
struct thread_info {
	__u32 cpu;
};
struct bpf_local_storage;
/* The task in kernels with task storage. */
struct task_struct___stored {
	unsigned int in_iowait : 1;
	int on_cpu;
	struct thread_info thread_info;
	struct sched_entity se;
	struct sched_info sched_info;
	unsigned long nvcsw, nivcsw, min_flt, maj_flt;
	struct bpf_local_storage *bpf_storage;
};
struct task_struct___before_5_16 {
	unsigned int cpu;
};
struct seq_file;
struct bpf_iter_meta {
	struct seq_file *seq;
};
struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};
#pragma clang attribute pop

/* enum tcp_ca_state and ICSK_TIME_LOSS_PROBE */
#define TCP_RECOVERY   3
#define TCP_LOSS_PROBE 5

#define FAMILY_INET6 10

/* Set before loading. */
const volatile __u8 os_node_of_cpu[OS_CPU_MAX] = {}; /* the NUMA node of each CPU */
const volatile bool os_by_storage = true;
const volatile __u32 os_migrate_arguments = 0; /* number of mm_migrate_pages's arguments */
const volatile __u64 os_jiffy_ns = 4000000;
/* Events that began earlier are not counted: programs may have been detached meanwhile. */
__u64 os_attached_ns = 0;
/* Without task storage: a process may be watched only if its number's mark is set. */
#define MARKS 65536u
__u8 os_marks[MARKS] = {};

#define HASH(name, flavour, entries, k, v)                                                         \
	struct {                                                                                   \
		__uint(type, flavour);                                                             \
		__uint(max_entries, entries);                                                      \
		__type(key, k);                                                                    \
		__type(value, v);                                                                  \
	} name SEC(".maps")

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct os_thread);
} os_tasks SEC(".maps");

HASH(os_cpus, BPF_MAP_TYPE_PERCPU_ARRAY, 1, __u32, struct os_cpu);
HASH(os_irqs, BPF_MAP_TYPE_LRU_HASH, 2048, struct os_irq_key, struct os_irq);
HASH(os_processes, BPF_MAP_TYPE_HASH, OS_PROCESS_MAX, __u32,
     struct os_process); /* watched processes */
HASH(os_threads, BPF_MAP_TYPE_LRU_HASH, OS_THREAD_MAX, __u32,
     struct os_thread); /* without task storage */
HASH(os_others, BPF_MAP_TYPE_LRU_HASH, 4096, struct os_behind_key, struct os_behind);
HASH(os_disks, BPF_MAP_TYPE_HASH, 256, struct os_disk_key, struct os_disk);
HASH(os_retransmits, BPF_MAP_TYPE_LRU_HASH, 1024, struct os_connection, struct os_retransmits);
HASH(os_locks, BPF_MAP_TYPE_LRU_HASH, 4096, struct os_lock_key, struct os_lock);
HASH(os_lock_users, BPF_MAP_TYPE_LRU_HASH, 4096, struct os_lock_user_key, struct os_lock_user);
HASH(os_devices, BPF_MAP_TYPE_LRU_HASH, 1024, struct os_device_key, struct os_device);
HASH(os_counters, BPF_MAP_TYPE_PERCPU_ARRAY, OS_COUNTER_MAX, __u32, __u64);

struct request_begin {
	__u64 at_ns;
	__u32 pid;
	__u32 pad;
};
HASH(os_requests, BPF_MAP_TYPE_HASH, 4096, __u64, struct request_begin);

/* Contentions of threads that are not watched. */
struct contention {
	__u64 lock, at_ns;
};
HASH(os_contentions, BPF_MAP_TYPE_LRU_HASH, 8192, __u32, struct contention);
struct {
	__uint(type, BPF_MAP_TYPE_STACK_TRACE);
	__uint(max_entries, 2048);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, OS_LOCK_STACK_FRAMES * sizeof(__u64));
} os_lock_stacks SEC(".maps");

/* Clocks of two CPUs may differ a little: never below 0. */
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

/* Pointers of typed tracepoints can be read without a helper. */
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

/* ---- rows of threads ---- */

static __always_inline struct task_struct___stored *stored(struct task_struct *task)
{
	return (void *)task;
}

static __always_inline void name_of(struct task_struct *task, char *out)
{
	bpf_probe_read_kernel(out, 16,
			      (char *)task + bpf_core_field_offset(struct task_struct, comm));
}

static __always_inline bool may_be_watched(struct task_struct *task)
{
	return os_marks[(__u32)task->tgid & (MARKS - 1)] != 0;
}

/* The thread's row, if it has one. */
static __always_inline struct os_thread *thread_find(struct task_struct *task)
{
	__u32 tid;

	if (os_by_storage)
		return stored(task)->bpf_storage ? bpf_task_storage_get(&os_tasks, task, NULL, 0)
						 : NULL;
	if (!may_be_watched(task))
		return NULL;
	tid = thread_number(task);
	return bpf_map_lookup_elem(&os_threads, &tid);
}

static __always_inline void io_add(struct os_thread *t, struct os_process *p, __u64 ns)
{
	t->io_wait_ns += ns;
	if (p)
		__sync_fetch_and_add(&p->io_wait_ns, ns);
}

/* When the thread was woken, if one return to a CPU since it slept for storage was missed. */
static __always_inline __u64 woken_ns(const struct sched_info *info, const struct os_thread *t)
{
	return info->last_arrival - (info->run_delay - t->io_delay_ns);
}

/* Adds the kernel's counts since the last call to the process. */
static __always_inline void thread_collect(struct task_struct *task, struct os_thread *t)
{
	struct task_struct___stored *k = stored(task);
	__u64 wait_ns = k->sched_info.run_delay, faults = k->min_flt + k->maj_flt;
	__u64 migrations = k->se.nr_migrations, before;
	struct os_process *p = watched(t->pid);

	if (!p)
		return;
	/* atomic, since the thread may end on another CPU meanwhile */
	before = __sync_lock_test_and_set(&t->counted_wait_ns, wait_ns);
	if (wait_ns > before) {
		__sync_fetch_and_add(&p->run_wait_ns, wait_ns - before);
		t->run_wait_ns += wait_ns - before;
	}
	before = __sync_lock_test_and_set(&t->counted_faults, faults);
	if (faults > before)
		__sync_fetch_and_add(&p->faults, faults - before);
	before = __sync_lock_test_and_set(&t->counted_migrations, migrations);
	if (migrations > before)
		__sync_fetch_and_add(&p->migrations, migrations - before);
	before = t->io_since; /* see io_ended */
	if (before && k->sched_info.pcount - t->io_times == 1 &&
	    __sync_val_compare_and_swap(&t->io_since, before, 0) == before)
		io_add(t, p, since(before, woken_ns(&k->sched_info, t)));
}

static __always_inline struct os_thread *thread_store(struct task_struct *task, __u32 pid)
{
	struct task_struct___stored *k = stored(task);
	struct os_thread *t =
	    bpf_task_storage_get(&os_tasks, task, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!t) {
		lost(OS_LOST_THREADS);
		return NULL;
	}
	if (t->pid == pid)
		return t;
	/* new, or its process belonged to another rank before */
	t->tid = thread_number(task);
	t->counted_wait_ns = k->sched_info.run_delay;
	t->counted_faults = k->min_flt + k->maj_flt;
	t->counted_migrations = k->se.nr_migrations;
	t->pid = pid;
	name_of(task, t->comm);
	return t;
}

/* Without task storage, a thread's first event makes its row. */
static __always_inline struct os_thread *thread_hash(struct task_struct *task, __u32 pid)
{
	__u32 tid = thread_number(task);
	struct os_thread *t = bpf_map_lookup_elem(&os_threads, &tid), fresh = {};

	if (t)
		return t;
	fresh.tid = tid;
	fresh.pid = pid;
	name_of(task, fresh.comm);
	bpf_map_update_elem(&os_threads, &tid, &fresh, BPF_NOEXIST);
	t = bpf_map_lookup_elem(&os_threads, &tid);
	if (!t)
		lost(OS_LOST_THREADS);
	return t;
}

/* The thread's row, if its process is watched. */
static __always_inline struct os_thread *thread_of(struct task_struct *task)
{
	__u32 pid;

	if (os_by_storage)
		return thread_find(task);
	if (!may_be_watched(task))
		return NULL;
	pid = process_of(task);
	return watched(pid) ? thread_hash(task, pid) : NULL;
}

static __always_inline __u32 cpu_of(struct task_struct *task)
{
	struct task_struct___before_5_16 *old = (void *)task;

	if (bpf_core_field_exists(stored(task)->thread_info.cpu))
		return stored(task)->thread_info.cpu;
	return old->cpu;
}

/* Makes the rows of watched processes' threads and collects their counts: once a second, and when a process
 * is added. */
SEC("iter/task")
int os_tell(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct task_struct___stored *k;
	struct os_thread *t;
	__u32 pid;

	if (!task)
		return 0;
	pid = process_of(task);
	if (!watched(pid))
		return 0;
	t = thread_store(task, pid);
	if (!t)
		return 0;
	thread_collect(task, t);
	k = stored(task);
	t->cpu = cpu_of(task);
	t->on_cpu = k->on_cpu != 0;
	t->switches = k->nvcsw + k->nivcsw;
	name_of(task, t->comm);
	bpf_seq_write(ctx->meta->seq, t, sizeof(*t));
	return 0;
}

/* ---- interrupts ---- */

static __always_inline struct os_cpu *this_cpu(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&os_cpus, &zero);
}

/* The interrupted thread's row, if it is watched. */
static __always_inline struct os_thread *victim(void)
{
	struct task_struct *task = bpf_get_current_task_btf();

	return task->pid ? thread_of(task) : NULL; /* pid 0: idle */
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

	if (!c || c->softirq_since < os_attached_ns || vector >= OS_SOFTIRQ_COUNT)
		return 0;
	ns = since(c->softirq_since, bpf_ktime_get_ns());
	ns -= c->irq_within < ns ? c->irq_within : ns;
	c->softirq_since = 0;
	c->softirq_ns[vector] += ns;
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
	struct os_irq_key key = {.cpu = bpf_get_smp_processor_id(), .irq = (__u32)irq};
	struct os_cpu *c = this_cpu();
	struct os_irq *i, fresh = {};
	struct os_thread *t;
	__u64 ns;

	if (!c || c->irq_since < os_attached_ns)
		return 0;
	ns = since(c->irq_since, bpf_ktime_get_ns());
	c->irq_since = 0;
	c->irq_ns += ns;
	if (c->softirq_since)
		c->irq_within += ns;
	i = bpf_map_lookup_elem(&os_irqs, &key);
	if (i) {
		i->ns += ns;
		i->count += 1;
	} else {
		fresh.ns = ns;
		fresh.count = 1;
		bpf_probe_read_kernel_str(fresh.name, sizeof(fresh.name),
					  BPF_CORE_READ(action, name));
		bpf_map_update_elem(&os_irqs, &key, &fresh, BPF_NOEXIST);
	}
	t = victim();
	if (t)
		__sync_fetch_and_add(&t->irq_ns, ns);
	return 0;
}

/* Counts packets by device. Runs after receive packet steering, so on the CPU that does the work. */
SEC("tp_btf/netif_receive_skb")
int BPF_PROG(os_receive, struct sk_buff *packet)
{
	struct os_device_key key = {};
	struct os_cpu *c = this_cpu();
	struct os_device *d, fresh = {.packets = OS_PACKET_SAMPLE};
	struct net_device *device;

	if (!c || ++c->packets % OS_PACKET_SAMPLE)
		return 0;
	device = packet->dev;
	key.cpu = bpf_get_smp_processor_id();
	key.index = device->ifindex;
	key.netns = BPF_CORE_READ(device, nd_net.net, ns.inum);
	d = bpf_map_lookup_elem(&os_devices, &key);
	if (d) {
		d->packets += OS_PACKET_SAMPLE; /* a per-CPU counter */
		return 0;
	}
	bpf_probe_read_kernel_str(fresh.name, sizeof(fresh.name),
				  (char *)device + bpf_core_field_offset(struct net_device, name));
	bpf_map_update_elem(&os_devices, &key, &fresh, BPF_NOEXIST);
	return 0;
}

/* ---- waiting for a CPU ---- */

static __always_inline __u64 task_state(struct task_struct *task)
{
	struct task_struct___before_5_14 *old = (void *)task;

	if (bpf_core_field_exists(task->__state))
		return task->__state;
	return (__u64)old->state;
}

static __always_inline bool in_io_wait(struct task_struct *task)
{
	struct task_struct___stored *k = stored(task);

	return BPF_CORE_READ_BITFIELD(k, in_iowait) != 0;
}

static __always_inline void io_waited(struct os_thread *t, __u64 until_ns)
{
	__u64 ns = since(t->io_since, until_ns);

	t->io_since = 0;
	io_add(t, watched(t->pid), ns);
}

/* With task storage. One missed switch can be reconstructed; after more, the length of the sleep is not
 * known. */
static __always_inline void io_ended(struct task_struct *task, struct os_thread *t,
				     __u64 arrives_ns)
{
	struct sched_info *info = &stored(task)->sched_info;
	__u64 times = info->pcount - t->io_times;

	io_waited(t, !times ? arrives_ns : times == 1 ? woken_ns(info, t) : 0);
}

/* The processes that ran recently on this CPU. A slice begins where the previous one ends. If the same
 * process runs again, its slice grows. */
#define SLICES	32u
#define NUMBERS 16u
struct slice {
	__u64 to_ns;
	__u32 process, pad; /* 0: idle */
};
struct slices {
	__u32 last, pad;
	struct slice slice[SLICES];
	/* cache of process numbers, from the first PID namespace to ours */
	__u32 first[NUMBERS], number[NUMBERS];
};
HASH(os_slices, BPF_MAP_TYPE_PERCPU_ARRAY, 1, __u32, struct slices);

static __always_inline __u32 slice_process(struct slices *l, struct task_struct *task)
{
	__u32 first = (__u32)task->tgid, at = first % NUMBERS, number;

	if (!task->pid || !task_number_ns)
		return first; /* 0 for the idle task */
	if (l->first[at] == first)
		return l->number[at];
	number = process_of(task);
	l->first[at] = first;
	l->number[at] = number ? number : first | OS_NOT_OURS;
	return l->number[at];
}

static __always_inline void slice_end(struct slices *l, struct task_struct *prev, __u64 now)
{
	__u32 process = slice_process(l, prev);
	struct slice *s = &l->slice[l->last % SLICES];

	if (s->process != process) {
		s = &l->slice[++l->last % SLICES];
		s->process = process;
	}
	s->to_ns = now;
}

/* named: a task of the process, for its name; NULL: user space looks it up. */
static __always_inline void blame(__u32 pid, __u32 process, __u64 ns, struct task_struct *named)
{
	struct os_behind_key key = {.pid = pid, .other = process};
	struct os_behind *b = bpf_map_lookup_elem(&os_others, &key), fresh = {};

	if (b) {
		__sync_fetch_and_add(&b->ns, ns);
		if (named)
			name_of(named, b->comm); /* the name may have changed */
		return;
	}
	fresh.ns = ns;
	if (named)
		name_of(named, fresh.comm);
	if (bpf_map_update_elem(&os_others, &key, &fresh, BPF_NOEXIST))
		lost(OS_LOST_OTHERS);
}

/* Blames all processes that ran on this CPU since begin. */
static __always_inline void blame_all(__u32 pid, const struct slices *l, __u64 begin,
				      struct task_struct *prev)
{
	for (__u32 i = 0; i < SLICES - 1; i++) {
		const struct slice *s = &l->slice[(l->last - i) % SLICES];
		__u64 from = l->slice[(l->last - i - 1) % SLICES].to_ns;

		if (s->to_ns <= begin)
			break;
		if (s->process)
			blame(pid, s->process, since(from > begin ? from : begin, s->to_ns),
			      i ? NULL : prev);
	}
}

/* A thread gets a CPU after a wait, or after a sleep for storage. */
static __always_inline void arrives(struct task_struct *next, struct task_struct *prev,
				    const struct slices *l, __u64 queued_ns, __u64 now)
{
	struct os_thread *t = thread_find(next);

	if (!t || !watched(t->pid))
		return;
	if (t->io_since)
		io_ended(next, t, queued_ns ? queued_ns : now);
	if (queued_ns && since(queued_ns, now) >= OS_WAIT_MIN_NS)
		blame_all(t->pid, l, queued_ns, prev);
}

/* With task storage. A thread that is not watched, or did not wait for long, costs only two loads here. */
SEC("tp_btf/sched_switch")
int BPF_PROG(os_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	struct slices *l;
	struct os_thread *t;
	__u64 now, queued_ns;
	__u32 zero = 0;

	l = bpf_map_lookup_elem(&os_slices, &zero);
	if (!l)
		return 0;
	now = stored(next)->se.cfs_rq->rq->clock; /* the scheduler has just set it */
	slice_end(l, prev, now);
	if (stored(prev)->bpf_storage && in_io_wait(prev) && !preempt && task_state(prev)) {
		t = thread_find(prev);
		if (t) {
			if (t->io_since)
				io_ended(prev, t, 0);
			t->io_times = stored(prev)->sched_info.pcount;
			t->io_delay_ns = stored(prev)->sched_info.run_delay;
			t->io_since = now;
		}
	}
	if (stored(next)->bpf_storage) {
		queued_ns = stored(next)->sched_info.last_queued;
		if ((queued_ns && since(queued_ns, now) >= OS_WAIT_MIN_NS) || in_io_wait(next))
			arrives(next, prev, l, queued_ns, now);
	}
	return 0;
}

/* ---- the same without task storage ---- */

static __always_inline void runnable(struct task_struct *task)
{
	struct os_thread *t = thread_of(task);

	if (!t)
		return;
	if (t->io_since)
		io_waited(t, t->io_since < os_attached_ns ? 0 : bpf_ktime_get_ns());
	/* a thread that is woken before it sleeps does not wait */
	if (!t->runnable_since_ns && !t->on_cpu)
		t->runnable_since_ns = bpf_ktime_get_ns();
}

SEC("tp_btf/sched_wakeup")
int BPF_PROG(os_wakeup, struct task_struct *task)
{
	runnable(task);
	return 0;
}

SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(os_wakeup_new, struct task_struct *task)
{
	runnable(task);
	return 0;
}

/* came_ns: time of the previous switch on this CPU. */
static __always_inline void leaves_by_hash(struct task_struct *prev, bool preempt, __u64 came_ns,
					   __u64 now)
{
	struct os_thread *t = thread_find(prev);

	if (!t)
		return;
	if (t->io_since) /* its wake-up and its return were not seen */
		io_waited(t, t->io_since < os_attached_ns ? 0 : came_ns);
	t->on_cpu = 0;
	t->runnable_since_ns = 0;
	if (preempt || !task_state(prev))
		t->runnable_since_ns = now; /* it could have continued */
	else if (in_io_wait(prev))
		t->io_since = now;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(os_switch_hash, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	__u64 now = bpf_ktime_get_ns(), came_ns, from, ns;
	struct os_process *p;
	struct os_thread *t;
	struct slices *l;
	__u32 zero = 0;

	l = bpf_map_lookup_elem(&os_slices, &zero);
	if (!l)
		return 0;
	came_ns = l->slice[l->last % SLICES].to_ns;
	slice_end(l, prev, now);
	leaves_by_hash(prev, preempt, came_ns, now);
	t = thread_of(next);
	if (!t)
		return 0;
	t->cpu = bpf_get_smp_processor_id();
	t->on_cpu = 1;
	t->switches += 1;
	from = t->runnable_since_ns;
	t->runnable_since_ns = 0;
	if (!from)
		return 0;
	ns = since(from, now);
	t->run_wait_ns += ns;
	p = watched(t->pid);
	if (p)
		__sync_fetch_and_add(&p->run_wait_ns, ns);
	if (ns >= OS_WAIT_MIN_NS)
		blame_all(t->pid, l, from, prev);
	return 0;
}

SEC("tp_btf/page_fault_user")
int BPF_PROG(os_fault, unsigned long address)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct os_process *p = may_be_watched(task) ? watched(process_of(task)) : NULL;

	if (p)
		__sync_fetch_and_add(&p->faults, 1);
	return 0;
}

/* ---- processes come and go ---- */

static __always_inline void mark(struct task_struct *task)
{
	if (!os_by_storage)
		os_marks[(__u32)task->tgid & (MARKS - 1)] = 1;
}

/* A watched process's child is watched too (data loaders). A reused number is not. */
SEC("tp_btf/sched_process_fork")
int BPF_PROG(os_fork, struct task_struct *parent, struct task_struct *child)
{
	struct os_process *p = watched(process_of(parent)), fresh = {};
	__u32 pid = process_of(child);

	if (!pid)
		return 0; /* not in our namespace */
	if (child->pid == child->tgid) {
		if (!p) {
			if (watched(pid))
				bpf_map_delete_elem(&os_processes, &pid);
			return 0;
		}
		fresh.root = p->root;
		if (bpf_map_update_elem(&os_processes, &pid, &fresh, BPF_ANY)) {
			lost(OS_LOST_PROCESSES);
			return 0;
		}
		mark(child);
	} else if (!p) {
		return 0;
	}
	if (os_by_storage)
		thread_store(child, pid);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(os_exit, struct task_struct *task)
{
	struct os_thread *t = thread_find(task);
	__u32 tid;

	if (!t)
		return 0;
	if (os_by_storage) {
		thread_collect(task, t); /* the row is freed with the task */
	} else {
		tid = t->tid;
		bpf_map_delete_elem(&os_threads, &tid);
	}
	return 0;
}

static __always_inline __u8 node_of(__u32 cpu)
{
	asm volatile("" : "+r"(cpu));
	return os_node_of_cpu[cpu & (OS_CPU_MAX - 1)];
}

/* With task storage, loaded only if there are several nodes. */
SEC("tp_btf/sched_migrate_task")
int BPF_PROG(os_migrate, struct task_struct *task, int destination)
{
	struct os_thread *t = thread_find(task);
	struct os_process *p = t ? watched(t->pid) : NULL;
	__u32 from, to = (__u32)destination;

	if (!p)
		return 0;
	from = os_by_storage ? cpu_of(task) : t->cpu;
	if (!os_by_storage)
		__sync_fetch_and_add(&p->migrations, 1);
	/* a mask, not a comparison: the compiler may merge comparisons, and the verifier loses the bound */
	if (node_of(from) != node_of(to))
		__sync_fetch_and_add(&p->node_migrations, 1);
	return 0;
}

/* ---- memory ---- */

static __always_inline struct os_process *process_watched(struct task_struct *task)
{
	struct os_thread *t = thread_of(task);

	return t ? watched(t->pid) : NULL;
}

SEC("tp_btf/sched_move_numa")
int BPF_PROG(os_move_numa, struct task_struct *task, int from, int to)
{
	struct os_process *p = process_watched(task);

	if (p)
		__sync_fetch_and_add(&p->numa_moves, 1);
	return 0;
}

/* enum migrate_reason, unchanged since 4.x: move_pages and migrate_pages, mbind, NUMA balancing. Other
 * reasons make room (compaction) or take memory out of use. */
#define MOVED_BETWEEN_NODES(reason) ((reason) >= 3 && (reason) <= 5)

/* The reason is the last argument: the fourth, from 5.9 on the seventh, later the eighth. The verifier does
 * not see the branches of other kernels. */
static __always_inline __s32 migrate_reason(__u64 *ctx)
{
	__u64 reason;

	/* separate loads: if the compiler merged them, the address would not be a constant */
	if (os_migrate_arguments == 4)
		asm volatile("%0 = *(u64 *)(%1 + 24)" : "=r"(reason) : "r"(ctx));
	else if (os_migrate_arguments == 7)
		asm volatile("%0 = *(u64 *)(%1 + 48)" : "=r"(reason) : "r"(ctx));
	else
		asm volatile("%0 = *(u64 *)(%1 + 56)" : "=r"(reason) : "r"(ctx));
	return (__s32)reason;
}

SEC("tp_btf/mm_migrate_pages")
int os_migrate_pages(__u64 *ctx)
{
	__s32 reason = migrate_reason(ctx);
	struct os_process *p;

	if (!MOVED_BETWEEN_NODES(reason))
		return 0;
	p = process_watched(bpf_get_current_task_btf());
	if (p)
		__sync_fetch_and_add(&p->pages_migrated, ctx[0]);
	return 0;
}

/* ---- storage ---- */

SEC("tp_btf/block_rq_issue")
int BPF_PROG(os_block_issue, struct request *request)
{
	struct request_begin b = {.at_ns = bpf_ktime_get_ns()};
	__u64 key = (__u64)request;
	struct os_thread *t = thread_of(bpf_get_current_task_btf());

	if (t)
		b.pid = t->pid;
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
	key.device =
	    (__u32)BPF_CORE_READ(disk, major) << 20 | (__u32)BPF_CORE_READ(disk, first_minor);
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
	d = b->at_ns >= os_attached_ns ? disk_of(request) : NULL;
	if (d) {
		__sync_fetch_and_add(&d->ns, ns);
		__sync_fetch_and_add(&d->count, 1);
	}
	p = d ? watched(b->pid) : NULL;
	if (p) {
		__sync_fetch_and_add(&p->block_ns, ns);
		__sync_fetch_and_add(&p->block_count, 1);
	}
	bpf_map_delete_elem(&os_requests, &key);
	return 0;
}

/* ---- network ---- */

/* The reason of a retransmission. */
struct again {
	/* a tail loss probe: whether anything was lost is not known yet */
	bool probe;
	__u64 waited_ns; /* how long the sender waited until it sent again */
};

static __always_inline bool timer_fired(struct sock *sk)
{
	struct inet_connection_sock *k = (void *)sk;
	struct sock___timer *later = (void *)sk;
	__u64 expires;

	if (bpf_core_field_exists(k->icsk_retransmit_timer))
		expires = BPF_CORE_READ(k, icsk_retransmit_timer.expires);
	else if (bpf_core_field_exists(later->tcp_retransmit_timer))
		expires = BPF_CORE_READ(later, tcp_retransmit_timer.expires);
	else
		return true;
	return (__s64)(bpf_jiffies64() - expires) >= 0;
}

/* How long did the sender wait? Before a timeout, for the timeout. If acknowledgements show a loss, for a
 * round trip. Before a probe with several segments in flight, for two round trips. */
static __always_inline void again_read(struct sock *sk, struct again *a)
{
	struct inet_connection_sock *k = (void *)sk;
	struct tcp_sock *tp = (void *)sk;
	__u32 state = BPF_CORE_READ_BITFIELD_PROBED(k, icsk_ca_state);
	__u64 round_ns = BPF_CORE_READ(tp, srtt_us) * 1000ull / 8;
	__u64 timeout_ns = BPF_CORE_READ(k, icsk_rto) * os_jiffy_ns;

	a->probe = state < TCP_RECOVERY && BPF_CORE_READ(k, icsk_pending) == TCP_LOSS_PROBE;
	if (a->probe)
		a->waited_ns = BPF_CORE_READ(tp, packets_out) > 1 ? 2 * round_ns : timeout_ns;
	else
		a->waited_ns = state != TCP_RECOVERY && timer_fired(sk) ? timeout_ns : round_ns;
}

/* Duplicate SACKs report segments that the receiver already had: these were not lost. For the last probe
 * this is known only later. */
static __always_inline void again_count(struct sock *sk, struct os_retransmits *r,
					const struct again *a)
{
	struct tcp_sock *tp = (void *)sk;
	__u64 now = bpf_ktime_get_ns(), since_ns = now - a->waited_ns;
	__u32 sent = BPF_CORE_READ(tp, total_retrans);
	__u32 lost = sent - BPF_CORE_READ(tp, dsack_dups) - a->probe;
	__s32 more;

	if (!r->at_ns || sent < r->sent) /* the first time, or a new socket with these addresses */
		r->counted = lost - !a->probe;
	r->sent = sent;
	more = (__s32)(lost - r->counted);
	if (more > 0) {
		r->counted = lost;
		r->segments += more;
	}
	if (more > !a->probe)
		r->waited_ns += r->probe_ns;
	if (more > 0 && !a->probe)
		r->waited_ns += since_ns > r->at_ns ? a->waited_ns : now - r->at_ns;
	r->probe_ns = !a->probe ? 0 : since_ns > r->at_ns ? a->waited_ns : now - r->at_ns;
	r->at_ns = now;
}

SEC("tp_btf/tcp_retransmit_skb")
int BPF_PROG(os_retransmit, struct sock *sk)
{
	struct os_retransmits *r, fresh = {};
	struct os_connection c = {};
	struct again a = {};

	c.family = BPF_CORE_READ(sk, __sk_common.skc_family);
	c.source_port = BPF_CORE_READ(sk, __sk_common.skc_num);
	c.destination_port = __builtin_bswap16(BPF_CORE_READ(sk, __sk_common.skc_dport));
	if (c.family == FAMILY_INET6) {
		BPF_CORE_READ_INTO((struct in6_kernel *)c.source, sk, __sk_common.skc_v6_rcv_saddr);
		BPF_CORE_READ_INTO((struct in6_kernel *)c.destination, sk,
				   __sk_common.skc_v6_daddr);
	} else {
		__u32 source = BPF_CORE_READ(sk, __sk_common.skc_rcv_saddr);
		__u32 destination = BPF_CORE_READ(sk, __sk_common.skc_daddr);

		__builtin_memcpy(c.source, &source, 4);
		__builtin_memcpy(c.destination, &destination, 4);
	}
	r = bpf_map_lookup_elem(&os_retransmits, &c);
	if (!r) {
		bpf_map_update_elem(&os_retransmits, &c, &fresh, BPF_NOEXIST);
		r = bpf_map_lookup_elem(&os_retransmits, &c);
	}
	if (!r)
		return 0;
	again_read(sk, &a);
	again_count(sk, r, &a); /* the caller holds the socket's lock */
	return 0;
}

/* ---- locks ---- */

static __always_inline bool one_in_some(void)
{
	return !(bpf_get_prandom_u32() % OS_LOCK_SAMPLE);
}

SEC("tp_btf/contention_begin")
int BPF_PROG(os_contention_begin, void *lock, unsigned int flags)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct contention c = {.lock = (__u64)lock};
	struct os_thread *t;
	__u32 tid;

	if (!task->pid)
		return 0;
	t = thread_of(task);
	if (t) { /* only this thread writes its row */
		t->lock = (__u64)lock;
		t->lock_since_ns = bpf_ktime_get_ns();
	} else if (one_in_some()) {
		tid = (__u32)task->pid;
		c.at_ns = bpf_ktime_get_ns();
		bpf_map_update_elem(&os_contentions, &tid, &c, BPF_ANY);
	}
	return 0;
}

static __always_inline void lock_used(__u64 lock, __u32 pid, __u32 tid, __u64 ns)
{
	struct os_lock_user_key key = {.lock = lock, .pid = pid, .tid = tid != pid ? tid : 0};
	struct os_lock_user *u = bpf_map_lookup_elem(&os_lock_users, &key), fresh = {.ns = ns};

	if (u) {
		__sync_fetch_and_add(&u->ns, ns);
		return;
	}
	bpf_get_current_comm(fresh.comm, sizeof(fresh.comm));
	if (bpf_map_update_elem(&os_lock_users, &key, &fresh, BPF_NOEXIST))
		lost(OS_LOST_LOCKS);
}

static __always_inline void lock_placed(void *ctx, __u32 pid, __u64 lock, __u64 ns, __u64 times)
{
	struct os_lock_key key = {.pid = pid};
	/* hashed, since locks are aligned: the low bits of their addresses are equal */
	__u32 at = (__u32)(lock * 0x9e3779b97f4a7c15ull >> 62) & (OS_LOCK_ADDRESSES - 1);
	struct os_lock *l, fresh = {.ns = ns, .count = times};

	key.stack = (__s32)bpf_get_stackid(ctx, &os_lock_stacks, BPF_F_FAST_STACK_CMP);
	l = bpf_map_lookup_elem(&os_locks, &key);
	if (l) {
		__sync_fetch_and_add(&l->ns, ns);
		__sync_fetch_and_add(&l->count, times);
		l->lock[at] = lock;
		return;
	}
	fresh.lock[at] = lock;
	if (bpf_map_update_elem(&os_locks, &key, &fresh, BPF_NOEXIST))
		lost(OS_LOST_LOCKS);
}

static __always_inline void watched_contention_end(void *ctx, struct os_thread *t, __u64 lock,
						   struct task_struct *task)
{
	struct os_process *p;
	__u64 ns, times = 1;

	if (t->lock != lock || t->lock_since_ns < os_attached_ns)
		return;
	t->lock = 0;
	ns = since(t->lock_since_ns, bpf_ktime_get_ns());
	p = watched(t->pid);
	if (!p)
		return;
	__sync_fetch_and_add(&p->lock_ns, ns);
	/* a stack costs microseconds, so only some short waits get one */
	if (ns < OS_LOCK_LONG_NS) {
		if (!one_in_some())
			return;
		times = OS_LOCK_SAMPLE;
	}
	lock_placed(ctx, t->pid, lock, ns * times, times);
	lock_used(lock, t->pid, thread_number(task), ns * times);
}

SEC("tp_btf/contention_end")
int BPF_PROG(os_contention_end, void *lock, int result)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct os_thread *t;
	struct contention *c;
	__u32 tid = (__u32)task->pid, pid;

	if (!tid)
		return 0;
	t = thread_of(task);
	if (t) {
		watched_contention_end(ctx, t, (__u64)lock, task);
		return 0;
	}
	c = bpf_map_lookup_elem(&os_contentions, &tid);
	if (!c || c->lock != (__u64)lock || c->at_ns < os_attached_ns)
		return 0;
	pid = process_of(task);
	if (pid)
		lock_used((__u64)lock, pid, pid,
			  since(c->at_ns, bpf_ktime_get_ns()) * OS_LOCK_SAMPLE);
	c->lock = 0;
	return 0;
}
