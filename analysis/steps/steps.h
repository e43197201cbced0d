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
#ifndef SYSOM_ANALYSIS_STEPS_STEPS_H
#define SYSOM_ANALYSIS_STEPS_STEPS_H

#include "model/step.h"

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
