/* SPDX-License-Identifier: Apache-2.0
 * cupti_double.c - the activity API over the modelled GPU. Finished work is queued here and packed
 * into the client's buffers, by the GPU's worker or by the thread that flushes. If no buffer is
 * available, the launch thread asks for one, as in the real library. Environment variables inject
 * faults: see docs/sim.md. Built twice: libcupti.so.13 and, with fewer symbols, .so.12.
 * Client 0 uses the unversioned calls; the others are subscribers of the versioned ones
 * (SIM_CUPTI_V2). As in the real library the two kinds exclude each other. */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "foreign/cupti_v2.h"
#include "sim/gpu_iface.h"
#include "sim/sim_base.h"

#define CUPTI_API(type, name, params)                                                              \
	__attribute__((visibility("default"))) type name params;                                   \
	type name params

#define QUEUE_RECORDS 65536u
#define ATTRIBUTES    16
#define COMPLETED_MAX 64
#define KIND_MAX      64
#define MEMCPY5_BYTES 88
#define MEMSET4_BYTES 88
#define GRAPH_BYTES   48
#define GRAPH2_BYTES  56

struct buffer {
	uint8_t *data;
	size_t bytes, used, records, max_records;
};

#define CLIENTS 5

struct client {
	bool used, subscribed;
	bool enabled[KIND_MAX];
	cupti_buffer_requested_fn on_request;
	cupti_buffer_completed_fn on_complete;
	cupti_buffer_requested_v2_fn on_request_v2;
	cupti_buffer_completed_v2_fn on_complete_v2;
	bool zeroed; /* for its buffers */
	struct buffer current, completed[COMPLETED_MAX];
	unsigned completed_count;
	size_t dropped;
};

struct queued {
	struct gpu_record record;
	unsigned clients; /* one bit per client that had the kind enabled */
};

static const struct gpu_iface *gpu_door;
static pthread_mutex_t queue_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t pack_lock = PTHREAD_MUTEX_INITIALIZER; /* buffers and client callbacks */
static pthread_mutex_t state_lock = PTHREAD_MUTEX_INITIALIZER;
static struct queued *queue;
static unsigned queue_head, queue_count;
static struct client clients[CLIENTS] = {{.used = true}};
static cupti_timestamp_fn timestamp_fn;
static uint64_t attributes[ATTRIBUTES] = {[CUPTI_ATTR_PER_THREAD_ACTIVITY_BUFFER] = 1,
					  [CUPTI_ATTR_DEVICE_BUFFER_SIZE] = 3200000,
					  [CUPTI_ATTR_DEVICE_BUFFER_POOL_LIMIT] = 250};
static unsigned have_buffers; /* a hint for launch threads, read without the lock: one bit per
			       * client */
static unsigned want_buffers;
static __thread bool in_callback;

static struct {
	bool read;
	unsigned kernel_bytes, memcpy_bytes, graph_bytes;
	uint64_t zero_every, reverse_every, drop_every, rival, fail, v2, v2_fail;
	uint64_t record_count;
} setup;

/* ---- clocks ---- */

static struct {
	uint64_t mono0, user0, mono1, user1;
} anchor;

static uint64_t user_time(void)
{
	return timestamp_fn ? timestamp_fn() : sim_clock(CLOCK_REALTIME);
}

/* The closest pair of a few readings: GPU time is interpolated between two such pairs. */
static void anchor_read(uint64_t *mono, uint64_t *user)
{
	uint64_t best = UINT64_MAX;

	for (int i = 0; i < 5; i++) {
		uint64_t a = sim_now(), u = user_time();
		uint64_t b = sim_now();

		if (b - a < best) {
			best = b - a;
			*mono = a + (b - a) / 2;
			*user = u;
		}
	}
}

static void anchor_begin(void)
{
	struct timespec ms = {.tv_nsec = 2000000};

	anchor_read(&anchor.mono0, &anchor.user0);
	nanosleep(&ms, NULL);
	anchor_read(&anchor.mono1, &anchor.user1);
}

static uint64_t to_user(uint64_t mono)
{
	__int128 dm = (__int128)anchor.mono1 - anchor.mono0;
	__int128 du = (__int128)anchor.user1 - anchor.user0;

	if (!mono || dm <= 0)
		return mono;
	return (uint64_t)((__int128)anchor.user0 + ((__int128)mono - anchor.mono0) * du / dm);
}

