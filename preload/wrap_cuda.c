/* SPDX-License-Identifier: Apache-2.0
 * wrap_cuda.c - the driver's functions: launches, memory, synchronisation.
 * INV-1 to INV-3: each calls the real function exactly once with the caller's arguments, returns
 * its result and keeps errno. On a launch it makes no system call, takes no lock and allocates
 * nothing. The event is pushed after the real call has returned, because it carries entry and
 * duration. */
#include <stddef.h>

#include "foreign/cuda.h"
#include "preload/driver.h"
#include "preload/helper.h"
#include "preload/hooks.h"
#include "preload/registry.h"
#include "preload/tracer.h"

/* ---- launches ---- */

/* Whether this stream is captured, while any capture is in progress. Not inlined: rare. */
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

/* No context was reported yet: asks the driver. Rare; a thread without a lane asks each time. */
static __attribute__((noinline, cold)) struct registry_launches *wrap_default_launches(void)
{
	struct registry_launches *l =
	    registry_launches_of_context((uint64_t)(uintptr_t)driver_current_context(), 1);

	if (tracer_self)
		tracer_self->launches = l;
	return l;
}

/* Called after the launch, and only if a kernel will follow: then launches and kernels have the
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
	/* last: a locked addition before the stamp would count in the duration */
	e.number = e.head.flags & (EVENT_FLAG_FAILED | EVENT_FLAG_CAPTURED)
		       ? 0
		       : wrap_number(stream, ptsz);
	tracer_push(&e);
}

static inline cu_result wrap_launch(enum hook_id id, uint16_t ptsz, cu_function f,
				    const unsigned *grid, const unsigned *block, unsigned shared,
				    cu_stream stream, void **params, void **extra)
{
	cu_launch_kernel_fn real = (cu_launch_kernel_fn)hooks_get(id);
	uint64_t from;
	cu_result res;
	bool push;

	if (__builtin_expect(!real, 0))
		return CU_NOT_FOUND;
	if (__builtin_expect(!tracer_enter_launch(&push), 0))
		return real(f, grid[0], grid[1], grid[2], block[0], block[1], block[2], shared,
			    stream, params, extra);
	from = tracer_now();
	res = real(f, grid[0], grid[1], grid[2], block[0], block[1], block[2], shared, stream,
		   params, extra);
	if (__builtin_expect(push, 1))
		wrap_push_launch(from, (uint16_t)id, ptsz, res, f, stream, grid, block);
	tracer_leave(TRACER_IN_DRIVER);
	return res;
}

#define WRAP_LAUNCH(name, ptsz)                                                                    \
	cu_result wrap_##name(cu_function f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,   \
			      unsigned by, unsigned bz, unsigned shared, cu_stream stream,         \
			      void **params, void **extra);                                        \
	cu_result wrap_##name(cu_function f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,   \
			      unsigned by, unsigned bz, unsigned shared, cu_stream stream,         \
			      void **params, void **extra)                                         \
	{                                                                                          \
		const unsigned grid[3] = {gx, gy, gz}, block[3] = {bx, by, bz};                    \
                                                                                                   \
		return wrap_launch(HOOK_ID_##name, ptsz, f, grid, block, shared, stream, params,   \
				   extra);                                                         \
	}                                                                                          \
	HOOKS_EXPORT(name)

WRAP_LAUNCH(cuLaunchKernel, 0);
WRAP_LAUNCH(cuLaunchKernel_ptsz, EVENT_FLAG_PTSZ);

