/* SPDX-License-Identifier: Apache-2.0
 * rep.h - the answering side of SP REQ/REP (nng's wire protocol) over nng's streams, for peers that
 * are not trusted: a connection has one request at a time and a deadline for each message; room for
 * connections and messages, and the time of the threads that handle requests, are shared fairly among
 * senders (senders.h).
 * Owns: connections, their buffers, the threads of each lane, one thread that frees connections.
 * Threads: the request function runs on its lane's; rep_answer from any; open and close from one. */
#ifndef SYSOM_AGGREGATOR_REP_H
#define SYSOM_AGGREGATOR_REP_H

#include <stddef.h>
#include <stdint.h>

#include "aggregator/senders.h"

struct rep;

struct rep_request {
	const void *body; /* until rep_answer */
	size_t bytes;
	uint32_t slot; /* below the sum of all slots; no other request has it meanwhile */
	uint64_t connection; /* by which it came: a number from 1 on that no other one gets */
	uint64_t connected_ns; /* CLOCK_MONOTONIC */
	uint64_t sender;       /* whose connection: the same for all of one sender's; of this process */
	/* Time that others spent on it, set before rep_answer: the sender's, as is that of the function. */
	uint64_t cost_ns;
};

/* In which lane it waits, of the threads that receive. */
typedef int (*rep_lane_fn)(void *arg, const void *body, size_t bytes);
/* A connection has ended, and all of its requests with it. */
typedef void (*rep_gone_fn)(void *arg, uint64_t connection);

struct rep_lane {
	uint32_t slots;	  /* requests handled at a time; further ones wait for their sender's turn */
	uint32_t threads; /* that run the function */
	int nice;	  /* of these threads, above the process's */
};

struct rep_config {
	const char *url;	  /* tcp://, tls+tcp:// or ipc://; borrowed during open */
	struct rep_lane lane[SENDERS_LANES];
	rep_lane_fn lane_of;	  /* with rep_open's arg */
	uint32_t connection_max;  /* one more takes a place of the sender that has most of them */
	size_t message_max_bytes; /* a peer that announces more is hung up on */
	/* Of all messages that are coming in or being handled; above it the sender that has most of them
	 * loses its oldest. */
	uint64_t buffer_max_bytes;
	rep_gone_fn gone; /* with rep_open's arg; on rep's own thread; may be NULL */
};

struct rep_stats {
	uint64_t connections;	  /* now */
	uint64_t waiting;	  /* now: requests that wait for their turn */
	uint64_t accepted, broken /* not the protocol, or too large */, overdue, evicted;
};

/* Must lead to exactly one rep_answer of q, from within or later. */
typedef void (*rep_request_fn)(void *arg, struct rep_request *q);

/* 0 or what nng says (NNG_E...). */
int rep_open(struct rep **out, const struct rep_config *c, rep_request_fn fn, void *arg);
/* Copies data; bytes 0: no memory for an answer, the peer is hung up on and asks again elsewhere. */
void rep_answer(struct rep *r, struct rep_request *q, const void *data, size_t bytes);
/* Once every request is answered or going to be without help of the caller. Gives answers grace_ms
 * to leave, hangs up on everybody and waits. NULL is a no-op. */
void rep_close(struct rep *r, uint32_t grace_ms);
void rep_stats(struct rep *r, struct rep_stats *out);

#endif
