/* SPDX-License-Identifier: Apache-2.0
 * trace_model.h - the windows of an incident put together for export: per rank the records and steps
 * of all its windows, each once, on CLOCK_REALTIME, with one table of names.
 * Owns: everything it holds. Threads: one caller. Trust: windows come from peers; what can't be shown
 * (times beyond 2^62 ns, more than TRACE_MODEL_RECORDS_MAX records) is counted in left_out. */
#ifndef SYSOM_CLI_TRACE_TRACE_MODEL_H
#define SYSOM_CLI_TRACE_TRACE_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/text/intern.h"
#include "model/window.h"

/* 4 M records of 96 bytes: 384 MB, and a Perfetto file of some 200 MB, which its page still opens. */
#define TRACE_MODEL_RECORDS_MAX 4000000u
#define TRACE_MODEL_RANKS_MAX	4096u
#define TRACE_MODEL_NAMES_MAX	1000000u

struct client;

/* In window_step.flags, beside WINDOW_STEP_*: what was expected is what the ranks of its node show, not
 * what its own model had learned. */
#define TRACE_STEP_BY_PEERS 0x80000000u
#define TRACE_STEP_SLOW	    (WINDOW_STEP_OUT | WINDOW_STEP_FLAGGED)

/* Of the rank's GPU, as its window's signals have them. */
enum trace_gpu_reading {
	TRACE_GPU_SM_CLOCK,    /* MHz */
	TRACE_GPU_POWER,       /* W */
	TRACE_GPU_TEMPERATURE, /* C */
	TRACE_GPU_READINGS
};

struct trace_window {
	uint64_t begin_ns, end_ns;
	uint32_t reason, model_state, flagged;
	double model_r2;
	bool summary_only;
	double gpu[TRACE_GPU_READINGS]; /* NAN: not known */
};

struct trace_span {
	uint64_t begin_ns, end_ns;
};

struct trace_rank {
	struct wire_rank who;
	char gpu[OS_SIGNAL_SUBJECT_BYTES]; /* "GPU 3"; "": not known */
	char nic[WIRE_TEXT_BYTES];    /* that the job chose; "": not known (incident_load_nics) */
	int64_t realtime_offset_ns;   /* of the first window, used for all that agree with it */
	struct record *host, *device; /* after finish: by (begin, end descending), no duplicates */
	size_t host_count, device_count, host_room, device_room;
	struct window_step *steps; /* after finish: by begin, no duplicates */
	size_t step_count, step_room;
	struct trace_window *windows;
	size_t window_count, window_room;
	/* CPU stacks of all windows, each instant once; CLOCK_MONOTONIC of the node. */
	struct stack_batch stacks;
	struct trace_span *covered; /* windows whose stacks are in */
	size_t covered_count, covered_room;
	bool aligned; /* with the other ranks, by common collectives (trace_align_apply) */
	double clock_offset_ns, clock_error_ns; /* what its clock was ahead of theirs */
	const char
	    *part; /* that it plays, for people: "slow", "healthy peer"; NULL: none. Static */
	const struct client *aggregator; /* to ask for names; borrowed; NULL: there is none */
};

struct trace_model {
	/* Set before the first window: of the records only the collectives, which put the ranks on one
	 * clock and say who was late. Records are nearly all that a window holds. */
	bool only_collectives;
	struct trace_rank *ranks; /* after finish: by (job, rank, node, pid) */
	size_t rank_count, rank_room;
	struct intern names; /* [0] is "" */
	uint64_t records, left_out;
};

int trace_model_init(struct trace_model *m);
void trace_model_fini(struct trace_model *m);
/* Copies what it needs. 0 or -ENOMEM. */
int trace_model_add(struct trace_model *m, const struct window *w);
/* The id of a name (0 for "" and where there is no more room). */
uint32_t trace_model_name(struct trace_model *m, const char *text);
void trace_model_finish(struct trace_model *m);
/* The first one of that number; NULL: none. */
struct trace_rank *trace_model_rank(const struct trace_model *m, long rank);
/* trace_align.c: of a finished model, once. Puts its ranks on one clock: CLOCK_REALTIME of nodes differs by
 * milliseconds, but all ranks leave a collective together (analysis/trace/align.h). Ranks that share
 * none with
 * the others stay on their node's. clock_offset_ns and clock_error_ns of a rank say by how much each of
 * its times was shifted. 0, -ENOMEM. */
int trace_align_apply(struct trace_model *m);
/* Forgets all ranks but these two of it, in their order. */
void trace_model_keep(struct trace_model *m, const struct trace_rank *a,
		      const struct trace_rank *b);
/* Index of the host record that launched a device record, or -1. */
ptrdiff_t trace_model_launch(const struct trace_rank *r, const struct record *device);
/* Index of the step on whose launch timeline t lies, or -1. Steps tile the timeline. After finish. */
ptrdiff_t trace_model_step_at(const struct trace_rank *r, uint64_t t);
/* How long the windows are whose stacks are in, each instant once. */
uint64_t trace_model_covered_ns(const struct trace_rank *r);
/* "self", "comm", ...; "ranks slow" texts are the caller's. Static text. */
const char *trace_model_reason(unsigned reason);

#endif
