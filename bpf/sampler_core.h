/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 * sampler_core.h - shared by the on-CPU and the off-CPU program: maps, identity, stacks, counting. Both
 * objects declare these maps, and the off-CPU object uses the sampler's. SAMPLER_TAIL builds for kernels
 * without bpf_loop and BPF rings (5.4 and later): unwinding continues by tail calls, and stacks leave
 * through a perf buffer.
 *
 * Swapping the two sets loses nothing. A program first reads control.epoch, once, and uses the set of its
 * last bit. User space writes the next epoch and then updates `counts` (a map of maps) with its own
 * contents: the kernel lets such an update return only after an RCU grace period. By then every program
 * that read the old epoch has ended, its counts and stacks are complete, and no program writes the old set
 * until two swaps later. */
#pragma once

#include "bpf/kernel_types.h"

#include <bpf/bpf_helpers.h>
/* after bpf_helpers.h */
#include <bpf/bpf_core_read.h>
#include <stdbool.h>

#ifndef SAMPLER_TAIL
#define PYTHON_BPF_LOOP
#endif
#include "bpf/python.h"
#include "bpf/sampler_format.h"
#include "bpf/task_number.h"
#include "bpf/unwind.h"

/* Set before loading. */
const volatile __u64 sampler_pid_ns_dev =
    0; /* device of the daemon's PID namespace (task_number.h) */
const volatile bool sampler_python = false;
const volatile __u32 sampler_ring_bytes = 0;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct sampler_control);
} control SEC(".maps");

/* Sampled processes by pid, in the daemon's PID namespace. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, struct sampler_process);
} processes SEC(".maps");

/* As many entries, since every process may have an interpreter. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, struct python_process);
} python_processes SEC(".maps");

struct sampler_counts {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct sampler_key);
	__type(value, struct sampler_count);
};
struct sampler_counts counts_even SEC(".maps"), counts_odd SEC(".maps");
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 2);
	__type(key, __u32);
	__array(values, struct sampler_counts);
} counts SEC(".maps") = {.values = {&counts_even, &counts_odd}};

/* Stacks that were sent, with their epoch; an evicted one is sent twice. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, __u64);
	__type(value, __u32);
} seen SEC(".maps");

#ifdef SAMPLER_TAIL
struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(key_size, 4);
	__uint(value_size, 4);
} stacks SEC(".maps");
#else
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4 << 20);
} stacks SEC(".maps");
#endif

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, SAMPLER_COUNT_MAX);
	__type(key, __u32);
	__type(value, __u64);
} counters SEC(".maps");

struct sampler_scratch {
	struct sampler_key key;
	struct sampler_count fresh;
	struct kernel_regs regs;
	__u64 weight_ns;
	__u64 begin_ns;
	__u32 epoch;
	__u32 in_kernel; /* the user registers are those of a system call or fault */
	struct sampler_stack kernel;
	__u64 kernel_frame[SAMPLER_KERNEL_FRAME_MAX + 1];
	struct sampler_stack user;
	__u64 user_frame[UNWIND_FRAME_MAX];
	struct unwind_state unwind;
	struct sampler_stack python_head;
	struct python_state python;
};

/* One per object, so that a tick does not overwrite the switch that it interrupts. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct sampler_scratch);
} scratch SEC(".maps");

static __always_inline void count_up(__u32 counter, __u64 by)
{
	__u64 *n = bpf_map_lookup_elem(&counters, &counter);

	if (n)
		*n += by;
}

static __always_inline struct sampler_control *control_get(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&control, &zero);
}

/* The number of a time's slice, or of the first of `together` slices. */
static __always_inline __u32 slice_at(const struct sampler_control *c, __u64 time_ns,
				      __u32 together)
{
	__u32 slice = c->slice_ns ? (__u32)(time_ns / c->slice_ns) : 0;

	return slice - slice % together;
}

static __always_inline struct sampler_scratch *scratch_get(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&scratch, &zero);
}

/* tgid << 32 | tid of the current task in the daemon's PID namespace; 0: not in it. */
static __always_inline __u64 current_identity(struct task_struct *task)
{
	__u32 pid, tid;

	if (!task_number_ns)
		return bpf_get_current_pid_tgid();
#ifndef SAMPLER_TAIL
	struct bpf_pidns_info info = {};

	/* it refuses tasks in nested namespaces */
	if (!bpf_get_ns_current_pid_tgid(sampler_pid_ns_dev, task_number_ns, &info, sizeof(info)))
		return (__u64)info.tgid << 32 | info.pid;
#endif
	pid = task_number(BPF_CORE_READ(task, group_leader));
	tid = task_number(task);
	return pid && tid ? (__u64)pid << 32 | tid : 0;
}

