/* SPDX-License-Identifier: Apache-2.0
 * registry.c - fixed open-addressed tables claimed by CAS. An insert writes the handle last
 * (release) and a look-up reads it first (acquire). Removal leaves a tombstone, so that probing
 * continues. */
#include "preload/registry.h"

#include <string.h>

#include "base/hash.h"

#define REGISTRY_COMMS	   256 /* a large job has some tens */
#define REGISTRY_PROBES	   32
#define REGISTRY_PEERS	   8192 /* (communicator, peer, direction) pairs */
#define REGISTRY_STREAMS   1024
#define REGISTRY_CONTEXTS  64
#define REGISTRY_CAPTURES  16	/* captures in progress at one time */
#define REGISTRY_TEMPLATES 1024 /* captured graphs; vLLM makes about 70 */
#define REGISTRY_TERMS	   12	/* (communicator, function, peer) per template */
#define REGISTRY_EXECS	   4096
#define REGISTRY_GONE	   1ull

static struct registry_comm registry_comms[REGISTRY_COMMS];
static struct {
	uint64_t key;
	uint32_t count, pad;
} registry_peers[REGISTRY_PEERS];
static struct {
	uint32_t used; /* 0 free, 1 being filled, 2 valid */
	struct event_stream event;
} registry_streams[REGISTRY_STREAMS];

static struct registry_launches registry_stream_launches[REGISTRY_STREAMS];
static struct registry_launches registry_context_launches[REGISTRY_CONTEXTS];

struct registry_term {
	struct registry_comm *comm;
	uint32_t generation, count;
	uint32_t *counter;
};
static struct {
	uint64_t graph;
	uint32_t term_count;
	struct registry_term terms[REGISTRY_TERMS];
} registry_templates[REGISTRY_TEMPLATES]; /* by ordinal - 1 */
static struct {
	uint64_t driver_id, ordinal;
} registry_captures[REGISTRY_CAPTURES];
static struct registry_exec {
	uint64_t exec, graph, capture;
	uint32_t replays;
} registry_execs[REGISTRY_EXECS];

uint32_t registry_captures_active;
static uint64_t registry_capture_last;
static uint32_t registry_generation;

/* ---- communicators ---- */

struct registry_comm *registry_comm_find(uint64_t handle)
{
	uint64_t at = hash_mix(handle);

	for (unsigned i = 0; i < REGISTRY_PROBES; i++) {
		struct registry_comm *c = &registry_comms[(at + i) % REGISTRY_COMMS];
		/* acquire pairs with the release in registry_comm_add */
		uint64_t have = __atomic_load_n(&c->handle, __ATOMIC_ACQUIRE);

		if (have == handle)
			return c;
		if (!have)
			return NULL;
	}
	return NULL;
}

static struct registry_comm *registry_comm_slot(uint64_t handle)
{
	struct registry_comm *known = registry_comm_find(handle);
	uint64_t at = hash_mix(handle);

	if (known)
		return known;
	for (unsigned i = 0; i < REGISTRY_PROBES; i++) {
		struct registry_comm *c = &registry_comms[(at + i) % REGISTRY_COMMS];
		uint64_t have = __atomic_load_n(&c->handle, __ATOMIC_RELAXED);

		/* GONE while it is being filled, so that look-ups skip it */
		if (have > REGISTRY_GONE ||
		    __atomic_load_n(&c->generation, __ATOMIC_RELAXED) == UINT32_MAX)
			continue;
		if (__atomic_compare_exchange_n(&c->handle, &have, REGISTRY_GONE, false,
						__ATOMIC_ACQUIRE, __ATOMIC_RELAXED) &&
		    __atomic_exchange_n(&c->generation, UINT32_MAX, __ATOMIC_ACQUIRE) != UINT32_MAX)
			return c;
	}
	return NULL;
}

struct registry_comm *registry_comm_add(uint64_t handle, uint64_t id, uint64_t parent,
					int32_t nranks, int32_t rank, uint16_t action,
					uint16_t color)
{
	struct registry_comm *c = handle > REGISTRY_GONE ? registry_comm_slot(handle) : NULL;

	if (!c)
		return NULL;
	c->id = id;
	c->parent = parent;
	c->nranks = nranks;
	c->rank = rank;
	c->action = action;
	c->color = color;
	c->split_ordinal = c->shrink_ordinal = 0;
	memset(c->counters, 0, sizeof(c->counters));
	__atomic_store_n(&c->generation,
			 __atomic_add_fetch(&registry_generation, 1, __ATOMIC_RELAXED) & INT32_MAX,
			 __ATOMIC_RELAXED);
	/* release pairs with the acquire in registry_comm_find */
	__atomic_store_n(&c->handle, handle, __ATOMIC_RELEASE);
	return c;
}

