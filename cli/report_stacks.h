/* SPDX-License-Identifier: Apache-2.0
 * report_stacks.h - the CPU stacks' part of the HTML report: a few sentences and the flame graph,
 * as a page within the page, so that neither's style or script touches the other's. */
#ifndef SYSOM_CLI_REPORT_STACKS_H
#define SYSOM_CLI_REPORT_STACKS_H

#include <stdio.h>

#include "cli/incident_diff.h"
#include "cli/trace_model.h"

#include <jansson.h>

/* The culprit beside its peer: the differential flame graph, and the functions whose share of the CPU is
 * surely another. 0, -ENOMEM, -E2BIG. */
int report_stacks_diff(FILE *to, const struct incident_diff *d);
/* The culprit's alone; graph: with its flame graph. Nothing where no stacks came. 0 or
 * -ENOMEM, -E2BIG; errors of the file are the caller's to see. */
int report_stacks_put(FILE *to, const json_t *incident, const struct trace_model *m, bool graph);

#endif
