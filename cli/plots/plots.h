/* SPDX-License-Identifier: Apache-2.0
 * plots.h - pictures of a report: steps over time, one step in detail, where the culprits are, what their
 * GPUs did. (report_plots.c has those that compare ranks.) Each writes a section, or nothing where the
 * windows have no data for it. Trust: incident and windows are peers' data. Threads: one caller. */
#pragma once

#include <jansson.h>
#include <stdio.h>

#include "base/text/jsonget.h"
#include "cli/trace/trace_model.h"

/* How long each step of the culprits took, with what was expected, and the flagged ones as a table;
 * without a culprit, of all ranks. States if there are no steps. */
void plots_steps(FILE *to, const json_t *incident, const struct trace_model *m);
/* Launch thread and GPU streams of the culprit's typical slow step, above a healthy step of its own or,
 * without one, the peer's same step. peer: NULL, none. The accounts that the verdict rests on
 * have its colour. */
void plots_timeline(FILE *to, const json_t *incident, const struct trace_model *m,
		    const struct trace_rank *culprit, const struct trace_rank *peer);
/* The nodes of the culprits, with rank and GPU. */
void plots_where(FILE *to, const json_t *incident, const struct trace_model *m);
/* Clock, power and temperature of the culprits' GPUs over the incident's windows. */
void plots_gpu(FILE *to, const json_t *incident, const struct trace_model *m);

/* The longest expected latency that fits into a picture of the rank's steps. The first step of an
 * evaluation is expected to take as long as all of its steps together (kinds_verdict.usual_ns). */
double plots_most_ns(const struct trace_rank *r);
static inline bool plots_is_culprit(const json_t *incident, const struct trace_rank *r)
{
	return jsonget_has(json_object_get(incident, "ranks"), r->who.rank);
}
