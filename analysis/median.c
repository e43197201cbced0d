/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/median.h"

#include "analysis/roofline_fit.h"

double median_of(double *v, uint32_t n)
{
	if (!n)
		return 0;
	roofline_fit_sort(v, n);
	return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}
