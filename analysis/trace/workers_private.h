/* SPDX-License-Identifier: Apache-2.0
 * workers_private.h - what workers.c, workers_level.c and workers_report.c share. */
#pragma once

#include "analysis/trace/workers.h"

/* The usual value is this quantile of a rank's steps, because some of the steps may be slow. */
#define WORKERS_MOST_STEPS 0.4

struct workers_flag {
	struct peers_flag flag;
	uint32_t worker; /* or the index of the replica */
	uint32_t series, also;
	double self_excess; /* excess of self time, as a share */
	uint32_t kind;
	bool replica; /* all ranks of a replica are slow */
	bool pair;    /* the rank has one peer only */
	bool reported;
};

struct workers {
	const struct workers_table *t;
	double step_ns;
	double *self;  /* [workers][steps]: self time, relative to its role's level */
	double *late;  /* [workers][steps]: ns above its role's level */
	double *level; /* [workers]: self time, ns */
	bool *away;    /* [steps]: some rank was slow in the step, so nothing is learned from it */
	/* [workers]: the unit of self, ns: the level of the rank's role, or its own */
	double *usual;
	/* [workers][steps]: one of the further times, relative to its usual value */
	double *more;
	double *role_level; /* [roles]: level of the lower half of the ranks */
	double *role_late;  /* [roles], ns */
	double *common;	    /* [steps]: length of the step, relative to the usual length */
	double *input;	    /* [replicas][steps]: the factor that a replica's ranks share */
	double *scratch;    /* max(steps, workers) */
	uint32_t *member;   /* [workers + replicas]: the group under test */
	struct workers_flag *flag;
	uint32_t flags;
	size_t flags_room;
	bool no_memory;
};

static inline bool workers_is_in(const struct workers_table *t, uint32_t step,
				 const struct peers_flag *f)
{
	return t->step[step] >= f->first_step && t->step[step] <= f->last_step;
}

/* Computes self, late, level, role_level, common and input. */
void workers_level(struct workers *w);
/* Computes w->more from one of the further times. */
void workers_more(struct workers *w, const double *value);
/* Turns flags into findings, and tests roles and the job as a whole. 0, -ENOMEM. */
int workers_findings(struct workers *w, workers_report *report, void *context);
