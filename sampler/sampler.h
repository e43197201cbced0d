/* SPDX-License-Identifier: Apache-2.0
 * sampler.h - samples the CPU stacks of chosen processes, in the kernel, and delivers them in
 * batches.
 * Owns: BPF programs and maps, perf events. Readers (reader/reader.h) compile its unwind tables.
 * Threads: one caller (the daemon's loop, or `sysom record`).
 * Trust: the processes and their files are hostile; they cannot stop the caller.
 * Guarantees: only sampler_open and sampler_drain take longer than about a millisecond. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/stack.h"
#include "sampler/sampler_options.h"
#include "reader/reader.h"

struct sampler_stats {
	enum sampler_mode mode;
	char why[160];		  /* why no better mode works; "" in the best mode */
	char missing[160];	  /* what this kernel lacks, e.g. "no batched map reads (5.6)" */
	uint64_t samples, frames; /* since open */
	uint64_t end[STACK_END_COUNT]; /* user stacks by the way they ended */
	uint64_t scanned;	       /* stacks with a scanned frame */
	uint64_t lost_count_full, lost_stack_full, lost_ring_full,
	    lost_mapping;		       /* lost samples, by cause */
	uint64_t python_frames, python_failed; /* failed: incomplete walks */
	uint64_t python_mismatch;	       /* samples whose Python and native stacks disagree */
	uint64_t python_full; /* interpreters for which the kernel's map had no room */
	/* mappings_dropped: mappings without room or file. publish_full: mappings that could not be
	 * written to the kernel's map. scan_failed: failed reads of a process's mappings. */
	uint64_t mappings_dropped, publish_full, scan_failed;
	uint64_t guessed; /* samples that end with STACK_END_GUESSED */
	uint64_t early; /* samples that end with STACK_END_NO_TABLE because a table was still being
		    * compiled */
	uint64_t off_cpu_captures; /* stacks taken when a thread went to sleep */
	uint64_t off_cpu_asleep;   /* samples of threads still asleep at a drain, one per drain */
	uint64_t off_cpu_short; /* sleeps shorter than off_cpu_min_ns, which do not count as lost */
	uint64_t
	    off_cpu_leaf_only;	 /* long sleeps with only one frame, because earlier sleeps at that
			        * place were always short */
	uint32_t switch_threads; /* threads whose switches are recorded */
	/* Off-CPU intervals of these threads: switch_records have a record; the others were folded,
	 * by cause. */
	uint64_t switch_records, switch_paced, switch_ring_full, switch_no_room;
	uint64_t switch_missed; /* switches that the kernel did not report to us */
	/* runs and time of the BPF programs, if the kernel counts them */
	uint64_t run_count, run_time_ns;
	uint64_t target_count,
	    target_ns;	     /* number of ticks that took a sample, and their time in the kernel */
	uint64_t off_cpu_ns; /* time in the kernel at switch-outs of sampled threads */
	uint32_t python_refused; /* processes whose interpreter is not supported: native frames
				  * only */
	char python_why[160];	 /* the reason for the last of them; "" if none */
	uint32_t processes, mappings, tables, tables_refused;
	uint32_t pending;		 /* processes being read and files being compiled */
	uint32_t first_pending;		 /* processes that existed when they were added, and are not
					  * ready yet */
	uint64_t table_bytes, map_bytes; /* table_bytes: unwind tables; map_bytes: all BPF maps */
	uint64_t table_build_ns;	 /* CPU time of the readers, for mappings and tables */
	struct reader_stats readers;
};

struct sampler;

/* Sets the defaults in *o. */
void sampler_options_init(struct sampler_options *o);
/* Loads and attaches the best mode that works. SAMPLER_OFF also succeeds: drains are then empty. 0,
 * -EINVAL (options), -ENOMEM. */
int sampler_open(struct sampler **out, const struct sampler_options *o);
void sampler_close(struct sampler *s); /* NULL is a no-op */
/* Samples a process, and with `children` its current and future children. Idempotent. 0, -ESRCH,
 * -ENOSPC. A process that ends is removed automatically. */
int sampler_add(struct sampler *s, uint32_t pid, bool children);
void sampler_remove(struct sampler *s, uint32_t pid);
/* Changes rate and fraction while running; sysomd samples 100% of the ticks during an anomaly. 0,
 * -EINVAL. */
int sampler_set_rate(struct sampler *s, uint32_t rate_hz, uint32_t fraction_percent);
/* Also samples processes that were not added, with only name and kernel stack, which needs no
 * knowledge about them. 0, -ENOTSUP in copy mode, -errno. */
int sampler_set_wide(struct sampler *s, bool on);
/* Samples this thread at every tick, whatever the fraction, and records every off-CPU interval of
 * it in `switches` of the next batches. For few threads, at most 512. Works without adding the
 * process, but then without stacks. A thread that ended, or whose process was removed, is forgotten
 * at the next drain. 0; -ESRCH; -ENOSPC; -EAGAIN: another thread had this number until recently,
 * try again after a drain; -ENOTSUP: this mode cannot see blocked time. */
int sampler_record_switches(struct sampler *s, uint32_t pid, uint32_t tid, bool on);
/* While paused, nothing is sampled and nobody is woken: use it while there is no process to sample.
 * Added processes stay. 0; -errno: a part could not be paused, but the rest is. */
int sampler_pause(struct sampler *s, bool paused);
/* A file descriptor that becomes readable when sampler_poll has work (new mappings). */
int sampler_fd(const struct sampler *s);
void sampler_poll(struct sampler *s);
/* Ends the period: appends all samples since the last call to *b. Threads still asleep are included
 * with their time asleep since the last drain; it is not reported again when they wake. Blocks for
 * milliseconds while it copies maps. 0, -ENOMEM. */
int sampler_drain(struct sampler *s, struct stack_batch *b);
void sampler_stats_get(const struct sampler *s, struct sampler_stats *out);
const char *sampler_mode_name(enum sampler_mode mode); /* "off", "copy", "bpf-tail", "bpf-loop" */
