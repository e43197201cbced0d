/* SPDX-License-Identifier: Apache-2.0
 * regress.h - lines through points, by least squares or median slopes; and non-negative sums of
 * terms. Points: t[n] or x[n] with y[n], in any units; a slope is in units of y over units of x.
 * Memory: the caller's, nothing is allocated. Errors: as each function says. NAN: filter it first.
 * Threads: any. */
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
/* Pearson's correlation, -1 to 1; 0 if x or y does not vary. Draper and Smith, section 1.6. */
double regress_correlation(const struct regress_sums *s);

/* Median of the slopes of pairs of points. A pair is one of the first `ends` points and one of the
 * last `ends` points that lie more than `apart` from each other in t. With ends = n these are all
 * pairs (Sen 1968, Estimates of the Regression Coefficient Based on Kendall's Tau, JASA 63). If t
 * rises, n / 3 gives about as good a slope from fewer pairs (the parts of Bartlett 1949, Fitting a
 * Straight Line when Both Variables are Subject to Error, Biometrics 5). slopes: [room], scratch;
 * if there are more pairs than room, evenly spread ones are used. Returns 0 if there is no pair. */
double regress_median_slope(const double *t, const double *y, uint32_t n, uint32_t ends,
			    double apart, double *slopes, uint32_t room);

/* The same sums, with a weight per point; weight: 0 or more. */
void regress_add_weighted(struct regress_sums *s, double x, double y, double weight);
/* y = a + slope x, by least squares with a >= 0 and slope >= 0; x >= 0, y > 0. If all points have
 * the same x, a is 0, because the points do not determine it. False, with nothing written, if no
 * point has weight. The sum of squares is convex: if its minimum has a negative a or slope, the
 * result has a 0 in place of one of them (Lawson and Hanson, chapter 23). */
bool regress_line_nonnegative(const struct regress_sums *s, double *a, double *slope);
/* The same line, but with the least sum of |a + slope x - y| / y, which single far points do not
 * move (de Myttenaere and others 2016, Mean Absolute Percentage Error for Regression Models,
 * Neurocomputing 192). Solved by reweighting: Schlossmacher 1973, An Iterative Technique for
 * Absolute Deviations Curve Fitting, JASA 68. Returns that sum. x[n] >= 0, y[n] > 0, n > 0. */
double regress_line_relative(const double *x, const double *y, uint32_t n, double *a,
			     double *slope);

double regress_dot(const double *a, const double *b, uint32_t n); /* the sum of a[i] b[i] */
/* Minimises b'Gb / 2 - c'b over b >= 0, one coordinate after the other, starting from the given b.
 * Each coordinate is solved exactly, so the scales of the terms do not matter. g: [p][stride],
 * symmetric, no eigenvalue below 0; c, b: [p]. Lawson and Hanson, Solving Least Squares Problems,
 * chapter 23, states the problem; the method is Franc, Hlavac and Navara 2005, Sequential
 * Coordinate-Wise Algorithm for the Non-negative Least Squares Problem. At most 200 rounds. */
void regress_nonnegative(const double *g, uint32_t stride, const double *c, uint32_t p, double *b);
