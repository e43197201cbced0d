/* SPDX-License-Identifier: Apache-2.0
 * temporal.h - one role of one job over time: whether all of it has become slower, against earlier
 * runs of the job and against this run's own earlier minutes.
 *
 * One sample per TEMPORAL_PERIOD_NS: medians over the role's ranks. The role is slower when the
 * latest three samples all exceed the reference by more than max(5%, noise; 3% against three runs
 * and more), noise being four robust standard deviations between samples of the reference (and
 * twice the spread between earlier runs, where several are known); and when the ranks' own times
 * rose with it, or nobody is singled out for long. Samples of a role that is slower, has a suspect,
 * or whose steps were flagged are no reference. Against the own past the roofline's expectation has
 * to agree: steps that have more work are expected to take longer. The moment: the first sample of
 * the unbroken stretch above half the threshold.
 *
 * Pure; time is an argument. Threads: one caller. */
#ifndef SYSOM_ANALYSIS_SLOW_TEMPORAL_H
#define SYSOM_ANALYSIS_SLOW_TEMPORAL_H

#include <stdbool.h>
#include <stdint.h>

#include "model/window.h"

#define TEMPORAL_PERIOD_NS 5000000000ull
#define TEMPORAL_SAMPLES   720u /* an hour */
#define TEMPORAL_STEPS_MIN 200u /* healthy steps that make a reference (DESIGN.md 5) */

struct temporal;

struct temporal_sample {
	uint64_t unix_ns;
	/* medians over ranks; self_low: of the fastest tenth */
	double latency_ns, self_ns, self_low_ns, compute_ns, comm_ns, exposed_comm_ns, copy_ns,
	    idle_ns;
	double ratio;	/* latency over the roofline's expectation; 0 not known */
	double steps;	/* since the sample before, per rank */
	double flagged; /* of them, a share */
	bool suspects;	/* somebody of the job is singled out */
	uint32_t ranks;
};

struct temporal_base {			    /* earlier runs */
	double latency_ns, self_ns, mad_ns; /* of the newest healthy one; MAD between its samples */
	double spread;			    /* between runs, relative; 0: only one is known */
	uint32_t runs;			    /* 0: none */
};

struct temporal_change {
	bool open, ended;
	bool runs; /* against earlier runs; else against this one's past */
	uint64_t begin_unix_ns, end_unix_ns;
	double latency_ns, before_ns, excess, threshold; /* relative the last two */
	double steps;					 /* since it began */
};

int temporal_open(struct temporal **out); /* 0, -ENOMEM */
void temporal_close(struct temporal *t);  /* NULL is a no-op */
/* A new run: everything of the one before is forgotten. */
void temporal_restart(struct temporal *t);
/* Nothing more will be pushed: what is open has ended, until the next push or restart. */
void temporal_finish(struct temporal *t);
void temporal_set_base(struct temporal *t, const struct temporal_base *b);
void temporal_push(struct temporal *t, const struct temporal_sample *s);
/* What the last push changed or what lasts; false: nothing is open and nothing ended with it. */
bool temporal_state(const struct temporal *t, struct temporal_change *out);
uint64_t temporal_healthy_steps(const struct temporal *t);
/* The figures of a sketch: medians of this run's healthy samples, latency_mad_ns between them. */
void temporal_summary(const struct temporal *t, struct sketch *out);

#endif
