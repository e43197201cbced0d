/* SPDX-License-Identifier: Apache-2.0
 * cupti_client.c - the policy ladder (a shared subscription, else the activity API alone, else off
 * with a reason), the buffer pool, and the rules of coexistence.
 * While we have our own subscription (cupti_session.c), others who share do not affect us. CUPTI
 * does not allow unversioned calls beside subscriptions. So at the first such call of anybody else
 * we unsubscribe before it runs, and use the second rung for the rest of the process. The following
 * is about that rung.
 * A rival is any other user of CUPTI's activity API in the process. CUPTI has only one pair of
 * callbacks, so a rival's would replace ours. Once ours are registered, they stay registered and
 * pass a rival's buffers to the rival's functions; we recognise buffers by address. So each buffer
 * returns to whoever supplied it, in whatever order things are switched. While a rival has kinds
 * enabled, ours are disabled, we leave the time stamp callback and the zeroed-buffer attribute as
 * the rival set them, and we do not flush.
 * The lock below is held only while enabling and disabling, never during a flush, and we wait for
 * it at most CUPTI_LOCK_WAIT_NS: CUPTI may call the rival back on a thread that holds CUPTI's own
 * lock. */
#include "cupti/cupti_client.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "cupti/cupti_decode.h"
#include "cupti/cupti_session.h"

#define CUPTI_POOL_COUNT   8
#define CUPTI_POOL_BYTES   (256u << 10)
#define CUPTI_LOCK_WAIT_NS 50000000ull
#define CUPTI_RESUME_NS                                                                            \
	1000000000ull			 /* a rival's kinds must be off this long before ours
					    * resume */
#define CUPTI_PACE_WAIT_NS 50000000ull	 /* total time that one decode waits for a slow reader */
#define CUPTI_DELAY_NS	   1000000000ull /* a record older than this at delivery is reported */
/* Uses the GPU memory of the user: 32 x 3.2 MB instead of the default 250 x 3.2 MB. Fewer would
 * lose records. */
#define CUPTI_DEVICE_BUFFERS 32

/* 13.0 before its first update: a flush may crash, and disabling a kind may deadlock. */
#define CUPTI_VERSION_UNSAFE 130000u
#define CUPTI_NAMES	     1024 /* a model has some hundred kernels */
#define CUPTI_SHARERS	     8
#define CUPTI_STREAMS	     1024 /* streams with numbered kernels; more start a new epoch */
#define CUPTI_PROBES	     16
#define CUPTI_NO_EPOCH	     UINT32_MAX
/* Flushes after the kinds went off: records of kernels that end later must not stay in CUPTI. */
#define CUPTI_FLUSHES_OWED 10

enum cupti_buffer_state { BUFFER_FREE = 0, BUFFER_LENT = 1, BUFFER_DONE = 2 };

struct cupti_buffer {
	uint32_t state;
	uint32_t serial; /* order of completion */
	bool of_session; /* filled under our subscription: only the session can iterate it */
	bool lossy;	 /* CUPTI dropped records before, among or after these */
	size_t valid_bytes;
};

struct cupti_name {
	const char *text;
	uint64_t hash;
	uint32_t id;
};

struct cupti_stream {
	uint32_t device, context, stream;
	uint32_t count, ons; /* kernels since the kinds went on for the ons-th time */
	uint64_t begin;	     /* of the latest kernel; 0: a free entry */
};

#define CUPTI_FUNCTIONS(X)                                                                         \
	X(get_version, cupti_get_version_fn, "cuptiGetVersion")                                    \
	X(enable, cupti_activity_enable_fn, "cuptiActivityEnable")                                 \
	X(disable, cupti_activity_disable_fn, "cuptiActivityDisable")                              \
	X(register_callbacks, cupti_activity_register_callbacks_fn,                                \
	  "cuptiActivityRegisterCallbacks")                                                        \
	X(next_record, cupti_activity_next_record_fn, "cuptiActivityGetNextRecord")                \
	X(flush_all, cupti_activity_flush_all_fn, "cuptiActivityFlushAll")
#define CUPTI_OPTIONAL(X)                                                                          \
	X(dropped, cupti_activity_dropped_fn, "cuptiActivityGetNumDroppedRecords")                 \
	X(set_attribute, cupti_activity_set_attribute_fn, "cuptiActivitySetAttribute")             \
	X(timestamp_callback, cupti_timestamp_callback_fn,                                         \
	  "cuptiActivityRegisterTimestampCallback")                                                \
	X(get_timestamp, cupti_get_timestamp_fn, "cuptiGetTimestamp")                              \
	X(stream_id, cupti_get_stream_id_fn, "cuptiGetStreamIdEx")                                 \
	X(context_id, cupti_get_context_id_fn, "cuptiGetContextId")

