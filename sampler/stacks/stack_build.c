/* SPDX-License-Identifier: Apache-2.0
 * stack_build.c - see stack_build.h. */
#include "sampler/stacks/stack_build.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "sampler/python/python_stitch.h"

#define MEMO_SLOTS	8192u
#define USER_FRAMES_MAX (UNWIND_FRAME_MAX + PYTHON_FRAME_MAX)
/* Frames of the tracepoint and of our own program on top of a sleeping task's kernel stack. */
#define SCHEDULE_DEPTH_MAX 12u

/* Cache of stacks that were already built in this drain; a collision overwrites the slot. */
struct stack_build_memo {
	uint64_t user, kernel, python;
	uint32_t pid, stack;
	uint8_t end, gil_in, gil_out, used, generation;
	bool missing;	 /* part of it never arrived */
	bool mismatched; /* Python and native frames disagree */
	bool guessed;	 /* STACK_END_GUESSED */
	bool early;	 /* a file's table was not ready */
};

struct build {
	struct stack_frame kernel[SAMPLER_KERNEL_FRAME_MAX];
	struct stack_frame native[UNWIND_FRAME_MAX];
	struct stack_frame named[PYTHON_FRAME_MAX];
	struct stack_frame whole[SAMPLER_KERNEL_FRAME_MAX + USER_FRAMES_MAX];
	uint8_t mark[UNWIND_FRAME_MAX];
	uint32_t kernel_count, native_count, named_count, count;
	bool early;   /* a native frame's file had no table yet, but gets one */
	bool guessed; /* a frame was found without a rule, or perhaps with another file's */
};

int stack_build_init(struct stack_build *b)
{
	b->memo = calloc(MEMO_SLOTS, sizeof(*b->memo));
	return b->memo ? 0 : -ENOMEM;
}

void stack_build_fini(struct stack_build *b)
{
	free(b->memo);
	b->memo = NULL;
}

void stack_build_begin(struct stack_build *b, struct stack_batch *batch, uint64_t begin_ns,
		       uint64_t slice_ns)
{
	memset(b->memo, 0, MEMO_SLOTS * sizeof(*b->memo));
	b->batch = batch;
	b->begin_ns = begin_ns;
	b->slice_ns = slice_ns;
}

static uint32_t string_of(struct stack_build *b, const char *text)
{
	uint32_t index;

	if (!text || !text[0] || stack_batch_string(b->batch, text, strlen(text), &index))
		return 0;
	return index;
}

static void kernel_frames(struct stack_build *b, const struct sampler_stack *head, bool off_cpu,
			  struct build *w)
{
	const uint64_t *address = (const void *)(head + 1);
	uint32_t schedule = 0;

	for (uint32_t i = 0; i < head->count && i < SAMPLER_KERNEL_FRAME_MAX; i++) {
		struct stack_frame *f = &w->kernel[w->kernel_count];
		const char *name;
		uint64_t offset;

		if (address[i] >= (uint64_t)-4095) /* a marker of the kernel, not an address */
			continue;
		name = kernel_symbols_find(b->kernel, address[i] - (i ? 1 : 0), &offset);
		memset(f, 0, sizeof(*f));
		f->kind = STACK_FRAME_KERNEL;
		f->flags = i ? STACK_FRAME_RETURN : 0;
		f->address = offset + (i && name[0] ? 1 : 0);
		f->object = string_of(b, name);
		if (off_cpu && w->kernel_count < SCHEDULE_DEPTH_MAX && !strcmp(name, "__schedule"))
			schedule = w->kernel_count;
		w->kernel_count++;
	}
	w->kernel_count -= schedule;
	memmove(w->kernel, w->kernel + schedule, w->kernel_count * sizeof(*w->kernel));
}

/* The file that contains a process's interpreter; 0: none. */
static uint32_t python_file(const struct process *process)
{
	if (!process || !process->python)
		return 0;
	for (uint32_t i = 0; i < process->count; i++) {
		if (process->mappings[i].file &&
		    process->mappings[i].load_bias == process->python->bias)
			return process->mappings[i].file;
	}
	return 0;
}

