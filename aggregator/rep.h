/* SPDX-License-Identifier: Apache-2.0
 * rep.h - the replying side of SP REQ/REP (nng's wire protocol) on nng's streams, for untrusted
 * peers, in TLS if there are certificates. A connection has one request at a time and a deadline for
 * each message. Senders share connections, message memory and thread time fairly (senders.h).
 * Owns: connections, their buffers, the threads of each lane, one thread that frees connections.
 * Threads: the request function runs on its lane's threads; any thread may call rep_answer; one
 * thread opens and closes. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "aggregator/senders.h"
#include "wire/link/tls.h"

struct rep;

struct rep_request {
	const void *body; /* until rep_answer */
	size_t bytes;
	uint32_t slot;	       /* unique among current requests, below the sum of all slots */
	uint64_t connection;   /* of the request: unique, from 1 */
	uint64_t connected_ns; /* CLOCK_MONOTONIC */
	uint64_t sender;       /* of the connection; unique within this process */
	const struct tls_session *tls; /* has the name that the peer has proven; NULL: plain */
	/* CPU time that other threads spent on it, set before rep_answer; charged to the sender like
	 * that of the request function. */
	uint64_t cost_ns;
};

/* The lane of TLS handshakes. rep itself uses it, only with TLS; its slots are not used. */
#define REP_LANE_SHAKE (SENDERS_LANES - 1)

/* The lane of a request; called on receiving threads. */
typedef int (*rep_lane_fn)(void *arg, const void *body, size_t bytes);
/* A connection has ended, and all of its requests with it. */
typedef void (*rep_gone_fn)(void *arg, uint64_t connection);

struct rep_lane {
	/* requests handled at the same time; further ones wait for their sender's turn */
	uint32_t slots;
	uint32_t threads; /* that run the request function */
	int nice;	  /* of these threads, added to the process's */
};

struct rep_config {
	const char *url; /* tcp:// or ipc://; borrowed during open */
	struct tls *tls; /* for tcp://; NULL: plain; borrowed until the close */
	struct rep_lane lane[SENDERS_LANES];
	rep_lane_fn lane_of;	  /* with rep_open's arg */
	uint32_t connection_max;  /* beyond it, the sender with most connections loses one */
	size_t message_max_bytes; /* a peer that announces more is disconnected */
	/* Memory of all messages that are received or handled; beyond it, the sender that uses most
	 * loses its oldest connection. */
	uint64_t buffer_max_bytes;
	rep_gone_fn gone; /* with rep_open's arg; on rep's own thread; may be NULL */
};

struct rep_stats {
	uint64_t connections; /* now */
	uint64_t waiting;     /* now: requests that wait for their turn */
	uint64_t accepted, broken /* protocol violated, or too large */, overdue, evicted;
	uint64_t shaken;	      /* TLS handshakes that succeeded */
	uint64_t refused[TLS_FAULTS]; /* by TLS, at the start or later */
};

/* Must call rep_answer for q exactly once, at once or later. */
typedef void (*rep_request_fn)(void *arg, struct rep_request *q);

/* 0 or an error of nng (NNG_E...). */
int rep_open(struct rep **out, const struct rep_config *c, rep_request_fn fn, void *arg);
/* Copies data. bytes 0: out of memory for an answer; the peer is disconnected and will ask
 * again. */
void rep_answer(struct rep *r, struct rep_request *q, const void *data, size_t bytes);
/* Call when every request is answered, or will be without the caller. Gives answers grace_ms to go
 * out, disconnects all peers and waits for the threads. NULL is a no-op. */
void rep_close(struct rep *r, uint32_t grace_ms);
void rep_stats(struct rep *r, struct rep_stats *out);