/* ---- set-up ---- */

static void setup_read(void)
{
	static const unsigned sizes[] = {CUPTI_KERNEL5_BYTES, CUPTI_KERNEL6_BYTES,
					 CUPTI_KERNEL7_BYTES, CUPTI_KERNEL8_BYTES,
					 CUPTI_KERNEL9_BYTES, CUPTI_KERNEL10_BYTES};
	uint64_t version;

	if (setup.read)
		return;
#ifdef SIM_CUPTI_12
	version = sim_number("SIM_CUPTI_KERNEL_VERSION", 9);
#else
	version = sim_number("SIM_CUPTI_KERNEL_VERSION", 10);
#endif
	if (version < 5 || version > 10)
		version = 10;
	setup.kernel_bytes = sizes[version - 5];
	setup.memcpy_bytes = version >= 10 ? sizeof(cupti_memcpy) : MEMCPY5_BYTES;
	setup.graph_bytes = version >= 9 ? GRAPH2_BYTES : GRAPH_BYTES;
	setup.zero_every = sim_number("SIM_CUPTI_ZERO_EVERY", 0);
	setup.reverse_every = sim_number("SIM_CUPTI_REVERSE_EVERY", 0);
	setup.drop_every = sim_number("SIM_CUPTI_DROP_EVERY", 0);
	setup.rival = sim_number("SIM_CUPTI_RIVAL", 0);
	setup.fail = sim_number("SIM_CUPTI_FAIL", 0);
	setup.v2 = sim_number("SIM_CUPTI_V2", 0);
	setup.v2_fail = sim_number("SIM_CUPTI_V2_FAIL", 0);
	setup.read = true;
}

static const struct gpu_iface *door(void)
{
	void *lib;

	if (gpu_door)
		return gpu_door;
	lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
	if (lib)
		gpu_door = dlsym(lib, GPU_IFACE_SYMBOL);
	if (gpu_door && gpu_door->version != GPU_IFACE_VERSION)
		gpu_door = NULL;
	return gpu_door;
}

/* ---- records ---- */

static bool wanted(const struct client *c, const struct gpu_record *r)
{
	switch (r->kind) {
	case GPU_RECORD_KERNEL:
		return c->enabled[CUPTI_KIND_KERNEL] || c->enabled[CUPTI_KIND_CONCURRENT_KERNEL];
	case GPU_RECORD_COPY:
		return c->enabled[r->copy_kind == CUPTI_COPY_PEER ? CUPTI_KIND_MEMCPY2
								  : CUPTI_KIND_MEMCPY];
	case GPU_RECORD_SET:
		return c->enabled[CUPTI_KIND_MEMSET];
	case GPU_RECORD_GRAPH:
		return c->enabled[CUPTI_KIND_GRAPH_TRACE];
	}
	return false;
}

static void hook_record(const struct gpu_record *r)
{
	unsigned who = 0;

	pthread_mutex_lock(&queue_lock);
	for (unsigned i = 0; i < CLIENTS; i++)
		who |= (unsigned)wanted(&clients[i], r) << i;
	if (who && queue_count == QUEUE_RECORDS) {
		for (unsigned i = 0; i < CLIENTS; i++)
			clients[i].dropped += who >> i & 1;
	} else if (who) {
		queue[(queue_head + queue_count++) % QUEUE_RECORDS] =
		    (struct queued){.record = *r, .clients = who};
	}
	pthread_mutex_unlock(&queue_lock);
}

static bool queue_pop(struct queued *q)
{
	bool any;

	pthread_mutex_lock(&queue_lock);
	any = queue_count > 0;
	if (any) {
		*q = queue[queue_head];
		queue_head = (queue_head + 1) % QUEUE_RECORDS;
		queue_count--;
	}
	pthread_mutex_unlock(&queue_lock);
	return any;
}

struct __attribute__((packed, aligned(8))) memset_record {
	uint32_t kind, value;
	uint64_t bytes, start, end;
	uint32_t device, context, stream, correlation;
	uint16_t flags, memory_kind;
	uint32_t pad;
	void *reserved0;
	uint64_t graph_node_id;
	uint32_t graph_id, channel_id, channel_type;
	uint8_t device_launched, pad2[3];
};
_Static_assert(sizeof(struct memset_record) == MEMSET4_BYTES, "memset_record");