/* Whether the file is an extension that runs Python functions on its own stacks, which it swaps by
 * copying. */
static bool switches_stacks(const char *path)
{
	const char *name = path ? strrchr(path, '/') : NULL;

	return name && !strncmp(name + 1, "_greenlet", 9);
}

static void native_frames(struct stack_build *b, const struct sampler_stack *head,
			  const struct process *process, uint8_t generation, struct build *w)
{
	const uint64_t *from = (const void *)(head + 1);
	uint32_t interpreter = python_file(process);

	for (uint32_t i = 0; i < head->count && i < UNWIND_FRAME_MAX; i++) {
		uint32_t file =
		    (uint32_t)(from[i] >> SAMPLER_FRAME_FILE_SHIFT) & SAMPLER_FRAME_FILE_MASK;
		const struct process_file *f =
		    from[i] & SAMPLER_FRAME_ANONYMOUS ? NULL : processes_file(b->processes, file);
		struct stack_frame *to = &w->native[w->native_count];

		memset(to, 0, sizeof(*to));
		to->flags = (uint8_t)((from[i] & SAMPLER_FRAME_RETURN ? STACK_FRAME_RETURN : 0) |
				      (from[i] & SAMPLER_FRAME_SCANNED ? STACK_FRAME_SCANNED : 0) |
				      (from[i] & SAMPLER_FRAME_FP ? STACK_FRAME_FP : 0));
		w->guessed |= (to->flags & (STACK_FRAME_SCANNED | STACK_FRAME_FP)) != 0;
		to->kind = STACK_FRAME_ANONYMOUS;
		to->address = from[i] & UNWIND_FRAME_PC;
		w->mark[w->native_count] = PYTHON_MARK_NONE;
		if (f) {
			w->guessed |= process && process_replaced(process, generation, file);
			to->kind = STACK_FRAME_NATIVE;
			to->address = (from[i] & ((1ull << SAMPLER_FRAME_OFFSET_BITS) - 1)) +
				      (from[i] & SAMPLER_FRAME_BARE ? f->base_bare : f->base_table);
			if (stack_batch_object(b->batch, f->elf.build_id, f->elf.build_id_bytes,
					       f->path ? f->path : "", &to->object))
				continue;
			if (process && process->python && switches_stacks(f->path))
				w->mark[w->native_count] = PYTHON_MARK_SWITCH;
			w->early |= (from[i] & SAMPLER_FRAME_BARE) && !f->refused &&
				    (f->waiting || f->tabled);
		}
		if (f && interpreter && file == interpreter) {
			uint64_t pc = to->address + process->python->bias -
				      (to->flags & STACK_FRAME_RETURN ? 1 : 0);

			w->mark[w->native_count] =
			    (uint8_t)python_runtime_mark(process->python, pc);
			if (w->mark[w->native_count] == PYTHON_MARK_EVAL)
				to->flags |= STACK_FRAME_SHIM;
		}
		w->native_count++;
	}
}

/* Whether the code object was freed after the sample, and a module's code now has its address. The
 * interpreter calls a module's code only from C, so such a frame must begin an entry or be the
 * outermost. */
static bool is_reused(const struct python_frame *f, bool outermost, const char *function)
{
	return !outermost && !(f->flags & PYTHON_FRAME_ENTRY) && !strcmp(function, "<module>");
}

/* For a process that has ended, names that were read and checked in this period are still valid. */
static void python_frames(struct stack_build *b, const struct sampler_stack *head,
			  struct process *process, struct build *w)
{
	const struct python_frame *from =
	    (const void *)((const char *)(head + 1) + offsetof(struct python_state, frame));

