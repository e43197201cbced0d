/* SPDX-License-Identifier: Apache-2.0
 * incident_stacks.h - the CPU stacks that came with an incident's windows: of whom, and in words.
 * Threads: one caller. */
#ifndef SYSOM_CLI_PROFILE_INCIDENT_STACKS_H
#define SYSOM_CLI_PROFILE_INCIDENT_STACKS_H

#include <jansson.h>

#include "cli/profile/profile_summary.h"
#include "cli/trace/trace_model.h"

/* rank >= 0: that one; else the one of the incident's ranks with the most samples, else of all.
 * NULL: no stacks came. Borrowed from the finished model. */
const struct trace_rank *incident_stacks_rank(const json_t *incident, const struct trace_model *m,
					      int rank);
/* Names for the rank's stacks by the files of this machine, else by the aggregator that its windows
 * came from; to be closed on failure too. */
int incident_stacks_names(const struct trace_rank *r, struct profile_names **names);
void incident_stacks_print(FILE *to, const struct trace_rank *r, const struct profile_summary *s);
/* Owned by the caller. */
json_t *incident_stacks_json(const struct trace_rank *r, const struct profile_summary *s);
/* "GIL: ..." as one line without its end; false: nobody waits for it worth a word. */
bool incident_stacks_gil(const struct profile_summary *s, char *out, size_t out_bytes);

#endif
