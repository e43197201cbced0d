/* SPDX-License-Identifier: Apache-2.0
 * misspelt.h - warnings about variables that nothing reads (environment.h). Threads: as getenv(). */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define MISSPELT_BYTES 160

/* A sentence about the next such variable; false: there is none. *at: 0 at first. */
bool misspelt_warning(size_t *at, char out[MISSPELT_BYTES]);
/* The variable that is read and whose name is nearest to this one. */
const char *misspelt_nearest(const char *name);
