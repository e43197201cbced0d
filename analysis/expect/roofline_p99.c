/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/expect/roofline_p99.h"

#include <math.h>

#include "analysis/robust/median.h"
#include "analysis/robust/regress.h"
#include "base/hash.h"
#include "model/thresholds.h"

#define P99_BINS	32
#define P99_ROUNDS	100
#define P99_BIN_SAMPLES 5 /* a bin with fewer has no meaningful 99th percentile */

struct bins {
	double x[P99_BINS], y[P99_BINS];
	uint32_t n;
};

static uint32_t random_below(uint64_t *state, uint32_t n)
{
	*state += 0x9e3779b97f4a7c15ull;
	return (uint32_t)(hash_mix(*state) % n);
}

/* Equally wide bins of work; per bin the mean work and the 99th percentile of latency. */
static void bins_fill(struct bins *b, const struct roofline_fit_sample *s, uint32_t n, double *v)
{
	double lo = s[0].work[0], hi = lo;

	for (uint32_t i = 1; i < n; i++) {
		lo = s[i].work[0] < lo ? s[i].work[0] : lo;
		hi = s[i].work[0] > hi ? s[i].work[0] : hi;
	}
	b->n = 0;
	for (uint32_t k = 0; k < P99_BINS; k++) {
		uint32_t m = 0;
		double sum = 0;

		for (uint32_t i = 0; i < n; i++) {
			double where = hi > lo ? (s[i].work[0] - lo) / (hi - lo) * P99_BINS : 0;
			uint32_t bin = where < P99_BINS ? (uint32_t)where : P99_BINS - 1;

			if (bin != k)
				continue;
			v[m++] = s[i].latency_ns;
			sum += s[i].work[0];
		}
		if (m < P99_BIN_SAMPLES)
			continue;
		median_sort(v, m);
		b->x[b->n] = sum / m;
		b->y[b->n++] = median_quantile(v, m, 0.99);
	}
}

/* Least squares over the bins that agree with the line (a, slope). */
static void refit(const struct bins *b, double *a, double *slope)
{
	struct regress_sums sums = {0};

	for (uint32_t i = 0; i < b->n; i++)
		if (fabs(*a + *slope * b->x[i] - b->y[i]) <= thresholds.part.little * b->y[i])
			regress_add(&sums, b->x[i], b->y[i]);
	regress_line(&sums, a, slope);
}

static uint32_t support(const struct bins *b, double a, double slope)
{
	uint32_t m = 0;

	for (uint32_t i = 0; i < b->n; i++)
		m += fabs(a + slope * b->x[i] - b->y[i]) <= thresholds.part.little * b->y[i];
	return m;
}

void roofline_p99_run(struct roofline_p99 *p, const struct roofline_fit_sample *s, uint32_t n,
		      uint64_t *random, void *scratch)
{
	struct bins b;
	uint32_t best = 0;
	double mean = 0, total = 0, left = 0;

	bins_fill(&b, s, n, scratch);
	if (!b.n)
		return;
	p->intercept_ns = b.y[0];
	p->slope_ns = 0;
	for (uint32_t round = 0; b.n >= 2 && round < P99_ROUNDS; round++) {
		uint32_t i = random_below(random, b.n), j = random_below(random, b.n - 1), m;
		double slope, a;

		j += j >= i;
		slope = (b.y[j] - b.y[i]) / (b.x[j] - b.x[i]);
		a = b.y[i] - slope * b.x[i];
		m = support(&b, a, slope);
		if (m > best) {
			best = m;
			p->intercept_ns = a;
			p->slope_ns = slope;
		}
	}
	refit(&b, &p->intercept_ns, &p->slope_ns);
	for (uint32_t i = 0; i < b.n; i++)
		mean += b.y[i] / b.n;
	for (uint32_t i = 0; i < b.n; i++) {
		double r = b.y[i] - p->intercept_ns - p->slope_ns * b.x[i];

		left += r * r;
		total += (b.y[i] - mean) * (b.y[i] - mean);
	}
	p->r2 = total > 0 ? 1 - left / total : 0;
	p->ready = true;
}
