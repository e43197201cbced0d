/* SPDX-License-Identifier: Apache-2.0
 * wrap_cuda.c - the driver's functions: launches, memory, synchronisation.
 * A launch makes no system call, takes no lock and allocates nothing (INV-2). The event is pushed
 * after the real call has returned, because it carries entry and duration. */
#include <stddef.h>

#include "foreign/cuda.h"
#include "preload/driver.h"
#include "preload/helper.h"
#include "preload/registry.h"
#include "preload/wrap.h"

/* ---- launches ---- */

/* Whether this stream is being captured. Called only while some capture is in progress, so rarely;
 * not inlined. */
static __attribute__((noinline, cold)) uint16_t wrap_captured(cu_stream stream, uint16_t ptsz)
{
	return driver_capture_id(stream, ptsz != 0) ? EVENT_FLAG_CAPTURED : 0;
}

static inline uint16_t wrap_flags(cu_stream stream, uint16_t ptsz, cu_result res)
{
	uint16_t flags = ptsz;

	if (__builtin_expect(res != CU_OK, 0))
		flags |= EVENT_FLAG_FAILED;
	if (__builtin_expect(__atomic_load_n(&registry_captures_active, __ATOMIC_RELAXED) != 0, 0))
		flags |= wrap_captured(stream, ptsz);
	return flags;
}

/* Asks the driver, because no context was reported yet. Rare, but a thread without a lane asks each
 * time. */
static __attribute__((noinline, cold)) struct registry_launches *wrap_default_launches(void)
{
	struct registry_launches *l =
	    registry_launches_of_context((uint64_t)(uintptr_t)driver_current_context(), 1);

	if (tracer_self)
		tracer_self->launches = l;
	return l;
}

/* Call after the launch, and only if a kernel will follow, so that launches and kernels have the
 * same order. */
static inline uint32_t wrap_number(cu_stream stream, uint16_t ptsz)
{
	uint64_t handle = (uint64_t)(uintptr_t)stream;
	struct registry_launches *l;

	if (handle > 2) {
		l = registry_launches_of_stream(handle);
	} else if (handle == 2 || (!handle && ptsz)) {
		return tracer_own_number =
			   RING_NUMBER(tracer_own_number >> 24, tracer_own_number + 1);
	} else {
		l = tracer_self ? tracer_self->launches : NULL;
		if (__builtin_expect(!l, 0))
			l = wrap_default_launches();
	}
	return registry_launch_number(l);
}

static inline void wrap_push_launch(uint64_t from, uint16_t api, uint16_t ptsz, cu_result res,
				    const void *func, cu_stream stream, const unsigned *grid,
				    const unsigned *block)
{
	struct event_launch e;

	e.head.kind = EVENT_LAUNCH;
	e.head.flags = wrap_flags(stream, ptsz, res);
	e.head.t = from;
	e.func = (uint64_t)(uintptr_t)func;
	e.stream = (uint64_t)(uintptr_t)stream;
	for (int i = 0; i < 3; i++) {
		e.grid[i] = grid[i];
		e.block[i] = (uint16_t)block[i];
	}
	e.api = api;
	e.duration = tracer_duration(from, tracer_now());
	/* comes last, because a locked addition before the stamp would count in the duration */
	e.number = e.head.flags & (EVENT_FLAG_FAILED | EVENT_FLAG_CAPTURED)
		       ? 0
		       : wrap_number(stream, ptsz);
	tracer_push(&e);
}

#define WRAP_LAUNCH(name, enter, params, args, after)                                              \
	WRAP(cu_result, CU_NOT_FOUND, TRACER_IN_DRIVER, name, enter, params, args, after, (void)0)

#define WRAP_PUSH_LAUNCH(name, ptsz, stream, gx, gy, gz, bx, by, bz)                               \
	if (__builtin_expect(push, 1))                                                             \
	wrap_push_launch(from, HOOK_ID_##name, ptsz, res, f, stream,                               \
			 (const unsigned[]){gx, gy, gz}, (const unsigned[]){bx, by, bz})

