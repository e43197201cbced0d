/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/median.h"

#include <math.h>

#include "analysis/roofline_fit.h"

double median_of(double *v, uint32_t n)
{
	if (!n)
		return 0;
	roofline_fit_sort(v, n);
	return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

/* The k-th smallest, everything before it no larger: quickselect, middle of three as the pivot. */
double median_nth(double *v, uint32_t n, uint32_t k)
{
	uint32_t lo = 0, hi = n - 1;

	while (lo < hi) {
		double a = v[lo], b = v[lo + (hi - lo) / 2], c = v[hi];
		double pivot = fmax(fmin(a, b), fmin(fmax(a, b), c));
		uint32_t i = lo, j = hi;

		for (;;) {
			while (v[i] < pivot)
				i++;
			while (v[j] > pivot)
				j--;
			if (i >= j)
				break;
			a = v[i];
			v[i++] = v[j];
			v[j--] = a;
		}
		/* [lo, j] <= pivot <= [j + 1, hi]; j == hi only where v[hi] is the pivot itself */
		if (j == hi)
			j--;
		if (k <= j)
			hi = j;
		else
			lo = j + 1;
	}
	return v[k];
}

double median_select(double *v, uint32_t n)
{
	double upper = median_nth(v, n, n / 2), lower = upper;

	if (n % 2)
		return upper;
	lower = v[0];
	for (uint32_t i = 1; i < n / 2; i++)
		lower = fmax(lower, v[i]);
	return (lower + upper) / 2;
}
