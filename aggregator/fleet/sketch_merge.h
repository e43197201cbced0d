/* SPDX-License-Identifier: Apache-2.0
 * sketch_merge.h - one sketch of several ranks, and what differs between two.
 * Pure but for memory. Threads: any. Results own their texts (wire_sketch_free). */
#ifndef SYSOM_AGGREGATOR_FLEET_SKETCH_MERGE_H
#define SYSOM_AGGREGATOR_FLEET_SKETCH_MERGE_H

#include "base/buf.h"
#include "model/finding.h"
#include "model/window.h"

/* Medians over the sketches: figures of those that know them, shares and kernels with 0 where one
 * does not name them; samples and steps are sums. rank is -1, settings those that all agree on.
 * What is in less than half of them is left out; cut is what the one that had to cut most cut, and what
 * there is no room for. 0, -ENOMEM, -EINVAL (none). */
int sketch_merge(const struct sketch *const *in, uint32_t n, struct sketch *out);
/* As a message that fits LIMIT_SKETCH_BYTES_PER_RANK; cuts its lists until it does, the least
 * first. */
int sketch_merge_encode(struct sketch *s, struct buf *out);

/* Evidence lines about what changed from base to now: functions whose share grew by more than delta
 * (0.005) and by more than three standard errors of their samples; kernels that are new, gone or
 * slower. Returns the cause that this points to, CAUSE_UNKNOWN where nothing changed. */
enum finding_cause sketch_merge_compare(const struct sketch *base, const struct sketch *now,
					double delta, struct finding *f);

#endif
