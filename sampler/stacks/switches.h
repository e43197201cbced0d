/* SPDX-License-Identifier: Apache-2.0
 * switches.h - turns records and rows of switches (bpf/switch_record.h) into those of a batch.
 * Every off-CPU interval is reported exactly once: if the kernel or this file has no room for it,
 * it is folded into a record of sums. If a thread is off the CPU at a drain, its interval up to
 * then is reported, and that part is cut off the later record.
 * Owns: the recorded threads, and at most LIMIT_SAMPLER_SWITCHES records until the next drain.
 * Threads: one caller. Trust: data comes from our kernel programs; sizes, kinds and numbers are
 * checked anyway. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/sampler_format.h"
#include "model/stack.h"

struct switches;
int switches_open(struct switches **out); /* 0, -ENOMEM */
void switches_close(struct switches *s);  /* NULL is a no-op */
/* Starts to accept the thread's records. 1: new; 0: already there; -ENOSPC; -EAGAIN: an ended
 * thread had this number, which becomes free at the next drain. */
int switches_add(struct switches *s, uint32_t pid, uint32_t tid);
/* Removes the thread without reporting it. */
void switches_forget(struct switches *s, uint32_t tid);
/* Ends the thread's recording at the next drain. False: the thread is not recorded. */
bool switches_end(struct switches *s, uint32_t tid);
/* Does the same for all threads of a process. */
void switches_end_process(struct switches *s, uint32_t pid);
uint32_t switches_count(const struct switches *s);
/* Adds a record from the ring; data is borrowed. */
void switches_put(struct switches *s, const void *data, size_t bytes);
/* Adds a thread's row, which was read after now_ns. The rings are emptied once more after this. */
void switches_row(struct switches *s, uint32_t first_tid, const struct sampler_switch_thread *row,
		  uint64_t now_ns);
/* Call when recording resumes after an interruption: the next row has the new begin. */
void switches_resume(struct switches *s);
/* Finds the index of a key's stack; false: none. */
typedef bool (*switches_stack_fn)(void *arg, const struct sampler_key *k, uint32_t *stack);
/* Appends all data since the last call, ordered. 0, -ENOMEM. */
int switches_drain(struct switches *s, struct stack_batch *b, switches_stack_fn stack, void *arg);
/* After a drain: removes one thread that ended, was ended, or for which gone() returns true. False:
 * none. */
bool switches_gone(struct switches *s, bool (*gone)(void *arg, uint32_t pid, uint32_t tid),
		   void *arg, uint32_t *first_tid, uint32_t *tid);

struct switches_stats {
	uint32_t threads;
	uint64_t records, folded[STACK_SWITCH_CAUSES], missed; /* since open */
};
void switches_stats_get(const struct switches *s, struct switches_stats *out);
