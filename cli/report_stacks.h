/* SPDX-License-Identifier: Apache-2.0
 * report_stacks.h - the CPU stacks' part of the HTML report: a few sentences and the flame graph,
 * as a page within the page, so that neither's style or script touches the other's. */
#ifndef SYSOM_CLI_REPORT_STACKS_H
#define SYSOM_CLI_REPORT_STACKS_H

#include <stdio.h>

#include "cli/trace_model.h"

#include <jansson.h>

/* Nothing where no stacks came. 0 or -ENOMEM, -E2BIG; errors of the file are the caller's to see.
 */
int report_stacks_put(FILE *to, const json_t *incident, const struct trace_model *m);

#endif
