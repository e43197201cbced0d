/* SPDX-License-Identifier: Apache-2.0
 * skew.h - uneven work: it differs from step to step and from rank to rank of one role (sequence
 * lengths, load of experts). The heaviest rank changes from step to step, so this is a finding
 * about the role and blames nobody. Replay takes all steps of a recording, the aggregator takes the
 * latest rows. Pure. Threads: any. */
#pragma once

#include "model/finding.h"

struct skew_step {
	/* Extra time of the rank with most work, relative to the median rank, but no more than
	 * its extra work. 0: that rank is not slower. */
	double loss;
	uint32_t heaviest; /* index */
	uint32_t members;  /* with a known time; a step with fewer than 2 is left out */
};
/* v: self times of a role's n ranks; NAN, 0 and below: not known. work: the work of each, in any
 * unit; NULL: use the times instead. scratch: [n]. */
struct skew_step skew_of_step(const double *v, const double *work, uint32_t n, double *scratch);

struct skew {
	double loss; /* median over the steps */
	double rare; /* its 99th percentile */
	double most; /* share of steps in which the most frequent heaviest rank is the heaviest */
	double two;  /* the same for the two most frequent ones together */
	uint32_t members, steps;
};
/* times: [n], scratch; loss: [count], scratch. */
struct skew skew_of(const struct skew_step *step, uint32_t count, uint32_t *times, uint32_t n,
		    double *loss);
/* Whether the heaviest rank changes and costs enough: 10% of the median rank's time (with two
 * ranks: half their difference). With four or more ranks, the heaviest must not always be one of
 * the same two, because those two could both be slow. */
bool skew_is_uneven(const struct skew *k);
/* Whether the skew is large enough to hide this excess of a rank. */
bool skew_covers(const struct skew *k, double excess);
/* Whether the work is uneven and the skew covers the excess, so that nobody is slow. */
bool skew_explains(const struct skew *k, double excess);
/* Fills a finding's kind, effect and confidence; the caller fills ranks and steps. folded: number
 * of stretches of single ranks that the skew explains. */
void skew_say(struct finding *f, const struct skew *k, double effect_ns, uint32_t folded);
