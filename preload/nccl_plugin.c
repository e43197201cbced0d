/* SPDX-License-Identifier: Apache-2.0
 * nccl_plugin.c - NCCL's profiler plugin, versions 1 to 6, in the same library. It serves a
 * statically linked NCCL, whose functions cannot be wrapped, and gives timing below the collective.
 * Used if NCCL_PROFILER_PLUGIN is STATIC_PLUGIN (SYSOM_NCCL_PLUGIN=1 sets that unless it is set).
 * NCCL calls from the job's threads and from its proxy threads. It may record on a handle after
 * stop, and it passes parents that belong to another process. So a handle is a generation and a
 * slot of a pool that is never freed. An open slot is not reused, and a handle that does not match
 * is counted and ignored. Only init may fail, and it does not.
 * SYSOM_NCCL_CHAIN=FILE names another plugin: it gets every callback, with its own contexts,
 * handles and parents. The two event masks are combined. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "foreign/nccl_profiler_v1.h"
#include "foreign/nccl_profiler_v2.h"
#include "foreign/nccl_profiler_v3.h"
#include "foreign/nccl_profiler_v4.h"
#include "foreign/nccl_profiler_v5.h"
#include "foreign/nccl_profiler_v6.h"
#include "preload/hooks.h"
#include "preload/tracer.h"

#define PLUGIN_SLOTS	8192 /* events in flight; a power of two */
#define PLUGIN_CONTEXTS 256
#define PLUGIN_PROBES	64
#define PLUGIN_VERSIONS 6
/* high byte of event_plugin.type: NCCL's states, and ours */
#define PLUGIN_STATE_START 0xfeu
#define PLUGIN_STATE_STOP  0xffu
/* Enqueue of collectives and point to point, and the API calls: cheap. KernelCh costs the proxy
 * work for each collective and is used only if requested (SYSOM_NCCL_MASK). */
#define PLUGIN_MASK                                                                                \
	(NCCL_PROFILE_COLL | NCCL_PROFILE_P2P | NCCL_PROFILE_COLL_API | NCCL_PROFILE_P2P_API)

struct plugin_context {
	uint32_t used;
	int user_mask;
	uint64_t comm_hash;
	void *user;
};
struct plugin_slot {
	uint32_t generation; /* odd: open */
	uint16_t type;	     /* bit number */
	uint8_t version, ours;
	uint64_t comm_hash;
	void *user; /* the chained plugin's handle */
};
/* A descriptor of any version. */
struct plugin_fact {
	uint64_t type, comm_hash, seq, value;
	void *parent;
	pid_t pid; /* 0: ours */
	int peer, channel;
	size_t group_offset; /* offset of the descriptor's second parent; 0: none */
};

static struct plugin_context plugin_contexts[PLUGIN_CONTEXTS];
static struct plugin_slot plugin_slots[PLUGIN_SLOTS];
static uint32_t plugin_next;
static int plugin_mask;
static pid_t plugin_pid;
static uint32_t plugin_started; /* 0; 1: a thread reads the settings; 2: done */
static const struct nccl_profiler_table *plugin_user[PLUGIN_VERSIONS + 1];

/* ---- handles ---- */

static void *plugin_handle(const struct plugin_slot *s, uint32_t generation)
{
	return (void *)(uintptr_t)((uint64_t)generation << 32 | (uint64_t)(s - plugin_slots + 1));
}

/* The slot of a handle that is open, or stopped and not reused yet; NULL for any other pointer. */
static struct plugin_slot *plugin_find(const void *handle)
{
	uint64_t h = (uint64_t)(uintptr_t)handle;
	uint32_t at = (uint32_t)h, g = (uint32_t)(h >> 32), now;

