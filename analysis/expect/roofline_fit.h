/* SPDX-License-Identifier: Apache-2.0
 * roofline_fit.h - the robust curve behind a roofline: latency from a small work vector.
 *
 * Layers, each the median correction of the ones before, all in relative terms:
 *   line   a + sum b_i x_i (+ second-order terms if they improve it), non-negative least absolute
 *          deviations by iterated reweighting, so that collinear and constant features do no harm;
 *   curve  piecewise linear in log(line), then in the log of each feature, one knot per group of
 *          learning steps, where a group must be spread over time: floors, staircases, bends;
 *   cell   one correction per discrete work level (or box of work), shrunk by its uncertainty.
 * A group's centre is the median inside its densest window: slow learning steps scatter, healthy
 * ones cluster. The noise is a MAD along log(line), shrunk towards the pooled one. The tail beyond
 * seven MADs is measured too, as far as slow learning steps do not hide it. Both come from held-out
 * steps: fits on a part of the steps predict the others, so what the fit cannot follow counts as
 * noise.
 *
 * Pure: no I/O, clock, threads, globals or allocation. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/expect/roofline_config.h"

#define ROOFLINE_FIT_TERMS	 15 /* 1, 4 linear, 10 second-order */
#define ROOFLINE_FIT_KNOTS	 96
#define ROOFLINE_FIT_NOISE_KNOTS 16
/* largest number of discrete work levels; with more, work is continuous */
#define ROOFLINE_FIT_CELLS 512
#define ROOFLINE_FIT_SLOTS 1024 /* hash slots for the cells */

struct roofline_fit_sample {
	float work[ROOFLINE_WORK_MAX];
	float latency_ns;
	uint32_t suspect; /* set by the caller */
};

struct roofline_fit_curve {
	uint32_t n;
	float t[ROOFLINE_FIT_KNOTS], c[ROOFLINE_FIT_KNOTS];
	/* range of the knot's group, in t */
	float first[ROOFLINE_FIT_KNOTS], last[ROOFLINE_FIT_KNOTS];
	uint32_t steps[ROOFLINE_FIT_KNOTS]; /* of that group */
	bool jump[ROOFLINE_FIT_KNOTS];	    /* between this knot's group and the next */
};

struct roofline_fit_cell {
	uint64_t hash; /* 0: free */
	float log_ratio;
	float second; /* log excess of a second cluster of this level's steps; 0: none */
	/* log excess of a single step that no other step confirms; 0: none */
	float once;
	uint32_t count, agree; /* steps; steps near the centre */
};

struct roofline_fit {
	bool ready;
	bool curved;			    /* the line has second-order terms */
	uint32_t features, active, samples; /* active: one bit per feature of the line */
	double coef[ROOFLINE_FIT_TERMS];
	double line_min_ns; /* the line never predicts less */
	struct roofline_fit_curve curve, feature[ROOFLINE_WORK_MAX];
	uint32_t noise_n;
	float noise_t[ROOFLINE_FIT_NOISE_KNOTS], noise_mad[ROOFLINE_FIT_NOISE_KNOTS];
	float lo[ROOFLINE_WORK_MAX], hi[ROOFLINE_WORK_MAX]; /* range of the learning steps */
	bool discrete; /* work has few values: a cell is an exact vector, else a log box */
	/* like mad, but of sparse steps (roofline_fit_guess.sparse) */
	double level_mad;
	double mad; /* pooled, of relative residuals, without slow learning steps */
	/* beyond max(floor, tail MADs): share of steps, and their mean excess */
	double tail_share, tail_mean;
	double out_share, fast_share; /* learning steps far above and far below the fit */
	double r2, explained, work_spread, rho;
	/* the line without second-order terms, to print */
	double intercept_ns, slope_ns[ROOFLINE_WORK_MAX];
	struct roofline_fit_cell cell[ROOFLINE_FIT_SLOTS];
};

struct roofline_fit_guess {
	double expected_ns;
	double second; /* excess that some healthy steps of this level have */
	double once;   /* excess that this level has shown once, for whatever reason; 0: none */
	double mad;    /* relative, of one step about expected_ns */
	double reach;  /* how many times expected_ns the step may take because its work was never
			* seen; 1 inside the learned work */
	bool sparse;   /* a level seen once at most, or few learning steps nearby */
};

size_t roofline_fit_scratch_bytes(uint32_t samples_max);
/* scratch: 16-byte aligned, roofline_fit_scratch_bytes(n) long, free again on return. n >= 4. */
void roofline_fit_run(struct roofline_fit *f, const struct roofline_fit_sample *s, uint32_t n,
		      uint32_t features, const struct roofline_config *c, void *scratch);
struct roofline_fit_guess roofline_fit_predict(const struct roofline_fit *f, const float *work);
