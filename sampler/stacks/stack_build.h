/* SPDX-License-Identifier: Apache-2.0
 * stack_build.h - turns the kernel's counts into model/stack.h: kernel frames get names, native
 * frames get their file, and named Python frames replace the interpreter's frames.
 * Owns: a cache for one drain. Threads: one caller. */
#pragma once

#include "bpf/sampler_format.h"
#include "model/stack.h"
#include "sampler/kernel_symbols.h"
#include "sampler/processes.h"
#include "sampler/stacks/stack_store.h"

struct stack_build {
	struct stack_store *stacks;
	struct processes *processes;
	struct kernel_symbols *kernel;
	/* per drain */
	struct stack_batch *batch;
	uint64_t begin_ns, slice_ns;
	struct stack_build_memo *memo;
	uint64_t missing;    /* samples whose stack never arrived from the kernel, since open */
	uint64_t unnamed;    /* Python frames without a name, since open */
	uint64_t refused;    /* samples beyond the batch's bounds, since open */
	uint64_t mismatched; /* samples whose Python and native stacks disagree, since open */
	uint64_t guessed;    /* samples with STACK_END_GUESSED, since open */
	/* samples that end at a root which was found before a file's table was ready */
	uint64_t early;
};

/* The pointers above are borrowed until fini. 0, -ENOMEM. */
int stack_build_init(struct stack_build *b);
void stack_build_fini(struct stack_build *b);
/* Begins a drain into *batch. */
void stack_build_begin(struct stack_build *b, struct stack_batch *batch, uint64_t begin_ns,
		       uint64_t slice_ns);
/* Adds one count. */
void stack_build_count(struct stack_build *b, const struct sampler_key *k,
		       const struct sampler_count *c);
/* The stack for a count with this key. 0, -E2BIG or -ENOMEM. */
int stack_build_stack(struct stack_build *b, const struct sampler_key *k, uint32_t *stack);
/* Requests the names of a Python stack's code objects while the process still has them. */
void stack_build_warm(struct stack_build *b, const struct sampler_stack *head);
