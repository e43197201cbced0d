/* SPDX-License-Identifier: Apache-2.0
 * levels.h - the stretches of a noisy series that lie at different levels: where a change begins,
 * where it ends, and by how much.
 *
 * Circular binary segmentation (Olshen and others 2004): of all stretches the one whose mean
 * differs most from the rest's, in standard errors; where that exceeds the threshold the series is
 * split there and each part is looked at again. Values are clipped, so that single wild ones make
 * no level. The noise of a mean of L values is measured at several L: a series that wanders is
 * noisier than white noise would be.
 *
 * Pure: no I/O, clock, threads or globals. Memory: the caller's. Threads: any. */
#ifndef SYSOM_ANALYSIS_LEVELS_H
#define SYSOM_ANALYSIS_LEVELS_H

#include <stdbool.h>
#include <stdint.h>

#define LEVELS_SCALES 16u /* means of 2^0 ... 2^15 values */
#define LEVELS_MAX    64u

struct levels_noise {
	double scale[LEVELS_SCALES]; /* standard error of a mean of 2^k values */
	uint32_t scales;      /* measured; beyond: as the last one, by the root of the length */
	uint32_t differences; /* that scale[0] stands on */
};

struct levels_config {
	double threshold;  /* standard errors */
	uint32_t least;	   /* steps of a level */
	double change_min; /* levels nearer than this are one */
};

struct level {
	uint32_t first, last; /* inclusive */
	double value;	      /* median */
	double score;	      /* of the split that made it, over the threshold; 0: none */
};

/* The noise of `count` series of n values each (row after row), pooled; changes of level in them
 * leave it as it is as long as they are few. NANs are left out. floor: the noise is at least this.
 * scratch: n * count doubles. */
void levels_noise(const double *series, uint32_t count, uint32_t n, double floor_value,
		  double *scratch, struct levels_noise *out);
/* The standard error of a mean of `length` values. */
double levels_error(const struct levels_noise *noise, uint32_t length);
/* The threshold at which one of `looks` series of n values of mere noise shows a level with
 * probability `wrong`. */
double levels_threshold(const struct levels_noise *noise, uint32_t looks, uint32_t n, double wrong);
/* Levels that tile v (n values, no NANs), at least one where n > 0; their number. scratch: 3 n + 2.
 */
uint32_t levels_find(const double *v, uint32_t n, const struct levels_noise *noise,
		     const struct levels_config *config, struct level *out, double *scratch);

#endif
