/* SPDX-License-Identifier: Apache-2.0
 * crossrank.h - what the steps of all ranks of a job together say: who is slow, since when, and why
 * as far as device traces tell.
 *
 * Per rank and step the own time, the pace of all its kernels and of the leading ones (jobsteps.h),
 * each against what is usual for the rank, so that neither ranks with other work nor steps with other
 * work are accused: the rows that analysis/slow/peers judges, as it does live (workers.h). Where the
 * heaviest rank changes from step to step (skew.h), the finding is about all ranks, and stretches that
 * it explains accuse nobody. A difference that is there from the first step to the last tells a slow GPU
 * from other work only by its kernels: the same names and counts, each slower by the same ratio.
 * Layers: diagnosis.h decides.
 *
 * Pure: no I/O, clock, threads or globals. Memory: malloc within the call. Threads: one caller. */
#ifndef SYSOM_ANALYSIS_TRACE_CROSSRANK_H
#define SYSOM_ANALYSIS_TRACE_CROSSRANK_H

#include "analysis/slow/peers.h"
#include "analysis/trace/jobsteps.h"
#include "model/finding.h"

struct crossrank_job {
	const struct jobsteps *steps;
	const char *const *name; /* [steps->name_count], of kernels */
};

struct crossrank_finding {
	struct finding finding;
	uint64_t sure_step; /* after which it was sure */
};

/* PEERS_SYSOM: mean + k sigma instead, slow ranks only. 0, -ENOMEM. */
int crossrank_find(const struct crossrank_job *job, enum peers_mode mode,
		   void (*take)(void *to, const struct crossrank_finding *f), void *to);

/* Every rank against the same rank of an earlier run: own times of all its steps. Uniform where all
 * ranks that both have are slower, else those that are. 0, -ENOMEM. */
int crossrank_compare(const struct crossrank_job *job, const struct crossrank_job *earlier,
		      void (*take)(void *to, const struct crossrank_finding *f), void *to);

#endif
