/* SPDX-License-Identifier: Apache-2.0
 * live_node.h - runs sysomd's code for one node of a job, with records from traces instead of rings: the
 * same ranks, windows, beats and sketches (sidecar/), at the traces' time. As in a live run, a launch is
 * known at once, a kernel 300 ms after its end, and a step is judged when device records are a second past
 * it. Owns: what it keeps. Threads: one caller. Trust: traces are hostile; loaded ones are bounded. */
#pragma once

#include "analysis/slow/peers.h"
#include "cli/replay/replay_load.h"
#include "wire/codec.h"

/* A rank's trace on the node's clock. */
struct live_trace {
	const struct replay_trace *trace; /* borrowed */
	struct record *calls;		  /* RECORD_COMM and RECORD_COLL, by time; borrowed */
	size_t call_count;
	int32_t rank, world_size;
	bool marks; /* use the trace's marks */
};

struct live_node_sink { /* takes what would go to the aggregator; borrowed for the call */
	void (*window)(void *arg, const struct window *w, size_t bytes);
	void (*beat)(void *arg, const struct beat *b);
	void (*sketch)(void *arg, const struct sketch *s, const struct buf *packed);
	void *arg;
};

struct live_node; /* opaque */
/* realtime_offset_ns: added to the node's clock for Unix time. 0, -ENOMEM. */
int live_node_open(struct live_node **out, const char *name, int64_t realtime_offset_ns,
		   enum peers_mode mode, const struct live_node_sink *sink);
void live_node_close(struct live_node *n); /* NULL is a no-op */
/* Only before the first turn; at most LIMIT_NODE_PROCESSES ranks. 0, -ENOMEM, -ENOSPC. */
int live_node_add(struct live_node *n, const struct live_trace *t, uint64_t now_ns);
/* Handles all records until now_ns, on the node's clock. 0; -ENOMEM: something was left out. */
int live_node_turn(struct live_node *n, uint64_t now_ns);
/* Handles the rest of all traces, and what is still open. */
int live_node_finish(struct live_node *n, uint64_t now_ns);
/* Time of the next record, on the node's clock; UINT64_MAX: none. */
uint64_t live_node_next_ns(const struct live_node *n);
void live_node_command(struct live_node *n, const struct wire_command *c, uint64_t now_ns);
/* Adds up the steps and flagged steps of all ranks. */
void live_node_steps(const struct live_node *n, uint64_t *steps, uint64_t *flagged);
