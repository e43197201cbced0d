/* SPDX-License-Identifier: Apache-2.0
 * target_dlopen.c - a library that is loaded at run time, and lazily bound calls: the library is
 * loaded anew in every round, so that each first call goes through the PLT and the dynamic linker's
 * resolver. usage: target_dlopen LIBRARY.  chain: main -> round -> library_enter -> library_deep ->
 * callback -> burn */
#include <dlfcn.h>
#include <stdlib.h>

#include "tests/targets/target.h"

typedef uint64_t (*enter)(uint64_t (*callback)(uint64_t), uint64_t x);

static TARGET_NOINLINE uint64_t callback(uint64_t x)
{
	return target_burn(x, 200) + 1;
}

static TARGET_NOINLINE uint64_t round_trip(enter f, uint64_t x)
{
	uint64_t sum = 0;

	for (int i = 0; i < 20; i++)
		sum += f(callback, x + (uint64_t)i);
	return sum;
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	target_ready();
	for (uint64_t i = 0;; i++) {
		void *library = dlopen(argv[1], RTLD_LAZY | RTLD_LOCAL);
		enter f = library ? (enter)dlsym(library, "library_enter") : NULL;

		if (!f)
			return 1;
		for (int k = 0; k < 20; k++)
			target_sink += round_trip(f, i);
		dlclose(library);
	}
}
