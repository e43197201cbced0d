/* SPDX-License-Identifier: Apache-2.0
 * replay_load.h - reads one rank's trace file (flat CSV or Kineto JSON) as records, like those that the
 * live join makes from ring events. Owns: everything behind struct replay_trace. Threads: one caller.
 * Trust: the file is hostile.
 *
 * A launch gets the name, shape, stream and bytes of the kernel with its correlation id. A hole in the
 * recording is a RECORD_GAP among the host records: the time between two windows of an incident in `sysom
 * trace --format kineto`, or kind "hole" in CSV.
 *
 * Some device rows have no launch in the file. If most have one, the others stay unmatched: their launch
 * was before the trace. Else a kernel's start is used as its launch. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "cli/text/intern.h"
#include "model/record.h"

/* 96 bytes each. */
#define REPLAY_LOAD_ROWS_MAX 100000000u
/* The most different names in one trace. */
#define REPLAY_LOAD_NAMES_MAX 1000000u

struct replay_name {
	bool optimizer, coll; /* of record_is_optimizer and record_is_coll_kernel */
	uint8_t api;	      /* the loader's kind of call */
	uint8_t func;	      /* enum record_coll */
};

struct replay_trace {
	int rank;		  /* set by the caller, unless the file has it */
	struct intern names;	  /* [0] is "" */
	struct replay_name *name; /* by number */
	size_t name_room;
	struct record *host, *device; /* sorted, canonical order */
	size_t host_count, device_count;
	struct record *marks; /* ProfilerStep marks: begin_ns, end_ns, key = index */
	size_t mark_count;
	uint64_t rows, kept, api_other, unknown_kind, duplicate_marks, proxies, unmatched;
	/* the number of RECORD_GAP among the host records */
	uint64_t holes;
	/* Kineto's baseTimeNanoseconds, added to its times; 0: none */
	uint64_t base_ns;
};

/* 0; or -errno after a message with file and line; then *t holds nothing. */
int replay_load(struct replay_trace *t, const char *path);
/* Makes its times relative to base_ns. -ERANGE: it began before base_ns. */
int replay_load_rebase(struct replay_trace *t, uint64_t base_ns);
void replay_load_free(struct replay_trace *t);

/* A reader's position in host records and marks, merged by time. */
struct replay_cursor {
	const struct replay_trace *trace;
	bool marks; /* read marks too */
	size_t host, mark;
	bool in_mark;
};
/* Time of the next record; UINT64_MAX: none. */
uint64_t replay_cursor_ns(const struct replay_cursor *c);
/* The next record, in the form of a live run. */
struct record replay_cursor_take(struct replay_cursor *c);
