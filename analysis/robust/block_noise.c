/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/robust/block_noise.h"

#include <math.h>
#include <string.h>

/* Quantiles of |z|: the median, then others in units of the median. */
#define GAUSS_MEDIAN  0.67448975
#define GAUSS_99      3.819
#define GAUSS_999     4.879
#define ENOUGH	      12u /* blocks that a scale needs */
#define ENOUGH_SINGLE 6u

uint32_t block_noise_bin(float v)
{
	uint32_t bits;
	int bin;

	v = v < 0x1p-21f ? 0x1p-21f : v > 15.9f ? 15.9f : v;
	memcpy(&bits, &v, sizeof(bits));
	bin = (int)(bits >> 20) - (int)((127u - 21u) << 3);
	return bin < 0 ? 0 : bin >= (int)BLOCK_NOISE_BINS ? BLOCK_NOISE_BINS - 1 : (uint32_t)bin;
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

	for (uint32_t i = 0; i < BLOCK_NOISE_BINS; i++) {
		if (seen + bin[i] >= want && bin[i])
			return bin_value(i + (want - seen) / bin[i]);
		seen += bin[i];
	}
	return bin_value(BLOCK_NOISE_BINS - 1);
}

void block_noise_add(struct block_noise *no, uint32_t scale, double difference)
{
	no->bin[scale][block_noise_bin((float)fabs(difference))]++;
	if (++no->count[scale] < BLOCK_NOISE_FORGET)
		return;
	no->count[scale] = 0;
	for (uint32_t i = 0; i < BLOCK_NOISE_BINS; i++)
		no->count[scale] += no->bin[scale][i] /= 2;
}

/* The exponent by which the noise of a mean falls with its length: 0.5 if the values are
 * independent. */
static double slope_of(const struct block_noise *no, uint32_t j)
{
	double slope = j ? log2(no->scale[j - 1] / no->scale[j]) : 0.5;

	return slope < 0.2 ? 0.2 : slope > 0.5 ? 0.5 : slope;
}

/* Few blocks say little. The noise that the next shorter scale predicts counts as BLOCK_NOISE_PRIOR
 * more blocks. */
static double shrink(const struct block_noise *no, uint32_t j, double seen, double n)
{
	double promised;

	if (!j || seen <= 0)
		return seen;
	promised = no->scale[j - 1] * exp2(-slope_of(no, j - 1));
	return exp((n * log(seen) + BLOCK_NOISE_PRIOR * log(promised)) / (n + BLOCK_NOISE_PRIOR));
}

void block_noise_renew(struct block_noise *no, const double *blocks, bool known)
{
	for (uint32_t j = 0; j < BLOCK_NOISE_SCALES; j++) {
		double n = blocks[j], median, tail;

		no->scale[j] = 0;
		if (n < (j ? ENOUGH : ENOUGH_SINGLE))
			break;
		median = bin_quantile(no->bin[j], no->count[j], 0.5);
		no->scale[j] = shrink(no, j, median / GAUSS_MEDIAN / sqrt(2), n);
		/* A tail that cannot be measured yet is assumed heavier than Gaussian. A quantile
		 * is used only if a fault or two, with a start and an end each, cannot decide
		 * it. */
		tail = n < 500 && !known ? 1.2 : n < 5000 ? 1.1 : 1;
		if (n >= 500)
			tail = fmax(tail, bin_quantile(no->bin[j], no->count[j], 0.99) / median /
					      GAUSS_99);
		if (n >= 5000)
			tail = fmax(tail, bin_quantile(no->bin[j], no->count[j], 0.999) / median /
					      GAUSS_999);
		no->tail[j] = tail;
	}
}

double block_noise_of(const struct block_noise *no, uint32_t length, uint32_t *from)
{
	uint32_t j = 0;
	double scale, ratio, white;

	*from = 0;
	if (no->scale[0] <= 0)
		return 0;
	while (j + 1 < BLOCK_NOISE_SCALES && (2u << j) <= length && no->scale[j + 1] > 0)
		j++;
	*from = j;
	ratio = (double)length / (double)(1u << j);
	scale = no->scale[j] * pow(ratio, -slope_of(no, j));
	/* Limits how much lower than independent noise the result may be. */
	white = 0.7 * no->scale[0] / sqrt(length);
	scale = scale > white ? scale : white;
	return scale * (1 + (no->tail[j] - 1) / sqrt(ratio));
}
