/* SPDX-License-Identifier: Apache-2.0
 * median.h - the median of doubles: the middle one, or the mean of the two in the middle.
 * Threads: any. Neither allocates nor recurses. */
#ifndef SYSOM_ANALYSIS_MEDIAN_H
#define SYSOM_ANALYSIS_MEDIAN_H

#include <stdint.h>

/* Sorts v. 0 where there is nothing. */
double median_of(double *v, uint32_t n);
/* v[k] of sorted v, and the same median; n > k, n > 0. Linear time; v is reordered, not sorted. No NAN. */
double median_nth(double *v, uint32_t n, uint32_t k);
double median_select(double *v, uint32_t n);

#endif
