/* SPDX-License-Identifier: Apache-2.0
 * run_diff.h - two sides of `sysom diff` compared: steps, rates of anomalies, spans, kernels,
 * functions, settings. Owns: its rows; the sides are borrowed for its life. Threads: one caller.
 *
 * A step figure differs when its medians do by more than RUN_DIFF_SHARE of the step and by more
 * than four standard errors of the difference (of medians: 1.2533 sigma / sqrt(n), sigma from the
 * MAD). Rates differ by more than four of a binomial's. Edges and gaps (STEP_FLAG_EDGE, _GAP,
 * _RESYNC) don't count. Functions: analysis/cause/profile.h.
 *
 * Of a side with RUN_DIFF_SLOW_MIN slow steps (out or flagged) steps, spans and kernels are of
 * these alone: a window has healthy steps around those it was made for, which would hide them in
 * medians and means.
 *
 * A sketch has medians without their steps, so beside one a figure has to differ by more than
 * RUN_DIFF_SHARE_RUNS of the step, as much as healthy runs may (analysis/slow/temporal.c), and by
 * more than four standard errors of what spread it tells: of the steps, or of a baseline's samples
 * of 5 s, which are not independent and count as one. What its lists leave out is at most as much
 * as their last item. */
#ifndef SYSOM_CLI_DIFF_RUN_DIFF_H
#define SYSOM_CLI_DIFF_RUN_DIFF_H

#include "analysis/cause/profile.h"
#include "cli/diff/diff_source.h"
#include "cli/report/kernel_diff.h"

#define RUN_DIFF_SHARE	    0.005
#define RUN_DIFF_SHARE_RUNS 0.05
#define RUN_DIFF_METRICS    12u
#define RUN_DIFF_SLOW_MIN   5u

struct run_diff_metric {
	const char *name; /* "step", "own", "compute", ... */
	bool time;	  /* in nanoseconds, else a count */
	bool known;	  /* of both */
	/* of samples: no step's own figure is known, median[] are means over the steps */
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
	uint64_t slow_steps[2]; /* that the side's figures are of; 0: all steps */
	bool rate_differs;
	struct run_diff_metric metric[RUN_DIFF_METRICS];
	struct run_diff_span *spans; /* by difference of their time, largest first */
	size_t span_count;
	struct kernel_diff kernels;
	size_t kernel_steps[2]; /* whole ones, that kernels are means of */
	/* a kernel with less per step may be missing here, though it ran */
	double kernels_from_ns[2];
	struct profile_delta *functions;
	uint32_t function_count;
	double samples[2]; /* behind the functions; INFINITY: not known */
	bool few_samples;  /* too few to tell: no function is flagged */
	struct run_diff_span
	    *blocked; /* of two sketches: functions and their blocked time, as spans */
	size_t blocked_count;
	struct run_diff_setting *settings; /* of two sketches, those that differ, by name */
	size_t setting_count;
};

/* 0, -ENOMEM, -ENODATA (nothing that both sides have). */
int run_diff_make(struct run_diff *d, const struct diff_source *a, const struct diff_source *b);
void run_diff_free(struct run_diff *d);

#endif
