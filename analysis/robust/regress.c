/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/robust/regress.h"

#include <math.h>
#include <stddef.h>

#include "analysis/robust/median.h"

#define ROUNDS	200
#define CHANGE	1e-7  /* relative change of a round at which the iteration stops */
#define VARIES	1e-12 /* x varies if more than this part of its squares is left */
#define DAMPING 1e-9  /* damping, as a part of a term: keeps two equal terms from diverging */

void regress_add(struct regress_sums *s, double x, double y)
{
	s->n++;
	s->x += x;
	s->y += y;
	s->xx += x * x;
	s->xy += x * y;
	s->yy += y * y;
}

bool regress_line(const struct regress_sums *s, double *a, double *slope)
{
	double d = s->n * s->xx - s->x * s->x;

	if (!(s->n >= 2 && d > VARIES * s->n * s->xx))
		return false;
	*slope = (s->n * s->xy - s->x * s->y) / d;
	*a = (s->y - *slope * s->x) / s->n;
	return true;
}

double regress_correlation(const struct regress_sums *s)
{
	double d = sqrt(s->n * s->xx - s->x * s->x) * sqrt(s->n * s->yy - s->y * s->y);

	return d > 0 ? (s->n * s->xy - s->x * s->y) / d : 0;
}

double regress_median_slope(const double *t, const double *y, uint32_t n, uint32_t ends,
			    double apart, double *slopes, uint32_t room)
{
	uint64_t pairs = ends < n ? (uint64_t)ends * ends : (uint64_t)n * n / 2, k = 0;
	uint64_t step = pairs / (room ? room : 1) + 1;
	uint32_t m = 0;

	ends = ends < n ? ends : n;
	for (uint32_t i = 0; i < ends; i++)
		for (uint32_t j = i < n - ends ? n - ends : i + 1; j < n; j++)
			if (k++ % step == 0 && fabs(t[j] - t[i]) > apart && m < room)
				slopes[m++] = (y[j] - y[i]) / (t[j] - t[i]);
	return median_of(slopes, m);
}

double regress_dot(const double *a, const double *b, uint32_t n)
{
	double sum = 0;

	for (uint32_t i = 0; i < n; i++)
		sum += a[i] * b[i];
	return sum;
}

void regress_nonnegative(const double *g, uint32_t stride, const double *c, uint32_t p, double *b)
{
	for (uint32_t round = 0; round < ROUNDS; round++) {
		double most = 0;

		for (uint32_t j = 0; j < p; j++) {
			const double *row = g + (size_t)j * stride;
			double old = b[j], v;

			if (row[j] <= 0)
				continue;
			v = b[j] + (c[j] - regress_dot(row, b, p)) / (row[j] * (1 + DAMPING));
			b[j] = v > 0 ? v : 0;
			most = fmax(most, fabs(b[j] - old) * sqrt(row[j]));
		}
		if (most < CHANGE)
			break;
	}
}
