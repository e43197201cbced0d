/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 * off_cpu.bpf.c - blocked time. When a thread of a sampled process goes to sleep, its stack is walked: only
 * then its memory can be read. When it runs again, the stack is counted if the sleep was long enough.
 *
 * A walk at every switch-out would cost more than all ticks together. So each place (thread, user pc, user
 * stack pointer, system call) is remembered, and after several short sleeps there only the leaf is taken.
 * If a sleep there is long after all, its sample has one frame, SAMPLER_COUNT_UNSTACKED counts it, and the
 * next sleeps at that place are walked again. A recorded thread uses the place's last kernel stack
 * meanwhile.
 *
 * The waker comes from sched_waking, which runs in the waker's context. sched_wakeup may run on the
 * sleeper's CPU with an unrelated current thread. If a timer wakes a thread, directly or through a timerfd,
 * the waker is SAMPLER_WAKER_TIMER. */
#include "bpf/sampler_core.h"

char LICENSE[] SEC("license") = "GPL";

/* After this many short sleeps in a row, only the leaf is taken at a place. */
#define OFF_CPU_SHORT_MAX 4
/* There a recorded thread is still walked once in this time: the next sleep may be long. */
#define OFF_CPU_WALK_NS 20000000ull

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, __u32); /* tid in the first PID namespace */
	__type(value, struct sampler_blocked);
} blocked SEC(".maps");

/* Most events concern threads that are not sampled, and one load of a mark shows that. A mark stands for
 * the low bits of a number in the first PID namespace. User space sets a process's mark when it adds the
 * process (all marks, if it does not know those numbers). A thread's mark is set when it goes to sleep.
 * Marks stay set. An unrelated number with the same low bits only costs a lookup. */
__u8 off_cpu_processes[SAMPLER_MARKS] = {};
struct sampler_mark off_cpu_threads[SAMPLER_MARKS] = {};

/* Per place: short sleeps in a row, and the time and kernel stack of the last walk. */
struct off_cpu_site {
	__u64 walked_ns;
	__u64 shorts;
	__u64 kernel_hash;
};
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, __u64);
	__type(value, struct off_cpu_site);
} sites SEC(".maps");

/* WITHIN_* of this CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} within SEC(".maps");
#define WITHIN_TIMER	  1u /* a timer expires */
#define WITHIN_NETWORK	  2u /* packets arrive; those of loopback in the sender's thread */
#define SOFT_NET_RX	  3u
#define WAKER_GENERATIONS 4

#ifdef SAMPLER_TAIL
#define OFF_CPU_EVENT(name) SEC("raw_tp/" name)
#else
#define OFF_CPU_EVENT(name) SEC("tp_btf/" name)
#endif

/* Pointers of typed tracepoints can be read without a helper. */
#ifdef SAMPLER_TAIL
#define TASK(task, field) BPF_CORE_READ(task, field)
#else
#define TASK(task, field) ((task)->field)
#endif

#include "bpf/switch_record.h"

static __always_inline __u32 task_state(struct task_struct *task)
{
	struct task_struct___before_5_14 *old = (void *)task;

	if (bpf_core_field_exists(task->__state))
		return TASK(task, __state);
	return (__u32)TASK(old, state);
}

/* `next` slept until now. */
static __always_inline void switch_in(struct sampler_control *c, __u32 tid)
{
	struct sampler_blocked *b = bpf_map_lookup_elem(&blocked, &tid);
	struct sampler_scratch *s;
	struct off_cpu_site fresh = {.shorts = 1}, *site;
	__u64 now, slept;

	if (!b)
		return;
	now = bpf_ktime_get_ns();
	slept = now - b->since_ns;
	site = bpf_map_lookup_elem(&sites, &b->site);
	if (slept < c->off_cpu_min_ns) {
		count_up(SAMPLER_COUNT_SHORT, 1);
		if (site)
			site->shorts += site->shorts < OFF_CPU_SHORT_MAX;
		else
			bpf_map_update_elem(&sites, &b->site, &fresh, BPF_ANY);
	} else {
		if (b->key.end == UNWIND_END_DEPTH && site && site->shorts >= OFF_CPU_SHORT_MAX)
			count_up(SAMPLER_COUNT_UNSTACKED, 1);
		if (site)
			site->shorts = 0;
		s = scratch_get();
		if (s) {
			s->epoch = c->epoch;
			s->key = b->key;
			s->key.slice = slice_at(c, now, SAMPLER_COARSE_SLICES);
			s->fresh.cpu = b->cpu;
			s->fresh.waker_tid = b->waker_tid;
			__builtin_memcpy(s->fresh.comm, b->comm, sizeof(b->comm));
			__builtin_memcpy(s->fresh.waker_comm, b->waker_comm, sizeof(b->waker_comm));
			sample_count(s, slept);
		}
	}
	bpf_map_delete_elem(&blocked, &tid);
}

