/* SPDX-License-Identifier: Apache-2.0
 * cupti_client.h - kernel and memcpy activity from the job's own libcupti into device lanes.
 * Owns: the buffer pool and the device lane. Never calls cuptiFinalize. Subscribes only if CUPTI
 * supports several subscribers (cupti_session.h). Otherwise it uses the activity API without a
 * subscription, and leaves the only one to the job's profiler.
 * Threads: start and the rival_* functions run on the job's threads, never on a launch path; tend
 * and pause on the helper thread. Everything fails open. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "foreign/cupti.h"
#include "ring/ring_writer.h"

/* What the library around this client provides. */
struct cupti_client_host {
	struct ring_writer *ring;
	void *(*find)(void *handle, const char *name);	       /* the real dlsym */
	void *(*loaded)(const char *name, const char *prefix); /* finds a loaded library; loads
								     * nothing */
	void (*gap)(uint16_t cause, int32_t detail, uint64_t from_ns, uint64_t to_ns);
	bool (*launched)(void); /* whether any launch was numbered */
	uint64_t (*now)(void);	/* the host lanes' clock */
};

/* Reasons for which kinds are off; kinds are enabled only if there is none. */
enum cupti_client_pause {
	CUPTI_PAUSE_RIVAL = 1,
	CUPTI_PAUSE_SWITCHED = 2,
	CUPTI_PAUSE_NO_READER = 4,
	CUPTI_PAUSE_GOVERNED = 8,
	CUPTI_PAUSE_EXIT = 16,
};

/* Finds libcupti and enables the kinds, once; later calls return at once. driver_version: from
 * cuDriverGetVersion, 0 unknown. */
void cupti_client_start(const struct cupti_client_host *host, int driver_version);
bool cupti_client_started(void);
/* enum ring_cupti_state, and CUPTI's own version (0 none). */
uint32_t cupti_client_state(void);
uint32_t cupti_client_version(void);
/* Adds or removes a reason, and enables or disables the kinds accordingly. */
void cupti_client_pause(enum cupti_client_pause reason, bool on, int32_t detail);
/* Helper thread, every tick: resumes after a rival, flushes if asked, decodes completed buffers.
 * Returns the number of records pushed. */
unsigned cupti_client_tend(uint64_t now_ns, bool flush);
/* Helper thread. Selects one record per graph launch (coarse) or per node. detail goes into the gap
 * event: the share of time with node records, in millionths. No effect if CUPTI cannot do it. */
void cupti_client_graphs(bool coarse, int32_t detail);
bool cupti_client_can_coarsen(void);
/* Records delivered so far, and how many of them were of nodes inside graphs. */
void cupti_client_counts(uint64_t *records, uint64_t *nodes);
/* CUPTI's ids of handles, 0 if unknown. */
uint32_t cupti_client_stream_id(void *context, void *stream, bool per_thread);
uint32_t cupti_client_context_id(void *context);

/* Another user of CUPTI in the process. Call each before the real function, except
 * rival_subscribed_v2. The result of rival_callbacks says which functions to register instead of
 * the caller's. params: CUpti_SubscriberParams from the caller, may be NULL. */
void cupti_client_rival_subscribes(void);
void cupti_client_rival_subscribes_v2(const void *params);
void cupti_client_rival_subscribed_v2(const void *params, cupti_subscriber s, cupti_result res);
void cupti_client_rival_unsubscribes(cupti_subscriber s);
void cupti_client_rival_finalizes(void);
void cupti_client_rival_callbacks(cupti_buffer_requested_fn *requested,
				  cupti_buffer_completed_fn *completed);
void cupti_client_rival_clock(cupti_timestamp_fn fn);
void cupti_client_rival_enables(uint32_t kind);
void cupti_client_rival_disables(uint32_t kind);
