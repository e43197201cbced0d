/* SPDX-License-Identifier: Apache-2.0
 * cupti.h - the part of CUPTI's activity ABI that sysom uses (CUDA 11.0 to 13.0), under our own
 * names. The kernel record's offsets used here are the same from K5 (160 bytes) to K10 (216), so
 * one decoder serves all. Records are packed to 8 bytes. */
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef int cupti_result;
enum {
	CUPTI_OK = 0,
	CUPTI_INVALID_PARAMETER = 1,
	CUPTI_NOT_COMPATIBLE = 14,
	CUPTI_INVALID_KIND = 21,
	CUPTI_MAX_LIMIT = 12,
	CUPTI_NOT_INITIALIZED_ = 15,
	CUPTI_MULTIPLE_SUBSCRIBERS = 39,
	CUPTI_UNKNOWN_ = 999,
};

/* CUpti_ActivityKind */
#define CUPTI_KIND_MEMCPY	     1
#define CUPTI_KIND_MEMSET	     2
#define CUPTI_KIND_KERNEL	     3
#define CUPTI_KIND_CONCURRENT_KERNEL 10
#define CUPTI_KIND_MEMCPY2	     22 /* between GPUs */
#define CUPTI_KIND_GRAPH_TRACE	     51

/* CUpti_ActivityAttribute */
#define CUPTI_ATTR_DEVICE_BUFFER_SIZE	      0
#define CUPTI_ATTR_DEVICE_BUFFER_POOL_LIMIT   2
#define CUPTI_ATTR_ZEROED_OUT_ACTIVITY_BUFFER 5
#define CUPTI_ATTR_PER_THREAD_ACTIVITY_BUFFER 9

#define CUPTI_FLUSH_FORCED 1u

typedef void *cupti_subscriber;
/* CUpti_ActivityKernel5..10, the common part; the record continues after it. */
typedef struct __attribute__((packed, aligned(8))) {
	uint32_t kind;			   /* 0 */
	uint8_t cache_config;		   /* 4 */
	uint8_t shared_config;		   /* 5 */
	uint16_t registers;		   /* 6 */
	uint32_t partitioned_requested;	   /* 8 */
	uint32_t partitioned_executed;	   /* 12 */
	uint64_t start, end;		   /* 16, 24 */
	uint64_t completed;		   /* 32 */
	uint32_t device, context, stream;  /* 40, 44, 48 */
	int32_t grid[3];		   /* 52 */
	int32_t block[3];		   /* 64 */
	int32_t shared_static_bytes;	   /* 76 */
	int32_t shared_dynamic_bytes;	   /* 80 */
	uint32_t local_per_thread;	   /* 84 */
	uint32_t local_total;		   /* 88 */
	uint32_t correlation;		   /* 92 */
	int64_t grid_id;		   /* 96 */
	const char *name;		   /* 104 */
	void *reserved0;		   /* 112 */
	uint64_t queued, submitted;	   /* 120, 128 */
	uint8_t launch_type;		   /* 136 */
	uint8_t shared_carveout_requested; /* 137 */
	uint8_t shared_config_requested;   /* 138 */
	uint8_t padding;		   /* 139 */
	uint32_t shared_executed_bytes;	   /* 140 */
	uint64_t graph_node_id;		   /* 144 */
	uint32_t shared_limit_config;	   /* 152 */
	uint32_t graph_id;		   /* 156 */
} cupti_kernel;
_Static_assert(sizeof(cupti_kernel) == 160, "cupti_kernel");
/* whole record sizes by version: K5 .. K10 */
#define CUPTI_KERNEL5_BYTES  160
#define CUPTI_KERNEL6_BYTES  168
#define CUPTI_KERNEL7_BYTES  176
#define CUPTI_KERNEL8_BYTES  200
#define CUPTI_KERNEL9_BYTES  208
#define CUPTI_KERNEL10_BYTES 216

