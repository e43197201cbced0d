/* SPDX-License-Identifier: Apache-2.0
 * cuda_double.h - shared by the files of the libcuda double: macros for exports, streams, graphs.
 * Owns: nothing.  Threads: functions named *_locked require gpu_lock(). */
#pragma once

#include "sim/gpu.h"

#define SIM_EXPORT    __attribute__((visibility("default")))
#define SIM_ARGS(...) __VA_ARGS__

/* An entry of cuGetProcAddress. The linker collects them between cuda_symbols_begin and _end. */
struct cuda_symbol {
	const char *name; /* the base name, perhaps with _v and a digit */
	int version;	  /* of CUDA, which introduced this ABI */
	bool per_thread;
	void (*fn)(void);
};
extern const struct cuda_symbol cuda_symbols_begin[] __asm__("__start_cuda_symbols");
extern const struct cuda_symbol cuda_symbols_end[] __asm__("__stop_cuda_symbols");

#define CU_SYMBOL(entry, version, name, per_thread, fn)                                            \
	static const struct cuda_symbol entry                                                      \
	    __attribute__((section("cuda_symbols"), used, aligned(8))) = {                         \
		name, version, per_thread, (void (*)(void))(fn)}
/* One driver function. */
#define CU_API(version, name, params)                                                              \
	SIM_EXPORT cu_result name params;                                                          \
	CU_SYMBOL(name##_symbol, version, #name, false, name);                                     \
	cu_result name params
/* A driver function with its per-thread-default-stream twin. The body has an argument pt: whether
 * the twin was called. */
#define CU_API_TWO(version, version_pt, name, suffix, params, args)                                \
	static cu_result name##_impl(bool pt, SIM_ARGS params);                                    \
	CU_API(version, name, params)                                                              \
	{                                                                                          \
		return name##_impl(false, SIM_ARGS args);                                          \
	}                                                                                          \
	SIM_EXPORT cu_result name##suffix params;                                                  \
	CU_SYMBOL(name##suffix##_symbol, version_pt, #name, true, name##suffix);                   \
	cu_result name##suffix params                                                              \
	{                                                                                          \
		return name##_impl(true, SIM_ARGS args);                                           \
	}                                                                                          \
	static cu_result name##_impl(bool pt, SIM_ARGS params)

/* The stream of a caller's handle; NULL: invalid, or no context is current. */
struct cu_stream_st *cuda_double_stream_locked(cu_stream handle, bool per_thread);
cu_stream cuda_double_per_thread(cu_context context);
/* Submits, or adds a node while the stream is captured. */
cu_result cuda_double_submit(cu_stream handle, bool per_thread, const struct gpu_work *w);

/* cuda_graph.c */
cu_result cuda_graph_capture_locked(struct cu_stream_st *s, const struct gpu_work *w);
void cuda_graph_event_record_locked(struct cu_stream_st *s, struct cu_event_st *e);
cu_result cuda_graph_event_wait_locked(struct cu_stream_st *s, struct cu_event_st *e);
