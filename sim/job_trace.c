/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/job.h"
int job_trace_build(struct job_program *p, const char *path, int ranks) { return 2; }