/* The user-mode registers of the current task, which runs kernel code. */
static __always_inline long task_user_regs(struct task_struct *task, struct kernel_regs *out)
{
#ifdef SAMPLER_TAIL
	char *at = (char *)BPF_CORE_READ(task, stack) + KERNEL_STACK_BYTES - sizeof(*out);

	/* kernels with FRED leave 16 bytes above them; the selectors show which case it is */
	for (int i = 0; i < 2; i++) {
		if (!bpf_probe_read_kernel(out, sizeof(*out), at - 16 * i) &&
		    (out->cs & 0xffff) == KERNEL_USER_CS && (out->ss & 0xffff) == KERNEL_USER_SS)
			return 0;
	}
	return -1;
#else
	void *regs = (void *)bpf_task_pt_regs(bpf_get_current_task_btf());

	return bpf_probe_read_kernel(out, sizeof(*out), regs);
#endif
}

static __always_inline void hash_add(__u64 *hash, __u64 word)
{
	__u64 h = (*hash ^ word) * 0x9e3779b97f4a7c15ull;

	*hash = h ^ h >> 29;
}

/* Sends a stack, unless it was sent in this period. bytes: of head and frames. */
static __always_inline void stack_send(void *ctx, struct sampler_scratch *s,
				       struct sampler_stack *head, __u32 bytes)
{
	__u64 hash = head->hash;
	__u32 *epoch = bpf_map_lookup_elem(&seen, &hash);
	long err;

	if (epoch && *epoch == s->epoch)
		return;
	head->epoch = s->epoch;
	head->pid = s->key.pid;
	head->tid = s->key.tid;
#ifdef SAMPLER_TAIL
	err = bpf_perf_event_output(ctx, &stacks, BPF_F_CURRENT_CPU, head, bytes);
#else
	/* wakes the reader if a quarter is full; else it polls */
	err = bpf_ringbuf_output(&stacks, head, bytes,
				 bpf_ringbuf_query(&stacks, BPF_RB_AVAIL_DATA) >
					 sampler_ring_bytes / 4
				     ? BPF_RB_FORCE_WAKEUP
				     : BPF_RB_NO_WAKEUP);
#endif
	if (err)
		count_up(SAMPLER_COUNT_RING_FULL, 1);
	else
		bpf_map_update_elem(&seen, &hash, &s->epoch, BPF_ANY);
}

/* Starts the walk at the current task's registers. */
static __always_inline void user_walk_begin(struct sampler_scratch *s,
					    const struct sampler_process *process)
{
	const struct kernel_regs *r = &s->regs;
	__u64 *to = s->unwind.reg;

	unwind_start(&s->unwind);
	s->unwind.process = process->maps;
	s->key.generation = (__u8)process->generation;
	s->unwind.owner = s->key.pid;
	s->unwind.pc = r->ip;
	to[UNWIND_RAX] = r->ax;
	to[UNWIND_RDX] = r->dx;
	to[UNWIND_RCX] = r->cx;
	to[UNWIND_RBX] = r->bx;
	to[UNWIND_RSI] = r->si;
	to[UNWIND_RDI] = r->di;
	to[UNWIND_RBP] = r->bp;
	to[UNWIND_RSP] = r->sp;
	to[8] = r->r8;
	to[9] = r->r9;
	to[10] = r->r10;
	to[11] = r->r11;
	to[12] = r->r12;
	to[13] = r->r13;
	to[14] = r->r14;
	to[15] = r->r15;
	s->user.hash = SAMPLER_STACK_USER;
	s->user.count = 0;
}

