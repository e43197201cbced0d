/* SPDX-License-Identifier: Apache-2.0
 * Why not one robust line: real curves have floors (small prefill), stairs (tile quantisation) and
 * levels (batch sizes, graph buckets). A line alone leaves residuals of 5 to 30 % there, and the
 * threshold, a multiple of the residuals, would then miss a step that is half as slow again. */
#include "analysis/roofline_fit.h"

#include <math.h>
#include <string.h>

#include "base/hash.h"

#define LINE_SAMPLES 512   /* the line is fitted on an even subsample of this many */
#define IRLS_ROUNDS 16
#define IRLS_FLOOR 0.002   /* relative residual below which steps weigh alike */
#define MAD_SIGMA 1.4826   /* standard deviation per MAD of a normal */
#define MEDIAN_ERROR 1.2533 /* standard error of a median, in standard deviations / sqrt(n) */
#define SUPPORT_MARGIN 1.25f /* work this factor beyond what was learned is not judged */

struct fit_scratch {
	double *t, *q, *v; /* log line, log ratio to the prediction so far, work area */
	uint64_t *key;
	uint32_t *index;
	uint32_t n;
};

size_t roofline_fit_scratch_bytes(uint32_t samples_max)
{
	return (size_t)samples_max * (3 * sizeof(double) + sizeof(uint64_t) + sizeof(uint32_t)) + 64;
}

static struct fit_scratch scratch_of(void *memory, uint32_t n)
{
	struct fit_scratch s = { .n = n };

	s.t = memory;
	s.q = s.t + n;
	s.v = s.q + n;
	s.key = (uint64_t *)(s.v + n);
	s.index = (uint32_t *)(s.key + n);
	return s;
}

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

void roofline_fit_sort(double *v, uint32_t n)
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

/* The same on an index, by double or by hash. */
static bool index_less(const struct fit_scratch *s, bool by_key, uint32_t a, uint32_t b)
{
	if (by_key)
		return s->key[a] < s->key[b] || (s->key[a] == s->key[b] && a < b);
	return s->t[a] < s->t[b] || (s->t[a] == s->t[b] && a < b);
}

static void index_sift(const struct fit_scratch *s, bool by_key, uint32_t root, uint32_t n)
{
	uint32_t x = s->index[root];

	for (;;) {
		uint32_t child = 2 * root + 1;

		if (child >= n)
			break;
		if (child + 1 < n && index_less(s, by_key, s->index[child], s->index[child + 1]))
			child++;
		if (!index_less(s, by_key, x, s->index[child]))
			break;
		s->index[root] = s->index[child];
		root = child;
	}
	s->index[root] = x;
}

static void index_sort(struct fit_scratch *s, bool by_key)
{
	for (uint32_t i = 0; i < s->n; i++)
		s->index[i] = i;
	for (uint32_t i = s->n / 2; i-- > 0;)
		index_sift(s, by_key, i, s->n);
	for (uint32_t i = s->n; i-- > 1;) {
		uint32_t x = s->index[0];

		s->index[0] = s->index[i];
		s->index[i] = x;
		index_sift(s, by_key, 0, i);
	}
}

static double sorted_quantile(const double *v, uint32_t n, double p)
{
	double at = p * (n - 1);
	uint32_t i = (uint32_t)at;

	if (i + 1 >= n)
		return v[n - 1];
	return v[i] + (at - i) * (v[i + 1] - v[i]);
}

static double median_of(double *v, uint32_t n)
{
	roofline_fit_sort(v, n);
	return sorted_quantile(v, n, 0.5);
}

/* Median inside the densest window of this width; the lower one of equals. v is sorted. */
static double centre_of(const double *v, uint32_t n, double width)
{
	uint32_t best = 0, best_begin = 0;

	for (uint32_t i = 0, j = 0; i < n; i++) {
		while (j < n && v[j] - v[i] <= width)
			j++;
		if (j - i > best) {
			best = j - i;
			best_begin = i;
		}
		if (j == n)
			break;
	}
	return sorted_quantile(v + best_begin, best, 0.5);
}

static uint32_t terms_of(double *phi, const float *work, uint32_t features, bool second)
{
	uint32_t p = 0;

	phi[p++] = 1;
	for (uint32_t i = 0; i < features; i++)
		phi[p++] = work[i];
	for (uint32_t i = 0; second && i < features; i++)
		for (uint32_t j = i; j < features; j++)
			phi[p++] = (double)work[i] * work[j];
	return p;
}

static double dot(const double *a, const double *b, uint32_t n)
{
	double sum = 0;

	for (uint32_t i = 0; i < n; i++)
		sum += a[i] * b[i];
	return sum;
}

