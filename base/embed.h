/* SPDX-License-Identifier: Apache-2.0
 * embed.h - puts a file of the tree into the program, as text that ends with a zero byte. The object
 * needs the file as a prerequisite (module.mk). */
#pragma once

/* Defines `const char symbol[]`. path: from the root of the tree. */
#define EMBED_TEXT(symbol, path)                                                                   \
	__asm__(".section .rodata\n.global " #symbol "\n" #symbol ":\n.incbin \"" path             \
		"\"\n.byte 0\n.previous\n");                                                       \
	extern const char symbol[]
