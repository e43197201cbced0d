/* SPDX-License-Identifier: Apache-2.0
 * workers.h - findings about the workers of a recorded job: its step times as a table in, findings out.
 * The judgement is peers.h's; here is what only a whole recording allows: each role's own level, what
 * the ranks of one replica have in common (their input), roles that are heavier than others, and a job
 * that became slower as a whole.
 * Pure; allocates while it runs. Threads: any, a table each. */
#ifndef SYSOM_ANALYSIS_WORKERS_H
#define SYSOM_ANALYSIS_WORKERS_H

#include "analysis/finding.h"
#include "analysis/peers.h"

struct workers_table {
	uint32_t workers, steps; /* 1 and more */
	const uint64_t *step;	 /* [steps], ascending: the job's own numbers */
	const int32_t *rank;	 /* [workers] */
	const uint32_t *role;	 /* [workers]: who does the same work; 0 to roles - 1 */
	uint32_t roles;
	const uint32_t *replica; /* [workers]: who gets the same input; NULL: not known */
	uint32_t replicas;
	const double *self_ns; /* [steps][workers]; NAN: not known */
	const double *late_ns; /* the same, NULL: none */
	double step_ns;	       /* typical latency; 0: from self_ns */
	struct peers_config config;
};

struct workers_finding {
	struct finding finding;
	uint64_t sure_step;
	uint32_t window;
	enum peers_measure measure;
};
typedef void workers_tell(void *context, const struct workers_finding *f);

/* Tells slow ranks by their first step, then roles, then the job as a whole. 0, -ENOMEM, -E2BIG: a
 * role of more than PEERS_MEMBERS_MAX workers. */
int workers_find(const struct workers_table *t, workers_tell *tell, void *context);

#endif
