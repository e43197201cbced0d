/* SPDX-License-Identifier: Apache-2.0
 * crossrank_private.h - what the files of crossrank share. */
#pragma once

#include "analysis/trace/crossrank.h"

struct crossrank {
	const struct crossrank_job *job;
	const struct jobsteps *steps;
	enum peers_mode mode;
	uint32_t ranks, n; /* number of ranks and of steps */
	double typical_ns; /* median self time of a step, over steps and ranks */
	double *scratch;   /* [ranks * n + n] */
	bool *slow;	   /* [ranks][n]: the step is in a slow stretch of the rank; NULL: none */
	uint32_t *list;	   /* [ranks]: indices of a finding's ranks */
	void (*report)(void *to, const struct crossrank_finding *f);
	void *to;
	int rc;
};

/* Median of the known values of v[first..last]. scratch: [last - first + 1]. */
double crossrank_median(const double *v, uint32_t first, uint32_t last, double *scratch);
/* Whether step s of rank r is in a slow stretch of the rank. */
bool crossrank_slow_in(const struct crossrank *c, uint32_t r, uint32_t s);

/* crossrank_cause.c: fills cause, layer, evidence and effect from the traces of ranks[] over the
 * steps [first, last]. 0, -ENOMEM. */
int crossrank_cause(const struct crossrank *c, struct finding *f, const uint32_t *ranks,
		    uint32_t count, uint32_t first, uint32_t last);
/* The same for all steps of rank r, compared with those of rank q of an earlier run. */
int crossrank_cause_between(const struct crossrank_job *job, uint32_t r,
			    const struct crossrank_job *earlier, uint32_t q, struct finding *f);
/* crossrank_hang.c. members: [align->instances] zeros; missing: [ranks]. */
void crossrank_hang(struct crossrank *c, double step_ns, uint32_t *members, uint32_t *missing);
