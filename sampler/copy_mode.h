/* SPDX-License-Identifier: Apache-2.0
 * copy_mode.h - sampling without BPF. The kernel copies a piece of each user stack, and the sampler
 * unwinds the copy itself (unwind_replay.h). An ordinary user can sample their own processes this
 * way if kernel.perf_event_paranoid is 2 or less; kernel stacks need 1 or less, or CAP_PERFMON.
 * This mode has no off-CPU time and no Python frames. Owns: perf events per thread and CPU, their
 * rings, the copies until they are drained. Threads: one caller. Trust: stacks are hostile; only
 * readers read files. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/stack.h"
#include "sampler/kernel_symbols.h"
#include "sampler/processes.h"

struct copy_mode_stats {
	uint64_t samples, frames, lost, scanned;
	uint64_t unmapped; /* user stacks lost because the process's mappings were not read yet */
	uint64_t end[STACK_END_COUNT];
};

struct copy_mode_settings {
	uint64_t period_ns; /* CPU time of a thread between two samples */
	uint64_t weight_ns; /* CPU time that one sample stands for */
	uint64_t slice_ns;  /* length of a slice; 0: one slice per drain */
};

struct copy_mode;
/* processes: must have no sink, and keep their tables in store. All are borrowed until close. 0, or
 * -errno and the reason in `why`. */
int copy_mode_open(struct copy_mode **out, struct processes *processes,
		   const struct unwind_store *store, struct kernel_symbols *kernel,
		   const char *proc_root, const struct copy_mode_settings *settings, char why[160],
		   char missing[160]);
void copy_mode_close(struct copy_mode *c); /* NULL is a no-op */
/* Samples all present and future threads of the process. 0, -ESRCH, -EACCES, -EMFILE. */
int copy_mode_add(struct copy_mode *c, uint32_t pid);
int copy_mode_settings_set(struct copy_mode *c, const struct copy_mode_settings *settings);
int copy_mode_fd(const struct copy_mode *c);
/* Reads the rings: notes mappings, unwinds samples. */
void copy_mode_poll(struct copy_mode *c);
/* Appends the samples since the last call. */
int copy_mode_drain(struct copy_mode *c, struct stack_batch *b);
void copy_mode_stats_get(const struct copy_mode *c, struct copy_mode_stats *out);
