/* SPDX-License-Identifier: Apache-2.0
 * kinds.h - recognise kinds of steps that a job runs on purpose now and then: a checkpoint every 50
 * steps, evaluation, garbage collection. From its second occurrence on, each kind has its own
 * reference.
 *
 * A kind by work has a model key of its own (another mix of kernels, another graph). A kind by
 * place has the usual work, but takes longer, each time in the same account. It recurs at equal
 * distances, in steps or in time, without a gap since the first judged step, and more regularly
 * than chance explains. A fault in every tenth step also recurs at equal distances, but steps
 * without it come before.
 *
 * Pure: no I/O, clock, threads or globals; memory is the caller's. Threads: one caller. */
#pragma once

#include "analysis/steps/steps.h"

#define KINDS_PLACES 16u /* kinds by place */
#define KINDS_WORKS  16u /* kinds by work: one per model */
/* remembered slow stretches; when full, those of confirmed kinds go first, then the shortest */
#define KINDS_EVENTS  256u
#define KINDS_UNSEEN  64u  /* remembered stretches of steps that were not judged */
#define KINDS_LEARNED 128u /* remembered latest steps from which a model learned */
#define KINDS_EXTRAS  16u  /* latest occurrences in a reference */
#define KINDS_NEAR    16u  /* latest usual steps, to find a slow step's account */

struct kinds_config {
	/* An occurrence is like the others of its kind if it differs by at most this factor.
	 * Smaller: a checkpoint on busy storage is not a kind. Larger: unrelated slow steps become
	 * one. */
	double alike_ratio;
	/* An occurrence has grown if its extra time is more than the usual one times
	 * max(exp(tail_mads * sigma), 1 + floor_ratio) * (1 + few_ratio / count). sigma: robust
	 * standard deviation of the logarithm; count: occurrences in the reference; below eight,
	 * exp(tail_mads * sigma) counts as at most alike_ratio. Two or three occurrences in a row
	 * have grown together if their mean logarithm exceeds the usual one by tail_mads standard
	 * errors of a mean, sigma / sqrt(2) or sigma / sqrt(3); the latest must exceed the floor
	 * too. This needs eight occurrences before them. Variance of a mean: Feller, An
	 * Introduction to Probability Theory 1, chapter IX. */
	double tail_mads, floor_ratio, few_ratio;
	/* By how many steps an occurrence may miss its place, as a share of the distance, because
	 * the number of steps found in an evaluation varies. Distances below 34 steps must be
	 * exact. A distance in time may vary by four mean steps instead. If the first occurrences
	 * of a kind were exact, the later ones must be too. */
	double jitter_share;
	/* The kind ends after this many consecutive missing occurrences; unconfirmed: after one. */
	uint32_t miss_max;
};
void kinds_config_default(struct kinds_config *c);

/* "host", "compute", "copy", "wait". Static text. */
const char *kinds_part_name(unsigned part);

struct kinds_verdict {
	bool of_kind;
	bool grown;	 /* longer than its kind */
	bool self_grown; /* its self time is longer than its kind's, too */
	/* Begins a stretch of no kind, and adds more than alike_ratio times what any earlier
	 * stretch with the same longest account added. */
	bool first;
	/* of_kind: what an occurrence usually adds to the latency, and to the self time, minus what
	 * its earlier steps have added */
	double usual_ns, usual_self_ns;
	/* kind: the number of its kind, of the rarest one if several are due; period: the distance
	 * at which this kind recurs, in steps (by the clock: about as many). 0: the step is
	 * compared with steps of no kind; so are the additional steps of a stretch that has more
	 * than is usual for its kind. */
	uint32_t kind, period;
};

struct kinds; /* opaque; lives in the caller's memory */
size_t kinds_memory_bytes(void);
struct kinds *kinds_init(void *memory, const struct kinds_config *c);
/* Takes the next step. expected_ns, expected_self_ns: its expected latency and self time, 0: not
 * known. Without an expected latency the step is not judged. slow: it is beyond its model's
 * threshold. */
struct kinds_verdict kinds_push(struct kinds *k, const struct step *s, double expected_ns,
				double expected_self_ns, bool slow);
/* Call if an earlier process judged the steps before. Slow steps that recur may then belong to a
 * fault that began earlier, so no kind by place is learned. */
void kinds_past_unknown(struct kinds *k);

/* Kinds with at least two occurrences by work or three by place, most expensive first; returns
 * their count. Among the kinds by work, the one with most steps is the job's usual steps, and is
 * left out. */
uint32_t kinds_rows(const struct kinds *k, struct kinds_row *out, uint32_t max);