/* The current thread goes to sleep: its identity and registers. NULL: it is not sampled. */
static __always_inline struct sampler_scratch *switch_out_begin(const struct sampler_control *c,
								struct task_struct *task,
								struct sampler_process **process)
{
	struct sampler_scratch *s;
	__u64 identity;
	__u32 pid;

	if (!c->off_cpu || TASK(task, flags) & KERNEL_TASK_KTHREAD)
		return NULL;
	identity = current_identity(task);
	pid = identity >> 32;
	*process = bpf_map_lookup_elem(&processes, &pid);
	s = *process ? scratch_get() : NULL;
	if (!s || task_user_regs(task, &s->regs))
		return NULL;
	s->begin_ns = bpf_ktime_get_ns();
	s->epoch = c->epoch;
	s->in_kernel = 1;
	__builtin_memset(&s->key, 0, sizeof(s->key));
	s->key.pid = pid;
	s->key.tid = (__u32)identity;
	s->key.kind = SAMPLER_OFF_CPU;
	s->user.count = 0;
	s->unwind.end = UNWIND_END_NO_MAPPING;
	s->unwind.scanned = 0;
	return s;
}

static __always_inline __u64 switch_out_site(const struct sampler_scratch *s)
{
	__u64 site = s->key.tid;

	hash_add(&site, s->regs.ip);
	hash_add(&site, s->regs.sp);
	hash_add(&site, s->regs.orig_ax); /* one instruction may make all system calls */
	return site;
}

/* Without a walk, the place's last kernel stack is right, since the system call is the same. The Python
 * function that makes the call may differ. */
static __always_inline void switch_out_record(const struct sampler_scratch *s, __u64 place,
					      __u32 tid)
{
	struct off_cpu_site *site = bpf_map_lookup_elem(&sites, &place);

	if (site && s->key.kernel_hash)
		site->kernel_hash = s->key.kernel_hash;
	record_stacks(tid, &s->key, site ? site->kernel_hash : s->key.kernel_hash);
}

static __always_inline void switch_out_end(void *ctx, struct sampler_scratch *s)
{
	struct sampler_blocked b = {};
	__u32 tid = (__u32)bpf_get_current_pid_tgid();

	user_stack_finish(ctx, s);
	b.site = switch_out_site(s);
	b.key = s->key;
	b.cpu = bpf_get_smp_processor_id();
	bpf_get_current_comm(b.comm, sizeof(b.comm));
	b.since_ns = s->begin_ns;
	off_cpu_threads[tid % SAMPLER_MARKS].asleep = 1;
	if (off_cpu_threads[tid % SAMPLER_MARKS].recorded)
		switch_out_record(s, b.site, tid);
	if (bpf_map_update_elem(&blocked, &tid, &b, BPF_ANY))
		count_up(SAMPLER_COUNT_BLOCKED_FULL, 1);
	count_up(SAMPLER_COUNT_CAPTURE_NS, bpf_ktime_get_ns() - s->begin_ns);
}

