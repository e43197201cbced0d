/* SPDX-License-Identifier: Apache-2.0
 * trace_align.h - puts the ranks of a trace_model on one clock: CLOCK_REALTIME of nodes differs by
 * milliseconds, but all ranks leave a collective together (analysis/align.h). Ranks that share no
 * collective with the others stay on their node's CLOCK_REALTIME. Threads: one caller. */
#ifndef SYSOM_CLI_TRACE_ALIGN_H
#define SYSOM_CLI_TRACE_ALIGN_H

#include "cli/trace_model.h"

/* Of a finished model, once. Shifts every time of a rank; clock_offset_ns and clock_error_ns of the rank
 * say by how much. 0, -ENOMEM. */
int trace_align_apply(struct trace_model *m);

#endif