static inline cu_result wrap_launch_ex(enum hook_id id, uint16_t ptsz,
				       const cu_launch_config *config, cu_function f, void **params,
				       void **extra)
{
	cu_launch_kernel_ex_fn real = (cu_launch_kernel_ex_fn)hooks_get(id);
	uint64_t from;
	cu_result res;
	bool push;

	if (__builtin_expect(!real, 0))
		return CU_NOT_FOUND;
	if (__builtin_expect(!config || !tracer_enter_launch(&push), 0))
		return real(config, f, params, extra);
	from = tracer_now();
	res = real(config, f, params, extra);
	if (__builtin_expect(push, 1)) {
		const unsigned grid[3] = {config->grid_x, config->grid_y, config->grid_z};
		const unsigned block[3] = {config->block_x, config->block_y, config->block_z};

		wrap_push_launch(from, (uint16_t)id, ptsz, res, f, config->stream, grid, block);
	}
	tracer_leave(TRACER_IN_DRIVER);
	return res;
}

#define WRAP_LAUNCH_EX(name, ptsz)                                                                 \
	cu_result wrap_##name(const cu_launch_config *config, cu_function f, void **params,        \
			      void **extra);                                                       \
	cu_result wrap_##name(const cu_launch_config *config, cu_function f, void **params,        \
			      void **extra)                                                        \
	{                                                                                          \
		return wrap_launch_ex(HOOK_ID_##name, ptsz, config, f, params, extra);             \
	}                                                                                          \
	HOOKS_EXPORT(name)

WRAP_LAUNCH_EX(cuLaunchKernelEx, 0);
WRAP_LAUNCH_EX(cuLaunchKernelEx_ptsz, EVENT_FLAG_PTSZ);

static inline cu_result wrap_launch_coop(enum hook_id id, uint16_t ptsz, cu_function f,
					 const unsigned *grid, const unsigned *block,
					 unsigned shared, cu_stream stream, void **params)
{
	cu_launch_cooperative_fn real = (cu_launch_cooperative_fn)hooks_get(id);
	uint64_t from;
	cu_result res;
	bool push;

	if (__builtin_expect(!real, 0))
		return CU_NOT_FOUND;
	if (__builtin_expect(!tracer_enter_launch(&push), 0))
		return real(f, grid[0], grid[1], grid[2], block[0], block[1], block[2], shared,
			    stream, params);
	from = tracer_now();
	res = real(f, grid[0], grid[1], grid[2], block[0], block[1], block[2], shared, stream,
		   params);
	if (__builtin_expect(push, 1))
		wrap_push_launch(from, (uint16_t)id, ptsz, res, f, stream, grid, block);
	tracer_leave(TRACER_IN_DRIVER);
	return res;
}

#define WRAP_LAUNCH_COOP(name, ptsz)                                                               \
	cu_result wrap_##name(cu_function f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,   \
			      unsigned by, unsigned bz, unsigned shared, cu_stream stream,         \
			      void **params);                                                      \
	cu_result wrap_##name(cu_function f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,   \
			      unsigned by, unsigned bz, unsigned shared, cu_stream stream,         \
			      void **params)                                                       \
	{                                                                                          \
		const unsigned grid[3] = {gx, gy, gz}, block[3] = {bx, by, bz};                    \
                                                                                                   \
		return wrap_launch_coop(HOOK_ID_##name, ptsz, f, grid, block, shared, stream,      \
					params);                                                   \
	}                                                                                          \
	HOOKS_EXPORT(name)

WRAP_LAUNCH_COOP(cuLaunchCooperativeKernel, 0);
WRAP_LAUNCH_COOP(cuLaunchCooperativeKernel_ptsz, EVENT_FLAG_PTSZ);

/* A graph launch carries in grid[] the number of the graph's replay (UINT32_MAX unknown) and the
 * ordinal of the capture that made it. */
