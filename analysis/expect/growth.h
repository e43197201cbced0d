/* SPDX-License-Identifier: Apache-2.0
 * growth.h - whether a rank's steps have more work for good: from some step on, each launches more
 * kernels than was usual and takes longer. A model of latency against work expects such steps to
 * take longer, so it never reports them.
 *
 * Usual is a level of launches that most of GROWTH_STEPS steps share; without such a level
 * (inference, sequences that change the number of launches) nothing is reported. Only the number of
 * launches counts, not their size, so longer sequences are not reported. A step of the usual level
 * ends a growth. So evaluations are not reported, however often they come, unless one lasts for
 * GROWTH_STEPS steps. Steps of other levels change nothing. After GROWTH_STEPS steps the new level
 * is the usual one, and a level that was usual before is no growth.
 *
 * Pure: no I/O, clock, globals or allocation. Threads: one caller. */
#pragma once

#include "model/step.h"

#define GROWTH_STEPS 64u /* thresholds.count.lots: steps for a habit */

struct growth_level {
	double launches[GROWTH_STEPS], latency_ns[GROWTH_STEPS]; /* rings */
	uint32_t pushed;
	double usual;	 /* launches, as of the latest pushes; 0: they share no level */
	double usual_ns; /* their latency */
};
/* A zeroed one is empty. */
struct growth {
	struct growth_level now, next; /* next: since the last step of the usual level */
	uint64_t next_first;	       /* the first step of next */
	double most;		       /* the most launches that were ever usual */
};
/* What grew: from step `first` on; the usual latency before. */
struct growth_change {
	uint64_t first;
	double before_ns;
};
/* Takes the next judged step. True, once per growth: the steps from out->first on have more work
 * than before. */
bool growth_push(struct growth *g, const struct step *s, struct growth_change *out);
