/* SPDX-License-Identifier: Apache-2.0
 * median.h - order statistics of doubles: sorting, medians, quantiles, MAD. v: n values in the same
 * unit, which may be any; results have this unit too. Memory: the caller's, nothing is allocated
 * unless a line says so. Errors: none; n = 0 gives 0 unless a line says otherwise. NAN: sorting
 * puts it anywhere, so filter it first, as median_known does. Threads: any. Nothing recurses. */
#pragma once

#include <stdint.h>

/* Standard deviation per MAD of a normal, 1 / z(3/4). Rousseeuw and Croux 1993, Alternatives to
 * the Median Absolute Deviation, JASA 88, section 1. */
#define MEDIAN_MAD_SIGMA 1.4826

/* Ascending, in place. Heapsort (Knuth, The Art of Computer Programming 3, 5.2.3): no bad case. */
void median_sort(double *v, uint32_t n);
/* The middle value, or the mean of the two middle values. Sorts v. */
double median_of(double *v, uint32_t n);
/* median_nth: v[k] as if v were sorted; n > k. median_select: the same result as median_of; n > 0.
 * Linear time; v is reordered, not sorted. v must have no NAN. Quickselect: Hoare 1961, Algorithm
 * 65, Communications of the ACM 4 (7). */
double median_nth(double *v, uint32_t n, uint32_t k);
double median_select(double *v, uint32_t n);
/* The median of the finite values; NAN: none is finite. Linear time. scratch: [n], may be v. */
double median_known(const double *v, uint32_t n, double *scratch);
/* Median of |v - middle|. This is the MAD if middle is the median. Leaves those distances in v,
 * sorted. For normal values, the MAD times MEDIAN_MAD_SIGMA is the standard deviation. */
double median_mad(double *v, uint32_t n, double middle);
/* The quantile p, 0 to 1, by linear interpolation between sorted values: Hyndman and Fan 1996,
 * Sample Quantiles in Statistical Packages, The American Statistician 50 (4), definition 7. */
double median_quantile(const double *sorted, uint32_t n, double p);
/* The same quantile without interpolation: the value of v at or below it. Sorts v. NAN: n is 0. */
double median_lower(double *v, uint32_t n, double p);
/* Median of the values in the densest window of this width; of equally dense windows, the lowest.
 * After Robertson and Cryer 1974, An Iterative Procedure for Estimating the Mode, JASA 69. */
double median_centre(const double *sorted, uint32_t n, double width);

struct median_weighted {
	double value, weight;
};

/* The smallest value up to which half of all weight lies: Cormen and others, Introduction to
 * Algorithms, problem 9-2. Sorts v; qsort may allocate. none: the result if no value has weight. */
double median_of_weighted(struct median_weighted *v, uint32_t n, double none);
