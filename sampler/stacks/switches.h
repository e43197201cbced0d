/* SPDX-License-Identifier: Apache-2.0
 * switches.h - from records and rows of switches (bpf/switch_record.h) to those of a batch.
 * No time off the CPU is told twice and none is left out: what the kernel or this file has no room for is
 * folded into a record of sums. A thread that is off the CPU at a drain is told until then, and the record
 * of that time is cut when it comes.
 * Owns: the threads that are recorded, and at most LIMIT_SAMPLER_SWITCHES records until the next drain.
 * Threads: one caller.  Trust: the kernel's own programs; sizes, kinds and numbers are checked. */
#ifndef SYSOM_SAMPLER_STACKS_SWITCHES_H
#define SYSOM_SAMPLER_STACKS_SWITCHES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/sampler_format.h"
#include "model/stack.h"

struct switches;
int switches_open(struct switches **out); /* 0, -ENOMEM */
void switches_close(struct switches *s);  /* NULL is a no-op */
/* From now on its records count. 1: it is new; 0: it was there; -ENOSPC; -EAGAIN: a thread that ended had
 * that number, and goes with the next drain. */
int switches_add(struct switches *s, uint32_t pid, uint32_t tid);
/* As if it had never been added. */
void switches_forget(struct switches *s, uint32_t tid);
/* The next drain is its last. False: it is not there. */
bool switches_end(struct switches *s, uint32_t tid);
/* The same of all threads of a process. */
void switches_end_process(struct switches *s, uint32_t pid);
uint32_t switches_count(const struct switches *s);
/* A record as it came out of the ring; data is borrowed. */
void switches_put(struct switches *s, const void *data, size_t bytes);
/* A thread's row, read after now_ns; the rings are emptied once more after that. */
void switches_row(struct switches *s, uint32_t first_tid, const struct sampler_switch_thread *row,
		  uint64_t now_ns);
/* Recording was interrupted until now: the next row tells since when it goes on. */
void switches_resume(struct switches *s);
/* Gives the stack's index of what a key names; false: none. */
typedef bool (*switches_stack_fn)(void *arg, const struct sampler_key *k, uint32_t *stack);
/* Appends what was put and seen since the last time, ordered. 0, -ENOMEM. */
int switches_drain(struct switches *s, struct stack_batch *b, switches_stack_fn stack, void *arg);
/* After a drain: takes away one thread that ended, was ended or of which gone() says so. False: none. */
bool switches_gone(struct switches *s, bool (*gone)(void *arg, uint32_t pid, uint32_t tid), void *arg,
		   uint32_t *first_tid, uint32_t *tid);

struct switches_stats {
	uint32_t threads;
	uint64_t records, folded[STACK_SWITCH_CAUSES], folded_ns, missed; /* since open */
};
void switches_stats_get(const struct switches *s, struct switches_stats *out);

#endif
