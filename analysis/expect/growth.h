/* SPDX-License-Identifier: Apache-2.0
 * growth.h - detect that a rank's steps take longer because its program changed permanently: each
 * step launches more kernels than was usual, or other ones, or its collectives or copies have more
 * bytes. The latency models cannot report such a change: steps with another mix of kernels have a
 * model of their own, and a model expects steps with more launches or bytes to take longer. So the
 * only reference is the rank's own earlier steps.
 *
 * A step is usual if it has the level of launches that most of GROWTH_STEPS steps share, no more
 * bytes than their median, and a phase (struct step) that was usual before. Without such a level
 * (inference, sequences that change the number of launches) nothing is reported. A usual step ends
 * a possible change. So evaluations are not reported, however often they occur, unless one lasts
 * for GROWTH_STEPS steps. After GROWTH_STEPS steps the new steps are usual, and a return to the old
 * ones is not a change.
 *
 * Longer sequences make the same kernels larger, or replace them by as many launches of other
 * kernels with more thread blocks. More blocks explain more time and more bytes, so longer
 * sequences are not reported.
 *
 * Pure: no I/O, clock, globals or allocation. Threads: one caller. */
#pragma once

#include "model/step.h"

#define GROWTH_STEPS 64u /* thresholds.count.lots: steps that make a habit */
#define GROWTH_BYTES 2u	 /* kinds of bytes: of collectives, of copies */

struct growth_level {
	/* rings */
	double launches[GROWTH_STEPS], blocks[GROWTH_STEPS], bytes[GROWTH_BYTES][GROWTH_STEPS],
	    latency_ns[GROWTH_STEPS];
	uint64_t index[GROWTH_STEPS];
	uint32_t pushed;
	uint32_t unknown; /* how many of the stored steps have a phase that was never usual */
	uint32_t phases;  /* one bit per phase of the stored steps */
	/* The level of launches that most of the latest steps share, and the blocks, bytes and
	 * latency of those steps. 0: they share no level. */
	double usual, usual_blocks, usual_bytes[GROWTH_BYTES], usual_ns;
};
/* A zeroed one is empty. */
struct growth {
	struct growth_level now, next; /* next: since the last usual step */
	/* the most launches and bytes that were ever usual */
	double most, most_bytes[GROWTH_BYTES];
	uint32_t phases; /* one bit per phase that was ever usual */
};
/* first: the first step of the change; before_ns: the latency that such steps had before. */
struct growth_change {
	uint64_t first;
	double before_ns;
};
/* Takes the next judged step. True, once per change: the steps from out->first on take longer than
 * those before. */
bool growth_push(struct growth *g, const struct step *s, struct growth_change *out);
