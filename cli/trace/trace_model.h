/* SPDX-License-Identifier: Apache-2.0
 * trace_model.h - merges the windows of an incident: per rank the records and steps of all its windows,
 * each once, on CLOCK_REALTIME, with one table of names.
 * Owns: everything it holds. Threads: one caller. Trust: windows come from peers; left_out counts records
 * that are not kept (times beyond 2^62 ns, more than TRACE_MODEL_RECORDS_MAX). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/text/intern.h"
#include "model/window.h"

/* 4 M records of 96 bytes: 384 MB, and a Perfetto file of about 200 MB, which its page can still open. */
#define TRACE_MODEL_RECORDS_MAX 4000000u
#define TRACE_MODEL_RANKS_MAX	4096u
#define TRACE_MODEL_NAMES_MAX	1000000u

struct client;

/* In window_step.flags, with WINDOW_STEP_*: the expected latency comes from the node's other ranks, not
 * from the rank's model. */
#define TRACE_STEP_BY_PEERS 0x80000000u
/* The step was slow at another time than the fault of the incident. */
#define TRACE_STEP_APART 0x40000000u

/* Slow and flagged count only steps of the incident's fault; a healthy step was slow at no time. */
static inline bool trace_step_is_slow(const struct window_step *s)
{
	return s->flags & (WINDOW_STEP_OUT | WINDOW_STEP_FLAGGED) && !(s->flags & TRACE_STEP_APART);
}
static inline bool trace_step_is_flagged(const struct window_step *s)
{
	return s->flags & WINDOW_STEP_FLAGGED && !(s->flags & TRACE_STEP_APART);
}
static inline bool trace_step_is_healthy(const struct window_step *s)
{
	return !(s->flags & (WINDOW_STEP_OUT | WINDOW_STEP_FLAGGED));
}

/* Readings of the rank's GPU, from its windows' signals. */
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
	int64_t realtime_offset_ns;   /* of the first window, and of all that agree with it */
	struct record *host, *device; /* after finish: by (begin, end descending), no duplicates */
	size_t host_count, device_count, host_room, device_room;
	struct window_step *steps; /* after finish: by start, no duplicates */
	size_t step_count, step_room;
	struct trace_window *windows;
	size_t window_count, window_room;
	/* CPU stacks of all windows, overlaps once; CLOCK_MONOTONIC of the node */
	struct stack_batch stacks;
	struct trace_span *covered; /* the times of the stacks' windows */
	size_t covered_count, covered_room;
	bool aligned; /* trace_align_apply put it on the other ranks' clock */
	double clock_offset_ns, clock_error_ns; /* how far its clock was ahead of theirs */
	const char *part; /* its part for people: "slow", "healthy peer"; NULL: none. Static */
	const struct client *aggregator; /* gives names; borrowed; NULL: none */
};

struct trace_model {
	/* Set before the first window: keep only records of collectives, which are enough for clocks
	 * and lateness. Records are nearly all of a window. */
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
void trace_model_finish(struct trace_model *m);
/* Marks steps that were slow at another time than the fault (TRACE_STEP_APART). The fault's time is
 * on the nodes' clocks, so call it before trace_align_apply. end 0: not known. */
void trace_model_set_fault(struct trace_model *m, uint64_t begin_unix_ns, uint64_t end_unix_ns);
/* The first one with this number, or NULL. */
struct trace_rank *trace_model_rank(const struct trace_model *m, long rank);
/* trace_align.c: puts the ranks of a finished model on one clock; call it once. CLOCK_REALTIME of nodes
 * differs by milliseconds, but all ranks leave a collective together (analysis/trace/align.h). A rank that
 * shares none with the others keeps its node's clock. A rank's clock_offset_ns is how much its times were
 * shifted, with clock_error_ns. 0, -ENOMEM. */
int trace_align_apply(struct trace_model *m);
/* Keeps only these two ranks, in this order. */
void trace_model_keep(struct trace_model *m, const struct trace_rank *a,
		      const struct trace_rank *b);
/* Index of the host record that launched a device record, or -1. */
ptrdiff_t trace_model_launch(const struct trace_rank *r, const struct record *device);
/* Index of the step with time t on its launch timeline, or -1. Steps tile the timeline. After finish. */
ptrdiff_t trace_model_step_at(const struct trace_rank *r, uint64_t t);
/* The total time of the stacks' windows, overlaps once. */
uint64_t trace_model_covered_ns(const struct trace_rank *r);
