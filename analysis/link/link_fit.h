/* SPDX-License-Identifier: Apache-2.0
 * link_fit.h - the time of a transfer from its size: latency + bytes / rate.
 *
 * Hockney 1994, The Communication Challenge for MPP, Parallel Computing 20. A collective library
 * changes its algorithm with the size, so a function has several such lines, each for a regime of
 * sizes. The regimes come from the data. Their ends are the ones that give the least sum of
 * relative deviations (Bellman and Roth 1969, Curve Fitting by Segmented Straight Lines, JASA 64).
 * Schwarz's criterion decides how many there are (Yao 1988, Estimating the Number of Change-points
 * via Schwarz' Criterion, Statistics and Probability Letters 6). Neither latency nor the time per
 * byte is ever negative. A single slow size does not move a line (regress_line_relative).
 *
 * Times: ns. Sizes: bytes. Rates: the inverse of ns_per_byte, in GB/s. Shares: 0 to 1. Memory: the
 * caller's, nothing is allocated. Errors: none; without samples there are 0 regimes. Threads: any.
 * The same samples give the same fit, in whatever order they were added or merged. */
#pragma once

#include "analysis/link/link_samples.h"

#define LINK_REGIMES_MAX 8u

struct link_config {
	enum link_centre centre;
	uint32_t regimes_max; /* 1: one line, for a link's transfers; at most LINK_REGIMES_MAX */
	/* Least number of sizes in a regime. It must exceed 2, because a line fits any 2 points.
	 * Too large: a narrow regime merges into its neighbour. */
	uint32_t regime_sizes;
	/* Relative deviation that counts as noise: no regime is added to explain less. Too large:
	 * regimes merge. Too small: noise is split. */
	double noise;
	/* What a regime costs: its number of unknowns (latency, rate and end). Larger: fewer
	 * regimes. */
	double unknowns;
};
struct link_regime {
	/* Where the regime ends: the geometric mean of its largest size and the smallest size of
	 * the next regime. The last regime ends at the largest size seen. */
	uint64_t max_bytes;
	/* It was fitted to the size classes in [begin_bytes, end_bytes). */
	double begin_bytes, end_bytes;
	double latency_ns, ns_per_byte;
	/* number of size classes that it was fitted to; with one, latency is 0 by definition */
	uint32_t sizes;
};
struct link_fit {
	uint32_t regimes, sizes;
	struct link_regime regime[LINK_REGIMES_MAX];
	uint64_t samples;
	/* share of the variance of time that the fit explains; below 0: the mean is better; 1: time
	 * does not vary */
	double r2;
	/* mean of |predicted - time| / time over the transfers, with each cell's mean time */
	double mape;
};
/* Scratch: about 260 KB, free again on return. */
struct link_scratch {
	struct link_size size[LINK_SIZES_MAX];
	double x[LINK_SIZES_MAX], y[LINK_SIZES_MAX];
	double cost[LINK_SIZES_MAX][LINK_SIZES_MAX]; /* [first][last] */
	double best[LINK_REGIMES_MAX][LINK_SIZES_MAX];
	uint8_t from[LINK_REGIMES_MAX][LINK_SIZES_MAX];
};

void link_config_default(struct link_config *c);
void link_fit_run(struct link_fit *f, const struct link_samples *s, const struct link_config *c,
		  struct link_scratch *scratch);
/* The expected time in ns; 0: nothing was fitted. Between the largest size of one regime and the
 * smallest size of the next, it is not known which regime applies. There the time follows a
 * straight line from one to the other. Beyond the largest size the last regime continues. */
double link_fit_predict(const struct link_fit *f, double bytes);

/* How times compare with what a fit expects: the median of time / expected, and the ends of its
 * confidence interval, from order statistics alone (David and Nagaraja, Order Statistics, section
 * 7.1). */
struct link_change {
	double ratio, low; /* low: of its interval. 1: as expected; 0 if there are no samples */
	/* Sum of times / sum of expected ones: a few transfers that wait for a lost packet change it,
	 * but not the median. */
	double mean;
	uint64_t samples;
};
/* z: half the interval's width in standard deviations. */
struct link_change link_change_of(const struct link_fit *f, const struct link_samples *s, double z);
