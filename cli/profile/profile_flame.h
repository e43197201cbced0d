/* SPDX-License-Identifier: Apache-2.0
 * profile_flame.h - writes a call tree as one self-contained HTML page: a flame graph with zoom and search,
 * for time on the CPU, blocked and on the GPU. A differential tree shows both sides in one graph: red grew,
 * blue shrank. The page loads nothing. Threads: one caller. */
#pragma once

#include <stdio.h>

#include "cli/profile/profile_tree.h"

struct profile_flame {
	const char *title, *note; /* plain text */
	double share_min;	  /* nodes below it are left out and counted on the page */
	const char *base, *other; /* names of the two sides of a differential tree */
	const char *unit;	  /* after every time: " per step"; NULL: none */
	const char *open; /* the kind of time that is shown first: "on", "off", "gpu"; NULL: any */
};
/* 0, -ENOMEM, -errno of the stream. */
int profile_flame_page(FILE *to, const struct profile_tree *t, const struct profile_flame *page);
