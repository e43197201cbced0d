/* SPDX-License-Identifier: Apache-2.0
 * beat_sample.h - selects the collectives that a beat carries. It is a pure function, so every rank
 * sends the same ones (docs/wire-format.md, "Which collectives are sampled"). Header-only. */
#pragma once

#include <stdbool.h>

#include "base/hash.h"

/* Whether the collective is selected: one of 2^shift is. A smaller shift selects the same ones and
 * more. */
static inline bool beat_sample(uint64_t comm, uint32_t func, uint32_t seq, uint32_t shift)
{
	uint64_t h = hash_mix(hash_mix(comm ^ (uint64_t)func << 56) + seq);

	return !shift || (shift < 64 && !(h >> (64 - shift)));
}
