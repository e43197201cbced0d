/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 * switch_record.h - writes a record for each time off the CPU of a few threads (off_cpu.bpf.c).
 * The record is sent when the thread comes back. If the thread's rate or the ring does not allow it, the
 * time is added to a sum in the thread's row. The sum is sent before the next record, and user space reads
 * it when it drains. So all time off the CPU is in a record or in a sum with its first and last time.
 * The records have their own ring: stacks don't take its room, and no tick finds it locked by the switch
 * that it interrupted. */
#pragma once

#include "bpf/sampler_format.h"

/* Set before loading if user space does not know numbers of the first PID namespace, or cannot set marks.
 * Then a thread is found by its number in our namespace, when it leaves a CPU. */
const volatile bool switch_by_number = false;
const volatile __u32 switch_ring_bytes = 0;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, SAMPLER_SWITCH_THREADS);
	__type(key, __u32); /* tid in the first PID namespace */
	__type(value, struct sampler_switch_thread);
} switch_threads SEC(".maps");

/* Rows of threads that are not found yet, by tid in the daemon's PID namespace. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, SAMPLER_SWITCH_THREADS);
	__type(key, __u32);
	__type(value, struct sampler_switch_thread);
} switch_wanted SEC(".maps");

#ifdef SAMPLER_TAIL
struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(key_size, 4);
	__uint(value_size, 4);
} switches SEC(".maps");
#else
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 512 << 10);
} switches SEC(".maps");
#endif

#include "bpf/switch_taken.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct sched_info {
	unsigned long long run_delay;	 /* time in run queues, without a CPU */
	unsigned long long last_arrival; /* when it got the CPU, on the run queue's clock */
	unsigned long long last_queued;	 /* since when it is in a queue; 0: it runs or sleeps */
};
struct task_struct___ran {
	unsigned int in_iowait : 1;
	struct sched_entity se;
	struct sched_info sched_info;
};
#pragma clang attribute pop

/* The row of a recorded thread; NULL: not recorded, or the row is of an earlier thread with this number. */
static __always_inline struct sampler_switch_thread *record_thread(struct task_struct *task)
{
	__u32 tid = TASK(task, pid);
	struct sampler_switch_thread *t = bpf_map_lookup_elem(&switch_threads, &tid);

	if (!t || t->first_pid != (__u32)TASK(task, tgid) || t->phase == SAMPLER_SWITCH_IGNORED ||
	    t->phase == SAMPLER_SWITCH_ENDED)
		return NULL;
	return t;
}

static __always_inline bool record_io(struct task_struct *task)
{
	struct task_struct___ran *k = (void *)task;

	return BPF_CORE_READ_BITFIELD_PROBED(k, in_iowait) != 0;
}

/* state: as of the switch, since a waker may already have changed the task's. */
static __always_inline __u8 record_state(struct task_struct *task, __u32 state)
{
	if (!state)
		return SAMPLER_SWITCH_RUNNABLE;
	if (state & (KERNEL_STATE_STOPPED | KERNEL_STATE_FROZEN))
		return SAMPLER_SWITCH_STOPPED;
	if (state & KERNEL_STATE_UNINTERRUPTIBLE)
		return record_io(task) ? SAMPLER_SWITCH_IO : SAMPLER_SWITCH_UNINTERRUPTIBLE;
	return state & KERNEL_STATE_INTERRUPTIBLE ? SAMPLER_SWITCH_INTERRUPTIBLE
						  : SAMPLER_SWITCH_UNKNOWN;
}

static __always_inline __u32 record_number(struct task_struct *task)
{
	__u32 first = TASK(task, pid), number;

	if (!task_number_ns || !first)
		return first;
	number = task_number(task);
	return number ? number : first | SAMPLER_SWITCH_NOT_OURS;
}

/* Stores the stacks of the thread that has just left the CPU. */
static __always_inline void record_stacks(__u32 tid, const struct sampler_key *key,
					  __u64 kernel_hash)
{
	struct sampler_switch_thread *t = bpf_map_lookup_elem(&switch_threads, &tid);

	if (!t || t->pid != key->pid || t->phase != SAMPLER_SWITCH_OFF)
		return;
	t->stacks.user_hash = key->user_hash;
	t->stacks.kernel_hash = kernel_hash;
	t->stacks.python_hash = key->python_hash;
	t->stacks.end = key->end;
	t->stacks.gil = key->gil;
	t->stacks.generation = key->generation;
}

/* The kernel's count of the task's time in run queues, without a CPU (`schedstat` in /proc). Valid when the
 * task leaves or gets a CPU. */
static __always_inline __u64 record_delay(struct task_struct *task)
{
	struct task_struct___ran *k = (void *)task;
	__u64 queued, clock;

	if (!bpf_core_field_exists(k->sched_info.run_delay))
		return 0;
	queued = BPF_CORE_READ(k, sched_info.last_queued);
	clock = queued ? BPF_CORE_READ(k, se.cfs_rq, rq, clock) : 0;
	return BPF_CORE_READ(k, sched_info.run_delay) + (clock > queued ? clock - queued : 0);
}