struct __attribute__((packed, aligned(8))) graph_record {
	uint32_t kind, correlation;
	uint64_t start, end;
	uint32_t device, graph_id, context, stream;
	void *reserved;
	uint32_t end_device, end_context;
};
_Static_assert(sizeof(struct graph_record) == GRAPH2_BYTES, "graph_record");

union any_record {
	uint8_t bytes[CUPTI_KERNEL10_BYTES];
	cupti_kernel kernel;
	cupti_memcpy copy;
	cupti_memcpy_peer peer;
	struct memset_record set;
	struct graph_record graph;
};

static size_t record_bytes(uint32_t kind)
{
	switch (kind) {
	case CUPTI_KIND_KERNEL:
	case CUPTI_KIND_CONCURRENT_KERNEL:
		return setup.kernel_bytes;
	case CUPTI_KIND_MEMCPY:
		return setup.memcpy_bytes;
	case CUPTI_KIND_MEMCPY2:
		return setup.memcpy_bytes == MEMCPY5_BYTES ? CUPTI_MEMCPY_PEER3_BYTES
							   : sizeof(cupti_memcpy_peer);
	case CUPTI_KIND_MEMSET:
		return MEMSET4_BYTES;
	case CUPTI_KIND_GRAPH_TRACE:
		return setup.graph_bytes;
	default:
		return 0;
	}
}

static void pack_kernel(cupti_kernel *k, const struct client *c, const struct gpu_record *r,
			uint64_t start, uint64_t end)
{
	k->kind = c->enabled[CUPTI_KIND_KERNEL] ? CUPTI_KIND_KERNEL : CUPTI_KIND_CONCURRENT_KERNEL;
	k->registers = 32;
	k->start = start;
	k->end = end;
	k->device = r->device;
	k->context = r->context;
	k->stream = r->stream;
	for (int i = 0; i < 3; i++) {
		k->grid[i] = (int32_t)r->grid[i];
		k->block[i] = (int32_t)r->block[i];
	}
	k->shared_dynamic_bytes = (int32_t)r->shared_bytes;
	k->correlation = r->correlation;
	k->grid_id = (int64_t)setup.record_count;
	k->name = r->name;
	k->graph_node_id = r->node_id;
	k->graph_id = r->graph_id;
}

static void pack_copy(cupti_memcpy *c, const struct gpu_record *r, uint64_t start, uint64_t end)
{
	static const uint8_t ends[][2] = {[1] = {2, 3}, [2] = {3, 2}, [8] = {3, 3}, [9] = {2, 2}};

	c->kind = CUPTI_KIND_MEMCPY;
	c->copy_kind = r->copy_kind;
	if (r->copy_kind < sizeof(ends) / sizeof(ends[0])) {
		c->src_kind = ends[r->copy_kind][0];
		c->dst_kind = ends[r->copy_kind][1];
	}
	c->flags = 1; /* asynchronous */
	c->bytes = r->bytes;
	c->start = start;
	c->end = end;
	c->device = r->device;
	c->context = r->context;
	c->stream = r->stream;
	c->correlation = r->correlation;
	c->graph_node_id = r->node_id;
	c->graph_id = r->graph_id;
	if (setup.memcpy_bytes > MEMCPY5_BYTES)
		c->copy_count = 1;
}

static void pack_peer(cupti_memcpy_peer *c, const struct gpu_record *r, uint64_t start,
		      uint64_t end)
{
	*c = (cupti_memcpy_peer){.kind = CUPTI_KIND_MEMCPY2,
				 .copy_kind = r->copy_kind,
				 .src_kind = 3,
				 .dst_kind = 3,
				 .flags = 1,
				 .bytes = r->bytes,
				 .start = start,
				 .end = end,
				 .device = r->device,
				 .context = r->context,
				 .stream = r->stream,
				 .correlation = r->correlation,
				 .graph_node_id = r->node_id,
				 .graph_id = r->graph_id};
}

