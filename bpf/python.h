/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 * python.h - walks the Python frames of the current thread, without names. The walk is bounded for any
 * memory contents. Compiles for BPF (with PYTHON_BPF_LOOP for kernels with bpf_loop) and for user space
 * (read_user.h). Reads once per frame, at most PYTHON_STEP_MAX frames and PYTHON_THREAD_MAX thread states.
 * Threads: the walked thread is the current one (BPF) or stopped. Other threads may change what is read;
 * then the walk ends as FAULT or GARBAGE, or gives meaningless frames, but no other harm. */
#pragma once

#include "bpf/python_format.h"
#include "bpf/read_user.h"

#ifdef __clang__
#define PYTHON_ROLLED _Pragma("clang loop unroll(disable)")
#else
#define PYTHON_ROLLED
#endif

/* Fields of the last struct read to scratch. The masks keep any offset inside it. */
static __always_inline __u64 python_word(const struct python_state *s, __u32 offset)
{
	return s->scratch[(offset >> 3) & (PYTHON_SCRATCH_WORDS - 1)];
}

static __always_inline __u32 python_half(const struct python_state *s, __u32 offset)
{
	return (__u32)(python_word(s, offset) >> ((offset & 4) * 8));
}

static __always_inline __u32 python_byte(const struct python_state *s, __u32 offset)
{
	return (__u32)(python_word(s, offset) >> ((offset & 7) * 8)) & 0xff;
}

static __always_inline int python_read(struct python_state *s, __u32 bytes, __u64 address)
{
	return read_user_bytes(s->scratch, bytes & (PYTHON_SCRATCH_BYTES - 1), address) != 0;
}

/* Whether an object can have this address. */
static __always_inline int python_pointer(__u64 address)
{
	return address >= 4096 && address < (1ull << 47) && !(address & 7);
}

/* The thread's thread state from its thread-specific data; 0: none. */
static __always_inline __u64 python_tstate_tsd(struct python_state *s,
					       const struct python_process *p)
{
	__u64 base = s->fsbase, tstate;

	if (p->tsd_block) {
		if (read_user_bytes(&base, sizeof(base), s->fsbase + (__u64)p->tsd_block) || !base)
			return 0;
	}
	if (read_user_bytes(&tstate, sizeof(tstate), base + (__u64)p->tsd_slot))
		return 0;
	return tstate;
}

/* The same from the interpreter's list of threads: pthread_self() is fsbase in glibc and musl. */
static __always_inline __u64 python_tstate_list(struct python_state *s,
						const struct python_process *p)
{
	__u64 tstate = 0;

	if (read_user_bytes(&tstate, sizeof(tstate), p->interp + p->threads_head))
		return 0;
	PYTHON_ROLLED
	for (__u32 i = 0; i < PYTHON_THREAD_MAX; i++) {
		if (!python_pointer(tstate) || python_read(s, p->tstate_bytes, tstate))
			return 0;
		if (python_word(s, p->tstate_thread_id) == s->fsbase)
			return tstate;
		tstate = python_word(s, p->tstate_next);
	}
	return 0;
}

/* Before 3.12 thread-specific data has the first interpreter's thread state. Another interpreter's state in
 * the same thread is known only while it holds the GIL. */
static __always_inline void python_current(struct python_state *s, const struct python_process *p)
{
	__u64 current = 0, thread_id = 0;

	if (read_user_bytes(&current, sizeof(current), p->current)) {
		s->gil = PYTHON_GIL_UNKNOWN;
		return;
	}
	s->holder = current;
	if (!python_pointer(current) || current == s->tstate)
		return;
	if (!read_user_bytes(&thread_id, sizeof(thread_id), current + p->tstate_thread_id) &&
	    thread_id == s->fsbase)
		s->tstate = current;
}

/* From 3.12 on: the holder that the interpreter's GIL names. */
static __always_inline __u64 python_gil_read(struct python_state *s, const struct python_process *p,
					     __u64 interp)
{
	__u64 gil = p->gil;

	if (interp != p->interp && read_user_bytes(&gil, sizeof(gil), interp + p->interp_gil))
		gil = 0;
	if (!python_pointer(gil) || python_read(s, 32, gil)) {
		s->gil = PYTHON_GIL_UNKNOWN;
		return 0;
	}
	if (python_half(s, p->gil_locked) == 1)
		s->holder = python_word(s, p->gil_holder);
	return gil;
}

static __always_inline void python_gil(struct python_state *s, const struct python_process *p,
				       __u64 interp)
{
	__u64 gil = p->gil;

	if (!p->current)
		gil = python_gil_read(s, p, interp);
	if (s->gil == PYTHON_GIL_UNKNOWN)
		return;
	if (s->holder == s->tstate)
		s->gil = PYTHON_GIL_HOLDER;
	else if (s->futex >= gil && s->futex < gil + p->gil_bytes)
		s->gil = PYTHON_GIL_WAITER;
	else
		s->gil = PYTHON_GIL_RELEASED;
}

/* A shim frame stands where C entered the interpreter: the frame before it was the last of its run. If
 * there is none before it, the interpreter is entering or leaving and has no Python frame. */
