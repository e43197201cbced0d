/* SPDX-License-Identifier: Apache-2.0
 * wrap_context.c - contexts, streams and graph capture. These functions are called rarely. We hook
 * them only to map a launch's handles to CUPTI's ids, and to count a graph's collectives at each
 * replay. After the real call we may query the driver and CUPTI; a launch never does. */
#include <stddef.h>

#include "foreign/cuda.h"
#include "preload/driver.h"
#include "preload/helper.h"
#include "preload/registry.h"
#include "preload/wrap.h"
#include "cupti/cupti_client.h"

static void wrap_tell_stream(uint16_t kind, cu_context context, cu_stream stream, bool per_thread,
			     bool push)
{
	struct event_stream e = {
	    .head = {.kind = kind, .flags = per_thread ? EVENT_FLAG_PTSZ : 0, .t = tracer_now()},
	    .stream = (uint64_t)(uintptr_t)stream,
	    .context = (uint64_t)(uintptr_t)context,
	    .device = driver_current_device()};

	driver_device_uuid(e.device, e.device_uuid);
	e.context_id = cupti_client_context_id(context);
	e.stream_id = cupti_client_stream_id(context, stream, per_thread);
	/* each thread has its own per-thread default stream: each reports it, and we do not keep
	 * it */
	if (kind == EVENT_STREAM && !per_thread)
		registry_stream_add(&e);
	if (push)
		tracer_push(&e);
}

/* This thread now uses another context, perhaps a new one of the process. */
static void wrap_context_changed(bool push)
{
	static uint64_t seen[64];
	cu_context context = driver_current_context();
	uint64_t key = (uint64_t)(uintptr_t)context;
	struct tracer_thread *t;

	if (!context) {
		if (tracer_self)
			tracer_self->launches = NULL;
		return;
	}
	registry_launches_of_context(key, 0);
	helper_context_ready();
	for (unsigned i = 0; i < 64; i++) {
		uint64_t none = 0;

		if (__atomic_load_n(&seen[i], __ATOMIC_RELAXED) == key)
			break;
		if (__atomic_compare_exchange_n(&seen[i], &none, key, false, __ATOMIC_RELAXED,
						__ATOMIC_RELAXED)) {
			wrap_tell_stream(EVENT_STREAM, context, NULL, false, push);
			break;
		}
		if (none == key)
			break;
	}
	t = tracer_self ? tracer_self : push ? tracer_claim() : NULL;
	if (t)
		t->launches = registry_launches_of_context(key, 0);
	if (t && t->context != key) {
		/* the thread's own stream in another context: we do not know whether it had
		 * launches before */
		if (tracer_own_number)
			tracer_own_number = RING_NUMBER((tracer_own_number >> 24) % 255 + 1, 0);
		t->context = key;
		wrap_tell_stream(EVENT_CONTEXT, context, NULL, false, push);
		wrap_tell_stream(EVENT_STREAM, context, NULL, true, push);
	}
}

/* Runs `after` if the real call succeeded, with the thread marked as inside a driver call. */
#define WRAP_AFTER(name, params, args, after)                                                      \
	WRAP_DRIVER(name, params, args, (void)from, if (res == CU_OK) after)

WRAP_AFTER(cuCtxSetCurrent, (cu_context context), (context), wrap_context_changed(push));
WRAP_AFTER(cuCtxPushCurrent_v2, (cu_context context), (context), wrap_context_changed(push));
WRAP_AFTER(cuCtxPopCurrent_v2, (cu_context * out), (out), wrap_context_changed(push));
/* v2 takes three, v4 four, v3 five arguments: all in registers, all forwarded. */
WRAP_AFTER(cuCtxCreate_v2, (cu_context * out, void *b, void *c, void *d, void *e),
	   (out, b, c, d, e), wrap_context_changed(push));
WRAP_AFTER(cuCtxCreate_v3, (cu_context * out, void *b, void *c, void *d, void *e),
	   (out, b, c, d, e), wrap_context_changed(push));
WRAP_AFTER(cuCtxCreate_v4, (cu_context * out, void *b, void *c, void *d, void *e),
	   (out, b, c, d, e), wrap_context_changed(push));
/* The context is retained but not current yet. CUPTI starts here, before the first module is
 * loaded. */
WRAP_AFTER(cuDevicePrimaryCtxRetain, (cu_context * out, cu_device device), (out, device),
	   helper_context_ready());

static void wrap_stream_created(cu_stream *out, bool push)
{
	if (!out || !*out)
		return;
	registry_launches_begin((uint64_t)(uintptr_t)*out);
	wrap_tell_stream(EVENT_STREAM, driver_current_context(), *out, false, push);
}

WRAP_AFTER(cuStreamCreate, (cu_stream * out, unsigned flags), (out, flags),
	   wrap_stream_created(out, push));
WRAP_AFTER(cuStreamCreateWithPriority, (cu_stream * out, unsigned flags, int priority),
	   (out, flags, priority), wrap_stream_created(out, push));
WRAP_AFTER(cuGreenCtxStreamCreate, (cu_stream * out, void *context, unsigned flags, int priority),
	   (out, context, flags, priority), wrap_stream_created(out, push));
/* Removed before the call: once the stream is gone, another thread may get the same handle. */
WRAP_DRIVER(cuStreamDestroy_v2, (cu_stream stream), (stream), (void)from;
	    registry_launches_end((uint64_t)(uintptr_t)stream),
	    if (res == CU_OK) registry_stream_remove((uint64_t)(uintptr_t)stream));

