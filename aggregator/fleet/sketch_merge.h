/* SPDX-License-Identifier: Apache-2.0
 * sketch_merge.h - merges the sketches of several ranks into one. Pure but for memory. Threads: any.
 * Results own their texts (wire_sketch_free). */
#pragma once

#include "model/finding.h"
#include "model/window.h"

/* Merges sketches into medians. If a sketch lacks a figure, the figure's median is over the others.
 * A function or kernel that a sketch does not name counts as 0 there. samples and steps are sums,
 * rank is -1, and settings are those that all sketches agree on. An entry in fewer than half of the
 * sketches is left out. functions_cut, kernels_cut: the largest of the sketches', plus the entries
 * without room in the result. 0, -ENOMEM, -EINVAL (no sketches). */
int sketch_merge(const struct sketch *const *in, uint32_t n, struct sketch *out);