static void pack_record(union any_record *out, const struct client *c, const struct gpu_record *r)
{
	uint64_t start = to_user(r->start_ns), end = to_user(r->end_ns);

	setup.record_count++;
	if (setup.zero_every && setup.record_count % setup.zero_every == 0)
		start = end = 0;
	else if (setup.reverse_every && setup.record_count % setup.reverse_every == 0 && end) {
		uint64_t t = start;

		start = end;
		end = t;
	}
	memset(out, 0, sizeof(*out));
	switch (r->kind) {
	case GPU_RECORD_KERNEL:
		pack_kernel(&out->kernel, c, r, start, end);
		break;
	case GPU_RECORD_COPY:
		if (r->copy_kind == CUPTI_COPY_PEER)
			pack_peer(&out->peer, r, start, end);
		else
			pack_copy(&out->copy, r, start, end);
		break;
	case GPU_RECORD_SET:
		out->set = (struct memset_record){.kind = CUPTI_KIND_MEMSET,
						  .bytes = r->bytes,
						  .start = start,
						  .end = end,
						  .device = r->device,
						  .context = r->context,
						  .stream = r->stream,
						  .correlation = r->correlation,
						  .memory_kind = 3,
						  .graph_node_id = r->node_id,
						  .graph_id = r->graph_id};
		break;
	case GPU_RECORD_GRAPH:
		out->graph = (struct graph_record){.kind = CUPTI_KIND_GRAPH_TRACE,
						   .correlation = r->correlation,
						   .start = start,
						   .end = end,
						   .device = r->device,
						   .graph_id = r->graph_id,
						   .context = r->context,
						   .stream = r->stream,
						   .end_device = r->device,
						   .end_context = r->context};
		break;
	}
}

/* ---- buffers; pack_lock is held ---- */

static void buffer_request(struct client *c)
{
	struct buffer b = {0};

	if (c->current.data || (!c->on_request && !c->on_request_v2))
		return;
	in_callback = true;
	if (c->on_request)
		c->on_request(&b.data, &b.bytes, &b.max_records);
	else
		c->on_request_v2(&b.data, &b.bytes, &b.max_records, NULL);
	in_callback = false;
	if (!b.data || !b.bytes)
		return;
	if (!(c == clients ? attributes[CUPTI_ATTR_ZEROED_OUT_ACTIVITY_BUFFER] : c->zeroed))
		memset(b.data, 0, b.bytes);
	c->current = b;
	__atomic_fetch_or(&have_buffers, 1u << (c - clients), __ATOMIC_RELEASE);
}

static void buffers_deliver(struct client *c)
{
	for (unsigned i = 0; i < c->completed_count; i++) {
		struct buffer *b = &c->completed[i];

		in_callback = true;
		if (c->on_complete)
			c->on_complete(NULL, 0, b->data, b->bytes, b->used);
		else if (c->on_complete_v2)
			c->on_complete_v2(b->data, b->bytes, b->used, NULL);
		in_callback = false;
	}
	c->completed_count = 0;
}

static void buffer_complete(struct client *c)
{
	if (!c->current.data)
		return;
	if (c->completed_count == COMPLETED_MAX)
		buffers_deliver(c);
	c->completed[c->completed_count++] = c->current;
	memset(&c->current, 0, sizeof(c->current));
	__atomic_fetch_and(&have_buffers, ~(1u << (c - clients)), __ATOMIC_RELEASE);
}

static bool buffer_full(const struct client *c, size_t bytes)
{
	return c->current.used + bytes > c->current.bytes ||
	       (c->current.max_records && c->current.records == c->current.max_records);
}

static void pack_one(struct client *c, const struct gpu_record *r)
{
	union any_record out;
	size_t bytes;

	pack_record(&out, c, r);
	bytes = record_bytes(*(uint32_t *)out.bytes);
	if (c->current.data && buffer_full(c, bytes))
		buffer_complete(c);
	if (!c->current.data)
		buffer_request(c);
	if (!c->current.data || buffer_full(c, bytes) ||
	    (setup.drop_every && setup.record_count % setup.drop_every == 0)) {
		pthread_mutex_lock(&queue_lock);
		c->dropped++;
		pthread_mutex_unlock(&queue_lock);
		return;
	}
	memcpy(c->current.data + c->current.used, &out, bytes);
	c->current.used += bytes;
	c->current.records++;
}

static void pack_all(void)
{
	struct queued q;

	anchor_read(&anchor.mono1, &anchor.user1);
	while (queue_pop(&q))
		for (unsigned i = 0; i < CLIENTS; i++)
			if (q.clients >> i & 1)
				pack_one(&clients[i], &q.record);
}

static void hook_launch(void)
{
	unsigned want = __atomic_load_n(&want_buffers, __ATOMIC_ACQUIRE);

	if (!(want & ~__atomic_load_n(&have_buffers, __ATOMIC_ACQUIRE)) || in_callback)
		return;
	if (pthread_mutex_trylock(&pack_lock))
		return;
	for (unsigned i = 0; i < CLIENTS; i++)
		if (want >> i & 1)
			buffer_request(&clients[i]);
	pthread_mutex_unlock(&pack_lock);
}

