/* SPDX-License-Identifier: Apache-2.0
 * workers.h - finds slow ranks in a table of a recorded job's step times. peers.h judges as it
 * does live, but in two passes over the table: the first learns the noise, the second judges. This
 * file adds what only a whole recording allows: the usual value of each role or rank, what the
 * ranks of one replica have in common (their input), roles with more work than others, and a job
 * that became slower as a whole. Pure; allocates while it runs. Threads: any, if each has its own
 * table. */
#pragma once

#include "analysis/slow/peers.h"
#include "model/finding.h"

struct workers_table {
	uint32_t workers, steps; /* at least 1 */
	const uint64_t *step;	 /* [steps], ascending: the job's own numbers */
	const int32_t *rank;	 /* [workers] */
	const uint32_t *role;	 /* [workers], 0 to roles - 1: ranks of a role do the same work */
	uint32_t roles;
	/* [workers]: ranks of one replica have the same input; NULL: not known */
	const uint32_t *replica;
	uint32_t replicas;
	const double *self_ns; /* [workers][steps] (workers_cell); NAN: not known */
	const double *late_ns; /* the same shape; NULL: none */
	double step_ns;	       /* typical latency; 0: computed from self_ns */
	struct peers_config config;
	/* Ranks of one role differ permanently. So each is compared with its own usual value, and
	 * a rank that is slow from the first step to the last is not reported. */
	bool uneven;
	/* Used with uneven: further times of the same steps, each [workers][steps]. A stretch is
	 * reported even if it shows in only one of them. */
	const double *const *more;
	uint32_t more_count;
	/* [steps]: whether all ranks have unusual work in this step. NULL: not known; then a job
	 * that becomes slower is reported only if it is 10% slower for at least 20 steps. */
	const bool *other_work;
	/* Stretches of several ranks at the same time are one finding if this function returns
	 * the same number for them. NULL: they always are. series: 0 is self time, k is more[k -
	 * 1]. */
	uint32_t (*kind)(void *context, uint32_t worker, uint32_t series, uint64_t first_step,
			 uint64_t last_step);
	void *context;
	/* out, [workers][steps], initially all false: whether the rank is slow in any series;
	 * NULL: not wanted */
	bool *slow;
};

static inline size_t workers_cell(const struct workers_table *t, uint32_t worker, uint32_t step)
{
	return (size_t)worker * t->steps + step;
}

struct workers_finding {
	struct finding finding;
	uint64_t sure_step;
	uint32_t window;
	enum peers_measure measure;
	/* series: the one with the clearest excess; also: number of others that show the excess */
	uint32_t series, also;
	uint32_t worst; /* the rank with the largest excess */
};
typedef void workers_report(void *context, const struct workers_finding *f);

/* Reports the job as a whole first, then slow ranks by their first step, then roles. 0, -ENOMEM,
 * -E2BIG (a role has more than PEERS_MEMBERS_MAX ranks). */
int workers_find(const struct workers_table *t, workers_report *report, void *context);
/* Finds stretches in which one series of the whole job lies above its usual value. value: [steps],
 * relative to the usual value. 0, -ENOMEM. */
typedef void workers_stretch(void *context, const struct peers_flag *f);
int workers_alone(const struct peers_config *c, const uint64_t *step, uint32_t steps,
		  const double *value, double step_ns, workers_stretch *take, void *context);
