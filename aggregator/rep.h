/* SPDX-License-Identifier: Apache-2.0
 * rep.h - the answering side of SP REQ/REP (nng's wire protocol) over nng's streams, for peers that
 * are not trusted: a connection has one request at a time, a deadline for each message, and a place
 * that a newcomer may take while it is idle.
 * Owns: connections, their buffers, one thread that frees them. Threads: the request function runs
 * on nng's; rep_answer from any; open and close from one. */
#ifndef SYSOM_AGGREGATOR_REP_H
#define SYSOM_AGGREGATOR_REP_H

#include <stddef.h>
#include <stdint.h>

struct rep;

struct rep_request {
	const void *body; /* until rep_answer */
	size_t bytes;
	uint32_t slot; /* below slot_count; no other request has it meanwhile */
	uint64_t connection; /* by which it came: a number from 1 on that no other one gets */
	uint64_t connected_ns; /* CLOCK_MONOTONIC */
};

/* A connection has ended, and all of its requests with it. */
typedef void (*rep_gone_fn)(void *arg, uint64_t connection);

struct rep_config {
	const char *url;	  /* tcp://, tls+tcp:// or ipc://; borrowed during open */
	uint32_t slot_count;	  /* requests handled at a time; further ones wait, in order */
	uint32_t connection_max;  /* one more takes the place of the one that is idle for longest */
	size_t message_max_bytes; /* a peer that announces more is hung up on */
	uint64_t buffer_max_bytes; /* of all messages that are coming in or being handled */
	rep_gone_fn gone;	   /* with rep_open's arg; on nng's threads, or rep_answer's; may be NULL */
};

struct rep_stats {
	uint64_t connections;	  /* now */
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
