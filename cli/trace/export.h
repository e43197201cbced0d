/* SPDX-License-Identifier: Apache-2.0
 * export.h - writes a trace_model as a trace file. Threads: one caller.
 *
 * Kineto JSON has torch.profiler's form (traceEvents; one object per line). Times are microseconds from
 * baseTimeNanoseconds, which is equal for all files of the same 90 days. A file of one rank has
 * distributedInfo, because tools that read one file per rank expect it. The time between two
 * windows of a rank is an event (TRACE_LABEL_HOLE).
 *
 * Perfetto protobuf (cli/perfetto.proto) has a process per rank. Its tracks are steps, windows, gaps, each
 * host thread, each thread's spans, and each GPU stream (several tracks if slices overlap without nesting).
 * Names are interned on one packet sequence. Time stamps are CLOCK_REALTIME, declared as the trace's
 * primary clock. A flow joins launch and kernel. A collective has one correlation id on all ranks. CPU
 * stacks are perf_sample packets (export_stacks.h). */
#pragma once

#include <stdio.h>

#include "cli/trace/trace_model.h"

/* 0 or -errno of the file. */
int export_kineto_write(const struct trace_model *m, FILE *to, uint64_t *slices);
/* Adds the tracks' names to the model's table. 0, -ENOMEM, or -errno of the file. */
int export_perfetto_write(struct trace_model *m, FILE *to, uint64_t *slices, uint64_t *left_out);