	if (!at || at > PLUGIN_SLOTS)
		return NULL;
	now = __atomic_load_n(&plugin_slots[at - 1].generation, __ATOMIC_ACQUIRE);
	return now == g || now == g + 1 ? &plugin_slots[at - 1] : NULL;
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

/* ---- the chained plugin ---- */

static void *plugin_user_handle(const void *ours)
{
	const struct plugin_slot *s = plugin_find(ours);

	return s ? s->user : NULL;
}

typedef nccl_result (*plugin_start_fn)(void *context, void **handle, void *event);

static void *plugin_forward_start(const struct plugin_context *c, unsigned version,
				  const struct plugin_fact *f, const void *event, size_t bytes)
{
	const struct nccl_profiler_table *user = plugin_user[version];
	uint64_t copy[32];
	void *handle = NULL, *second = NULL;

	if (!user || !c || !(c->user_mask & (int)f->type) || bytes > sizeof(copy))
		return NULL;
	memcpy(copy, event, bytes);
	if (!f->pid) {
		void *parent = plugin_user_handle(f->parent);

		memcpy((uint8_t *)copy + 8, &parent, sizeof(parent));
	}
	if (f->group_offset) {
		memcpy(&second, (uint8_t *)copy + f->group_offset, sizeof(second));
		second = plugin_user_handle(second);
		memcpy((uint8_t *)copy + f->group_offset, &second, sizeof(second));
	}
	((plugin_start_fn)user->start)(c->user, &handle, copy);
	return handle;
}

static void plugin_load_user(void)
{
	static const char *const names[] = {"",
					    "ncclProfiler_v1",
					    "ncclProfiler_v2",
					    "ncclProfiler_v3",
					    "ncclProfiler_v4",
					    "ncclProfiler_v5",
					    "ncclProfiler_v6"};
	const char *path = getenv("SYSOM_NCCL_CHAIN");
	void *library = path && *path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;

	for (unsigned v = 1; library && v <= PLUGIN_VERSIONS; v++)
		plugin_user[v] = hooks_dlsym(library, names[v]);
}

/* ---- the callbacks; versions differ only in their arguments ---- */

static struct plugin_context *plugin_open(uint64_t comm_hash, int *mask)
{
	const char *text = getenv("SYSOM_NCCL_MASK");
	uint32_t none = 0;

