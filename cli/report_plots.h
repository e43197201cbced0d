/* SPDX-License-Identifier: Apache-2.0
 * report_plots.h - the report's heat maps (rank against step: own time, lateness) and its roofline
 * (step time against work, with what was expected), as SVG without scripts, each with its figures as a
 * table. Threads: one caller. */
#ifndef SYSOM_CLI_REPORT_PLOTS_H
#define SYSOM_CLI_REPORT_PLOTS_H

#include <jansson.h>
#include <stdio.h>

#include "cli/trace_model.h"

/* Both heat maps; nothing where the windows have no steps. 0, -ENOMEM. */
int report_plots_heat(FILE *to, const json_t *incident, const struct trace_model *m);
/* Of the culprit; nothing where its steps have no work or no expectation. */
void report_plots_roofline(FILE *to, const json_t *incident, const struct trace_model *m);

#endif
