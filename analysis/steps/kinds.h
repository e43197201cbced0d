/* SPDX-License-Identifier: Apache-2.0
 * kinds.h - steps that a job has on purpose now and then: a checkpoint every 50 steps, evaluation, a
 * collection of garbage. Each kind has its own reference, from its second occurrence on.
 *
 * By work: steps with a model key of their own (steps.h: another mix of kernels, another graph).
 * By place: steps of the usual work that take longer, at equal distances in the job's own count of steps,
 * in the same account, and all along: from the first step that was judged on, no place is without one. A
 * fault that comes every tenth step also keeps its distance; but it begins after a stretch without it, and
 * so it is never a kind. Distances in seconds make no kind: the job counts steps, its neighbours do not.
 *
 * Pure: no I/O, clock, threads or globals; memory is the caller's. Threads: one caller. */
#ifndef SYSOM_ANALYSIS_STEPS_KINDS_H
#define SYSOM_ANALYSIS_STEPS_KINDS_H

#include "analysis/steps/steps.h"

#define KINDS_PLACES 8u	 /* kinds by place; the one that cost least makes room */
#define KINDS_WORKS  16u /* kinds by work: as many as there are models */
#define KINDS_EVENTS 64u /* slow stretches of no kind that are remembered */
#define KINDS_EXTRAS 16u /* latest occurrences that a reference is made of */
#define KINDS_NEAR   16u /* latest usual steps that a slow one's account is found by */

struct kinds_config {
	/* Of time that two occurrences of one kind may differ by before they are known better. Smaller: a
	 * checkpoint on busy storage is no kind. Larger: slow steps that are not related become one. */
	double alike_ratio;
	/* An occurrence has grown when it takes more than exp(tail_mads * sigma) times the usual extra
	 * time (sigma: robust, of the logarithm), */
	double tail_mads;
	double floor_ratio; /* and at least 1 + this times as much, */
	double few_ratio;   /* and by this share more for each occurrence that 1 / count stands for */
	/* How far from its place an occurrence may be, as a share of the distance: the number of steps
	 * that are found in an evaluation varies. Distances of less than 32 have to be exact. */
	double jitter_share;
	uint32_t miss_max; /* places in a row without one after which the kind is over */
};
void kinds_config_default(struct kinds_config *c);

/* "host", "compute", "copy", "wait". Static text. */
const char *kinds_part_name(unsigned part);

struct kinds_verdict {
	bool of_kind;
	bool grown;	 /* and it takes longer than its kind does */
	bool first;	 /* of no kind, and nothing like it was seen before */
	uint32_t part;	 /* enum kinds_part */
	double usual_ns; /* of_kind: what an occurrence adds as a rule, less what its steps before did */
};

struct kinds; /* opaque; lives in the caller's memory */
size_t kinds_memory_bytes(void);
struct kinds *kinds_init(void *memory, const struct kinds_config *c);
/* The next judged step. expected_ns, expected_self_ns: of its latency and self time, 0: not known yet;
 * slow: it is beyond what its model calls usual. */
struct kinds_verdict kinds_push(struct kinds *k, const struct step *s, double expected_ns,
				double expected_self_ns, bool slow);
/* The steps before were judged by somebody else: what comes all along from now on may be a fault that was
 * there already. No kind by place is learned. */
void kinds_past_unknown(struct kinds *k);

/* Kinds with two occurrences or more by work, three by place, dearest first. By work the steps of which
 * there are most are the job's usual ones, and no kind. Their count. */
uint32_t kinds_rows(const struct kinds *k, struct kinds_row *out, uint32_t max);

#endif
