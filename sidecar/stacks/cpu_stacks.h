/* SPDX-License-Identifier: Apache-2.0
 * cpu_stacks.h - CPU stacks in sysomd: samples the registered ranks and their children, keeps the
 * last minutes packed in memory, and extracts what belongs to a window.
 * It samples at 10% of the ticks (sampler.fraction). While a rank of this node has an anomaly open,
 * it samples at every tick, and for a bounded time also takes kernel stacks of all other processes,
 * to name the one that takes the rank's CPUs or locks.
 * Owns: the sampler, the packed periods, a thread for both. Threads: the loop's. */
#pragma once

#include "base/buf.h"
#include "model/os_signal.h"
#include "model/stack.h"
#include "sampler/sampler.h"

struct reader;
struct settings;
/* Opaque. NULL is accepted everywhere: a no-op, zeros, or -ENOSYS. */
struct cpu_stacks;

struct cpu_stacks_stats {
	uint64_t drains, drain_ns, drain_max_ns;
	uint64_t kept_bytes, kept_ns; /* packed periods in memory, and their time span */
	uint64_t strangers;	      /* samples of ended processes whose rank is unknown */
	uint64_t pack_failed;	      /* periods that were too large to keep */
	bool opening; /* loading: ranks are registered, but nothing is sampled yet */
	bool raised;  /* samples at every tick, because an anomaly is open */
	bool wide;    /* also samples other processes: name and kernel stack */
	/* so far: time of wide sampling, how often it began, samples of other processes */
	uint64_t wide_ns, wide_begun, others;
	uint64_t neighbours_lost; /* rows of other processes without room */
};

/* Missing rights or BPF are not an error: the sampler then has SAMPLER_OFF and a reason. Borrows both
 * until the close. */
int cpu_stacks_open(struct cpu_stacks **out, const struct settings *set, struct reader *reader);
void cpu_stacks_close(struct cpu_stacks *s);
void cpu_stacks_watch(struct cpu_stacks *s, uint32_t pid);
void cpu_stacks_unwatch(struct cpu_stacks *s, uint32_t pid);
/* Records every off-CPU interval of these threads of a watched process, and of its first thread.
 * Ignores a tid that is not a thread of the process, because a container has its own numbers. */
void cpu_stacks_record_threads(struct cpu_stacks *s, uint32_t pid, const uint32_t *tids,
			       uint32_t count);
/* Requests a drain when one is due. Samples every tick while `closer`, and for some time after.
 * Never waits. */
void cpu_stacks_tend(struct cpu_stacks *s, bool closer, uint64_t now_ns);
/* Appends what other processes did on the rank's CPUs and locks in [begin, end): OS_SIGNAL_CPU_HOG
 * and OS_SIGNAL_LOCK_PLACE, at most max signals in the list. */
void cpu_stacks_neighbours(struct cpu_stacks *s, uint32_t pid, uint64_t begin_ns, uint64_t end_ns,
			   double step_ms, struct os_signal *list, uint32_t *count, uint32_t max);
/* Whether every tick takes a sample. */
bool cpu_stacks_raised(const struct cpu_stacks *s);
/* Waits until all requested turns are done. False: not done within wait_ms. */
bool cpu_stacks_settle(struct cpu_stacks *s, uint32_t wait_ms);
/* Appends to *out what pid and its descendants did in [begin, end). Drains first if that time was
 * not drained yet, waiting at most 40 ms. 0, -ENOMEM, -ENOSYS without a sampler. */
int cpu_stacks_extract(struct cpu_stacks *s, uint32_t pid, uint64_t begin_ns, uint64_t end_ns,
		       struct stack_batch *out);
/* Copies the packed periods that overlap [begin, end), oldest first, into *out (malloc'ed; the
 * caller frees each buf). Puts into *family which process belongs to which rank's process. Returns
 * the number of periods; -ENOMEM, -ENOSYS without a sampler. Any thread while the node is open. */
struct cpu_stacks_member {
	uint32_t pid, root; /* root 0: of no rank */
};
int cpu_stacks_copy(struct cpu_stacks *s, uint64_t begin_ns, uint64_t end_ns, struct buf **out,
		    struct cpu_stacks_member **family, uint32_t *family_count);
void cpu_stacks_stats_get(struct cpu_stacks *s, struct cpu_stacks_stats *out,
			  struct sampler_stats *sampler);
