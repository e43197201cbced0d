/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/link/link_fit.h"

#include <math.h>
#include <string.h>

#include "analysis/robust/regress.h"

_Static_assert(LINK_SIZES_MAX <= UINT8_MAX, "link_scratch.from");

void link_config_default(struct link_config *c)
{
	*c = (struct link_config){.centre = LINK_MEDIAN,
				  .regimes_max = LINK_REGIMES_MAX,
				  .regime_sizes = 3,
				  .noise = 0.01,
				  .unknowns = 3};
}

/* Fills best[k][j]: the least cost of sizes 0..j in k + 1 regimes. */
static void divide(struct link_scratch *w, uint32_t n, uint32_t least, uint32_t regimes)
{
	double latency, per_byte;

	for (uint32_t i = 0; i < n; i++)
		for (uint32_t j = i; j < n; j++)
			w->cost[i][j] = j - i + 1 < least
					    ? INFINITY
					    : regress_line_relative(w->x + i, w->y + i, j - i + 1,
								    &latency, &per_byte);
	for (uint32_t j = 0; j < n; j++) {
		w->best[0][j] = w->cost[0][j];
		w->from[0][j] = 0;
	}
	for (uint32_t k = 1; k < regimes; k++)
		for (uint32_t j = 0; j < n; j++) {
			w->best[k][j] = INFINITY;
			w->from[k][j] = 0;
			for (uint32_t i = 1; i <= j; i++) {
				double sum = w->best[k - 1][i - 1] + w->cost[i][j];

				if (sum < w->best[k][j]) {
					w->best[k][j] = sum;
					w->from[k][j] = (uint8_t)i;
				}
			}
		}
}

/* The number of regimes with the least Schwarz criterion; deviations are Laplace's. */
static uint32_t choose(const struct link_scratch *w, uint32_t n, uint32_t regimes,
		       const struct link_config *c)
{
	double least = INFINITY;
	uint32_t chosen = 1;

	for (uint32_t k = 1; k <= regimes; k++) {
		double deviation = fmax(w->best[k - 1][n - 1] / n, c->noise);
		double criterion = 2 * n * log(deviation) + c->unknowns * k * log(n);

		if (criterion < least) {
			least = criterion;
			chosen = k;
		}
	}
	return chosen;
}

/* R2 and MAPE over the cells of the samples. */
static void judge(struct link_fit *f, const struct link_samples *s)
{
	double all = 0, mean = 0, off = 0, rest = 0, spread = 0;

	for (uint32_t i = 0; i < s->cells; i++) {
		all += s->cell[i].count;
		mean += (double)s->cell[i].time_ns;
	}
	mean /= all;
	for (uint32_t i = 0; i < s->cells; i++) {
		const struct link_cell *c = &s->cell[i];
		double time_ns = (double)c->time_ns / c->count;
		double error = link_fit_predict(f, (double)c->bytes / c->count) - time_ns;

		off += c->count * fabs(error) / time_ns;
		rest += c->count * error * error;
		spread += c->count * (time_ns - mean) * (time_ns - mean);
	}
	f->samples = (uint64_t)all;
	f->mape = off / all;
	f->r2 = spread > 0 ? 1 - rest / spread : 1;
}

void link_fit_run(struct link_fit *f, const struct link_samples *s, const struct link_config *c,
		  struct link_scratch *w)
{
	uint32_t n = link_samples_sizes(s, c->centre, w->size), end = n - 1;
	uint32_t least = n < c->regime_sizes ? n : c->regime_sizes;
	uint32_t most = c->regimes_max < LINK_REGIMES_MAX ? c->regimes_max : LINK_REGIMES_MAX;

	memset(f, 0, sizeof(*f));
	if (!n)
		return;
	for (uint32_t i = 0; i < n; i++) {
		w->x[i] = w->size[i].bytes;
		w->y[i] = w->size[i].time_ns;
	}
	divide(w, n, least, most);
	f->sizes = n;
	f->regimes = choose(w, n, most, c);
	for (uint32_t k = f->regimes; k-- > 0;) {
		uint32_t begin = w->from[k][end];
		struct link_regime *r = &f->regime[k];

		r->max_bytes =
		    (uint64_t)(end + 1 < n ? sqrt(w->x[end] * w->x[end + 1]) : w->x[end]);
		link_samples_class(w->x[begin], &r->begin_bytes, &(double){0});
		link_samples_class(w->x[end], &(double){0}, &r->end_bytes);
		r->sizes = end - begin + 1;
		regress_line_relative(w->x + begin, w->y + begin, r->sizes, &r->latency_ns,
				      &r->ns_per_byte);
		end = begin - 1;
	}
	judge(f, s);
}

static double time_in(const struct link_regime *r, double bytes)
{
	return r->latency_ns + r->ns_per_byte * bytes;
}

double link_fit_predict(const struct link_fit *f, double bytes)
{
	const struct link_regime *r = f->regime, *next = r + 1;
	double from, to;

	if (!f->regimes)
		return 0;
	for (; next < f->regime + f->regimes && bytes >= next->begin_bytes; next++)
		r = next;
	if (bytes < r->end_bytes || next == f->regime + f->regimes)
		return time_in(r, bytes);
	from = time_in(r, r->end_bytes);
	to = time_in(next, next->begin_bytes);
	return from + (to - from) * (bytes - r->end_bytes) / (next->begin_bytes - r->end_bytes);
}

struct ratio {
	double value;
	uint32_t count;
};

static double ratio_at(const struct ratio *r, uint32_t n, double rank)
{
	double seen = 0;
	uint32_t i = 0;

	while (i + 1 < n && (seen += r[i].count) <= rank)
		i++;
	return r[i].value;
}

struct link_change link_change_of(const struct link_fit *f, const struct link_samples *s, double z)
{
	struct ratio r[LINK_CELLS_MAX];
	struct link_change out = {0};
	uint32_t n = 0;
	double half, middle, expected = 0, took = 0;

	for (uint32_t i = 0; i < s->cells && f->regimes; i++) {
		const struct link_cell *c = &s->cell[i];
		double one = link_fit_predict(f, (double)c->bytes / c->count);
		double value = (double)c->time_ns / c->count / one;
		uint32_t at = n++;

		for (; at && r[at - 1].value > value; at--)
			r[at] = r[at - 1];
		r[at] = (struct ratio){value, c->count};
		out.samples += c->count;
		expected += one * c->count;
		took += (double)c->time_ns;
	}
	if (!out.samples)
		return out;
	out.mean = took / expected;
	middle = ((double)out.samples - 1) / 2;
	half = z * sqrt((double)out.samples) / 2;
	out.ratio = ratio_at(r, n, middle);
	out.low = ratio_at(r, n, fmax(middle - half, 0));
	return out;
}
