/* SPDX-License-Identifier: Apache-2.0
 * chance.h - how likely a deviation is, and how large a deviation of that chance is. Chances: 0 to
 * 1. Deviations: in standard deviations or standard errors. Memory: the caller's.
 * Threads: any. Errors: none; an argument outside its range gives the result of the nearest end of
 * the range. */
#pragma once

#include <stdint.h>

/* P(|Z| > z) of a standard normal, erfc(z / sqrt 2): Abramowitz and Stegun, Handbook of
 * Mathematical Functions, 26.2.29. NAN gives NAN. */
double chance_beyond(double z);
/* The z with P(Z > z) = chance, and the t with P(T > t) = chance. chance: at most 0.5. freedom:
 * degrees of freedom of t, at least 1. z is 0 to 12, t is 0 to 1000. By bisection of 26.2.29, and
 * of 26.7.3 and 26.7.4. */
double chance_normal(double chance);
double chance_student(double chance, uint32_t freedom);
/* The largest of chance[n] that is significant when at most the share `rate` of the significant ones
 * may be false; below 0: none is. Sorts chance. Benjamini and Hochberg 1995, Controlling the False
 * Discovery Rate, Journal of the Royal Statistical Society B 57 (1), section 3.1. */
double chance_cut(double *chance, uint32_t n, double rate);
