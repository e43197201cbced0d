/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/robust/spread.h"

#include <math.h>

#define MEDIAN_ERROR 1.2533 /* sqrt(pi / 2) */

double spread_mean(const double *v, uint32_t n, double *sigma)
{
	double mean = 0, squares = 0;

	for (uint32_t i = 0; i < n; i++)
		mean += v[i];
	mean = n ? mean / n : 0;
	for (uint32_t i = 0; i < n; i++)
		squares += (v[i] - mean) * (v[i] - mean);
	*sigma = n ? sqrt(squares / n) : 0;
	return mean;
}

double spread_of_median(double sigma, double n)
{
	return n > 0 ? MEDIAN_ERROR * sigma / sqrt(n) : INFINITY;
}

double spread_of_slope(double sigma, double n, double span)
{
	return sigma * sqrt(12 / n) / span;
}

double spread_of_share(double share, double n, double least)
{
	return n > 0 ? (share * (1 - share) + least / n) / n : INFINITY;
}

double spread_of_shares(double pooled, double n, double m)
{
	return pooled * (1 - pooled) * (1 / n + 1 / m);
}