static void hook_deliver(void)
{
	bool any;

	pthread_mutex_lock(&queue_lock);
	any = queue_count > 0;
	pthread_mutex_unlock(&queue_lock);
	/* Another thread is packing: wait for the next tick. */
	if (!any || pthread_mutex_trylock(&pack_lock))
		return;
	pack_all();
	for (unsigned i = 0; i < CLIENTS; i++)
		buffers_deliver(&clients[i]);
	pthread_mutex_unlock(&pack_lock);
}

static const struct gpu_hooks hooks = {
    .record = hook_record, .launch = hook_launch, .deliver = hook_deliver};

/* ---- permissions of callers; state_lock is held ---- */

static unsigned versioned_count(void)
{
	unsigned n = 0;

	for (unsigned i = 1; i < CLIENTS; i++)
		n += clients[i].used;
	return n;
}

/* The result for a caller of unversioned activity functions while versioned subscribers exist. */
static cupti_result unversioned_allowed(void)
{
	cupti_result rc;

	pthread_mutex_lock(&state_lock);
	rc = versioned_count() ? CUPTI_NOT_COMPATIBLE : CUPTI_OK;
	pthread_mutex_unlock(&state_lock);
	return rc;
}

static struct client *client_of(cupti_subscriber s)
{
	struct client *c = s;

	return c >= &clients[0] && c < &clients[CLIENTS] && c->subscribed ? c : NULL;
}

/* ---- the API ---- */

CUPTI_API(cupti_result, cuptiGetVersion, (uint32_t * version))
{
	if (!version)
		return CUPTI_INVALID_PARAMETER;
#ifdef SIM_CUPTI_12
	*version = (uint32_t)sim_number("SIM_CUPTI_VERSION", 24);
#else
	*version = (uint32_t)sim_number("SIM_CUPTI_VERSION", 130001);
#endif
	return CUPTI_OK;
}

CUPTI_API(cupti_result, cuptiActivityRegisterCallbacks,
	  (cupti_buffer_requested_fn requested, cupti_buffer_completed_fn done))
{
	struct client *c = &clients[0];

	if (!requested || !done)
		return CUPTI_INVALID_PARAMETER;
	setup_read();
	if (unversioned_allowed() != CUPTI_OK)
		return CUPTI_NOT_COMPATIBLE;
	pthread_mutex_lock(&pack_lock);
	/* Process-global: the earlier client first gets back what it holds. */
	if (c->on_complete && c->on_complete != done) {
		buffer_complete(c);
		buffers_deliver(c);
	}
	c->on_request = requested;
	c->on_complete = done;
	pthread_mutex_unlock(&pack_lock);
	return CUPTI_OK;
}

/* Enables on the GPU what the clients enabled. */
static void apply_kinds(void)
{
	unsigned want = 0;
	bool coarse = false;

	for (unsigned c = 0; c < CLIENTS; c++) {
		coarse |= clients[c].enabled[CUPTI_KIND_GRAPH_TRACE];
		for (int i = 0; i < KIND_MAX; i++)
			want |= (unsigned)clients[c].enabled[i] << c;
	}
	__atomic_store_n(&want_buffers, want, __ATOMIC_RELEASE);
	gpu_door->set_graph_nodes(!coarse);
	gpu_door->set_hooks(want ? &hooks : NULL);
}

/* SIM_CUPTI_TRUTH: one line with the time (CLOCK_MONOTONIC) when a kind really went on. */
static void truth_note(void)
{
	const char *path = getenv("SIM_CUPTI_TRUTH");
	int fd = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644) : -1;

	if (fd < 0)
		return;
	dprintf(fd, "%llu\n", (unsigned long long)sim_now());
	close(fd);
}

/* state_lock is held. */
static cupti_result kind_enable(struct client *c, uint32_t kind)
{
	if (!door())
		return CUPTI_NOT_INITIALIZED_;
	if (!queue)
		queue = calloc(QUEUE_RECORDS, sizeof(*queue));
	if (!anchor.mono0)
		anchor_begin();
	if (!queue)
		return 8; /* out of memory */
	if (!c->enabled[kind]) {
		truth_note();
		c->enabled[kind] = true;
		apply_kinds();
	}
	return CUPTI_OK;
}

