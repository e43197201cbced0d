/* SPDX-License-Identifier: Apache-2.0
 * request_table.h - the requests of a node's serving jobs, from the spans of their processes: when
 * each one arrived, was scheduled, had its first and last token, and in which steps.
 *
 * Input: spans that name a request (a span "about" it), and the requests that a span of a step
 * handles (RECORD_SPAN_REQUEST, "parts"), of all processes of a job. By kind of process
 * (base/span_kind.h):
 * - api, router: the first span about a request is its arrival, and the one that ends first hands it
 *   to the engine; a part with tokens is what was delivered.
 * - engine: the first span about it shows when the engine got it, and the tokens of its prompt; a
 *   later one shows its end, and the tokens that it generated.
 *   Its parts are its steps. An engine may name a request twice per step, in a span that plans the
 *   step and in one that takes its result. The step then lasts from the start of the first to the
 *   end of the second, without the part that overlaps the step before.
 * - other kinds are not used.
 * A part that is done ends the request, in any process.
 *
 * If two engines seem to have the same request at once, these are two requests with one id. The
 * sign is that one engine has steps of the id both before and after the other engine's first step.
 *
 * The first token comes at the end of the step in which the prompt is finished: all of its tokens
 * were scheduled, or (after a hit in a prefix cache, or if the prompt is not known) the next step
 * has one token.
 *
 * Owns: all of its memory, bounded. Threads: one caller; time is an argument. Trust: the processes
 * are hostile. Bounds: LIMIT_NODE_REQUESTS open requests; beyond it, the job with the most open
 * requests loses the one whose latest update is oldest. REQUEST_ENDED_MAX ended requests.
 * Everything left out is counted. */
#pragma once

#include <stdbool.h>

#include "base/limits.h"
#include "model/request.h"

#define REQUEST_ENDED_MAX  4096u /* shown by `sysom requests ID` */
#define REQUEST_OPEN_STEPS 4u	 /* steps of one request that are planned and have no result yet */
#define REQUEST_SLOWEST	   3u
#define REQUEST_NO_PROCESS LIMIT_NODE_PROCESSES
#define REQUEST_PIECES	   4u /* of one request: more than its instances and API process need */

struct request_config {
	uint64_t ttft_ns, tpot_ns; /* the objectives */
	/* how long to wait for the records of other processes before a request is judged */
	uint64_t settle_ns;
	uint64_t silent_ns; /* an open request without an update for this long is lost */
	/* If a job's engines have made no step for this long (and for the objective), they do
	 * nothing, and its requests without a token are judged. Too short: a request is judged
	 * during a long step, before the step can be named. */
	uint64_t stall_ns;
	uint32_t open_max; /* open requests: LIMIT_NODE_REQUESTS, or less */
	bool joins;	   /* gets pieces of requests instead of spans */
};
void request_config_default(struct request_config *c);

enum request_state { REQUEST_WAITING, REQUEST_RUNNING, REQUEST_ENDING, REQUEST_ENDED };

struct request {
	uint64_t id, serial;   /* serial: ascends, even across a restart of the program */
	uint32_t job, process; /* process: slot of its engine, or REQUEST_NO_PROCESS */
	uint64_t arrival_ns, handed_ns, queued_ns, scheduled_ns, first_ns, last_ns, ended_ns;
	/* when the API process delivered its first and its last token */
	uint64_t delivered_first_ns, delivered_last_ns;
	/* when the API process last handed it to an engine; an end before that time does not count */
	uint64_t handed_last_ns;
	/* on this node's clock: the time of the latest update, and when first_ns and ended_ns
	 * became known */
	uint64_t updated_ns, first_known_ns, ended_known_ns;
	uint32_t prompt_tokens; /* 0: not known */
	uint32_t prefill_tokens, delivered_tokens;
	uint32_t output_tokens; /* as the engine reports at its end; 0: not reported */
	uint32_t prefill_steps, decode_steps;
	/* prefill_ns, decode_ns: in its steps; pause_ns: between its decode steps */
	uint64_t prefill_ns, decode_ns, pause_ns;
	uint64_t transfer_ns; /* between two engines */
	struct request_step prefill[REQUEST_SLOWEST], decode[REQUEST_SLOWEST]; /* longest first */
	struct request_step pause;    /* the longest time between two of its steps in one engine */
	struct request_step transfer; /* the longest time between two engines */
	struct request_step open[REQUEST_OPEN_STEPS];
	uint8_t open_count, state; /* enum request_state */
	bool lost;		   /* its engine ended, or no update came */
	/* stepped: the engine of its latest step; left: the engine that it was in before that one;
	 * REQUEST_NO_PROCESS: none */
	uint32_t stepped, left;
	uint64_t moved_ns; /* start of its first step in `stepped` after it left `left` */
	bool shared;	   /* two requests had its id at once */
	uint32_t mark;	   /* name of the span with which its engine got it; 0: not seen */
	uint8_t counted;   /* number of nodes whose beats have counted its arrival */
	bool announced;	   /* a beat has reported it as open; the aggregator judges it */
	/* The clocks of two nodes disagree, so the time between their engines is not known. */
	bool clock_unknown;
	bool judged[REQUEST_OBJECTIVES], violated[REQUEST_OBJECTIVES];
	uint32_t before, next; /* neighbours in its list; 1 + index, 0: none */
};
/* 0: not known. */
uint64_t request_ttft_ns(const struct request *r);
/* Per token after the first; 0: not known, or only one token. */
uint64_t request_tpot_ns(const struct request *r);
uint32_t request_output_tokens(const struct request *r);
/* When the client had the first and the last token; if no delivery was seen, when the engine had
 * them. */
