/* SPDX-License-Identifier: Apache-2.0
 * normal.h - what one rank's healthy steps have looked like since the last sketch: figures per step,
 * kernels by name, which threads launch, and when it was not healthy.
 * Healthy: judged and neither out nor flagged (the models learn from the same steps).
 * Owns: its memory, made at open.  Threads: one caller.  Pure but for that. */
#ifndef SYSOM_NODE_NORMAL_H
#define SYSOM_NODE_NORMAL_H

#include "model/window.h"

#define NORMAL_THREADS_MAX 16u
#define NORMAL_SPANS_MAX   32u
#define NORMAL_KERNELS_MAX 1024u /* names told apart between two sketches */

struct normal_span {
	uint64_t begin_ns, end_ns;
};

/* What goes with a sketch to whoever adds the stacks. */
struct normal_when {
	uint32_t threads[NORMAL_THREADS_MAX]; /* that launched a tenth of all launches or more */
	struct normal_span spans[NORMAL_SPANS_MAX]; /* of flagged steps, in order */
	uint32_t thread_count, span_count;
	uint64_t healthy;     /* steps */
	uint64_t healthy_ns;  /* their length together */
};

struct normal; /* opaque */
int normal_open(struct normal **out); /* 0 or -ENOMEM */
void normal_close(struct normal *n);  /* NULL is a no-op */
/* Any record; launches tell who launches. */
void normal_host(struct normal *n, const struct record *r);
void normal_step(struct normal *n, const struct window_step *ws, bool used,
		 const struct step_kernel *kernels, uint32_t kernel_count);
uint64_t normal_steps(const struct normal *n); /* since the last take */
/* Fills times, figures and kernels (largest first, at most LIMIT_SKETCH_KERNELS, the others counted in
 * kernels_cut) of a zeroed sketch, and begins anew. name: text of a name id, "" unknown: such kernels are
 * left out. 0 or -ENOMEM, when what has come is kept. */
int normal_take(struct normal *n, const char *(*name)(void *arg, uint32_t id), void *arg,
		struct sketch *s, struct normal_when *when);

#endif
