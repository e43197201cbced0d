/* SPDX-License-Identifier: Apache-2.0
 * sketch_merge.h - merges the sketches of several ranks into one. Pure but for memory. Threads: any.
 * Results own their texts (wire_sketch_free). */
#pragma once

#include "model/finding.h"
#include "model/window.h"

/* Merges sketches into medians. A figure that a sketch does not have is left out; a share or kernel
 * that it does not name counts as 0. samples and steps are sums, rank is -1, and settings are those
 * that all agree on. An entry in fewer than half of the sketches is left out. cut: the largest
 * number of entries that one of the sketches had left out. 0, -ENOMEM, -EINVAL (none). */
int sketch_merge(const struct sketch *const *in, uint32_t n, struct sketch *out);
