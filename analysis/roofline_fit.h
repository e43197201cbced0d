/* SPDX-License-Identifier: Apache-2.0
 * roofline_fit.h - the robust curve behind a roofline: latency from a small work vector.
 *
 * Three layers, each the median correction of the one before, all in relative terms:
 *   line   a + sum b_i x_i (+ second-order terms where they pay), non-negative least absolute
 *          deviations by iterated reweighting, so that collinear and constant features do no harm;
 *   curve  piecewise linear in log(line), a knot per group of learning steps: staircases, floors;
 *   cell   one correction per discrete work level, shrunk by its uncertainty.
 * A group's centre is the median inside its densest window: slow learning steps scatter, healthy
 * ones gather. The noise is the MAD per knot, pulled towards the pooled one.
 *
 * Pure: no I/O, clock, threads, globals or allocation. */
#ifndef SYSOM_ANALYSIS_ROOFLINE_FIT_H
#define SYSOM_ANALYSIS_ROOFLINE_FIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/roofline.h"

#define ROOFLINE_FIT_TERMS 15 /* 1, 4 linear, 10 second-order */
#define ROOFLINE_FIT_KNOTS 48
#define ROOFLINE_FIT_CELLS 256 /* discrete work levels told apart; more are treated as continuous */
#define ROOFLINE_FIT_SLOTS 512 /* hash slots for the cells */

struct roofline_fit_sample {
	float work[ROOFLINE_WORK_MAX];
	float latency_ns;
};

struct roofline_fit_cell {
	uint64_t hash; /* 0 free */
	float log_ratio;
	float error; /* standard error of log_ratio */
	uint32_t count;
};

struct roofline_fit {
	bool ready;
	uint32_t features, terms, knots, samples;
	double coef[ROOFLINE_FIT_TERMS];
	double line_min_ns; /* the line never predicts less */
	double knot_t[ROOFLINE_FIT_KNOTS], knot_c[ROOFLINE_FIT_KNOTS], knot_mad[ROOFLINE_FIT_KNOTS];
	float lo[ROOFLINE_WORK_MAX], hi[ROOFLINE_WORK_MAX]; /* support of the learning steps */
	bool discrete;	   /* work takes few values: cells are exact vectors, else log boxes */
	double level_mad;  /* scatter of the levels about the curve; for levels not seen yet */
	double mad;	   /* pooled, of relative residuals, slow learning steps put aside */
	double tail_low;   /* lower 1 % quantile in MADs (the upper one is contaminated); 0 unknown */
	double tail_up;
	double out_share;  /* learning steps far above the fit */
	double r2, explained, latency_mad, work_spread, rho;
	double intercept_ns, slope_ns[ROOFLINE_WORK_MAX]; /* the plain line, for people */
	struct roofline_fit_cell cell[ROOFLINE_FIT_SLOTS];
};

struct roofline_fit_guess {
	double expected_ns;
	double mad;  /* of one step about expected_ns, relative */
	bool novel;  /* outside the support */
	bool sparse; /* a discrete level seen fewer than three times */
};

size_t roofline_fit_scratch_bytes(uint32_t samples_max);
/* scratch: 16-byte aligned, roofline_fit_scratch_bytes(n) long, free again on return. n >= 4. */
void roofline_fit_run(struct roofline_fit *f, const struct roofline_fit_sample *s, uint32_t n,
		      uint32_t features, void *scratch);
struct roofline_fit_guess roofline_fit_predict(const struct roofline_fit *f, const float *work);
/* In place, ascending; neither allocates nor recurses. */
void roofline_fit_sort(double *v, uint32_t n);

#endif
