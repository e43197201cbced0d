/* SPDX-License-Identifier: Apache-2.0
 * python_stitch.c - places runs of Python frames into native stacks. */
#include "sampler/python/python_stitch.h"

#include "sampler/python/python_runtime.h"

struct stitch {
	const struct python_stitch_in *in;
	struct stack_frame *out;
	uint32_t room, count, python;
};

static void put(struct stitch *s, const struct stack_frame *f)
{
	if (s->count < s->room)
		s->out[s->count++] = *f;
}

/* Places the next run. Returns whether it had a frame. */
static bool put_run(struct stitch *s)
{
	bool any = false;

	while (s->python < s->in->python_count) {
		const struct python_frame *f = &s->in->python[s->python];

		if (f->code) {
			put(s, &s->in->named[s->python]);
			any = true;
		}
		s->python++;
		if (f->flags & PYTHON_FRAME_ENTRY)
			break;
	}
	return any;
}

/* The number of native frames that belong to this stack, if an extension began it. Such a stack
 * ends with the extension's frames between the last loop that has a run and the next loop, or where
 * unwinding stopped. 0: no extension began the stack, or its end is unknown. */
static uint32_t own_frames(const struct python_stitch_in *in, uint32_t runs)
{
	uint32_t loops = 0, end = 0;

	for (uint32_t i = 0; in->mark && in->python_whole && i < in->native_count; i++) {
		bool loop = (in->native[i].flags & STACK_FRAME_SHIM) != 0;

		if (in->mark[i] == PYTHON_MARK_SWITCH) {
			if (!loops && runs)
				return 0; /* in the middle of a switch: the owner of these frames is
					   * unknown */
			if (loops == runs && (!end || end == i))
				end = i + 1;
		}
		if (loop && loops++ == runs)
			return end;
	}
	return loops == runs && !in->native_whole ? end : 0;
}

static bool in_a_switch(const struct python_stitch_in *in)
{
	for (uint32_t i = 0; in->mark && i < in->native_count; i++) {
		if (in->mark[i] == PYTHON_MARK_SWITCH)
			return true;
		if (in->native[i].flags & STACK_FRAME_SHIM)
			break;
	}
	return false;
}

enum python_stitch_result python_stitch(const struct python_stitch_in *in, struct stack_frame *out,
					uint32_t room, uint32_t *count)
{
	struct stitch s = {.in = in, .out = out, .room = room};
	uint32_t loops = 0, runs = 0, skip = 0, extra = 0;
	uint32_t own = 0;
	bool open = false; /* the last run is cut */

	for (uint32_t i = 0; i < in->native_count; i++)
		loops += (in->native[i].flags & STACK_FRAME_SHIM) != 0;
	for (uint32_t i = 0; i < in->python_count; i++) {
		open = !(in->python[i].flags & PYTHON_FRAME_ENTRY);
		runs += !open;
	}
	runs += open;
	own = own_frames(in, runs);
	if (own) {
		struct python_stitch_in cut = *in;

		cut.native_count = own;
		cut.native_whole = true;
		python_stitch(&cut, out, room, count);
		return PYTHON_STITCH_ROOT;
	}
	if (in->native_whole && in->python_whole) {
		skip = loops > runs ? loops - runs : 0;
		extra = runs > loops ? runs - loops : 0;
	}
	for (uint32_t i = 0; i < in->native_count; i++) {
		bool loop = (in->native[i].flags & STACK_FRAME_SHIM) != 0;

		if (loop && skip) {
			skip--;
			loop = false;
		}
		/* runs without a native frame come before the first run that has one */
		for (; loop && extra; extra--)
			put_run(&s);
		if (!loop || s.python >= in->python_count || !put_run(&s))
			put(&s, &in->native[i]);
	}
	while (s.python < in->python_count)
		put_run(&s);
	*count = s.count;
	if (in_a_switch(in))
		return PYTHON_STITCH_MISMATCH;
	if (loops == runs && in->native_whole == in->python_whole)
		return PYTHON_STITCH_EXACT;
	if (!in->native_whole && !in->python_whole)
		return loops == runs ? PYTHON_STITCH_EXACT : PYTHON_STITCH_CUT;
	if (in->native_whole && in->python_whole)
		return PYTHON_STITCH_MISMATCH;
	/* a cut stack can only have had more of them */
	return (in->native_whole ? loops >= runs : runs >= loops) ? PYTHON_STITCH_CUT
								  : PYTHON_STITCH_MISMATCH;
}

enum stack_gil python_stitch_gil(enum stack_gil gil, const uint8_t *mark, uint32_t count)
{
	if (gil != STACK_GIL_RELEASED)
		return gil;
	for (uint32_t i = 0; i < count; i++) {
		if (mark[i] == PYTHON_MARK_WAIT)
			return STACK_GIL_WAITER;
		if (mark[i] == PYTHON_MARK_EVAL)
			break;
	}
	return gil;
}
