/* SPDX-License-Identifier: Apache-2.0
 * wrap_nccl.c - NCCL's public functions. Identity is derived here from what all ranks share. A
 * group's id is the hash of its ncclUniqueId (or, for a split, of parent, ordinal and colour). An
 * instance is the k-th call of (communicator, function) or of (communicator, peer, direction). We
 * read nothing private to NCCL, so any version or fork with the public ABI works.
 * Counters advance at the call, also in the OFF state and when a captured graph is replayed
 * (registry_graph_launch), so that they are the same on every rank. */
#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#include "base/hash.h"
#include "foreign/nccl.h"
#include "preload/driver.h"
#include "preload/registry.h"
#include "preload/wrap.h"

typedef nccl_result (*comm_query_fn)(nccl_comm comm, int *out);

/* ---- queries to NCCL: size and rank of a communicator whose creation we did not see ---- */

static comm_query_fn wrap_query(const char *name, void **cache, enum hook_id neighbour)
{
	void *fn = __atomic_load_n(cache, __ATOMIC_ACQUIRE), *library;
	Dl_info info;

	if (!fn) {
		fn = hooks_dlsym(RTLD_NEXT, name);
		if (!fn && dladdr(hooks_get(neighbour), &info) && info.dli_fname) {
			library = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
			fn = library ? hooks_dlsym(library, name) : NULL;
		}
		__atomic_store_n(cache, fn, __ATOMIC_RELEASE);
	}
	return (comm_query_fn)fn;
}

static void wrap_comm_shape(nccl_comm comm, enum hook_id neighbour, int32_t *nranks, int32_t *rank)
{
	static void *count_fn, *rank_fn;
	comm_query_fn count = wrap_query("ncclCommCount", &count_fn, neighbour);
	comm_query_fn user = wrap_query("ncclCommUserRank", &rank_fn, neighbour);
	int value;

	*nranks = *rank = -1;
	if (count && count(comm, &value) == NCCL_OK)
		*nranks = value;
	if (user && user(comm, &value) == NCCL_OK)
		*rank = value;
}

/* ---- communicators ---- */

static void wrap_tell_comm(const struct registry_comm *c, uint64_t handle, uint16_t action,
			   uint64_t from, nccl_result res, bool push)
{
	struct event_comm e = {
	    .head = {.kind = EVENT_COMM,
		     .flags = res == NCCL_OK || res == NCCL_IN_PROGRESS ? 0 : EVENT_FLAG_FAILED,
		     .t = from},
	    .comm = handle,
	    .nranks = -1,
	    .rank = -1,
	    .action = action,
	    .duration = tracer_duration(from, tracer_now())};

	if (c) {
		e.id = c->id;
		e.parent = c->parent;
		e.nranks = c->nranks;
		e.rank = c->rank;
		e.color = c->color;
	}
	if (push)
		tracer_push(&e);
}

struct wrap_birth {
	uint64_t id, parent, from;
	int32_t nranks, rank; /* -1: ask */
	uint16_t action, color;
	enum hook_id hook;
};

static void wrap_comm_born(nccl_comm comm, struct wrap_birth *b, nccl_result res, bool push)
{
	struct registry_comm *c;

	if (b->nranks < 0)
		wrap_comm_shape(comm, b->hook, &b->nranks, &b->rank);
	c = registry_comm_add((uint64_t)(uintptr_t)comm, b->id, b->parent, b->nranks, b->rank,
			      b->action, b->color);
	wrap_tell_comm(c, (uint64_t)(uintptr_t)comm, b->action, b->from, res, push);
}

/* Inside a group some versions set the handle only at ncclGroupEnd: we look again then. */
#define WRAP_PENDING_MAX 32
static struct wrap_pending {
	const void *thread; /* NULL: free */
	nccl_comm *where;
	struct wrap_birth birth;
} wrap_pendings[WRAP_PENDING_MAX];

