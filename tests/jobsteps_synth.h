/* SPDX-License-Identifier: Apache-2.0
 * jobsteps_synth.h - made-up device events of a rank, to the steps that steps.h finds in them as it does
 * in a trace file. Each event is its own launch. */
#pragma once

#include <stdlib.h>
#include <string.h>

#include "analysis/trace/jobsteps.h"
#include "model/record.h"

#define JOBSTEPS_SYNTH_STEPS 256u

struct jobsteps_event {
	uint64_t begin_ns, end_ns;
	uint32_t name;
	uint16_t kind;
};

static void jobsteps_synth_take(struct steps *s, struct step *step, struct step_kernel *kernel,
				uint32_t *at, uint32_t *count)
{
	uint32_t n;

	while (*count < JOBSTEPS_SYNTH_STEPS &&
	       steps_next(s, &step[*count], kernel + at[*count], &n)) {
		at[*count + 1] = at[*count] + n;
		(*count)++;
	}
}

/* Events by begin; holes, too: begin and end. Freed by jobsteps_synth_free. */
static inline void jobsteps_synth_steps(struct jobsteps_rank *out, const struct jobsteps_event *e,
					uint32_t n, const uint64_t (*hole)[2], uint32_t holes)
{
	struct step *step = calloc(JOBSTEPS_SYNTH_STEPS, sizeof(*step));
	struct step_kernel *kernel =
	    calloc((size_t)(JOBSTEPS_SYNTH_STEPS + 1) * STEP_KERNELS_MAX, sizeof(*kernel));
	uint32_t *at = calloc(JOBSTEPS_SYNTH_STEPS + 1, sizeof(*at)), count = 0, h = 0;
	struct steps_config c;
	struct steps *s;
	void *memory;

	steps_config_default(&c);
	c.automatic_only = c.whole_first = true;
	memory = aligned_alloc(16, (steps_memory_bytes(&c) + 15) & ~(size_t)15);
	s = steps_init(memory, &c);
	for (uint32_t i = 0; i < n; i++) {
		struct record launch = {.kind = RECORD_LAUNCH,
					.begin_ns = e[i].begin_ns,
					.end_ns = e[i].begin_ns,
					.name = e[i].name,
					.correlation = i + 1,
					.peer = -1};
		struct record device = {.kind = e[i].kind,
					.begin_ns = e[i].begin_ns,
					.end_ns = e[i].end_ns,
					.launch_ns = e[i].begin_ns,
					.name = e[i].name,
					.correlation = i + 1,
					.peer = -1};

		for (; h < holes && hole[h][0] <= e[i].begin_ns; h++) {
			struct record gap = {.kind = RECORD_GAP,
					     .begin_ns = hole[h][0],
					     .end_ns = hole[h][0],
					     .peer = -1};

			steps_push_host(s, &gap, NULL);
		}
		steps_push_host(s, &launch, NULL);
		steps_push_device(s, &device);
		steps_advance(s, device.begin_ns);
		jobsteps_synth_take(s, step, kernel, at, &count);
	}
	steps_finish(s);
	jobsteps_synth_take(s, step, kernel, at, &count);
	free(memory);
	*out = (struct jobsteps_rank){.rank = out->rank,
				      .step = step,
				      .step_count = count,
				      .kernel = kernel,
				      .kernel_at = at};
	out->device_begin_ns = n ? e[0].begin_ns : 0;
	out->last_begin_ns = n ? e[n - 1].begin_ns : 0;
}

static inline void jobsteps_synth_free(struct jobsteps_rank *r)
{
	free((void *)r->step);
	free((void *)r->kernel);
	free((void *)r->kernel_at);
	memset(r, 0, sizeof(*r));
}
