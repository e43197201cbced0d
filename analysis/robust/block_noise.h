/* SPDX-License-Identifier: Apache-2.0
 * block_noise.h - how much the mean of a window varies without a fault, at every length.
 *
 * Real step times have heavy tails and are correlated, so dividing by the square root of the
 * window's length is too optimistic. The noise is measured at each dyadic length by the difference
 * of neighbouring blocks (Allan's deviation). Constant differences between ranks cancel. A fault
 * affects only two of many differences. The median of the differences ignores slow ranks and
 * outliers. Allan 1966, Statistics of Atomic Frequency Standards, Proceedings of the IEEE 54 (2).
 * The histograms are integers, so the order of ranks changes nothing.
 *
 * All values have the same unit, which may be any; the histograms cover 2^-21 to 2^4 of it. Memory:
 * the caller's, all zero at first; nothing is allocated. Errors: none; NAN counts as the largest
 * value. Threads: one at a time per struct. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define BLOCK_NOISE_SCALES 10u	/* blocks of 1 to 512 values */
#define BLOCK_NOISE_BINS   200u /* 8 per octave */
/* count at which a scale's counts are halved: about a thousand steps of a large group */
#define BLOCK_NOISE_FORGET (1u << 20)
/* blocks that the prediction of the next shorter scale is worth */
#define BLOCK_NOISE_PRIOR 60.0

struct block_noise {
	uint32_t bin[BLOCK_NOISE_SCALES]
		    [BLOCK_NOISE_BINS]; /* |difference of neighbouring blocks| */
	uint64_t count[BLOCK_NOISE_SCALES];
	/* standard deviation of a block mean; 0: too few blocks */
	double scale[BLOCK_NOISE_SCALES];
	/* how much heavier the tail of the block means is than Gaussian; at least 1 */
	double tail[BLOCK_NOISE_SCALES];
};

/* The bin that a magnitude belongs to. */
uint32_t block_noise_bin(float v);
/* difference: of the means of two neighbouring blocks of 2^scale values. */
void block_noise_add(struct block_noise *no, uint32_t scale, double difference);
/* Computes scale and tail. blocks: [BLOCK_NOISE_SCALES], how many independent differences each
 * count is worth. known: the added values are the ones that will be judged, so a lighter tail is
 * assumed while blocks are few. */
void block_noise_renew(struct block_noise *no, const double *blocks, bool known);
/* Standard deviation of the mean of this many values; with heavy tails, that of the Gaussian with the
 * same reach. *from: the scale that it was derived from. 0: not known yet. */
double block_noise_of(const struct block_noise *no, uint32_t length, uint32_t *from);