void registry_comm_remove(struct registry_comm *comm)
{
	__atomic_store_n(&comm->handle, REGISTRY_GONE, __ATOMIC_RELEASE);
}

static uint32_t *registry_peer_counter(const struct registry_comm *comm, uint8_t func, int peer)
{
	uint64_t words[2] = {(uint64_t)(comm - registry_comms) << 32 | comm->generation,
			     (uint64_t)(uint32_t)peer << 8 | func};
	uint64_t key = hash_mix(hash_bytes(HASH_SEED, words, sizeof(words))) | 1;

	for (unsigned i = 0; i < REGISTRY_PROBES; i++) {
		unsigned at = (unsigned)((key >> 1) + i) % REGISTRY_PEERS;
		uint64_t have = __atomic_load_n(&registry_peers[at].key, __ATOMIC_RELAXED);

		if (!have)
			__atomic_compare_exchange_n(&registry_peers[at].key, &have, key, false,
						    __ATOMIC_RELAXED, __ATOMIC_RELAXED);
		if (__atomic_load_n(&registry_peers[at].key, __ATOMIC_RELAXED) == key)
			return &registry_peers[at].count;
	}
	return NULL;
}

uint32_t *registry_counter(struct registry_comm *comm, uint8_t func, int peer)
{
	if (func == COLL_SEND || func == COLL_RECV)
		return registry_peer_counter(comm, func, peer);
	return func < REGISTRY_FUNCS ? &comm->counters[func] : NULL;
}

bool registry_collected(void)
{
	for (unsigned i = 0; i < REGISTRY_COMMS; i++)
		for (unsigned f = 0; f < REGISTRY_FUNCS; f++)
			if (__atomic_load_n(&registry_comms[i].counters[f], __ATOMIC_RELAXED))
				return true;
	return false;
}

/* ---- streams and contexts ---- */