/* Takes kernel and Python stacks and the first user frame; true: walk the other frames. */
static __always_inline bool switch_out_stacks(void *ctx, struct sampler_scratch *s,
					      const struct sampler_process *process)
{
	__u64 key = switch_out_site(s);
	struct off_cpu_site *site = bpf_map_lookup_elem(&sites, &key);
	bool recorded = off_cpu_threads[(__u32)bpf_get_current_pid_tgid() % SAMPLER_MARKS].recorded,
	     leaf_only = site && site->shorts >= OFF_CPU_SHORT_MAX &&
			 !(recorded && s->begin_ns - site->walked_ns >= OFF_CPU_WALK_NS);

	if (site && !leaf_only)
		site->walked_ns = s->begin_ns;
	if (process->maps.mapping_count)
		user_walk_begin(s, process);
	else
		count_up(SAMPLER_COUNT_UNMAPPED, 1);
	if (leaf_only) {
		if (process->maps.mapping_count)
			user_walk_frame(s);
		s->unwind.end = UNWIND_END_DEPTH;
		return false;
	}
	count_up(SAMPLER_COUNT_CAPTURES, 1);
	kernel_stack_take(ctx, s);
	if (sampler_python)
		python_stack_take(ctx, s, (void *)bpf_get_current_task(), true);
	return process->maps.mapping_count != 0;
}

#ifdef SAMPLER_TAIL

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, WALK_PROGS);
	__uint(key_size, 4);
	__uint(value_size, 4);
} switch_progs SEC(".maps");

SEC("raw_tp")
int switch_end(void *ctx)
{
	struct sampler_scratch *s = scratch_get();

	if (s)
		switch_out_end(ctx, s);
	return 0;
}

SEC("raw_tp")
int switch_walk(void *ctx)
{
	tail_walk(ctx, &switch_progs);
	return 0;
}

SEC("raw_tp")
int switch_blind(void *ctx)
{
	tail_blind(ctx, &switch_progs);
	return 0;
}

SEC("raw_tp")
int switch_stacks(void *ctx)
{
	struct sampler_scratch *s = scratch_get();
	struct sampler_process *process;

	if (!s)
		return 0;
	process = bpf_map_lookup_elem(&processes, &s->key.pid);
	if (process && switch_out_stacks(ctx, s, process))
		bpf_tail_call(ctx, &switch_progs, WALK_ON);
	bpf_tail_call(ctx, &switch_progs, WALK_END);
	return 0;
}

#endif

OFF_CPU_EVENT("sched_switch")
int on_switch(__u64 *ctx)
{
	struct sampler_control *c = control_get();
	struct task_struct *prev = (void *)ctx[1], *next = (void *)ctx[2];
	struct sampler_process *process = NULL;
	struct sampler_mark mark;
	struct sampler_scratch *s;
	__u32 next_tid = TASK(next, pid), state;
	__u8 marks;

	if (!c)
		return 0;
	mark = off_cpu_threads[next_tid % SAMPLER_MARKS];
	if (mark.asleep)
		switch_in(c, next_tid);
	if (mark.recorded)
		record_in(ctx, next);
	state = ctx[0] ? 0 : task_state(prev);
	if (switch_by_number && c->switch_wanted)
		record_wanted(prev);
	marks = off_cpu_processes[(__u32)TASK(prev, tgid) % SAMPLER_MARKS];
	if (marks & SAMPLER_MARK_RECORDED)
		record_out(ctx, prev, next, state);
	if (!(marks & SAMPLER_MARK_SAMPLED) || !state || state & KERNEL_STATE_DEAD)
		return 0;
	s = switch_out_begin(c, prev, &process);
	if (!s || !process)
		return 0;
#ifdef SAMPLER_TAIL
	bpf_tail_call(ctx, &switch_progs, WALK_BEGIN);
#else
	if (switch_out_stacks(ctx, s, process)) {
		bpf_loop(UNWIND_FRAME_MAX + 1, user_walk_loop, &s, 0);
		unwind_finish(&s->unwind);
	}
	switch_out_end(ctx, s);
#endif
	return 0;
}

static __always_inline void within_set(__u32 what, bool in)
{
	__u32 zero = 0, *now = bpf_map_lookup_elem(&within, &zero);

	if (now)
		*now = in ? *now | what : *now & ~what;
}