static void wrap_comm_made(nccl_comm *where, struct wrap_birth *b, nccl_result res, bool push)
{
	if (res != NCCL_OK && res != NCCL_IN_PROGRESS)
		return;
	if (where && *where) {
		wrap_comm_born(*where, b, res, push);
		return;
	}
	for (unsigned i = 0; where && tracer_nccl_group_depth && i < WRAP_PENDING_MAX; i++) {
		const void *none = NULL;

		if (__atomic_compare_exchange_n(&wrap_pendings[i].thread, &none,
						&tracer_inside_bits, false, __ATOMIC_ACQUIRE,
						__ATOMIC_RELAXED)) {
			wrap_pendings[i].where = where;
			wrap_pendings[i].birth = *b;
			return;
		}
	}
}

static void wrap_pending_done(nccl_result res, bool push)
{
	for (unsigned i = 0; i < WRAP_PENDING_MAX; i++) {
		struct wrap_pending *p = &wrap_pendings[i];

		if (__atomic_load_n(&p->thread, __ATOMIC_ACQUIRE) != &tracer_inside_bits)
			continue;
		if ((res == NCCL_OK || res == NCCL_IN_PROGRESS) && *p->where)
			wrap_comm_born(*p->where, &p->birth, res, push);
		__atomic_store_n(&p->thread, NULL, __ATOMIC_RELEASE);
	}
}

static uint64_t wrap_identity(const void *ids, size_t bytes)
{
	uint64_t id = hash_mix(hash_bytes(HASH_SEED, ids, bytes));

	return id ? id : 1;
}

static uint64_t wrap_lineage(uint64_t parent, uint64_t ordinal, uint64_t which)
{
	uint64_t words[3] = {parent, ordinal, which};

	return wrap_identity(words, sizeof(words));
}

#define WRAP_NCCL(name, params, args, before, after)                                               \
	WRAP(nccl_result, NCCL_INVALID_USAGE, TRACER_IN_NCCL, name, tracer_enter_nccl(&push),      \
	     params, args, after, before)

#define WRAP_BIRTH(...)	 struct wrap_birth birth = {.from = from, __VA_ARGS__}
#define WRAP_MADE(where) wrap_comm_made(where, &birth, res, push)

WRAP_NCCL(ncclCommInitRank, (nccl_comm * out, int nranks, nccl_unique_id id, int rank),
	  (out, nranks, id, rank),
	  WRAP_BIRTH(.id = wrap_identity(&id, sizeof(id)), .nranks = nranks, .rank = rank,
		     .action = COMM_INIT),
	  WRAP_MADE(out));
WRAP_NCCL(ncclCommInitRankConfig,
	  (nccl_comm * out, int nranks, nccl_unique_id id, int rank, void *config),
	  (out, nranks, id, rank, config),
	  WRAP_BIRTH(.id = wrap_identity(&id, sizeof(id)), .nranks = nranks, .rank = rank,
		     .action = COMM_INIT),
	  WRAP_MADE(out));
WRAP_NCCL(ncclCommInitRankScalable,
	  (nccl_comm * out, int nranks, int rank, int id_count, nccl_unique_id *ids, void *config),
	  (out, nranks, rank, id_count, ids, config),
	  WRAP_BIRTH(.id = ids && id_count > 0 ? wrap_identity(ids, (size_t)id_count * sizeof(*ids))
					       : 0,
		     .nranks = nranks, .rank = rank, .action = COMM_INIT),
	  WRAP_MADE(out));

/* One process has all ranks, so any number that is unique in the process serves as the id. */
static void wrap_all_made(nccl_comm *comms, int count, uint64_t from, nccl_result res, bool push)
{
	uint64_t id =
	    wrap_lineage(tracer_ring.header->start_time_ticks, tracer_ring.header->pid, from);

	for (int i = 0; comms && i < count; i++) {
		WRAP_BIRTH(.id = id, .nranks = count, .rank = i, .action = COMM_INIT);
		wrap_comm_made(&comms[i], &birth, res, push);
	}
}
WRAP_NCCL(ncclCommInitAll, (nccl_comm * comms, int count, const int *devices),
	  (comms, count, devices), (void)0, wrap_all_made(comms, count, from, res, push));

