/* SPDX-License-Identifier: Apache-2.0
 * spread.h - standard deviations, and the standard errors of means, medians, slopes and shares.
 * Memory: none. Errors: none; a size of 0 gives INFINITY or NAN. Threads: any. */
#pragma once

#include <stdint.h>

/* The mean of v[n]; 0 if n is 0. *sigma: the population's standard deviation (over n, not n - 1),
 * in v's unit. The two-pass algorithm of Chan, Golub and LeVeque 1983, Algorithms for Computing the
 * Sample Variance, The American Statistician 37 (3). */
double spread_mean(const double *v, uint32_t n, double *sigma);
/* Standard error of the median of n normal values, in sigma's unit: sqrt(pi / 2) sigma / sqrt(n).
 * Kenney and Keeping 1962, Mathematics of Statistics 1, p. 211. */
double spread_of_median(double sigma, double n);
/* Standard error of the slope of a least-squares line through n points at equal distances over
 * `span`, in units of y over units of x. sigma: standard deviation of one point. The formula is
 * sigma / sqrt(sum (x - mean)^2); for equal distances that sum is n span^2 / 12. Draper and Smith,
 * Applied Regression Analysis, section 1.4. */
double spread_of_slope(double sigma, double n, double span);
/* Variance of a share, 0 to 1, seen in n samples: (share (1 - share) + least / n) / n. This is the
 * binomial variance plus least / n^2: with least 1, a share of 0 or 1 is not certain either, as if
 * one more sample had differed. Feller, An Introduction to Probability Theory 1, chapter IX. */
double spread_of_share(double share, double n, double least);
/* Variance of the difference between the shares of two samples, if both have the pooled share. n,
 * m: sizes of the samples; INFINITY: the share of that side is exact. Fleiss, Statistical Methods
 * for Rates and Proportions, chapter 3. */
double spread_of_shares(double pooled, double n, double m);