/* Like unwind_frame, but the frame is relative to its file. */
static __always_inline int user_walk_frame(struct sampler_scratch *s)
{
	struct unwind_state *u = &s->unwind;
	const struct unwind_mapping *m;
	__u64 pc = u->pc, marks = (__u64)u->mark << 56, frame;
	__u32 at = u->count;
	int rc;

	if (!pc) {
		u->end = UNWIND_END_ROOT;
		return UNWIND_DONE;
	}
	if (at >= UNWIND_FRAME_MAX) {
		u->end = UNWIND_END_DEPTH;
		return UNWIND_DONE;
	}
	m = unwind_find_mapping(u, u->leaf ? pc : pc - 1);
	if (!m) {
		u->end = UNWIND_END_NO_MAPPING;
		return UNWIND_DONE;
	}
	u->count = at + 1;
	rc = unwind_step(u, m);
	if (!at)
		pc =
		    u->leaf_row; /* with the leaf's exact address every sample would be another stack */
	if (m->file && !((pc - m->bias) >> SAMPLER_FRAME_OFFSET_BITS))
		frame = marks | (__u64)m->file << SAMPLER_FRAME_FILE_SHIFT | (pc - m->bias) |
			(m->page_count ? 0 : SAMPLER_FRAME_BARE);
	else
		frame = marks | SAMPLER_FRAME_ANONYMOUS | (pc & UNWIND_FRAME_PC);
	UNWIND_BARRIER(at);
	at &= UNWIND_FRAME_MAX - 1;
	s->user_frame[at] = frame;
	s->user.count = (__u16)(at + 1);
	hash_add(&s->user.hash, frame);
	if (rc == UNWIND_ON)
		return UNWIND_MORE;
	if (rc == UNWIND_NO_RULE)
		return UNWIND_BLIND;
	u->end = rc - 1;
	return UNWIND_DONE;
}

#ifdef SAMPLER_TAIL
#define WALK_FRAMES 16 /* per program; the kernel allows 33 programs in a row */
/* The programs of a walk, by their place in `progs`, a BPF_MAP_TYPE_PROG_ARRAY. */
enum { WALK_ON = 0, WALK_BLIND, WALK_END, WALK_BEGIN, WALK_PROGS };

static __always_inline void tail_walk(void *ctx, void *progs)
{
	struct sampler_scratch *s = scratch_get();
	int rc = UNWIND_MORE;

	if (!s)
		return;
	for (int i = 0; i < WALK_FRAMES && rc == UNWIND_MORE; i++)
		rc = user_walk_frame(s);
	if (rc == UNWIND_MORE)
		bpf_tail_call(ctx, progs, WALK_ON);
	if (rc == UNWIND_BLIND)
		bpf_tail_call(ctx, progs, WALK_BLIND);
	unwind_finish(&s->unwind);
	bpf_tail_call(ctx, progs, WALK_END);
}

static __always_inline void tail_blind(void *ctx, void *progs)
{
	struct sampler_scratch *s = scratch_get();

	if (!s)
		return;
	if (unwind_blind(&s->unwind) == UNWIND_MORE)
		bpf_tail_call(ctx, progs, WALK_ON);
	bpf_tail_call(ctx, progs, WALK_END);
}
#else
/* Global, so that the verifier checks it once and not in each iteration. */
__attribute__((noinline)) int user_walk_blind(void)
{
	struct sampler_scratch *s = scratch_get();

	return s ? unwind_blind(&s->unwind) : UNWIND_DONE;
}

static long user_walk_loop(__u32 index, struct sampler_scratch **s)
{
	int rc = user_walk_frame(*s);

	if (rc == UNWIND_BLIND)
		rc = user_walk_blind();
	return rc != UNWIND_MORE;
}
#endif

/* 1: the process has an interpreter, and s->python has the result. */
#ifdef SAMPLER_TAIL
static __always_inline
#else
__attribute__((noinline))
#endif
    int
    python_stack_walk(void)
{
	struct sampler_scratch *s = scratch_get();
	struct python_process *p = s ? bpf_map_lookup_elem(&python_processes, &s->key.pid) : NULL;

	if (!s || !p)
		return 0;
	python_walk(&s->python, p);
	return 1;
}

/* Each exit of a loop is a verifier state for the code after it. Global functions are verified separately
 * (5.6 and later), so they limit these states. */
#ifdef SAMPLER_TAIL
#define HASH_FUNCTION static __always_inline
#else
#define HASH_FUNCTION __attribute__((noinline))
#endif

/* Hashes the result of python_stack_walk into python_head. */
HASH_FUNCTION int python_stack_hash(void)
{
	struct sampler_scratch *s = scratch_get();
	__u64 hash;
	__u32 count;

	if (!s)
		return 0;
	hash = SAMPLER_STACK_PYTHON ^ (__u64)s->key.pid << 32;
	count = s->python.count;
	for (__u32 i = 0; i < PYTHON_FRAME_MAX; i++) {
		if (i >= count)
			break;
		hash_add(&hash, s->python.frame[i].code);
		hash_add(&hash, (__u64)s->python.frame[i].flags << 32 | s->python.frame[i].instr);
	}
	s->python_head.hash = hash;
	return 0;
}

