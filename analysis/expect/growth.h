/* SPDX-License-Identifier: Apache-2.0
 * growth.h - detect that a rank's steps take longer because its program changed permanently: each
 * step launches more kernels than was usual, or other ones, or its collectives or copies have more
 * bytes. Steps with another mix of kernels have a model of their own, and a model expects steps with
 * more launches or bytes to take longer. So no model reports such a change. The only reference is
 * the rank's own earlier steps.
 *
 * A step is usual if it has the level of launches that most of GROWTH_STEPS steps share, no more
 * bytes than their median, and a phase (struct step) that was usual before. Without such a level
 * (inference, sequences that change the number of launches) nothing is reported. A usual step ends a
 * change. So evaluations are not reported, however often they occur, unless one lasts for
 * GROWTH_STEPS steps. After GROWTH_STEPS steps the new steps are usual, and a return to the old ones
 * is not a change.
 *
 * Longer sequences are larger launches of the same kernels, or as many launches of other kernels
 * that have more thread blocks. Blocks explain time and bytes, so these are not reported.
 *
 * Pure: no I/O, clock, globals or allocation. Threads: one caller. */
#pragma once

#include "model/step.h"

#define GROWTH_STEPS 64u /* thresholds.count.lots: steps for a habit */
#define GROWTH_BYTES 2u	 /* kinds of bytes: of collectives, of copies */

struct growth_level {
	/* rings */
	double launches[GROWTH_STEPS], blocks[GROWTH_STEPS], bytes[GROWTH_BYTES][GROWTH_STEPS],
	    latency_ns[GROWTH_STEPS];
	uint64_t index[GROWTH_STEPS];
	uint32_t pushed;
	uint32_t unknown; /* of these, steps of a phase that was never usual */
	uint32_t phases;  /* one bit per phase of these */
	/* launches, as of the latest pushes; 0: they share no level. Their blocks, bytes, latency. */
	double usual, usual_blocks, usual_bytes[GROWTH_BYTES], usual_ns;
};
/* A zeroed one is empty. */
struct growth {
	struct growth_level now, next; /* next: since the last usual step */
	/* the most launches and bytes that were ever usual */
	double most, most_bytes[GROWTH_BYTES];
	uint32_t phases; /* one bit per phase that was ever usual */
};
/* What changed: from step `first` on; the latency that steps like them had before. */
struct growth_change {
	uint64_t first;
	double before_ns;
};
/* Takes the next judged step. True, once per change: the steps from out->first on take longer than
 * those before. */
bool growth_push(struct growth *g, const struct step *s, struct growth_change *out);