static struct {
	struct cupti_client_host host;
	uint32_t starting; /* 1: a thread starts or has started */
	uint32_t started;  /* 1: found, functions valid */
	uint32_t lock;
	uint32_t pauses;   /* enum cupti_client_pause */
	uint32_t flushing; /* the helper is inside CUPTI */
	uint32_t decode_lock;
	uint32_t flushes_owed;
	bool session_allowed;			    /* the first rung may be used; under lock */
	bool enabled;				    /* under lock */
	bool coarse, coarse_wanted, coarse_refused; /* graph launches as one record; under lock */
	int32_t coarse_detail;
	uint64_t coarse_from_ns;
	uint64_t record_count, node_count; /* decoded; under decode_lock */
	bool registered;		   /* our callbacks are in CUPTI; under lock */
	bool clock_set;
	uint32_t state; /* enum ring_cupti_state */
	uint32_t version;
	/* the rival */
	cupti_buffer_requested_fn rival_requested;
	cupti_buffer_completed_fn rival_completed;
	cupti_timestamp_fn rival_clock;
	uint64_t rival_kinds;
	uint64_t rival_seen_ns; /* last change */
	bool rival_unversioned; /* another user made a call that excludes subscriptions */
	uint32_t rival_solo;	/* cuptiSubscribe_v2 subscribers that do not share */
	void *rival_shares[CUPTI_SHARERS]; /* ... and those that do */
	/* the pool */
	uint8_t *pool;
	struct cupti_buffer buffers[CUPTI_POOL_COUNT];
	uint32_t serial;
	/* one per clock, because a lane's clock is fixed; lane: the one in use */
	struct ring_lane_writer lanes[2];
	struct ring_lane_writer *lane;
	uint64_t gap_from_ns;
	uint64_t on_ns; /* just before the kinds went on: launches after it have kernel records */
	uint64_t on_real_ns;
	uint32_t epoch;	       /* of kernel numbers: changes when records may have been lost */
	uint32_t epoch_before; /* until the kinds went on; CUPTI_NO_EPOCH: unknown */
	uint32_t ons;	       /* how often the kinds went on */
	uint16_t gap_cause;
	uint64_t delay_reported_ns;
	struct cupti_name names[CUPTI_NAMES];	    /* used by the helper only */
	struct cupti_stream streams[CUPTI_STREAMS]; /* under decode_lock */
#define X(field, type, name) type field;
	CUPTI_FUNCTIONS(X) CUPTI_OPTIONAL(X)
#undef X
} cupti;

static bool cupti_take(uint32_t *lock)
{
	uint64_t until = clock_monotonic_ns() + CUPTI_LOCK_WAIT_NS;
	struct timespec pause = {0, 100000};

	while (__atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE)) {
		if (clock_monotonic_ns() > until)
			return false;
		nanosleep(&pause, NULL);
	}
	return true;
}

static void cupti_release(uint32_t *lock)
{
	__atomic_store_n(lock, 0, __ATOMIC_RELEASE); /* pairs with the acquire in cupti_take */
}

static void cupti_set_state(uint32_t state)
{
	__atomic_store_n(&cupti.state, state, __ATOMIC_RELAXED);
	__atomic_store_n(&cupti.host.ring->counters->cupti_state, state, __ATOMIC_RELAXED);
}

uint32_t cupti_client_state(void)
{
	return __atomic_load_n(&cupti.state, __ATOMIC_RELAXED);
}

uint32_t cupti_client_version(void)
{
	return cupti.version;
}

bool cupti_client_started(void)
{
	return __atomic_load_n(&cupti.started, __ATOMIC_ACQUIRE) != 0;
}

/* ---- buffers: called by CUPTI, on any thread, possibly one of the job's ---- */

static bool cupti_rival_active(void)
{
	return (__atomic_load_n(&cupti.pauses, __ATOMIC_RELAXED) & CUPTI_PAUSE_RIVAL) != 0;
}