/* state_lock is held. */
static void kind_disable(struct client *c, uint32_t kind)
{
	if (!c->enabled[kind] || !door())
		return;
	gpu_door->retire(false); /* work that has ended was still observed */
	c->enabled[kind] = false;
	apply_kinds();
}

CUPTI_API(cupti_result, cuptiActivityEnable, (uint32_t kind))
{
	cupti_result rc;

	setup_read();
	if (kind == 0 || kind >= KIND_MAX)
		return CUPTI_INVALID_KIND;
	if (setup.fail)
		return (cupti_result)setup.fail;
	pthread_mutex_lock(&state_lock);
	rc = versioned_count() ? CUPTI_NOT_COMPATIBLE : kind_enable(&clients[0], kind);
	pthread_mutex_unlock(&state_lock);
	return rc;
}

CUPTI_API(cupti_result, cuptiActivityDisable, (uint32_t kind))
{
	cupti_result rc = CUPTI_OK;

	if (kind == 0 || kind >= KIND_MAX)
		return CUPTI_INVALID_KIND;
	pthread_mutex_lock(&state_lock);
	if (versioned_count())
		rc = CUPTI_NOT_COMPATIBLE;
	else
		kind_disable(&clients[0], kind);
	pthread_mutex_unlock(&state_lock);
	return rc;
}

CUPTI_API(cupti_result, cuptiActivityFlushAll, (uint32_t flags))
{
	if (in_callback || !gpu_door)
		return CUPTI_OK;
	gpu_door->retire(flags & CUPTI_FLUSH_FORCED);
	pthread_mutex_lock(&pack_lock);
	pack_all();
	for (unsigned i = 0; i < CLIENTS; i++) {
		if (clients[i].current.used)
			buffer_complete(&clients[i]);
		buffers_deliver(&clients[i]);
	}
	pthread_mutex_unlock(&pack_lock);
	return CUPTI_OK;
}

static cupti_result next_record(uint8_t *buffer, size_t valid, void **record)
{
	size_t at = 0, bytes;

	if (!buffer || !record)
		return CUPTI_INVALID_PARAMETER;
	setup_read();
	if (*record) {
		uint8_t *p = *record;

		if (p < buffer || p >= buffer + valid)
			return CUPTI_INVALID_PARAMETER;
		bytes = record_bytes(*(uint32_t *)p);
		if (!bytes)
			return CUPTI_INVALID_KIND;
		at = (size_t)(p - buffer) + bytes;
	}
	if (at + sizeof(uint32_t) > valid)
		return CUPTI_MAX_LIMIT;
	bytes = record_bytes(*(uint32_t *)(buffer + at));
	if (!bytes)
		return CUPTI_INVALID_KIND;
	if (at + bytes > valid)
		return CUPTI_MAX_LIMIT;
	*record = buffer + at;
	return CUPTI_OK;
}

CUPTI_API(cupti_result, cuptiActivityGetNextRecord, (uint8_t * buffer, size_t valid, void **record))
{
	return unversioned_allowed() == CUPTI_OK ? next_record(buffer, valid, record)
						 : CUPTI_NOT_COMPATIBLE;
}

static cupti_result take_dropped(struct client *c, size_t *count)
{
	if (!count)
		return CUPTI_INVALID_PARAMETER;
	pthread_mutex_lock(&queue_lock);
	*count = c->dropped;
	c->dropped = 0;
	pthread_mutex_unlock(&queue_lock);
	return CUPTI_OK;
}

CUPTI_API(cupti_result, cuptiActivityGetNumDroppedRecords,
	  (void *context, uint32_t stream, size_t *count))
{
	return take_dropped(&clients[0], count);
}

CUPTI_API(cupti_result, cuptiActivitySetAttribute, (uint32_t attr, size_t *bytes, void *value))
{
	if (attr >= ATTRIBUTES || !bytes || !value)
		return CUPTI_INVALID_PARAMETER;
	if (*bytes > sizeof(uint64_t))
		return 10; /* parameter size */
	if (unversioned_allowed() != CUPTI_OK)
		return CUPTI_NOT_COMPATIBLE;
	attributes[attr] = 0;
	memcpy(&attributes[attr], value, *bytes);
	return CUPTI_OK;
}

