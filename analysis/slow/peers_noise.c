/* SPDX-License-Identifier: Apache-2.0
 * Noise is measured from differences of neighbouring blocks, because a plain standard deviation
 * would include the slow ranks. Only blocks near the rank's own location count, and only of
 * ranks that are not flagged. block_noise combines them over ranks and time. */
#include "analysis/slow/peers_private.h"
#include "model/thresholds.h"

#include <math.h>

#define SMALL	16u /* ranks; smaller groups use overlapping blocks */
#define OVERLAP 4u

/* Pushes between two differences. Small groups have few blocks, so their blocks overlap. */
static uint32_t every(const struct peers *p, uint32_t scale)
{
	uint32_t length = 1u << scale;

	if (p->n > SMALL)
		return length;
	return length > OVERLAP ? length / OVERLAP : 1;
}

/* The number of independent differences. Residuals are relative to the group: a pair has one
 * series, not two. */
static double independent(const struct peers *p, uint32_t scale, uint64_t count)
{
	double overlap = (double)(1u << scale) / every(p, scale);

	/* Four overlapping differences are worth two independent ones. */
	return (double)count * (p->n - 1) / p->n / sqrt(overlap);
}

static void renew(struct peers *p, struct peers_series *s)
{
	struct block_noise *no = &s->noise;
	double *jitter = p->scratch, worth[BLOCK_NOISE_SCALES];

	for (uint32_t i = 0; i < p->n; i++)
		jitter[i] = s->member[i].jitter;
	s->jitter = median_select(jitter, p->n);
	for (uint32_t j = 0; j < BLOCK_NOISE_SCALES; j++)
		worth[j] = independent(p, j, no->count[j]);
	block_noise_renew(no, worth, p->learned);
}

/* Scale 0 uses unclipped residuals. The clip limit is derived from it and would feed back. */
static void single(struct peers *p, struct peers_series *s)
{
	const float *now = s->residual + (size_t)peers_at(p, p->pushes) * p->n;
	const float *before = s->residual + (size_t)peers_at(p, p->pushes - 1) * p->n;

	double most = s->noise.scale[0] > 0 ? PEERS_CLIP * s->noise.scale[0] : 1;

	for (uint32_t i = 0; i < p->n; i++) {
		double d = fabs((double)now[i] - (double)before[i]);

		if (isnan(d))
			continue;
		block_noise_add(&s->noise, 0, d);
		d = (d < most ? d : most) - (double)s->member[i].jitter;
		s->member[i].jitter += (float)(d / fmin((double)p->pushes, thresholds.count.lots));
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
		block_noise_add(&s->noise, j, now - before);
	}
}

/* Call after the residuals and prefix sums of push p->pushes are written. */
void peers_noise_push(struct peers *p, struct peers_series *s)
{
	uint64_t done = p->pushes + 1;

	if (!p->pushes)
		return;
	single(p, s);
	for (uint32_t j = 1; j < BLOCK_NOISE_SCALES && done % every(p, j) == 0; j++)
		if (done >= 2ull << j && 2ull << j <= p->depth)
			block(p, s, j);
	if (done < 64 || done % 16 == 0)
		renew(p, s);
}

double peers_noise_of(const struct peers *p, const struct peers_series *s, uint32_t length,
		      double *widened)
{
	const struct block_noise *no = &s->noise;
	uint32_t j;
	double scale = block_noise_of(no, length, &j);

	/* One standard error is enough if the noise was learned from the rows that are judged. */
	*widened = scale <= 0
		       ? 0
		       : scale * (1 + (p->learned ? 1 : 2) / sqrt(independent(p, j, no->count[j]) +
								  (j ? BLOCK_NOISE_PRIOR : 0)));
	return scale;
}

void peers_noise_step(struct peers_single *no, double above)
{
	if (above > 0)
		no->step[block_noise_bin((float)above)]++;
	if (++no->steps < BLOCK_NOISE_FORGET)
		return;
	no->steps /= 2;
	for (uint32_t i = 0; i < BLOCK_NOISE_BINS; i++)
		no->step[i] /= 2;
}

void peers_noise_stretch(struct peers_single *no, double above)
{
	if (above > 0)
		no->stretch[block_noise_bin((float)above)]++;
	no->stretch_steps++;
}

double peers_noise_share(const struct peers_single *no, double above, uint32_t own)
{
	uint64_t count = 0;

	for (uint32_t i = block_noise_bin((float)above); i < BLOCK_NOISE_BINS; i++)
		count += no->step[i];
	count = count > own ? count - own : 0;
	return (double)(count + 1) / (double)(no->steps + 1);
}
