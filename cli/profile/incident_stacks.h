/* SPDX-License-Identifier: Apache-2.0
 * incident_stacks.h - the CPU stacks of an incident's windows as text and JSON. Threads: one caller. */
#pragma once

#include <jansson.h>

#include "cli/profile/profile_summary.h"
#include "cli/trace/trace_model.h"

/* rank >= 0: that rank; else the one of the incident's ranks, or else of all, with the most samples. NULL:
 * no stacks. Borrowed from the finished model. */
const struct trace_rank *incident_stacks_rank(const json_t *incident, const struct trace_model *m,
					      int rank);
/* Names the rank's stacks from this machine's files, else from the aggregator of its windows. The caller
 * closes *names, on failure too. */
int incident_stacks_names(const struct trace_rank *r, struct profile_names **names);
void incident_stacks_print(FILE *to, const struct trace_rank *r, const struct profile_summary *s);
/* The caller owns it. */
json_t *incident_stacks_json(const struct trace_rank *r, const struct profile_summary *s);
/* "GIL: ..." as one line without newline; false: no thread waits long for it. */
bool incident_stacks_gil(const struct profile_summary *s, char *out, size_t out_bytes);
