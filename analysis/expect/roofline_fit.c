/* SPDX-License-Identifier: Apache-2.0
 * One robust line is not enough. Real latency curves have floors (small prefill), stairs (tile
 * quantisation) and levels (batch sizes, graph buckets). A line leaves residuals of 5 to 30% there.
 * The threshold is a multiple of the residuals, so it would miss a step that takes half as long
 * again. */
#include "analysis/expect/roofline_fit.h"

#include <math.h>
#include <string.h>

#include "analysis/robust/median.h"
#include "analysis/robust/regress.h"
#include "analysis/robust/spread.h"
#include "base/carve.h"
#include "base/hash.h"
#include "model/thresholds.h"

#define LINE_SAMPLES 256 /* the line is fitted on an even subsample of this many */
#define IRLS_ROUNDS  12
#define IRLS_FLOOR   0.002 /* smaller relative residuals have equal weight */
#define TAIL_PRIOR   0.08  /* prior mean of the tail beyond the threshold; counts as two steps */
/* with more steps, unseen levels are studied only if new levels are frequent */
#define LEVEL_SAMPLES 512
#define EDGE	      0.1
#define REACH_MAX     1e6 /* work that was always 0 before has no bound, but thresholds are finite */
/* Steps that lie close together in time are one stretch, not spread, if chance places them so with
 * a smaller probability than this. Smaller: a slow stretch bends a curve. Larger: the curve misses
 * short stairs. */
#define STRETCH_CHANCE 0.01
/* the most lengths of a stretch that are tried; with fewer, stretches that are just long enough are
 * missed */
#define STRETCHES 64
/* Share of a level's steps that may be slow without being a habit. A fault that makes a fifth of
 * the steps up to three times as slow leaves half of this share there. */
#define SECOND_SHARE (thresholds.part.matters * thresholds.part.shows)

struct fit_scratch {
	/* log of the line, log ratio of latency to the prediction so far, scratch */
	double *t, *q, *v;
	double *u;   /* sort key of the index */
	double *low; /* low quantiles along the index */
	/* log ratio to a fit without this step; NAN: outside of that fit's support */
	double *held;
	bool *sparse; /* the held-out step's level was not in that fit */
	bool *jump;   /* by position in the index: the curve jumps before it */
	struct roofline_fit *part;
	struct roofline_fit_sample *copy;
	uint64_t *key;
	uint32_t *index;
	uint32_t n;
	double level_mad; /* scatter of unseen levels; 0: not known yet */
};

/* The residual above which a step is not noise. */
static double cut_of(double mad)
{
	return fmax(thresholds.fit.mads * mad, thresholds.same.work / 2);
}

static size_t lay_out(struct fit_scratch *s, void *memory, uint32_t n)
{
	struct carve at = {.memory = memory};

	*s = (struct fit_scratch){.n = n};
	s->part = carve_take(&at, 1, sizeof(*s->part));
	s->t = carve_take(&at, n, sizeof(*s->t));
	s->q = carve_take(&at, n, sizeof(*s->q));
	s->v = carve_take(&at, n, sizeof(*s->v));
	s->u = carve_take(&at, n, sizeof(*s->u));
	s->low = carve_take(&at, n, sizeof(*s->low));
	s->held = carve_take(&at, n, sizeof(*s->held));
	s->key = carve_take(&at, n, sizeof(*s->key));
	s->index = carve_take(&at, n, sizeof(*s->index));
	s->copy = carve_take(&at, n, sizeof(*s->copy));
	s->sparse = carve_take(&at, n, sizeof(*s->sparse));
	s->jump = carve_take(&at, n, sizeof(*s->jump));
	return at.bytes;
}

size_t roofline_fit_scratch_bytes(uint32_t samples_max)
{
	struct fit_scratch s;

	return lay_out(&s, NULL, samples_max);
}

static bool index_less(const struct fit_scratch *s, bool by_key, uint32_t a, uint32_t b)
{
	return by_key ? s->key[a] <= s->key[b] : s->u[a] <= s->u[b];
}

/* Sorts the index by u or by hash, equal ones by time. A bottom-up mergesort: stable, without
 * recursion. */
static void index_sort(struct fit_scratch *s, bool by_key)
{
	uint32_t *from = s->index, *to = (uint32_t *)s->low, *swap;

	for (uint32_t i = 0; i < s->n; i++)
		from[i] = i;
	for (uint32_t run = 1; run < s->n; run *= 2) {
		for (uint32_t at = 0; at < s->n; at += 2 * run) {
			uint32_t mid = at + run < s->n ? at + run : s->n, i = at, j = mid;
			uint32_t end = at + 2 * run < s->n ? at + 2 * run : s->n;

			for (uint32_t k = at; k < end; k++)
				to[k] =
				    j == end || (i < mid && index_less(s, by_key, from[i], from[j]))
					? from[i++]
					: from[j++];
		}
		swap = from;
		from = to;
		to = swap;
	}
	if (from != s->index)
		memcpy(s->index, from, s->n * sizeof(*from));
}

