/* SPDX-License-Identifier: Apache-2.0
 * sampler.h - CPU stacks of chosen processes, sampled in the kernel, as batches.
 * Owns: BPF programs and maps, perf events. Readers (reader/reader.h) compile its unwind tables.
 * Threads: one caller (the daemon's loop, or `sysom record`).
 * Trust: the processes and their files are hostile; nothing of theirs can stop the caller.
 * Guarantees: no call but sampler_open and sampler_drain takes longer than about a millisecond. */
#ifndef SYSOM_SAMPLER_SAMPLER_H
#define SYSOM_SAMPLER_SAMPLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/stack.h"
#include "sampler/sampler_options.h"
#include "reader/reader.h"

struct sampler_stats {
	enum sampler_mode mode;
	char why[160];	   /* why not a better mode; "" when it is the best one */
	char missing[160]; /* what this kernel lacks, e.g. "no batched map reads (5.6)" */
	uint64_t samples, frames;      /* taken, since open */
	uint64_t end[STACK_END_COUNT]; /* user stacks by how they ended */
	uint64_t scanned;	       /* stacks with a scanned frame */
	uint64_t lost_count_full, lost_stack_full, lost_ring_full,
	    lost_mapping;		       /* samples, by cause */
	uint64_t python_frames, python_failed; /* failed: walks that gave up */
	uint64_t python_mismatch; /* samples whose Python and native stacks disagree */
	uint64_t python_full;	  /* interpreters that found no room in the kernel's map */
	uint64_t guessed;	  /* samples that STACK_END_GUESSED ends */
	uint64_t
	    early; /* samples that STACK_END_NO_TABLE ends since a table was still being made */
	uint64_t off_cpu_captures; /* stacks taken when a thread went to sleep */
	uint64_t off_cpu_asleep; /* of samples: threads that slept on at a drain, once per drain */
	uint64_t off_cpu_short;	 /* sleeps below off_cpu_min_ns: not kept, not lost */
	uint64_t
	    off_cpu_leaf_only; /* long sleeps at places that were always short before: one frame */
	uint32_t switch_threads; /* whose switches are recorded */
	/* Times off the CPU of these: with a record, and folded, by cause; the time of the latter. */
	uint64_t switch_records, switch_paced, switch_ring_full, switch_no_room, switch_folded_ns;
	uint64_t switch_missed; /* switches that the kernel did not tell us of */
	uint64_t run_count, run_time_ns; /* of the BPF programs, where the kernel counts it */
	uint64_t target_count,
	    target_ns;		 /* ticks that took a sample, and their time in the kernel */
	uint64_t off_cpu_ns;	 /* time in the kernel at switch-outs of sampled threads */
	uint32_t python_refused; /* processes whose interpreter is not read: native frames only */
	char python_why[160];	 /* why, of the last of them; "" without any */
	uint32_t processes, mappings, tables, tables_refused;
	uint32_t pending;		 /* processes being read and files being compiled */
	uint32_t first_pending;		 /* processes that were there when they were added, and wait */
	uint64_t table_bytes, map_bytes; /* unwind tables; all BPF maps */
	uint64_t table_build_ns;	 /* CPU time of the readers, for mappings and tables */
	struct reader_stats readers;
};

struct sampler;

/* Defaults in *o. */
void sampler_options_init(struct sampler_options *o);
/* Loads and attaches the best mode that works. With SAMPLER_OFF it still succeeds: drains are
 * empty. 0, -EINVAL (options), -ENOMEM. */
int sampler_open(struct sampler **out, const struct sampler_options *o);
void sampler_close(struct sampler *s); /* NULL is a no-op */
/* Starts on a process, and with children on those it forks from now on and has now. Idempotent.
 * 0, -ESRCH, -ENOSPC. A process that ends is removed by itself. */
int sampler_add(struct sampler *s, uint32_t pid, bool children);
void sampler_remove(struct sampler *s, uint32_t pid);
/* Rate and fraction while running: 100% during an anomaly. 0, -EINVAL. */
int sampler_set_rate(struct sampler *s, uint32_t rate_hz, uint32_t fraction_percent);
int sampler_set_all_processes(struct sampler *s, bool on);
/* Processes that were not added too, by name and kernel stack alone, which needs nothing to be known of
 * them. 0, -ENOTSUP in copy mode, -errno. */
int sampler_set_wide(struct sampler *s, bool on);
/* Whether every time off the CPU of this thread is recorded, beside being sampled: `switches` of the next
 * batches. Meant for few threads, at most 512. Its process needs not be added, but without that the records
 * have no stacks. A thread that ends, or whose process is removed, is forgotten with the next drain.
 * 0; -ESRCH; -ENOSPC; -EAGAIN: its number was another thread's until lately, try after a drain; -ENOTSUP:
 * blocked time is not seen in this mode. */
int sampler_record_switches(struct sampler *s, uint32_t pid, uint32_t tid, bool on);
/* Nothing is sampled and nobody woken while paused: for as long as there is no process to look at. What
 * was added stays. 0, -errno: the others still are. */
int sampler_pause(struct sampler *s, bool paused);
/* A file descriptor that becomes readable when sampler_poll has something to do (new mappings). */
int sampler_fd(const struct sampler *s);
void sampler_poll(struct sampler *s);
/* Ends the period: everything sampled since the last call is appended to *b. Threads that sleep on
 * are in it with the time slept since the last drain; that time is not told again when they wake.
 * Blocks while it copies maps (milliseconds). 0, -ENOMEM. */
int sampler_drain(struct sampler *s, struct stack_batch *b);
void sampler_stats_get(const struct sampler *s, struct sampler_stats *out);
const char *sampler_mode_name(enum sampler_mode mode); /* "off", "copy", "bpf-tail", "bpf-loop" */

#endif
