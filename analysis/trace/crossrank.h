/* SPDX-License-Identifier: Apache-2.0
 * crossrank.h - compares all ranks of recorded traces: which rank is slow, since when, and why, as
 * far as device traces show it.
 *
 * For each rank and step it takes the self time, the pace of all kernels, and the pace of the
 * leading kernels (jobsteps.h), each relative to the rank's usual value. So neither ranks nor steps
 * with other work are blamed. analysis/slow/peers judges these rows as it does live (workers.h). If
 * the heaviest rank changes from step to step (skew.h), the finding is about all ranks, and
 * stretches that skew explains blame nobody. If a rank is slower from the first step to the last,
 * it may have other work. Its GPU counts as slow only if most of its leading kernels take longer
 * per launch than on the peers, and the typical ratio is an outlier among the ranks. diagnosis.h
 * decides the layer.
 *
 * Pure: no I/O, clock, threads or globals. Memory: malloc within the call. Threads: one caller. */
#pragma once

#include "analysis/slow/peers.h"
#include "analysis/trace/jobsteps.h"
#include "model/finding.h"

struct crossrank_job {
	const struct jobsteps *steps;
	const char *const *name; /* [steps->name_count], names of kernels */
};

struct crossrank_finding {
	struct finding finding;
	uint64_t sure_step; /* the step at which it became significant */
};

/* mode PEERS_SYSOM: slow ranks only, by mean + k sigma. 0, -ENOMEM. */
int crossrank_find(const struct crossrank_job *job, enum peers_mode mode,
		   void (*report)(void *to, const struct crossrank_finding *f), void *to);

/* Compares every rank with the same rank of an earlier run, by the self times of all steps. If all
 * common ranks are slower, the finding is uniform; otherwise it names the slower ones. 0, -ENOMEM. */
int crossrank_compare(const struct crossrank_job *job, const struct crossrank_job *earlier,
		      void (*report)(void *to, const struct crossrank_finding *f), void *to);
