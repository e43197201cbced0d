/* SPDX-License-Identifier: Apache-2.0
 * report.h - an incident as one self-contained HTML file without external resources. Only the flame graphs
 * have scripts, each in a frame without rights. report_html.c writes the page from the other files' parts.
 * Trust: incident and windows are peers' data: every text is escaped. Threads: one caller. */
#pragma once

#include <jansson.h>
#include <stdio.h>

#include "cli/diff/incident_diff.h"
#include "cli/trace/trace_model.h"

/* m: the available windows, perhaps none. 0 or -errno of the file. */
int report_html_write(FILE *to, const json_t *incident, const struct trace_model *m);

/* Heat maps of self time and lateness by rank and step, with their figures as a table; nothing if the
 * windows have no steps. 0, -ENOMEM. */
int report_plots_heat(FILE *to, const json_t *incident, const struct trace_model *m);
/* The culprit's latency by work, with the expected line; nothing if its steps have no work or no expected
 * latency. */
void report_plots_roofline(FILE *to, const json_t *incident, const struct trace_model *m);

/* The culprit compared with its peer: the differential flame graph, and the functions whose share
 * of the CPU differs significantly. A flame graph is a page within the page, so styles and scripts
 * stay separate. 0, -ENOMEM, -E2BIG. */
int report_stacks_diff(FILE *to, const struct incident_diff *d);
/* The culprit's stacks: a summary and, with graph, a flame graph; nothing without stacks. 0, -ENOMEM,
 * -E2BIG; the caller checks the file for write errors. */
int report_stacks_put(FILE *to, const json_t *incident, const struct trace_model *m, bool graph);
