/* SPDX-License-Identifier: Apache-2.0
 * cupti_v2.h - CUPTI's subscriber-scoped activity API (libcupti 13.3 and later on a driver of r610
 * and later), under our own names. No toolkit that we build against declares it. These declarations
 * follow public text, in which three sources agree:
 *   - NVIDIA's CUPTI documentation, 13.3 and 13.4: "Multiple Subscribers", "User-Defined Activity
 *     Records", CUpti_SubscriberParams, CUpti_ActivityKernel11 to 13 (which append to Kernel10)
 *   - jaxlib, jaxlib/mosaic/gpu/mosaic_gpu_ext.cc: the weak declarations for older headers
 *   - PyTorch, torch/profiler/_cupti/cupti_python.py: the ctypes signatures
 * Not included: what only user-defined records need. We pass no configuration to enable, so records
 * keep the predefined layouts. */
#pragma once

#include "foreign/cupti.h"

#define CUPTI_V2_VERSION_MIN 130300u /* 13.2 had a preview of the API */
/* From this version on a subscriber made by cuptiSubscribe_v2 may use the versioned activity
 * calls. */
#define CUPTI_V2_VERSION_PREVIEW 130200u
#define CUPTI_V2_DRIVER_MIN	 13030 /* r610, as cuDriverGetVersion reports it */

/* CUpti_SubscriberParams; up to 13.1 it ends before `share`. */
typedef struct {
	size_t struct_bytes;
	const char *name;
	char *old_name;
	size_t old_name_bytes;
	uint8_t share; /* allowMultipleSubscribers: all subscribers must pass the same value */
	uint8_t padding[7];
} cupti_subscriber_params;
_Static_assert(sizeof(cupti_subscriber_params) == 40, "cupti_subscriber_params");
_Static_assert(offsetof(cupti_subscriber_params, share) == 32, "cupti_subscriber_params.share");

typedef void (*cupti_callback_fn)(void *user, int domain, uint32_t id, const void *data);
/* The last argument of each describes more than we use. */
typedef void (*cupti_buffer_requested_v2_fn)(uint8_t **buffer, size_t *bytes, size_t *max_records,
					     void *info);
typedef void (*cupti_buffer_completed_v2_fn)(uint8_t *buffer, size_t bytes, size_t valid_bytes,
					     void *info);

typedef cupti_result (*cupti_subscribe_v2_fn)(cupti_subscriber *out, cupti_callback_fn callback,
					      void *user, cupti_subscriber_params *params);
typedef cupti_result (*cupti_activity_register_callbacks_v2_fn)(
    cupti_subscriber s, cupti_buffer_requested_v2_fn requested,
    cupti_buffer_completed_v2_fn completed);
/* config: for user-defined records; NULL for the predefined ones */
typedef cupti_result (*cupti_activity_enable_v2_fn)(cupti_subscriber s, uint32_t kind,
						    void *config);
typedef cupti_result (*cupti_activity_disable_v2_fn)(cupti_subscriber s, uint32_t kind,
						     void *config);
typedef cupti_result (*cupti_activity_next_record_v2_fn)(cupti_subscriber s, uint8_t *buffer,
							 size_t valid_bytes, void **record);
typedef cupti_result (*cupti_activity_dropped_v2_fn)(cupti_subscriber s, void *context,
						     uint32_t stream, size_t *dropped);
typedef cupti_result (*cupti_activity_set_attribute_v2_fn)(cupti_subscriber s, uint32_t attr,
							   size_t *bytes, void *value);
typedef cupti_result (*cupti_get_timestamp_v2_fn)(cupti_subscriber s, uint64_t *ns);