void registry_stream_add(const struct event_stream *event)
{
	for (unsigned i = 0; i < REGISTRY_STREAMS; i++) {
		uint32_t state = 0;

		if (__atomic_compare_exchange_n(&registry_streams[i].used, &state, 1, false,
						__ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
			registry_streams[i].event = *event;
			__atomic_store_n(&registry_streams[i].used, 2, __ATOMIC_RELEASE);
			return;
		}
	}
}

void registry_stream_remove(uint64_t stream)
{
	for (unsigned i = 0; i < REGISTRY_STREAMS; i++) {
		uint32_t valid = 2;

		if (__atomic_load_n(&registry_streams[i].used, __ATOMIC_ACQUIRE) == 2 &&
		    registry_streams[i].event.head.kind == EVENT_STREAM &&
		    registry_streams[i].event.stream == stream)
			__atomic_compare_exchange_n(&registry_streams[i].used, &valid, 0, false,
						    __ATOMIC_RELEASE, __ATOMIC_RELAXED);
	}
}

/* ---- numbers of launches ---- */

struct registry_launches *registry_launches_of_stream(uint64_t stream)
{
	uint64_t at = hash_mix(stream);

	for (unsigned i = 0; i < REGISTRY_PROBES; i++) {
		struct registry_launches *l =
		    &registry_stream_launches[(at + i) % REGISTRY_STREAMS];
		/* acquire pairs with the release in registry_launches_begin */
		uint64_t have = __atomic_load_n(&l->key, __ATOMIC_ACQUIRE);

		if (have == stream)
			return l;
		if (!have)
			return NULL;
	}
	return NULL;
}

void registry_launches_end(uint64_t stream)
{
	struct registry_launches *l = registry_launches_of_stream(stream);

	if (l)
		__atomic_store_n(&l->key, REGISTRY_GONE, __ATOMIC_RELEASE);
}

void registry_launches_begin(uint64_t stream)
{
	uint64_t at = hash_mix(stream);

	registry_launches_end(stream);
	for (unsigned i = 0; i < REGISTRY_PROBES; i++) {
		struct registry_launches *l =
		    &registry_stream_launches[(at + i) % REGISTRY_STREAMS];
		uint64_t have = __atomic_load_n(&l->key, __ATOMIC_RELAXED);

		/* GONE + 1, the per-thread stream, is never a key: the entry is being filled */
		if (have <= REGISTRY_GONE &&
		    __atomic_compare_exchange_n(&l->key, &have, REGISTRY_GONE + 1, false,
						__ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
			__atomic_store_n(&l->count, 0, __ATOMIC_RELAXED);
			/* release pairs with the acquire in registry_launches_of_stream */
			__atomic_store_n(&l->key, stream, __ATOMIC_RELEASE);
			return;
		}
	}
}

struct registry_launches *registry_launches_of_context(uint64_t context, uint32_t epoch)
{
	for (unsigned i = 0; context && i < REGISTRY_CONTEXTS; i++) {
		struct registry_launches *l = &registry_context_launches[i];
		uint64_t none = 0;

		if (__atomic_load_n(&l->key, __ATOMIC_RELAXED) != context &&
		    __atomic_compare_exchange_n(&l->key, &none, context, false, __ATOMIC_RELAXED,
						__ATOMIC_RELAXED))
			__atomic_store_n(&l->epoch, epoch, __ATOMIC_RELAXED);
		else if (none && none != context)
			continue;
		return l;
	}
	return NULL;
}

bool registry_launched(void)
{
	uint32_t any = 0;

	for (unsigned i = 0; i < REGISTRY_STREAMS; i++)
		any |= __atomic_load_n(&registry_stream_launches[i].count, __ATOMIC_RELAXED);
	for (unsigned i = 0; i < REGISTRY_CONTEXTS; i++)
		any |= __atomic_load_n(&registry_context_launches[i].count, __ATOMIC_RELAXED);
	return any != 0;
}

/* ---- graphs ---- */

uint64_t registry_capture_begin(uint64_t driver_id)
{
	uint64_t ordinal = __atomic_add_fetch(&registry_capture_last, 1, __ATOMIC_RELAXED);

	for (unsigned i = 0; i < REGISTRY_CAPTURES; i++) {
		uint64_t none = 0;

		if (__atomic_compare_exchange_n(&registry_captures[i].ordinal, &none, ordinal,
						false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
			__atomic_store_n(&registry_captures[i].driver_id, driver_id,
					 __ATOMIC_RELEASE);
			break;
		}
	}
	__atomic_add_fetch(&registry_captures_active, 1, __ATOMIC_RELEASE);
	return ordinal;
}

uint64_t registry_capture_find(uint64_t driver_id)
{
	for (unsigned i = 0; driver_id && i < REGISTRY_CAPTURES; i++)
		if (__atomic_load_n(&registry_captures[i].driver_id, __ATOMIC_ACQUIRE) == driver_id)
			return registry_captures[i].ordinal;
	return 0;
}

uint64_t registry_capture_end(uint64_t driver_id, uint64_t graph)
{
	uint64_t ordinal = 0;

	if (__atomic_load_n(&registry_captures_active, __ATOMIC_RELAXED))
		__atomic_sub_fetch(&registry_captures_active, 1, __ATOMIC_RELEASE);
	for (unsigned i = 0; driver_id && i < REGISTRY_CAPTURES; i++) {
		if (__atomic_load_n(&registry_captures[i].driver_id, __ATOMIC_ACQUIRE) != driver_id)
			continue;
		ordinal = registry_captures[i].ordinal;
		registry_captures[i].driver_id = 0;
		__atomic_store_n(&registry_captures[i].ordinal, 0, __ATOMIC_RELEASE);
	}
	if (ordinal && ordinal <= REGISTRY_TEMPLATES)
		__atomic_store_n(&registry_templates[ordinal - 1].graph, graph, __ATOMIC_RELEASE);
	return ordinal;
}

uint32_t registry_capture_count(uint64_t ordinal, struct registry_comm *comm, uint32_t *counter)
{
	struct registry_term *term;

	if (!ordinal || ordinal > REGISTRY_TEMPLATES || !counter)
		return REGISTRY_SEQ_UNKNOWN;
	/* The program itself orders a capture's calls: NCCL allows only one thread here. */
	for (unsigned i = 0; i < REGISTRY_TERMS; i++) {
		term = &registry_templates[ordinal - 1].terms[i];
		if (i == registry_templates[ordinal - 1].term_count) {
			term->comm = comm;
			term->generation = comm->generation;
			term->counter = counter;
			registry_templates[ordinal - 1].term_count++;
		}
		if (term->counter == counter)
			return term->count++;
	}
	return REGISTRY_SEQ_UNKNOWN;
}

static struct registry_exec *registry_exec_find(uint64_t exec)
{
	uint64_t at = hash_mix(exec);

	for (unsigned i = 0; i < REGISTRY_PROBES; i++) {
		struct registry_exec *e = &registry_execs[(at + i) % REGISTRY_EXECS];
		uint64_t have = __atomic_load_n(&e->exec, __ATOMIC_ACQUIRE);

		if (have == exec)
			return e;
		if (!have)
			return NULL;
	}
	return NULL;
}

static struct registry_exec *registry_exec_add(uint64_t exec)
{
	struct registry_exec *known = registry_exec_find(exec);
	uint64_t at = hash_mix(exec);

	if (known) {
		known->replays = 0;
		return known;
	}
	for (unsigned i = 0; i < REGISTRY_PROBES; i++) {
		struct registry_exec *e = &registry_execs[(at + i) % REGISTRY_EXECS];
		uint64_t have = __atomic_load_n(&e->exec, __ATOMIC_RELAXED);

		if (have > REGISTRY_GONE)
			continue;
		if (__atomic_compare_exchange_n(&e->exec, &have, exec, false, __ATOMIC_ACQ_REL,
						__ATOMIC_RELAXED)) {
			e->replays = 0;
			return e;
		}
	}
	return NULL;
}

/* The capture that made the latest graph with this handle; 0: none. */
static uint64_t registry_template_of(uint64_t graph)
{
	for (unsigned i = REGISTRY_TEMPLATES; graph && i-- > 0;)
		if (__atomic_load_n(&registry_templates[i].graph, __ATOMIC_ACQUIRE) == graph)
			return i + 1;
	return 0;
}

uint64_t registry_graph_instantiate(uint64_t graph, uint64_t exec)
{
	struct registry_exec *e = registry_exec_add(exec);
	uint64_t capture = registry_template_of(graph);

	if (e) {
		e->graph = graph;
		__atomic_store_n(&e->capture, capture, __ATOMIC_RELEASE);
	}
	return capture;
}

uint64_t registry_graph_update(uint64_t graph, uint64_t exec)
{
	struct registry_exec *e = registry_exec_find(exec);
	uint64_t capture = registry_template_of(graph);

	if (e) {
		e->graph = graph;
		__atomic_store_n(&e->capture, capture, __ATOMIC_RELEASE);
	}
	return capture;
}

uint64_t registry_exec_destroy(uint64_t exec)
{
	struct registry_exec *e = registry_exec_find(exec);
	uint64_t capture = 0;

	if (e) {
		capture = e->capture;
		__atomic_store_n(&e->exec, REGISTRY_GONE, __ATOMIC_RELEASE);
	}
	return capture;
}

uint32_t registry_graph_launch(uint64_t exec, uint64_t *capture)
{
	struct registry_exec *e = registry_exec_find(exec);
	uint64_t ordinal;

	*capture = 0;
	if (!e)
		return REGISTRY_SEQ_UNKNOWN;
	*capture = ordinal = __atomic_load_n(&e->capture, __ATOMIC_ACQUIRE);
	for (unsigned i = 0; ordinal && i < registry_templates[ordinal - 1].term_count; i++) {
		const struct registry_term *t = &registry_templates[ordinal - 1].terms[i];

		if (t->comm->generation == t->generation)
			__atomic_fetch_add(t->counter, t->count, __ATOMIC_RELAXED);
	}
	return __atomic_fetch_add(&e->replays, 1, __ATOMIC_RELAXED);
}

/* ---- for a sysomd that attaches later ---- */

void registry_restate(void (*push)(const void *event), uint64_t now_ticks)
{
	for (unsigned i = 0; i < REGISTRY_STREAMS; i++) {
		if (__atomic_load_n(&registry_streams[i].used, __ATOMIC_ACQUIRE) == 2) {
			struct event_stream e = registry_streams[i].event;

			e.head.t = now_ticks;
			e.head.flags |= EVENT_FLAG_RESTATED;
			push(&e);
		}
	}
	for (unsigned i = 0; i < REGISTRY_COMMS; i++) {
		const struct registry_comm *c = &registry_comms[i];
		uint64_t handle = __atomic_load_n(&c->handle, __ATOMIC_ACQUIRE);
		struct event_comm e = {
		    .head = {.kind = EVENT_COMM, .flags = EVENT_FLAG_RESTATED, .t = now_ticks},
		    .comm = handle,
		    .id = c->id,
		    .parent = c->parent,
		    .nranks = c->nranks,
		    .rank = c->rank,
		    .action = c->action,
		    .color = c->color};

		if (handle > REGISTRY_GONE)
			push(&e);
	}
	for (unsigned i = 0; i < REGISTRY_EXECS; i++) {
		const struct registry_exec *x = &registry_execs[i];
		uint64_t exec = __atomic_load_n(&x->exec, __ATOMIC_ACQUIRE);
		struct event_graph e = {
		    .head = {.kind = EVENT_GRAPH, .flags = EVENT_FLAG_RESTATED, .t = now_ticks},
		    .graph = x->graph,
		    .exec = exec,
		    .capture = x->capture,
		    .action = GRAPH_INSTANTIATE};

		if (exec > REGISTRY_GONE)
			push(&e);
	}
}
