/* SPDX-License-Identifier: Apache-2.0
 * target.c - what all targets share. */
#include "tests/targets/target.h"

volatile uint64_t target_sink;

TARGET_NOINLINE uint64_t target_burn(uint64_t x, int rounds)
{
	return target_burn_inline(x, rounds);
}
