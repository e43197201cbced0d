/* SPDX-License-Identifier: Apache-2.0
 * crossrank.h - what the steps of all ranks of a job together say: who is slow, since when, and why
 * as far as device traces tell.
 *
 * Looks back over whole series (replay; the live job asks analysis/peers at every step). Per rank
 * and step the own time and the pace of its kernels (jobsteps.h), each against the rank's own usual
 * value and then against the median of its peers, so that neither ranks with other work nor steps
 * with other work are accused. Stretches at a higher level (levels.h) are faults if the rank itself
 * became slower there, not its peers faster. A rise that the ranks share is uniform; one that most,
 * but not all, show accuses those. Where the heaviest rank changes from step to step (skew.h), that
 * is told of all, and stretches that it explains accuse nobody. A difference that is there from the
 * first step to the last tells a slow GPU from other work only by its kernels: the same names and
 * counts, each slower by the same ratio. Layers: diagnosis.h decides; kernels that are measurably
 * slower are the GPU's however much the host waits beside them.
 *
 * Pure: no I/O, clock, threads or globals. Memory: malloc within the call. Threads: one caller. */
#ifndef SYSOM_ANALYSIS_CROSSRANK_H
#define SYSOM_ANALYSIS_CROSSRANK_H

#include "analysis/finding.h"
#include "analysis/jobsteps.h"
#include "analysis/peers.h"

struct crossrank_config {
	enum peers_mode mode; /* PEERS_SYSOM: mean + k sigma instead, slow ranks only */
	double wrong;	      /* healthy series in which anything may be said; default 1e-3 */
};
void crossrank_config_default(struct crossrank_config *c);

struct crossrank_job {
	const struct jobsteps *steps;
	const char *const *name; /* [steps->name_count], of kernels */
};

struct crossrank_finding {
	struct finding finding;
	uint64_t sure_step; /* after which it was sure */
};

/* 0, -ENOMEM. */
int crossrank_find(const struct crossrank_job *job, const struct crossrank_config *config,
		   void (*take)(void *to, const struct crossrank_finding *f), void *to);

/* Every rank against the same rank of an earlier run: own times of all its steps. Uniform where all
 * ranks that both have are slower, else those that are. 0, -ENOMEM. */
int crossrank_compare(const struct crossrank_job *job, const struct crossrank_job *earlier,
		      void (*take)(void *to, const struct crossrank_finding *f), void *to);

#endif
