/* SPDX-License-Identifier: Apache-2.0
 * replay_load.h - one rank's trace file (flat CSV or Kineto JSON) as the records that analysis/
 * speaks: what the live join makes of ring events, made of a file. Owns: everything behind struct
 * replay_trace. Threads: one caller. Trust: the file is hostile.
 *
 * A launch takes the name, shape, stream and bytes of the kernel that its correlation id names. A
 * hole in the recording (the time between two windows of an incident, in `sysom trace --format
 * kineto`; kind "hole" in CSV) is a RECORD_GAP among the host records.
 *
 * Device rows without a launch in the file: when most have one, they stay unmatched (their launch
 * lies before the trace); else their own start stands for the launch. */
#ifndef SYSOM_CLI_REPLAY_REPLAY_LOAD_H
#define SYSOM_CLI_REPLAY_REPLAY_LOAD_H

#include <stddef.h>
#include <stdint.h>

#include "cli/text/intern.h"
#include "model/record.h"

/* 96 bytes each. */
#define REPLAY_LOAD_ROWS_MAX 100000000u
/* Different kernel names of one trace. */
#define REPLAY_LOAD_NAMES_MAX 1000000u

/* What a name's text says. */
struct replay_name {
	bool optimizer, coll; /* as record_is_optimizer and record_is_coll_kernel have it */
	uint8_t api;	      /* the loader's kind of call */
	uint8_t func;	      /* enum record_coll */
};

struct replay_trace {
	int rank;		  /* what the caller set, unless the file itself says it */
	struct intern names;	  /* [0] is "" */
	struct replay_name *name; /* by number */
	size_t name_room;
	struct record *host, *device; /* sorted, canonical order */
	size_t host_count, device_count;
	struct record *marks; /* ProfilerStep marks: begin_ns, end_ns, key = index */
	size_t mark_count;
	uint64_t rows, kept, api_other, unknown_kind, duplicate_marks, proxies, unmatched;
	/* RECORD_GAP among the host records: nothing was recorded from begin to end */
	uint64_t holes;
	/* Kineto's baseTimeNanoseconds: what its times are relative to; 0: not said */
	uint64_t base_ns;
};

/* 0; or -errno after a line on standard error that names the file and the line: then nothing is
 * held. */
int replay_load(struct replay_trace *t, const char *path);
/* Its times count from base_ns from now on, not from its own base. -ERANGE: it began before that. */
int replay_load_rebase(struct replay_trace *t, uint64_t base_ns);
void replay_load_free(struct replay_trace *t);

/* Where a reader of the host's records and the marks among them is. */
struct replay_cursor {
	const struct replay_trace *trace;
	bool marks; /* they are read */
	size_t host, mark;
	bool in_mark;
};
/* When the next one comes; UINT64_MAX: none. */
uint64_t replay_cursor_ns(const struct replay_cursor *c);
/* That, as a job that is watched would tell it. */
struct record replay_cursor_take(struct replay_cursor *c);

#endif
