/* SPDX-License-Identifier: Apache-2.0
 * incident_load.h - downloads the windows of an incident into a trace_model, on one clock. Messages on
 * standard error name what is missing. Threads: one caller. */
#pragma once

#include "cli/client/client.h"
#include "cli/trace/trace_model.h"

/* rank < 0: all. Fills and finishes the initialised model. With only_collectives, stacks are kept only for
 * the ranks that the incident names, if it names any. Returns the number of windows read, or -ENOMEM. Holds
 * one undecoded window at a time. */
int incident_load_windows(const struct client *c, const json_t *incident, int rank,
			  struct trace_model *m);
/* Sets the NIC of each culprit: the one that the job chose for NCCL, as the culprit's latest sketch
 * says. */
void incident_load_nics(const struct client *c, const json_t *incident, struct trace_model *m);
