/* SPDX-License-Identifier: Apache-2.0
 * gpu.h - the modelled GPU: streams are first-in-first-out queues of operations. Start and end of
 * an operation are computed from deadlines on CLOCK_MONOTONIC; nothing is executed.
 * Owns: operations, streams, events, contexts.  Threads: gpu_lock() guards everything here;
 * functions named *_locked require it. Host waits sleep (futex, clock_nanosleep), never spin. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "sim/gpu_iface.h"

#define GPU_QUEUE_DEPTH	     1024 /* operations in one stream before a launch blocks, as on hardware */
#define GPU_NAME_BYTES	     4096
#define GPU_FIRST_STREAM     13 /* CUPTI numbers created streams from about this number */
#define GPU_LEGACY_STREAM_ID 7

enum gpu_op_kind {
	GPU_OP_MARK, /* event records and waits, graph ends */
	GPU_OP_KERNEL,
	GPU_OP_PEER,
	GPU_OP_COPY,
	GPU_OP_SET,
	GPU_OP_HOST,
	GPU_OP_GRAPH, /* the end of a graph launch */
};

enum gpu_op_state { GPU_OP_WAITS, GPU_OP_RUNS, GPU_OP_KNOWN };

typedef void (*gpu_host_fn)(void *user);

/* The content of a submission, or of a graph node. */
struct gpu_work {
	enum gpu_op_kind kind;
	uint64_t dur_ns;
	uint64_t bytes;
	struct cu_function_st *function;
	void *plan; /* GPU_OP_PEER */
	gpu_host_fn host_fn;
	void *host_arg;
	uint32_t grid[3], block[3];
	uint32_t shared_bytes;
	uint8_t copy_kind;
};

struct gpu_op {
	struct gpu_op *prev, *next; /* the device's live list */
	struct gpu_op *todo;	    /* resolution work list */
	struct gpu_op *wait_next;   /* running peers, or host functions */
	struct gpu_op **dependents;
	unsigned dependent_count, dependent_room;
	unsigned refs;
	unsigned deps_left;
	enum gpu_op_state state;
	bool delivered;
	bool silent; /* makes no record */
	bool coarse; /* part of a graph launch with a single record */
	uint64_t floor_ns, start_ns, end_ns;
	struct gpu_work work;
	void *run;
	struct cu_stream_st *stream; /* for queue accounting; NULL for graph nodes */
	struct gpu_op *first;	     /* graph end: its first operation */
	uint32_t device, context, stream_id, correlation;
	uint32_t graph_id;
	uint64_t node_id;
};

struct cu_function_st {
	char *name;
	const struct gpu_peer_ops *peer;
	struct cu_function_st *next;
};

struct cu_module_st {
	struct cu_function_st *functions;
};

struct cu_stream_st {
	uint32_t magic;
	uint32_t id;
	struct cu_context_st *context;
	bool nonblocking, legacy, destroyed;
	unsigned pending;
	struct gpu_op *tail;
	struct cu_stream_st *next; /* the context's streams */
	struct cu_graph_st *capture;
	struct cu_graph_node_st **capture_deps;
	unsigned capture_dep_count;
	bool capture_origin;
	uint64_t capture_id;
	int capture_status;
};

struct cu_event_st {
	uint32_t magic;
	struct gpu_op *op;
	struct cu_graph_st *capture;
	struct cu_graph_node_st **capture_deps;
	unsigned capture_dep_count;
};

struct cu_context_st {
	uint32_t magic;
	uint32_t id;
	int device;
	struct cu_stream_st *streams;
	struct cu_stream_st *legacy;
	struct gpu_op *legacy_tail; /* blocking streams wait for this */
};

struct gpu_device {
	struct gpu_op *head, *tail; /* live operations by submission */
	unsigned live_count;
	struct gpu_op *peers; /* begun, end unknown */
	struct gpu_op *hosts;
	pthread_t worker;
	bool started, idle;
	uint32_t doorbell;
	struct cu_context_st *primary;
};

struct gpu_state {
	int device_count;
	int visible[GPU_MAX_DEVICES];
	struct gpu_device devices[GPU_MAX_DEVICES];
	uint64_t submit_ns, gap_ns, default_kernel_ns, copy_bytes_per_us;
	uint32_t next_context, next_stream, next_correlation, next_graph;
	uint64_t next_node, next_capture;
	uint64_t random, graph_jitter_ppm; /* replays of one graph differ slightly */
	uint32_t known_gen; /* futex: incremented when an unknown end becomes known */
	bool graph_nodes, initialised, forked;
	const struct gpu_hooks *hooks;
	uint64_t memory_used, memory_total;
};

extern struct gpu_state gpu;
extern const struct gpu_iface gpu_iface;

void gpu_lock(void);
void gpu_unlock(void);
uint64_t gpu_env(const char *name, uint64_t otherwise);
/* Reads the environment once. 0, CU_NO_DEVICE. */
int gpu_init(void);
void gpu_device_start_locked(struct gpu_device *d);

struct cu_context_st *gpu_context_new_locked(int device);
struct cu_stream_st *gpu_stream_new_locked(struct cu_context_st *c, unsigned flags);
/* Frees the handle once its work is done. */
void gpu_stream_drop_locked(struct cu_stream_st *s);

/* Submits to a stream; `deps` are further operations to wait for. Returns a borrowed operation
 * (valid until the lock is released unless referenced). If the queue is full, gpu_stream_admit must
 * wait first. */
struct gpu_op *gpu_submit_locked(struct cu_stream_st *s, const struct gpu_work *w,
				 uint32_t correlation, struct gpu_op **deps, unsigned dep_count);
/* Graph launch: `node_deps[i]` lists earlier indexes. */
struct gpu_graph_node_view {
	const struct gpu_work *work;
	const unsigned *deps;
	unsigned dep_count;
	uint64_t node_id;
};
void gpu_submit_graph_locked(struct cu_stream_st *s, const struct gpu_graph_node_view *nodes,
			     unsigned count, uint32_t graph_id, uint32_t correlation);
/* Waits, with the lock released, until the stream's queue has room. */
void gpu_stream_admit_locked(struct cu_stream_st *s);

struct gpu_op *gpu_op_ref(struct gpu_op *op);
void gpu_op_unref(struct gpu_op *op);
bool gpu_op_done_locked(struct gpu_op *op);
/* Sleeps until the operation has ended, with the lock released. */
void gpu_op_synchronize_locked(struct gpu_op *op);
void gpu_retire_locked(struct gpu_device *d, bool running);
/* Calls the profiler's hook, if any, without the lock. */
void gpu_hook_launch(void);
struct cu_function_st *gpu_function_locked(struct cu_module_st *m, const char *name);
cu_context gpu_current(void);