/* ---- graphs ---- */

static void wrap_tell_graph(uint16_t action, const void *graph, const void *exec, uint64_t capture,
			    const void *stream, uint32_t nodes, bool push)
{
	struct event_graph e = {.head = {.kind = EVENT_GRAPH, .t = tracer_now()},
				.graph = (uint64_t)(uintptr_t)graph,
				.exec = (uint64_t)(uintptr_t)exec,
				.capture = capture,
				.stream = (uint64_t)(uintptr_t)stream,
				.action = action,
				.nodes = nodes};

	if (push)
		tracer_push(&e);
}

static void wrap_capture_began(cu_stream stream, bool per_thread, bool push)
{
	uint64_t id = driver_capture_id(stream, per_thread);

	wrap_tell_graph(GRAPH_CAPTURE_BEGIN, NULL, NULL, registry_capture_begin(id), stream, 0,
			push);
}

/* The first version has no mode argument, and ignores that register. */
#define WRAP_BEGIN(name, ptsz)                                                                     \
	WRAP_AFTER(name, (cu_stream stream, void *mode), (stream, mode),                           \
		   wrap_capture_began(stream, ptsz, push))
WRAP_BEGIN(cuStreamBeginCapture, false);
WRAP_BEGIN(cuStreamBeginCapture_ptsz, true);
WRAP_BEGIN(cuStreamBeginCapture_v2, false);
WRAP_BEGIN(cuStreamBeginCapture_v2_ptsz, true);

#define WRAP_BEGIN_TO(name, ptsz)                                                                  \
	WRAP_AFTER(name,                                                                           \
		   (cu_stream stream, cu_graph graph, const void *deps, const void *edges,         \
		    size_t dep_count, int mode),                                                   \
		   (stream, graph, deps, edges, dep_count, mode),                                  \
		   wrap_capture_began(stream, ptsz, push))
WRAP_BEGIN_TO(cuStreamBeginCaptureToGraph, false);
WRAP_BEGIN_TO(cuStreamBeginCaptureToGraph_ptsz, true);

static void wrap_capture_ended(cu_stream stream, const cu_graph *graph, uint64_t id, cu_result res,
			       bool push)
{
	cu_graph made = res == CU_OK && graph ? *graph : NULL;
	uint64_t ordinal = registry_capture_end(id, (uint64_t)(uintptr_t)made);

	wrap_tell_graph(GRAPH_CAPTURE_END, made, NULL, ordinal, stream,
			made ? driver_graph_node_count(made) : 0, push);
}

/* The id is queried before the capture ends, because an invalidated capture has none afterwards. */
#define WRAP_END(name, ptsz)                                                                       \
	WRAP_DRIVER(name, (cu_stream stream, cu_graph * graph), (stream, graph), (void)from;       \
		    uint64_t id = driver_capture_id(stream, ptsz),                                 \
		    wrap_capture_ended(stream, graph, id, res, push))
WRAP_END(cuStreamEndCapture, false);
WRAP_END(cuStreamEndCapture_ptsz, true);

static void wrap_instantiated(const cu_graph_exec *exec, cu_graph graph, bool push)
{
	uint64_t capture;

	if (!exec || !*exec)
		return;
	capture =
	    registry_graph_instantiate((uint64_t)(uintptr_t)graph, (uint64_t)(uintptr_t)*exec);
	wrap_tell_graph(GRAPH_INSTANTIATE, graph, *exec, capture, NULL,
			driver_graph_node_count(graph), push);
}

#define WRAP_INSTANTIATE(name)                                                                     \
	WRAP_AFTER(name, (cu_graph_exec * exec, cu_graph graph, void *a, void *b, void *c),        \
		   (exec, graph, a, b, c), wrap_instantiated(exec, graph, push))
WRAP_INSTANTIATE(cuGraphInstantiate);
WRAP_INSTANTIATE(cuGraphInstantiate_v2);
WRAP_INSTANTIATE(cuGraphInstantiateWithFlags);
WRAP_INSTANTIATE(cuGraphInstantiateWithParams);
WRAP_INSTANTIATE(cuGraphInstantiateWithParams_ptsz);

static void wrap_updated(cu_graph_exec exec, cu_graph graph, bool push)
{
	uint64_t capture =
	    registry_graph_update((uint64_t)(uintptr_t)graph, (uint64_t)(uintptr_t)exec);

	wrap_tell_graph(GRAPH_UPDATE, graph, exec, capture, NULL, 0, push);
}

#define WRAP_UPDATE(name)                                                                          \
	WRAP_AFTER(name, (cu_graph_exec exec, cu_graph graph, void *a, void *b),                   \
		   (exec, graph, a, b), wrap_updated(exec, graph, push))
WRAP_UPDATE(cuGraphExecUpdate);
WRAP_UPDATE(cuGraphExecUpdate_v2);

static void wrap_exec_destroyed(cu_graph_exec exec, bool push)
{
	uint64_t capture = registry_exec_destroy((uint64_t)(uintptr_t)exec);

	wrap_tell_graph(GRAPH_DESTROY, NULL, exec, capture, NULL, 0, push);
}

WRAP_AFTER(cuGraphExecDestroy, (cu_graph_exec exec), (exec), wrap_exec_destroyed(exec, push));
