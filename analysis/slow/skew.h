/* SPDX-License-Identifier: Apache-2.0
 * skew.h - work that differs from step to step and from rank to rank of one role (sequence lengths,
 * experts' load): who is the heaviest changes, so it is a statement about the role and accuses
 * nobody. Replay looks at all steps of a recording, the live job at its latest rows.
 * Pure. Threads: any. */
#ifndef SYSOM_ANALYSIS_SLOW_SKEW_H
#define SYSOM_ANALYSIS_SLOW_SKEW_H

#include "model/finding.h"

struct skew_step {
	/* The member with most work above the median one: by its time, but by no more than its work is.
	 * 0: that one is not slower. */
	double loss;
	uint32_t heaviest; /* index */
	uint32_t members;  /* known; below 2 the step says nothing */
};
/* v: own times of a role's n members; what is not above 0 (NAN too) is not known. work: how much each had
 * to do, in any unit; NULL: the times stand for it. scratch: [n]. */
struct skew_step skew_of_step(const double *v, const double *work, uint32_t n, double *scratch);

struct skew {
	double loss; /* median over the steps */
	double rare; /* the same of one step in a hundred */
	double most; /* share of steps whose heaviest member is the most frequent one */
	double two;  /* ... is one of the two most frequent ones */
	uint32_t members, steps;
};
/* times: [n] of the members, scratch; loss: [count], scratch. */
struct skew skew_of(const struct skew_step *step, uint32_t count, uint32_t *times, uint32_t n,
		    double *loss);
/* The heaviest one changes, and by enough: 10% of the median member (of two: half their
 * difference). Of four and more it is not always one of the same two: they would be slow both. */
bool skew_is_uneven(const struct skew *k);
/* Nobody stands out of it who is heavier by this excess for a while. */
bool skew_covers(const struct skew *k, double excess);
/* ... and it is uneven: the member is a part of it. */
bool skew_explains(const struct skew *k, double excess);
/* What it is, by how much and how sure; ranks and steps are the caller's. folded: stretches of single
 * members that were a part of it. */
void skew_say(struct finding *f, const struct skew *k, double effect_ns, uint32_t folded);

#endif
