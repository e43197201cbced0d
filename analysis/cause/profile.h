/* SPDX-License-Identifier: Apache-2.0
 * profile.h - CPU (or GPU) time by function: shares, and their difference between two profiles.
 *
 * A function's share is of the profile's total: `self` where it is the leaf, `total` wherever it is on
 * the stack (once per stack). A difference is flagged when
 *   - the total share changed by more than delta (0.5% of the whole, SysOM-AI 5.4), and
 *   - so it did beyond dilution: what is new takes its share from everything else in proportion, which
 *     is no change of those; the factor is the median, weighted by self share, of other/base over the
 *     functions of both (where more than half of the profile is other functions, 1), and
 *   - sampling noise does not explain it, with and without dilution: a binomial test on the effective
 *     samples of both (Kish: weight^2 / sum of squared weights), over all functions that have delta of
 *     either profile, with a false discovery rate of sure.false_share (thresholds.def;
 *     Benjamini and Hochberg 1995).
 *     A profile of fewer than PROFILE_SAMPLES_MIN effective samples shows no difference.
 * Pure. Names are copied, told apart by their text. Memory: malloc inside open/close objects, bounded by
 * LIMIT_PROFILE_FUNCTIONS and LIMIT_PROFILE_NAME_BYTES. Threads: one caller each. */
#ifndef SYSOM_ANALYSIS_CAUSE_PROFILE_H
#define SYSOM_ANALYSIS_CAUSE_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/keyed.h"
#include "model/thresholds.h"

#define PROFILE_DELTA	    0.005 /* `--delta` says otherwise */
#define PROFILE_SAMPLES_MIN thresholds.count.many

struct profile_function {
	const char *name;   /* owned by the profile */
	double self, total; /* weight, in the unit of what was added (ns, samples) */
};
struct profile; /* opaque */
/* key: of the table of names, which a peer chooses. 0, -ENOMEM. */
int profile_open(struct profile **out, const struct keyed *key);
void profile_close(struct profile *p); /* NULL is a no-op */
/* One stack: names root first, as folded stacks have it; count >= 1. weight: at least 0 and finite.
 * samples: how many it stands for; 0: it was measured, not sampled, and has no noise.
 * 0, -ENOMEM, -EINVAL, or -E2BIG past the bounds: then the stack is left out (counted in
 * profile_dropped). */
int profile_add(struct profile *p, const char *const *names, uint32_t count, double weight,
		double samples);
/* A function of stacks that are not there: what is told of it already, in parts of profile_set_total. Added
 * to what the name has. As profile_add. */
int profile_put(struct profile *p, const char *name, double self, double total);
/* In place of the sums of what was added. weight above 0; samples: above 0, that it stands for. */
void profile_set_total(struct profile *p, double weight, double samples);
double profile_total(const struct profile *p);
/* Effective samples; INFINITY where nothing was sampled. */
double profile_samples(const struct profile *p);
uint64_t profile_dropped(const struct profile *p);
/* Functions by total weight, largest first; returned array owned by the profile until the next add.
 * NULL: out of memory. */
const struct profile_function *profile_functions(struct profile *p, uint32_t *count);

struct profile_delta {
	const char *name; /* of one of the two profiles */
	double base, other;	      /* total share, 0..1 */
	double base_self, other_self; /* self share */
	double delta;		      /* other - base */
	double beyond;		      /* other - base as dilution alone would leave it */
	double chance;		      /* of such a difference by sampling, were there none; 0..1 */
	bool flagged;
};
/* Every function of either, |delta| falling, then by name. *out is malloc'ed, the caller's.
 * 0, -ENOMEM, -EINVAL (a profile without weight). */
int profile_compare(struct profile *base, struct profile *other, double delta,
		    struct profile_delta **out, uint32_t *count);

#endif
