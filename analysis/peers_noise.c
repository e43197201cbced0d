/* SPDX-License-Identifier: Apache-2.0
 * How far a window's mean strays without a fault. Real step times have heavy tails and lag: the square
 * root of the window's length promises too much. So the noise is measured at each dyadic length by the
 * difference of neighbouring blocks (Allan's deviation: constant differences between members fall out,
 * and a fault is two of many differences), by its median over members and time, so that slow members
 * and outliers don't count. Histograms of integers: the order of members changes nothing. */
#include "analysis/peers_private.h"

#include <math.h>
#include <string.h>

#define GAUSS_MEDIAN 0.67448975
#define ENOUGH	     12u    /* blocks that a scale needs */
#define SMALL	     16u    /* members */
#define OVERLAP	     4u
#define PRIOR	     60.0   /* blocks that the scale before it is worth */
#define FORGET	     (1u << 20) /* counts are halved: some thousand steps of a large group */
#define JITTER	     64u    /* pushes that a member's own jitter looks back */

static uint32_t bin_of(float v)
{
	uint32_t bits;
	int bin;

	v = v < 0x1p-21f ? 0x1p-21f : v > 15.9f ? 15.9f : v;
	memcpy(&bits, &v, sizeof(bits));
	bin = (int)(bits >> 20) - (int)((127u - 21u) << 3);
	return bin < 0 ? 0 : bin >= (int)PEERS_BINS ? PEERS_BINS - 1 : (uint32_t)bin;
}

static double bin_value(double at)
{
	double whole = floor(at), part = at - whole;
	uint32_t i = (uint32_t)whole;
	double low = ldexp(1 + (i & 7) / 8.0, (int)(i >> 3) - 21);

	return low + part * ldexp(0.125, (int)(i >> 3) - 21);
}

static double bin_quantile(const uint32_t *bin, uint64_t count, double q)
{
	double want = q * (double)count, seen = 0;

	for (uint32_t i = 0; i < PEERS_BINS; i++) {
		if (seen + bin[i] >= want && bin[i])
			return bin_value(i + (want - seen) / bin[i]);
		seen += bin[i];
	}
	return bin_value(PEERS_BINS - 1);
}

static void add(struct peers_noise *no, uint32_t scale, double difference)
{
	no->bin[scale][bin_of((float)fabs(difference))]++;
	if (++no->count[scale] < FORGET)
		return;
	no->count[scale] = 0;
	for (uint32_t i = 0; i < PEERS_BINS; i++)
		no->count[scale] += no->bin[scale][i] /= 2;
}

/* Pushes between two blocks' differences. Small groups have few, so theirs overlap. */
static uint32_t every(const struct peers *p, uint32_t scale)
{
	uint32_t length = 1u << scale;

	if (p->n > SMALL)
		return length;
	return length > OVERLAP ? length / OVERLAP : 1;
}

/* Members of a group are measured against each other: a pair is one series, not two. */
static double independent(const struct peers *p, const struct peers_noise *no, uint32_t scale)
{
	double overlap = (double)(1u << scale) / every(p, scale);

	/* four overlapping ones tell as much as two apart */
	return (double)no->count[scale] * (p->n - 1) / p->n / sqrt(overlap);
}

/* By how much, in powers of two, the noise of a mean falls when its length doubles: a half without lag. */
static double slope_of(const struct peers_noise *no, uint32_t j)
{
	double slope = j ? log2(no->scale[j - 1] / no->scale[j]) : 0.5;

	return slope < 0.2 ? 0.2 : slope > 0.5 ? 0.5 : slope;
}

/* A few blocks say little by themselves: what the shorter ones promise counts as some more of them. */
static double shrink(const struct peers_noise *no, uint32_t j, double seen, double n)
{
	double promised;

	if (!j || seen <= 0)
		return seen;
	promised = no->scale[j - 1] * exp2(-slope_of(no, j - 1));
	return exp((n * log(seen) + PRIOR * log(promised)) / (n + PRIOR));
}

static void renew(struct peers *p, struct peers_series *s)
{
	struct peers_noise *no = &s->noise;
	double *jitter = p->scratch;

	no->fresh = p->pushes;
	for (uint32_t i = 0; i < p->n; i++)
		jitter[i] = s->member[i].jitter;
	s->jitter = median_select(jitter, p->n);
	for (uint32_t j = 0; j < PEERS_SCALES; j++) {
		double n = independent(p, no, j), median, tail;

		no->scale[j] = 0;
		if (n < (j ? ENOUGH : 6))
			break;
		median = bin_quantile(no->bin[j], no->count[j], 0.5);
		no->scale[j] = shrink(no, j, median / GAUSS_MEDIAN / sqrt(2), n);
		/* tails that cannot be seen yet are not taken for Gaussian; a quantile is used only where
		 * a fault or two, begun and ended, are not it */
		tail = n < 500 && !p->learned ? 1.2 : n < 5000 ? 1.1 : 1;
		if (n >= 500)
			tail = fmax(tail, bin_quantile(no->bin[j], no->count[j], 0.99) / median / 3.819);
		if (n >= 5000)
			tail = fmax(tail, bin_quantile(no->bin[j], no->count[j], 0.999) / median / 4.879);
		no->tail[j] = tail;
	}
}

