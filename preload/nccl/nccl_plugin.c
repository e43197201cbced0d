/* SPDX-License-Identifier: Apache-2.0
 * nccl_plugin.c - NCCL's profiler plugin, versions 1 to 6, in the same library. It sees what
 * wrappers cannot: the transfers between nodes, and the collectives of a statically linked NCCL.
 * NCCL calls from the job's threads and from its proxy threads. It may report a state for a handle
 * after stop, and it passes parents that belong to another process. So a handle is a generation and
 * a slot of a pool that is never freed. An open slot is not reused, and a handle that does not
 * match is counted and ignored. Only init may fail, and it does not. A proxy operation is all that
 * one channel sends to one peer for one collective. Its slot adds up its transfers, and its stop
 * pushes one event with the sums. So nothing is split between two windows, whoever reads the ring.
 * A collective within a node has no proxy operations. The user's plugin (nccl_lookup.h) gets every
 * callback, with its own contexts, handles and parents. The two event masks are combined. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "preload/nccl/nccl_plugin.h"

#include "foreign/nccl_profiler.h"
#include "preload/hooks.h"
#include "preload/nccl/nccl_channels.h"
#include "preload/nccl/nccl_lookup.h"
#include "preload/registry.h"
#include "preload/tracer.h"

#define PLUGIN_SLOTS	8192 /* events in flight; a power of two */
#define PLUGIN_CONTEXTS 1024
#define PLUGIN_PROBES	64
/* high byte of event_plugin.type: NCCL's states, and ours */
#define PLUGIN_STATE_START 0xfeu
#define PLUGIN_STATE_STOP  0xffu
/* Collectives and the transfers of their proxies. Without a network there are no proxy operations.
 * KernelCh costs proxy work for each collective, even within a node: see nccl_channels.h. */
#define PLUGIN_MASK                                                                                \
	(NCCL_PROFILE_COLL | NCCL_PROFILE_P2P | NCCL_PROFILE_COLL_API | NCCL_PROFILE_P2P_API |     \
	 NCCL_PROFILE_PROXY_OP | NCCL_PROFILE_PROXY_STEP)
#define PLUGIN_CALLS (NCCL_PROFILE_COLL | NCCL_PROFILE_P2P)
/* called by NCCL's proxy threads */
#define PLUGIN_PROXY                                                                               \
	(NCCL_PROFILE_PROXY_OP | NCCL_PROFILE_PROXY_STEP | NCCL_PROFILE_PROXY_CTRL |               \
	 NCCL_PROFILE_KERNEL_CH)

struct plugin_context {
	uint32_t used;
	int *mask;	  /* NCCL's mask, one per process; NULL: it cannot be changed later */
	int user_mask;	  /* the user's plugin may change it at any time, as we do NCCL's */
	int rank, nranks; /* -1: not known, before version 4 */
	uint64_t comm_hash;
	void *user;
};
/* A descriptor of any version. */
struct plugin_fact {
	uint64_t type, comm_hash, seq, value;
	void *parent;
	pid_t pid; /* 0: ours */
	int peer, channel, rank;
	uint8_t func, dtype; /* enum event_coll_func, ncclDataType_t */
	bool sends;
	size_t group_offset; /* offset of the second parent in the descriptor; 0: none */
};
struct plugin_slot {
	uint32_t generation; /* odd: open */
	uint16_t type;	     /* bit number */
	uint8_t version, raw;
	bool sends; /* a proxy operation that sends, or a step of one */
	uint8_t func, dtype, channel;
	int32_t peer, rank;
	uint32_t seq, transfers;
	uint64_t comm_hash, start; /* clock of the lane */
	uint64_t count;		   /* elements of a call */
	uint64_t bytes, wait;	   /* sums of a proxy operation; for a step, its size */
	uint64_t waits_since;	   /* for a step: since when it waits; 0: not yet */
	uint64_t above;		   /* the parent's handle */
	void *user;		   /* the user's plugin's handle */
};

static struct plugin_context plugin_contexts[PLUGIN_CONTEXTS];
static struct plugin_slot plugin_slots[PLUGIN_SLOTS];
static uint32_t plugin_next;
static uint32_t plugin_context_top; /* no context from here on was ever used */
/* events recorded as they come: those of SYSOM_NCCL_MASK, and KernelCh while it is on */
static int plugin_raw_mask;
static pid_t plugin_pid;
static bool plugin_always;	/* SYSOM_NCCL_MASK has KernelCh */
static int plugin_told;		/* the mask that NCCL has */
static uint32_t plugin_started; /* 0; 1: a thread reads the settings; 2: done */