/* A wake-up may come before the switch that it ends, since two CPUs handle them. Since 6.1 a sleeper is
 * frozen where it sleeps, and a wake-up takes effect only when it is thawed. It is not known from when it
 * would have run, so the whole time counts as stopped. */
static __always_inline void record_waking(struct sampler_switch_thread *t, struct task_struct *task,
					  __u32 waker, __u32 state)
{
	t->waker_tid = waker;
	t->woken_ns = bpf_ktime_get_ns();
	if (t->phase == SAMPLER_SWITCH_BEGUN || state & KERNEL_STATE_FROZEN)
		t->state = record_state(task, state);
}

static __always_inline long record_send(void *ctx, void *record, __u64 bytes)
{
#ifdef SAMPLER_TAIL
	return bpf_perf_event_output(ctx, &switches, BPF_F_CURRENT_CPU, record, bytes);
#else
	return bpf_ringbuf_output(&switches, record, bytes,
				  bpf_ringbuf_query(&switches, BPF_RB_AVAIL_DATA) >
					  switch_ring_bytes / 4
				      ? BPF_RB_FORCE_WAKEUP
				      : BPF_RB_NO_WAKEUP);
#endif
}

/* Adds a time off the CPU to the sums. */
static __always_inline void record_skip(struct sampler_switch_thread *t,
					const struct sampler_switch *r, __u32 cause)
{
	__u64 until = r->state == SAMPLER_SWITCH_RUNNABLE ? r->out_ns
		      : r->woken_ns			  ? r->woken_ns
							  : r->in_ns;

	if (!t->skipping)
		t->skipped.from_ns = r->out_ns;
	t->skipping = 1;
	t->skipped.until_ns = r->in_ns;
	if (r->state < SAMPLER_SWITCH_STATES)
		t->skipped.ns[r->state] += until - r->out_ns;
	t->skipped.ns[r->state == SAMPLER_SWITCH_RUNNABLE ? r->state : SAMPLER_SWITCH_WOKEN] +=
	    r->in_ns - until;
	if (cause < SAMPLER_SWITCH_CAUSES)
		t->skipped.count[cause] += 1;
	for (int i = 0; i < SAMPLER_TAKEN_KINDS; i++)
		t->skipped.taken_ns[i] += r->taken.ns[i];
	t->skipped.faults += r->taken.faults;
}

/* Whether the thread's rate allows a record, and another one for skipped times before it. */
static __always_inline bool record_paid(struct sampler_switch_thread *t, __u64 now)
{
	__u64 credit = t->credit_ns + (now - t->credit_at_ns);
	__u64 cost = t->skipping ? 2 * t->cost_ns : t->cost_ns;

	if (credit > SAMPLER_SWITCH_BURST_NS)
		credit = SAMPLER_SWITCH_BURST_NS;
	t->credit_at_ns = now;
	t->credit_ns = credit < cost ? credit : credit - cost;
	return credit >= cost;
}

static __always_inline void record_write(void *ctx, struct sampler_switch_thread *t,
					 struct sampler_switch *r)
{
	__u64 bytes = SAMPLER_SWITCH_BARE_BYTES;

	if (!record_paid(t, r->in_ns)) {
		record_skip(t, r, SAMPLER_SWITCH_PACED);
		return;
	}
	if (t->skipping && record_send(ctx, &t->skipped, sizeof(t->skipped))) {
		record_skip(t, r, SAMPLER_SWITCH_RING_FULL);
		return;
	}
	t->skipping = 0;
	if (t->stacks.user_hash | t->stacks.kernel_hash | t->stacks.python_hash)
		bytes = SAMPLER_SWITCH_STACK_BYTES;
	if (taken_any(&r->taken))
		bytes = sizeof(*r);
	if (record_send(ctx, r, bytes))
		record_skip(t, r, SAMPLER_SWITCH_RING_FULL);
	else
		t->recorded += 1;
}

/* Sets when `task`, which slept, could have run. A wake-up needs time to reach the sleeper: an interrupt to
 * its CPU, which may have to leave an idle state. This is not a wait for a CPU. So the time comes from the
 * kernel's count of waits, and from the waker's call only if the kernel has none. */
static __always_inline void record_woken(struct sampler_switch *r,
					 const struct sampler_switch_thread *t,
					 struct task_struct *task, __u64 before)
{
	struct task_struct___ran *k = (void *)task;
	__u64 delay;

	if (t->woken_ns > before && t->woken_ns <= r->in_ns) {
		r->woken_ns = t->woken_ns > r->out_ns ? t->woken_ns : r->out_ns;
		r->waker_tid = t->waker_tid;
	}
	if (t->phase == SAMPLER_SWITCH_BEGUN || !bpf_core_field_exists(k->sched_info.run_delay))
		return;
	delay = record_delay(task) - t->delay_ns;
	r->woken_ns = delay < r->in_ns - r->out_ns ? r->in_ns - delay : r->out_ns;
}

