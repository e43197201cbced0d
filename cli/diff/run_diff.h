/* SPDX-License-Identifier: Apache-2.0
 * run_diff.h - compares the two sides of `sysom diff`: steps, rates of flagged steps, spans, kernels,
 * functions, settings. Owns: its rows; borrows the sides for its life. Threads: one caller.
 *
 * A step figure differs if its medians differ by more than RUN_DIFF_SHARE of the step and by more than
 * four standard errors (of a median: 1.2533 sigma / sqrt(n), sigma from the MAD). A rate differs by more
 * than four standard errors of a binomial. Steps at edges and gaps (STEP_FLAG_EDGE, _GAP, _RESYNC) don't
 * count. Functions: analysis/cause/profile.h.
 *
 * If a side has RUN_DIFF_SLOW_MIN slow steps (out or flagged), its steps, spans and kernels are only those
 * of its slow steps: the healthy steps around them would hide them in medians and means.
 *
 * A sketch has medians, but not their steps. Compared with one, a figure must differ by more than
 * RUN_DIFF_SHARE_RUNS of the step, as much as healthy runs may (analysis/slow/temporal.c), and by more than
 * four standard errors from the sketch's spread. The spread of a baseline's step time is one
 * between its samples of 5 s. These are not independent and count as one. An item that a sketch's
 * list leaves out is at most as large as the last one in it. */
#pragma once

#include "analysis/cause/profile.h"
#include "cli/diff/diff_source.h"
#include "cli/report/kernel_diff.h"

#define RUN_DIFF_SHARE	    0.005
#define RUN_DIFF_SHARE_RUNS 0.05
#define RUN_DIFF_METRICS    12u
#define RUN_DIFF_SLOW_MIN   5u

struct run_diff_metric {
	const char *name; /* "step", "self time", "compute", ... */
	bool time;	  /* in nanoseconds, else a count */
	bool known;	  /* on both sides */
	/* from samples, which give no figure per step: median[] holds means over the steps */
	bool mean;
	double median[2], spread[2]; /* spread: 1.4826 MAD */
	bool differs;
};

struct run_diff_span {
	const char *name;	     /* borrowed from the sides */
	double count[2], time_ns[2]; /* means per step */
};

struct run_diff_setting {
	const char *name, *value[2]; /* borrowed from the sides; NULL: it has none */
};

struct run_diff {
	const struct diff_source *side[2];
	bool has_steps, has_rates;
	uint64_t steps[2], flagged[2];
	uint64_t slow_steps[2]; /* the figures are of these; 0: of all steps */
	bool rate_differs;
	struct run_diff_metric metric[RUN_DIFF_METRICS];
	struct run_diff_span *spans; /* sorted by difference of time, largest first */
	size_t span_count;
	struct kernel_diff kernels;
	size_t kernel_steps[2]; /* the number of whole steps in the kernels' means */
	/* the list may lack kernels with less time per step */
	double kernels_from_ns[2];
	struct profile_delta *functions;
	uint32_t function_count;
	double samples[2];	       /* of the functions; INFINITY: not known */
	bool few_samples;	       /* too few to compare: no function is flagged */
	struct run_diff_span *blocked; /* of two sketches: functions with their blocked time */
	size_t blocked_count;
	struct run_diff_setting *settings; /* of two sketches: those that differ, by name */
	size_t setting_count;
};

/* 0, -ENOMEM, -ENODATA (the sides have nothing in common). */
int run_diff_make(struct run_diff *d, const struct diff_source *a, const struct diff_source *b);
void run_diff_free(struct run_diff *d);
