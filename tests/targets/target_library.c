/* SPDX-License-Identifier: Apache-2.0
 * target_library.c - the library that target_dlopen loads: calls back through its own PLT.
 * chain: ... -> library_enter -> library_deep -> callback */
#include "tests/targets/target.h"

uint64_t library_deep(uint64_t (*callback)(uint64_t), uint64_t x);
uint64_t library_enter(uint64_t (*callback)(uint64_t), uint64_t x);

TARGET_NOINLINE uint64_t library_deep(uint64_t (*callback)(uint64_t), uint64_t x)
{
	volatile uint64_t buffer[3] = {x};

	return callback(buffer[0]) + target_burn_inline(x, 200) + buffer[1];
}

TARGET_NOINLINE uint64_t library_enter(uint64_t (*callback)(uint64_t), uint64_t x)
{
	volatile uint64_t buffer[6] = {x};

	return library_deep(callback, buffer[0]) + buffer[1];
}
