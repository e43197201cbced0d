/* SPDX-License-Identifier: Apache-2.0
 * registry.h - the live objects of the process: communicators, streams, contexts and captured
 * graphs, and the instance counters of collectives. Fixed tables, no locks, no allocation; what
 * does not fit is reported as unknown. Updated in the states ON and OFF alike, so that the counters
 * of all ranks agree. Repeated to each sysomd that attaches.
 * Threads: any; restate only by the helper. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "foreign/cuda.h"
#include "foreign/nccl.h"
#include "ring/ring_format.h"

#define REGISTRY_SEQ_UNKNOWN UINT32_MAX
#define REGISTRY_FUNCS	     16 /* event_coll_func values below COLL_GROUP_START */

struct registry_comm {
	uint64_t handle; /* 0: free, 1: removed */
	uint64_t id, parent;
	int32_t nranks, rank;
	uint16_t action, color;
	uint32_t generation; /* of the entry: an old template must not advance a new communicator's
			      * counters */
	uint32_t split_ordinal, shrink_ordinal;
	uint32_t counters[REGISTRY_FUNCS];
};

/* ---- communicators ---- */
/* Adds a new (or newly seen) communicator, and replaces an entry of the same handle. NULL: no
 * room. */
struct registry_comm *registry_comm_add(uint64_t handle, uint64_t id, uint64_t parent,
					int32_t nranks, int32_t rank, uint16_t action,
					uint16_t color);
struct registry_comm *registry_comm_find(uint64_t handle);
void registry_comm_remove(struct registry_comm *comm);
/* The instance counter of (comm, func), or for point to point of (comm, peer, direction). NULL: no
 * room. */
uint32_t *registry_counter(struct registry_comm *comm, uint8_t func, int peer);
/* Whether any collective was counted. */
bool registry_collected(void);

/* ---- streams and contexts ---- */
void registry_stream_add(const struct event_stream *event);
void registry_stream_remove(uint64_t stream);

/* ---- numbers of launches ---- */
/* Counts one stream's launches from where none were lost yet: RING_NUMBER. */
struct registry_launches {
	uint64_t key;
	uint32_t count;
	uint32_t epoch;		/* not 0: earlier launches may be uncounted */
} __attribute__((aligned(64))); /* threads launch on different streams */
/* The stream was just made or is about to be destroyed: its launches count from the beginning.
 * Nobody launches on it now. */
void registry_launches_begin(uint64_t stream);
void registry_launches_end(uint64_t stream);
/* The counter of a stream made since tracing began, or of a context's default stream. We may have
 * seen the latter from its start (epoch 0), or only after launches. NULL: unknown, or no room. */
struct registry_launches *registry_launches_of_stream(uint64_t stream);
struct registry_launches *registry_launches_of_context(uint64_t context, uint32_t epoch);
/* Whether any launch was counted. */
bool registry_launched(void);

static inline uint32_t registry_launch_number(struct registry_launches *l)
{
	return l ? RING_NUMBER(l->epoch, __atomic_add_fetch(&l->count, 1, __ATOMIC_RELAXED)) : 0;
}

/* ---- graphs ---- */
/* Captures in progress in this process. */
extern uint32_t registry_captures_active;
/* A capture began; driver_id: the driver's id. Returns the capture's ordinal in the process, from
 * 1. Ranks that run the same program get the same ordinal. */
uint64_t registry_capture_begin(uint64_t driver_id);
uint64_t registry_capture_find(uint64_t driver_id);
/* The capture ended and made a graph (0: failed). Returns its ordinal, 0 unknown. */
uint64_t registry_capture_end(uint64_t driver_id, uint64_t graph);
/* A collective was captured: counts it in the template. Returns its ordinal in the template. */
uint32_t registry_capture_count(uint64_t ordinal, struct registry_comm *comm, uint32_t *counter);
/* graph -> exec. Returns the capture's ordinal, 0 unknown. */
uint64_t registry_graph_instantiate(uint64_t graph, uint64_t exec);
/* exec now has the nodes of another graph; its replays continue counting. */
uint64_t registry_graph_update(uint64_t graph, uint64_t exec);
uint64_t registry_exec_destroy(uint64_t exec);
/* A replay: advances the counters of the communicators in the template. Returns the number of the
 * exec's replay, from 0; *capture is the template. */
uint32_t registry_graph_launch(uint64_t exec, uint64_t *capture);

/* Pushes an event for each communicator, stream and instantiated graph. */
void registry_restate(void (*push)(const void *event), uint64_t now_ticks);
