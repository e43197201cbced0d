/* SPDX-License-Identifier: Apache-2.0
 * kineto_reader.h - reads a Kineto (Chrome trace) JSON file, one event at a time.
 * Owns: nothing after a call.  Threads: one caller.  Trust: the file is hostile.
 * Memory: one event's texts, for any size of file. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/trace/trace_reader.h"

/* A mangled kernel name; the longest seen has 20 KB. */
#define KINETO_TEXT_BYTES_MAX 65536u

/* One entry of traceEvents. Absent texts are ""; texts are valid only during the call. Numbers that are
 * absent, negative or not integers are 0. */
struct kineto_event {
	const char *category, *name, *phase;
	size_t name_bytes;
	uint64_t begin_ns, duration_ns; /* ts and dur; microseconds in the file */
	uint64_t correlation, bytes, device, stream, pid;
	uint32_t grid[3], block[3];
	bool has_begin, has_correlation;
	bool bad_time; /* ts or dur is negative, too large or not a number */
};

/* 0 continues; any other value ends the reading with this result. */
typedef int (*kineto_event_fn)(void *arg, const struct kineto_event *e);

struct kineto_result {
	uint64_t base_ns; /* baseTimeNanoseconds; 0 when absent */
	int rank;	  /* distributedInfo.rank; -1 when absent */
	uint64_t line;	  /* of the error, from 1 */
	char error[160];  /* "" if the callback ended it */
};

/* Calls back for each event of traceEvents (or of the array, if the text is one), and reads to the end of
 * the file. 0; -EBADMSG (not JSON, no traceEvents, nested too deep or too long: see result->error);
 * -errno of the file; -ENOMEM; or the callback's result. */
int kineto_reader_run(struct trace_reader *reader, kineto_event_fn fn, void *arg,
		      struct kineto_result *result);
