/* SPDX-License-Identifier: Apache-2.0
 * export.h - a trace_model as a trace file. Threads: one caller.
 *
 * Kineto JSON is as torch.profiler writes it (traceEvents; one object per line). Times are microseconds
 * from baseTimeNanoseconds, which is the same for what is of the same quarter. distributedInfo is there
 * when the model holds one rank, as tools that read one file per rank expect. What lies between two
 * windows of a rank is an event of its own (TRACE_LABEL_HOLE).
 *
 * Perfetto protobuf (cli/perfetto.proto): a process per rank; below it the tracks steps, windows, gaps, one
 * per host thread, spans per thread, and one per GPU stream (more than one where slices overlap without
 * nesting). Names are interned on one packet sequence. Time stamps are CLOCK_REALTIME, declared as the
 * trace's primary clock. Launch and kernel are joined by a flow; a collective has one correlation id on
 * all ranks. CPU stacks are perf_sample packets (export_stacks.h). */
#ifndef SYSOM_CLI_TRACE_EXPORT_H
#define SYSOM_CLI_TRACE_EXPORT_H

#include <stdio.h>

#include "cli/trace/trace_model.h"

/* 0 or -errno of the file. */
int export_kineto_write(const struct trace_model *m, FILE *to, uint64_t *slices);
/* The model's table of names grows by what the tracks are called. Returns 0, -ENOMEM, or -errno of
 * the file. */
int export_perfetto_write(struct trace_model *m, FILE *to, uint64_t *slices, uint64_t *left_out);

#endif