static uint32_t terms_of(double *phi, const float *work, uint32_t active, bool second)
{
	uint32_t p = 0, n = 0;
	double x[ROOFLINE_WORK_MAX];

	for (uint32_t i = 0; i < ROOFLINE_WORK_MAX; i++)
		if (active & 1u << i)
			x[n++] = work[i];
	phi[p++] = 1;
	for (uint32_t i = 0; i < n; i++)
		phi[p++] = x[i];
	for (uint32_t i = 0; second && i < n; i++)
		for (uint32_t j = i; j < n; j++)
			phi[p++] = x[i] * x[j];
	return p;
}

/* Fits least absolute relative deviations. Returns the mean |residual|, each at most 1. */
static double fit_line(const struct roofline_fit_sample *s, uint32_t n, uint32_t active,
		       bool second, double *coef)
{
	uint32_t stride = (n + LINE_SAMPLES - 1) / LINE_SAMPLES, p = 1;
	double g[ROOFLINE_FIT_TERMS][ROOFLINE_FIT_TERMS], c[ROOFLINE_FIT_TERMS], loss = 0;
	double phi[ROOFLINE_FIT_TERMS];
	uint32_t used = 0;

	memset(coef, 0, ROOFLINE_FIT_TERMS * sizeof(*coef));
	for (uint32_t round = 0; round <= IRLS_ROUNDS; round++) {
		memset(g, 0, sizeof(g));
		memset(c, 0, sizeof(c));
		loss = 0;
		used = 0;
		for (uint32_t i = 0; i < n; i += stride, used++) {
			double y = s[i].latency_ns, w, r;

			p = terms_of(phi, s[i].work, active, second);
			for (uint32_t j = 0; j < p; j++)
				phi[j] /= y;
			r = fabs(1 - regress_dot(phi, coef, p));
			loss += r < 1 ? r : 1;
			w = round ? 1 / (r > IRLS_FLOOR ? r : IRLS_FLOOR) : 1;
			for (uint32_t j = 0; j < p; j++) {
				c[j] += w * phi[j];
				for (uint32_t k = 0; k <= j; k++)
					g[j][k] += w * phi[j] * phi[k];
			}
		}
		if (round == IRLS_ROUNDS)
			break;
		for (uint32_t j = 0; j < p; j++)
			for (uint32_t k = 0; k < j; k++)
				g[k][j] = g[j][k];
		regress_nonnegative(g[0], ROOFLINE_FIT_TERMS, c, p, coef);
	}
	return loss / used;
}

static double line_at(const struct roofline_fit *f, const float *work)
{
	double phi[ROOFLINE_FIT_TERMS], y;
	uint32_t p = terms_of(phi, work, f->active, f->curved);

	y = regress_dot(phi, f->coef, p);
	return y > f->line_min_ns ? y : f->line_min_ns;
}

/* The terms of the line. They are chosen once, on all steps. */
struct line_form {
	uint32_t active; /* features that vary and improve the line */
	bool curved;
	double plain[ROOFLINE_FIT_TERMS]; /* coefficients without second-order terms */
};

static void choose_form(struct line_form *form, const struct roofline_fit_sample *s, uint32_t n,
			uint32_t features)
{
	double trial[ROOFLINE_FIT_TERMS], loss, without;
	uint32_t k, terms;

	form->active = 0;
	form->curved = false;
	for (uint32_t i = 0; i < features; i++)
		for (uint32_t j = 1; j < n && !(form->active & 1u << i); j++)
			if (s[j].work[i] != s[0].work[i])
				form->active |= 1u << i;
	loss = fit_line(s, n, form->active, false, form->plain);
	for (uint32_t i = 0; i < features && loss > 0; i++) {
		if (!(form->active & 1u << i))
			continue;
		without = fit_line(s, n, form->active & ~(1u << i), false, trial);
		if (without > (1 + thresholds.same.work) * loss)
			continue;
		form->active &= ~(1u << i);
		memcpy(form->plain, trial, sizeof(trial));
		loss = without;
	}
	k = (uint32_t)__builtin_popcount(form->active);
	terms = 1 + k + k * (k + 1) / 2;
	if (k && n >= 4 * terms && loss > 0.003)
		form->curved =
		    fit_line(s, n, form->active, true, trial) < thresholds.part.nearly_all * loss;
}

static void run_line(struct roofline_fit *f, const struct line_form *form,
		     const struct roofline_fit_sample *s, struct fit_scratch *x)
{
	for (uint32_t i = 0; i < x->n; i++)
		x->v[i] = s[i].latency_ns;
	f->line_min_ns = median_select(x->v, x->n) * 1e-3;
	f->active = form->active;
	f->curved = form->curved;
	fit_line(s, x->n, f->active, f->curved, f->coef);
	f->intercept_ns = form->plain[0];
	for (uint32_t i = 0, k = 1; i < f->features; i++)
		f->slope_ns[i] = f->active & 1u << i ? form->plain[k++] : 0;
	for (uint32_t i = 0; i < x->n; i++) {
		x->t[i] = log(line_at(f, s[i].work));
		x->q[i] = log(s[i].latency_ns) - x->t[i];
	}
}