/* min b'Gb/2 - c'b over b >= 0 by coordinate descent; exact per coordinate, so no scaling. */
static void solve_nonnegative(double g[][ROOFLINE_FIT_TERMS], const double *c, uint32_t p, double *b)
{
	for (uint32_t sweep = 0; sweep < 200; sweep++) {
		double change = 0;

		for (uint32_t j = 0; j < p; j++) {
			double old = b[j], v;

			if (g[j][j] <= 0)
				continue;
			v = b[j] + (c[j] - dot(g[j], b, p)) / (g[j][j] * (1 + 1e-9));
			b[j] = v > 0 ? v : 0;
			v = fabs(b[j] - old) * sqrt(g[j][j]);
			if (v > change)
				change = v;
		}
		if (change < 1e-7)
			break;
	}
}

/* Least absolute relative deviations; returns the mean of |residual| capped at 0.3. */
static double fit_line(const struct roofline_fit_sample *s, uint32_t n, uint32_t features,
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

			p = terms_of(phi, s[i].work, features, second);
			for (uint32_t j = 0; j < p; j++)
				phi[j] /= y;
			r = fabs(1 - dot(phi, coef, p));
			loss += r < 0.3 ? r : 0.3;
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
		solve_nonnegative(g, c, p, coef);
	}
	return loss / used;
}

static double line_at(const struct roofline_fit *f, const float *work)
{
	double phi[ROOFLINE_FIT_TERMS], y;

	terms_of(phi, work, f->features, f->terms > f->features + 1);
	y = dot(phi, f->coef, f->terms);
	return y > f->line_min_ns ? y : f->line_min_ns;
}

static void run_line(struct roofline_fit *f, const struct roofline_fit_sample *s, struct fit_scratch *x)
{
	double plain[ROOFLINE_FIT_TERMS], curved[ROOFLINE_FIT_TERMS], loss, loss2 = 1;
	uint32_t second = 1 + f->features + f->features * (f->features + 1) / 2;

	for (uint32_t i = 0; i < x->n; i++)
		x->v[i] = s[i].latency_ns;
	f->line_min_ns = median_of(x->v, x->n) * 1e-3;
	loss = fit_line(s, x->n, f->features, false, plain);
	if (f->features && x->n >= 4 * second && loss > 0.003)
		loss2 = fit_line(s, x->n, f->features, true, curved);
	f->intercept_ns = plain[0];
	for (uint32_t i = 0; i < ROOFLINE_WORK_MAX; i++)
		f->slope_ns[i] = i < f->features ? plain[1 + i] : 0;
	if (loss2 < 0.9 * loss) {
		f->terms = second;
		memcpy(f->coef, curved, sizeof(curved));
	} else {
		f->terms = 1 + f->features;
		memcpy(f->coef, plain, sizeof(plain));
	}
	for (uint32_t i = 0; i < x->n; i++) {
		x->t[i] = log(line_at(f, s[i].work));
		x->q[i] = log(s[i].latency_ns) - x->t[i];
	}
}

static uint32_t knot_below(const struct roofline_fit *f, double t)
{
	uint32_t lo = 0, hi = f->knots;

	while (hi - lo > 1) {
		uint32_t mid = (lo + hi) / 2;

		if (f->knot_t[mid] <= t)
			lo = mid;
		else
			hi = mid;
	}
	return lo;
}

static double curve_at(const struct roofline_fit *f, double t, double *mad)
{
	uint32_t i = knot_below(f, t);
	double w;

	if (i + 1 >= f->knots || t <= f->knot_t[i]) {
		*mad = f->knot_mad[i];
		return f->knot_c[i];
	}
	w = (t - f->knot_t[i]) / (f->knot_t[i + 1] - f->knot_t[i]);
	*mad = f->knot_mad[i] + w * (f->knot_mad[i + 1] - f->knot_mad[i]);
	return f->knot_c[i] + w * (f->knot_c[i + 1] - f->knot_c[i]);
}

/* Groups of neighbours in t, ties together; width 0: plain medians. Index is sorted by t. */
static void run_curve(struct roofline_fit *f, struct fit_scratch *x, double width)
{
	uint32_t size = x->n / (ROOFLINE_FIT_KNOTS - 1) + 1, begin = 0;

	if (size < 8)
		size = 8;
	f->knots = 0;
	while (begin < x->n) {
		uint32_t end = begin + size, k = f->knots;

		if (end > x->n || x->n - end < size / 2 || k + 1 == ROOFLINE_FIT_KNOTS)
			end = x->n;
		while (end < x->n && x->t[x->index[end]] - x->t[x->index[end - 1]] < 1e-6)
			end++;
		f->knot_t[k] = 0;
		for (uint32_t i = begin; i < end; i++) {
			x->v[i - begin] = x->q[x->index[i]];
			f->knot_t[k] += x->t[x->index[i]] / (end - begin);
		}
		roofline_fit_sort(x->v, end - begin);
		f->knot_c[k] = width > 0 ? centre_of(x->v, end - begin, width) :
					   sorted_quantile(x->v, end - begin, 0.5);
		f->knot_mad[k] = 0;
		f->knots++;
		begin = end;
	}
}