/* A communicator made before tracing began, or by a call unknown to us: group id 0. */
static struct registry_comm *wrap_comm_get(nccl_comm comm, enum hook_id hook, bool push)
{
	uint64_t handle = (uint64_t)(uintptr_t)comm;
	struct registry_comm *c;
	struct wrap_birth b = {
	    .from = tracer_now(), .nranks = -1, .action = COMM_INIT, .hook = hook};

	if (!comm)
		return NULL;
	c = registry_comm_find(handle);
	if (__builtin_expect(!c, 0)) {
		wrap_comm_born(comm, &b, NCCL_OK, push);
		return registry_comm_find(handle);
	}
	if (__builtin_expect(c->nranks < 0, 0)) {
		/* a non-blocking split was not ready when the call returned */
		wrap_comm_shape(comm, hook, &c->nranks, &c->rank);
		if (c->nranks >= 0)
			wrap_tell_comm(c, handle, c->action, b.from, NCCL_OK, push);
		else
			c->nranks = 0;
	}
	return c;
}

static void wrap_split_birth(struct wrap_birth *b, nccl_comm parent, uint16_t action,
			     uint64_t which, bool push)
{
	struct registry_comm *p = wrap_comm_get(parent, b->hook, push);
	uint32_t ordinal;

	if (!p)
		return;
	ordinal = __atomic_fetch_add(action == COMM_SPLIT ? &p->split_ordinal : &p->shrink_ordinal,
				     1, __ATOMIC_RELAXED);
	b->parent = p->id;
	/* if the parent is unknown, so is the lineage */
	b->id = p->id ? wrap_lineage(p->id, (uint64_t)action << 32 | ordinal, which) : 0;
	b->action = action;
}

