/* SPDX-License-Identifier: Apache-2.0
 * show_plots.h - an incident's steps and ranks as small plots on a terminal. Threads: one caller. */
#pragma once

#include <jansson.h>
#include <stdio.h>

#include "cli/trace/trace_model.h"

/* The culprit's step times with flagged ones marked, and each rank's self time and lateness in those;
 * nothing if the windows have no steps. */
void show_plots_print(FILE *to, const json_t *incident, const struct trace_model *m,
		      unsigned columns);
