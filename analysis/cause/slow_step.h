/* SPDX-License-Identifier: Apache-2.0
 * slow_step.h - describe one slow step of a window: the span and the function that took the time,
 * whether the GPU waited for the host, and which code held the GIL meanwhile.
 *
 * Means over steps hide a single spike, so this describes the step that lost most time. A process
 * without steps of its own (a serving engine, its API process) sends a window because of a late
 * request; then this describes the step of that request. Pure.
 * Trust: the window was decoded; its numbers are checked here. Time: n log n in its records and
 * samples. Threads: any. Times: nanoseconds. */
#pragma once

#include "model/window.h"

#define SLOW_STEP_TEXT_BYTES  160u
#define SLOW_STEP_BUBBLES_MAX 4u
#define SLOW_STEP_KERNELS_MAX 3u

enum slow_step_bound {
	SLOW_STEP_UNKNOWN = 0, /* no kernels were seen */
	SLOW_STEP_CPU = 1,     /* the GPU worked for less than 70% of it: it waits for launches */
	SLOW_STEP_GPU = 2,
};
const char *slow_step_bound_name(unsigned bound); /* "unknown", "cpu", "gpu" */

/* A gap in which the GPU has nothing to do. */
struct slow_step_bubble {
	uint64_t offset_ns, ns; /* offset: from the step's start */
	double gil_wait_ns;	/* how long the step's thread waited for the GIL in the gap */
	char holder[SLOW_STEP_TEXT_BYTES];
};

/* Kernels of one name in the step. */
struct slow_step_kernel {
	char name[SLOW_STEP_TEXT_BYTES]; /* mangled, cut */
	double ns, usual_ns;		 /* in the step; in a healthy one */
	uint32_t count;
};

struct slow_step {
	bool known; /* the window has a step that lost time, or is of a late request */
	bool spike;
	uint32_t bound; /* enum slow_step_bound */
	uint64_t index; /* the rank's number of it; of a late request: 0 */
	int64_t begin_unix_ns;
	double latency_ns, expected_ns; /* expected 0: not known */
	/* The innermost span whose time exceeds its usual time by at least half of the step's loss;
	 * "": none. */
	char span[SLOW_STEP_TEXT_BYTES];
	double span_ns, span_usual_ns;
	/* A function in which the step's thread spent at least half of known_ns, running or blocked,
	 * with the line where it was longest: "pad (utils.py:41)". If there are several, the most
	 * informative one (frame_class.h); of equally informative ones, the innermost. "": none. */
	char function[SLOW_STEP_TEXT_BYTES];
	char function_name[SLOW_STEP_TEXT_BYTES]; /* without the line */
	double function_ns, blocked_ns;		  /* in it; blocked: part of it */
	double known_ns;  /* of the span, or without one of the step: time with a known stack */
	uint32_t samples; /* on the CPU, in the step */
	/* longest first; those that are at least a tenth of the time lost */
	struct slow_step_bubble bubble[SLOW_STEP_BUBBLES_MAX];
	uint32_t bubble_count;
	/* most above their usual time first; at least a tenth of the time lost; none if no healthy
	 * step is known */
	struct slow_step_kernel kernel[SLOW_STEP_KERNELS_MAX];
	uint32_t kernel_count;
};

/* The name of a frame of the window's stacks, without a line; valid as long as the caller's names. */
typedef const char *(*slow_step_name_fn)(void *arg, uint32_t frame);

/* "pad (utils.py)" and 41 make "pad (utils.py:41)". */
void slow_step_with_line(const char *name, uint32_t line, char *out, size_t bytes);
/* "spin (train.py:12) in thread loader": the function that held the GIL longest in the samples from
 * begin_ns to end_ns, and its line with most of that time. Ignores the given threads; "": no sample
 * shows a holder. */
void slow_step_holder(const struct window *w, uint64_t begin_ns, uint64_t end_ns,
		      const uint32_t *tid, uint32_t count, slow_step_name_fn name, void *arg,
		      char out[SLOW_STEP_TEXT_BYTES]);
/* Per step of the window: slow[] says whether to consider it, healthy[] whether it is a reference.
 * false: no memory; *out is then empty. */
bool slow_step_find(const struct window *w, const bool *slow, const bool *healthy,
		    slow_step_name_fn name, void *arg, struct slow_step *out);
