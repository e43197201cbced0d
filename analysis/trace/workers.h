/* SPDX-License-Identifier: Apache-2.0
 * workers.h - findings about the workers of a recorded job: its step times as a table in, findings out.
 * The judgement is that of peers.h, as it is made live, over the table twice: the first pass teaches
 * the noise, the second judges. Here is what only a whole recording allows: what is usual for each role
 * or worker, what the ranks of one replica have in common (their input), roles that are heavier than
 * others, and a job that became slower as a whole.
 * Pure; allocates while it runs. Threads: any, a table each. */
#ifndef SYSOM_ANALYSIS_TRACE_WORKERS_H
#define SYSOM_ANALYSIS_TRACE_WORKERS_H

#include "analysis/slow/peers.h"
#include "model/finding.h"

struct workers_table {
	uint32_t workers, steps; /* 1 and more */
	const uint64_t *step;	 /* [steps], ascending: the job's own numbers */
	const int32_t *rank;	 /* [workers] */
	const uint32_t *role;	 /* [workers]: who does the same work; 0 to roles - 1 */
	uint32_t roles;
	const uint32_t *replica; /* [workers]: who gets the same input; NULL: not known */
	uint32_t replicas;
	const double *self_ns; /* [workers][steps] (workers_cell); NAN: not known */
	const double *late_ns; /* the same, NULL: none */
	double step_ns;	       /* typical latency; 0: from self_ns */
	struct peers_config config;
	/* Workers of one role differ for good: each is held against what is usual for itself, and what is
	 * slow from the first step to the last is not reported. */
	bool uneven;
	/* uneven: other times of the same steps, each [workers][steps]; a stretch that shows in only one of
	 * them is reported, too */
	const double *const *more;
	uint32_t more_count;
	/* [steps]: all workers have other work in it than usual. NULL: nobody knows, so that a job that
	 * becomes slower is reported from 10% and 20 steps on */
	const bool *other_work;
	/* Stretches of several workers at the same time are one finding where this is equal; NULL: always.
	 * series: 0 the own time, 1 and more: of more[] */
	uint32_t (*kind)(void *context, uint32_t worker, uint32_t series, uint64_t first_step,
			 uint64_t last_step);
	void *context;
	bool *slow; /* out, [workers][steps] of false: in a stretch of any series; NULL: not wanted */
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
	uint32_t series, also; /* that shows it most surely; others that show it, too */
	uint32_t worst;	       /* worker */
};
typedef void workers_tell(void *context, const struct workers_finding *f);

/* Tells the job as a whole, then slow ranks by their first step, then roles. 0, -ENOMEM, -E2BIG: a
 * role of more than PEERS_MEMBERS_MAX workers. */
int workers_find(const struct workers_table *t, workers_tell *tell, void *context);
/* Stretches in which one series of the whole job lies above what is usual for it; 0, -ENOMEM. value:
 * [steps], in parts of the usual. */
typedef void workers_stretch(void *context, const struct peers_flag *f);
int workers_alone(const struct peers_config *c, const uint64_t *step, uint32_t steps,
		  const double *value, double step_ns, workers_stretch *take, void *context);

#endif
