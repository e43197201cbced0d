/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/robust/regress.h"

#include <math.h>
#include <stddef.h>

#include "analysis/robust/median.h"

#define ROUNDS		200
#define CHANGE		1e-7  /* relative change of a round at which the iteration stops */
#define VARIES		1e-12 /* x varies if more than this part of its squares is left */
#define DAMPING		1e-9 /* damping, as a part of a term: keeps two equal terms from diverging */
#define RELATIVE_ROUNDS 16
/* points nearer to the line than this part of y get no larger weight */
#define RELATIVE_EXACT 1e-4

void regress_add_weighted(struct regress_sums *s, double x, double y, double weight)
{
	s->n += weight;
	s->x += weight * x;
	s->y += weight * y;
	s->xx += weight * x * x;
	s->xy += weight * x * y;
	s->yy += weight * y * y;
}

void regress_add(struct regress_sums *s, double x, double y)
{
	regress_add_weighted(s, x, y, 1);
}

/* Weights may be of any size: only the spread of x decides. */
static bool line(const struct regress_sums *s, double *a, double *slope)
{
	double d = s->n * s->xx - s->x * s->x;

	if (!(d > VARIES * s->n * s->xx))
		return false;
	*slope = (s->n * s->xy - s->x * s->y) / d;
	*a = (s->y - *slope * s->x) / s->n;
	return true;
}

bool regress_line(const struct regress_sums *s, double *a, double *slope)
{
	return s->n >= 2 && line(s, a, slope);
}

bool regress_line_nonnegative(const struct regress_sums *s, double *a, double *slope)
{
	double level, steep;

	if (!(s->n > 0))
		return false;
	if (line(s, &level, &steep) && level >= 0 && steep >= 0) {
		*a = level;
		*slope = steep;
		return true;
	}
	/* a or slope is 0: the choice that leaves the smaller sum of squares */
	if (s->xx > 0 && s->xy * s->xy * s->n * (1 + VARIES) >= s->y * s->y * s->xx) {
		*a = 0;
		*slope = s->xy / s->xx;
	} else {
		*a = s->y / s->n;
		*slope = 0;
	}
	return true;
}

double regress_line_relative(const double *x, const double *y, uint32_t n, double *a, double *slope)
{
	double level = 0, steep = 0, best = INFINITY;

	for (uint32_t round = 0; round < RELATIVE_ROUNDS; round++) {
		struct regress_sums s = {0};
		double sum = 0;

		for (uint32_t i = 0; i < n; i++) {
			double off = round ? fabs((level + steep * x[i]) / y[i] - 1) : 1;

			regress_add_weighted(&s, x[i], y[i],
					     1 / (fmax(off, RELATIVE_EXACT) * y[i] * y[i]));
		}
		if (!regress_line_nonnegative(&s, &level, &steep))
			break;
		for (uint32_t i = 0; i < n; i++)
			sum += fabs((level + steep * x[i]) / y[i] - 1);
		if (sum < best) {
			best = sum;
			*a = level;
			*slope = steep;
		}
	}
	return best;
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
