/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/levels.h"

#include <math.h>
#include <string.h>

#include "analysis/median.h"

/* Clipped at so many standard deviations about the part's median. */
#define CLIP 6.0
/* And for the noise: jumps between levels are few, but large. */
#define NOISE_CLIP 3.0
/* Fewer differences than this tell no tails. */
#define TAILS_MIN 40u
/* How many independent looks n values are, for the threshold: max of the statistic under noise. */
#define LOOKS_PER_VALUE 3.0
/* Every pair of ends is tried up to so many values; beyond, stretches up to SHORT of them, and
 * longer ones on means of several. */
#define EXACT_MAX 1024u
#define SHORT_MAX 64u
/* Blocks that a scale's noise is taken from. */
#define BLOCK_PAIRS_MIN 12u

double levels_error(const struct levels_noise *noise, uint32_t length)
{
	uint32_t k = 0;
	double at;

	while (k + 1 < noise->scales && (2u << k) <= length)
		k++;
	at = (double)length / (double)(1u << k);
	if (k + 1 < noise->scales) /* between two scales: geometric */
		return noise->scale[k] * pow(noise->scale[k + 1] / noise->scale[k], log2(at));
	return noise->scale[k] / sqrt(at);
}

/* Of differences of two independent values each: their standard deviation. Heavy tails count where
 * it is about single values; of means many may lie across a change. */
static double spread_of(double *d, uint32_t n, bool single)
{
	double sum = 0, mad;

	for (uint32_t i = 0; i < n; i++)
		d[i] = fabs(d[i]);
	mad = 1.4826 * median_of(d, n);
	for (uint32_t i = 0; i < n && single; i++) {
		double x = fmin(d[i], NOISE_CLIP * mad);

		sum += x * x;
	}
	return fmax(mad, n ? sqrt(sum / n) : 0) / sqrt(2);
}

/* Differences of neighbouring means of `length` values, of one series. */
static uint32_t block_differences(const double *v, uint32_t n, uint32_t length, double *out)
{
	double before = NAN, sum = 0;
	uint32_t have = 0, made = 0;

	for (uint32_t i = 0; i < n; i++) {
		if (isnan(v[i]))
			continue;
		sum += v[i];
		if (++have < length)
			continue;
		if (!isnan(before))
			out[made++] = sum / length - before;
		before = sum / length;
		sum = 0;
		have = 0;
	}
	return made;
}

void levels_noise(const double *series, uint32_t count, uint32_t n, double floor_value,
		  double *scratch, struct levels_noise *out)
{
	memset(out, 0, sizeof(*out));
	for (uint32_t k = 0; k < LEVELS_SCALES; k++) {
		double white = k ? out->scale[k - 1] / sqrt(2) : floor_value;
		uint32_t made = 0;

		for (uint32_t s = 0; s < count; s++)
			made +=
			    block_differences(series + (size_t)s * n, n, 1u << k, scratch + made);
		if (k && made < BLOCK_PAIRS_MIN)
			break;
		/* what few differences show beyond white noise may be chance */
		out->scale[k] = fmax(white, spread_of(scratch, made, !k && made >= TAILS_MIN) /
						(k ? 1 + 2 / sqrt(made) : 1));
		out->scales = k + 1;
		if (!k)
			out->differences = made;
	}
}

double levels_threshold(const struct levels_noise *noise, uint32_t looks, uint32_t n, double wrong)
{
	double trials = LOOKS_PER_VALUE * (looks ? looks : 1) * (n ? n : 1) / wrong;
	double known = noise->differences ? noise->differences : 1;

	/* a spread that few values tell may be too small */
	return sqrt(2 * log(trials)) * (1 + 2 / sqrt(known));
}

struct part {
	uint32_t first, end; /* [first, end) */
	double score;
};

struct finder {
	const double *v;
	const struct levels_noise *noise;
	const struct levels_config *config;
	double *sum, *error, *values; /* prefix sums, squared errors by length, scratch */
};

struct best {
	uint32_t first, end;
	double score;
};

static double clipped(const struct finder *f, uint32_t i, double mid)
{
	double most = CLIP * f->noise->scale[0], x = f->v[i] - mid;

	return x > most ? most : x < -most ? -most : x;
}

/* Prefix sums of the part's values and the squared errors of means of every length. */
static void part_load(struct finder *f, const struct part *p)
{
	uint32_t n = p->end - p->first;
	double mid;

	memcpy(f->values, f->v + p->first, n * sizeof(double));
	mid = median_of(f->values, n);
	f->sum[0] = 0;
	for (uint32_t i = 0; i < n; i++)
		f->sum[i + 1] = f->sum[i] + clipped(f, p->first + i, mid);
	for (uint32_t i = 1; i <= n; i++) {
		double e = levels_error(f->noise, i);

		f->error[i] = e * e;
	}
}

static void stretch_try(const struct finder *f, uint32_t n, uint32_t a, uint32_t b,
			struct best *best)
{
	uint32_t in = b - a, out = n - in;
	double sum, z;

	/* a refined begin may lie behind the end */
	if (b <= a || in < f->config->least || out < f->config->least)
		return;
	sum = f->sum[b] - f->sum[a];
	z = fabs(sum / in - (f->sum[n] - sum) / out) / sqrt(f->error[in] + f->error[out]);
	if (z > best->score)
		*best = (struct best){a, b, z};
}