/* MAD of the residuals left in q, slow ones put aside by two rounds of trimming at 7 MADs. */
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
		mad = median_of(v, m);
		cut = 7 * mad > 0.01 ? 7 * mad : 0.01;
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
		/* half octaves */
		for (uint32_t i = 0; i < f->features; i++)
			box[i] = work[i] > 0 ? (int32_t)floorf(2 * log2f(work[i])) : -1000;
		h = hash_mix(hash_bytes(HASH_SEED, box, f->features * sizeof(*box)));
	}
	return h ? h : 1;
}

static const struct roofline_fit_cell *cell_find(const struct roofline_fit *f, uint64_t hash)
{
	for (uint32_t i = 0; i < ROOFLINE_FIT_SLOTS; i++) {
		const struct roofline_fit_cell *c =
			&f->cell[(hash + i) & (ROOFLINE_FIT_SLOTS - 1)];

		if (c->hash == hash)
			return c;
		if (!c->hash)
			return NULL;
	}
	return NULL;
}

static struct roofline_fit_cell *cell_add(struct roofline_fit *f, uint64_t hash)
{
	for (uint32_t i = 0; i < ROOFLINE_FIT_SLOTS; i++) {
		struct roofline_fit_cell *c = &f->cell[(hash + i) & (ROOFLINE_FIT_SLOTS - 1)];

		if (!c->hash) {
			c->hash = hash;
			return c;
		}
	}
	return NULL;
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

/* The cells' centres about the curve, then shrunk: noise^2 against the scatter of the levels. */
static void run_cells(struct roofline_fit *f, const struct roofline_fit_sample *s,
		      struct fit_scratch *x, double mad)
{
	uint32_t distinct, least, cells = 0;
	double width = 8 * mad > 0.02 ? 8 * mad : 0.02, tau;

