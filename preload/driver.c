/* SPDX-License-Identifier: Apache-2.0
 * driver.c - our own calls into libcuda. We look functions up in the library that the job loaded,
 * and never load it. */
#include "preload/driver.h"

#include <string.h>

#include "preload/hooks.h"

typedef cu_result (*version_fn)(int *version);
typedef cu_result (*current_context_fn)(cu_context *context);
typedef cu_result (*current_device_fn)(cu_device *device);
typedef cu_result (*device_uuid_fn)(cu_uuid *uuid, cu_device device);
typedef cu_result (*capture_v2_fn)(cu_stream stream, int *status, uint64_t *id, cu_graph *graph,
				   const cu_graph_node **deps, size_t *dep_count);
typedef cu_result (*capture_v3_fn)(cu_stream stream, int *status, uint64_t *id, cu_graph *graph,
				   const cu_graph_node **deps, const void **edges,
				   size_t *dep_count);
typedef cu_result (*graph_nodes_fn)(cu_graph graph, cu_graph_node *nodes, size_t *count);

enum driver_call {
	DRIVER_VERSION,
	DRIVER_CONTEXT,
	DRIVER_DEVICE,
	DRIVER_UUID_V2,
	DRIVER_UUID,
	DRIVER_CAPTURE_V2,
	DRIVER_CAPTURE_V2_PTSZ,
	DRIVER_CAPTURE_V3,
	DRIVER_CAPTURE_V3_PTSZ,
	DRIVER_NODES,
	DRIVER_CALL_COUNT,
};
static const char *const driver_names[DRIVER_CALL_COUNT] = {
    "cuDriverGetVersion",
    "cuCtxGetCurrent",
    "cuCtxGetDevice",
    "cuDeviceGetUuid_v2",
    "cuDeviceGetUuid",
    "cuStreamGetCaptureInfo_v2",
    "cuStreamGetCaptureInfo_v2_ptsz",
    "cuStreamGetCaptureInfo_v3",
    "cuStreamGetCaptureInfo_v3_ptsz",
    "cuGraphGetNodes",
};
static char driver_missing; /* its address means: looked up and not found */
static void *driver_calls[DRIVER_CALL_COUNT];

static void *driver_get(enum driver_call call)
{
	void *fn = __atomic_load_n(&driver_calls[call], __ATOMIC_ACQUIRE);
	void *library;

	if (!fn) {
		library = hooks_loaded("libcuda.so.1", "libcuda.so");
		fn = library ? hooks_dlsym(library, driver_names[call]) : NULL;
		if (!fn)
			fn = &driver_missing;
		__atomic_store_n(&driver_calls[call], fn, __ATOMIC_RELEASE);
	}
	return fn == &driver_missing ? NULL : fn;
}

int driver_version(void)
{
	version_fn fn = (version_fn)driver_get(DRIVER_VERSION);
	int version = 0;

	return fn && fn(&version) == CU_OK ? version : 0;
}

cu_context driver_current_context(void)
{
	current_context_fn fn = (current_context_fn)driver_get(DRIVER_CONTEXT);
	cu_context context = NULL;

	return fn && fn(&context) == CU_OK ? context : NULL;
}

uint32_t driver_current_device(void)
{
	current_device_fn fn = (current_device_fn)driver_get(DRIVER_DEVICE);
	cu_device device = 0;

	return fn && fn(&device) == CU_OK ? (uint32_t)device : UINT32_MAX;
}

void driver_device_uuid(uint32_t device, uint8_t uuid[16])
{
	device_uuid_fn fn = (device_uuid_fn)driver_get(DRIVER_UUID_V2);
	cu_uuid got;

	if (!fn) /* CUDA before 11.4: gives the UUID of the whole GPU, even for a MIG instance */
		fn = (device_uuid_fn)driver_get(DRIVER_UUID);
	if (fn && device != UINT32_MAX && fn(&got, (cu_device)device) == CU_OK)
		memcpy(uuid, &got, sizeof(got));
}

uint64_t driver_capture_id(cu_stream stream, bool per_thread)
{
	capture_v2_fn v2 =
	    (capture_v2_fn)driver_get(per_thread ? DRIVER_CAPTURE_V2_PTSZ : DRIVER_CAPTURE_V2);
	capture_v3_fn v3;
	int status = CU_CAPTURE_NONE;
	uint64_t id = 0;
	cu_result res = CU_NOT_FOUND;

	if (v2) {
		res = v2(stream, &status, &id, NULL, NULL, NULL);
	} else {
		v3 = (capture_v3_fn)driver_get(per_thread ? DRIVER_CAPTURE_V3_PTSZ
							  : DRIVER_CAPTURE_V3);
		if (v3)
			res = v3(stream, &status, &id, NULL, NULL, NULL, NULL);
	}
	return res == CU_OK && status == CU_CAPTURE_ACTIVE ? id : 0;
}

uint32_t driver_graph_node_count(cu_graph graph)
{
	graph_nodes_fn fn = (graph_nodes_fn)driver_get(DRIVER_NODES);
	size_t count = 0;

	return fn && fn(graph, NULL, &count) == CU_OK ? (uint32_t)count : 0;
}
