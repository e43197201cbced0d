/* SPDX-License-Identifier: Apache-2.0
 * regress.h - lines through points: by least squares or median slopes; and non-negative sums of
 * terms. Points: t[n] or x, y[n] in any units; a slope is in units of y over units of x. Memory:
 * the caller's, nothing is allocated. Errors: as each says. NAN: filter it first. Threads: any. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* The sums that a least-squares line needs. All zero at first. */
struct regress_sums {
	double n, x, y, xx, xy, yy;
};

void regress_add(struct regress_sums *s, double x, double y);
/* y = a + slope x. False, with nothing written, if all points have the same x. Draper and Smith,
 * Applied Regression Analysis, section 1.2. */
bool regress_line(const struct regress_sums *s, double *a, double *slope);
/* Pearson's correlation, -1 to 1; 0 if x or y does not vary. Same, section 1.6. */
double regress_correlation(const struct regress_sums *s);

/* Median of the slopes of pairs of points that are more than `apart` from each other in t: one of
 * the pair among the first `ends` points, the other among the last. ends = n: of all pairs (Sen
 * 1968, Estimates of the Regression Coefficient Based on Kendall's Tau, JASA 63). If t rises, n / 3
 * gives about as good a slope from fewer pairs (the parts of Bartlett 1949, Fitting a Straight Line
 * when Both Variables are Subject to Error, Biometrics 5). slopes: [room]; if there are more pairs,
 * evenly spread ones are used. 0: there is no pair. */
double regress_median_slope(const double *t, const double *y, uint32_t n, uint32_t ends,
			    double apart, double *slopes, uint32_t room);

/* The same sums, with a weight, 0 or more, per point. */
void regress_add_weighted(struct regress_sums *s, double x, double y, double weight);
/* y = a + slope x with the least squares among a, slope >= 0; x >= 0, y > 0. If all points have the
 * same x, so that neither is known, a is 0. False, with nothing written: no point has weight. The
 * sum is convex: if its minimum lies outside, one of the two is 0 (Lawson and Hanson, chapter
 * 23). */
bool regress_line_nonnegative(const struct regress_sums *s, double *a, double *slope);
/* The same line with the least sum of |a + slope x - y| / y, which single far points do not move:
 * de Myttenaere and others 2016, Mean Absolute Percentage Error for Regression Models,
 * Neurocomputing 192; by reweighting, Schlossmacher 1973, An Iterative Technique for Absolute
 * Deviations Curve Fitting, JASA 68. Returns that sum. x[n] >= 0, y[n] > 0, n > 0. */
double regress_line_relative(const double *x, const double *y, uint32_t n, double *a,
			     double *slope);

double regress_dot(const double *a, const double *b, uint32_t n); /* the sum of a[i] b[i] */
/* Minimises b'Gb / 2 - c'b over b >= 0, starting from the given b, one coordinate after the other.
 * Each coordinate is solved exactly, so the scales of the terms do not matter. g: [p][stride],
 * symmetric, no eigenvalue below 0; c, b: [p]. Lawson and Hanson, Solving Least Squares Problems,
 * chapter 23, states the problem; the method is Franc, Hlavac and Navara 2005, Sequential
 * Coordinate-Wise Algorithm for the Non-negative Least Squares Problem. At most 200 rounds. */
void regress_nonnegative(const double *g, uint32_t stride, const double *c, uint32_t p, double *b);
