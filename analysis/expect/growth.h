/* SPDX-License-Identifier: Apache-2.0
 * growth.h - whether a rank's steps have more work for good: from some step on, each launches more
 * kernels than was usual and takes longer. A model of latency against work expects such steps to
 * take longer, so it never reports them.
 *
 * Usual is a level of launches that most of GROWTH_STEPS steps share; without such a level
 * (inference, sequences that change the number of launches) nothing is reported. Larger launches
 * are not more of them: longer sequences stay silent. A step of the usual level ends a growth, so
 * an evaluation is none however often it comes, unless it lasts for GROWTH_STEPS steps. Steps of
 * other levels say nothing. After GROWTH_STEPS steps the new level is the usual one, and a level
 * that was usual before is no growth.
 *
 * Pure: no I/O, clock, globals or allocation. Threads: one caller. */
#ifndef SYSOM_ANALYSIS_EXPECT_GROWTH_H
#define SYSOM_ANALYSIS_EXPECT_GROWTH_H

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
/* The next judged step. True: the steps from out->first on have more work than before. Said once. */
bool growth_push(struct growth *g, const struct step *s, struct growth_change *out);

#endif
