/* SPDX-License-Identifier: Apache-2.0
 * export_kineto.h - a trace_model as Kineto JSON, as torch.profiler writes it (traceEvents; one
 * object per line). Times are microseconds from baseTimeNanoseconds, which is the same for what is of the
 * same quarter. distributedInfo is there when the model holds one rank, as tools that read one file per
 * rank expect. What lies between two windows of a rank is an event of its own (TRACE_LABEL_HOLE). */
#ifndef SYSOM_CLI_EXPORT_KINETO_H
#define SYSOM_CLI_EXPORT_KINETO_H

#include <stdio.h>

#include "cli/trace_model.h"

/* 0 or -errno of the file. */
int export_kineto_write(const struct trace_model *m, FILE *to, uint64_t *slices);

#endif