#define WRAP_SPLIT_BIRTH(name, parent, act, which, tint)                                           \
	WRAP_BIRTH(.nranks = -1, .rank = -1, .color = (uint16_t)(tint), .hook = HOOK_ID_##name);   \
	wrap_split_birth(&birth, parent, act, which, push)

WRAP_NCCL(ncclCommSplit, (nccl_comm comm, int color, int key, nccl_comm *out, void *config),
	  (comm, color, key, out, config),
	  WRAP_SPLIT_BIRTH(ncclCommSplit, comm, COMM_SPLIT, (uint64_t)(uint32_t)color, color),
	  if (color != NCCL_SPLIT_NO_COLOR) WRAP_MADE(out));

static uint64_t wrap_excluded(const int *ranks, int count)
{
	uint64_t sum = (uint64_t)(uint32_t)count;

	/* must not depend on the order of the list */
	for (int i = 0; ranks && i < count; i++)
		sum += hash_mix((uint64_t)(uint32_t)ranks[i] + 1);
	return sum;
}
WRAP_NCCL(ncclCommShrink,
	  (nccl_comm comm, int *exclude, int exclude_count, nccl_comm *out, void *config,
	   int flags),
	  (comm, exclude, exclude_count, out, config, flags),
	  WRAP_SPLIT_BIRTH(ncclCommShrink, comm, COMM_SHRINK, wrap_excluded(exclude, exclude_count),
			   0),
	  WRAP_MADE(out));

/* When a communicator grows, only the existing rank that made the unique id and the new ranks get
 * that id. The other existing ranks never see it, and the new ranks do not know the parent. So the
 * others report id 0, unknown: two ids for one group would be worse. */
static void wrap_grow_birth(struct wrap_birth *b, nccl_comm parent, const nccl_unique_id *id,
			    bool push)
{
	struct registry_comm *p = parent ? wrap_comm_get(parent, b->hook, push) : NULL;

	b->id = id ? wrap_identity(id, sizeof(*id)) : 0;
	b->parent = p ? p->id : 0;
}

WRAP_NCCL(ncclCommGrow,
	  (nccl_comm comm, int nranks, const nccl_unique_id *id, int rank, nccl_comm *out,
	   void *config),
	  (comm, nranks, id, rank, out, config),
	  WRAP_BIRTH(.nranks = rank < 0 ? -1 : nranks, .rank = rank, .action = COMM_GROW,
		     .hook = HOOK_ID_ncclCommGrow);
	  wrap_grow_birth(&birth, comm, id, push), WRAP_MADE(out));

static void wrap_comm_ends(nccl_comm comm, uint16_t action, uint64_t from, nccl_result res,
			   bool push)
{
	struct registry_comm *c = registry_comm_find((uint64_t)(uintptr_t)comm);

	if (!comm)
		return;
	wrap_tell_comm(c, (uint64_t)(uintptr_t)comm, action, from, res, push);
	if (c && (action == COMM_DESTROY || action == COMM_ABORT))
		registry_comm_remove(c);
}

WRAP_NCCL(ncclCommFinalize, (nccl_comm comm), (comm), (void)0,
	  wrap_comm_ends(comm, COMM_FINALIZE, from, res, push));
WRAP_NCCL(ncclCommDestroy, (nccl_comm comm), (comm), (void)0,
	  wrap_comm_ends(comm, COMM_DESTROY, from, res, push));
WRAP_NCCL(ncclCommAbort, (nccl_comm comm), (comm), (void)0,
	  wrap_comm_ends(comm, COMM_ABORT, from, res, push));
WRAP_NCCL(ncclCommRevoke, (nccl_comm comm, int flags), (comm, flags), (void)0,
	  wrap_comm_ends(comm, COMM_REVOKE, from, res, push));

/* ---- collectives and point to point ---- */

struct wrap_note {
	uint64_t capture;
	uint32_t seq;
};

static __attribute__((noinline, cold)) uint64_t wrap_capture_of(cu_stream stream)
{
	return registry_capture_find(driver_capture_id(stream, false));
}

static inline struct wrap_note wrap_note_coll(nccl_comm comm, enum hook_id hook, uint8_t func,
					      int peer, cu_stream stream, bool push)
{
	struct registry_comm *c = wrap_comm_get(comm, hook, push);
	uint32_t *counter = c ? registry_counter(c, func, peer) : NULL;
	struct wrap_note n = {0, REGISTRY_SEQ_UNKNOWN};

	if (__builtin_expect(__atomic_load_n(&registry_captures_active, __ATOMIC_RELAXED) != 0, 0))
		n.capture = wrap_capture_of(stream);
	if (__builtin_expect(n.capture != 0, 0))
		n.seq = registry_capture_count(n.capture, c, counter);
	else if (counter)
		n.seq = __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
	return n;
}

static inline void wrap_push_coll(uint64_t from, nccl_result res, nccl_comm comm, uint8_t func,
				  size_t count, int type, int peer, cu_stream stream,
				  struct wrap_note n)
{
	struct event_coll e;

	e.head.kind = EVENT_COLL;
	e.head.flags = 0;
	if (res != NCCL_OK && res != NCCL_IN_PROGRESS)
		e.head.flags |= EVENT_FLAG_FAILED;
	if (tracer_nccl_group_depth)
		e.head.flags |= EVENT_FLAG_AGGREGATE;
	if (n.capture)
		e.head.flags |= EVENT_FLAG_CAPTURED;
	e.head.t = from;
	e.comm = (uint64_t)(uintptr_t)comm;
	e.stream = (uint64_t)(uintptr_t)stream;
	e.count = count;
	e.capture = n.capture;
	e.seq = n.seq;
	e.peer = (int16_t)peer;
	e.func = func;
	e.dtype = (uint8_t)type;
	e.duration = tracer_duration(from, tracer_now());
	tracer_push(&e);
}

#define WRAP_COLL(name, func, params, args, count, type, peer)                                     \
	WRAP_NCCL(name, params, args,                                                              \
		  struct wrap_note note =                                                          \
		      wrap_note_coll(comm, HOOK_ID_##name, func, peer, stream, push),              \
		  if (push)                                                                        \
		      wrap_push_coll(from, res, comm, func, count, type, peer, stream, note))

WRAP_COLL(ncclAllReduce, COLL_ALL_REDUCE,
	  (const void *send, void *recv, size_t count, int type, int op, nccl_comm comm,
	   cu_stream stream),
	  (send, recv, count, type, op, comm, stream), count, type, -1);
WRAP_COLL(ncclReduceScatter, COLL_REDUCE_SCATTER,
	  (const void *send, void *recv, size_t count, int type, int op, nccl_comm comm,
	   cu_stream stream),
	  (send, recv, count, type, op, comm, stream), count, type, -1);
WRAP_COLL(ncclBroadcast, COLL_BROADCAST,
	  (const void *send, void *recv, size_t count, int type, int root, nccl_comm comm,
	   cu_stream stream),
	  (send, recv, count, type, root, comm, stream), count, type, root);
WRAP_COLL(ncclBcast, COLL_BCAST,
	  (void *buffer, size_t count, int type, int root, nccl_comm comm, cu_stream stream),
	  (buffer, count, type, root, comm, stream), count, type, root);
WRAP_COLL(ncclReduce, COLL_REDUCE,
	  (const void *send, void *recv, size_t count, int type, int op, int root, nccl_comm comm,
	   cu_stream stream),
	  (send, recv, count, type, op, root, comm, stream), count, type, root);
WRAP_COLL(ncclAllGather, COLL_ALL_GATHER,
	  (const void *send, void *recv, size_t count, int type, nccl_comm comm, cu_stream stream),
	  (send, recv, count, type, comm, stream), count, type, -1);
WRAP_COLL(ncclAlltoAll, COLL_ALL_TO_ALL,
	  (const void *send, void *recv, size_t count, int type, nccl_comm comm, cu_stream stream),
	  (send, recv, count, type, comm, stream), count, type, -1);
/* forks of NCCL spell it this way */
WRAP_COLL(ncclAllToAll, COLL_ALL_TO_ALL,
	  (const void *send, void *recv, size_t count, int type, nccl_comm comm, cu_stream stream),
	  (send, recv, count, type, comm, stream), count, type, -1);
WRAP_COLL(ncclGather, COLL_GATHER,
	  (const void *send, void *recv, size_t count, int type, int root, nccl_comm comm,
	   cu_stream stream),
	  (send, recv, count, type, root, comm, stream), count, type, root);
WRAP_COLL(ncclScatter, COLL_SCATTER,
	  (const void *send, void *recv, size_t count, int type, int root, nccl_comm comm,
	   cu_stream stream),
	  (send, recv, count, type, root, comm, stream), count, type, root);
WRAP_COLL(ncclSend, COLL_SEND,
	  (const void *send, size_t count, int type, int peer, nccl_comm comm, cu_stream stream),
	  (send, count, type, peer, comm, stream), count, type, peer);
WRAP_COLL(ncclRecv, COLL_RECV,
	  (void *recv, size_t count, int type, int peer, nccl_comm comm, cu_stream stream),
	  (recv, count, type, peer, comm, stream), count, type, peer);

/* ---- groups ---- */

static void wrap_group(uint8_t func, uint64_t from, nccl_result res, bool push)
{
	struct wrap_note none = {0, 0};

	if (func != COLL_GROUP_START && tracer_nccl_group_depth && !--tracer_nccl_group_depth)
		wrap_pending_done(res, push);
	/* the depth does not include this group: AGGREGATE means inside another group */
	if (push)
		wrap_push_coll(from, res, NULL, func, 0, 0, -1, NULL, none);
	if (func == COLL_GROUP_START)
		tracer_nccl_group_depth++;
}

WRAP_NCCL(ncclGroupStart, (void), (), (void)0, wrap_group(COLL_GROUP_START, from, res, push));
WRAP_NCCL(ncclGroupEnd, (void), (), (void)0, wrap_group(COLL_GROUP_END, from, res, push));
WRAP_NCCL(ncclGroupSimulateEnd, (void *info), (info), (void)0,
	  wrap_group(COLL_GROUP_SIMULATE, from, res, push));
