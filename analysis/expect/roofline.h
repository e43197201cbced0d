/* SPDX-License-Identifier: Apache-2.0
 * roofline.h - expected step latency from the step's work, and whether a step is slow against it.
 *
 * robust (default): a line of least absolute relative deviations, corrected by a curve and by cells
 * (roofline_fit.h); the tail calibrated in MADs of relative residuals; persistence; a frozen
 * baseline with a CUSUM drift alarm. p99: StriaTrace's 99th percentile per work bin with a RANSAC
 * line, retrained periodically; refused if the bins' mean describes them better than the line.
 * A step that is out is a suspect until the next fit. If it is far out of that fit too, it is
 * dropped; if it is mildly out, it only calibrates the tail. A model with a poor fit is refused.
 *
 * Pure: no I/O, clock, threads or globals; the seed is an argument; memory is the caller's.
 * Threads: one caller per model. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/expect/roofline_config.h"

enum roofline_state { ROOFLINE_LEARNING = 0, ROOFLINE_READY = 1, ROOFLINE_REFUSED = 2 };
void roofline_config_default(struct roofline_config *c);
const char *roofline_state_name(enum roofline_state s);

struct roofline_verdict {
	enum roofline_state state;
	double expected_ns; /* 0 until enough was learned */
	double excess;	    /* latency / expected - 1 */
	double threshold;   /* excess from which a step is out */
	bool out;	    /* this step alone lies beyond the threshold */
	bool persists;	    /* out, as were enough of the steps before */
	bool flagged;	    /* persists, or far enough out */
	bool drift;	    /* the drift alarm is raised */
	bool novel;	    /* work outside the learned range: the threshold is higher */
};

struct roofline; /* one model; opaque */
/* Judges one step, then learns from it (from a step that is out only if the next fit finds it
 * usual; else it calibrates at most the tail). work_count 0: judge by latency alone. A latency_ns
 * outside of 1e-30 to 1e30 or not finite is ignored; the verdict then has the state only. */
struct roofline_verdict roofline_push(struct roofline *m, const double *work, uint32_t work_count,
				      double latency_ns);
struct roofline_summary {
	enum roofline_state state;
	uint64_t steps, out, flagged, novel;
	/* r2: of the learned line on its learning steps; spread: MAD of relative residuals */
	double r2, spread;
	double threshold;
	bool drift; /* was raised at any time */
	double intercept_ns, slope_ns[ROOFLINE_WORK_MAX];
};
/* Fits a model that is not ready yet with the steps it has. Call after restoring a predecessor's
 * steps. */
void roofline_settle(struct roofline *m);
void roofline_summary(const struct roofline *m, struct roofline_summary *out);

/* Models by key; the least recently used one is replaced. */
struct roofline_set;
size_t roofline_set_memory_bytes(const struct roofline_config *c, uint32_t models_max);
struct roofline_set *roofline_set_init(void *memory, const struct roofline_config *c,
				       uint32_t models_max);
struct roofline *roofline_set_get(struct roofline_set *s, uint64_t key);
uint32_t roofline_set_count(const struct roofline_set *s);
/* i < count, in order of first use. */
struct roofline *roofline_set_at(struct roofline_set *s, uint32_t i, uint64_t *key);
