/* SPDX-License-Identifier: Apache-2.0
 * target_deep.c - recursion to a depth that changes from 1 to 1500: below and beyond the sampler's
 * limit of frames. chain: main -> recurse x depth -> burn */
#include "tests/targets/target.h"

static TARGET_NOINLINE uint64_t recurse(uint64_t x, int depth)
{
	volatile uint64_t keep = x;

	if (!depth)
		return target_burn(x, 300000);
	return recurse(x + 1, depth - 1) + keep;
}

int main(void)
{
	static const int depths[] = {1, 30, 200, 505, 509, 515, 1500};

	target_ready();
	for (unsigned i = 0;; i++)
		target_sink += recurse(i, depths[i % 7]) + 1;
}
