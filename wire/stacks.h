/* SPDX-License-Identifier: Apache-2.0
 * stacks.h - a stack batch as one packed block (docs/wire-format.md, "stacks").
 * Threads: any. Trust: stacks_unpack takes hostile bytes; every count is bounded by base/limits.h and
 * by what the bytes can hold before anything is allocated, and what it returns is valid by
 * stack_batch_valid. */
#ifndef SYSOM_WIRE_STACKS_H
#define SYSOM_WIRE_STACKS_H

#include "base/buf.h"
#include "model/stack.h"

/* Appends the block. 0, -EMSGSIZE past the bounds, -ENOMEM. */
int stacks_pack(const struct stack_batch *b, struct buf *out);
/* Fills an empty batch that the caller has initialised; max_bytes bounds what the block unpacks to.
 * Equal strings, stacks and samples come back as one. -EPROTO, -EMSGSIZE, -ENOMEM. */
int stacks_unpack(const void *data, size_t bytes, size_t max_bytes, struct stack_batch *b);
/* Of at most so many frames of all stacks, unfolded (at most LIMIT_WINDOW_STACK_FRAMES); else -EMSGSIZE. */
int stacks_unpack_within(const void *data, size_t bytes, size_t max_bytes, size_t frames_max,
			 struct stack_batch *b);

#endif
