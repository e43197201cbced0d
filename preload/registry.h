/* SPDX-License-Identifier: Apache-2.0
 * registry.h - what the process has alive: communicators, streams, contexts, captured graphs, and
 * the instance counters of collectives. Fixed tables, no locks, no allocation; what does not fit is
 * told as unknown. Kept in ON and OFF alike, so that the counters of all ranks agree; restated to
 * each sysomd that attaches.
 * Threads: any, but restate, which is the helper's. */
#ifndef SYSOM_PRELOAD_REGISTRY_H
#define SYSOM_PRELOAD_REGISTRY_H

#include <stdbool.h>
#include <stdint.h>

#include "foreign/cuda.h"
#include "foreign/nccl.h"
#include "ring/ring_format.h"

#define REGISTRY_SEQ_UNKNOWN UINT32_MAX
#define REGISTRY_FUNCS	     16 /* event_coll_func values below COLL_GROUP_START */

struct registry_comm {
	uint64_t handle; /* 0 free, 1 was used */
	uint64_t id, parent;
	int32_t nranks, rank;
	uint16_t action, color;
	uint32_t generation; /* of the entry: an old template must not count on its successor */
	uint32_t split_ordinal, shrink_ordinal;
	uint32_t counters[REGISTRY_FUNCS];
};

/* ---- communicators ---- */
/* A new (or newly seen) communicator; an entry of the same handle is replaced. NULL: no room. */
struct registry_comm *registry_comm_add(uint64_t handle, uint64_t id, uint64_t parent,
					int32_t nranks, int32_t rank, uint16_t action,
					uint16_t color);
struct registry_comm *registry_comm_find(uint64_t handle);
void registry_comm_remove(struct registry_comm *comm);
/* The counter of an instance: of (comm, func), or of (comm, peer, direction) for point to point.
 * NULL: no room. */
uint32_t *registry_counter(struct registry_comm *comm, uint8_t func, int peer);

/* ---- streams and contexts ---- */
void registry_stream_add(const struct event_stream *event);
void registry_stream_remove(uint64_t stream);

/* ---- numbers of launches ---- */
/* Of one stream, counted where nothing is lost yet: RING_NUMBER. */
struct registry_launches {
	uint64_t key;
	uint32_t count;
	uint32_t epoch; /* not 0: launches may have gone uncounted before */
} __attribute__((aligned(64))); /* threads launch on different streams */
/* A stream was made, or is about to go: its launches count from the beginning. Nobody launches on it. */
void registry_launches_begin(uint64_t stream);
void registry_launches_end(uint64_t stream);
/* Of a stream that was made since tracing began; of a context's default stream, seen now (epoch 0) or
 * launched on before anybody told of it. NULL: not known, no room. */
struct registry_launches *registry_launches_of_stream(uint64_t stream);
struct registry_launches *registry_launches_of_context(uint64_t context, uint32_t epoch);
/* Has any been counted? */
bool registry_launched(void);

static inline uint32_t registry_launch_number(struct registry_launches *l)
{
	return l ? RING_NUMBER(l->epoch, __atomic_add_fetch(&l->count, 1, __ATOMIC_RELAXED)) : 0;
}

/* ---- graphs ---- */
/* Captures in progress in this process. */
extern uint32_t registry_captures_active;
/* A capture began; driver_id: the driver's. Returns its ordinal in the process, from 1: ranks that
 * run the same program give the same. */
uint64_t registry_capture_begin(uint64_t driver_id);
uint64_t registry_capture_find(uint64_t driver_id);
/* It ended and made a graph (0: failed). Returns its ordinal, 0 unknown. */
uint64_t registry_capture_end(uint64_t driver_id, uint64_t graph);
/* A collective was captured: counts it in the template. Returns its ordinal there. */
uint32_t registry_capture_count(uint64_t ordinal, struct registry_comm *comm, uint32_t *counter);
/* graph -> exec. Returns the capture's ordinal, 0 unknown. */
uint64_t registry_graph_instantiate(uint64_t graph, uint64_t exec);
/* The exec has taken over another graph's nodes; its replays go on counting. */
uint64_t registry_graph_update(uint64_t graph, uint64_t exec);
uint64_t registry_exec_destroy(uint64_t exec);
/* A replay: advances the counters of the communicators in the template. Returns which replay of the
 * exec it is, from 0; *capture its template. */
uint32_t registry_graph_launch(uint64_t exec, uint64_t *capture);

/* Pushes an event for each communicator, stream and instantiated graph. */
void registry_restate(void (*push)(const void *event), uint64_t now_ticks);

#endif