static inline cu_result wrap_graph_launch(enum hook_id id, uint16_t ptsz, cu_graph_exec exec,
					  cu_stream stream)
{
	cu_graph_launch_fn real = (cu_graph_launch_fn)hooks_get(id);
	uint64_t from, capture = 0;
	struct event_launch e;
	uint32_t replay;
	cu_result res;
	bool push;

	if (__builtin_expect(!real, 0))
		return CU_NOT_FOUND;
	if (__builtin_expect(!tracer_enter_launch(&push), 0))
		return real(exec, stream);
	from = tracer_now();
	res = real(exec, stream);
	replay = res == CU_OK ? registry_graph_launch((uint64_t)(uintptr_t)exec, &capture)
			      : REGISTRY_SEQ_UNKNOWN;
	if (push) {
		e.head.kind = EVENT_GRAPH_LAUNCH;
		e.head.flags = wrap_flags(stream, ptsz, res);
		e.head.t = from;
		e.func = (uint64_t)(uintptr_t)exec;
		e.stream = (uint64_t)(uintptr_t)stream;
		e.grid[0] = replay;
		e.grid[1] = (uint32_t)capture;
		e.grid[2] = (uint32_t)(capture >> 32);
		e.block[0] = e.block[1] = e.block[2] = 0;
		e.api = (uint16_t)id;
		e.duration = tracer_duration(from, tracer_now());
		e.number = 0;
		tracer_push(&e);
	}
	tracer_leave(TRACER_IN_DRIVER);
	return res;
}

#define WRAP_GRAPH_LAUNCH(name, ptsz)                                                              \
	cu_result wrap_##name(cu_graph_exec exec, cu_stream stream);                               \
	cu_result wrap_##name(cu_graph_exec exec, cu_stream stream)                                \
	{                                                                                          \
		return wrap_graph_launch(HOOK_ID_##name, ptsz, exec, stream);                      \
	}                                                                                          \
	HOOKS_EXPORT(name)

WRAP_GRAPH_LAUNCH(cuGraphLaunch, 0);
WRAP_GRAPH_LAUNCH(cuGraphLaunch_ptsz, EVENT_FLAG_PTSZ);

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
	cu_result wrap_##name params;                                                              \
	cu_result wrap_##name params                                                               \
	{                                                                                          \
		cu_result(*real) params = hooks_get(HOOK_ID_##name);                               \
		uint64_t from;                                                                     \
		cu_result res;                                                                     \
		bool push;                                                                         \
                                                                                                   \
		if (!real)                                                                         \
			return CU_NOT_FOUND;                                                       \
		if (!tracer_enter_driver(&push))                                                   \
			return real args;                                                          \
		from = tracer_now();                                                               \
		res = real args;                                                                   \
		if (push)                                                                          \
			wrap_push_mem(HOOK_ID_##name, from, res, bytes, address);                  \
		tracer_leave(TRACER_IN_DRIVER);                                                    \
		return res;                                                                        \
	}                                                                                          \
	HOOKS_EXPORT(name)

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
	cu_result wrap_##name(void *handle);                                                       \
	cu_result wrap_##name(void *handle)                                                        \
	{                                                                                          \
		cu_result (*real)(void *) = hooks_get(HOOK_ID_##name);                             \
		uint64_t from;                                                                     \
		cu_result res;                                                                     \
		bool push;                                                                         \
                                                                                                   \
		if (!real)                                                                         \
			return CU_NOT_FOUND;                                                       \
		if (!tracer_enter_driver(&push))                                                   \
			return real(handle);                                                       \
		from = tracer_now();                                                               \
		res = real(handle);                                                                \
		if (push)                                                                          \
			wrap_push_sync(HOOK_ID_##name, from, res,                                  \
				       HOOK_ID_##name == HOOK_ID_cuCtxSynchronize ? NULL : handle, \
				       what);                                                      \
		tracer_leave(TRACER_IN_DRIVER);                                                    \
		return res;                                                                        \
	}                                                                                          \
	HOOKS_EXPORT(name)

WRAP_SYNC(cuStreamSynchronize, SYNC_STREAM);
WRAP_SYNC(cuStreamSynchronize_ptsz, SYNC_STREAM);
WRAP_SYNC(cuEventSynchronize, SYNC_EVENT);
WRAP_SYNC(cuCtxSynchronize, SYNC_CONTEXT);
WRAP_SYNC(cuCtxSynchronize_v2, SYNC_CONTEXT);
