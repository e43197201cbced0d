/* SPDX-License-Identifier: Apache-2.0
 * frame_class.h - how much a stack's frame says about what its thread does. Pure. Threads: any. */
#pragma once

#include "model/stack.h"

/* The library of a native frame, without its folder; "": it has none. Borrowed from the batch. */
const char *frame_class_library(const struct stack_batch *b, const struct stack_frame *f);
/* Whether the frame is in the C runtime. Its functions show how a thread waits, but not for
 * what. */
bool frame_class_is_runtime(const struct stack_batch *b, const struct stack_frame *f);
/* How much the frame says. 0: nothing, because it has no name or every program calls it; 1: a
 * native function; 2: a function of Python's standard library; FRAME_CLASS_MOST: other Python code.
 * Not for kernel frames. */
#define FRAME_CLASS_MOST 3
int frame_class_informative(const struct stack_batch *b, const struct stack_frame *f);
