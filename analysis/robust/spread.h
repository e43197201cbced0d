/* SPDX-License-Identifier: Apache-2.0
 * spread.h - standard deviations, and the standard errors of means, medians, slopes and shares.
 * Memory: none. Errors: none; a size of 0 gives INFINITY or NAN. Threads: any. */
#pragma once

#include <stdint.h>

/* The mean of v[n], 0 of none; *sigma: the standard deviation about it, of a population (over n,
 * not n - 1), in v's unit. The two-pass algorithm of Chan, Golub and LeVeque 1983, Algorithms for
 * Computing the Sample Variance, The American Statistician 37 (3). */
double spread_mean(const double *v, uint32_t n, double *sigma);
/* Standard error of the median of n normal values, in sigma's unit: sqrt(pi / 2) sigma / sqrt(n).
 * Kenney and Keeping 1962, Mathematics of Statistics 1, p. 211. */
double spread_of_median(double sigma, double n);
/* Standard error of the slope of a least-squares line through n points at equal distances over the
 * span; sigma: of one point. In units of y over units of x: sigma / sqrt(sum (x - mean)^2), and
 * that sum is n span^2 / 12. Draper and Smith, Applied Regression Analysis, section 1.4. */
double spread_of_slope(double sigma, double n, double span);
/* Variance of a share, 0 to 1, seen in n samples: (share (1 - share) + least / n) / n. That is the
 * binomial's, plus for least 1 that of one more sample, since a share of 0 or 1 is not certain.
 * Feller, An Introduction to Probability Theory 1, chapter IX. */
double spread_of_share(double share, double n, double least);
/* Variance of the difference of two samples' shares, if both have the pooled share; n, m: samples,
 * INFINITY: that side is exact. Fleiss, Statistical Methods for Rates and Proportions, chapter
 * 3. */
double spread_of_shares(double pooled, double n, double m);