	if (__atomic_compare_exchange_n(&plugin_started, &none, 1, false, __ATOMIC_ACQ_REL,
					__ATOMIC_ACQUIRE)) {
		plugin_mask = text && *text ? (int)strtol(text, NULL, 0) : PLUGIN_MASK;
		plugin_pid = getpid();
		plugin_load_user();
		__atomic_store_n(&plugin_started, 2, __ATOMIC_RELEASE);
	}
	*mask = 0;
	if (tracer_is_dead() || (tracer_state() == TRACER_COLD && !tracer_start()))
		return NULL;
	for (unsigned i = 0; i < PLUGIN_CONTEXTS; i++) {
		uint32_t unused = 0;

		if (!__atomic_compare_exchange_n(&plugin_contexts[i].used, &unused, 1, false,
						 __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			continue;
		plugin_contexts[i].comm_hash = comm_hash;
		plugin_contexts[i].user = NULL;
		plugin_contexts[i].user_mask = 0;
		*mask = plugin_mask;
		return &plugin_contexts[i];
	}
	return NULL;
}

static nccl_result plugin_start(void *context, void **handle, unsigned version,
				const struct plugin_fact *f, const void *event, size_t bytes)
{
	struct plugin_context *c = context;
	struct plugin_slot *s;
	uint64_t type = f->type & 0xffffu;
	bool foreign = f->pid && f->pid != plugin_pid;

	if (!handle)
		return NCCL_OK;
	*handle = NULL;
	if (!type || tracer_is_dead())
		return NCCL_OK;
	s = plugin_take();
	if (!s) {
		plugin_unknown();
		return NCCL_OK;
	}
	/* with PXN the context, too, may belong to the other process */
	if (foreign || c < plugin_contexts || c >= plugin_contexts + PLUGIN_CONTEXTS)
		c = NULL;
	s->type = (uint16_t)__builtin_ctzll(type);
	s->version = (uint8_t)version;
	s->ours = (type & (uint64_t)plugin_mask) != 0;
	s->comm_hash = f->comm_hash ? f->comm_hash : c ? c->comm_hash : 0;
	s->user = plugin_forward_start(c, version, f, event, bytes);
	*handle = plugin_handle(s, s->generation);
	if (s->ours && plugin_on())
		plugin_push(s->comm_hash, s->type, PLUGIN_STATE_START, *handle,
			    !foreign && plugin_find(f->parent) ? f->parent : NULL, f->seq, f->value,
			    f->peer, f->channel);
	return NCCL_OK;
}

static nccl_result plugin_stop(void *handle)
{
	struct plugin_slot *s = plugin_find(handle);
	uint32_t g = (uint32_t)((uint64_t)(uintptr_t)handle >> 32);

	if (!handle)
		return NCCL_OK;
	if (!s || __atomic_load_n(&s->generation, __ATOMIC_RELAXED) != g) {
		plugin_unknown(); /* not ours, or stopped twice */
		return NCCL_OK;
	}
	if (s->user && plugin_user[s->version])
		plugin_user[s->version]->stop(s->user);
	if (s->ours && plugin_on())
		plugin_push(s->comm_hash, s->type, PLUGIN_STATE_STOP, handle, NULL, 0, 0, -1, -1);
	/* release pairs with the acquire in plugin_take */
	__atomic_compare_exchange_n(&s->generation, &g, g + 1, false, __ATOMIC_RELEASE,
				    __ATOMIC_RELAXED);
	return NCCL_OK;
}

static nccl_result plugin_record(void *handle, int state, void *args)
{
	struct plugin_slot *s = plugin_find(handle);
	uint64_t value = 0;
	int small = 0;

	if (!handle)
		return NCCL_OK;
	if (!s) {
		plugin_unknown();
		return NCCL_OK;
	}
	if (s->user && plugin_user[s->version])
		plugin_user[s->version]->record(s->user, state, args);
	if (args && (state == NCCL_PROFILE_STATE_CTRL_APPEND ||
		     state == NCCL_PROFILE_STATE_CTRL_APPEND_END)) {
		memcpy(&small, args, sizeof(small));
		value = (uint64_t)small;
	} else if (args) {
		memcpy(&value, args, sizeof(value));
	}
	if (s->ours && plugin_on())
		plugin_push(s->comm_hash, s->type, (uint32_t)state & 0x7f, handle, NULL, 0, value,
			    -1, -1);
	return NCCL_OK;
}

static nccl_result plugin_finalize(void *context, unsigned version)
{
	struct plugin_context *c = context;

	if (c < plugin_contexts || c >= plugin_contexts + PLUGIN_CONTEXTS)
		return NCCL_OK;
	if (c->user && plugin_user[version])
		plugin_user[version]->finalize(c->user);
	__atomic_store_n(&c->used, 0, __ATOMIC_RELEASE);
	return NCCL_OK;
}

/* ---- what differs ---- */

#define PLUGIN_FACT_PROXY(d, f)                                                                    \
	case NCCL_PROFILE_PROXY_OP:                                                                \
		(f).pid = (d)->proxy_op.pid;                                                       \
		(f).peer = (d)->proxy_op.peer;                                                     \
		(f).channel = (d)->proxy_op.channel;                                               \
		(f).value = (uint64_t)(d)->proxy_op.step_count << 32 |                             \
			    (uint32_t)(d)->proxy_op.chunk_bytes;                                   \
		break;                                                                             \
	case NCCL_PROFILE_PROXY_STEP:                                                              \
		(f).value = (uint64_t)(d)->proxy_step.step;                                        \
		break

#define PLUGIN_FACT_CALLS(d, f)                                                                    \
	case NCCL_PROFILE_COLL:                                                                    \
		(f).seq = (d)->coll.seq;                                                           \
		(f).value = (d)->coll.count;                                                       \
		(f).peer = (d)->coll.root;                                                         \
		break;                                                                             \
	case NCCL_PROFILE_P2P:                                                                     \
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

#define PLUGIN_START(v, more)                                                                      \
	static nccl_result plugin_start_v##v(void *context, void **handle,                         \
					     struct nccl_profiler_v##v##_event *d)                 \
	{                                                                                          \
		struct plugin_fact f = {.peer = -1, .channel = -1};                                \
                                                                                                   \
		if (!d)                                                                            \
			return NCCL_OK;                                                            \
		f.type = d->type;                                                                  \
		f.parent = d->parent;                                                              \
		switch (f.type) {                                                                  \
			PLUGIN_FACT_CALLS(d, f);                                                   \
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

PLUGIN_START(1, PLUGIN_FACT_NAMED(d, f))
PLUGIN_START(2, PLUGIN_FACT_NAMED(d, f))
PLUGIN_START(3, PLUGIN_FACT_NAMED(d, f))
PLUGIN_START(4, PLUGIN_FACT_KERNEL(d, f))
PLUGIN_START(5, PLUGIN_FACT_KERNEL(d, f); PLUGIN_FACT_API(5, d, f))
PLUGIN_START(6, PLUGIN_FACT_KERNEL(d, f); PLUGIN_FACT_API(6, d, f))

/* call: the chained plugin's init with its own context and mask */
#define PLUGIN_INIT_BODY(v, hash, call)                                                            \
	struct plugin_context *c = plugin_open(hash, mask);                                        \
	int user_mask = 0;                                                                         \
	void *user = NULL;                                                                         \
                                                                                                   \
	*context = c;                                                                              \
	if (c && plugin_user[v] && (call) == NCCL_OK) {                                            \
		c->user = user;                                                                    \
		c->user_mask = user_mask;                                                          \
		*mask |= user_mask;                                                                \
	}                                                                                          \
	return NCCL_OK

#define PLUGIN_INIT_EARLY(v)                                                                       \
	static nccl_result plugin_init_v##v(void **context, int *mask)                             \
	{                                                                                          \
		PLUGIN_INIT_BODY(                                                                  \
		    v, 0,                                                                          \
		    ((nccl_profiler_v##v##_init_fn)plugin_user[v]->init)(&user, &user_mask));      \
	}
PLUGIN_INIT_EARLY(1)
PLUGIN_INIT_EARLY(2)
PLUGIN_INIT_EARLY(3)

static nccl_result plugin_init_v4(void **context, int *mask, const char *name, uint64_t comm_hash,
				  int nodes, int nranks, int rank, void *log)
{
	PLUGIN_INIT_BODY(4, comm_hash,
			 ((nccl_profiler_v4_init_fn)plugin_user[4]->init)(
			     &user, &user_mask, name, comm_hash, nodes, nranks, rank, log));
}

#define PLUGIN_INIT_LATE(v)                                                                        \
	static nccl_result plugin_init_v##v(void **context, uint64_t comm_hash, int *mask,         \
					    const char *name, int nodes, int nranks, int rank,     \
					    void *log)                                             \
	{                                                                                          \
		PLUGIN_INIT_BODY(                                                                  \
		    v, comm_hash,                                                                  \
		    ((nccl_profiler_v##v##_init_fn)plugin_user[v]->init)(                          \
			&user, comm_hash, &user_mask, name, nodes, nranks, rank, log));            \
	}
PLUGIN_INIT_LATE(5)
PLUGIN_INIT_LATE(6)

#define PLUGIN_TABLE(v)                                                                            \
	extern const struct nccl_profiler_table ncclProfiler_v##v;                                 \
	__attribute__((visibility("default")))                                                     \
	const struct nccl_profiler_table ncclProfiler_v##v = {                                     \
	    "sysom",	 plugin_init_v##v, plugin_start_v##v,                                      \
	    plugin_stop, plugin_record,	   plugin_finalize_v##v}
PLUGIN_TABLE(1);
PLUGIN_TABLE(2);
PLUGIN_TABLE(3);
PLUGIN_TABLE(4);
PLUGIN_TABLE(5);
PLUGIN_TABLE(6);
