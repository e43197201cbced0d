/* SPDX-License-Identifier: Apache-2.0
 * hash.h - FNV-1a 64 and a finaliser, for tables and for identities within one version of sysom.
 * Header-only and libc-free, so that preload/ may use it. Not for keys that a peer may choose: use
 * base/keyed.h for those. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define HASH_SEED 0xcbf29ce484222325ull

static inline uint64_t hash_bytes(uint64_t seed, const void *data, size_t bytes)
{
	const unsigned char *p = data;
	uint64_t h = seed;

	for (size_t i = 0; i < bytes; i++) {
		h ^= p[i];
		h *= 0x100000001b3ull;
	}
	return h;
}

/* Spreads every bit of x over the result (the 64-bit finaliser of MurmurHash3). */
static inline uint64_t hash_mix(uint64_t x)
{
	x ^= x >> 33;
	x *= 0xff51afd7ed558ccdull;
	x ^= x >> 33;
	x *= 0xc4ceb9fe1a85ec53ull;
	x ^= x >> 33;
	return x;
}
