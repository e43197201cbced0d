/* SPDX-License-Identifier: Apache-2.0
 * cupti_session.h - the preferred access to CUPTI: a subscription of our own beside others'. It
 * uses the subscriber-scoped activity calls of CUPTI 13.3 (foreign/cupti_v2.h), so a profiler of
 * the job that does the same does not affect us. At most one session per process.
 * Threads: the caller serialises; CUPTI calls the functions given to open on any thread. */
#pragma once

#include <stdbool.h>

#include "base/clock.h"
#include "foreign/cupti_v2.h"

/* True if every required function exists and both versions suffice. find: dlsym. */
bool cupti_session_find(void *library, void *(*find)(void *handle, const char *name),
			uint32_t cupti_version, int driver_version);
/* Subscribes, finds out which clock the stamps follow and registers the callbacks. While
 * subscribers share, nobody can set a timestamp callback. So the clock is CUPTI's: *clock becomes
 * CLOCK_SOURCE_MONOTONIC or CLOCK_SOURCE_REALTIME. Returns CUPTI_OK, or CUPTI's error with nothing
 * left subscribed (CUPTI_NOT_COMPATIBLE if the clock is neither). device_buffers: limit of CUPTI's
 * pool on the device. */
cupti_result cupti_session_open(cupti_buffer_requested_v2_fn requested,
				cupti_buffer_completed_v2_fn completed, size_t device_buffers,
				enum clock_source *clock);
/* Unsubscribes. Flush first: what CUPTI still holds is lost. */
void cupti_session_close(void);
bool cupti_session_is_open(void);
cupti_result cupti_session_enable(uint32_t kind);
void cupti_session_disable(uint32_t kind);
/* Like cuptiActivityGetNextRecord; only while the session is open. */
cupti_result cupti_session_next_record(uint8_t *buffer, size_t valid_bytes, void **record);
/* Records that CUPTI dropped since the last call. */
size_t cupti_session_dropped(void);