static __always_inline void python_shim(struct python_state *s)
{
	struct python_frame *f;

	if (s->count) {
		f = &s->frame[(s->count - 1) & (PYTHON_FRAME_MAX - 1)];
		if (!(f->flags & PYTHON_FRAME_ENTRY)) {
			f->flags |= PYTHON_FRAME_ENTRY;
			return;
		}
	}
	if (s->count < PYTHON_FRAME_MAX) {
		f = &s->frame[s->count & (PYTHON_FRAME_MAX - 1)];
		f->code = 0;
		f->instr = 0;
		f->flags = PYTHON_FRAME_ENTRY;
		s->count++;
	}
}

/* Takes the frame at *address and moves *address to its caller. 0; 1: s->end is set. */
static __always_inline int python_step(struct python_state *s, const struct python_process *p,
				       __u64 *address)
{
	struct python_frame *f;
	__u64 code, instr, previous;
	__u32 owner;

	if (!python_pointer(*address) || python_read(s, p->frame_bytes, *address)) {
		s->end = PYTHON_END_FAULT;
		return 1;
	}
	code = python_word(s, p->frame_code) & p->tag_mask;
	previous = python_word(s, p->frame_previous);
	owner = python_byte(s, p->frame_owner);
	if (previous == *address)
		goto garbage;
	*address = previous;
	if (p->layout == PYTHON_LAYOUT_SHIM && owner >= p->shim_owner) {
		if (owner == p->shim_owner)
			python_shim(s);
		else if (owner > p->shim_owner + 1u)
			goto garbage;
		return 0;
	}
	if (!python_pointer(code))
		goto garbage;
	if (s->count >= PYTHON_FRAME_MAX) {
		s->end = PYTHON_END_DEPTH;
		return 1;
	}
	f = &s->frame[s->count & (PYTHON_FRAME_MAX - 1)];
	f->code = code;
	f->flags = 0;
	if (p->layout == PYTHON_LAYOUT_OBJECT) {
		f->instr = python_half(s, p->frame_instr);
		f->flags = PYTHON_FRAME_ENTRY;
	} else {
		instr = python_word(s, p->frame_instr) - code;
		if (instr >= PYTHON_CODE_BYTES_MAX)
			goto garbage;
		f->instr = (__u32)instr;
		if (p->layout == PYTHON_LAYOUT_ENTRY && owner)
			f->flags = PYTHON_FRAME_ENTRY;
	}
	s->count++;
	return 0;
garbage:
	s->end = PYTHON_END_GARBAGE;
	return 1;
}

#ifdef PYTHON_BPF_LOOP

/* With bpf_loop the verifier checks a step once instead of 384 times. */
struct python_loop {
	struct python_state *s;
	const struct python_process *p;
	__u64 frame;
};

static long python_loop_step(__u32 index, struct python_loop *l)
{
	return !l->frame || python_step(l->s, l->p, &l->frame);
}

static __always_inline void python_frames(struct python_state *s, const struct python_process *p,
					  __u64 frame)
{
	struct python_loop l = {s, p, frame};

	if (bpf_loop(PYTHON_STEP_MAX, python_loop_step, &l, 0) >= PYTHON_STEP_MAX && l.frame &&
	    s->end == PYTHON_END_ROOT)
		s->end = PYTHON_END_DEPTH;
}

#else

static __always_inline void python_frames(struct python_state *s, const struct python_process *p,
					  __u64 frame)
{
	PYTHON_ROLLED
	for (__u32 i = 0; i < PYTHON_STEP_MAX; i++) {
		if (!frame)
			return;
		if (python_step(s, p, &frame))
			return;
	}
	if (frame)
		s->end = PYTHON_END_DEPTH;
}

#endif

/* Fills the output fields of s. The caller has set fsbase and futex; the process has an interpreter. */
static __always_inline void python_walk(struct python_state *s, const struct python_process *p)
{
	__u64 frame, interp;

	s->count = 0;
	s->holder = 0;
	s->gil = PYTHON_GIL_NONE;
	s->end = PYTHON_END_NONE;
	s->tstate = p->tsd_slot ? python_tstate_tsd(s, p) : python_tstate_list(s, p);
	if (p->current)
		python_current(s, p);
	if (!s->tstate) {
		s->gil = PYTHON_GIL_NONE;
		return;
	}
	if (!python_pointer(s->tstate) || python_read(s, p->tstate_bytes, s->tstate)) {
		s->end = PYTHON_END_FAULT;
		s->gil = PYTHON_GIL_UNKNOWN;
		return;
	}
	frame = python_word(s, p->tstate_frame);
	interp = python_word(s, p->tstate_interp);
	if (python_word(s, p->tstate_thread_id) != s->fsbase || !python_pointer(interp)) {
		s->end = PYTHON_END_GARBAGE;
		s->gil = PYTHON_GIL_UNKNOWN;
		return;
	}
	python_gil(s, p, interp);
	if (p->cframe_bytes) {
		if (!python_pointer(frame) || python_read(s, p->cframe_bytes, frame)) {
			s->end = PYTHON_END_FAULT;
			return;
		}
		frame = python_word(s, p->cframe_frame);
	}
	s->end = PYTHON_END_ROOT;
	python_frames(s, p, frame);
}
