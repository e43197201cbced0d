/* SPDX-License-Identifier: Apache-2.0
 * profile.h - CPU (or GPU) time by function: shares, their difference between two profiles, and the
 * waterline of a group.
 *
 * A function's share is of the profile's total: `self` where it is the leaf, `total` wherever it is on
 * the stack (once per stack). A difference is flagged when the share changed by more than delta (0.5% of
 * the whole, SysOM-AI 5.4) and by more than sampling noise explains (binomial on effective samples).
 * Waterline: per function mean and spread of the share over ranks and a sliding window; robust (median,
 * MAD) beside the paper's mean + k sigma (SysOM-AI 5.2).
 * Pure: names are the caller's strings, interned by pointer-free ids. Memory: malloc inside open/close
 * objects, bounded by LIMIT_PROFILE_FUNCTIONS. Threads: one caller each. */
#ifndef SYSOM_ANALYSIS_PROFILE_H
#define SYSOM_ANALYSIS_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PROFILE_DELTA 0.005

struct profile_function {
	const char *name; /* owned by the profile */
	double self, total; /* weight, in the unit of what was added (ns, samples) */
};
struct profile; /* opaque */
/* 0, -ENOMEM. */
int profile_open(struct profile **out);
void profile_close(struct profile *p); /* NULL is a no-op */
/* One stack: names root first, as folded stacks have it. samples: how many it stands for (noise).
 * 0, -ENOMEM, -E2BIG past the bounds (counted in profile_dropped). */
int profile_add(struct profile *p, const char *const *names, uint32_t count, double weight,
		double samples);
double profile_total(const struct profile *p);
double profile_samples(const struct profile *p);
uint64_t profile_dropped(const struct profile *p);
/* Functions by total weight, largest first; returned array owned by the profile until the next add. */
const struct profile_function *profile_functions(struct profile *p, uint32_t *count);

struct profile_delta {
	const char *name; /* of one of the two profiles */
	double base, other;	      /* total share, 0..1 */
	double base_self, other_self; /* self share */
	double delta;		      /* other - base */
	bool flagged;
};
/* Every function of either, |delta| falling. *out is malloc'ed, the caller's. 0, -ENOMEM. */
int profile_compare(struct profile *base, struct profile *other, double delta,
		    struct profile_delta **out, uint32_t *count);

#endif
