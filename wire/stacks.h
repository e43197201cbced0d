/* SPDX-License-Identifier: Apache-2.0
 * stacks.h - a stack batch as one packed block (docs/wire-format.md, "stacks").
 * Threads: any. Trust: stacks_unpack takes hostile bytes. base/limits.h and the number of bytes
 * bound every count before anything is allocated, and the result passes stack_batch_valid. */
#pragma once

#include "base/buf.h"
#include "model/stack.h"

/* Appends the block. 0, -EINVAL (a batch that is not valid), -EMSGSIZE beyond the bounds,
 * -ENOMEM. */
int stacks_pack(const struct stack_batch *b, struct buf *out);
/* Fills an empty batch that the caller has initialised. Equal strings, stacks and samples are merged.
 * -EPROTO, -EMSGSIZE, -ENOMEM. */
int stacks_unpack(const void *data, size_t bytes, struct stack_batch *b);
/* The same with other bounds; -EMSGSIZE above them. max_bytes: of the unpacked block. frames_max:
 * of the frames of all stacks together, counting a shared frame in each stack; at most
 * LIMIT_WINDOW_STACK_FRAMES. */
int stacks_unpack_within(const void *data, size_t bytes, size_t max_bytes, size_t frames_max,
			 struct stack_batch *b);