uint64_t request_first_ns(const struct request *r);
uint64_t request_last_ns(const struct request *r);
/* Divides the time to the first token, or the time from then to the last token, among the
 * phases. REQUEST_PHASE_NONE gets what belongs to no known phase, so the parts add up. If steps
 * and pauses lie partly outside of that time, both are shortened in proportion. All 0: the time
 * is not known. */
void request_parts(const struct request *r, enum request_objective objective,
		   uint64_t ns[REQUEST_PHASES]);

struct request_stats {
	uint64_t arrived, ended, lost; /* lost: closed without an end (request.lost) */
	/* ended, but not judged, because the arrival was not seen, or because the API process's
	 * piece is missing in a joined job */
	uint64_t partial;
	uint64_t evicted;  /* open requests dropped for lack of room */
	uint64_t repeated; /* ids used again */
	uint64_t shared;   /* ended, but not judged, because several requests had the id at once */
	uint64_t bad;	   /* impossible times or counts; they are left out */
	uint64_t parts_lost; /* parts without their span, or dropped for lack of room */
	uint64_t joined;     /* ended requests that several nodes saw */
	uint64_t unbelieved; /* ended, but not judged, because no believed node saw them */
	uint64_t judged[REQUEST_OBJECTIVES], violated[REQUEST_OBJECTIVES];
};

struct record;
struct request_table;
/* Called from within request_table_record, _end or _tend. process: slot of the engine, or
 * REQUEST_NO_PROCESS. v: its span is empty; the function may fill it. */
typedef void (*request_violation_fn)(void *arg, const char *job, uint32_t process,
				     struct request_violation *v);

int request_table_open(struct request_table **out, const struct request_config *c,
		       request_violation_fn fn, void *arg); /* 0, -ENOMEM */
void request_table_close(struct request_table *t);	    /* NULL is a no-op */
/* A process of a job begins in a free slot (below LIMIT_NODE_PROCESSES). 0, -ENOMEM. */
int request_table_begin(struct request_table *t, uint32_t process, const char *job);
/* The process has ended. The requests that its engine was working on are lost. If it was the job's
 * last process, all open requests are lost. */
void request_table_end(struct request_table *t, uint32_t process, uint64_t now_ns);
/* Frees the slot. If it held the job's last process, the job's requests are dropped too. */
void request_table_drop(struct request_table *t, uint32_t process);
/* A host record of a process; only spans of a catalogue are used. */
void request_table_record(struct request_table *t, uint32_t process, const struct record *r);
/* Call a few times a second. */
void request_table_tend(struct request_table *t, uint64_t now_ns);

/* The next request, open or ended, of any job; NULL: no more. *at: 0 at first. Valid until the next
 * call. */
const struct request *request_table_next(const struct request_table *t, uint32_t *at);
const char *request_table_job(const struct request_table *t, const struct request *r);
/* Fills the job's part of a beat with everything new since the last call. If the beat does not
 * arrive, the caller gives the part back, and its content counts as new again. at: a job's place,
 * below LIMIT_NODE_PROCESSES. False: the place has no job, or the job never had a request. */
bool request_table_take(struct request_table *t, uint32_t at, uint64_t now_ns,
			struct request_job *out);
void request_table_give_back(struct request_table *t, const struct request_job *r);

/* ---- a request whose instances are on different nodes ---- */

/* Until until_ns the table makes pieces of the requests of the process's job. During that time the
 * aggregator judges these requests, not the table. */
void request_table_forward(struct request_table *t, uint32_t process, uint64_t until_ns);
/* The pieces that wait for a beat, of the job at that place, oldest first; NULL: none. Valid until
 * the next call. */
const struct request_piece *request_table_pieces(const struct request_table *t, uint32_t at,
						 const char **job, uint32_t *count);
/* A beat contains the first `count` pieces. They stay in the table until the beat has arrived. */
void request_table_sent(struct request_table *t, uint32_t at, uint32_t count);
void request_table_arrived(struct request_table *t); /* All sent pieces have arrived. */

/* In a table that joins: adds a piece of a request of the process's job. The request ends when none
 * of its pieces is open, and is judged settle_ns later if one of its nodes is believed. Requests
 * that no believed node has get at most half of the room. Returns true if several nodes have the
 * request, and at least one of them is believed. */
bool request_table_join(struct request_table *t, uint32_t process, uint32_t node, bool believed,
			const struct request_piece *p);
/* The node's sysomd has restarted. Drops its open pieces, because later pieces will not replace
 * them. */
void request_table_leave(struct request_table *t, uint32_t node);
void request_table_objectives(struct request_table *t, uint64_t ttft_ns, uint64_t tpot_ns);
/* Whether its pieces belong to several requests that had the same id at once. Then it is not judged. */
bool request_table_collides(const struct request_table *t, const struct request *r);
/* Whether the piece with its arrival is missing, although an API process sent the job's other
 * requests. */
bool request_table_is_orphan(const struct request_table *t, const struct request *r);
/* The nodes of its pieces, each once, in the order in which the request reached them. */
uint32_t request_table_nodes(const struct request_table *t, const struct request *r,
			     uint32_t node[REQUEST_PIECES]);
/* Whether no request is open or waits to be judged. */
bool request_table_is_idle(const struct request_table *t);
/* The request with that id of the process's job; NULL: none. */
const struct request *request_table_find(const struct request_table *t, uint32_t process,
					 uint64_t id);

/* Sums since request_table_open, of the job at that place. NULL: no such job, or it had neither a
 * request nor a part of one. */
const struct request_stats *request_table_stats(const struct request_table *t, uint32_t at,
						const char **job);