typedef struct __attribute__((packed, aligned(8))) {
	uint32_t kind;
	uint8_t copy_kind, src_kind, dst_kind, flags;
	uint64_t bytes;
	uint64_t start, end;
	uint32_t device, context, stream;
	uint32_t correlation;
	uint32_t runtime_correlation;
	uint32_t pad;
	void *reserved0;
	uint64_t graph_node_id;
	uint32_t graph_id;
	uint32_t channel_id;
	uint32_t channel_type;
	uint32_t pad2;
	uint64_t copy_count;
} cupti_memcpy; /* CUpti_ActivityMemcpy6 */
_Static_assert(sizeof(cupti_memcpy) == 96, "cupti_memcpy");
_Static_assert(offsetof(cupti_memcpy, stream) == 40, "cupti_memcpy.stream");
_Static_assert(offsetof(cupti_memcpy, correlation) == 44, "cupti_memcpy.correlation");

typedef struct __attribute__((packed, aligned(8))) {
	uint32_t kind;
	uint8_t copy_kind, src_kind, dst_kind, flags;
	uint64_t bytes;
	uint64_t start, end;
	uint32_t device, context, stream;
	uint32_t src_device, src_context, dst_device, dst_context;
	uint32_t correlation;
	void *reserved0;
	uint64_t graph_node_id;
	uint32_t graph_id;
	uint32_t channel_id;
	uint32_t channel_type;
} cupti_memcpy_peer; /* CUpti_ActivityMemcpyPtoP4; 3, of CUDA 11.1, ends after graph_id */
#define CUPTI_MEMCPY_PEER3_BYTES 88
#define CUPTI_COPY_PEER		 10 /* CUpti_ActivityMemcpyKind */

/* CUpti_ActivityGraphTrace and 2, the common part: one record for a whole graph launch. */
typedef struct __attribute__((packed, aligned(8))) {
	uint32_t kind, correlation;
	uint64_t start, end;
	uint32_t device, graph_id, context, stream;
	void *reserved0;
} cupti_graph_trace;
_Static_assert(sizeof(cupti_graph_trace) == 48, "cupti_graph_trace");

typedef void (*cupti_buffer_requested_fn)(uint8_t **buffer, size_t *bytes, size_t *max_records);
typedef void (*cupti_buffer_completed_fn)(void *context, uint32_t stream, uint8_t *buffer,
					  size_t bytes, size_t valid_bytes);
typedef uint64_t (*cupti_timestamp_fn)(void);

/* Types of the functions that we look up by dlsym. */
typedef cupti_result (*cupti_get_version_fn)(uint32_t *version);
typedef cupti_result (*cupti_subscribe_fn)(cupti_subscriber *out, void *callback, void *user);
typedef cupti_result (*cupti_unsubscribe_fn)(cupti_subscriber s);
typedef cupti_result (*cupti_activity_enable_fn)(uint32_t kind);
typedef cupti_result (*cupti_activity_disable_fn)(uint32_t kind);
typedef cupti_result (*cupti_activity_register_callbacks_fn)(cupti_buffer_requested_fn requested,
							     cupti_buffer_completed_fn completed);
typedef cupti_result (*cupti_activity_next_record_fn)(uint8_t *buffer, size_t valid_bytes,
						      void **record);
typedef cupti_result (*cupti_activity_dropped_fn)(void *context, uint32_t stream, size_t *dropped);
typedef cupti_result (*cupti_activity_flush_all_fn)(uint32_t flags);
typedef cupti_result (*cupti_activity_flush_period_fn)(uint32_t ms);
typedef cupti_result (*cupti_activity_set_attribute_fn)(uint32_t attr, size_t *bytes, void *value);
typedef cupti_result (*cupti_timestamp_callback_fn)(cupti_timestamp_fn fn);
typedef cupti_result (*cupti_get_stream_id_fn)(void *context, void *stream, uint8_t per_thread,
					       uint32_t *id); /* cuptiGetStreamIdEx */
typedef cupti_result (*cupti_get_context_id_fn)(void *context, uint32_t *id);
typedef cupti_result (*cupti_get_timestamp_fn)(uint64_t *ns);
