/* SPDX-License-Identifier: Apache-2.0
 * request_table_private.h - what request_table.c (which requests there are, and their verdicts),
 * request_table_steps.c (what a process's spans say about them) and request_pieces.c share. */
#pragma once

#include "base/idmap.h"
#include "analysis/requests/request_table.h"

/* Requests in open spans of one process: a batch has at most a few thousand. A power of two. */
#define PARTS_MAX 4096u
/* The latest steps of an engine, among which we look for a slow one: more than a minute of 20 ms
 * steps. */
#define STEPS_MAX  4096u
#define TOKENS_MAX REQUEST_TOKENS_MAX

struct part {
	uint64_t begin_ns, id;
	uint32_t name, thread, tokens;
	/* age: its number in order of arrival; below: the age of the part below it in the thread's
	 * stack. */
	uint32_t age, below;
	bool done, open; /* open: its span has not ended */
};

/* What is known of a process that names requests. */
struct request_engine {
	/* names of the spans that plan steps, and that take their results; 0: not known */
	uint32_t plan, result;
	uint32_t release;		     /* name of the spans that end requests; 0: not known */
	uint64_t planned_ns;		     /* start of the latest planned step */
	uint32_t planned;		     /* steps planned so far, while no span takes results */
	struct request_step step[STEPS_MAX]; /* ring */
	uint32_t steps;			     /* ever */
	/* The latest parts: a ring. The spans of a thread nest, so its open parts form a stack. */
	struct part part[PARTS_MAX];
	uint32_t parts;	  /* ever; wraps */
	struct idmap top; /* thread -> place of its latest open part; no entry: it has none */
};

struct request_list {
	uint32_t first, last, count; /* 1 + index; oldest first */
};

/* Sums over requests that met their objective for TPOT. Older requests count less. tokens: without
 * the first token of each request. */
struct request_usual {
	double requests, tokens, decode_steps, decode_ns;
};

struct request_job_state {
	char name[WIRE_TEXT_BYTES]; /* "": free */
	uint64_t salt;
	uint32_t processes, ended_processes;
	struct request_list open, ending, ended;
	struct request_stats stats;
	struct request_usual usual;
	struct request_job beat; /* what the next beat reports */
	bool used;		 /* it had a request */
	uint64_t moved_ns;	 /* time of its latest step or delivery, as now_ns */
	bool has_client;	 /* an API process's pieces have come */
	uint64_t pieces_until_ns;
	struct request_piece *piece; /* REQUEST_PIECES_MAX that wait for a beat, or NULL */
	/* pieces_sent: how many of the first ones were sent, but are not known to have arrived */
	uint32_t pieces, pieces_sent;
};

/* What nodes saw of one request. */
struct request_seen {
	uint32_t count, node[REQUEST_PIECES];
	struct request_piece piece[REQUEST_PIECES];
	bool believed; /* one of the nodes is believed */
};

/* Fills an empty request; open pieces are ignored. */
void request_pieces_join(const struct request_seen *s, struct request *r);
/* Whether the pieces belong to several requests with the same id, because more than one node both
 * computed the prompt and generated tokens. */
bool request_pieces_collide(const struct request_seen *s);
/* The pieces in the order in which the request reached their nodes. */
void request_pieces_order(const struct request_seen *s, uint32_t order[REQUEST_PIECES]);

struct request_table {
	struct request_config config;
	struct request_seen *seen; /* parallel to request, if the table joins */
	size_t seen_room;
	uint32_t strangers; /* open requests that no believed node has */
	uint64_t serial;    /* the latest */
	request_violation_fn fn;
	void *arg;
	struct request *request;
	size_t room;
	uint32_t count, free; /* free: 1 + index of the first free place, linked by next */
	uint32_t open, ended; /* of all jobs */
	uint64_t now_ns;      /* of the latest tend */
	struct request_step
	    still; /* in judge_overdue: the time since the last step; otherwise begin_ns is 0 */
	struct idmap by_id;
	struct request_job_state job[LIMIT_NODE_PROCESSES];
	uint32_t job_of[LIMIT_NODE_PROCESSES]; /* 1 + index; 0: no such process */
	/* the process has ended, but still belongs to its job */
	bool ended_process[LIMIT_NODE_PROCESSES];
	struct request_engine *engine[LIMIT_NODE_PROCESSES]; /* NULL until it names a request */
	struct part own[PARTS_MAX];			     /* scratch: the parts of one span */
};

/* Finds or makes the request. process: the engine that names it, or REQUEST_NO_PROCESS. NULL: the
 * request has ended and this update is late, or there is no memory. */
struct request *request_table_get(struct request_table *t, uint32_t job, uint64_t id,
				  uint32_t process);
/* Call after a change of the request: keeps its list in order, and judges what can be judged. */
void request_table_touch(struct request_table *t, struct request *r);
/* The request runs in this process now, perhaps again after an end. */
void request_table_run(struct request_table *t, struct request *r, uint32_t process);
/* The request has ended, but updates may still come. */
void request_table_finish(struct request_table *t, struct request *r, uint64_t t_ns);
/* Ends those requests of the process of which only a span with the name `mark` was seen. */
void request_table_end_marked(struct request_table *t, uint32_t process, uint32_t mark);

/* Inserts a step into a list of the REQUEST_SLOWEST longest steps, longest first. */
void request_table_keep_longest(struct request_step *list, const struct request_step *s);
/* Makes a piece of what the table knows about the request. */
void request_pieces_of(const struct request *r, struct request_piece *out);

/* The longest of the engine's steps that overlap that time; begin_ns 0: none. e: may be NULL. */
struct request_step request_table_longest(const struct request_engine *e, uint64_t begin_ns,
					  uint64_t end_ns);
