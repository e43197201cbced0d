/* SPDX-License-Identifier: Apache-2.0
 * cuda_double.h - shared by the files of the libcuda double: macros for exports, streams, graphs.
 * Owns: nothing.  Threads: functions named *_locked require gpu_lock(). */
#ifndef SIM_CUDA_DOUBLE_H
#define SIM_CUDA_DOUBLE_H

#include "sim/gpu.h"

#define SIM_EXPORT    __attribute__((visibility("default")))
#define SIM_ARGS(...) __VA_ARGS__
/* One driver function. */
#define CU_API(name, params)                                                                       \
	SIM_EXPORT cu_result name params;                                                          \
	cu_result name params
/* A driver function with its per-thread-default-stream twin, both call name_impl(bool pt, ...). */
#define CU_API_TWO(name, suffix, params, args)                                                     \
	SIM_EXPORT cu_result name params;                                                          \
	SIM_EXPORT cu_result name##suffix params;                                                  \
	cu_result name params                                                                      \
	{                                                                                          \
		return name##_impl(false, SIM_ARGS args);                                          \
	}                                                                                          \
	cu_result name##suffix params                                                              \
	{                                                                                          \
		return name##_impl(true, SIM_ARGS args);                                           \
	}

struct cuda_double_symbol {
	const char *base;
	int version;
	bool per_thread;
	void *fn;
};
extern const struct cuda_double_symbol cuda_double_symbols[];

/* The stream of a caller's handle; NULL: invalid, or no context is current. */
struct cu_stream_st *cuda_double_stream_locked(cu_stream handle, bool per_thread);
cu_stream cuda_double_per_thread(cu_context context);
/* Submits, or adds a node while the stream is captured. */
cu_result cuda_double_submit(cu_stream handle, bool per_thread, const struct gpu_work *w);

/* cuda_graph.c */
cu_result cuda_graph_capture_locked(struct cu_stream_st *s, const struct gpu_work *w);
void cuda_graph_event_record_locked(struct cu_stream_st *s, struct cu_event_st *e);
cu_result cuda_graph_event_wait_locked(struct cu_stream_st *s, struct cu_event_st *e);

#endif