	for (uint32_t i = 0; i < head->count && i < PYTHON_FRAME_MAX; i++) {
		struct stack_frame *to = &w->named[w->named_count++];
		struct python_name name = {0};

		memset(to, 0, sizeof(*to));
		to->kind = STACK_FRAME_PYTHON;
		if (!from[i].code)
			continue;
		if (!process->names || python_names_find(process->names, NULL, &from[i], &name) ||
		    is_reused(&from[i], i + 1 == head->count, name.function)) {
			b->unnamed++;
			to->object = b->batch ? string_of(b, STACK_NO_NAME) : 0;
			continue;
		}
		if (b->batch) {
			to->object = string_of(b, name.function);
			to->file = string_of(b, name.file);
		}
		to->line = name.line;
	}
}

void stack_build_warm(struct stack_build *b, const struct sampler_stack *head)
{
	struct process *process = processes_find(b->processes, head->pid);
	uint64_t unnamed = b->unnamed;
	static struct build w; /* large, and used by one caller */
	struct stack_batch *batch = b->batch;

	if (!process || !process->names || head->kind != SAMPLER_STACK_PYTHON)
		return;
	b->batch = NULL;
	w.named_count = 0;
	python_frames(b, head, process, &w);
	b->batch = batch;     /* stacks also arrive while the batch is filled */
	b->unnamed = unnamed; /* unnamed frames are counted when they are drained */
}

static const struct sampler_stack *stack_of(struct stack_build *b, uint64_t hash, uint8_t kind,
					    bool *missing)
{
	const struct sampler_stack *head = hash ? stack_store_find(b->stacks, hash) : NULL;

	if (hash && (!head || head->kind != kind)) {
		*missing = true;
		return NULL;
	}
	return head;
}

/* Joins native and Python frames into whole, after the kernel's. */
static enum python_stitch_result join(struct build *w, const struct sampler_stack *python,
				      enum stack_end end)
{
	enum python_stitch_result result;
	const char *state = python ? (const char *)(python + 1) : NULL;
	struct python_stitch_in in = {
	    .native = w->native,
	    .mark = w->mark,
	    .native_count = w->native_count,
	    .native_whole = end == STACK_END_ROOT,
	    .named = w->named,
	    .python_count = w->named_count,
	};
	uint32_t count = 0;

	w->count = w->kernel_count;
	memcpy(w->whole, w->kernel, w->kernel_count * sizeof(*w->whole));
	if (!python) {
		memcpy(w->whole + w->count, w->native, w->native_count * sizeof(*w->whole));
		w->count += w->native_count;
		for (uint32_t i = 0; i < w->native_count; i++)
			if (w->native[i].flags & STACK_FRAME_SHIM)
				return PYTHON_STITCH_MISMATCH; /* their Python frames are unknown */
		return PYTHON_STITCH_EXACT;
	}
	in.python = (const void *)(state + offsetof(struct python_state, frame));
	in.python_whole = (uint8_t)state[offsetof(struct python_state, end)] == PYTHON_END_ROOT;
	result = python_stitch(&in, w->whole + w->count, USER_FRAMES_MAX, &count);
	w->count += count;
	return result;
}

static int make_stack(struct stack_build *b, const struct sampler_key *k,
		      struct stack_build_memo *memo)
{
	const struct sampler_stack *kernel =
	    stack_of(b, k->kernel_hash, SAMPLER_STACK_KERNEL, &memo->missing);
	const struct sampler_stack *user =
	    stack_of(b, k->user_hash, SAMPLER_STACK_USER, &memo->missing);
	const struct sampler_stack *python =
	    stack_of(b, k->python_hash, SAMPLER_STACK_PYTHON, &memo->missing);
	struct process *process = processes_find(b->processes, k->pid);
	enum stack_end end = k->end < STACK_END_COUNT ? (enum stack_end)k->end : STACK_END_FAULT;
	static struct build w; /* large, and used by one caller */
	enum python_stitch_result joined;

