/* SPDX-License-Identifier: Apache-2.0
 * report.h - an incident as one self-contained HTML file: no external resources, and no script but that
 * of the flame graphs, each in a frame of its own without any rights. report_html.c writes it; the others
 * are its parts.
 * Trust: incident and windows are peers' data: every text is escaped. Threads: one caller. */
#ifndef SYSOM_CLI_REPORT_REPORT_H
#define SYSOM_CLI_REPORT_REPORT_H

#include <jansson.h>
#include <stdio.h>

#include "cli/diff/incident_diff.h"
#include "cli/trace/trace_model.h"

/* m: the windows that could be had; may hold none. 0 or -errno of the file. */
int report_html_write(FILE *to, const json_t *incident, const struct trace_model *m);

/* Rank against step, own time and lateness, as SVG without scripts, with the figures as a table; nothing
 * where the windows have no steps. 0, -ENOMEM. */
int report_plots_heat(FILE *to, const json_t *incident, const struct trace_model *m);
/* The culprit's step time against work, with what was expected; nothing where its steps have no work or
 * no expectation. */
void report_plots_roofline(FILE *to, const json_t *incident, const struct trace_model *m);

/* The culprit beside its peer: the differential flame graph, and the functions whose share of the CPU is
 * surely another. A flame graph is a page within the page, so that neither's style or script touches the
 * other's. 0, -ENOMEM, -E2BIG. */
int report_stacks_diff(FILE *to, const struct incident_diff *d);
/* The culprit's stacks alone: a few sentences, and, with graph, its flame graph. Nothing where no stacks
 * came. 0 or -ENOMEM, -E2BIG; errors of the file are the caller's to see. */
int report_stacks_put(FILE *to, const json_t *incident, const struct trace_model *m, bool graph);

#endif
