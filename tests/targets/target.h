/* SPDX-License-Identifier: Apache-2.0
 * target.h - programs whose call chains are known, for the unwinder's tests. Each runs until it is
 * killed, burns its core in the chains that its file describes, and prints "ready" first. */
#pragma once

#include <stdint.h>
#include <stdio.h>

#define TARGET_NOINLINE __attribute__((noinline, noclone))

extern volatile uint64_t target_sink;

static inline void target_ready(void)
{
	puts("ready");
	fflush(stdout);
}

/* A leaf: no frame of its own. */
static inline __attribute__((always_inline)) uint64_t target_burn_inline(uint64_t x, int rounds)
{
	for (int i = 0; i < rounds; i++) {
		x = x * 6364136223846793005ull + 1442695040888963407ull;
		x ^= x >> 13;
	}
	return x;
}
uint64_t target_burn(uint64_t x, int rounds);
