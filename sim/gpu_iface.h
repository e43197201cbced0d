/* SPDX-License-Identifier: Apache-2.0
 * gpu_iface.h - the private interface between the doubles: libcuda's exports one `gpu_iface`
 * symbol, which the doubles of CUPTI and NCCL find by dlsym.
 * Owns: nothing.  Threads: any thread may call every function unless stated otherwise.
 * Trust: all three libraries are ours and of one build. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "foreign/cuda.h"

#define GPU_MAX_DEVICES 16

#define GPU_IFACE_VERSION 1
#define GPU_IFACE_SYMBOL  "gpu_iface"

enum gpu_record_kind {
	GPU_RECORD_KERNEL = 1,
	GPU_RECORD_COPY,
	GPU_RECORD_SET,
	GPU_RECORD_GRAPH,
};

/* One finished (or, if end is 0, running) piece of GPU work; CLOCK_MONOTONIC nanoseconds. */
struct gpu_record {
	enum gpu_record_kind kind;
	uint64_t start_ns, end_ns;
	uint64_t bytes;
	const char *name; /* kernels; valid as long as the process */
	uint32_t device, context, stream, correlation;
	uint32_t grid[3], block[3];
	uint32_t shared_bytes;
	uint8_t copy_kind; /* CUPTI's CUpti_ActivityMemcpyKind */
	uint32_t graph_id;
	uint64_t node_id;
};

/* A profiler's callbacks. `record` runs under the GPU's lock and must not call back. The others run
 * without it: `launch` in a thread about to submit work, `deliver` in a worker after records
 * arrived. */
struct gpu_hooks {
	void (*record)(const struct gpu_record *record);
	void (*launch)(void);
	void (*deliver)(void);
};

/* A kernel whose end depends on other processes (a collective). All functions except `ref` and
 * `unref` run under the GPU's lock and must not block. */
struct gpu_peer_ops {
	void (*ref)(void *plan);
	void (*unref)(void *plan);
	/* Makes one execution of the plan, in the order of submission. */
	void *(*begin)(void *plan);
	/* The stream reaches it at start_ns (may be in the future). Returns the end, or 0 while
	 * unknown. */
	uint64_t (*start)(void *run, uint64_t start_ns);
	uint64_t (*poll)(void *run);
	void (*finish)(void *run);
};

struct gpu_iface {
	uint32_t version;
	/* A function whose kernelParams[0] points to a `void *` plan. Never freed. */
	cu_function (*peer_function)(const char *name, const struct gpu_peer_ops *ops);
	/* The worker polls running plans whenever *word changes; changes come with a futex wake. At
	 * most 60. */
	int (*watch)(uint32_t *word);
	void (*unwatch)(uint32_t *word);
	/* Polls now (for example after an abort). */
	void (*kick)(void);
	void (*set_hooks)(const struct gpu_hooks *hooks);
	/* true: each node of a graph launch is a record; false: one record per launch. */
	void (*set_graph_nodes)(bool nodes);
	/* Delivers everything that has ended; with `running` also what has begun, once, with end
	 * 0. */
	void (*retire)(bool running);
	uint32_t (*context_id)(cu_context context);
	/* 0, or CU_INVALID_HANDLE. */
	int (*stream_id)(cu_context context, cu_stream stream, bool per_thread, uint32_t *id);
};