/* Scale 0 takes plain residuals: clipping by its own result would feed back. */
static void single(struct peers *p, struct peers_series *s)
{
	const float *now = s->residual + (size_t)peers_at(p, p->pushes) * p->n;
	const float *before = s->residual + (size_t)peers_at(p, p->pushes - 1) * p->n;

	double most = s->noise.scale[0] > 0 ? PEERS_CLIP * s->noise.scale[0] : 1;

	for (uint32_t i = 0; i < p->n; i++) {
		double d = fabs((double)now[i] - (double)before[i]);

		if (isnan(d))
			continue;
		add(&s->noise, 0, d);
		d = (d < most ? d : most) - (double)s->member[i].jitter;
		s->member[i].jitter += (float)(d * (p->pushes < JITTER ? 1.0 / (double)p->pushes :
									 1.0 / JITTER));
	}
}

static void block(struct peers *p, struct peers_series *s, uint32_t j)
{
	uint64_t length = 1ull << j, end = p->pushes + 1;
	double near = 0.875 * PEERS_CLIP * s->noise.scale[0];

	for (uint32_t i = 0; i < p->n; i++) {
		double now = peers_test_mean(p, s, i, end - length, end);
		double before = peers_test_mean(p, s, i, end - 2 * length, end - length);
		double middle = s->member[i].location;

		if (isnan(now) || isnan(before) || s->member[i].open)
			continue;
		if (near > 0 && (fabs(now - middle) > near || fabs(before - middle) > near))
			continue;
		add(&s->noise, j, now - before);
	}
}

/* After the residuals and prefix sums of push p->pushes are written. */
void peers_noise_push(struct peers *p, struct peers_series *s)
{
	uint64_t done = p->pushes + 1;

	if (!p->pushes)
		return;
	single(p, s);
	for (uint32_t j = 1; j < PEERS_SCALES && done % every(p, j) == 0; j++)
		if (done >= 2ull << j && 2ull << j <= p->depth)
			block(p, s, j);
	if (done < 64 || done % 16 == 0)
		renew(p, s);
}

double peers_noise_of(const struct peers *p, const struct peers_series *s, uint32_t length,
		      double *widened)
{
	const struct peers_noise *no = &s->noise;
	uint32_t j = 0;
	double scale, ratio, white;

	*widened = 0;
	if (no->scale[0] <= 0)
		return 0;
	while (j + 1 < PEERS_SCALES && (2u << j) <= length && no->scale[j + 1] > 0)
		j++;
	ratio = (double)length / (double)(1u << j);
	scale = no->scale[j] * pow(ratio, -slope_of(no, j));
	/* anticorrelated noise is not taken for more than a little */
	white = 0.7 * no->scale[0] / sqrt(length);
	scale = scale > white ? scale : white;
	scale *= 1 + (no->tail[j] - 1) / sqrt(ratio);
	/* one more such error is enough where the rows to judge are those that it was measured of */
	*widened = scale * (1 + (p->learned ? 1 : 2) / sqrt(independent(p, no, j) + (j ? PRIOR : 0)));
	return scale;
}

void peers_noise_step(struct peers_noise *no, double above)
{
	if (above > 0)
		no->step[bin_of((float)above)]++;
	if (++no->steps < FORGET)
		return;
	no->steps /= 2;
	for (uint32_t i = 0; i < PEERS_BINS; i++)
		no->step[i] /= 2;
}

void peers_noise_stretch(struct peers_noise *no, double above)
{
	if (above > 0)
		no->stretch[bin_of((float)above)]++;
	no->stretch_steps++;
}

double peers_noise_share(const struct peers_noise *no, double above, uint32_t own)
{
	uint64_t count = 0;

	for (uint32_t i = bin_of((float)above); i < PEERS_BINS; i++)
		count += no->step[i];
	count = count > own ? count - own : 0;
	return (double)(count + 1) / (double)(no->steps + 1);
}

double peers_noise_gauss(double probability)
{
	double lo = 0, hi = 12;

	for (int i = 0; i < 60; i++) {
		double z = (lo + hi) / 2;

		if (erfc(z / sqrt(2)) / 2 > probability)
			lo = z;
		else
			hi = z;
	}
	return hi;
}

/* P(|T| > t), Abramowitz and Stegun 26.7.3 and 26.7.4. */
static double student_tails(double t, uint32_t freedom)
{
	double angle = atan(t / sqrt(freedom)), c2 = cos(angle) * cos(angle), sum = 0, term = 1;

	if (freedom % 2) {
		term = cos(angle);
		for (uint32_t k = 1; k + 1 < freedom; k += 2) {
			sum += term;
			term *= c2 * (k + 1) / (k + 2);
		}
		return 1 - 2 / M_PI * (angle + sin(angle) * sum);
	}
	for (uint32_t k = 0; k + 2 <= freedom; k += 2) {
		sum += term;
		term *= c2 * (k + 1) / (k + 2);
	}
	return 1 - sin(angle) * sum;
}

double peers_noise_student(double probability, uint32_t freedom)
{
	double lo = 0, hi = 1000;

	for (int i = 0; i < 60; i++) {
		double t = (lo + hi) / 2;

		if (student_tails(t, freedom) / 2 > probability)
			lo = t;
		else
			hi = t;
	}
	return hi;
}