static uint32_t knot_below(const float *t, uint32_t n, double at)
{
	uint32_t lo = 0, hi = n;

	while (hi - lo > 1) {
		uint32_t mid = (lo + hi) / 2;

		if (t[mid] <= at)
			lo = mid;
		else
			hi = mid;
	}
	return lo;
}

static double interpolate(const float *t, const float *c, uint32_t n, double at)
{
	uint32_t i = n ? knot_below(t, n, at) : 0;

	if (!n)
		return 0;
	if (i + 1 >= n || at <= t[i])
		return c[i];
	return c[i] + (at - t[i]) / (t[i + 1] - t[i]) * (c[i + 1] - c[i]);
}

static double slope_between(const struct roofline_fit_curve *c, uint32_t i)
{
	double slope;

	if (i + 1 >= c->n || c->jump[i])
		return 0;
	slope = (c->c[i + 1] - c->c[i]) / (c->t[i + 1] - c->t[i]);
	return fmax(-1, fmin(1, slope));
}

/* Half of an outer group lies beyond its knot, so the outer slope continues a little; the same
 * holds up to a jump. Inside a jump either side may be right. The slower side is used, because it
 * accuses nobody. */
static double curve_at(const struct roofline_fit_curve *c, double t)
{
	uint32_t i;
	double below, above;

	if (!c->n)
		return 0;
	i = knot_below(c->t, c->n, t);
	if (t < c->t[0])
		return c->c[0] + slope_between(c, 0) * fmax(t - c->t[0], -EDGE);
	if (i + 1 < c->n && !c->jump[i])
		return c->c[i] + (t - c->t[i]) / (c->t[i + 1] - c->t[i]) * (c->c[i + 1] - c->c[i]);
	below = c->c[i] + (i ? slope_between(c, i - 1) * fmin(t - c->t[i], EDGE) : 0);
	if (i + 1 == c->n || t <= c->last[i])
		return below;
	above = c->c[i + 1] + slope_between(c, i + 1) * fmax(t - c->t[i + 1], -EDGE);
	return t >= c->first[i + 1] ? above : fmax(below, above);
}

/* The length of axis that thresholds.count.some steps of the knot's group cover on average. */
static double knot_reach(const struct roofline_fit_curve *c, uint32_t i)
{
	return (c->last[i] - c->first[i]) * fmin((double)thresholds.count.some / c->steps[i], 1);
}

/* Whether learning steps are sparse around t. */
static bool curve_coarse(const struct roofline_fit_curve *c, double t)
{
	uint32_t i = knot_below(c->t, c->n, t), j = i + 1 < c->n && t > c->t[i] ? i + 1 : i;
	double near = thresholds.fit.near;

	return knot_reach(c, i) > near || knot_reach(c, j) > near ||
	       c->first[j] - c->last[i] > 2 * near || t < c->first[i] - near ||
	       t > c->last[j] + near;
}

/* Whether the steps are spread over time: no short stretch of time holds half of them or more,
 * unless chance explains it. The chance that k + 1 of n steps at random times lie in a window with
 * the share w of the time is at most n C(n - 1, k) w^k. A fault makes neighbours in time slow, so
 * the number of slow steps proves nothing. Only some k are tried, because the windows of
 * neighbouring k hardly differ. Uses v. */
static bool is_spread(const struct fit_scratch *x, uint32_t begin, uint32_t end)
{
	uint32_t n = end - begin, stride = n / STRETCHES + 1;
	double longest = thresholds.fit.near * x->n, log_chance = log(STRETCH_CHANCE / n), window;

	if (n / 2 >= longest)
		return true;
	if (n < 2)
		return !n;
	for (uint32_t i = 0; i < n; i++)
		x->v[i] = x->index[begin + i];
	median_sort(x->v, n);
	for (uint32_t k = 1; k < n; k++) {
		log_chance += log((double)k / (n - k));
		if (k < n / 2 || (k - n / 2) % stride)
			continue;
		window = fmin(x->n * exp(log_chance / k), longest);
		for (uint32_t i = 0; i + k < n; i++)
			if (x->v[i + k] - x->v[i] < window)
				return false;
	}
	return true;
}

/* The end of the group that begins here. A group has enough steps, or covers enough of the axis,
 * and is spread over time. Equal values stay together. */
static uint32_t group_end(const struct fit_scratch *x, uint32_t begin, uint32_t least,
			  uint32_t most, double stretch)
{
	uint32_t end, checked = 0; /* number of steps that were found not to be spread */
	double first = x->u[x->index[begin]];

	for (end = begin + 1; end < x->n; end++) {
		uint32_t n = end - begin;
		double u = x->u[x->index[end]];

		if (4 * n < 5 * checked ||
		    (!x->jump[end] && (u - x->u[x->index[end - 1]] < 1e-6 ||
				       (n < most && (n < least || u - first < stretch)))))
			continue;
		if (is_spread(x, begin, end))
			break;
		checked = n;
	}
	if (!is_spread(x, end, x->n))
		return x->n;
	for (uint32_t i = end; i < x->n && i - end < least / 2; i++)
		if (x->jump[i])
			return end;
	return x->n - end < least / 2 ? x->n : end;
}

