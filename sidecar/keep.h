/* SPDX-License-Identifier: Apache-2.0
 * keep.h - keeps on disk what the ranks' models learned, for the next sysomd.
 * Owns: the files below state.dir/baseline (baseline.h).  Threads: the loop's. */
#pragma once

#include <stdint.h>

struct keep; /* opaque */
struct process;

struct keep_stats {
	/* restored: processes; ready: processes that were judged at once; steps: number of restored
	 * steps */
	uint64_t restored, ready, steps;
	uint64_t bad, errors; /* files refused; files that could not be written */
};

/* If the directory is unusable, logs this, and keeps nothing. -ENOMEM. */
int keep_open(struct keep **out, const char *state_dir);
/* Leaves the files on disk. NULL is a no-op. */
void keep_close(struct keep *k);
/* Restores the models. Call before the process's first record. */
void keep_restore(struct keep *k, struct process *p);
/* Saves the next process that has learned enough since its last save; at most one per call.
 * processes: LIMIT_NODE_PROCESSES, NULL where free. */
void keep_tend(struct keep *k, struct process *const *processes, uint64_t now_ns);
/* Saves all live processes. NULL k is a no-op. */
void keep_all(struct keep *k, struct process *const *processes, uint64_t now_ns);
/* Number of processes whose models learned something that is not saved yet. */
uint32_t keep_due(const struct keep *k, struct process *const *processes, uint64_t now_ns);
void keep_forget(struct keep *k, struct process *p); /* the process has ended */
void keep_stats_get(const struct keep *k, struct keep_stats *out);
