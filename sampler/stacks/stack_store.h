/* SPDX-License-Identifier: Apache-2.0
 * stack_store.h - the stacks from the kernel, by hash, until their counts are drained. A stack
 * stays for its period and the next, and longer if a blocked thread refers to it.
 * Owns: one arena of at most LIMIT_SAMPLER_STACK_BYTES. Threads: one caller. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "bpf/sampler_format.h"

struct stack_store;
int stack_store_open(struct stack_store **out);
void stack_store_close(struct stack_store *s); /* NULL is a no-op */
/* Checks and copies a record of the ring. 0, -EPROTO (not a stack), -ENOSPC, -ENOMEM. */
int stack_store_put(struct stack_store *s, const void *data, size_t bytes);
/* Head and frames, or NULL. Borrowed until the next put or sweep. */
const struct sampler_stack *stack_store_find(const struct stack_store *s, uint64_t hash);
/* Keeps this stack at the next sweep, whatever its period. */
void stack_store_keep(struct stack_store *s, uint64_t hash);
/* Removes stacks that were sent before `epoch` and not kept. */
void stack_store_sweep(struct stack_store *s, uint32_t epoch);
/* Calls fn for each stack that was sent after `epoch`. fn must not put or sweep. */
typedef void (*stack_store_fn)(void *arg, const struct sampler_stack *head);
void stack_store_after(const struct stack_store *s, uint32_t epoch, stack_store_fn fn, void *arg);
