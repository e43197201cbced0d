/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 * snapshot.bpf.c - takes whole samples for `make accuracy` and for the replay corpus: from one interrupt
 * the registers, a piece of the user stack and the frames that unwind.h found in the kernel.
 * SNAPSHOT_TAIL_CALLS builds it for kernels before 5.17. */
#include <stddef.h>
#include <linux/bpf.h>
#include <linux/bpf_perf_event.h>
#include <bpf/bpf_helpers.h>

#include "tests/accuracy/snapshot_format.h"

const volatile __u32 snapshot_mode = UNWIND_MODE_TABLE;
const volatile __u32 snapshot_ship = 1; /* 0: only the walk, to measure its cost */
#define UNWIND_MODE snapshot_mode

#include "bpf/unwind.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* 32 tail calls, including the first into the loop and the last to the end: 31 x 17 > 512. */
#define FRAMES_PER_CALL 17

struct scratch {
	struct unwind_state state;
	struct pt_regs regs;
	__u64 entry_pc, entry[UNWIND_REGISTERS];
	__u64 begin_ns, walk_ns;
	__u32 pid, tid;
	__u32 in_kernel;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct scratch);
} snapshot_scratch SEC(".maps");
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, struct unwind_process);
} snapshot_processes SEC(".maps");
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, SNAPSHOT_COUNTERS);
	__type(key, __u32);
	__type(value, __u64);
} snapshot_counters SEC(".maps");
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 32 << 20);
} snapshot_ring SEC(".maps");

static __always_inline void count(__u32 which, __u64 by)
{
	__u64 *c = bpf_map_lookup_elem(&snapshot_counters, &which);

	if (c)
		*c += by;
}

/* Field by field and volatile: one instruction must not access two kinds of memory. */
#define TAKE(from)                                                                                 \
	do {                                                                                       \
		s->pc = *(volatile unsigned long *)&(from)->rip;                                   \
		s->reg[0] = *(volatile unsigned long *)&(from)->rax;                               \
		s->reg[1] = *(volatile unsigned long *)&(from)->rdx;                               \
		s->reg[2] = *(volatile unsigned long *)&(from)->rcx;                               \
		s->reg[3] = *(volatile unsigned long *)&(from)->rbx;                               \
		s->reg[4] = *(volatile unsigned long *)&(from)->rsi;                               \
		s->reg[5] = *(volatile unsigned long *)&(from)->rdi;                               \
		s->reg[6] = *(volatile unsigned long *)&(from)->rbp;                               \
		s->reg[7] = *(volatile unsigned long *)&(from)->rsp;                               \
		s->reg[8] = *(volatile unsigned long *)&(from)->r8;                                \
		s->reg[9] = *(volatile unsigned long *)&(from)->r9;                                \
		s->reg[10] = *(volatile unsigned long *)&(from)->r10;                              \
		s->reg[11] = *(volatile unsigned long *)&(from)->r11;                              \
		s->reg[12] = *(volatile unsigned long *)&(from)->r12;                              \
		s->reg[13] = *(volatile unsigned long *)&(from)->r13;                              \
		s->reg[14] = *(volatile unsigned long *)&(from)->r14;                              \
		s->reg[15] = *(volatile unsigned long *)&(from)->r15;                              \
	} while (0)

static __always_inline struct scratch *begin(struct bpf_perf_event_data *ctx)
{
	__u64 id = bpf_get_current_pid_tgid();
	__u32 pid = id >> 32, zero = 0;
	struct unwind_process *p = bpf_map_lookup_elem(&snapshot_processes, &pid);
	struct scratch *sc = bpf_map_lookup_elem(&snapshot_scratch, &zero);
	struct unwind_state *s;

	if (!p || !sc)
		return NULL;
	s = &sc->state;
	unwind_start(s);
	sc->pid = pid;
	sc->tid = (__u32)id;
	s->owner = pid;
	s->process.mappings = *(volatile __u32 *)&p->mappings;
	s->process.mapping_count = *(volatile __u32 *)&p->mapping_count;
	sc->in_kernel = (*(volatile unsigned long *)&ctx->regs.cs & 3) == 0;
	if (sc->in_kernel) {
		struct pt_regs *user = (void *)bpf_task_pt_regs(bpf_get_current_task_btf());

		if (bpf_probe_read_kernel(&sc->regs, sizeof(sc->regs), user)) {
			count(SNAPSHOT_UNREADABLE, 1);
			return NULL;
		}
		TAKE(&sc->regs);
	} else {
		TAKE(&ctx->regs);
		asm volatile(
		    "" ::
			: "memory"); /* else the two copies are merged into one, see TAKE */
	}
	sc->entry_pc = s->pc;
	for (int i = 0; i < UNWIND_REGISTERS; i++)
		sc->entry[i] = s->reg[i];
	sc->begin_ns = bpf_ktime_get_ns();
	return sc;
}

