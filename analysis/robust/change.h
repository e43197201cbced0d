/* SPDX-License-Identifier: Apache-2.0
 * change.h - detect that the level of a series changed, and at which position. All values have the
 * same unit, which may be any. Memory: the caller's, nothing is allocated. Errors: none. Threads:
 * any. */
#pragma once

#include <stdint.h>

/* The next cumulative sum, never below 0: it rises while z stays above slack. A z counts for at
 * most `clip` (0 or more) either way. The first sum is 0. Page 1954, Continuous Inspection Schemes,
 * Biometrika 41. */
double change_cusum(double sum, double z, double clip, double slack);
/* The position at which v[n] begins to lie above `level`; v must end above it. It is the position
 * from which the sum of v - level is largest, with each term limited to `clip` either way; of equal
 * sums, the first. NAN is skipped. Returns n if there is no such position. Hinkley 1971, Inference
 * about the Change-Point from Cumulative Sum Tests, Biometrika 58. */
uint32_t change_onset(const double *v, uint32_t n, double level, double clip);