static void cupti_lend(uint8_t **buffer, size_t *bytes, size_t *max_records)
{
	*max_records = 0;
	for (unsigned i = 0; i < CUPTI_POOL_COUNT; i++) {
		uint32_t state = BUFFER_FREE;

		/* acquire pairs with the release in cupti_decode_buffer: the buffer is zero again */
		if (__atomic_compare_exchange_n(&cupti.buffers[i].state, &state, BUFFER_LENT, false,
						__ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
			*buffer = cupti.pool + (size_t)i * CUPTI_POOL_BYTES;
			*bytes = CUPTI_POOL_BYTES;
			return;
		}
	}
	/* CUPTI drops the records and counts them: cuptiActivityGetNumDroppedRecords */
	*buffer = NULL;
	*bytes = 0;
}

static void cupti_requested(uint8_t **buffer, size_t *bytes, size_t *max_records)
{
	cupti_buffer_requested_fn rival = cupti.rival_requested;

	if (rival && cupti_rival_active())
		rival(buffer, bytes, max_records);
	else
		cupti_lend(buffer, bytes, max_records);
}

static void cupti_requested_v2(uint8_t **buffer, size_t *bytes, size_t *max_records, void *info)
{
	(void)info;
	cupti_lend(buffer, bytes, max_records);
}

static bool cupti_of_pool(const uint8_t *buffer)
{
	return buffer && buffer >= cupti.pool &&
	       buffer < cupti.pool + CUPTI_POOL_COUNT * (size_t)CUPTI_POOL_BYTES;
}

static void cupti_take_back(uint8_t *buffer, size_t valid_bytes, size_t dropped, bool of_session)
{
	struct cupti_buffer *b = &cupti.buffers[(size_t)(buffer - cupti.pool) / CUPTI_POOL_BYTES];

	if (dropped)
		ring_writer_count_drop(cupti.host.ring, RING_DROP_CUPTI_BUFFER, dropped);
	b->of_session = of_session;
	b->lossy = dropped != 0;
	b->valid_bytes = valid_bytes < CUPTI_POOL_BYTES ? valid_bytes : CUPTI_POOL_BYTES;
	b->serial = __atomic_fetch_add(&cupti.serial, 1, __ATOMIC_RELAXED);
	/* release pairs with the acquire in cupti_next_buffer */
	__atomic_store_n(&b->state, BUFFER_DONE, __ATOMIC_RELEASE);
}

static void cupti_completed_v2(uint8_t *buffer, size_t bytes, size_t valid_bytes, void *info)
{
	(void)bytes;
	(void)info;
	if (cupti_of_pool(buffer))
		cupti_take_back(buffer, valid_bytes, cupti_session_dropped(), true);
}

static void cupti_completed(void *context, uint32_t stream, uint8_t *buffer, size_t bytes,
			    size_t valid_bytes)
{
	size_t dropped = 0;

	if (!cupti_of_pool(buffer)) {
		cupti_buffer_completed_fn rival = cupti.rival_completed;

		if (rival)
			rival(context, stream, buffer, bytes, valid_bytes);
		return;
	}
	if (cupti.dropped && cupti.dropped(context, stream, &dropped) != CUPTI_OK)
		dropped = 0;
	cupti_take_back(buffer, valid_bytes, dropped, false);
}

/* ---- on and off ---- */

/* Records may have been lost uncounted. */
static void cupti_new_epoch(void)
{
	uint32_t epoch = __atomic_load_n(&cupti.epoch, __ATOMIC_RELAXED);

	__atomic_store_n(&cupti.epoch, epoch % 255 + 1, __ATOMIC_RELAXED);
	__atomic_store_n(&cupti.epoch_before, CUPTI_NO_EPOCH, __ATOMIC_RELAXED);
}

static void cupti_note_on(void)
{
	cupti.on_ns = clock_monotonic_ns();
	cupti.on_real_ns = clock_realtime_ns();
}

static void cupti_gap_open(uint16_t cause, int32_t detail)
{
	if (cupti.gap_cause)
		return;
	cupti.gap_cause = cause;
	cupti.gap_from_ns = clock_monotonic_ns();
	__atomic_add_fetch(&cupti.host.ring->counters->cupti_gap_count, 1, __ATOMIC_RELAXED);
	cupti.host.gap(cause, detail, cupti.gap_from_ns, 0);
}

static void cupti_gap_close(void)
{
	if (!cupti.gap_cause)
		return;
	cupti.host.gap(cupti.gap_cause, (int32_t)cupti.epoch, cupti.gap_from_ns, cupti.on_ns);
	cupti.gap_cause = 0;
}

/* From 12.6 (24) up to the fix in 13.1, registering a clock could make kernel stamps zero. There we
 * use CUPTI's own default, CLOCK_REALTIME. */
static bool cupti_clock_sound(void)
{
	return cupti.timestamp_callback && (cupti.version < 24 || cupti.version >= 130100);
}

/* Detects the clock of the stamps and selects its lane. */
static void cupti_settle_clock(void)
{
	cupti_result res = CUPTI_UNKNOWN_;

	if (cupti_clock_sound()) {
		res = cupti.timestamp_callback(clock_monotonic_ns);
		cupti.clock_set = res == CUPTI_OK;
	} else if (cupti.rival_clock) {
		/* CUPTI's default on Linux, not the rival's, which may count anything */
		cupti.timestamp_callback(clock_realtime_ns);
		cupti.clock_set = true;
	}
	__atomic_store_n(&cupti.lane, &cupti.lanes[res == CUPTI_OK ? 0 : 1], __ATOMIC_RELEASE);
}

static void cupti_set_zeroed(uint8_t on)
{
	size_t bytes = sizeof(on);

	if (cupti.set_attribute)
		cupti.set_attribute(CUPTI_ATTR_ZEROED_OUT_ACTIVITY_BUFFER, &bytes, &on);
}

static const uint32_t cupti_kinds[] = {CUPTI_KIND_CONCURRENT_KERNEL, CUPTI_KIND_MEMCPY,
				       CUPTI_KIND_MEMCPY2};
#define CUPTI_KINDS (sizeof(cupti_kinds) / sizeof(cupti_kinds[0]))

/* The first rung; under lock. Leaves nothing behind on failure. */
static cupti_result cupti_enable_session(void)
{
	enum clock_source clock = CLOCK_SOURCE_REALTIME;
	cupti_result res = CUPTI_OK;

	if (!cupti_session_is_open()) {
		res = cupti_session_open(cupti_requested_v2, cupti_completed_v2,
					 CUPTI_DEVICE_BUFFERS, &clock);
		if (res != CUPTI_OK)
			return res;
		__atomic_store_n(&cupti.lane, &cupti.lanes[clock == CLOCK_SOURCE_REALTIME],
				 __ATOMIC_RELEASE);
	}
	cupti_note_on();
	for (unsigned i = 0; res == CUPTI_OK && i < CUPTI_KINDS; i++)
		res = cupti_session_enable(cupti_kinds[i]);
	if (res != CUPTI_OK)
		cupti_session_close();
	return res;
}

/* The second rung; under lock. */
static cupti_result cupti_enable_legacy(void)
{
	size_t limit = CUPTI_DEVICE_BUFFERS, bytes = sizeof(limit);
	cupti_result res = CUPTI_OK;

	if (!cupti.registered && cupti.set_attribute)
		cupti.set_attribute(CUPTI_ATTR_DEVICE_BUFFER_POOL_LIMIT, &bytes, &limit);
	cupti_settle_clock();
	cupti_set_zeroed(1);
	if (!cupti.registered) {
		res = cupti.register_callbacks(cupti_requested, cupti_completed);
		cupti.registered = res == CUPTI_OK;
	}
	cupti_note_on();
	for (unsigned i = 0; res == CUPTI_OK && i < CUPTI_KINDS; i++)
		res = cupti.enable(cupti_kinds[i]);
	if (res != CUPTI_OK)
		cupti.disable(CUPTI_KIND_CONCURRENT_KERNEL);
	return res;
}

/* Switches to one record per graph launch; under lock, with our kinds enabled. */
static void cupti_coarsen(bool on)
{
	if (on == cupti.coarse || cupti_session_is_open())
		return;
	if (on && cupti.enable(CUPTI_KIND_GRAPH_TRACE) != CUPTI_OK) {
		cupti.coarse_refused = true;
		return;
	}
	if (!on)
		cupti.disable(CUPTI_KIND_GRAPH_TRACE);
	cupti.coarse = on;
	if (on)
		cupti.coarse_from_ns = clock_monotonic_ns();
	cupti.host.gap(GAP_GRAPH_NODES, cupti.coarse_detail, cupti.coarse_from_ns,
		       on ? 0 : clock_monotonic_ns());
}

/* Under lock. */
static void cupti_enable(void)
{
	cupti_result res = CUPTI_NOT_COMPATIBLE;

	if (cupti.session_allowed && !cupti.rival_unversioned)
		res = cupti_enable_session();
	if (res != CUPTI_OK) {
		cupti.session_allowed = false; /* not tried twice: its calls exclude those of
					        * others */
		res = cupti_enable_legacy();
	}
	if (res != CUPTI_OK) {
		cupti_gap_close();
		cupti_gap_open(GAP_CUPTI_REFUSED, res);
		cupti_set_state(RING_CUPTI_REFUSED);
		return;
	}
	cupti.enabled = true;
	/* the first time, before any launch: nothing was lost yet */
	if (cupti.ons || cupti.host.launched()) {
		uint32_t before = cupti.epoch;

		cupti_new_epoch();
		__atomic_store_n(&cupti.epoch_before, before, __ATOMIC_RELAXED);
	}
	__atomic_store_n(&cupti.ons, cupti.ons + 1, __ATOMIC_RELAXED);
	cupti_gap_close();
	cupti_set_state(cupti_session_is_open() ? RING_CUPTI_V2 : RING_CUPTI_LEGACY);
	cupti_coarsen(cupti.coarse_wanted);
}

static uint16_t cupti_gap_of(uint32_t pauses)
{
	return pauses & CUPTI_PAUSE_RIVAL      ? GAP_CUPTI_YIELDED
	       : pauses & CUPTI_PAUSE_SWITCHED ? GAP_SWITCHED_OFF
	       : pauses & CUPTI_PAUSE_GOVERNED ? GAP_GOVERNED
					       : GAP_NO_READER;
}

/* Under lock. */
static void cupti_disable(uint32_t pauses, int32_t detail)
{
	cupti_coarsen(false);
	for (unsigned i = 0; i < CUPTI_KINDS; i++) {
		if (cupti_session_is_open())
			cupti_session_disable(cupti_kinds[i]);
		else
			cupti.disable(cupti_kinds[i]);
	}
	cupti.enabled = false;
	cupti.flushes_owed = CUPTI_FLUSHES_OWED;
	if (pauses & CUPTI_PAUSE_RIVAL && !cupti_session_is_open()) {
		cupti_set_zeroed(0);
		if (cupti.clock_set)
			cupti.timestamp_callback(cupti.rival_clock ? cupti.rival_clock
								   : clock_realtime_ns);
		cupti.clock_set = false;
	}
	if (pauses & CUPTI_PAUSE_EXIT)
		return; /* at the end of the process there is no gap */
	cupti_gap_open(cupti_gap_of(pauses), detail);
	cupti_set_state(pauses & CUPTI_PAUSE_RIVAL ? RING_CUPTI_YIELDED : RING_CUPTI_IDLE);
}

static void cupti_apply(int32_t detail)
{
	uint32_t pauses;

	if (!cupti_client_started() || !cupti_take(&cupti.lock))
		return;
	pauses = __atomic_load_n(&cupti.pauses, __ATOMIC_ACQUIRE);
	if (!pauses && !cupti.enabled && cupti.state != RING_CUPTI_REFUSED)
		cupti_enable();
	else if (pauses && cupti.enabled)
		cupti_disable(pauses, detail);
	else if (pauses && cupti.state != RING_CUPTI_REFUSED)
		cupti_set_state(pauses & CUPTI_PAUSE_RIVAL ? RING_CUPTI_YIELDED : RING_CUPTI_IDLE);
	cupti_release(&cupti.lock);
}

void cupti_client_pause(enum cupti_client_pause reason, bool on, int32_t detail)
{
	uint32_t before =
	    on ? __atomic_fetch_or(&cupti.pauses, reason, __ATOMIC_ACQ_REL)
	       : __atomic_fetch_and(&cupti.pauses, ~(uint32_t)reason, __ATOMIC_ACQ_REL);

	if (!!(before & (uint32_t)reason) != on)
		cupti_apply(detail);
}

void cupti_client_graphs(bool coarse, int32_t detail)
{
	if (!cupti_client_started() || !cupti_take(&cupti.lock))
		return;
	cupti.coarse_wanted = coarse;
	if (coarse)
		cupti.coarse_detail = detail;
	if (cupti.enabled)
		cupti_coarsen(coarse);
	cupti_release(&cupti.lock);
}

bool cupti_client_can_coarsen(void)
{
	return cupti_client_started() && !cupti_session_is_open() && !cupti.coarse_refused;
}

void cupti_client_counts(uint64_t *records, uint64_t *nodes)
{
	*records = __atomic_load_n(&cupti.record_count, __ATOMIC_RELAXED);
	*nodes = __atomic_load_n(&cupti.node_count, __ATOMIC_RELAXED);
}

/* ---- start ---- */

struct cupti_dir {
	char path[512];
	int major;
};

static int cupti_find_cudart(struct dl_phdr_info *info, size_t bytes, void *arg)
{
	struct cupti_dir *d = arg;
	const char *path = info->dlpi_name, *slash = path ? strrchr(path, '/') : NULL;

	if (!slash || strncmp(slash + 1, "libcudart.so.", 13))
		return 0;
	d->major = atoi(slash + 14);
	if ((size_t)(slash - path) < sizeof(d->path)) {
		memcpy(d->path, path, (size_t)(slash - path));
		d->path[slash - path] = '\0';
	}
	return 1;
}

/* The job's libcupti if loaded; else the one of its cudart, else of its driver. */
static void *cupti_open_library(int driver_version)
{
	/* the loader's own search, beside libcudart, pip's layout, the toolkit's layout */
	static const char *const places[] = {"", "/", "/../../cuda_cupti/lib/",
					     "/../extras/CUPTI/lib64/"};
	struct cupti_dir d = {.major = 0};
	char path[640];
	void *handle = cupti.host.loaded("libcupti.so", "libcupti.so");

	if (handle)
		return handle;
	dl_iterate_phdr(cupti_find_cudart, &d);
	if (!d.major)
		d.major = driver_version / 1000;
	for (unsigned i = 0; d.major && i < sizeof(places) / sizeof(places[0]); i++) {
		if (i && !d.path[0])
			break;
		snprintf(path, sizeof(path), "%s%slibcupti.so.%d", i ? d.path : "", places[i],
			 d.major);
		handle = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
		if (handle)
			return handle;
	}
	return NULL;
}

static bool cupti_find_functions(void *library)
{
	bool all = true;

#define X(field, type, name) cupti.field = (type)cupti.host.find(library, name);
	CUPTI_FUNCTIONS(X)
	CUPTI_OPTIONAL(X)
#undef X
#define X(field, type, name) all = all && cupti.field;
	CUPTI_FUNCTIONS(X)
#undef X
	return all;
}

static bool cupti_claim_lanes(void)
{
	uint32_t tid = (uint32_t)syscall(SYS_gettid);
	struct ring_lane_writer w;
	unsigned found = 0;

	while (ring_writer_claim(cupti.host.ring, RING_LANE_DEVICE, tid, &w)) {
		unsigned at = w.lane->clock_source == CLOCK_SOURCE_REALTIME;

		found |= 1u << at;
		cupti.lanes[at] = w;
	}
	cupti.lane = &cupti.lanes[0];
	return found == 3;
}

/* Subscriptions that exclude us: those that do not share, and, while we use unversioned calls,
 * those with versioned activity calls. */
static bool cupti_rival_holds(void)
{
	bool sharing = false;

	for (unsigned i = 0; i < CUPTI_SHARERS; i++)
		sharing |= __atomic_load_n(&cupti.rival_shares[i], __ATOMIC_RELAXED) != NULL;
	return cupti.version >= CUPTI_V2_VERSION_PREVIEW &&
	       (__atomic_load_n(&cupti.rival_solo, __ATOMIC_RELAXED) ||
		(sharing && !cupti.session_allowed));
}

void cupti_client_start(const struct cupti_client_host *host, int driver_version)
{
	const char *wanted = getenv("SYSOM_CUPTI");
	void *library;

	if (__atomic_exchange_n(&cupti.starting, 1, __ATOMIC_ACQ_REL))
		return;
	cupti.host = *host;
	if (wanted && (!strcmp(wanted, "0") || !strcmp(wanted, "off")))
		return;
	library = cupti_open_library(driver_version);
	if (!library)
		return; /* RING_CUPTI_NONE */
	cupti.pool = mmap(NULL, CUPTI_POOL_COUNT * (size_t)CUPTI_POOL_BYTES, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (cupti.pool == MAP_FAILED || !cupti_find_functions(library) ||
	    cupti.get_version(&cupti.version) != CUPTI_OK ||
	    (cupti.version == CUPTI_VERSION_UNSAFE && (!wanted || strcmp(wanted, "force")))) {
		cupti_gap_open(GAP_CUPTI_REFUSED, -(int32_t)cupti.version);
		cupti_set_state(RING_CUPTI_REFUSED);
		return;
	}
	if (!cupti_claim_lanes()) {
		cupti_gap_open(GAP_CUPTI_REFUSED, -1);
		cupti_set_state(RING_CUPTI_REFUSED);
		return;
	}
	cupti.session_allowed =
	    (!wanted || strcmp(wanted, "legacy")) &&
	    cupti_session_find(library, cupti.host.find, cupti.version, driver_version);
	if (cupti_rival_holds())
		__atomic_fetch_or(&cupti.pauses, CUPTI_PAUSE_RIVAL, __ATOMIC_ACQ_REL);
	__atomic_store_n(&cupti.started, 1, __ATOMIC_RELEASE);
	cupti_apply(0);
}

uint32_t cupti_client_stream_id(void *context, void *stream, bool per_thread)
{
	uint32_t id = 0;

	if (!cupti_client_started() || !cupti.stream_id ||
	    cupti.stream_id(context, stream, per_thread, &id) != CUPTI_OK)
		return 0;
	return id;
}

uint32_t cupti_client_context_id(void *context)
{
	uint32_t id = 0;

	if (!cupti_client_started() || !cupti.context_id ||
	    cupti.context_id(context, &id) != CUPTI_OK)
		return 0;
	return id;
}

/* ---- the helper thread's part ---- */

static struct cupti_buffer *cupti_next_buffer(void)
{
	struct cupti_buffer *best = NULL;

	for (unsigned i = 0; i < CUPTI_POOL_COUNT; i++) {
		struct cupti_buffer *b = &cupti.buffers[i];

		/* acquire pairs with the release in cupti_completed */
		if (__atomic_load_n(&b->state, __ATOMIC_ACQUIRE) != BUFFER_DONE)
			continue;
		if (!best || (int32_t)(b->serial - best->serial) < 0)
			best = b;
	}
	return best;
}

/* A flush must not overwrite what a live reader has not read: waits a little, then drops the
 * record. */
static bool cupti_pace(uint64_t *waited_ns)
{
	uint64_t room = cupti.lane->mask + 1ull - 64;
	struct timespec pause = {0, 1000000};

	while (ring_writer_backlog(cupti.lane, clock_monotonic_ns()) >= room) {
		if (*waited_ns >= CUPTI_PACE_WAIT_NS)
			return false;
		nanosleep(&pause, NULL);
		*waited_ns += 1000000;
	}
	return true;
}

static void cupti_count(enum cupti_decode_result res)
{
	static const uint8_t cause[] = {
	    [CUPTI_DECODE_ZERO_STAMP] = RING_DROP_CUPTI_ZERO_STAMP,
	    [CUPTI_DECODE_REVERSED] = RING_DROP_CUPTI_REVERSED,
	    [CUPTI_DECODE_PARTIAL] = RING_DROP_CUPTI_PARTIAL,
	    [CUPTI_DECODE_UNKNOWN] = RING_DROP_CUPTI_UNKNOWN,
	};

	ring_writer_count_drop(cupti.host.ring, (enum ring_drop)cause[res], 1);
}

/* Mangled names are long, and every record has one. Hashing and comparing a thousand bytes each
 * time would be most of this thread's work, so we cache ids by pointer. An entry is valid only
 * while the text still hashes to the same value: CUPTI may reuse the address for another kernel
 * after a reload. */
static uint32_t cupti_name_id(const char *name)
{
	size_t bytes = strnlen(name, LIMIT_NAME_BYTES), i;
	uint64_t hash = bytes * 0x9e3779b97f4a7c15ull, word;
	struct cupti_name *n = &cupti.names[((uintptr_t)name >> 3) % CUPTI_NAMES];

	for (i = 0; i + 8 <= bytes; i += 8) {
		memcpy(&word, name + i, 8);
		hash = (hash ^ word) * 0xff51afd7ed558ccdull;
		hash ^= hash >> 32;
	}
	for (; i < bytes; i++)
		hash = (hash ^ (uint8_t)name[i]) * 0x100000001b3ull;
	if (n->text != name || n->hash != hash || !n->id) {
		n->text = name;
		n->hash = hash;
		n->id = ring_writer_intern(cupti.host.ring, name, bytes);
	}
	return n->id;
}

static uint64_t cupti_on(void)
{
	return cupti.lane->lane->clock_source == CLOCK_SOURCE_REALTIME ? cupti.on_real_ns
								       : cupti.on_ns;
}

static struct cupti_stream *cupti_find_stream(const struct event_kernel *k)
{
	uint32_t at = (k->stream_id * 0x9e3779b1u ^ k->context_id * 0x85ebca6bu ^ k->device) >> 8;

	for (unsigned i = 0; i < CUPTI_PROBES; i++) {
		struct cupti_stream *s = &cupti.streams[(at + i) % CUPTI_STREAMS];

		if (s->begin && (s->stream != k->stream_id || s->context != k->context_id ||
				 s->device != k->device))
			continue;
		if (!s->begin)
			*s = (struct cupti_stream){k->device, k->context_id, k->stream_id, 0, 0, 1};
		return s;
	}
	return NULL;
}

/* Numbers every kernel that CUPTI delivers, usable or not, in stream order, from 1 each time the
 * kinds continue. A kernel that began before that continues the earlier count. */
static uint32_t cupti_number(const struct event_kernel *k, bool lossy)
{
	uint32_t epoch, ons = __atomic_load_n(&cupti.ons, __ATOMIC_RELAXED);
	struct cupti_stream *s = cupti_find_stream(k);

	if (!s) {
		memset(cupti.streams, 0, sizeof(cupti.streams));
		cupti_new_epoch();
		s = cupti_find_stream(k);
	}
	if (s->ons != ons && (k->head.t >= cupti_on() || ons == 1)) {
		s->ons = ons;
		s->count = 0;
	} else if (k->head.t ? k->head.t < s->begin : s->ons != ons) {
		/* out of order, or on either side of the switch: earlier numbers may be wrong */
		cupti_new_epoch();
	}
	if (k->head.t)
		s->begin = k->head.t;
	s->count++;
	epoch =
	    __atomic_load_n(s->ons == ons ? &cupti.epoch : &cupti.epoch_before, __ATOMIC_RELAXED);
	return lossy || epoch == CUPTI_NO_EPOCH ? 0 : RING_NUMBER(epoch, s->count);
}

static cupti_result cupti_next_record(const struct cupti_buffer *b, uint8_t *data, void **record)
{
	if (!b->of_session)
		return cupti.next_record(data, b->valid_bytes, record);
	if (!cupti_session_is_open())
		return CUPTI_MAX_LIMIT;
	return cupti_session_next_record(data, b->valid_bytes, record);
}

static unsigned cupti_decode_buffer(struct cupti_buffer *b, uint64_t *waited_ns, uint64_t *oldest)
{
	uint8_t *data = cupti.pool + (size_t)(b - cupti.buffers) * CUPTI_POOL_BYTES;
	union cupti_decode_event event;
	void *record = NULL;
	unsigned pushed = 0, seen = 0;
	uint64_t now = cupti.host.now();
	const char *name;

	if (b->of_session && !cupti_session_is_open()) {
		/* Too late to iterate this buffer: an estimate from the longest possible record. */
		ring_writer_count_drop(cupti.host.ring, RING_DROP_CUPTI_BUFFER,
				       b->valid_bytes / CUPTI_KERNEL10_BYTES + 1);
		cupti_new_epoch();
	}
	if (b->lossy)
		cupti_new_epoch();
	while (cupti_next_record(b, data, &record) == CUPTI_OK && record) {
		enum cupti_decode_result res;

		event.head.kind = 0;
		res = cupti_decode_record(record, &event, &name);
		if (event.head.kind == EVENT_KERNEL && !event.kernel.graph_id &&
		    !(event.head.flags & EVENT_FLAG_GRAPH_NODE))
			event.kernel.number = cupti_number(&event.kernel, b->lossy);
		if (res > CUPTI_DECODE_GRAPH) {
			cupti_count(res);
			continue;
		}
		if (!(seen++ & 63) && !cupti_pace(waited_ns)) {
			seen--;
			ring_writer_count_drop(cupti.host.ring, RING_DROP_PACING, 1);
			continue;
		}
		if (name)
			event.kernel.name = cupti_name_id(name);
		cupti.record_count++;
		cupti.node_count += (event.head.flags & EVENT_FLAG_GRAPH_NODE) != 0;
		/* `end` and `exported` have the same offsets in both */
		if (event.kernel.end < *oldest)
			*oldest = event.kernel.end;
		event.kernel.exported = now;
		ring_writer_push(cupti.lane, &event);
		pushed++;
	}
	memset(data, 0, b->valid_bytes);
	/* release pairs with the acquire in cupti_requested */
	__atomic_store_n(&b->state, BUFFER_FREE, __ATOMIC_RELEASE);
	return pushed;
}

static void cupti_tell_delay(uint64_t oldest)
{
	uint64_t now = cupti.lane->lane->clock_source == CLOCK_SOURCE_REALTIME
			   ? clock_realtime_ns()
			   : clock_monotonic_ns();

	if (oldest == UINT64_MAX || oldest > now || now - oldest < CUPTI_DELAY_NS ||
	    now - cupti.delay_reported_ns < CUPTI_DELAY_NS)
		return;
	cupti.delay_reported_ns = now;
	cupti.host.gap(GAP_EXPORT_DELAY, 0, clock_monotonic_ns() - (now - oldest),
		       clock_monotonic_ns());
}

/* Decodes all completed buffers, oldest first. waited_ns: already used of CUPTI_PACE_WAIT_NS. */
static unsigned cupti_decode_all(uint64_t waited_ns)
{
	uint64_t oldest = UINT64_MAX;
	struct cupti_buffer *b;
	unsigned pushed = 0;

	if (!cupti_take(&cupti.decode_lock))
		return 0;
	while ((b = cupti_next_buffer()))
		pushed += cupti_decode_buffer(b, &waited_ns, &oldest);
	cupti_release(&cupti.decode_lock);
	cupti_tell_delay(oldest);
	return pushed;
}

unsigned cupti_client_tend(uint64_t now_ns, bool flush)
{
	if (!cupti_client_started())
		return 0;
	if (cupti_rival_active() && !cupti.rival_kinds && !cupti_rival_holds() &&
	    now_ns - cupti.rival_seen_ns > CUPTI_RESUME_NS)
		cupti_client_pause(CUPTI_PAUSE_RIVAL, false, 0);
	if (flush) {
		/* seq_cst: either cupti_client_rival_finalizes sees us flush or we see its pause */
		__atomic_store_n(&cupti.flushing, 1, __ATOMIC_SEQ_CST);
		if ((cupti.enabled || cupti.flushes_owed) && !cupti_rival_active()) {
			cupti.flush_all(0);
			cupti.flushes_owed -= !cupti.enabled && cupti.flushes_owed;
		}
		__atomic_store_n(&cupti.flushing, 0, __ATOMIC_SEQ_CST);
	}
	return cupti_decode_all(0);
}

/* ---- rivals ---- */

/* Waits a bounded time until the helper is out of CUPTI. */
static void cupti_wait_flush(void)
{
	uint64_t until = clock_monotonic_ns() + CUPTI_LOCK_WAIT_NS;
	struct timespec pause = {0, 100000};

	while (__atomic_load_n(&cupti.flushing, __ATOMIC_SEQ_CST) && clock_monotonic_ns() < until)
		nanosleep(&pause, NULL);
}

/* On the rival's thread: fetches what our subscription holds, then ends it. */
static void cupti_leave_session(void)
{
	cupti_wait_flush();
	cupti_decode_all(CUPTI_PACE_WAIT_NS); /* all waiting time is used up: the job must not wait
					       * for a reader */
	if (!cupti_take(&cupti.lock))
		return;
	if (cupti_take(&cupti.decode_lock)) {
		cupti_session_close();
		cupti_release(&cupti.decode_lock);
	}
	cupti_release(&cupti.lock);
}

static void cupti_rival_here(void)
{
	bool ours;

	cupti.rival_seen_ns = clock_monotonic_ns();
	if (!cupti_client_started()) {
		__atomic_fetch_or(&cupti.pauses, CUPTI_PAUSE_RIVAL, __ATOMIC_ACQ_REL);
		return;
	}
	ours = cupti.enabled;
	cupti_client_pause(CUPTI_PAUSE_RIVAL, true, 0);
	/* Records in flight go to our pool, not to the rival. */
	if (ours)
		cupti.flush_all(0);
	if (cupti_session_is_open())
		cupti_leave_session();
}

static void cupti_rival_unversioned(void)
{
	__atomic_store_n(&cupti.rival_unversioned, true, __ATOMIC_RELAXED);
	cupti_rival_here();
}

void cupti_client_rival_subscribes(void)
{
	cupti_rival_unversioned();
}

static bool cupti_params_share(const void *params)
{
	const cupti_subscriber_params *p = params;

	return p && p->struct_bytes > offsetof(cupti_subscriber_params, share) && p->share;
}

void cupti_client_rival_subscribes_v2(const void *params)
{
	bool session = cupti_client_started() ? cupti_session_is_open() : true;

	if (!cupti_params_share(params) || !session)
		cupti_rival_here();
}

void cupti_client_rival_subscribed_v2(const void *params, cupti_subscriber s, cupti_result res)
{
	if (res != CUPTI_OK)
		return;
	for (unsigned i = 0; cupti_params_share(params) && i < CUPTI_SHARERS; i++) {
		void *none = NULL;

		if (__atomic_compare_exchange_n(&cupti.rival_shares[i], &none, s, false,
						__ATOMIC_RELAXED, __ATOMIC_RELAXED))
			return;
	}
	__atomic_add_fetch(&cupti.rival_solo, 1, __ATOMIC_RELAXED);
}

static void cupti_rival_leaves(void)
{
	cupti.rival_kinds = 0;
	cupti.rival_seen_ns = clock_monotonic_ns();
}

void cupti_client_rival_unsubscribes(cupti_subscriber s)
{
	uint32_t solo = __atomic_load_n(&cupti.rival_solo, __ATOMIC_RELAXED);

	for (unsigned i = 0; s && i < CUPTI_SHARERS; i++) {
		void *expected = s;

		if (__atomic_compare_exchange_n(&cupti.rival_shares[i], &expected, NULL, false,
						__ATOMIC_RELAXED, __ATOMIC_RELAXED))
			return;
	}
	if (solo)
		__atomic_sub_fetch(&cupti.rival_solo, 1, __ATOMIC_RELAXED);
	cupti_rival_leaves();
}

/* The rival takes all of CUPTI down, with our registration, and nobody may be inside. */
void cupti_client_rival_finalizes(void)
{
	cupti_rival_here();
	cupti_wait_flush();
	cupti.registered = false;
	cupti.clock_set = false;
	cupti_rival_leaves();
}

void cupti_client_rival_callbacks(cupti_buffer_requested_fn *requested,
				  cupti_buffer_completed_fn *completed)
{
	cupti_rival_unversioned();
	cupti.rival_requested = *requested;
	cupti.rival_completed = *completed;
	if (cupti.registered) {
		*requested = cupti_requested;
		*completed = cupti_completed;
	}
}

void cupti_client_rival_clock(cupti_timestamp_fn fn)
{
	cupti_rival_unversioned();
	cupti.rival_clock = fn;
	cupti.clock_set = false;
}

void cupti_client_rival_enables(uint32_t kind)
{
	cupti_rival_unversioned();
	if (kind < 64)
		__atomic_fetch_or(&cupti.rival_kinds, 1ull << kind, __ATOMIC_RELAXED);
}

void cupti_client_rival_disables(uint32_t kind)
{
	if (kind < 64)
		__atomic_fetch_and(&cupti.rival_kinds, ~(1ull << kind), __ATOMIC_RELAXED);
	cupti.rival_seen_ns = clock_monotonic_ns();
}
