/* SPDX-License-Identifier: Apache-2.0
 * request.h - requests of a serving job: what a node reports about them, and the record of a
 * request that missed an objective.
 *
 *   arrival --api--> handed over --queue--> scheduled --prefill--> first token --decode--> last token
 *                                                                          \--output--> delivered
 *
 * Times: ns of the node's CLOCK_MONOTONIC; 0: not known. Tokens: counts. Threads: any. Trust: the
 * data comes from the job's processes; the node bounds it. */
#pragma once

#include "model/durations.h"
#include "model/window.h"

enum request_phase {
	REQUEST_PHASE_NONE,
	REQUEST_API,	 /* from its arrival until the API process hands it to the engine */
	REQUEST_QUEUE,	 /* until its first step begins */
	REQUEST_PREFILL, /* until its first token */
	REQUEST_DECODE,	 /* in the steps after that */
	REQUEST_PAUSE,	 /* between these steps, while other requests ran */
	REQUEST_OUTPUT,	 /* from a token until the API process has delivered it */
	/* in decode steps that would not be needed if as many drafts as usual were accepted */
	REQUEST_DRAFTS,
	REQUEST_TRANSFER, /* from its last step in one engine to its first in another */
	REQUEST_PHASES
};
/* "queue" ...; "none" for an unknown number. Static text. */
const char *request_phase_name(unsigned phase);

enum request_objective { REQUEST_TTFT, REQUEST_TPOT, REQUEST_OBJECTIVES };
/* "ttft", "tpot"; "none" for an unknown number. Static text. */
const char *request_objective_name(unsigned objective);

/* Hash of a request's id, given as the text that spans carry: the same in every process. base:
 * leaves out the suffix that an engine appended (base/request_id.h). */
uint64_t request_hash(const char *id, bool base);

/* A step of an engine, as one request sees it. */
struct request_step {
	uint64_t begin_ns, end_ns;
	uint32_t tokens; /* tokens of this request in the step */
	/* step_tokens: of all requests in the step; batch: number of these requests */
	uint32_t step_tokens, batch;
};

#define REQUEST_SPAN_BYTES 64
/* A window about a request covers its slow step and this margin on each side. */
#define REQUEST_MARGIN_NS 50000000ull
struct request_violation {
	uint64_t id;
	uint32_t objective; /* enum request_objective */
	uint32_t phase;	    /* enum request_phase that took most of the time */
	uint32_t prompt_tokens, output_tokens;
	uint64_t arrival_ns, scheduled_ns, first_ns, last_ns;
	/* value_ns: TTFT or TPOT; phase_ns: the part of it in that phase */
	uint64_t value_ns, phase_ns;
	uint64_t objective_ns; /* what value_ns exceeds; 0: not known (an older node) */
	/* the longest step of that phase; begin_ns 0: none; batch 0: it has not ended */
	struct request_step slow;
	char span[REQUEST_SPAN_BYTES]; /* the innermost span that fills most of it; "": none */
};

/* What one node saw of a request that other nodes may have seen too (docs/requests.md,
 * "Instances on different nodes"). Fields as in struct request (analysis/requests/request_table.h).
 * An open piece has only id, serial and flags. */
/* clang-format off */
#define REQUEST_PIECE_TIMES(X) \
	X(arrival_ns) X(handed_ns) X(queued_ns) X(scheduled_ns) X(first_ns) X(last_ns) X(ended_ns) \
	X(delivered_first_ns) X(delivered_last_ns)
#define REQUEST_PIECE_SUMS(X) \
	X(prefill_ns) X(decode_ns) X(pause_ns) X(transfer_ns)
#define REQUEST_PIECE_COUNTS(X) \
	X(prompt_tokens) X(prefill_tokens) X(delivered_tokens) X(output_tokens) X(prefill_steps) \
	X(decode_steps)
/* clang-format on */
#define REQUEST_TOKENS_MAX   100000000u
#define REQUEST_PIECE_NS_MAX 3600000000000ull /* longest sum of times, and longest step */
enum { REQUEST_PIECE_STEPS = 4 };
enum request_piece_flag {
	/* the request goes on; a piece with the same serial will replace this one */
	REQUEST_PIECE_OPEN = 1,
	REQUEST_PIECE_LOST = 2,	   /* the request has no end on this node */
	REQUEST_PIECE_COUNTED = 4, /* the node's beats have counted its arrival */
	REQUEST_PIECE_SHARED = 8,  /* two requests of the node had its id at once */
};
struct request_piece {
	uint64_t id, serial; /* serial: number given by the node */
	uint32_t flags;	     /* enum request_piece_flag */
#define X(f) uint64_t f;
	REQUEST_PIECE_TIMES(X)
	REQUEST_PIECE_SUMS(X)
#undef X
#define X(f) uint32_t f;
	REQUEST_PIECE_COUNTS(X)
#undef X
	/* the longest: prefill and decode step, pause, transfer; begin_ns 0: none */
	struct request_step longest[REQUEST_PIECE_STEPS];
};

/* Pieces of one job in a beat. */
#define REQUEST_PIECES_MAX 1024u
struct request_pieces {
	char job[WIRE_TEXT_BYTES];
	uint64_t ttft_ns, tpot_ns; /* the node's objectives */
	struct request_piece *piece;
	uint32_t count; /* at most REQUEST_PIECES_MAX */
};

struct request_counts {
	uint64_t arrived, ended, lost;
	uint64_t judged[REQUEST_OBJECTIVES], violated[REQUEST_OBJECTIVES];
	uint64_t violations_dropped; /* violations that are counted, but had no room for a record */
};
void request_counts_add(struct request_counts *to, const struct request_counts *from);

/* What one node reports about one job's requests in a beat: counts since the beat before. */
#define REQUEST_VIOLATIONS_MAX 8u
struct request_job {
	char job[WIRE_TEXT_BYTES];
	uint32_t running, waiting; /* now */
	uint64_t oldest_wait_ns;   /* how long the oldest waiting request has waited; 0: none */
	struct request_counts counts;
	struct durations ttft, tpot, queue;
	struct request_violation violation[REQUEST_VIOLATIONS_MAX];
	uint32_t violation_count;
};

/* Computes the anomaly_id for windows about a violation. Violations with the same objective, phase
 * and span in one job are one incident, so they have the same id on every node. */
void request_anomaly(const char *job, const struct request_violation *v, uint8_t id[16]);