static __always_inline void ship(struct scratch *sc)
{
	struct unwind_state *s = &sc->state;
	struct snapshot_record *r = bpf_ringbuf_reserve(&snapshot_ring, sizeof(*r), 0);
	__u32 pages = 0;

	if (!r) {
		count(SNAPSHOT_LOST, 1);
		return;
	}
	r->pid = sc->pid;
	r->tid = sc->tid;
	r->pc = sc->entry_pc;
	for (int i = 0; i < UNWIND_REGISTERS; i++)
		r->reg[i] = sc->entry[i];
	r->count = s->count;
	r->end = s->end;
	r->in_kernel = sc->in_kernel;
	r->scanned = s->scanned;
	r->by_fp = s->by_fp;
	r->pad = 0;
	r->walk_ns = sc->walk_ns;
	bpf_probe_read_kernel(r->frame, sizeof(r->frame), s->frame);
	r->stack_begin = sc->entry[UNWIND_RSP] & ~(__u64)(SNAPSHOT_PAGE_BYTES - 1);
	for (; pages < SNAPSHOT_STACK_PAGES; pages++) {
		if (bpf_probe_read_user(r->stack + pages * SNAPSHOT_PAGE_BYTES, SNAPSHOT_PAGE_BYTES,
					(void *)(r->stack_begin + pages * SNAPSHOT_PAGE_BYTES)))
			break;
	}
	r->stack_bytes = pages * SNAPSHOT_PAGE_BYTES;
	r->other_begin = s->signal_sp & ~(__u64)(SNAPSHOT_PAGE_BYTES - 1);
	for (pages = 0; s->signal_sp && pages < SNAPSHOT_OTHER_PAGES; pages++) {
		if (bpf_probe_read_user(r->other + pages * SNAPSHOT_PAGE_BYTES, SNAPSHOT_PAGE_BYTES,
					(void *)(r->other_begin + pages * SNAPSHOT_PAGE_BYTES)))
			break;
	}
	r->other_bytes = pages * SNAPSHOT_PAGE_BYTES;
	bpf_ringbuf_submit(r, 0);
}

static __always_inline void end(struct scratch *sc)
{
	unwind_finish(&sc->state);
	sc->walk_ns = bpf_ktime_get_ns() - sc->begin_ns;
	count(SNAPSHOT_TAKEN, 1);
	count(SNAPSHOT_FRAMES, sc->state.count);
	count(SNAPSHOT_WALK_NS, sc->walk_ns);
	if (snapshot_ship)
		ship(sc);
}

#ifdef SNAPSHOT_TAIL_CALLS

enum { CALL_FRAMES = 0, CALL_BLIND, CALL_END, CALL_COUNT };

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, CALL_COUNT);
	__uint(key_size, 4);
	__uint(value_size, 4);
} snapshot_calls SEC(".maps");

SEC("perf_event")
int snapshot_end(struct bpf_perf_event_data *ctx)
{
	__u32 zero = 0;
	struct scratch *sc = bpf_map_lookup_elem(&snapshot_scratch, &zero);

	if (sc)
		end(sc);
	return 0;
}

SEC("perf_event")
int snapshot_frames(struct bpf_perf_event_data *ctx)
{
	__u32 zero = 0;
	struct scratch *sc = bpf_map_lookup_elem(&snapshot_scratch, &zero);
	int rc = UNWIND_MORE;

	if (!sc)
		return 0;
	for (int i = 0; i < FRAMES_PER_CALL; i++) {
		rc = unwind_frame(&sc->state);
		if (rc != UNWIND_MORE)
			break;
	}
	if (rc == UNWIND_MORE)
		bpf_tail_call(ctx, &snapshot_calls, CALL_FRAMES);
	if (rc == UNWIND_BLIND)
		bpf_tail_call(ctx, &snapshot_calls, CALL_BLIND);
	bpf_tail_call(ctx, &snapshot_calls, CALL_END);
	return 0;
}

SEC("perf_event")
int snapshot_blind(struct bpf_perf_event_data *ctx)
{
	__u32 zero = 0;
	struct scratch *sc = bpf_map_lookup_elem(&snapshot_scratch, &zero);

	if (sc && unwind_blind(&sc->state) == UNWIND_MORE)
		bpf_tail_call(ctx, &snapshot_calls, CALL_FRAMES);
	bpf_tail_call(ctx, &snapshot_calls, CALL_END);
	return 0;
}

SEC("perf_event")
int snapshot_sample(struct bpf_perf_event_data *ctx)
{
	if (begin(ctx))
		bpf_tail_call(ctx, &snapshot_calls, CALL_FRAMES);
	return 0;
}

#else

/* bpf_loop passes on only a pointer to the stack. */
struct walk {
	struct scratch *sc;
};

static long one_frame(__u32 index, struct walk *w)
{
	int rc = unwind_frame(&w->sc->state);

	if (rc == UNWIND_BLIND)
		rc = unwind_blind(&w->sc->state);
	return rc;
}

SEC("perf_event")
int snapshot_sample(struct bpf_perf_event_data *ctx)
{
	struct scratch *sc = begin(ctx);
	struct walk walk;

	if (!sc)
		return 0;
	walk.sc = sc;
	bpf_loop(UNWIND_FRAME_MAX + 1, one_frame, &walk, 0);
	end(sc);
	return 0;
}

#endif
