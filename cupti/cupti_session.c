/* SPDX-License-Identifier: Apache-2.0
 * cupti_session.c - CUPTI's own multi-subscriber mode. All calls are to the versioned functions:
 * after one unversioned activity call in the process CUPTI refuses versioned ones. So nothing here
 * falls back by itself. Records keep their predefined layouts, so one decoder serves both
 * modes. */
#include "cupti/cupti_session.h"

#define SESSION_CLOCK_TRIES 5
/* Greatest distance of the two readings of our clock around CUPTI's; a preempted try is
 * repeated. */
#define SESSION_CLOCK_SLACK_NS 1000000ull

#define SESSION_FUNCTIONS(X)                                                                       \
	X(subscribe, cupti_subscribe_v2_fn, "cuptiSubscribe_v2")                                   \
	X(unsubscribe, cupti_unsubscribe_fn, "cuptiUnsubscribe")                                   \
	X(register_callbacks, cupti_activity_register_callbacks_v2_fn,                             \
	  "cuptiActivityRegisterCallbacks_v2")                                                     \
	X(enable, cupti_activity_enable_v2_fn, "cuptiActivityEnable_v2")                           \
	X(disable, cupti_activity_disable_v2_fn, "cuptiActivityDisable_v2")                        \
	X(next_record, cupti_activity_next_record_v2_fn, "cuptiActivityGetNextRecord_v2")          \
	X(dropped, cupti_activity_dropped_v2_fn, "cuptiActivityGetNumDroppedRecords_v2")           \
	X(set_attribute, cupti_activity_set_attribute_v2_fn, "cuptiActivitySetAttribute_v2")       \
	X(timestamp, cupti_get_timestamp_v2_fn, "cuptiGetTimestamp_v2")

static struct {
	cupti_subscriber subscriber; /* NULL: closed */
#define X(field, type, name) type field;
	SESSION_FUNCTIONS(X)
#undef X
} session;

bool cupti_session_find(void *library, void *(*find)(void *handle, const char *name),
			uint32_t cupti_version, int driver_version)
{
	bool all = cupti_version >= CUPTI_V2_VERSION_MIN && driver_version >= CUPTI_V2_DRIVER_MIN;

#define X(field, type, symbol) session.field = (type)find(library, symbol);
	SESSION_FUNCTIONS(X)
#undef X
#define X(field, type, symbol) all = all && session.field;
	SESSION_FUNCTIONS(X)
#undef X
	return all;
}

/* No callback is ever enabled; some versions require a function anyway. */
static void session_callback(void *user, int domain, uint32_t id, const void *data)
{
	(void)user;
	(void)domain;
	(void)id;
	(void)data;
}

static bool session_between(uint64_t before, uint64_t t, uint64_t after)
{
	return t + SESSION_CLOCK_SLACK_NS >= before && t <= after + SESSION_CLOCK_SLACK_NS;
}

static cupti_result session_clock(enum clock_source *clock)
{
	for (int i = 0; i < SESSION_CLOCK_TRIES; i++) {
		uint64_t mono = clock_monotonic_ns(), real = clock_realtime_ns(), t = 0;
		cupti_result res = session.timestamp(session.subscriber, &t);

		if (res != CUPTI_OK)
			return res;
		if (session_between(real, t, clock_realtime_ns())) {
			*clock = CLOCK_SOURCE_REALTIME;
			return CUPTI_OK;
		}
		if (session_between(mono, t, clock_monotonic_ns())) {
			*clock = CLOCK_SOURCE_MONOTONIC;
			return CUPTI_OK;
		}
	}
	return CUPTI_NOT_COMPATIBLE;
}

cupti_result cupti_session_open(cupti_buffer_requested_v2_fn requested,
				cupti_buffer_completed_v2_fn completed, size_t device_buffers,
				enum clock_source *clock)
{
	cupti_subscriber_params params = {
	    .struct_bytes = sizeof(params), .name = "sysom", .share = 1};
	size_t size_bytes = sizeof(device_buffers), flag_bytes = 1;
	cupti_subscriber s = NULL;
	uint8_t on = 1;
	cupti_result res;

	res = session.subscribe(&s, session_callback, NULL, &params);
	if (res != CUPTI_OK)
		return res;
	session.subscriber = s;
	res = session_clock(clock);
	if (res == CUPTI_OK) {
		/* both are optional savings, so errors are ignored */
		session.set_attribute(s, CUPTI_ATTR_DEVICE_BUFFER_POOL_LIMIT, &size_bytes,
				      &device_buffers);
		session.set_attribute(s, CUPTI_ATTR_ZEROED_OUT_ACTIVITY_BUFFER, &flag_bytes, &on);
		res = session.register_callbacks(s, requested, completed);
	}
	if (res != CUPTI_OK)
		cupti_session_close();
	return res;
}

void cupti_session_close(void)
{
	cupti_subscriber s = session.subscriber;

	session.subscriber = NULL;
	if (s)
		session.unsubscribe(s);
}

bool cupti_session_is_open(void)
{
	return session.subscriber != NULL;
}

cupti_result cupti_session_enable(uint32_t kind)
{
	return session.enable(session.subscriber, kind, NULL);
}

void cupti_session_disable(uint32_t kind)
{
	session.disable(session.subscriber, kind, NULL);
}

cupti_result cupti_session_next_record(uint8_t *buffer, size_t valid_bytes, void **record)
{
	return session.next_record(session.subscriber, buffer, valid_bytes, record);
}

size_t cupti_session_dropped(void)
{
	cupti_subscriber s = session.subscriber;
	size_t n = 0;

	return s && session.dropped(s, NULL, 0, &n) == CUPTI_OK ? n : 0;
}
