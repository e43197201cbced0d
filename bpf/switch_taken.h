/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 * switch_taken.h - measures the time that is taken from a recorded thread while it has or wants a CPU
 * (off_cpu.bpf.c): by interrupts and soft interrupts on its CPU, by the hypervisor, by its cgroup's CPU
 * limit. It counts page faults too.
 * Interrupts run in the interrupted thread's context, so one load shows whether it is recorded. The
 * scheduler counts steal and throttling per CPU. Between two switches a thread can't move, so the
 * differences are its own. A count that the kernel lacks stays 0. */
#pragma once

/* The kind of each vector: HI, TIMER, NET_TX, NET_RX, BLOCK, IRQ_POLL, TASKLET, SCHED, HRTIMER, RCU. */
#define TAKEN_VECTORS 10u
/* volatile: else the compiler removes the check that the verifier needs */
const volatile __u8 taken_of_vector[TAKEN_VECTORS] = {
    SAMPLER_TAKEN_TASKLET, SAMPLER_TAKEN_TIMER, SAMPLER_TAKEN_NET_TX,  SAMPLER_TAKEN_NET_RX,
    SAMPLER_TAKEN_BLOCK,   SAMPLER_TAKEN_BLOCK, SAMPLER_TAKEN_TASKLET, SAMPLER_TAKEN_SCHED,
    SAMPLER_TAKEN_TIMER,   SAMPLER_TAKEN_RCU};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct rq {
	__u64 clock;
	__u64 prev_steal_time_rq; /* subtracted from the time of whoever ran */
};
struct cfs_rq {
	struct rq *rq;
	/* since 6.6: how long it had tasks and was throttled, by its group's limit or an outer one */
	__u64 throttled_clock_self_time;
};
struct cfs_rq___before_5_19 {
	__u64 throttled_clock_task_time; /* with any number of tasks */
};
struct sched_entity {
	struct cfs_rq *cfs_rq; /* of the task's CPU, in every scheduling class */
};
struct task_struct___taken {
	struct sched_entity se;
	unsigned long min_flt, maj_flt;
};
#pragma clang attribute pop

static __always_inline void taken_add(struct sampler_switch_thread *t, __u32 kind, __u64 ns)
{
	__u32 now;

	if (kind >= SAMPLER_TAKEN_KINDS)
		return;
	now = t->taken.ns[kind];
	t->taken.ns[kind] = ns < ~0u - now ? now + (__u32)ns : ~0u;
}

/* ---- interrupts ---- */

/* The interrupted thread's row; NULL: it is not recorded. */
static __always_inline struct sampler_switch_thread *taken_from(void)
{
	__u64 identity = bpf_get_current_pid_tgid();
	__u32 tid = (__u32)identity;
	struct sampler_switch_thread *t;

	if (!off_cpu_threads[tid % SAMPLER_MARKS].recorded)
		return NULL;
	t = bpf_map_lookup_elem(&switch_threads, &tid);
	return t && t->first_pid == identity >> 32 ? t : NULL;
}

static __always_inline void taken_soft_begin(void)
{
	struct sampler_switch_thread *t = taken_from();

	if (!t)
		return;
	t->soft_since_ns = bpf_ktime_get_ns();
	t->device_within_ns = 0;
}

static __always_inline void taken_soft_end(__u64 vector)
{
	struct sampler_switch_thread *t = taken_from();
	__u64 ns;

	if (!t || !t->soft_since_ns || vector >= TAKEN_VECTORS)
		return;
	ns = bpf_ktime_get_ns() - t->soft_since_ns;
	t->soft_since_ns = 0;
	taken_add(t, taken_of_vector[vector],
		  ns > t->device_within_ns ? ns - t->device_within_ns : 0);
}

static __always_inline void taken_device_begin(void)
{
	struct sampler_switch_thread *t = taken_from();

	if (t)
		t->device_since_ns = bpf_ktime_get_ns();
}

static __always_inline void taken_device_end(void)
{
	struct sampler_switch_thread *t = taken_from();
	__u64 ns;

	if (!t || !t->device_since_ns)
		return;
	ns = bpf_ktime_get_ns() - t->device_since_ns;
	t->device_since_ns = 0;
	t->device_within_ns += ns;
	taken_add(t, SAMPLER_TAKEN_DEVICE, ns);
}

/* ---- the scheduler's counts ---- */

static __always_inline __u64 taken_queue(struct task_struct *task)
{
	struct task_struct___taken *k = (void *)task;

	return bpf_core_field_exists(k->se.cfs_rq) ? (__u64)BPF_CORE_READ(k, se.cfs_rq) : 0;
}

static __always_inline __u64 taken_steal(__u64 queue)
{
	struct cfs_rq *q = (void *)queue;

	if (!queue || !bpf_core_field_exists(q->rq->prev_steal_time_rq))
		return 0;
	return BPF_CORE_READ(q, rq, prev_steal_time_rq);
}

static __always_inline __u64 taken_throttled(__u64 queue)
{
	struct cfs_rq *q = (void *)queue;
	struct cfs_rq___before_5_19 *old = (void *)queue;

	if (!queue)
		return 0;
	if (bpf_core_field_exists(q->throttled_clock_self_time))
		return BPF_CORE_READ(q, throttled_clock_self_time);
	return bpf_core_field_exists(old->throttled_clock_task_time)
		   ? BPF_CORE_READ(old, throttled_clock_task_time)
		   : 0;
}

static __always_inline __u64 taken_faults(struct task_struct *task)
{
	struct task_struct___taken *k = (void *)task;

	return BPF_CORE_READ(k, min_flt) + BPF_CORE_READ(k, maj_flt);
}

/* `next` gets this CPU. Returns how long its queue was throttled since it left a CPU; 0 if not known: it
 * moved to another CPU meanwhile, or its leaving was not seen. */
static __always_inline __u64 taken_come(struct sampler_switch_thread *t, struct task_struct *next)
{
	__u64 queue = taken_queue(next), before = t->throttled_ns, now;
	bool same = queue && queue == t->queue;

	t->queue = 0;
	t->steal_ns = taken_steal(queue);
	t->on_known = 1;
	if (!t->faults_known)
		t->faults = taken_faults(next);
	t->faults_known = 1;
	if (!same)
		return 0;
	now = taken_throttled(queue);
	return now > before ? now - before : 0;
}

/* `prev` leaves this CPU. */
static __always_inline void taken_leave(struct sampler_switch_thread *t, struct task_struct *prev)
{
	__u64 queue = taken_queue(prev), steal, faults = taken_faults(prev), more;

	if (t->on_known) {
		steal = taken_steal(queue);
		if (steal > t->steal_ns)
			taken_add(t, SAMPLER_TAKEN_STEAL, steal - t->steal_ns);
	}
	if (t->faults_known && faults > t->faults) {
		more = faults - t->faults;
		t->taken.faults =
		    more < ~0u - t->taken.faults ? t->taken.faults + (__u32)more : ~0u;
	}
	t->faults = faults;
	t->faults_known = 1;
	t->on_known = 0;
	t->queue = queue;
	t->throttled_ns = taken_throttled(queue);
}

static __always_inline __u64 taken_any(const struct sampler_switch_taken *k)
{
	__u64 any = k->faults;

	for (int i = 0; i < SAMPLER_TAKEN_KINDS; i++)
		any |= k->ns[i];
	return any;
}