	memset(f->cell, 0, sizeof(f->cell));
	f->discrete = true;
	distinct = hash_all(f, s, x);
	f->discrete = distinct <= ROOFLINE_FIT_CELLS && distinct <= x->n / 3 + 1;
	if (!f->discrete)
		hash_all(f, s, x);
	least = f->discrete ? 3 : 12;
	for (uint32_t i = 0, j; i < x->n && cells < ROOFLINE_FIT_CELLS; i = j) {
		struct roofline_fit_cell *c;

		for (j = i; j < x->n && x->key[x->index[j]] == x->key[x->index[i]]; j++)
			x->v[j - i] = x->q[x->index[j]];
		if (j - i < least)
			continue;
		roofline_fit_sort(x->v, j - i);
		c = cell_add(f, x->key[x->index[i]]);
		c->log_ratio = (float)centre_of(x->v, j - i, width);
		c->count = j - i;
		cells++;
	}
	cells = 0;
	for (uint32_t i = 0; i < ROOFLINE_FIT_SLOTS; i++)
		if (f->cell[i].hash)
			x->v[cells++] = fabs(f->cell[i].log_ratio);
	tau = cells ? MAD_SIGMA * median_of(x->v, cells) : 0;
	f->level_mad = tau / MAD_SIGMA;
	for (uint32_t i = 0; i < ROOFLINE_FIT_SLOTS; i++) {
		struct roofline_fit_cell *c = &f->cell[i];
		double e2, own;

		if (!c->hash)
			continue;
		e2 = MEDIAN_ERROR * MAD_SIGMA * mad;
		e2 = e2 * e2 / c->count;
		own = tau > fabs(c->log_ratio) ? tau : fabs(c->log_ratio);
		own = own * own / (own * own + e2 + 1e-18);
		c->log_ratio *= (float)own;
		c->error = (float)sqrt(e2 * own);
	}
}

static void subtract(struct roofline_fit *f, struct fit_scratch *x, bool curve, bool cell)
{
	double unused;

	for (uint32_t i = 0; i < x->n; i++) {
		const struct roofline_fit_cell *c = cell ? cell_find(f, x->key[i]) : NULL;

		if (curve)
			x->q[i] -= curve_at(f, x->t[i], &unused);
		if (c)
			x->q[i] -= c->log_ratio;
	}
}

/* Noise per knot from the residuals in q, pulled towards the pooled one. Index sorted by t. */
static void run_noise(struct roofline_fit *f, struct fit_scratch *x)
{
	double cut, skip = 1e-9;
	uint32_t below = 0, above = 0, low = 0, out = 0;

	f->mad = trimmed_mad(x->q, x->v, x->n, skip);
	cut = 7 * f->mad > 0.01 ? 7 * f->mad : 0.01;
	index_sort(x, false);
	for (uint32_t k = 0, i = 0; k < f->knots; k++) {
		double edge = k + 1 < f->knots ? (f->knot_t[k] + f->knot_t[k + 1]) / 2 : INFINITY;
		uint32_t m = 0;
		double mad;

		for (; i < x->n && x->t[x->index[i]] <= edge; i++) {
			double r = x->q[x->index[i]];

			if (r <= cut && fabs(r) >= skip)
				x->v[m++] = fabs(r);
		}
		mad = m ? median_of(x->v, m) : f->mad;
		mad = (m * mad + 10 * f->mad) / (m + 10);
		f->knot_mad[k] = mad > 0.5 * f->mad ? mad : 0.5 * f->mad;
	}
	for (uint32_t i = 0; i < x->n; i++) {
		if (x->q[i] > cut)
			out++;
		else if (x->q[i] > 0)
			x->v[above++] = x->q[i];
		if (x->q[i] < 0)
			below++;
	}
	f->out_share = (double)out / x->n;
	f->tail_up = above >= 20 && f->mad > 0 ? median_of(x->v, above) / f->mad : 0;
	for (uint32_t i = 0; i < x->n; i++)
		if (x->q[i] < 0)
			x->v[low++] = -x->q[i];
	roofline_fit_sort(x->v, low);
	f->tail_low = below >= 100 && f->mad > 0 ? sorted_quantile(x->v, low, 0.98) / f->mad : 0;
}

static void run_quality(struct roofline_fit *f, const struct roofline_fit_sample *s,
			struct fit_scratch *x)
{
	double cut = 7 * f->mad > 0.01 ? 7 * f->mad : 0.01, mean = 0, total = 0, left = 0, centre;
	double lag = 0, square = 0, lim = 3 * f->mad;
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
	centre = median_of(x->v, x->n);
	for (uint32_t i = 0; i < x->n; i++)
		x->v[i] = fabs(log(s[i].latency_ns) - centre);
	f->latency_mad = median_of(x->v, x->n);
	f->explained = f->latency_mad > 0 ? 1 - f->mad * f->mad / (f->latency_mad * f->latency_mad) : 0;
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

void roofline_fit_run(struct roofline_fit *f, const struct roofline_fit_sample *s, uint32_t n,
		      uint32_t features, void *scratch)
{
	struct fit_scratch x = scratch_of(scratch, n);
	double mad, *rest;

	memset(f, 0, offsetof(struct roofline_fit, cell));
	f->features = features;
	f->samples = n;
	run_support(f, s, n);
	run_line(f, s, &x);
	/* plain medians first, to learn how wide the densest window has to be */
	index_sort(&x, false);
	run_curve(f, &x, 0);
	/* v is the work area of the sort: the residuals live in the keys' place meanwhile */
	rest = (double *)x.key;
	for (uint32_t i = 0; i < n; i++) {
		double unused;

		rest[i] = x.q[i] - curve_at(f, x.t[i], &unused);
	}
	mad = trimmed_mad(rest, x.v, n, 0);
	run_curve(f, &x, 8 * mad > 0.02 ? 8 * mad : 0.02);
	subtract(f, &x, true, false);
	mad = trimmed_mad(x.q, x.v, n, 0);
	run_cells(f, s, &x, mad);
	subtract(f, &x, false, true);
	run_noise(f, &x);
	run_quality(f, s, &x);
	f->ready = true;
}

struct roofline_fit_guess roofline_fit_predict(const struct roofline_fit *f, const float *work)
{
	struct roofline_fit_guess g = { 0 };
	double line = line_at(f, work), t = log(line), log_ratio, mad;
	const struct roofline_fit_cell *c = NULL;

	for (uint32_t i = 0; i < f->features; i++)
		if (work[i] > f->hi[i] * SUPPORT_MARGIN || work[i] < f->lo[i] / SUPPORT_MARGIN)
			g.novel = true;
	log_ratio = curve_at(f, t, &mad);
	c = cell_find(f, cell_hash(f, work));
	if (c) {
		log_ratio += c->log_ratio;
		mad = sqrt(mad * mad + (double)c->error * c->error / (MAD_SIGMA * MAD_SIGMA));
	} else if (f->discrete) {
		g.sparse = true;
		mad = sqrt(mad * mad + f->level_mad * f->level_mad);
	}
	g.expected_ns = line * exp(log_ratio);
	g.mad = mad;
	return g;
}
