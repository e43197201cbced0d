/* SPDX-License-Identifier: Apache-2.0
 * scramble.h - FNV-1a and splitmix64's finaliser, for identities and reproducible jitter of the
 * simulated node. Header-only, pure. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define SCRAMBLE_SEED 0xcbf29ce484222325ull

static inline uint64_t scramble_bytes(uint64_t seed, const void *data, size_t bytes)
{
	const unsigned char *p = data;

	while (bytes--)
		seed = (seed ^ *p++) * 0x100000001b3ull;
	return seed;
}

static inline uint64_t scramble(uint64_t x)
{
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	return x ^ (x >> 31);
}
