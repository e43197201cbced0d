/* SPDX-License-Identifier: Apache-2.0
 * steps.h - find the steps of one process on its launch timeline and account their time.
 *
 * A boundary lies at the end of a step's last launch; host idle time after it belongs to the next
 * step; so steps tile the timeline: step k runs from boundary k-1 to boundary k. Source: explicit
 * marks where there are any, else the periodic pattern of launches and collectives (the marks are
 * never read then).
 *
 * Pure (DESIGN.md 2, analysis/): no I/O, clock, threads or globals; memory is the caller's; the
 * same input gives the same output. Threads: one caller.
 *
 * A launch whose kernel will never be known (RECORD_FLAG_UNMATCHED) is not waited for.
 *
 * Feeding: host records in canonical order through steps_push_host, device records through
 * steps_push_device as they become known (they may trail their launches by seconds). A step is
 * handed out by steps_next once it is bounded and either every launch of it has met its kernel, or
 * steps_advance says that device time passed, or max_wait_ns of record time went by (then
 * STEP_FLAG_INCOMPLETE). */
#ifndef SYSOM_ANALYSIS_STEPS_H
#define SYSOM_ANALYSIS_STEPS_H

#include "analysis/record.h"

enum step_source { STEP_SOURCE_NONE = 0, STEP_SOURCE_EXPLICIT = 1, STEP_SOURCE_AUTO = 2 };

#define STEP_FLAG_INCOMPLETE 0x01 /* some kernels of it were not seen */
#define STEP_FLAG_CPU_BOUND  0x02 /* the GPU waited for launches, from the density of its kernels */
#define STEP_FLAG_GAP	     0x04 /* tracing was off or reduced during it: not judged */
#define STEP_FLAG_FIRST	     0x08 /* outer edge: its begin is not a boundary; not judged */
#define STEP_FLAG_LAST	     0x20 /* outer edge: its end is not a boundary, but the file's; not judged */
#define STEP_FLAG_EDGE	     (STEP_FLAG_FIRST | STEP_FLAG_LAST)
#define STEP_FLAG_RESYNC     0x10 /* the pattern was lost and found again at its end; FIRST too */

/* Automatic work vector, where no explicit one is given. */
enum step_work {
	STEP_WORK_KERNELS = 0, /* launches, graph nodes included where known */
	STEP_WORK_BLOCKS = 1,  /* thread blocks launched */
	STEP_WORK_COMM_BYTES = 2,
	STEP_WORK_COPY_BYTES = 3,
};

struct step {
	uint64_t index; /* counts this process's steps from 0 */
	uint64_t begin_ns, end_ns; /* host launch timeline */
	uint64_t device_begin_ns, device_end_ns; /* first kernel's start, last kernel's end; 0 none */
	uint64_t latency_ns; /* found: device_latency_ns where known; else end_ns - begin_ns */
	uint64_t self_ns;    /* device_latency_ns, else latency_ns, less exposed communication: what
			      * this rank alone decides */
	uint64_t compute_ns; /* union of compute kernels' time */
	uint64_t comm_ns;    /* union of communication kernels' time */
	uint64_t exposed_comm_ns; /* communication not overlapped by compute or copies */
	uint64_t copy_ns;    /* union of copies */
	uint64_t idle_ns;    /* no kernel or copy on the device, within the step's device span */
	uint64_t launch_gap_max_ns; /* longest host time between two launches of the step */
	uint32_t kernels, launches, collectives, copies, unmatched;
	uint32_t phase; /* class of steps with the same pattern (training, evaluation, ...), from 0;
			 * explicit: the name id of the phase */
	uint64_t key;	/* model key: hash of source, phase and graph bucket */
	double work[STEP_WORK_MAX];
	double blocks; /* thread blocks launched, whatever the work vector is; not in files */
	uint32_t work_count;
	uint32_t source; /* enum step_source */
	uint32_t flags;
	uint64_t device_latency_ns; /* device_end_ns less the previous step's; 0 where not known, and
				     * on the wire where it is not latency_ns */
};

/* Per step and kernel name: device time. For the explanation and the 30-minute summaries. */
struct step_kernel {
	uint32_t name;
	uint32_t count;
	uint64_t total_ns;
	uint64_t max_ns;
	uint16_t kind; /* enum record_kind */
	uint16_t func; /* COLL_KERNEL */
	uint32_t reserved;
};
#define STEP_KERNELS_MAX 192 /* names kept per step, by time; the rest adds up under name 0 */

struct steps_config {
	bool automatic_only;  /* ignore explicit marks (replay --marks ignore) */
	uint32_t launch_max;  /* launches kept while the period is unknown; default 65536 */
	uint64_t period_max_ns; /* longest step looked for; default 60 s */
	uint64_t max_wait_ns; /* default 2 s */
	uint64_t lock_min_ns; /* no pattern is trusted before so much was seen; what came before is then
			       * cut too, so it costs no steps; default 1 s */
	bool whole_first;     /* look for the pattern only when launch_max launches are there, or at
			       * the end of the input, and hand the open step out there: files, where
			       * nobody waits for the answer and no more launches come */
	/* Borrowed: steps_scratch_bytes(c) long, 16-byte aligned, made by steps_scratch_init. It is used
	 * within calls alone, so that all of one thread may have the same. NULL (the default): it is
	 * part of the memory. */
	void *scratch;
};
void steps_config_default(struct steps_config *c);

struct steps; /* opaque; lives in the caller's memory */
size_t steps_memory_bytes(const struct steps_config *c);
size_t steps_scratch_bytes(const struct steps_config *c);
void steps_scratch_init(void *scratch);
/* memory: 16-byte aligned, steps_memory_bytes(c) long, borrowed until the caller drops it. */
struct steps *steps_init(void *memory, const struct steps_config *c);
/* mark: for RECORD_STEP_BEGIN only, else NULL. */
void steps_push_host(struct steps *s, const struct record *r, const struct step_mark *mark);
void steps_push_device(struct steps *s, const struct record *r);
/* Every device record that began before device_ns has been pushed. */
void steps_advance(struct steps *s, uint64_t device_ns);
/* No more input: the rest is handed out (of the open step only with whole_first: an outer edge). */
void steps_finish(struct steps *s);
/* The next complete step in order; kernels[] (room for STEP_KERNELS_MAX) and its count. */
bool steps_next(struct steps *s, struct step *out, struct step_kernel *kernels,
		uint32_t *kernel_count);

/* The model key of a source and phase. */
uint64_t steps_key(uint32_t source, uint32_t phase);

struct steps_stats {
	uint64_t host_records, device_records, unmatched_device, late_device, boundaries, resyncs;
	uint64_t period_ns; /* current estimate; 0 not locked */
	uint64_t looked_back; /* items passed over to find the launches of device records */
	uint32_t few;	    /* whole_first: there are launches, but fewer than three steps of them */
	uint32_t locked;    /* the automatic detector follows a pattern */
};
void steps_stats(const struct steps *s, struct steps_stats *out);

#endif
