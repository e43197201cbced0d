/* SPDX-License-Identifier: Apache-2.0
 * verdict_sketch.h - convert sketches into ranks of a diagnosis. Sketches have what windows lack:
 * settings, and the profiles of healthy peers and of earlier runs.
 * Owns: the sketches that it took and the arrays made from them, until closed. Threads: one
 * caller. */
#pragma once

#include "analysis/cause/diagnosis.h"
#include "model/window.h"

#define VERDICT_SKETCHES 16u

struct verdict_sketches {
	struct sketch sketch[VERDICT_SKETCHES];
	struct diagnosis_rank rank[VERDICT_SKETCHES];
	void *made[3 * VERDICT_SKETCHES];
	uint32_t count, rank_count, made_count;
};

/* Initialises an empty one in the caller's storage. */
void verdict_sketch_init(struct verdict_sketches *s);
void verdict_sketch_fini(struct verdict_sketches *s);
/* Returns room for one more sketch; NULL: full. Call verdict_sketch_take once it is filled. */
struct sketch *verdict_sketch_room(struct verdict_sketches *s);
/* Takes the sketch in that room. Returns it as a rank that lives as long as the sketches; NULL: out
 * of memory. */
const struct diagnosis_rank *verdict_sketch_take(struct verdict_sketches *s);
/* Returns another sketch as a rank; borrows the sketch. At most VERDICT_SKETCHES in all. */
const struct diagnosis_rank *verdict_sketch_borrow(struct verdict_sketches *s,
						   const struct sketch *k);
/* Adds evidence about what made steps lost_ns longer from base to now. Returns the cause. */
enum finding_cause verdict_sketch_compare(const struct sketch *base, const struct sketch *now,
					  double lost_ns, struct finding *f);
/* Copies settings, functions and kernels of *from that *to lacks. */
void verdict_sketch_fill(struct diagnosis_rank *to, const struct diagnosis_rank *from);