#define WRAP_PLAIN(name, ptsz)                                                                     \
	WRAP_LAUNCH(name, tracer_enter_launch(&push),                                              \
		    (cu_function f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,            \
		     unsigned by, unsigned bz, unsigned shared, cu_stream stream, void **params,   \
		     void **extra),                                                                \
		    (f, gx, gy, gz, bx, by, bz, shared, stream, params, extra),                    \
		    WRAP_PUSH_LAUNCH(name, ptsz, stream, gx, gy, gz, bx, by, bz))
WRAP_PLAIN(cuLaunchKernel, 0);
WRAP_PLAIN(cuLaunchKernel_ptsz, EVENT_FLAG_PTSZ);

#define WRAP_EX(name, ptsz)                                                                        \
	WRAP_LAUNCH(name, config &&tracer_enter_launch(&push),                                     \
		    (const cu_launch_config *config, cu_function f, void **params, void **extra),  \
		    (config, f, params, extra),                                                    \
		    WRAP_PUSH_LAUNCH(name, ptsz, config->stream, config->grid_x, config->grid_y,   \
				     config->grid_z, config->block_x, config->block_y,             \
				     config->block_z))
WRAP_EX(cuLaunchKernelEx, 0);
WRAP_EX(cuLaunchKernelEx_ptsz, EVENT_FLAG_PTSZ);

#define WRAP_COOP(name, ptsz)                                                                      \
	WRAP_LAUNCH(name, tracer_enter_launch(&push),                                              \
		    (cu_function f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,            \
		     unsigned by, unsigned bz, unsigned shared, cu_stream stream, void **params),  \
		    (f, gx, gy, gz, bx, by, bz, shared, stream, params),                           \
		    WRAP_PUSH_LAUNCH(name, ptsz, stream, gx, gy, gz, bx, by, bz))
WRAP_COOP(cuLaunchCooperativeKernel, 0);
WRAP_COOP(cuLaunchCooperativeKernel_ptsz, EVENT_FLAG_PTSZ);

/* A graph launch carries in grid[] the number of the graph's replay (UINT32_MAX unknown) and the
 * ordinal of the capture that made it. */
static inline void wrap_graph_launched(uint64_t from, uint16_t api, uint16_t ptsz, cu_result res,
				       cu_graph_exec exec, cu_stream stream, bool push)
{
	struct event_launch e;
	uint64_t capture = 0;
	uint32_t replay = res == CU_OK ? registry_graph_launch((uint64_t)(uintptr_t)exec, &capture)
				       : REGISTRY_SEQ_UNKNOWN;

	if (!push)
		return;
	e.head.kind = EVENT_GRAPH_LAUNCH;
	e.head.flags = wrap_flags(stream, ptsz, res);
	e.head.t = from;
	e.func = (uint64_t)(uintptr_t)exec;
	e.stream = (uint64_t)(uintptr_t)stream;
	e.grid[0] = replay;
	e.grid[1] = (uint32_t)capture;
	e.grid[2] = (uint32_t)(capture >> 32);
	e.block[0] = e.block[1] = e.block[2] = 0;
	e.api = api;
	e.duration = tracer_duration(from, tracer_now());
	e.number = 0;
	tracer_push(&e);
}