/* For each position of the index, a low quantile of the next n steps. Slow learning steps do not
 * reach it. Keeps a sorted window. */
static void run_low(struct fit_scratch *x, uint32_t n)
{
	double *window = x->v;

	for (uint32_t i = 0; i < n; i++)
		window[i] = x->q[x->index[i]];
	median_sort(window, n);
	for (uint32_t i = 0; i + n <= x->n; i++) {
		double out = x->q[x->index[i]], in;
		uint32_t k = 0;

		x->low[i] = window[(n - 1) / 4];
		if (i + n == x->n)
			return;
		in = x->q[x->index[i + n]];
		while (window[k] != out)
			k++;
		for (; k + 1 < n && window[k + 1] < in; k++)
			window[k] = window[k + 1];
		for (; k > 0 && window[k - 1] > in; k--)
			window[k] = window[k - 1];
		window[k] = in;
	}
}

/* The position near `at` that fits both sides best. 0: all positions there lie between equal values
 * of u. */
static uint32_t place_jump(const struct fit_scratch *x, uint32_t at, uint32_t side)
{
	double below = x->low[at - side], above = x->low[at], size = fabs(above - below);
	double cost = 0, best = INFINITY;
	uint32_t place = 0;

	for (uint32_t i = at - side; i < at + side; i++) {
		double q = x->q[x->index[i]];

		if (cost < best && i > at - side &&
		    x->u[x->index[i]] - x->u[x->index[i - 1]] >= 1e-6) {
			best = cost;
			place = i;
		}
		cost += fmin(fabs(q - below), size) - fmin(fabs(q - above), size);
	}
	return place;
}

/* A GPU library uses different kernels for different sizes, so the curve has jumps, and a line
 * across a jump is wrong on both sides. A jump is a position whose two sides differ by more than
 * the noise allows. The index must be sorted by u. */
static void find_jumps(struct fit_scratch *x)
{
	uint32_t side = x->n / 64 < thresholds.count.few ? thresholds.count.few : x->n / 64;
	uint32_t last = 0, place;
	double *size = (double *)x->key, least; /* key is free here; v is run_low's scratch */

	memset(x->jump, 0, x->n * sizeof(*x->jump));
	if (x->n < 8 * side)
		return;
	for (uint32_t i = 1; i < x->n; i++)
		x->v[i - 1] = fabs(x->q[x->index[i]] - x->q[x->index[i - 1]]);
	least =
	    fmax(thresholds.excess.slower, thresholds.fit.times * median_select(x->v, x->n - 1));
	run_low(x, side);
	for (uint32_t i = 0; i < x->n; i++)
		size[i] = i >= side && i + side <= x->n ? fabs(x->low[i] - x->low[i - side]) : 0;
	for (uint32_t i = side; i + side <= x->n; i++) {
		bool top = size[i] > least;

		for (uint32_t k = i - side + 1; k < i + side && k < x->n && top; k++)
			top = size[k] < size[i] || (size[k] == size[i] && k >= i);
		place = top ? place_jump(x, i, side) : 0;
		if (place < last + 2 || place + 2 > x->n)
			continue;
		x->jump[place] = true;
		last = place;
	}
}

/* Fits the knots of a curve to groups of neighbours in u. width 0: plain medians. The index must be
 * sorted by u. */
static void run_curve(struct roofline_fit_curve *c, struct fit_scratch *x, uint32_t least,
		      double stretch, double width)
{
	uint32_t most = x->n / (ROOFLINE_FIT_KNOTS / 2) + 1;

	most = most > least ? most : least;
	c->n = 0;
	for (uint32_t begin = 0, end; begin < x->n; begin = end) {
		double mean = 0;

		end = c->n + 1 == ROOFLINE_FIT_KNOTS ? x->n
						     : group_end(x, begin, least, most, stretch);
		for (uint32_t i = begin; i < end; i++) {
			x->v[i - begin] = x->q[x->index[i]];
			mean += x->u[x->index[i]] / (end - begin);
		}
		median_sort(x->v, end - begin);
		c->t[c->n] = (float)mean;
		c->first[c->n] = (float)x->u[x->index[begin]];
		c->last[c->n] = (float)x->u[x->index[end - 1]];
		c->steps[c->n] = end - begin;
		c->jump[c->n] = end < x->n && x->jump[end];
		c->c[c->n++] = (float)(width > 0 ? median_centre(x->v, end - begin, width)
						 : median_quantile(x->v, end - begin, 0.5));
	}
}

static double feature_log(const struct roofline_fit *f, uint32_t i, float work)
{
	return log(work + 1e-4 * f->hi[i]);
}

