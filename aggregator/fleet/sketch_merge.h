/* SPDX-License-Identifier: Apache-2.0
 * sketch_merge.h - merge the sketches of several ranks into one, and compare two sketches.
 * Pure but for memory. Threads: any. Results own their texts (wire_sketch_free). */
#pragma once

#include "model/finding.h"
#include "model/window.h"

/* Merges sketches into medians. A figure that a sketch does not have is left out; a share or kernel
 * that it does not name counts as 0. samples and steps are sums, rank is -1, and settings are those
 * that all agree on. An entry in fewer than half of the sketches is left out. cut: the largest
 * number that one sketch had cut. 0, -ENOMEM, -EINVAL (none). */
int sketch_merge(const struct sketch *const *in, uint32_t n, struct sketch *out);

/* Adds evidence about what changed from base to now: functions whose share grew by more than delta
 * (0.005) and by more than three standard errors of their samples; kernels that are new, missing or
 * slower. Returns the cause that this indicates; CAUSE_UNKNOWN if nothing changed. */
enum finding_cause sketch_merge_compare(const struct sketch *base, const struct sketch *now,
					double delta, struct finding *f);
