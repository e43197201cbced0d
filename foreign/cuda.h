/* SPDX-License-Identifier: Apache-2.0
 * cuda.h - the part of the CUDA driver's ABI that sysom uses, under our own names. So the tree
 * builds without a toolkit, and a conformance test can include NVIDIA's header beside it.
 * Frozen: values and layouts of CUDA 11.0 to 13.0. Extend, never renumber. */
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef int cu_result; /* CUresult */
enum {
	CU_OK = 0,
	CU_INVALID_VALUE = 1,
	CU_OUT_OF_MEMORY = 2,
	CU_NOT_INITIALIZED = 3,
	CU_NO_DEVICE = 100,
	CU_INVALID_CONTEXT = 201,
	CU_INVALID_HANDLE = 400,
	CU_NOT_FOUND = 500,
	CU_NOT_READY = 600,
	CU_LAUNCH_FAILED = 719,
	CU_NOT_SUPPORTED = 801,
	CU_UNKNOWN = 999,
};

typedef int cu_device;
typedef uint64_t cu_deviceptr;
typedef struct cu_context_st *cu_context;
typedef struct cu_module_st *cu_module;
typedef struct cu_function_st *cu_function; /* CUfunction and CUkernel */
typedef struct cu_stream_st *cu_stream;
typedef struct cu_event_st *cu_event;
typedef struct cu_graph_st *cu_graph;
typedef struct cu_graph_node_st *cu_graph_node;
typedef struct cu_graph_exec_st *cu_graph_exec;
typedef struct cu_mempool_st *cu_mempool;

#define CU_STREAM_LEGACY_HANDLE	    ((cu_stream)0x1)
#define CU_STREAM_PER_THREAD_HANDLE ((cu_stream)0x2)

/* cuGetProcAddress flags */
#define CU_GPA_DEFAULT	     0u
#define CU_GPA_LEGACY_STREAM 1u
#define CU_GPA_PTSZ	     2u
/* CUdriverProcAddressQueryResult */
#define CU_GPA_SUCCESS		    0
#define CU_GPA_SYMBOL_NOT_FOUND	    1
#define CU_GPA_VERSION_INSUFFICIENT 2

typedef struct {
	unsigned grid_x, grid_y, grid_z;
	unsigned block_x, block_y, block_z;
	unsigned shared_bytes;
	cu_stream stream;
	void *attrs; /* CUlaunchAttribute[] */
	unsigned attr_count;
} cu_launch_config; /* CUlaunchConfig */

typedef struct {
	uint64_t bytes[2];
} cu_uuid; /* CUuuid: 16 bytes */

/* CUstreamCaptureStatus */
#define CU_CAPTURE_NONE	       0
#define CU_CAPTURE_ACTIVE      1
#define CU_CAPTURE_INVALIDATED 2

typedef cu_result (*cu_get_proc_address_v1_fn)(const char *name, void **fn, int version,
					       uint64_t flags);
typedef cu_result (*cu_get_proc_address_v2_fn)(const char *name, void **fn, int version,
					       uint64_t flags, int *query);
typedef cu_result (*cu_launch_kernel_fn)(cu_function f, unsigned gx, unsigned gy, unsigned gz,
					 unsigned bx, unsigned by, unsigned bz, unsigned shared,
					 cu_stream stream, void **params, void **extra);
typedef cu_result (*cu_launch_kernel_ex_fn)(const cu_launch_config *config, cu_function f,
					    void **params, void **extra);
typedef cu_result (*cu_launch_cooperative_fn)(cu_function f, unsigned gx, unsigned gy, unsigned gz,
					      unsigned bx, unsigned by, unsigned bz,
					      unsigned shared, cu_stream stream, void **params);
typedef cu_result (*cu_graph_launch_fn)(cu_graph_exec exec, cu_stream stream);
typedef cu_result (*cu_mem_alloc_fn)(cu_deviceptr *out, size_t bytes);
typedef cu_result (*cu_mem_free_fn)(cu_deviceptr p);
typedef cu_result (*cu_mem_alloc_async_fn)(cu_deviceptr *out, size_t bytes, cu_stream stream);
typedef cu_result (*cu_mem_free_async_fn)(cu_deviceptr p, cu_stream stream);