/* `task` was off the CPU until in_ns, and throttled for throttled_ns of that time. */
static __always_inline void record_back(void *ctx, struct sampler_switch_thread *t,
					struct task_struct *task, __u64 in_ns, __u64 throttled_ns)
{
	struct sampler_switch r = {};
	__u64 before = t->in_ns, wanted;

	r.out_ns = t->phase == SAMPLER_SWITCH_BEGUN ? t->since_ns : t->out_ns;
	r.in_ns = t->in_ns = in_ns;
	r.state = t->state;
	if (r.out_ns <= in_ns && r.state != SAMPLER_SWITCH_RUNNABLE)
		record_woken(&r, t, task, before);
	t->phase = SAMPLER_SWITCH_ON;
	if (r.out_ns > in_ns)
		return; /* the row is new */
	r.tid = t->tid;
	r.kind = SAMPLER_SWITCH_RECORD;
	r.cpu = t->cpu;
	r.next_tid = t->next_tid;
	r.stacks = t->stacks;
	wanted = r.in_ns - (r.woken_ns ? r.woken_ns : r.out_ns);
	taken_add(t, SAMPLER_TAKEN_THROTTLED, throttled_ns < wanted ? throttled_ns : wanted);
	r.taken = t->taken;
	__builtin_memset(&t->taken, 0, sizeof(t->taken));
	record_write(ctx, t, &r);
}

static __always_inline void record_in(void *ctx, struct task_struct *next)
{
	struct sampler_switch_thread *t = record_thread(next);
	__u64 throttled_ns;

	if (!t)
		return;
	throttled_ns = taken_come(t, next);
	if (t->phase == SAMPLER_SWITCH_ON)
		t->skipped.count[SAMPLER_SWITCH_MISSED] += 1;
	else
		record_back(ctx, t, next, bpf_ktime_get_ns(), throttled_ns);
}

/* Under load Linux 6.18 calls no probe at about one switch in 100,000 (ftrace misses it too). The scheduler
 * knows when `prev` got the CPU. */
static __always_inline void record_missed_in(void *ctx, struct sampler_switch_thread *t,
					     struct task_struct *prev, __u64 now)
{
	struct task_struct___ran *k = (void *)prev;
	__u64 came, clock;

	if (bpf_core_field_exists(k->sched_info.last_arrival)) {
		came = BPF_CORE_READ(k, sched_info.last_arrival);
		clock = BPF_CORE_READ(k, se.cfs_rq, rq, clock);
		if (came && clock >= came && now - (clock - came) > t->out_ns) {
			record_back(ctx, t, prev, now - (clock - came), 0);
			return;
		}
	}
	t->skipped.count[SAMPLER_SWITCH_MISSED] += 1;
}

static __always_inline void record_out(void *ctx, struct task_struct *prev,
				       struct task_struct *next, __u32 state)
{
	struct sampler_switch_thread *t = record_thread(prev);
	__u64 now;

	if (!t)
		return;
	now = bpf_ktime_get_ns();
	if (t->phase == SAMPLER_SWITCH_OFF)
		record_missed_in(ctx, t, prev, now);
	if (state & KERNEL_STATE_DEAD) {
		t->out_ns = now;
		t->phase = SAMPLER_SWITCH_ENDED;
		return;
	}
	t->next_tid = record_number(next);
	t->cpu = bpf_get_smp_processor_id();
	t->state = record_state(prev, state);
	__builtin_memset(&t->stacks, 0, sizeof(t->stacks));
	taken_leave(t, prev);
	t->delay_ns = record_delay(prev);
	t->out_ns = now;
	UNWIND_BARRIER(t);
	t->phase = SAMPLER_SWITCH_OFF;
}

/* Starts recording `prev`, the current thread, if it is in switch_wanted. */
static __always_inline void record_wanted(struct task_struct *prev)
{
	__u64 identity = current_identity(prev);
	__u32 number = (__u32)identity, tid = TASK(prev, pid), pid = TASK(prev, tgid);
	struct sampler_switch_thread *t = bpf_map_lookup_elem(&switch_wanted, &number);

	if (!t || t->pid != identity >> 32 ||
	    bpf_map_update_elem(&switch_threads, &tid, t, BPF_ANY))
		return;
	bpf_map_delete_elem(&switch_wanted, &number);
	t = bpf_map_lookup_elem(&switch_threads, &tid);
	if (!t)
		return;
	t->first_pid = pid;
	t->since_ns = t->credit_at_ns = bpf_ktime_get_ns();
	t->faults = taken_faults(prev);
	t->faults_known = 1;
	off_cpu_processes[pid % SAMPLER_MARKS] |= SAMPLER_MARK_RECORDED;
	off_cpu_threads[tid % SAMPLER_MARKS].recorded = 1;
	t->phase = SAMPLER_SWITCH_ON;
}
