/* SPDX-License-Identifier: Apache-2.0
 * replay_find.h - finds and judges the steps of one rank's trace, like sysomd does while a job runs.
 * Threads: one caller. */
#pragma once

#include <stdbool.h>

#include "analysis/expect/judge.h"
#include "cli/replay/replay_load.h"

struct replay_find {
	bool marks; /* steps are what ProfilerStep marks say */
	enum roofline_mode mode;
	/* Called for each step in order; kernels are valid only during the call. 0, or an error
	 * that ends the search. */
	int (*step)(void *to, const struct step *s, const struct step_kernel *kernels,
		    uint32_t count, const struct judge_verdict *v);
	void *to;
	bool few; /* out: with so few steps, layers would be taken for steps */
};
/* 0, -ENOMEM, or the error of step. */
int replay_find(struct replay_find *f, const struct replay_trace *t);