	w.kernel_count = w.native_count = w.named_count = w.count = 0;
	w.early = w.guessed = false;
	if (kernel)
		kernel_frames(b, kernel, k->kind == SAMPLER_OFF_CPU, &w);
	if (user)
		native_frames(b, user, process, k->generation, &w);
	if (python && process)
		python_frames(b, python, process, &w);
	/* frames were guessed because the table was not ready, so the root is not certain */
	memo->early = w.early && end == STACK_END_ROOT;
	if (memo->early)
		end = STACK_END_NO_TABLE;
	joined = join(&w, python && process ? python : NULL, end);
	memo->mismatched = joined == PYTHON_STITCH_MISMATCH;
	if (joined == PYTHON_STITCH_ROOT)
		end = STACK_END_ROOT; /* everything beyond belongs to another stack */
	memo->guessed = memo->mismatched || (w.guessed && end == STACK_END_ROOT);
	if (memo->guessed)
		end = STACK_END_GUESSED;
	memo->gil_out = (uint8_t)python_stitch_gil((enum stack_gil)k->gil, w.mark, w.native_count);
	return stack_batch_stack(b->batch, w.whole, w.count, w.kernel_count, end, &memo->stack);
}

static struct stack_build_memo *memo_of(struct stack_build *b, const struct sampler_key *k)
{
	uint64_t h =
	    hash_mix(k->user_hash ^ hash_mix(k->kernel_hash ^ hash_mix(k->python_hash ^ k->pid)));
	struct stack_build_memo *memo = &b->memo[h & (MEMO_SLOTS - 1)];

	if (memo->used && memo->user == k->user_hash && memo->kernel == k->kernel_hash &&
	    memo->python == k->python_hash && memo->pid == k->pid && memo->end == k->end &&
	    memo->gil_in == k->gil && memo->generation == k->generation)
		return memo;
	memset(memo, 0, sizeof(*memo));
	memo->user = k->user_hash;
	memo->kernel = k->kernel_hash;
	memo->python = k->python_hash;
	memo->pid = k->pid;
	memo->end = k->end;
	memo->gil_in = k->gil;
	memo->generation = k->generation;
	memo->used = !make_stack(b, k, memo);
	return memo->used ? memo : NULL;
}

/* The start of a slice. Its number is CLOCK_MONOTONIC divided by the slice length, cut to 32 bits,
 * so of the possible starts it takes the one nearest to the period. */
static uint64_t slice_begin(const struct stack_build *b, uint32_t slice)
{
	uint64_t now = b->slice_ns ? b->begin_ns / b->slice_ns : 0;

	if (!b->slice_ns)
		return b->begin_ns;
	return (uint64_t)((int64_t)now + (int32_t)(slice - (uint32_t)now)) * b->slice_ns;
}

void stack_build_count(struct stack_build *b, const struct sampler_key *k,
		       const struct sampler_count *c)
{
	struct stack_build_memo *memo = memo_of(b, k);
	struct stack_sample s = {0};
	char name[sizeof(c->comm) + 1] = "";

	if (!memo) {
		b->refused += c->count;
		return;
	}
	b->missing += memo->missing ? c->count : 0;
	b->mismatched += memo->mismatched ? c->count : 0;
	b->guessed += memo->guessed ? c->count : 0;
	b->early += memo->early ? c->count : 0;
	s.time_ns = slice_begin(b, k->slice);
	s.weight_ns = c->weight_ns;
	s.pid = k->pid;
	s.tid = k->tid;
	s.stack = memo->stack;
	s.count = c->count;
	s.kind = k->kind;
	s.gil = memo->gil_out;
	s.cpu = (uint16_t)c->cpu;
	s.waker_tid = c->waker_tid;
	memcpy(name, c->comm, sizeof(c->comm));
	s.comm = string_of(b, name);
	memcpy(name, c->waker_comm, sizeof(c->waker_comm));
	s.waker_comm = string_of(b, name);
	if (stack_batch_sample(b->batch, &s))
		b->refused += c->count;
}

int stack_build_stack(struct stack_build *b, const struct sampler_key *k, uint32_t *stack)
{
	const struct stack_build_memo *memo = memo_of(b, k);

	if (!memo)
		return -E2BIG;
	*stack = memo->stack;
	return 0;
}
