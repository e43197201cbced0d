/* SPDX-License-Identifier: Apache-2.0
 * crossrank_private.h - what the parts of crossrank share: stretches in which a rank is slow. */
#ifndef SYSOM_ANALYSIS_CROSSRANK_PRIVATE_H
#define SYSOM_ANALYSIS_CROSSRANK_PRIVATE_H

#include "analysis/crossrank.h"
#include "analysis/levels.h"

/* Stretches kept per job: a rank that is slow now and then, on every rank of a large job. */
#define CROSSRANK_STRETCHES_MAX 4096u

enum crossrank_what {
	CROSSRANK_OWN = 0,  /* own time of the step */
	CROSSRANK_PACE = 1, /* of its kernels */
	CROSSRANK_LEAD =
	    2, /* of one kernel name against the pace of all; filled for one name after another */
	CROSSRANK_WHATS
};

struct crossrank_stretch {
	uint32_t rank; /* index */
	enum crossrank_what what;
	uint32_t first, last, sure;
	double excess;	/* of the typical step's own time; of the usual pace */
	double score;	/* over the threshold */
	uint32_t lead;	/* LEAD: which name */
	uint32_t leads; /* names joined into it */
	enum finding_layer layer;
	bool taken;
};

struct crossrank {
	const struct crossrank_job *job;
	const struct jobsteps *steps;
	const struct crossrank_config *config;
	uint32_t ranks, n;	      /* of ranks and of steps */
	double typical_ns;	      /* own time of a step, over steps and ranks */
	double *own[CROSSRANK_WHATS]; /* [rank * n + step]: against its own usual value, less 1 */
	double *against[CROSSRANK_WHATS]; /* the same less its peers' median */
	double *scratch;		  /* 8 * ranks * n + 64 */
	struct crossrank_stretch *stretch;
	uint32_t stretches;
	uint32_t lead; /* whose series own[LEAD] and against[LEAD] are */
	void (*take)(void *to, const struct crossrank_finding *f);
	void *to;
};

/* Median of what is known of v[first..last]. scratch: last - first + 1. */
double crossrank_median(const double *v, uint32_t first, uint32_t last, double *scratch);
/* Whether step s of rank r belongs to a stretch in which the rank is slow. */
bool crossrank_slow_in(const struct crossrank *c, uint32_t r, uint32_t s);
/* By how much rank r itself rose in [first, last] above its other steps; NAN: it has none. */
double crossrank_rise(const struct crossrank *c, enum crossrank_what what, uint32_t r,
		      uint32_t first, uint32_t last);

/* crossrank_cause.c: fills cause, layer, evidence and effect from the traces of ranks[] over the
 * stretch. -ENOMEM. */
int crossrank_cause(const struct crossrank *c, struct finding *f, const uint32_t *ranks,
		    uint32_t count, uint32_t first, uint32_t last);
/* The same of all steps of rank r, against those of rank q of an earlier run. */
int crossrank_cause_between(const struct crossrank_job *job, uint32_t r,
			    const struct crossrank_job *earlier, uint32_t q, struct finding *f);
/* crossrank_sysom.c: slow ranks by the paper's rule. -ENOMEM. */
int crossrank_sysom(struct crossrank *c);
/* crossrank_hang.c. members: [align->instances] zeros; missing: [ranks]. */
void crossrank_hang(struct crossrank *c, double step_ns, uint32_t *members, uint32_t *missing);

#endif
