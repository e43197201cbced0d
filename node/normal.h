/* SPDX-License-Identifier: Apache-2.0
 * normal.h - summarise a rank's healthy steps since the last sketch: figures per step, kernels by
 * name, launch threads, and the times of unhealthy steps. A step is healthy if it was judged, is
 * neither out nor flagged, and is of no kind. The models learn from the same steps.
 * Owns: its memory, allocated at open. Threads: one caller. Pure otherwise. */
#pragma once

#include "model/window.h"

#define NORMAL_THREADS_MAX 16u
#define NORMAL_SPANS_MAX   32u
#define NORMAL_KERNELS_MAX 1024u /* different names between two sketches */

struct normal_span {
	uint64_t begin_ns, end_ns;
};

/* Threads and times for the code that adds stacks to a sketch. */
struct normal_when {
	/* threads with at least a tenth of all launches */
	uint32_t threads[NORMAL_THREADS_MAX];
	struct normal_span spans[NORMAL_SPANS_MAX]; /* times of flagged steps, in order */
	uint32_t thread_count, span_count;
	uint64_t healthy; /* number of healthy steps */
};

struct normal;			      /* opaque */
int normal_open(struct normal **out); /* 0 or -ENOMEM */
void normal_close(struct normal *n);  /* NULL is a no-op */
/* Takes any record; counts launches by thread. */
void normal_host(struct normal *n, const struct record *r);
void normal_step(struct normal *n, const struct window_step *ws, bool used,
		 const struct step_kernel *kernels, uint32_t kernel_count);
uint64_t normal_steps(const struct normal *n); /* since the last normal_take */
/* Fills times, figures and kernels of a zeroed sketch, then starts a new period. Kernels come
 * largest first, at most LIMIT_SKETCH_KERNELS; kernels_cut counts the rest. name: returns the text
 * of a name id, "" if unknown; kernels without a name are omitted. 0; -ENOMEM: the data is kept. */
int normal_take(struct normal *n, const char *(*name)(void *arg, uint32_t id), void *arg,
		struct sketch *s, struct normal_when *when);
