/* SPDX-License-Identifier: Apache-2.0
 * temporal.h - detect that a whole role of a job has become slower, compared with earlier runs of
 * the job and with earlier minutes of this run.
 *
 * One sample per TEMPORAL_PERIOD_NS: medians over the role's ranks. The role is slower when the
 * latest three samples all exceed the reference by more than max(5%, noise); against three or more
 * earlier runs, max(3%, noise). The noise is four robust standard deviations between samples of the
 * reference, or twice the spread between earlier runs if that is larger. The ranks' self times must
 * have risen too; otherwise six samples are needed, without a suspect. A sample is not a reference
 * if the role was slower, had a suspect or had flagged steps. Against the run's own past, the
 * roofline must agree that the steps are slow: it expects steps with more work to take longer. The
 * change begins with the first sample of the unbroken stretch above half the threshold that led to
 * it.
 *
 * Pure; time is an argument. Threads: one caller. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "model/window.h"

#define TEMPORAL_PERIOD_NS 5000000000ull
#define TEMPORAL_SAMPLES   720u /* an hour */
#define TEMPORAL_STEPS_MIN 200u /* healthy steps that make a reference */

struct temporal;

struct temporal_sample {
	uint64_t unix_ns;
	/* medians over ranks; self_low_ns: the fastest tenth's self time */
	double latency_ns, self_ns, self_low_ns, compute_ns, comm_ns, exposed_comm_ns, copy_ns,
	    idle_ns;
	double ratio;	/* latency over the expected latency; 0: not known */
	double steps;	/* since the sample before, per rank */
	double flagged; /* share of the steps that were flagged */
	bool suspects;	/* a finding names a rank of the job */
};

struct temporal_base { /* what earlier runs had */
	/* medians of the newest healthy run; mad_ns: MAD between its samples */
	double latency_ns, self_ns, mad_ns;
	double spread; /* relative spread between runs; 0: only one is known */
	uint32_t runs; /* 0: none */
};

struct temporal_change {
	bool open, ended;
	bool runs; /* compared with earlier runs; else with this run's past */
	uint64_t begin_unix_ns, end_unix_ns;
	/* excess and threshold: relative to before_ns */
	double latency_ns, before_ns, excess, threshold;
	double steps; /* number of steps since the change began */
};

int temporal_open(struct temporal **out); /* 0, -ENOMEM */
void temporal_close(struct temporal *t);  /* NULL is a no-op */
/* A new run: forgets the one before. */
void temporal_restart(struct temporal *t);
/* Nothing more will be pushed: ends an open change, until the next push or restart. */
void temporal_finish(struct temporal *t);
void temporal_set_base(struct temporal *t, const struct temporal_base *b);
void temporal_push(struct temporal *t, const struct temporal_sample *s);
/* The change that is open, or that the last push ended; false: neither. */
bool temporal_state(const struct temporal *t, struct temporal_change *out);
uint64_t temporal_healthy_steps(const struct temporal *t);
/* Fills the figures of a sketch: medians of this run's healthy samples. latency_mad_ns is the MAD
 * between them. */
void temporal_summary(const struct temporal *t, struct sketch *out);
