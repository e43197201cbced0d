/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/robust/median.h"

#include <math.h>
#include <stdlib.h>

/* Heapsort on doubles: no allocation (qsort may), no recursion, no bad case. */
static void sift(double *v, uint32_t root, uint32_t n)
{
	double x = v[root];

	for (;;) {
		uint32_t child = 2 * root + 1;

		if (child >= n)
			break;
		if (child + 1 < n && v[child + 1] > v[child])
			child++;
		if (v[child] <= x)
			break;
		v[root] = v[child];
		root = child;
	}
	v[root] = x;
}

static void sort_insertion(double *v, uint32_t n)
{
	for (uint32_t i = 1; i < n; i++) {
		double x = v[i];
		uint32_t j = i;

		for (; j > 0 && v[j - 1] > x; j--)
			v[j] = v[j - 1];
		v[j] = x;
	}
}

void median_sort(double *v, uint32_t n)
{
	if (n < 24) {
		sort_insertion(v, n);
		return;
	}
	for (uint32_t i = n / 2; i-- > 0;)
		sift(v, i, n);
	for (uint32_t i = n; i-- > 1;) {
		double x = v[0];

		v[0] = v[i];
		v[i] = x;
		sift(v, 0, i);
	}
}

double median_of(double *v, uint32_t n)
{
	if (!n)
		return 0;
	median_sort(v, n);
	return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

/* Quickselect with the median of three as pivot. Afterwards no value before v[k] is larger than
 * v[k]. */
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
		/* [lo, j] <= pivot <= [j + 1, hi]; j == hi only if v[hi] is the pivot itself */
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

double median_known(const double *v, uint32_t n, double *scratch)
{
	uint32_t known = 0;

	for (uint32_t i = 0; i < n; i++)
		if (isfinite(v[i]))
			scratch[known++] = v[i];
	return known ? median_select(scratch, known) : NAN;
}

double median_mad(double *v, uint32_t n, double middle)
{
	for (uint32_t i = 0; i < n; i++)
		v[i] = fabs(v[i] - middle);
	return median_of(v, n);
}

double median_quantile(const double *sorted, uint32_t n, double p)
{
	double at = p * (n ? n - 1 : 0);
	uint32_t i = (uint32_t)at;

	if (i + 1 >= n)
		return n ? sorted[n - 1] : 0;
	return sorted[i] + (at - i) * (sorted[i + 1] - sorted[i]);
}

double median_lower(double *v, uint32_t n, double p)
{
	if (!n)
		return NAN;
	median_sort(v, n);
	return v[(uint32_t)(p * (n - 1))];
}

double median_centre(const double *sorted, uint32_t n, double width)
{
	uint32_t best = 0, best_begin = 0;

	for (uint32_t i = 0, j = 0; i < n; i++) {
		while (j < n && sorted[j] - sorted[i] <= width)
			j++;
		if (j - i > best) {
			best = j - i;
			best_begin = i;
		}
		if (j == n)
			break;
	}
	return median_quantile(sorted + best_begin, best, 0.5);
}

static int by_value(const void *x, const void *y)
{
	const struct median_weighted *a = x, *b = y;

	return (a->value > b->value) - (a->value < b->value);
}

double median_of_weighted(struct median_weighted *v, uint32_t n, double none)
{
	double all = 0, sum = 0;

	for (uint32_t i = 0; i < n; i++)
		all += v[i].weight;
	qsort(v, n, sizeof(*v), by_value);
	for (uint32_t i = 0; i < n && all > 0; i++) {
		sum += v[i].weight;
		if (sum * 2 >= all)
			return v[i].value;
	}
	return none;
}
