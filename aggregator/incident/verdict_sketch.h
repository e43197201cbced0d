/* SPDX-License-Identifier: Apache-2.0
 * verdict_sketch.h - sketches as ranks of a diagnosis, for what no window tells: settings, and the
 * profile of healthy peers and of earlier runs.
 * Owns: the sketches it took in and the arrays made of them, until closed. Threads: one caller. */
#ifndef SYSOM_AGGREGATOR_INCIDENT_VERDICT_SKETCH_H
#define SYSOM_AGGREGATOR_INCIDENT_VERDICT_SKETCH_H

#include "analysis/cause/diagnosis.h"
#include "model/window.h"

#define VERDICT_SKETCHES 16u

struct verdict_sketches {
	struct sketch sketch[VERDICT_SKETCHES];
	struct diagnosis_rank rank[VERDICT_SKETCHES];
	void *made[3 * VERDICT_SKETCHES];
	uint32_t count, made_count;
};

/* An empty one on the caller's storage. */
void verdict_sketch_init(struct verdict_sketches *s);
void verdict_sketch_fini(struct verdict_sketches *s);
/* Room for one more sketch; NULL: full. Call verdict_sketch_take once it is filled. */
struct sketch *verdict_sketch_room(struct verdict_sketches *s);
/* What was put into the room, as a rank that lives as long as the sketches; NULL: no memory. */
const struct diagnosis_rank *verdict_sketch_take(struct verdict_sketches *s);
/* Settings, functions and kernels of *from, where *to has none. */
void verdict_sketch_fill(struct diagnosis_rank *to, const struct diagnosis_rank *from);

#endif
