/* SPDX-License-Identifier: Apache-2.0
 * python_stitch.h - joins the Python frames of a stack with its native frames, at drain time. Each
 * time C code enters the interpreter, the stack has one native frame of the interpreter loop and
 * one run of Python frames. The outermost frame of the run is marked as the entry. A run replaces
 * its native frame. Some extensions switch C stacks (greenlet). Then the Python frames are those of
 * the stack in use, but native unwinding continues into whatever lies above this stack in memory.
 * So the runs belong to the innermost loops, and the stack ends at the extension's frame outside of
 * them.
 * Owns: nothing. Threads: any. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "bpf/python_format.h"
#include "model/stack.h"

struct python_stitch_in {
	const struct stack_frame
	    *native; /* user frames, leaf first; STACK_FRAME_SHIM: of the interpreter loop */
	const uint8_t *mark; /* enum python_mark of each native frame; NULL: none is relevant */
	uint32_t native_count;
	bool native_whole;		   /* the native stack reached its root */
	const struct python_frame *python; /* innermost first; code 0: a run without frames */
	const struct stack_frame *named;   /* the same frames with names, parallel to python */
	uint32_t python_count;
	bool python_whole; /* PYTHON_END_ROOT */
};

enum python_stitch_result {
	PYTHON_STITCH_EXACT = 0, /* there are as many native loop frames as runs */
	PYTHON_STITCH_CUT,	 /* one of the stacks was cut, and the rest agrees */
	PYTHON_STITCH_ROOT,	 /* exact, up to the frame where an extension began this stack.
				  * Native frames beyond belong to another stack and are left out */
	PYTHON_STITCH_MISMATCH,	 /* they disagree: the assignment of runs to loops is a guess */
};

/* Fills out, leaf first, with at most room frames (native_count + python_count always suffice);
 * *count: how many. If the counts differ, complete stacks are aligned at the root, and cut ones at
 * the leaf. Loop frames without a run stay. Runs without a native frame are placed at the next
 * outer run's frame, or at the root. Python frames are dropped only for lack of room. */
enum python_stitch_result python_stitch(const struct python_stitch_in *in, struct stack_frame *out,
					uint32_t room, uint32_t *count);

/* gil: as the kernel saw it. mark: enum python_mark (python_runtime.h) of each native frame, leaf
 * first. A thread without the GIL counts as waiting if its innermost calls take the GIL, even if it
 * was on a CPU and not in futex(2). */
enum stack_gil python_stitch_gil(enum stack_gil gil, const uint8_t *mark, uint32_t count);