/* Hashes `count` words of kernel_frame into kernel. */
HASH_FUNCTION int kernel_stack_hash(__u32 count)
{
	struct sampler_scratch *s = scratch_get();
	__u64 hash = SAMPLER_STACK_KERNEL;

	if (!s)
		return 0;
	for (__u32 i = 0; i < SAMPLER_KERNEL_FRAME_MAX; i++) {
		if (i >= count)
			break;
		hash_add(&hash, s->kernel_frame[i]);
	}
	s->kernel.hash = hash;
	return 0;
}

static __always_inline void python_stack_take(void *ctx, struct sampler_scratch *s,
					      struct task_struct *task, bool in_kernel)
{
	__u32 count;

	s->python.fsbase = BPF_CORE_READ(task, thread.fsbase);
	s->python.futex = in_kernel && s->regs.orig_ax == 202 /* futex(2) */ ? s->regs.di : 0;
	if (!python_stack_walk())
		return;
	s->key.gil = s->python.gil;
	if (s->python.end == PYTHON_END_FAULT || s->python.end == PYTHON_END_GARBAGE)
		count_up(SAMPLER_COUNT_PYTHON_FAILED, 1);
	count = s->python.count;
	if (!count || count > PYTHON_FRAME_MAX)
		return;
	python_stack_hash();
	count_up(SAMPLER_COUNT_PYTHON_FRAMES, count);
	s->key.python_hash = s->python_head.hash;
	s->python_head.count = (__u16)count;
	s->python_head.kind = SAMPLER_STACK_PYTHON;
	stack_send(ctx, s, &s->python_head,
		   sizeof(s->python_head) + __builtin_offsetof(struct python_state, frame) +
		       count * sizeof(struct python_frame));
}

static __always_inline void kernel_stack_take(void *ctx, struct sampler_scratch *s)
{
	long bytes =
	    bpf_get_stack(ctx, s->kernel_frame, SAMPLER_KERNEL_FRAME_MAX * sizeof(__u64), 0);
	__u32 count;

	if (bytes <= 0)
		return;
	count = (__u32)bytes / 8;
	kernel_stack_hash(count);
	s->key.kernel_hash = s->kernel.hash;
	s->kernel.count = (__u16)count;
	s->kernel.kind = SAMPLER_STACK_KERNEL;
	count_up(SAMPLER_COUNT_FRAMES, count);
	bytes &= 1023;
	stack_send(ctx, s, &s->kernel, sizeof(s->kernel) + (__u32)bytes);
}

/* Sends the walk's result; the hash is complete. */
static __always_inline void user_stack_finish(void *ctx, struct sampler_scratch *s)
{
	__u32 n = s->user.count;

	s->key.end = s->unwind.end;
	count_up(SAMPLER_COUNT_END + (s->unwind.end < UNWIND_END_COUNT ? s->unwind.end : 0), 1);
	if (!n || n > UNWIND_FRAME_MAX)
		return;
	if (s->unwind.scanned)
		count_up(SAMPLER_COUNT_SCANNED, 1);
	count_up(SAMPLER_COUNT_FRAMES, n);
	s->user.kind = SAMPLER_STACK_USER;
	s->key.user_hash = s->user.hash;
	stack_send(ctx, s, &s->user, sizeof(s->user) + n * 8);
}

/* Adds a sample to the epoch's set. */
static __always_inline void sample_count(struct sampler_scratch *s, __u64 weight_ns)
{
	__u32 slot = s->epoch & 1;
	void *set = bpf_map_lookup_elem(&counts, &slot);
	struct sampler_count *c;

	count_up(SAMPLER_COUNT_TAKEN, 1);
	if (!set)
		return;
	c = bpf_map_lookup_elem(set, &s->key);
	if (!c) {
		s->fresh.weight_ns = weight_ns;
		s->fresh.count = 1;
		if (!bpf_map_update_elem(set, &s->key, &s->fresh, BPF_NOEXIST))
			return;
		c = bpf_map_lookup_elem(set, &s->key); /* another CPU added it first */
		if (!c) {
			count_up(SAMPLER_COUNT_FULL, 1);
			return;
		}
	}
	__sync_fetch_and_add(&c->weight_ns, weight_ns);
	__sync_fetch_and_add(&c->count, 1);
}
