/* SPDX-License-Identifier: Apache-2.0
 * cpu_stacks.h - CPU stacks in sysomd: samples the registered ranks and their children, keeps the
 * last minutes packed in memory, hands out what belongs to a window. Takes 10% of the ticks
 * (sampler.fraction) as long as nothing is wrong, and all of them while a rank of this node has an
 * anomaly open; then, for a bounded time, it also takes kernel stacks of every other process, so that one
 * that takes the rank's CPUs or its locks is named.
 * Owns: the sampler, the packed periods, a thread for both.  Threads: the loop's. */
#ifndef SYSOM_SIDECAR_STACKS_CPU_STACKS_H
#define SYSOM_SIDECAR_STACKS_CPU_STACKS_H

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
	uint64_t kept_bytes, kept_ns; /* packed periods in memory, and how far back they reach */
	uint64_t strangers;   /* samples of processes whose rank is not known (they ended) */
	uint64_t pack_failed; /* periods that were too large to be kept */
	bool opening;	      /* being loaded: ranks are noted, nothing is sampled yet */
	bool raised;	      /* all ticks, since an anomaly is open */
	bool wide;	      /* and others' processes, by name and kernel stack */
	uint64_t wide_ns, wide_begun, others; /* so far: time, times, samples of others */
	uint64_t neighbours_lost;	      /* rows of them that found no room */
};

/* Never fails for want of rights or BPF: the sampler then says SAMPLER_OFF and why. Borrows both
 * until the close. */
int cpu_stacks_open(struct cpu_stacks **out, const struct settings *set, struct reader *reader);
void cpu_stacks_close(struct cpu_stacks *s);
void cpu_stacks_watch(struct cpu_stacks *s, uint32_t pid);
void cpu_stacks_unwatch(struct cpu_stacks *s, uint32_t pid);
/* These threads of a watched process, and its first one, have each time off the CPU recorded. What is no
 * thread of it is passed over: a container has numbers of its own. */
void cpu_stacks_record_threads(struct cpu_stacks *s, uint32_t pid, const uint32_t *tids,
			       uint32_t count);
/* Asks for a drain when it is time; takes all ticks while `closer` and some time after. Never
 * waits. */
void cpu_stacks_tend(struct cpu_stacks *s, bool closer, uint64_t now_ns);
/* Appends what others did on the rank's CPUs and locks in [begin, end): OS_SIGNAL_CPU_HOG and
 * OS_SIGNAL_LOCK_PLACE, at most max in the list. */
void cpu_stacks_neighbours(struct cpu_stacks *s, uint32_t pid, uint64_t begin_ns, uint64_t end_ns,
			   double step_ms, struct os_signal *list, uint32_t *count, uint32_t max);
/* Whether all ticks take a sample. */
bool cpu_stacks_raised(const struct cpu_stacks *s);
/* Waits until all that was asked for so far is done: true, or false after wait_ms. */
bool cpu_stacks_settle(struct cpu_stacks *s, uint32_t wait_ms);
/* Appends to *out what the process pid and its descendants did in [begin, end), draining first
 * where that is not over (it waits 40 ms for that at most). 0, -ENOMEM, -ENOSYS without a sampler. */
int cpu_stacks_extract(struct cpu_stacks *s, uint32_t pid, uint64_t begin_ns, uint64_t end_ns,
		       struct stack_batch *out);
/* Copies of the packed periods that overlap [begin, end), oldest first, into *out (malloc'ed, each buf the
 * caller's), and into *family who belonged to which rank's process. Their count; -ENOMEM, -ENOSYS
 * without a sampler. Any thread while the node is open. */
struct cpu_stacks_member {
	uint32_t pid, root; /* root 0: of no rank */
};
int cpu_stacks_copy(struct cpu_stacks *s, uint64_t begin_ns, uint64_t end_ns, struct buf **out,
		    struct cpu_stacks_member **family, uint32_t *family_count);
void cpu_stacks_stats_get(struct cpu_stacks *s, struct cpu_stacks_stats *out,
			  struct sampler_stats *sampler);

#endif
