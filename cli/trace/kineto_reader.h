/* SPDX-License-Identifier: Apache-2.0
 * kineto_reader.h - the events of a Kineto (Chrome trace) JSON file, one at a time while it is read.
 * Owns: nothing that outlives a call.  Threads: one caller.  Trust: the file is hostile.
 * Memory: one event's texts, whatever the file's size. */
#ifndef SYSOM_CLI_TRACE_KINETO_READER_H
#define SYSOM_CLI_TRACE_KINETO_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/trace/trace_reader.h"

/* A mangled kernel name; the longest seen has 20 KB. */
#define KINETO_TEXT_BYTES_MAX 65536u

/* One entry of traceEvents. Texts are "" when absent and valid during the call only. Numbers that are
 * absent, negative or no integers are 0. */
struct kineto_event {
	const char *category, *name, *phase;
	size_t name_bytes;
	uint64_t begin_ns, duration_ns; /* ts and dur, which the file has in microseconds */
	uint64_t correlation, bytes, device, stream, pid;
	uint32_t grid[3], block[3];
	bool has_begin, has_correlation;
	bool bad_time; /* ts or dur is negative, far out, or no number */
};

/* 0 goes on; anything else ends the reading with this result. */
typedef int (*kineto_event_fn)(void *arg, const struct kineto_event *e);

struct kineto_result {
	uint64_t base_ns; /* baseTimeNanoseconds; 0 when absent */
	int rank;	  /* distributedInfo.rank; -1 when absent */
	uint64_t line;	  /* of the error, from 1 */
	char error[160];  /* "" when the callback ended it */
};

/* Calls back for each event of the text's traceEvents (or of the array that the text is), and reads to
 * the end of the file. 0;
 * -EBADMSG (no JSON, no traceEvents, nested or long beyond reason: result->error); -EIO; -ENOMEM; what
 * the callback returned. */
int kineto_reader_run(struct trace_reader *reader, kineto_event_fn fn, void *arg,
		      struct kineto_result *result);

#endif
