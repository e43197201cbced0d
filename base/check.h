/* SPDX-License-Identifier: Apache-2.0
 * check.h - assertions about our own code. A peer's bytes never reach CHECK: they are counted and
 * dropped. preload/ and cupti/ never include this file: they switch themselves off instead. */
#pragma once

#include <stdio.h>
#include <stdlib.h>

#define CHECK(cond)                                                                                \
	do {                                                                                       \
		if (__builtin_expect(!(cond), 0)) {                                                \
			fprintf(stderr, "%s:%d: CHECK(%s) failed\n", __FILE__, __LINE__, #cond);   \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