/* Whether process tgid started the task's process, itself or through a few others (a shell). */
static __always_inline bool is_descendant(struct task_struct *task, __u32 tgid)
{
	for (int i = 0; i < WAKER_GENERATIONS; i++) {
		task = BPF_CORE_READ(task, real_parent);
		if ((__u32)BPF_CORE_READ(task, tgid) == tgid)
			return true;
	}
	return false;
}

/* The waker: the current thread, if it is a kernel thread or in a system call; 0: an interrupt. With
 * SAMPLER_WAKER_*. */
static __always_inline __u32 waker_of(struct task_struct *current, struct task_struct *woken)
{
	struct kernel_regs regs;
	__u32 zero = 0, *in = bpf_map_lookup_elem(&within, &zero);
	__u32 how = in && *in & WITHIN_NETWORK ? SAMPLER_WAKER_NETWORK : 0;

	if (in && *in & WITHIN_TIMER)
		return SAMPLER_WAKER_TIMER;
	if (!(__u32)bpf_get_current_pid_tgid())
		return how; /* the idle task: an interrupt */
	if (!(BPF_CORE_READ(current, flags) & KERNEL_TASK_KTHREAD)) {
		if (task_user_regs(current, &regs) || (long)regs.orig_ax < 0)
			return how; /* not in a system call: an interrupt */
		if (!how && bpf_get_current_pid_tgid() >> 32 != (__u32)TASK(woken, tgid))
			how = SAMPLER_WAKER_PROCESS;
		if (how == SAMPLER_WAKER_PROCESS && is_descendant(current, TASK(woken, tgid)))
			how |= SAMPLER_WAKER_CHILD;
	}
	return (__u32)current_identity(current) | how;
}

OFF_CPU_EVENT("sched_waking")
int on_waking(__u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	__u32 tid = TASK(task, pid), waker;
	struct sampler_mark mark = off_cpu_threads[tid % SAMPLER_MARKS];
	struct sampler_switch_thread *t = NULL;
	struct sampler_blocked *b = NULL;

	if (mark.asleep)
		b = bpf_map_lookup_elem(&blocked, &tid);
	if (mark.recorded)
		t = record_thread(task);
	if (!b && !t)
		return 0;
	waker = waker_of((void *)bpf_get_current_task(), task);
	if (t)
		record_waking(t, task, waker, task_state(task));
	if (!b || waker == SAMPLER_WAKER_TIMER)
		return 0;
	waker &= ~SAMPLER_WAKER_BITS;
	if (waker) {
		b->waker_tid = waker;
		bpf_get_current_comm(b->waker_comm, sizeof(b->waker_comm));
	}
	return 0;
}

/* Interrupts run in the context of the interrupted thread. */
OFF_CPU_EVENT("softirq_entry")
int on_soft_begin(__u64 *ctx)
{
	if (ctx[0] == SOFT_NET_RX)
		within_set(WITHIN_NETWORK, true);
	taken_soft_begin();
	return 0;
}

OFF_CPU_EVENT("softirq_exit")
int on_soft_end(__u64 *ctx)
{
	if (ctx[0] == SOFT_NET_RX)
		within_set(WITHIN_NETWORK, false);
	taken_soft_end(ctx[0]);
	return 0;
}

OFF_CPU_EVENT("irq_handler_entry")
int on_device_begin(__u64 *ctx)
{
	taken_device_begin();
	return 0;
}

OFF_CPU_EVENT("irq_handler_exit")
int on_device_end(__u64 *ctx)
{
	taken_device_end();
	return 0;
}

/* On x86 the interrupt of a CPU's clock has no handler of a device. */
OFF_CPU_EVENT("local_timer_entry")
int on_clock_begin(__u64 *ctx)
{
	taken_device_begin();
	return 0;
}

OFF_CPU_EVENT("local_timer_exit")
int on_clock_end(__u64 *ctx)
{
	taken_device_end();
	return 0;
}

OFF_CPU_EVENT("hrtimer_expire_entry")
int on_timer_begin(__u64 *ctx)
{
	within_set(WITHIN_TIMER, true);
	return 0;
}

OFF_CPU_EVENT("hrtimer_expire_exit")
int on_timer_end(__u64 *ctx)
{
	within_set(WITHIN_TIMER, false);
	return 0;
}