/* MAD of the residuals. Two rounds of trimming at 7 MADs remove slow steps. */
static double trimmed_mad(const double *q, double *v, uint32_t n, double skip_below)
{
	double cut = INFINITY, mad = 0;

	for (uint32_t round = 0; round < 3; round++) {
		uint32_t m = 0;

		for (uint32_t i = 0; i < n; i++)
			if (q[i] <= cut && fabs(q[i]) >= skip_below)
				v[m++] = fabs(q[i]);
		if (!m)
			return 0;
		mad = median_select(v, m);
		cut = cut_of(mad);
	}
	return mad;
}

static uint64_t cell_hash(const struct roofline_fit *f, const float *work)
{
	int32_t box[ROOFLINE_WORK_MAX];
	uint64_t h;

	if (f->discrete) {
		h = hash_mix(hash_bytes(HASH_SEED, work, f->features * sizeof(*work)));
	} else {
		/* boxes of half an octave */
		for (uint32_t i = 0; i < f->features; i++)
			box[i] = work[i] > 0 ? (int32_t)floorf(2 * log2f(work[i])) : -1000;
		h = hash_mix(hash_bytes(HASH_SEED, box, f->features * sizeof(*box)));
	}
	return h ? h : 1;
}

/* The cell with this hash, or the free slot for it. There are always free slots. */
static struct roofline_fit_cell *cell_slot(struct roofline_fit *f, uint64_t hash)
{
	uint64_t at = hash;

	for (;; at++) {
		struct roofline_fit_cell *c = &f->cell[at & (ROOFLINE_FIT_SLOTS - 1)];

		if (c->hash == hash || !c->hash)
			return c;
	}
}

static const struct roofline_fit_cell *cell_find(const struct roofline_fit *f, uint64_t hash)
{
	const struct roofline_fit_cell *c = cell_slot((struct roofline_fit *)f, hash);

	return c->hash ? c : NULL;
}

static uint32_t hash_all(struct roofline_fit *f, const struct roofline_fit_sample *s,
			 struct fit_scratch *x)
{
	uint32_t distinct = 1;

	for (uint32_t i = 0; i < x->n; i++)
		x->key[i] = cell_hash(f, s[i].work);
	index_sort(x, true);
	for (uint32_t i = 1; i < x->n; i++)
		distinct += x->key[x->index[i]] != x->key[x->index[i - 1]];
	return distinct;
}

/* Computes the centre of each cell's residuals. Shrinks it towards 0, by its standard error against
 * the scatter of the cells. */
static void run_cells(struct roofline_fit *f, const struct roofline_fit_sample *s,
		      struct fit_scratch *x, double mad)
{
	uint32_t distinct, least, cells = 0;
	double width = fmax(8 * mad, thresholds.same.work), tau;

	memset(f->cell, 0, sizeof(f->cell));
	f->discrete = true;
	distinct = hash_all(f, s, x);
	f->discrete = distinct <= ROOFLINE_FIT_CELLS && distinct <= x->n / 2 + 1;
	if (!f->discrete && f->features < 2)
		return;
	if (!f->discrete)
		hash_all(f, s, x);
	least = f->discrete ? 1 : 12;
	for (uint32_t i = 0, j; i < x->n && cells < ROOFLINE_FIT_CELLS; i = j) {
		struct roofline_fit_cell *c;

		for (j = i; j < x->n && x->key[x->index[j]] == x->key[x->index[i]];)
			j++;
		if (j - i < least || (!f->discrete && !is_spread(x, i, j)))
			continue;
		for (uint32_t k = i; k < j; k++)
			x->v[k - i] = x->q[x->index[k]];
		median_sort(x->v, j - i);
		c = cell_slot(f, x->key[x->index[i]]);
		c->hash = x->key[x->index[i]];
		c->log_ratio = (float)median_centre(x->v, j - i, width);
		c->count = j - i;
		for (uint32_t k = 0; k < c->count; k++)
			c->agree += fabs(x->v[k] - c->log_ratio) <= width;
		cells++;
	}
	cells = 0;
	for (uint32_t i = 0; i < ROOFLINE_FIT_SLOTS; i++)
		if (f->cell[i].hash)
			x->v[cells++] = fabs(f->cell[i].log_ratio);
	tau = cells ? MEDIAN_MAD_SIGMA * median_select(x->v, cells) : 0;
	for (uint32_t i = 0; i < ROOFLINE_FIT_SLOTS; i++) {
		struct roofline_fit_cell *c = &f->cell[i];
		double e, own;

		if (!c->hash)
			continue;
		e = spread_of_median(MEDIAN_MAD_SIGMA * mad, c->count);
		if (f->discrete && distinct >= thresholds.count.lots && c->agree == 1 &&
		    c->log_ratio > fmax(width, thresholds.fit.times * fmax(tau, x->level_mad))) {
			c->once = c->log_ratio;
			c->log_ratio = 0;
		}
		own = tau > fabs(c->log_ratio) ? tau : fabs(c->log_ratio);
		own = own * own / (own * own + e * e + 1e-18);
		c->log_ratio *= (float)own;
	}
}

