/* SPDX-License-Identifier: Apache-2.0
 * profile.h - CPU (or GPU) time by function: shares, and their difference between two profiles.
 *
 * Shares are of the profile's total: `self` counts stacks in which the function is the leaf,
 * `total` all stacks that contain it. A difference is flagged if all of these hold:
 * - The total share changed by more than delta (0.5% of the whole, SysOM-AI 5.4).
 * - The part of the change that dilution does not explain also exceeds delta, in the same
 *   direction. New functions reduce the shares of all others in proportion, which is not a change
 *   of those. The factor is the median of other/base over the functions of both, weighted by self
 *   share; it is 1 if more than half of the profile are other functions.
 * - Sampling noise does not explain it, with and without dilution: a binomial test on the effective
 *   samples of both (Kish: weight^2 / sum of squared weights) over all functions with at least
 *   delta in either profile, with a false discovery rate of sure.false_share (thresholds.def;
 *   Benjamini and Hochberg 1995).
 *
 * A profile of fewer than PROFILE_SAMPLES_MIN effective samples shows no difference. Pure. Names
 * are copied, and compared by their text. Memory: malloc inside open/close objects, bounded by
 * LIMIT_PROFILE_FUNCTIONS and LIMIT_PROFILE_NAME_BYTES. Threads: one caller each. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/keyed.h"
#include "model/thresholds.h"

#define PROFILE_DELTA	    0.005 /* default of `--delta` */
#define PROFILE_SAMPLES_MIN thresholds.count.many

struct profile_function {
	const char *name;   /* owned by the profile */
	double self, total; /* weight, in the unit of what was added (ns, samples) */
};
struct profile; /* opaque */
/* key: for the hash table of names, since peers choose names. 0, -ENOMEM. */
int profile_open(struct profile **out, const struct keyed *key);
void profile_close(struct profile *p); /* NULL is a no-op */
/* Adds a stack: count >= 1 names, root first. weight: at least 0 and finite. samples: how many
 * samples it stands for; 0: it was measured, not sampled, and has no noise. 0, -ENOMEM, -EINVAL, or
 * -E2BIG beyond the bounds: then the stack is left out and counted in profile_dropped. */
int profile_add(struct profile *p, const char *const *names, uint32_t count, double weight,
		double samples);
/* Adds to a function's sums without a stack, as shares of profile_set_total. Errors as profile_add. */
int profile_put(struct profile *p, const char *name, double self, double total);
/* Replaces the total weight and the number of samples of what was added; both above 0. */
void profile_set_total(struct profile *p, double weight, double samples);
double profile_total(const struct profile *p);
/* Effective samples; INFINITY if nothing was sampled. */
double profile_samples(const struct profile *p);
uint64_t profile_dropped(const struct profile *p);
/* Functions by total weight, largest first; returned array owned by the profile until the next add.
 * NULL: out of memory. */
const struct profile_function *profile_functions(struct profile *p, uint32_t *count);

struct profile_delta {
	const char *name;	      /* owned by one of the two profiles */
	double base, other;	      /* total share, 0..1 */
	double base_self, other_self; /* self share */
	double delta;		      /* other - base */
	double beyond;		      /* the part of delta that dilution does not explain */
	double chance;		      /* chance of such a difference by sampling alone; 0..1 */
	bool flagged;
};
/* Every function of either, largest |delta| first, then by name. *out is malloc'ed, the caller's.
 * 0, -ENOMEM, -EINVAL (a profile without weight). */
int profile_compare(struct profile *base, struct profile *other, double delta,
		    struct profile_delta **out, uint32_t *count);