#define WRAP_GRAPH(name, ptsz)                                                                     \
	WRAP_LAUNCH(name, tracer_enter_launch(&push), (cu_graph_exec exec, cu_stream stream),      \
		    (exec, stream),                                                                \
		    wrap_graph_launched(from, HOOK_ID_##name, ptsz, res, exec, stream, push))
WRAP_GRAPH(cuGraphLaunch, 0);
WRAP_GRAPH(cuGraphLaunch_ptsz, EVENT_FLAG_PTSZ);

/* ---- memory ---- */

static void wrap_push_mem(enum hook_id id, uint64_t from, cu_result res, uint64_t bytes,
			  uint64_t address)
{
	struct event_mem e = {
	    .head = {.kind = EVENT_MEM, .flags = res == CU_OK ? 0 : EVENT_FLAG_FAILED, .t = from},
	    .bytes = bytes,
	    .address = address,
	    .api = (uint16_t)id,
	    .result = (uint16_t)res,
	    .duration = tracer_duration(from, tracer_now())};

	tracer_push(&e);
}

/* WRAP_MEM(name, (parameters), (arguments), bytes, address after the call) */
#define WRAP_MEM(name, params, args, bytes, address)                                               \
	WRAP_DRIVER(name, params, args, (void)0,                                                   \
		    if (push) wrap_push_mem(HOOK_ID_##name, from, res, bytes, address))

#define WRAP_GIVEN (res == CU_OK && out ? *out : 0)

WRAP_MEM(cuMemAlloc_v2, (cu_deviceptr * out, size_t bytes), (out, bytes), bytes, WRAP_GIVEN);
WRAP_MEM(cuMemAllocPitch_v2,
	 (cu_deviceptr * out, size_t *pitch, size_t width, size_t height, unsigned element),
	 (out, pitch, width, height, element), (res == CU_OK && pitch ? *pitch : width) * height,
	 WRAP_GIVEN);
WRAP_MEM(cuMemAllocManaged, (cu_deviceptr * out, size_t bytes, unsigned flags), (out, bytes, flags),
	 bytes, WRAP_GIVEN);
WRAP_MEM(cuMemAllocAsync, (cu_deviceptr * out, size_t bytes, cu_stream stream),
	 (out, bytes, stream), bytes, WRAP_GIVEN);
WRAP_MEM(cuMemAllocAsync_ptsz, (cu_deviceptr * out, size_t bytes, cu_stream stream),
	 (out, bytes, stream), bytes, WRAP_GIVEN);
WRAP_MEM(cuMemAllocFromPoolAsync,
	 (cu_deviceptr * out, size_t bytes, cu_mempool pool, cu_stream stream),
	 (out, bytes, pool, stream), bytes, WRAP_GIVEN);
WRAP_MEM(cuMemAllocFromPoolAsync_ptsz,
	 (cu_deviceptr * out, size_t bytes, cu_mempool pool, cu_stream stream),
	 (out, bytes, pool, stream), bytes, WRAP_GIVEN);
WRAP_MEM(cuMemFree_v2, (cu_deviceptr p), (p), 0, p);
WRAP_MEM(cuMemFreeAsync, (cu_deviceptr p, cu_stream stream), (p, stream), 0, p);
WRAP_MEM(cuMemFreeAsync_ptsz, (cu_deviceptr p, cu_stream stream), (p, stream), 0, p);

/* ---- the host waits for the GPU ---- */

static void wrap_push_sync(enum hook_id id, uint64_t from, cu_result res, const void *handle,
			   enum event_sync_scope scope)
{
	struct event_sync e = {
	    .head = {.kind = EVENT_SYNC, .flags = res == CU_OK ? 0 : EVENT_FLAG_FAILED, .t = from},
	    .handle = (uint64_t)(uintptr_t)handle,
	    .api = (uint16_t)id,
	    .scope = (uint16_t)scope,
	    .duration = tracer_duration(from, tracer_now())};

	if (hooks_table[id].ptsz)
		e.head.flags |= EVENT_FLAG_PTSZ;
	tracer_push(&e);
	helper_sync_done();
}

/* The v2 of cuCtxSynchronize takes a context, the first takes nothing. Forwarding the register
 * serves both. */
#define WRAP_SYNC(name, what)                                                                      \
	WRAP_DRIVER(name, (void *handle), (handle), (void)0,                                       \
		    if (push) wrap_push_sync(                                                      \
			HOOK_ID_##name, from, res,                                                 \
			HOOK_ID_##name == HOOK_ID_cuCtxSynchronize ? NULL : handle, what))

WRAP_SYNC(cuStreamSynchronize, SYNC_STREAM);
WRAP_SYNC(cuStreamSynchronize_ptsz, SYNC_STREAM);
WRAP_SYNC(cuEventSynchronize, SYNC_EVENT);
WRAP_SYNC(cuCtxSynchronize, SYNC_CONTEXT);
WRAP_SYNC(cuCtxSynchronize_v2, SYNC_CONTEXT);
