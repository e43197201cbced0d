/* SPDX-License-Identifier: Apache-2.0
 * cupti_session.h - the first rung of the ladder: a subscription of our own beside others'.
 * Uses the subscriber-scoped activity calls of CUPTI 13.3 (foreign/cupti_v2.h), so that a profiler of
 * the job's that does the same needs nothing of us. There is one session in the process at most.
 * Threads: the caller serialises; the functions given to open come back on any thread. */
#ifndef SYSOM_CUPTI_CUPTI_SESSION_H
#define SYSOM_CUPTI_CUPTI_SESSION_H

#include <stdbool.h>

#include "base/clock.h"
#include "foreign/cupti_v2.h"

/* True when every function that is needed is there and both versions suffice. find: dlsym. */
bool cupti_session_find(void *library, void *(*find)(void *handle, const char *name),
			uint32_t cupti_version, int driver_version);
/* Subscribes, finds out which clock the stamps follow and registers the callbacks. No timestamp
 * callback can be set while subscribers share, so the clock is what CUPTI's is: *clock becomes
 * CLOCK_SOURCE_MONOTONIC or CLOCK_SOURCE_REALTIME. Returns CUPTI_OK, or CUPTI's refusal with nothing
 * left subscribed (CUPTI_NOT_COMPATIBLE too where the clock is neither). device_buffers: limit of
 * CUPTI's pool on the device. */
cupti_result cupti_session_open(cupti_buffer_requested_v2_fn requested,
				cupti_buffer_completed_v2_fn completed, size_t device_buffers,
				enum clock_source *clock);
/* Unsubscribes; what CUPTI still holds should have been flushed. */
void cupti_session_close(void);
bool cupti_session_is_open(void);
cupti_result cupti_session_enable(uint32_t kind);
void cupti_session_disable(uint32_t kind);
/* As cuptiActivityGetNextRecord; only while the session is open. */
cupti_result cupti_session_next_record(uint8_t *buffer, size_t valid_bytes, void **record);
/* Records that CUPTI dropped since the last call. */
size_t cupti_session_dropped(void);

#endif
