/* SPDX-License-Identifier: Apache-2.0
 * steps.h - finds the steps of one process on its launch timeline, and accounts for their time.
 *
 * A boundary lies at the end of a step's last launch. Host idle time after it belongs to the next
 * step. So steps tile the timeline: step k runs from boundary k-1 to boundary k. Boundaries come
 * from explicit marks, if there are any, else from the periodic pattern of launches and
 * collectives.
 *
 * Usage: pass host records in canonical order to steps_push_host, and device records to
 * steps_push_device as they become known (they may arrive seconds after their launches). steps_next
 * returns a step once both of its boundaries are known and one of these holds: every launch has met
 * its kernel; steps_advance says that device time has passed it; max_wait_ns of record time went by
 * (then STEP_FLAG_INCOMPLETE). A launch whose kernel will never be known (RECORD_FLAG_UNMATCHED) is
 * not waited for.
 *
 * Pure: no I/O, clock, threads or globals; memory is the caller's; the same input gives the same
 * output. Threads: one caller. */
#pragma once

#include "model/step.h"

struct steps_config {
	bool automatic_only;	/* ignore explicit marks (replay --marks ignore) */
	uint32_t launch_max;	/* launches kept while the period is unknown; default 65536 */
	uint64_t period_max_ns; /* longest step to look for; default 60 s */
	uint64_t max_wait_ns;	/* default 2 s */
	/* No pattern is trusted before this much time was seen. Earlier steps are found afterwards,
	 * so none is lost. Default 1 s. */
	uint64_t lock_min_ns;
	/* For files: search for a pattern only when launch_max launches are there, or at the end of
	 * the input, and return the open step at the end. */
	bool whole_first;
	/* Borrowed: steps_scratch_bytes(c) long, 16-byte aligned, initialised by
	 * steps_scratch_init. Used only within a call, so all detectors of one thread may share it.
	 * NULL (the default): part of the memory. */
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
/* The input has ended. steps_next returns the remaining steps. It returns the open step only with
 * whole_first, marked as an outer edge. */
void steps_finish(struct steps *s);
/* Returns the next complete step, in order. kernels: room for STEP_KERNELS_MAX. */
bool steps_next(struct steps *s, struct step *out, struct step_kernel *kernels,
		uint32_t *kernel_count);

/* The model key of a source and phase. */
uint64_t steps_key(uint32_t source, uint32_t phase);

struct steps_stats {
	uint64_t boundaries;
	uint64_t period_ns;   /* current estimate; 0: no pattern */
	uint64_t looked_back; /* items visited to find the launches of device records */
	uint32_t few;	      /* whole_first: nonzero if the launches make fewer than three steps */
};
void steps_stats(const struct steps *s, struct steps_stats *out);
