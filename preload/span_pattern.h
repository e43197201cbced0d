/* SPDX-License-Identifier: Apache-2.0
 * span_pattern.h - texts of NVTX ranges that a catalogue names (docs/spans.md): "step {tokens} of *".
 * Pure; never allocates. Threads: any. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/span_kind.h"

/* Whether the pattern matches the whole text. `*` matches any bytes. `{tokens}`, and each other word of
 * SPAN_WORKS, matches a decimal number, which goes into work. Any other byte matches itself. Time: at
 * most the product of both lengths. work: all 0 if it does not match. */
bool span_pattern_match(const char *pattern, const char *text, size_t bytes,
			float work[SPAN_WORK_MAX]);