/* The scatter of held-out steps whose level the fit did not contain. */
static double scatter_of_unseen(struct fit_scratch *x)
{
	double *r = (double *)x->key;
	uint32_t m = 0;

	for (uint32_t i = 0; i < x->n; i++)
		if (!isnan(x->held[i]) && x->sparse[i])
			r[m++] = x->held[i];
	return m >= thresholds.count.some ? trimmed_mad(r, x->v, m, 0) : thresholds.part.little;
}

/* The noise along log(line), from held-out steps, shrunk towards the pooled noise. The index must
 * be sorted by u, the log of the line. */
static void run_noise(struct roofline_fit *f, struct fit_scratch *x)
{
	uint32_t least = x->n / (ROOFLINE_FIT_NOISE_KNOTS - 1) + 1, m = 0;
	double *r = (double *)x->key, cut;

	for (uint32_t i = 0; i < x->n; i++)
		if (!isnan(x->held[i]) && !x->sparse[i])
			r[m++] = x->held[i];
	f->mad = m >= thresholds.count.some ? trimmed_mad(r, x->v, m, 0) : f->level_mad;
	f->level_mad = fmax(f->level_mad, f->mad);
	least = least > 24 ? least : 24;
	cut = cut_of(f->mad);
	f->noise_n = 0;
	for (uint32_t begin = 0, end; begin < x->n; begin = end) {
		double mean = 0, mad;

		m = 0;
		end = f->noise_n + 1 == ROOFLINE_FIT_NOISE_KNOTS
			  ? x->n
			  : group_end(x, begin, least, least, INFINITY);
		for (uint32_t i = begin; i < end; i++) {
			uint32_t k = x->index[i];

			mean += x->u[k] / (end - begin);
			if (x->held[k] <= cut && !x->sparse[k])
				x->v[m++] = fabs(x->held[k]);
		}
		mad = m ? median_select(x->v, m) : f->mad;
		mad = (m * mad + 10 * f->mad) / (m + 10);
		f->noise_t[f->noise_n] = (float)mean;
		f->noise_mad[f->noise_n++] = (float)(mad > 0.5 * f->mad ? mad : 0.5 * f->mad);
	}
}

/* The healthy tail beyond the threshold. Only excesses up to fit.tail_seen count, because larger
 * ones may be slow learning steps. Assumes an exponential tail, and adds one and a half steps as a
 * margin. */
static void run_tail(struct roofline_fit *f, struct fit_scratch *x, const struct roofline_config *c)
{
	double beyond = 0, sum = 2 * TAIL_PRIOR, length = thresholds.fit.tail_seen - c->floor_ratio;
	uint32_t out = 0, fast = 0, n = 0;

	for (uint32_t i = 0; i < x->n; i++) {
		double mad = interpolate(f->noise_t, f->noise_mad, f->noise_n, x->t[i]), threshold;

		if (isnan(x->held[i]))
			continue;
		mad = x->sparse[i] ? fmax(mad, f->level_mad) : mad;
		threshold = log1p(fmax(c->floor_ratio, c->tail_mads * mad));
		n++;
		out += x->held[i] > threshold;
		fast += x->held[i] < -threshold;
		if (x->held[i] <= threshold || x->held[i] > thresholds.fit.tail_seen)
			continue;
		beyond++;
		sum += x->held[i] - threshold;
	}
	f->out_share = (double)out / (n ? n : 1);
	f->fast_share = (double)fast / (n ? n : 1);
	f->tail_mean = sum / (beyond + 2);
	if (length > 0 && f->tail_mean < 0.6 * length)
		f->tail_mean /= 1 - 1.2 * f->tail_mean / length;
	f->tail_mean = fmin(f->tail_mean, thresholds.fit.spread);
	f->tail_share = (beyond + 1.5) / (n + 1.5);
}

static void run_quality(struct roofline_fit *f, const struct roofline_fit_sample *s,
			struct fit_scratch *x)
{
	double cut = cut_of(f->mad), mean = 0, total = 0, left = 0, centre;
	double lag = 0, square = 0, lim = 3 * f->mad, spread;
	uint32_t m = 0;

	for (uint32_t i = 0; i < x->n; i++)
		if (x->q[i] <= cut)
			mean += (s[i].latency_ns - mean) / ++m;
	for (uint32_t i = 0; i < x->n; i++) {
		double y = s[i].latency_ns, r = y - y / exp(x->q[i]);

		if (x->q[i] > cut)
			continue;
		total += (y - mean) * (y - mean);
		left += r * r;
	}
	f->r2 = total > 0 ? 1 - left / total : 0;
	for (uint32_t i = 1; i < x->n; i++) {
		double a = fmax(-lim, fmin(lim, x->q[i - 1])), b = fmax(-lim, fmin(lim, x->q[i]));

		lag += a * b;
		square += b * b;
	}
	f->rho = square > 0 ? lag / square : 0;
	for (uint32_t i = 0; i < x->n; i++)
		x->v[i] = log(s[i].latency_ns);
	centre = median_select(x->v, x->n);
	spread = median_mad(x->v, x->n, centre);
	f->explained = spread > 0 ? 1 - f->mad * f->mad / (spread * spread) : 0;
}