/* Ends near those found on a coarse grid. */
static void stretch_refine(const struct finder *f, uint32_t n, uint32_t grid, struct best *best)
{
	struct best from = *best;
	uint32_t a0 = from.first > grid ? from.first - grid : 0;
	uint32_t a1 = from.first ? from.first + grid : 0;
	uint32_t b0 = from.end < n ? from.end - (from.end > grid ? grid : from.end) : n;
	uint32_t b1 = from.end + grid < n ? from.end + grid : n;

	for (uint32_t a = a0; a <= a1 && a < n; a++)
		stretch_try(f, n, a, from.end, best);
	from = *best;
	for (uint32_t b = b0; b <= b1; b++)
		if (b > from.first)
			stretch_try(f, n, from.first, b, best);
}

static bool part_split(struct finder *f, const struct part *p, struct best *best)
{
	uint32_t n = p->end - p->first, grid;

	*best = (struct best){0};
	if (n < 2 * f->config->least)
		return false;
	part_load(f, p);
	grid = n <= EXACT_MAX ? 1 : (n + EXACT_MAX - 1) / EXACT_MAX;
	for (uint32_t a = 0; a < n; a += grid)
		for (uint32_t b = a + grid; b < n + grid; b += grid)
			stretch_try(f, n, a, b < n ? b : n, best);
	for (uint32_t a = 0; grid > 1 && a < n; a++)
		for (uint32_t b = a + 1; b <= n && b <= a + SHORT_MAX; b++)
			stretch_try(f, n, a, b, best);
	if (grid > 1)
		stretch_refine(f, n, grid, best);
	return best->score > f->config->threshold;
}

static double median_between(const struct finder *f, uint32_t first, uint32_t end)
{
	memcpy(f->values, f->v + first, (end - first) * sizeof(double));
	return median_of(f->values, end - first);
}

/* Neighbours that do not differ after all become one. */
static uint32_t levels_merge(const struct finder *f, struct level *v, uint32_t n)
{
	for (uint32_t i = 0; i + 1 < n;) {
		uint32_t a = v[i].last - v[i].first + 1, b = v[i + 1].last - v[i + 1].first + 1;
		double ea = levels_error(f->noise, a), eb = levels_error(f->noise, b);
		double most = f->config->threshold * 0.6 * sqrt(ea * ea + eb * eb);
		double apart = fabs(v[i].value - v[i + 1].value);

		if (apart >= most && apart >= f->config->change_min) {
			i++;
			continue;
		}
		v[i].last = v[i + 1].last;
		v[i].score = fmax(v[i].score, v[i + 1].score);
		v[i].value = median_between(f, v[i].first, v[i].last + 1);
		memmove(&v[i + 1], &v[i + 2], (n - i - 2) * sizeof(*v));
		n--;
		i = i ? i - 1 : 0;
	}
	return n;
}

/* Misfit of a value to a level; wild ones count no more than CLIP deviations. */
static double misfit(const struct finder *f, uint32_t i, double level)
{
	double x = fabs(f->v[i] - level), most = CLIP * f->noise->scale[0];

	x = x < most ? x : most;
	return x * x;
}

/* Where one level becomes the next: the place that leaves least misfit. The search that found them
 * weighs long stretches by noise that grows with length, and so likes the middle of one best. */
static void boundary_settle(const struct finder *f, struct level *a, struct level *b)
{
	uint32_t best = b->first;
	double sum = 0, least = INFINITY;

	/* of a boundary before i, less that of one before a's second value */
	for (uint32_t i = a->first + 1; i <= b->last; i++) {
		if (i >= a->first + f->config->least && i + f->config->least <= b->last + 1 &&
		    sum < least) {
			least = sum;
			best = i;
		}
		sum += misfit(f, i, a->value) - misfit(f, i, b->value);
	}
	a->last = best - 1;
	b->first = best;
}

static void levels_settle(const struct finder *f, struct level *v, uint32_t n)
{
	for (int pass = 0; pass < 2; pass++) {
		for (uint32_t i = 0; i + 1 < n; i++)
			boundary_settle(f, &v[i], &v[i + 1]);
		for (uint32_t i = 0; i < n; i++)
			v[i].value = median_between(f, v[i].first, v[i].last + 1);
	}
}

uint32_t levels_find(const double *v, uint32_t n, const struct levels_noise *noise,
		     const struct levels_config *config, struct level *out, double *scratch)
{
	struct finder f = {.v = v,
			   .noise = noise,
			   .config = config,
			   .sum = scratch,
			   .error = scratch + n + 1,
			   .values = scratch + 2 * (size_t)n + 2};
	struct part open[LEVELS_MAX], done[LEVELS_MAX];
	uint32_t opens = 1, dones = 0;

	if (!n)
		return 0;
	open[0] = (struct part){0, n, 0};
	while (opens) {
		struct part p = open[--opens];
		struct best best;

		/* a part makes three of one; the stack is popped from the left of the series */
		if (dones + opens + 3 > LEVELS_MAX || !part_split(&f, &p, &best)) {
			done[dones++] = p;
			continue;
		}
		best.score /= config->threshold;
		if (p.first + best.end < p.end)
			open[opens++] = (struct part){p.first + best.end, p.end, best.score};
		open[opens++] = (struct part){p.first + best.first, p.first + best.end, best.score};
		if (best.first)
			open[opens++] = (struct part){p.first, p.first + best.first, best.score};
	}
	for (uint32_t i = 0; i < dones; i++)
		out[i] =
		    (struct level){done[i].first, done[i].end - 1,
				   median_between(&f, done[i].first, done[i].end), done[i].score};
	dones = levels_merge(&f, out, dones);
	levels_settle(&f, out, dones);
	return dones;
}