CUPTI_API(cupti_result, cuptiGetTimestamp, (uint64_t * ns))
{
	if (!ns)
		return CUPTI_INVALID_PARAMETER;
	if (unversioned_allowed() != CUPTI_OK)
		return CUPTI_NOT_COMPATIBLE;
	*ns = user_time();
	return CUPTI_OK;
}

CUPTI_API(cupti_result, cuptiGetContextId, (void *context, uint32_t *id))
{
	if (!id || !door())
		return CUPTI_INVALID_PARAMETER;
	*id = gpu_door->context_id(context);
	return *id ? CUPTI_OK : 3; /* invalid context */
}

CUPTI_API(cupti_result, cuptiGetStreamIdEx,
	  (void *context, void *stream, uint8_t per_thread, uint32_t *id))
{
	if (!id || !door())
		return CUPTI_INVALID_PARAMETER;
	return gpu_door->stream_id(context, stream, per_thread, id) ? 20 : CUPTI_OK;
}

CUPTI_API(cupti_result, cuptiSubscribe, (cupti_subscriber * out, void *callback, void *user))
{
	cupti_result rc = CUPTI_OK;

	setup_read();
	if (!out)
		return CUPTI_INVALID_PARAMETER;
	pthread_mutex_lock(&state_lock);
	if (setup.rival || clients[0].subscribed || versioned_count()) {
		rc = CUPTI_MULTIPLE_SUBSCRIBERS;
	} else {
		clients[0].subscribed = true;
		*out = &clients[0];
	}
	pthread_mutex_unlock(&state_lock);
	return rc;
}

CUPTI_API(cupti_result, cuptiUnsubscribe, (cupti_subscriber s))
{
	cupti_result rc = CUPTI_OK;
	struct client *c;

	pthread_mutex_lock(&pack_lock);
	pthread_mutex_lock(&state_lock);
	c = client_of(s);
	if (!c)
		rc = CUPTI_INVALID_PARAMETER;
	else if (c == clients)
		c->subscribed = false;
	for (uint32_t i = 1; c && c != clients && i < KIND_MAX; i++)
		kind_disable(c, i);
	if (c && c != clients) {
		/* unflushed records are lost, and their buffers with them */
		__atomic_fetch_and(&have_buffers, ~(1u << (c - clients)), __ATOMIC_RELEASE);
		memset(c, 0, sizeof(*c));
	}
	pthread_mutex_unlock(&state_lock);
	pthread_mutex_unlock(&pack_lock);
	return rc;
}

CUPTI_API(cupti_result, cuptiFinalize, (void))
{
	pthread_mutex_lock(&state_lock);
	for (unsigned c = 0; c < CLIENTS && versioned_count() <= 1; c++)
		for (uint32_t i = 1; i < KIND_MAX; i++)
			kind_disable(&clients[c], i);
	pthread_mutex_unlock(&state_lock);
	return CUPTI_OK;
}

/* Newer than the release that libcupti.so.12 represents. */
#ifndef SIM_CUPTI_12
CUPTI_API(cupti_result, cuptiActivityRegisterTimestampCallback, (cupti_timestamp_fn fn))
{
	if (!fn)
		return CUPTI_INVALID_PARAMETER;
	if (unversioned_allowed() != CUPTI_OK)
		return CUPTI_NOT_COMPATIBLE;
	pthread_mutex_lock(&state_lock);
	timestamp_fn = fn;
	anchor_begin();
	pthread_mutex_unlock(&state_lock);
	return CUPTI_OK;
}

/* What SIM_CUPTI_V2_FAIL selects. */
enum { V2_FAIL_SUBSCRIBE = 1, V2_FAIL_CLOCK, V2_FAIL_REGISTER, V2_FAIL_ENABLE };

static bool sharing; /* the first subscriber's choice */

static bool unversioned_in_use(void)
{
	bool any = clients[0].subscribed;

	for (unsigned i = 0; i < KIND_MAX; i++)
		any |= clients[0].enabled[i];
	return any;
}

/* state_lock is held. */
static cupti_result subscribe_v2(cupti_subscriber *out, bool share)
{
	unsigned n = versioned_count();

	if (setup.v2_fail == V2_FAIL_SUBSCRIBE || setup.rival || unversioned_in_use() ||
	    (n && !(share && sharing)))
		return CUPTI_MULTIPLE_SUBSCRIBERS;
	for (unsigned i = 1; i < CLIENTS; i++)
		if (!clients[i].used) {
			clients[i].used = clients[i].subscribed = true;
			sharing = share;
			*out = &clients[i];
			return CUPTI_OK;
		}
	return CUPTI_MULTIPLE_SUBSCRIBERS;
}