static void run_support(struct roofline_fit *f, const struct roofline_fit_sample *s, uint32_t n)
{
	f->work_spread = 1;
	for (uint32_t j = 0; j < f->features; j++) {
		f->lo[j] = f->hi[j] = s[0].work[j];
		for (uint32_t i = 1; i < n; i++) {
			if (s[i].work[j] < f->lo[j])
				f->lo[j] = s[i].work[j];
			if (s[i].work[j] > f->hi[j])
				f->hi[j] = s[i].work[j];
		}
		if (f->hi[j] > f->lo[j] && f->hi[j] > f->work_spread * f->lo[j])
			f->work_spread = f->lo[j] > 0 ? f->hi[j] / f->lo[j] : INFINITY;
	}
}

/* Fits one curve and subtracts it from q. The first pass with plain medians gives the noise, which
 * sets the width of the densest window in the second. */
static void subtract_curve(struct roofline_fit_curve *c, struct fit_scratch *x, uint32_t least,
			   double stretch)
{
	double *rest = (double *)x->key, mad; /* key is free here; v is the scratch of the sort */

	index_sort(x, false);
	find_jumps(x);
	run_curve(c, x, least, stretch, 0);
	for (uint32_t i = 0; i < x->n; i++)
		rest[i] = x->q[i] - curve_at(c, x->u[i]);
	mad = trimmed_mad(rest, x->v, x->n, 0);
	run_curve(c, x, least, stretch, fmax(8 * mad, thresholds.same.work));
	for (uint32_t i = 0; i < x->n; i++)
		x->q[i] -= curve_at(c, x->u[i]);
}

/* Some levels have two habits: one step in eight writes a checkpoint, or one batch in five uses a
 * slower kernel. Slow steps of a fault are spread over all levels, vary more, or come in stretches.
 * A habit covers many steps of one level, at intervals. The index must be sorted by key and time; q
 * holds the residuals. */
static void find_second_habit(struct roofline_fit *f, struct fit_scratch *x, double mad)
{
	double least = fmax(thresholds.excess.slower, thresholds.fit.mads * mad);

	for (uint32_t i = 0, j; i < x->n; i = j) {
		struct roofline_fit_cell *c = cell_slot(f, x->key[x->index[i]]);
		uint32_t m = 0, runs = 0;
		double chance;
		bool before = false, mild;

		for (j = i; j < x->n && x->key[x->index[j]] == x->key[x->index[i]]; j++) {
			double r = x->q[x->index[j]];

			mild = r > least && r <= thresholds.part.shows;
			if (mild)
				x->v[m++] = r;
			runs += mild && !before;
			before = mild;
		}
		chance = SECOND_SHARE * (j - i) + sqrt(SECOND_SHARE / 2 * (j - i));
		if (!c->hash || j - i < 2 * thresholds.count.some || m < chance || 2 * runs < m)
			continue;
		median_sort(x->v, m);
		c->second = (float)median_quantile(x->v, m, 0.95);
	}
}

static void subtract_cells(struct roofline_fit *f, const struct roofline_fit_sample *s,
			   struct fit_scratch *x)
{
	double mad = trimmed_mad(x->q, x->v, x->n, 0);

	run_cells(f, s, x, mad);
	for (uint32_t i = 0; i < x->n; i++) {
		const struct roofline_fit_cell *c = cell_find(f, x->key[i]);

		x->q[i] -= c ? c->log_ratio : 0;
	}
	if (f->discrete)
		find_second_habit(f, x, mad);
}

/* Fits everything but the noise. Leaves log(line) in t and the residuals in q. */
static void run_centres(struct roofline_fit *f, const struct line_form *form,
			const struct roofline_fit_sample *s, struct fit_scratch *x,
			uint32_t features)
{
	memset(f, 0, offsetof(struct roofline_fit, cell));
	f->features = features;
	f->samples = x->n;
	run_support(f, s, x->n);
	run_line(f, form, s, x);
	memcpy(x->u, x->t, x->n * sizeof(*x->u));
	subtract_curve(&f->curve, x, 8, 0.05);
	for (uint32_t j = 0; j < features; j++) {
		if (!(f->hi[j] > f->lo[j]))
			continue;
		for (uint32_t i = 0; i < x->n; i++)
			x->u[i] = feature_log(f, j, s[i].work[j]);
		subtract_curve(&f->feature[j], x, 16, 0.2);
	}
	subtract_cells(f, s, x);
}

/* The fold in which a step is held out. By hash, because steps may alternate between kinds of work.
 * by_level: all steps of a level share a fold. */
static uint32_t fold_of(const struct roofline_fit_sample *s, uint32_t i, uint32_t features,
			bool by_level)
{
	if (by_level)
		return (uint32_t)(hash_mix(hash_bytes(HASH_SEED, s[i].work,
						      features * sizeof(s->work[0]))) >>
				  32);
	return (uint32_t)hash_mix(i + 1);
}