/* ---- handles ---- */

static void *plugin_handle(const struct plugin_slot *s, uint32_t generation)
{
	return (void *)(uintptr_t)((uint64_t)generation << 32 | (uint64_t)(s - plugin_slots + 1));
}

/* The slot of a handle that is open, or that was stopped but is not reused yet; NULL for any other
 * pointer. */
static struct plugin_slot *plugin_find(const void *handle)
{
	uint64_t h = (uint64_t)(uintptr_t)handle;
	uint32_t at = (uint32_t)h, g = (uint32_t)(h >> 32), now;

	if (!at || at > PLUGIN_SLOTS)
		return NULL;
	now = __atomic_load_n(&plugin_slots[at - 1].generation, __ATOMIC_ACQUIRE);
	return now == g || now == g + 1 ? &plugin_slots[at - 1] : NULL;
}

/* A copy of that slot. False: it is not there, or was reused while we copied. */
static bool plugin_copy(const void *handle, struct plugin_slot *to)
{
	const struct plugin_slot *s = plugin_find(handle);

	if (!s)
		return false;
	*to = *s;
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return plugin_find(handle) == s;
}

static struct plugin_slot *plugin_take(void)
{
	for (unsigned i = 0; i < PLUGIN_PROBES; i++) {
		uint32_t at = __atomic_fetch_add(&plugin_next, 1, __ATOMIC_RELAXED) % PLUGIN_SLOTS;
		struct plugin_slot *s = &plugin_slots[at];
		uint32_t g = __atomic_load_n(&s->generation, __ATOMIC_RELAXED);

		/* even: free; the next odd one goes into the new handle */
		if (!(g & 1) && __atomic_compare_exchange_n(&s->generation, &g, g + 1, false,
							    __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			return s;
	}
	return NULL;
}

/* ---- events ---- */

static bool plugin_on(void)
{
	return tracer_state() == TRACER_ON && !tracer_internal_thread();
}

static void plugin_unknown(void)
{
	if (plugin_on())
		ring_writer_count_drop(&tracer_ring, RING_DROP_PLUGIN_HANDLE, 1);
}

static void plugin_push(uint64_t comm_hash, uint16_t type, uint32_t state, const void *handle,
			const void *parent, uint64_t seq, uint64_t value, int peer, int channel)
{
	struct event_plugin e = {.head = {.kind = EVENT_PLUGIN},
				 .comm_hash = comm_hash,
				 .handle = (uint64_t)(uintptr_t)handle,
				 .parent = (uint64_t)(uintptr_t)parent,
				 .value = value,
				 .seq = (uint32_t)seq,
				 .type = (uint16_t)(type | state << 8),
				 .channel = (int16_t)channel,
				 .peer = peer};

	e.head.t = tracer_now();
	tracer_push(&e);
}

/* ---- a library whose functions are not wrapped ---- */

/* Whether the wrappers report what NCCL does: some NCCL function was called through us. */
static bool plugin_wrapped(void)
{
	static uint32_t wrapped; /* once true, always true */

	if (__atomic_load_n(&wrapped, __ATOMIC_RELAXED))
		return true;
	for (unsigned i = 1; i < HOOK_ID_COUNT; i++)
		if (hooks_table[i].library == HOOK_NCCL &&
		    __atomic_load_n(&hooks_real[i], __ATOMIC_RELAXED)) {
			__atomic_store_n(&wrapped, 1, __ATOMIC_RELAXED);
			return true;
		}
	return false;
}

static void plugin_report_comm(uint64_t comm_hash, int nranks, int rank, uint16_t action)
{
	struct event_comm e = {.head = {.kind = EVENT_COMM, .t = tracer_now()},
			       .comm = comm_hash,
			       .id = comm_hash, /* NCCL's own, the same on every rank */
			       .nranks = nranks,
			       .rank = rank,
			       .action = action};
	struct registry_comm *c = registry_comm_find(comm_hash);

	if (action == COMM_DESTROY && c)
		registry_comm_remove(c);
	else if (action == COMM_INIT)
		registry_comm_add(comm_hash, comm_hash, 0, nranks, rank, action, 0);
	if (plugin_on())
		tracer_push(&e);
}

/* Reports an enqueued collective or point-to-point call, with the time of the API call if it is
 * known. */
static void plugin_report_call(const struct plugin_slot *s)
{
	struct event_coll e = {.head = {.kind = EVENT_COLL, .t = s->start},
			       .comm = s->comm_hash,
			       .count = s->count,
			       .seq = s->seq,
			       .peer = (int16_t)s->peer,
			       .func = s->func,
			       .dtype = s->dtype};
	struct plugin_slot api;
	struct registry_comm *c;
	uint32_t *counter;

	if (plugin_wrapped())
		return;
	c = registry_comm_find(s->comm_hash);
	if (!c) {
		plugin_report_comm(s->comm_hash, -1, s->rank, COMM_INIT);
		c = registry_comm_find(s->comm_hash);
	}
	if (s->type == __builtin_ctz(NCCL_PROFILE_P2P)) {
		counter = c ? registry_counter(c, s->func, s->peer) : NULL;
		e.seq = counter ? __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED)
				: REGISTRY_SEQ_UNKNOWN;
	}
	if (plugin_copy((void *)(uintptr_t)s->above, &api))
		e.head.t = api.start;
	e.duration = tracer_duration(e.head.t, tracer_now());
	if (plugin_on())
		tracer_push(&e);
}

/* ---- transfers ---- */

static void plugin_report_transfers(const struct plugin_slot *s)
{
	struct event_transfer e = {.head = {.kind = EVENT_TRANSFER, .t = s->start},
				   .comm_hash = s->comm_hash,
				   .bytes = s->bytes,
				   .wait = s->wait,
				   .seq = s->seq,
				   .transfers = s->transfers,
				   .peer = s->peer,
				   .rank = (uint16_t)(s->rank < UINT16_MAX ? s->rank : UINT16_MAX),
				   .func = s->func,
				   .channel = s->channel,
				   .duration = tracer_duration(s->start, tracer_now())};

	if (s->transfers && plugin_on())
		tracer_push(&e);
}

static void plugin_step_done(const struct plugin_slot *step)
{
	struct plugin_slot *op = plugin_find((void *)(uintptr_t)step->above);

	if (!op || !step->waits_since)
		return;
	/* steps of one operation come from one proxy thread */
	op->transfers++;
	op->bytes += step->bytes;
	op->wait += tracer_now() - step->waits_since;
}

/* ---- the user's plugin ---- */

static void plugin_user_failed(enum ring_drop cause, uint32_t count)
{
	if (count && plugin_on())
		ring_writer_count_drop(&tracer_ring, cause, count);
}

/* Calls the user's plugin. A process that ends during the call leaves a count that sysomd finds. */
#define PLUGIN_USER_CALL(call)                                                                     \
	({                                                                                         \
		bool counted = ring_writer_plugin_enter(&tracer_ring);                             \
		nccl_result answer = (call);                                                       \
                                                                                                   \
		if (counted)                                                                       \
			ring_writer_plugin_leave(&tracer_ring);                                    \
		answer;                                                                            \
	})

static void plugin_user_answered(nccl_result result)
{
	plugin_user_failed(RING_DROP_PLUGIN_ERROR, result != NCCL_OK);
}

static void *plugin_user_handle(const void *ours)
{
	const struct plugin_slot *s = plugin_find(ours);

	return s ? s->user : NULL;
}

typedef nccl_result (*plugin_start_fn)(void *context, void **handle, void *event);

static bool plugin_user_wants(const struct plugin_context *c, unsigned version, uint64_t type)
{
	return c && c->user_mask & (int)type && nccl_lookup_user(version);
}

static void *plugin_forward_start(const struct plugin_context *c, unsigned version,
				  const struct plugin_fact *f, const void *event, size_t bytes)
{
	const struct nccl_profiler_table *user = nccl_lookup_user(version);
	uint64_t copy[32];
	void *handle = NULL, *second = NULL;

	if (!plugin_user_wants(c, version, f->type) || bytes > sizeof(copy))
		return NULL;
	memcpy(copy, event, bytes);
	if (!f->pid || f->pid == plugin_pid) {
		void *parent = plugin_user_handle(f->parent);

		memcpy((uint8_t *)copy + 8, &parent, sizeof(parent));
	}
	if (f->group_offset) {
		memcpy(&second, (uint8_t *)copy + f->group_offset, sizeof(second));
		second = plugin_user_handle(second);
		memcpy((uint8_t *)copy + f->group_offset, &second, sizeof(second));
	}
	plugin_user_answered(
	    PLUGIN_USER_CALL(((plugin_start_fn)user->start)(c->user, &handle, copy)));
	return handle;
}

/* ---- the callbacks; versions differ only in their arguments ---- */

static void plugin_settle(void)
{
	const char *text = getenv("SYSOM_NCCL_MASK");
	uint32_t none = 0;

	if (!__atomic_compare_exchange_n(&plugin_started, &none, 1, false, __ATOMIC_ACQ_REL,
					 __ATOMIC_ACQUIRE))
		return;
	plugin_raw_mask = text && *text ? (int)strtol(text, NULL, 0) : 0;
	plugin_always = (plugin_raw_mask & NCCL_PROFILE_KERNEL_CH) != 0;
	plugin_pid = getpid();
	__atomic_store_n(&plugin_started, 2, __ATOMIC_RELEASE);
}

static int plugin_raw(void)
{
	return __atomic_load_n(&plugin_raw_mask, __ATOMIC_RELAXED);
}

/* What we and the user's plugin want to see. */
static int plugin_wanted(void)
{
	uint32_t top = __atomic_load_n(&plugin_context_top, __ATOMIC_ACQUIRE);
	int mask = tracer_is_dead() ? 0 : PLUGIN_MASK | plugin_raw();

	for (uint32_t i = 0; i < top; i++)
		mask |= __atomic_load_n(&plugin_contexts[i].user_mask, __ATOMIC_RELAXED);
	return mask;
}

/* Several threads make communicators. So a mask may be outdated, for at most one tick. */
static void plugin_tell(int *mask, int wanted)
{
	__atomic_store_n(mask, wanted, __ATOMIC_RELAXED);
	__atomic_store_n(&plugin_told, wanted, __ATOMIC_RELAXED);
}

void nccl_plugin_tend(uint64_t now_ns)
{
	uint32_t top = __atomic_load_n(&plugin_context_top, __ATOMIC_ACQUIRE);
	int wanted, raw = plugin_raw() & ~NCCL_PROFILE_KERNEL_CH;

	if (!top) { /* NCCL has not asked for us */
		nccl_lookup_unasked();
		if (tracer_state() == TRACER_ON)
			ring_writer_count_drop(&tracer_ring, RING_DROP_PLUGIN_LOAD,
					       nccl_lookup_failures());
		return;
	}
	if (plugin_always)
		nccl_channels_demand(NCCL_CHANNELS_FOREVER);
	plugin_always = false;
	raw |= nccl_channels_tend(now_ns) ? NCCL_PROFILE_KERNEL_CH : 0;
	__atomic_store_n(&plugin_raw_mask, raw, __ATOMIC_RELAXED);
	wanted = plugin_wanted();
	if (wanted == __atomic_load_n(&plugin_told, __ATOMIC_RELAXED))
		return;
	for (uint32_t i = 0; i < top; i++) {
		/* acquire pairs with the release in plugin_opened */
		int *mask = __atomic_load_n(&plugin_contexts[i].mask, __ATOMIC_ACQUIRE);

		if (mask)
			plugin_tell(mask, wanted);
	}
}

/* Makes a context even if tracing is off permanently, because the user's plugin needs it. */
static struct plugin_context *plugin_open(unsigned version, uint64_t comm_hash, int nranks,
					  int rank)
{
	uint32_t top = __atomic_load_n(&plugin_context_top, __ATOMIC_RELAXED);
	bool traced;

	plugin_settle();
	traced = !tracer_is_dead() && (tracer_state() != TRACER_COLD || tracer_start());
	nccl_lookup_left(version);
	plugin_user_failed(RING_DROP_PLUGIN_LOAD, nccl_lookup_failures());
	for (unsigned i = 0; i < PLUGIN_CONTEXTS; i++) {
		struct plugin_context *c = &plugin_contexts[i];
		uint32_t unused = 0;

		if (!__atomic_compare_exchange_n(&c->used, &unused, 1, false, __ATOMIC_ACQUIRE,
						 __ATOMIC_RELAXED))
			continue;
		while (top <= i &&
		       !__atomic_compare_exchange_n(&plugin_context_top, &top, i + 1, false,
						    __ATOMIC_RELEASE, __ATOMIC_RELAXED))
			;
		c->comm_hash = comm_hash;
		c->nranks = nranks;
		c->rank = rank;
		c->user = NULL;
		c->user_mask = 0;
		if (traced && comm_hash && !plugin_wrapped())
			plugin_report_comm(comm_hash, nranks, rank, COMM_INIT);
		return c;
	}
	return NULL;
}

/* NCCL reads its mask at each operation. We may write it later only if it cannot go away: it is a
 * variable of a library that stays, or of the program. */
static nccl_result plugin_opened(struct plugin_context *c, int *mask)
{
	if (!c) {
		*mask = 0;
		return NCCL_OK;
	}
	plugin_tell(mask, plugin_wanted());
	__atomic_store_n(&c->mask, hooks_pin(mask) ? mask : NULL, __ATOMIC_RELEASE);
	return NCCL_OK;
}

/* Fills what a slot keeps about its event. False: nobody needs this event. */
static bool plugin_note(struct plugin_slot *s, const struct plugin_context *c,
			const struct plugin_fact *f, bool foreign)
{
	struct plugin_slot above;
	bool known = !foreign && plugin_copy(f->parent, &above);

	s->comm_hash = f->comm_hash ? f->comm_hash : c ? c->comm_hash : 0;
	s->start = tracer_now();
	s->above = known ? (uint64_t)(uintptr_t)f->parent : 0;
	s->rank = c && c->rank >= 0 ? c->rank : f->rank;
	s->func = f->func;
	s->dtype = f->dtype;
	s->seq = (uint32_t)f->seq;
	s->count = f->value;
	s->peer = f->peer;
	s->channel = (uint8_t)f->channel;
	s->sends = false;
	s->transfers = 0;
	s->bytes = s->wait = s->waits_since = 0;
	if (f->type == NCCL_PROFILE_PROXY_OP) {
		s->sends = f->sends;
		s->func = known ? above.func : 0;
		s->seq = known ? above.seq : 0;
		s->comm_hash = known ? above.comm_hash : s->comm_hash;
		s->rank = known ? above.rank : s->rank;
		return s->sends;
	}
	if (f->type == NCCL_PROFILE_PROXY_STEP) {
		s->sends = known && above.sends;
		return s->sends;
	}
	return (f->type & PLUGIN_MASK) != 0;
}

static void plugin_release(struct plugin_slot *s, uint32_t generation)
{
	/* release pairs with the acquire in plugin_take */
	__atomic_compare_exchange_n(&s->generation, &generation, generation + 1, false,
				    __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}

static nccl_result plugin_start(void *context, void **handle, unsigned version,
				const struct plugin_fact *f, const void *event, size_t bytes)
{
	struct plugin_context *c = context;
	struct plugin_slot *s;
	uint64_t type = f->type & 0xffffu;
	bool foreign = f->pid && f->pid != plugin_pid, needed;

	if (!handle)
		return NCCL_OK;
	*handle = NULL;
	/* with PXN, the context may belong to the other process too */
	if (foreign || c < plugin_contexts || c >= plugin_contexts + PLUGIN_CONTEXTS)
		c = NULL;
	if (!type || (tracer_is_dead() && !plugin_user_wants(c, version, type)))
		return NCCL_OK;
	if (type & PLUGIN_PROXY)
		nccl_channels_thread();
	s = plugin_take();
	if (!s) {
		plugin_unknown();
		return NCCL_OK;
	}
	s->type = (uint16_t)__builtin_ctzll(type);
	s->version = (uint8_t)version;
	s->raw = (type & (uint64_t)plugin_raw()) != 0;
	needed = plugin_note(s, c, f, foreign) && !tracer_is_dead();
	s->user = plugin_forward_start(c, version, f, event, bytes);
	if (!needed && !s->raw && !s->user) {
		plugin_release(s, s->generation);
		return NCCL_OK;
	}
	*handle = plugin_handle(s, s->generation);
	if (s->raw && plugin_on())
		plugin_push(s->comm_hash, s->type, PLUGIN_STATE_START, *handle,
			    (void *)(uintptr_t)s->above, f->seq, f->value, f->peer, f->channel);
	return NCCL_OK;
}

static nccl_result plugin_stop(void *handle)
{
	struct plugin_slot *s = plugin_find(handle);
	uint32_t g = (uint32_t)((uint64_t)(uintptr_t)handle >> 32);
	const struct nccl_profiler_table *user;

	if (!handle)
		return NCCL_OK;
	if (!s || __atomic_load_n(&s->generation, __ATOMIC_RELAXED) != g) {
		plugin_unknown(); /* the handle is not ours, or was stopped twice */
		return NCCL_OK;
	}
	user = s->user ? nccl_lookup_user(s->version) : NULL;
	if (user)
		plugin_user_answered(PLUGIN_USER_CALL(user->stop(s->user)));
	if (!tracer_is_dead()) {
		if (1u << s->type & PLUGIN_CALLS)
			plugin_report_call(s);
		else if (1u << s->type == NCCL_PROFILE_PROXY_STEP)
			plugin_step_done(s);
		else if (1u << s->type == NCCL_PROFILE_PROXY_OP)
			plugin_report_transfers(s);
	}
	if (s->raw && plugin_on())
		plugin_push(s->comm_hash, s->type, PLUGIN_STATE_STOP, handle, NULL, 0, 0, -1, -1);
	plugin_release(s, g);
	return NCCL_OK;
}

static nccl_result plugin_record(void *handle, int state, void *args)
{
	struct plugin_slot *s = plugin_find(handle);
	const struct nccl_profiler_table *user;
	uint64_t value = 0;
	int small = 0;

	if (!handle)
		return NCCL_OK;
	if (!s) {
		plugin_unknown();
		return NCCL_OK;
	}
	user = s->user ? nccl_lookup_user(s->version) : NULL;
	if (user)
		plugin_user_answered(PLUGIN_USER_CALL(user->record(s->user, state, args)));
	if (args && (state == NCCL_PROFILE_STATE_CTRL_APPEND ||
		     state == NCCL_PROFILE_STATE_CTRL_APPEND_END)) {
		memcpy(&small, args, sizeof(small));
		value = (uint64_t)small;
	} else if (args) {
		memcpy(&value, args, sizeof(value));
	}
	/* the data is with the network; its size came with version 4 */
	if (s->sends && state == NCCL_PROFILE_STATE_SEND_WAIT &&
	    1u << s->type == NCCL_PROFILE_PROXY_STEP) {
		s->waits_since = tracer_now();
		s->bytes = s->version >= 4 ? value : 0;
	} else if (s->sends && state == NCCL_PROFILE_STATE_OP_SEND_DONE && s->version < 4) {
		s->bytes = value; /* of the whole operation */
	}
	if (s->raw && plugin_on())
		plugin_push(s->comm_hash, s->type, (uint32_t)state & 0x7f, handle, NULL, 0, value,
			    -1, -1);
	return NCCL_OK;
}

static nccl_result plugin_finalize(void *context, unsigned version)
{
	struct plugin_context *c = context;
	const struct nccl_profiler_table *user = nccl_lookup_user(version);

	if (c < plugin_contexts || c >= plugin_contexts + PLUGIN_CONTEXTS)
		return NCCL_OK;
	if (c->user && user) {
		plugin_user_answered(PLUGIN_USER_CALL(user->finalize(c->user)));
		nccl_lookup_left(version);
		plugin_user_failed(RING_DROP_PLUGIN_LOAD, nccl_lookup_failures());
	}
	if (!tracer_is_dead() && c->comm_hash && !plugin_wrapped())
		plugin_report_comm(c->comm_hash, c->nranks, c->rank, COMM_DESTROY);
	__atomic_store_n(&c->user_mask, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&c->mask, NULL, __ATOMIC_RELAXED);
	__atomic_store_n(&c->used, 0, __ATOMIC_RELEASE);
	return NCCL_OK;
}

/* ---- names ---- */

struct plugin_name {
	const char *name;
	uint8_t value;
};

static uint8_t plugin_value(const struct plugin_name *names, size_t count, const char *name,
			    uint8_t none)
{
	for (size_t i = 0; name && i < count; i++)
		if (!strcmp(names[i].name, name))
			return names[i].value;
	return none;
}
#define PLUGIN_VALUE(names, name, none)                                                            \
	plugin_value(names, sizeof(names) / sizeof((names)[0]), name, none)

static uint8_t plugin_func(const char *name)
{
	static const struct plugin_name names[] = {{"AllReduce", COLL_ALL_REDUCE},
						   {"AllGather", COLL_ALL_GATHER},
						   {"ReduceScatter", COLL_REDUCE_SCATTER},
						   {"Broadcast", COLL_BROADCAST},
						   {"Reduce", COLL_REDUCE},
						   {"Send", COLL_SEND},
						   {"Recv", COLL_RECV},
						   {"AlltoAll", COLL_ALL_TO_ALL},
						   {"Gather", COLL_GATHER},
						   {"Scatter", COLL_SCATTER}};

	return PLUGIN_VALUE(names, name, COLL_OTHER);
}

static uint8_t plugin_dtype(const char *name)
{
	static const struct plugin_name names[] = {
	    {"ncclInt8", 0},	 {"ncclUint8", 1},	 {"ncclInt32", 2},
	    {"ncclUint32", 3},	 {"ncclInt64", 4},	 {"ncclUint64", 5},
	    {"ncclFloat16", 6},	 {"ncclFloat32", 7},	 {"ncclFloat64", 8},
	    {"ncclBfloat16", 9}, {"ncclFloat8e4m3", 10}, {"ncclFloat8e5m2", 11}};

	return PLUGIN_VALUE(names, name, UINT8_MAX);
}

/* Version 1 passes the function as a number, in NCCL's own order. */
static uint8_t plugin_func_number(unsigned number)
{
	static const uint8_t funcs[] = {COLL_BROADCAST,	     COLL_REDUCE,     COLL_ALL_GATHER,
					COLL_REDUCE_SCATTER, COLL_ALL_REDUCE, COLL_OTHER,
					COLL_SEND,	     COLL_RECV};

	return number < sizeof(funcs) ? funcs[number] : COLL_OTHER;
}

/* ---- what differs ---- */

#define PLUGIN_FACT_PROXY(d, f)                                                                    \
	case NCCL_PROFILE_PROXY_OP:                                                                \
		(f).pid = (d)->proxy_op.pid;                                                       \
		(f).peer = (d)->proxy_op.peer;                                                     \
		(f).channel = (d)->proxy_op.channel;                                               \
		(f).sends = (d)->proxy_op.is_send != 0;                                            \
		(f).value = (uint64_t)(d)->proxy_op.step_count << 32 |                             \
			    (uint32_t)(d)->proxy_op.chunk_bytes;                                   \
		break;                                                                             \
	case NCCL_PROFILE_PROXY_STEP:                                                              \
		(f).value = (uint64_t)(d)->proxy_step.step;                                        \
		break

#define PLUGIN_FACT_CALLS(d, f, func_of, dtype_of)                                                 \
	case NCCL_PROFILE_COLL:                                                                    \
		(f).func = func_of((d)->coll.func);                                                \
		(f).dtype = dtype_of((d)->coll.datatype);                                          \
		(f).seq = (d)->coll.seq;                                                           \
		(f).value = (d)->coll.count;                                                       \
		(f).peer = (d)->coll.root;                                                         \
		break;                                                                             \
	case NCCL_PROFILE_P2P:                                                                     \
		(f).func = func_of((d)->p2p.func);                                                 \
		(f).dtype = dtype_of((d)->p2p.datatype);                                           \
		(f).value = (d)->p2p.count;                                                        \
		(f).peer = (d)->p2p.peer;                                                          \
		break

#define PLUGIN_FACT_NAMED(d, f)                                                                    \
	do {                                                                                       \
		if ((f).type == NCCL_PROFILE_COLL)                                                 \
			(f).comm_hash = (d)->coll.comm_hash;                                       \
		else if ((f).type == NCCL_PROFILE_P2P)                                             \
			(f).comm_hash = (d)->p2p.comm_hash;                                        \
	} while (0)

#define PLUGIN_FACT_API(v, d, f)                                                                   \
	do {                                                                                       \
		if ((f).type == NCCL_PROFILE_COLL_API) {                                           \
			(f).value = (d)->coll_api.count;                                           \
			(f).peer = (d)->coll_api.root;                                             \
		} else if ((f).type == NCCL_PROFILE_P2P_API) {                                     \
			(f).value = (d)->p2p_api.count;                                            \
		} else if ((f).type == NCCL_PROFILE_COLL) {                                        \
			(f).group_offset =                                                         \
			    offsetof(struct nccl_profiler_v##v##_event, coll.parent_group);        \
		} else if ((f).type == NCCL_PROFILE_P2P) {                                         \
			(f).group_offset =                                                         \
			    offsetof(struct nccl_profiler_v##v##_event, p2p.parent_group);         \
		}                                                                                  \
	} while (0)

#define PLUGIN_FACT_KERNEL(d, f)                                                                   \
	do {                                                                                       \
		if ((f).type == NCCL_PROFILE_KERNEL_CH) {                                          \
			(f).channel = (d)->kernel_ch.channel;                                      \
			(f).value = (d)->kernel_ch.timer;                                          \
		}                                                                                  \
	} while (0)

#define PLUGIN_START(v, func_of, dtype_of, more)                                                   \
	static nccl_result plugin_start_v##v(void *context, void **handle,                         \
					     struct nccl_profiler_v##v##_event *d)                 \
	{                                                                                          \
		struct plugin_fact f = {.peer = -1, .channel = -1};                                \
                                                                                                   \
		if (!d)                                                                            \
			return NCCL_OK;                                                            \
		f.type = d->type;                                                                  \
		f.parent = d->parent;                                                              \
		f.rank = d->rank;                                                                  \
		switch (f.type) {                                                                  \
			PLUGIN_FACT_CALLS(d, f, func_of, dtype_of);                                \
			PLUGIN_FACT_PROXY(d, f);                                                   \
		default:                                                                           \
			break;                                                                     \
		}                                                                                  \
		more;                                                                              \
		return plugin_start(context, handle, v, &f, d, sizeof(*d));                        \
	}                                                                                          \
	static nccl_result plugin_finalize_v##v(void *context)                                     \
	{                                                                                          \
		return plugin_finalize(context, v);                                                \
	}

PLUGIN_START(1, plugin_func_number, (uint8_t), PLUGIN_FACT_NAMED(d, f))
PLUGIN_START(2, plugin_func, plugin_dtype, PLUGIN_FACT_NAMED(d, f))
PLUGIN_START(3, plugin_func, plugin_dtype, PLUGIN_FACT_NAMED(d, f))
PLUGIN_START(4, plugin_func, plugin_dtype, PLUGIN_FACT_KERNEL(d, f))
PLUGIN_START(5, plugin_func, plugin_dtype, PLUGIN_FACT_KERNEL(d, f); PLUGIN_FACT_API(5, d, f))
PLUGIN_START(6, plugin_func, plugin_dtype, PLUGIN_FACT_KERNEL(d, f); PLUGIN_FACT_API(6, d, f))

/* call: the user's plugin's init, with its own context, and a mask that lasts as long as NCCL's */
#define PLUGIN_INIT_BODY(v, hash, nranks, rank, call)                                              \
	struct plugin_context *c = plugin_open(v, hash, nranks, rank);                             \
	void *user = NULL;                                                                         \
	const struct nccl_profiler_table *theirs = nccl_lookup_user(v);                            \
                                                                                                   \
	*context = c;                                                                              \
	if (c && theirs) {                                                                         \
		if (PLUGIN_USER_CALL(call) == NCCL_OK) {                                           \
			c->user = user;                                                            \
		} else {                                                                           \
			c->user_mask = 0;                                                          \
			plugin_user_failed(RING_DROP_PLUGIN_INIT, 1);                              \
		}                                                                                  \
	}                                                                                          \
	return plugin_opened(c, mask)

#define PLUGIN_INIT_EARLY(v)                                                                       \
	static nccl_result plugin_init_v##v(void **context, int *mask)                             \
	{                                                                                          \
		PLUGIN_INIT_BODY(                                                                  \
		    v, 0, -1, -1,                                                                  \
		    ((nccl_profiler_v##v##_init_fn)theirs->init)(&user, &c->user_mask));           \
	}
PLUGIN_INIT_EARLY(1)
PLUGIN_INIT_EARLY(2)
PLUGIN_INIT_EARLY(3)

static nccl_result plugin_init_v4(void **context, int *mask, const char *name, uint64_t comm_hash,
				  int nodes, int nranks, int rank, void *log)
{
	PLUGIN_INIT_BODY(4, comm_hash, nranks, rank,
			 ((nccl_profiler_v4_init_fn)theirs->init)(
			     &user, &c->user_mask, name, comm_hash, nodes, nranks, rank, log));
}

#define PLUGIN_INIT_LATE(v)                                                                        \
	static nccl_result plugin_init_v##v(void **context, uint64_t comm_hash, int *mask,         \
					    const char *name, int nodes, int nranks, int rank,     \
					    void *log)                                             \
	{                                                                                          \
		PLUGIN_INIT_BODY(                                                                  \
		    v, comm_hash, nranks, rank,                                                    \
		    ((nccl_profiler_v##v##_init_fn)theirs->init)(&user, comm_hash, &c->user_mask,  \
								 name, nodes, nranks, rank, log)); \
	}
PLUGIN_INIT_LATE(5)
PLUGIN_INIT_LATE(6)

/* The exported name is an alias: a program's own plugin of that name must not become ours. */
#define PLUGIN_TABLE(v)                                                                            \
	static const struct nccl_profiler_table plugin_table_v##v = {                              \
	    "sysom",	 plugin_init_v##v, plugin_start_v##v,                                      \
	    plugin_stop, plugin_record,	   plugin_finalize_v##v};                                  \
	extern const struct nccl_profiler_table ncclProfiler_v##v                                  \
	    __attribute__((alias("plugin_table_v" #v), visibility("default"), used))
PLUGIN_TABLE(1);
PLUGIN_TABLE(2);
PLUGIN_TABLE(3);
PLUGIN_TABLE(4);
PLUGIN_TABLE(5);
PLUGIN_TABLE(6);

const struct nccl_profiler_table *const nccl_plugin_tables[NCCL_LOOKUP_VERSIONS + 1] = {
    NULL,
    &plugin_table_v1,
    &plugin_table_v2,
    &plugin_table_v3,
    &plugin_table_v4,
    &plugin_table_v5,
    &plugin_table_v6};
