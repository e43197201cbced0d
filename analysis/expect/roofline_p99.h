/* SPDX-License-Identifier: Apache-2.0
 * roofline_p99.h - StriaTrace's roofline: the 99th percentile of latency per work bin, a RANSAC
 * line through the bins, retrained from all recent steps. Kept for comparison: two bad learning
 * steps in a hundred lift the line over everything, and retraining absorbs a sustained slowdown.
 *
 * Pure: no I/O, clock, threads, globals or allocation. */
#pragma once

#include "analysis/expect/roofline_fit.h"

struct roofline_p99 {
	bool ready;
	double intercept_ns, slope_ns; /* the line over the first work value */
	double r2;		       /* how well it fits the bins' percentiles */
};

/* scratch: as for roofline_fit_run. */
void roofline_p99_run(struct roofline_p99 *p, const struct roofline_fit_sample *s, uint32_t n,
		      uint64_t *random, void *scratch);
