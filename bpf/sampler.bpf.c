/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 * sampler.bpf.c - on-CPU samples: each tick of a CPU's clock counts its current stack. */
#include "bpf/sampler_core.h"

char LICENSE[] SEC("license") = "GPL";

/* Recorded threads are sampled at every tick, because a step may be slow only once. By their number in
 * the daemon's PID namespace; the value is their process. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, SAMPLER_SWITCH_THREADS);
	__type(key, __u32);
	__type(value, __u32);
} every_tick SEC(".maps");

static __always_inline bool tick_always(__u64 identity)
{
	__u32 tid = (__u32)identity, *pid = bpf_map_lookup_elem(&every_tick, &tid);

	return pid && *pid == identity >> 32;
}

/* Whether this tick takes a sample. It is random: with every n-th tick, two processes that alternate in
 * step with the ticks would be seen always or never. */
static __always_inline bool tick_chosen(const struct sampler_control *c)
{
	return c->fraction_percent >= 100 || bpf_get_prandom_u32() % 100 < c->fraction_percent;
}

/* Identity and registers of the current thread. NULL: no sample. */
static __always_inline struct sampler_scratch *tick_begin(struct bpf_perf_event_data *ctx,
							  struct sampler_process **process)
{
	struct sampler_control *c = control_get();
	struct task_struct *task = (void *)bpf_get_current_task();
	struct sampler_scratch *s;
	__u64 identity;
	__u32 pid;
	bool always;

	if (!c || !(bpf_get_current_pid_tgid() >> 32))
		return NULL; /* idle */
	identity = current_identity(task);
	pid = identity >> 32;
	*process = bpf_map_lookup_elem(&processes, &pid);
	if (!*process && !(c->all_processes && pid))
		return NULL;
	always = tick_always(identity);
	s = always || tick_chosen(c) ? scratch_get() : NULL;
	if (!s)
		return NULL;
	count_up(SAMPLER_COUNT_TARGET_RUNS, 1);
	s->begin_ns = bpf_ktime_get_ns();
	s->epoch = c->epoch;
	s->weight_ns = always ? c->period_ns : c->weight_ns;
	__builtin_memset(&s->key, 0, sizeof(s->key));
	s->key.pid = pid;
	s->key.tid = (__u32)identity;
	s->key.kind = SAMPLER_ON_CPU;
	s->key.slice = slice_at(c, s->begin_ns, *process ? 1 : SAMPLER_COARSE_SLICES);
	s->fresh.cpu = bpf_get_smp_processor_id();
	bpf_get_current_comm(s->fresh.comm, sizeof(s->fresh.comm));
	return s;
}

/* Copies the interrupted registers if they are of user mode. It reads each field separately, since the
 * verifier rewrites each access to the context. */
static __always_inline void tick_user_regs(struct bpf_perf_event_data *ctx, struct kernel_regs *to)
{
#define TICK_REG(field) to->field = *(volatile unsigned long *)&ctx->regs.field
	TICK_REG(r15);
	TICK_REG(r14);
	TICK_REG(r13);
	TICK_REG(r12);
	TICK_REG(bp);
	TICK_REG(bx);
	TICK_REG(r11);
	TICK_REG(r10);
	TICK_REG(r9);
	TICK_REG(r8);
	TICK_REG(ax);
	TICK_REG(cx);
	TICK_REG(dx);
	TICK_REG(si);
	TICK_REG(di);
	TICK_REG(ip);
	TICK_REG(sp);
#undef TICK_REG
}

/* Takes the kernel stack and the first user frame; true: walk the user stack. */
static __always_inline bool tick_stacks(struct bpf_perf_event_data *ctx, struct sampler_scratch *s,
					const struct sampler_process *process)
{
	struct task_struct *task = (void *)bpf_get_current_task();

	s->in_kernel = !(*(volatile unsigned long *)&ctx->regs.cs & 3);
	s->user.count = 0;
	s->unwind.end = UNWIND_END_NO_MAPPING;
	s->unwind.scanned = 0;
	if (s->in_kernel) {
		kernel_stack_take(ctx, s);
		if (BPF_CORE_READ(task, flags) & KERNEL_TASK_KTHREAD) {
			s->unwind.end = UNWIND_END_ROOT;
			return false;
		}
		if (task_user_regs(task, &s->regs)) {
			s->unwind.end = UNWIND_END_FAULT;
			count_up(SAMPLER_COUNT_NO_REGS, 1);
			return false;
		}
	} else {
		tick_user_regs(ctx, &s->regs);
	}
	if (!process || !process->maps.mapping_count) {
		struct sampler_control *c = control_get();

		if (process || (c && c->all_processes == SAMPLER_OTHERS_ALL))
			count_up(SAMPLER_COUNT_UNMAPPED, 1);
		return false;
	}
	user_walk_begin(s, process);
	return true;
}

static __always_inline void tick_finish(struct bpf_perf_event_data *ctx, struct sampler_scratch *s)
{
	user_stack_finish(ctx, s);
	if (sampler_python)
		python_stack_take(ctx, s, (void *)bpf_get_current_task(), s->in_kernel);
	sample_count(s, s->weight_ns);
	count_up(SAMPLER_COUNT_TARGET_NS, bpf_ktime_get_ns() - s->begin_ns);
}

#ifdef SAMPLER_TAIL

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, WALK_BEGIN);
	__uint(key_size, 4);
	__uint(value_size, 4);
} tick_progs SEC(".maps");

SEC("perf_event")
int tick_walk(struct bpf_perf_event_data *ctx)
{
	tail_walk(ctx, &tick_progs);
	return 0;
}

SEC("perf_event")
int tick_blind(struct bpf_perf_event_data *ctx)
{
	tail_blind(ctx, &tick_progs);
	return 0;
}

SEC("perf_event")
int tick_end(struct bpf_perf_event_data *ctx)
{
	struct sampler_scratch *s = scratch_get();

	if (s)
		tick_finish(ctx, s);
	return 0;
}

SEC("perf_event")
int tick(struct bpf_perf_event_data *ctx)
{
	struct sampler_process *process = NULL;
	struct sampler_scratch *s = tick_begin(ctx, &process);

	if (!s)
		return 0;
	if (tick_stacks(ctx, s, process))
		bpf_tail_call(ctx, &tick_progs, WALK_ON);
	bpf_tail_call(ctx, &tick_progs, WALK_END);
	return 0;
}

#else

SEC("perf_event")
int tick(struct bpf_perf_event_data *ctx)
{
	struct sampler_process *process = NULL;
	struct sampler_scratch *s = tick_begin(ctx, &process);

	if (!s)
		return 0;
	if (tick_stacks(ctx, s, process)) {
		bpf_loop(UNWIND_FRAME_MAX + 1, user_walk_loop, &s, 0);
		unwind_finish(&s->unwind);
	}
	tick_finish(ctx, s);
	return 0;
}

#endif