CUPTI_API(cupti_result, cuptiSubscribe_v2,
	  (cupti_subscriber * out, cupti_callback_fn callback, void *user,
	   cupti_subscriber_params *params))
{
	cupti_result rc;

	setup_read();
	if (!setup.v2)
		return cuptiSubscribe(out, (void *)callback, user);
	if (!out)
		return CUPTI_INVALID_PARAMETER;
	pthread_mutex_lock(&state_lock);
	rc = subscribe_v2(
	    out, params && params->struct_bytes > offsetof(cupti_subscriber_params, share) &&
		     params->share);
	pthread_mutex_unlock(&state_lock);
	return rc;
}

CUPTI_API(cupti_result, cuptiActivityRegisterCallbacks_v2,
	  (cupti_subscriber s, cupti_buffer_requested_v2_fn requested,
	   cupti_buffer_completed_v2_fn done))
{
	struct client *c = client_of(s);

	if (!c || c == clients || !requested || !done || setup.v2_fail == V2_FAIL_REGISTER)
		return CUPTI_INVALID_PARAMETER;
	pthread_mutex_lock(&pack_lock);
	c->on_request_v2 = requested;
	c->on_complete_v2 = done;
	pthread_mutex_unlock(&pack_lock);
	return CUPTI_OK;
}

CUPTI_API(cupti_result, cuptiActivityEnable_v2, (cupti_subscriber s, uint32_t kind, void *config))
{
	struct client *c = client_of(s);
	cupti_result rc;

	if (!c || c == clients || config)
		return CUPTI_INVALID_PARAMETER;
	if (kind == 0 || kind >= KIND_MAX)
		return CUPTI_INVALID_KIND;
	/* Needs an attribute that the first subscriber must have set. */
	if (kind == CUPTI_KIND_GRAPH_TRACE || (setup.v2_fail == V2_FAIL_ENABLE && kind > 1))
		return CUPTI_NOT_COMPATIBLE;
	pthread_mutex_lock(&state_lock);
	rc = kind_enable(c, kind);
	pthread_mutex_unlock(&state_lock);
	return rc;
}

CUPTI_API(cupti_result, cuptiActivityDisable_v2, (cupti_subscriber s, uint32_t kind, void *config))
{
	struct client *c = client_of(s);

	if (!c || c == clients)
		return CUPTI_INVALID_PARAMETER;
	if (kind == 0 || kind >= KIND_MAX)
		return CUPTI_INVALID_KIND;
	pthread_mutex_lock(&state_lock);
	kind_disable(c, kind);
	pthread_mutex_unlock(&state_lock);
	return CUPTI_OK;
}

CUPTI_API(cupti_result, cuptiActivityGetNextRecord_v2,
	  (cupti_subscriber s, uint8_t *buffer, size_t valid, void **record))
{
	return client_of(s) ? next_record(buffer, valid, record) : CUPTI_INVALID_PARAMETER;
}

CUPTI_API(cupti_result, cuptiActivityGetNumDroppedRecords_v2,
	  (cupti_subscriber s, void *context, uint32_t stream, size_t *count))
{
	struct client *c = client_of(s);

	return c ? take_dropped(c, count) : CUPTI_INVALID_PARAMETER;
}

CUPTI_API(cupti_result, cuptiActivitySetAttribute_v2,
	  (cupti_subscriber s, uint32_t attr, size_t *bytes, void *value))
{
	struct client *c = client_of(s);

	if (!c || attr >= ATTRIBUTES || !bytes || !value || !*bytes)
		return CUPTI_INVALID_PARAMETER;
	if (attr == CUPTI_ATTR_ZEROED_OUT_ACTIVITY_BUFFER)
		c->zeroed = *(uint8_t *)value != 0;
	return CUPTI_OK;
}

CUPTI_API(cupti_result, cuptiGetTimestamp_v2, (cupti_subscriber s, uint64_t *ns))
{
	if (!client_of(s) || !ns)
		return CUPTI_INVALID_PARAMETER;
	*ns = user_time() + (setup.v2_fail == V2_FAIL_CLOCK ? 3600000000000ull : 0);
	return CUPTI_OK;
}
#endif