static void run_held_out(const struct line_form *form, const struct roofline_fit_sample *s,
			 struct fit_scratch *x, uint32_t features, bool by_level)
{
	uint32_t folds = x->n < 100 ? 5 : by_level ? 3 : 2;

	for (uint32_t fold = 0; fold < folds; fold++) {
		struct fit_scratch y = *x;

		y.n = 0;
		for (uint32_t i = 0; i < x->n; i++)
			if (fold_of(s, i, features, by_level) % folds != fold)
				x->copy[y.n++] = s[i];
		if (y.n >= 4)
			run_centres(x->part, form, x->copy, &y, features);
		for (uint32_t i = 0; i < x->n; i++) {
			struct roofline_fit_guess g;

			if (fold_of(s, i, features, by_level) % folds != fold)
				continue;
			x->held[i] = NAN;
			x->sparse[i] = false;
			if (y.n < 4)
				continue;
			g = roofline_fit_predict(x->part, s[i].work);
			x->sparse[i] = g.sparse;
			if (g.reach > 1)
				continue;
			x->held[i] = log(s[i].latency_ns / g.expected_ns);
			if (g.once > 0 && fabs(x->held[i] - log1p(g.once)) < x->held[i])
				x->held[i] -= log1p(g.once);
		}
	}
}

/* Whether levels keep appearing that were never seen before. */
static bool levels_are_sparse(const struct roofline_fit_sample *s, struct fit_scratch *x,
			      uint32_t features)
{
	uint32_t singles = 0;

	x->part->features = features;
	x->part->discrete = true;
	hash_all(x->part, s, x);
	for (uint32_t i = 0; i < x->n; i++) {
		uint64_t key = x->key[x->index[i]];

		singles += (!i || x->key[x->index[i - 1]] != key) &&
			   (i + 1 == x->n || x->key[x->index[i + 1]] != key);
	}
	return singles >= x->n / thresholds.count.lots && singles < x->n / 2;
}

void roofline_fit_run(struct roofline_fit *f, const struct roofline_fit_sample *s, uint32_t n,
		      uint32_t features, const struct roofline_config *c, void *scratch)
{
	double level_mad = thresholds.part.little;
	struct fit_scratch x;
	struct line_form form;

	lay_out(&x, scratch, n);
	choose_form(&form, s, n, features);
	if (n < LEVEL_SAMPLES || levels_are_sparse(s, &x, features)) {
		run_held_out(&form, s, &x, features, true);
		level_mad = x.level_mad = scatter_of_unseen(&x);
	}
	run_held_out(&form, s, &x, features, false);
	run_centres(f, &form, s, &x, features);
	f->level_mad = level_mad;
	memcpy(x.u, x.t, n * sizeof(*x.u));
	index_sort(&x, false);
	run_noise(f, &x);
	run_tail(f, &x, c);
	run_quality(f, s, &x);
	f->ready = true;
}

/* The `reach` of a guess. Outside the learned work the line and the curves may be wrong. Two bounds
 * hold even there: less work takes no longer than the least work that was learned, and the time
 * grows at most with the square of the work. */
static double reach_of(const struct roofline_fit *f, const float *work, double expected_ns)
{
	float edge[ROOFLINE_WORK_MAX] = {0};
	double growth = 1;
	bool beyond = false;

	for (uint32_t i = 0; i < f->features; i++) {
		edge[i] = fminf(fmaxf(work[i], f->lo[i]), f->hi[i]);
		beyond |= edge[i] != work[i];
		if (work[i] > f->hi[i])
			growth *= (double)work[i] / f->hi[i];
	}
	if (!beyond)
		return 1;
	growth *= growth * roofline_fit_predict(f, edge).expected_ns / expected_ns;
	/* rounded to float, so that the rounding error of two equal times is not a reach */
	return fminf(fmaxf(1, (float)growth), REACH_MAX);
}

struct roofline_fit_guess roofline_fit_predict(const struct roofline_fit *f, const float *work)
{
	struct roofline_fit_guess g = {0};
	double line = line_at(f, work), t = log(line), log_ratio = curve_at(&f->curve, t);
	const struct roofline_fit_cell *c = NULL;

	for (uint32_t i = 0; i < f->features; i++) {
		if (f->feature[i].n)
			log_ratio += curve_at(&f->feature[i], feature_log(f, i, work[i]));
	}
	g.mad = interpolate(f->noise_t, f->noise_mad, f->noise_n, t);
	if (f->discrete || f->features > 1)
		c = cell_find(f, cell_hash(f, work));
	if (c) {
		log_ratio += c->log_ratio;
		g.second = expm1(c->second);
		g.once = expm1(c->once);
	} else if (f->discrete || curve_coarse(&f->curve, t)) {
		g.sparse = true;
		g.mad = fmax(g.mad, f->level_mad);
	}
	g.expected_ns = line * exp(log_ratio);
	g.reach = reach_of(f, work, g.expected_ns);
	return g;
}
