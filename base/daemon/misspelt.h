/* SPDX-License-Identifier: Apache-2.0
 * misspelt.h - warnings about variables that nothing reads (environment.h). Threads: as getenv(). */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define MISSPELT_BYTES 160

/* Writes a sentence about the next such variable; false: there is none. *at: 0 at first. */
bool misspelt_warning(size_t *at, char out[MISSPELT_BYTES]);
/* The name nearest to this one among the variables that our programs read. */
const char *misspelt_nearest(const char *name);
