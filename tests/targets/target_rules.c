/* SPDX-License-Identifier: Apache-2.0
 * target_rules.c - two builds of the same code whose frames have other sizes (RULES_FRAME): the larger
 * one's rules, taken for the smaller one's, skip two of three frames and still reach the root. A program
 * of its own, or with two arguments a program that loads these libraries in turns, each for 3 ms, the
 * second where the first was.  chain: main -> rules_deep, 12 times -> callback -> target_burn */
#include "tests/targets/target.h"

#define DEPTH 12

/* The same instructions, byte for byte, but for the frame. */
#define TEXT(x)	 TEXT_(x)
#define TEXT_(x) #x
__asm__(".text\n"
	".globl rules_deep\n"
	".type rules_deep, @function\n"
	"rules_deep:\n"
	".cfi_startproc\n"
	"sub $" TEXT(
	    RULES_FRAME) ", %rsp\n"
			 ".cfi_adjust_cfa_offset " TEXT(
			     RULES_FRAME) "\n"
					  "dec %edi\n"
					  "jz 1f\n"
					  "call rules_deep@PLT\n"
					  "jmp 2f\n"
					  "1: call *%rsi\n"
					  "2: add $" TEXT(
					      RULES_FRAME) ", %rsp\n"
							   ".cfi_adjust_cfa_offset -" TEXT(
							       RULES_FRAME) "\n"
									    "ret\n"
									    ".cfi_endproc\n"
									    ".size rules_deep, . - "
									    "rules_deep\n");

#ifndef RULES_LIBRARY
#include <dlfcn.h>
#include <time.h>

typedef void (*deep)(int depth, void (*callback)(void));
void rules_deep(int depth, void (*callback)(void));

static TARGET_NOINLINE void callback(void)
{
	target_sink += target_burn(target_sink, 20000);
}

static long now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

int main(int argc, char **argv)
{
	target_ready();
	for (int i = 1; argc == 3; i = 3 - i) {
		void *library = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
		deep f = library ? (deep)dlsym(library, "rules_deep") : NULL;
		long end = now_ms() + 3;

		if (!f)
			return 1;
		while (now_ms() < end)
			f(DEPTH, callback);
		dlclose(library);
	}
	for (;;)
		rules_deep(DEPTH, callback);
}
#endif
