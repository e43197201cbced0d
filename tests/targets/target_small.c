/* SPDX-License-Identifier: Apache-2.0
 * target_small.c - built with -Os, functions touch, and leaves have the same rule throughout: all time
 * goes to functions that lie behind one that never runs. */
#include <stdio.h>

unsigned small_never(unsigned x);
unsigned small_add(unsigned x);
unsigned small_mix(unsigned x);
unsigned small_turn(unsigned x);

__attribute__((noinline)) unsigned small_never(unsigned x)
{
	for (unsigned i = 0; i < 1000; i++)
		x = x * 7 + i;
	return x;
}

__attribute__((noinline)) unsigned small_add(unsigned x)
{
	for (unsigned i = 0; i < 1000; i++)
		x += (x >> 3) ^ i;
	return x;
}

__attribute__((noinline)) unsigned small_mix(unsigned x)
{
	for (unsigned i = 0; i < 1000; i++)
		x = (x ^ x << 5) + i;
	return x;
}

__attribute__((noinline)) unsigned small_turn(unsigned x)
{
	for (unsigned i = 0; i < 1000; i++)
		x = (x << 7 | x >> 25) ^ i;
	return x;
}

int main(int argc, char **argv)
{
	unsigned x = (unsigned)argc;

	puts("ready");
	fflush(stdout);
	for (;;) {
		x = small_turn(small_mix(small_add(x)));
		if (x == 0x12345 && argv[1])
			x = small_never(x);
	}
}
