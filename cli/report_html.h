/* SPDX-License-Identifier: Apache-2.0
 * report_html.h - an incident as one self-contained HTML file: no external resources, and no script
 * but that of the flame graphs, each in a frame of its own without any rights.
 * Trust: incident and windows are peers' data: every text is escaped. Threads: one caller. */
#ifndef SYSOM_CLI_REPORT_HTML_H
#define SYSOM_CLI_REPORT_HTML_H

#include <jansson.h>
#include <stdio.h>

#include "cli/trace_model.h"

/* m: the windows that could be had; may hold none. 0 or -errno of the file. */
int report_html_write(FILE *to, const json_t *incident, const struct trace_model *m);

#endif
