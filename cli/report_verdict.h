/* SPDX-License-Identifier: Apache-2.0
 * report_verdict.h - the diagnosis of an incident as the first thing of the report. Every text is
 * escaped. Threads: one caller. */
#ifndef SYSOM_CLI_REPORT_VERDICT_H
#define SYSOM_CLI_REPORT_VERDICT_H

#include <jansson.h>
#include <stdio.h>

/* Says so where the incident has none. */
void report_verdict_put(FILE *to, const json_t *incident);

#endif
