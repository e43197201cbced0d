/* SPDX-License-Identifier: Apache-2.0
 * target_frames.c - frames of every shape, without frame pointers: 20 functions of different frame
 * sizes under a qsort callback, a frame with alloca, a realigned frame (AVX locals), a cold part
 * and tail calls. chain: main -> qsort -> compare -> f20 -> ... -> f1 -> (alloca | realigned | cold
 * | tail) -> burn */
#include <alloca.h>
#include <stdlib.h>

#include "tests/targets/target.h"

typedef double vector __attribute__((vector_size(32)));

static TARGET_NOINLINE uint64_t with_alloca(uint64_t x, int n)
{
	volatile char *p = alloca((size_t)n * 16 + 16);

	p[n] = (char)x;
	return target_burn(x, 1000) + (uint64_t)p[n];
}

static TARGET_NOINLINE double take(volatile vector *v, uint64_t x)
{
	(*v)[1] = (double)target_burn(x, 500);
	return (*v)[1] + (*v)[2];
}

/* A 32-byte local in a function that is entered with a 16-byte aligned stack: gcc realigns. */
static TARGET_NOINLINE uint64_t realigned(uint64_t x, int n)
{
	volatile vector v = {(double)x, 1, 2, 3};
	volatile char *p = alloca((size_t)n + 32);

	p[n] = 1;
	return (uint64_t)take(&v, x) + (uint64_t)p[n];
}

static TARGET_NOINLINE __attribute__((cold)) uint64_t rare(uint64_t x)
{
	return target_burn(x, 700) * 3;
}

/* gcc moves the unlikely part into cold_split.cold. */
static TARGET_NOINLINE uint64_t cold_split(uint64_t x)
{
	uint64_t buffer[5];

	buffer[x % 5] = x;
	if (__builtin_expect((x & 3) == 1, 0)) {
		buffer[1] = rare(x);
		buffer[2] = rare(x + buffer[1]);
	}
	return buffer[x % 5] + target_burn(x, 300);
}

static TARGET_NOINLINE uint64_t tail_end(uint64_t x)
{
	return target_burn_inline(x, 800);
}

/* A tail call: this frame is gone while tail_end runs. */
static TARGET_NOINLINE uint64_t tail(uint64_t x)
{
	return tail_end(x * 3);
}

static TARGET_NOINLINE uint64_t f0(uint64_t x)
{
	switch (x % 4) {
	case 0:
		return with_alloca(x, (int)(x & 31) + 1) + 1;
	case 1:
		return realigned(x, (int)(x & 63) + 1) + 2;
	case 2:
		return cold_split(x >> 2) + 3;
	default:
		return tail(x) + 4;
	}
}

#define F(n, next)                                                                                 \
	static TARGET_NOINLINE uint64_t f##n(uint64_t x)                                           \
	{                                                                                          \
		volatile uint64_t buffer[(n) % 7 + 1];                                             \
		uint64_t r;                                                                        \
                                                                                                   \
		buffer[(n) % 7] = x;                                                               \
		r = next(x + (n)) + buffer[(n) % 7];                                               \
		target_sink += r;                                                                  \
		return r ^ x;                                                                      \
	}
/* clang-format off */
F(1, f0) F(2, f1) F(3, f2) F(4, f3) F(5, f4) F(6, f5) F(7, f6)
F(8, f7) F(9, f8) F(10, f9) F(11, f10) F(12, f11) F(13, f12) F(14, f13)
F(15, f14) F(16, f15) F(17, f16) F(18, f17) F(19, f18) F(20, f19)
    /* clang-format on */

    static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	target_sink += f20(x);
	return x < y ? -1 : x > y;
}

int main(void)
{
	target_ready();
	for (uint64_t seed = 1;;) {
		uint64_t v[16];

		for (int i = 0; i < 16; i++)
			v[i] = seed = target_burn_inline(seed, 1);
		qsort(v, 16, sizeof(v[0]), compare);
	}
}
