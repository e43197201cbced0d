/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/robust/change.h"

#include <math.h>

static double clipped(double v, double most)
{
	return v > most ? most : v < -most ? -most : v;
}

double change_cusum(double sum, double z, double clip, double slack)
{
	sum += clipped(z, clip) - slack;
	return sum < 0 ? 0 : sum;
}

uint32_t change_onset(const double *v, uint32_t n, double level, double clip)
{
	uint32_t onset = n;
	double sum = 0, best = 0;

	for (uint32_t i = n; i-- > 0;) {
		if (isnan(v[i]))
			continue;
		sum += clipped(v[i] - level, clip);
		if (sum >= best) {
			best = sum;
			onset = i;
		}
	}
	return onset;
}
