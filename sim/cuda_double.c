/* SPDX-License-Identifier: Apache-2.0
 * cuda_double.c - devices, contexts, streams, events and launches of the libcuda double. The ABI is
 * the driver's, but kernelParams[0] holds a kernel's duration in nanoseconds as a uint64_t. */
#include "sim/cuda_double.h"

#include <stdlib.h>
#include <string.h>

#define MAGIC_STREAM 0x5354524du
#define MAGIC_EVENT  0x45564e54u
#define STACK_DEPTH  16

static __thread cu_context context_stack[STACK_DEPTH];
static __thread int context_top; /* entries in use */

struct per_thread {
	cu_context context;
	cu_stream stream;
};
static pthread_key_t per_thread_key;
static pthread_once_t per_thread_once = PTHREAD_ONCE_INIT;

cu_context gpu_current(void)
{
	return context_top ? context_stack[context_top - 1] : NULL;
}

static void per_thread_end(void *arg)
{
	struct per_thread *p = arg;

	gpu_lock();
	p->stream->destroyed = true;
	gpu_stream_drop_locked(p->stream);
	gpu_unlock();
	free(p);
}

static void per_thread_init(void)
{
	pthread_key_create(&per_thread_key, per_thread_end);
}

static cu_stream per_thread_locked(cu_context c)
{
	struct per_thread *p;

	if (!c)
		return NULL;
	pthread_once(&per_thread_once, per_thread_init);
	p = pthread_getspecific(per_thread_key);
	if (p && p->context == c)
		return p->stream;
	if (!p) {
		p = calloc(1, sizeof(*p));
		if (!p)
			return NULL;
		pthread_setspecific(per_thread_key, p);
	} else {
		p->stream->destroyed = true;
		gpu_stream_drop_locked(p->stream);
	}
	p->context = c;
	p->stream = gpu_stream_new_locked(c, 0);
	return p->stream;
}

cu_stream cuda_double_per_thread(cu_context c)
{
	cu_stream s;

	gpu_lock();
	s = per_thread_locked(c);
	gpu_unlock();
	return s;
}

struct cu_stream_st *cuda_double_stream_locked(cu_stream h, bool per_thread)
{
	cu_context c = gpu_current();

	if (!c)
		return NULL;
	if (h == CU_STREAM_PER_THREAD_HANDLE || (!h && per_thread))
		return per_thread_locked(c);
	if (!h || h == CU_STREAM_LEGACY_HANDLE)
		return c->legacy;
	return h->magic == MAGIC_STREAM && !h->destroyed ? h : NULL;
}

static cu_result no_stream(void)
{
	if (!gpu.initialised || gpu.forked)
		return CU_NOT_INITIALIZED;
	return gpu_current() ? CU_INVALID_HANDLE : CU_INVALID_CONTEXT;
}

cu_result cuda_double_submit(cu_stream h, bool per_thread, const struct gpu_work *w)
{
	struct cu_stream_st *s;
	cu_result rc = CU_OK;

	gpu_hook_launch();
	gpu_lock();
	s = gpu.forked ? NULL : cuda_double_stream_locked(h, per_thread);
	if (!s) {
		rc = no_stream();
	} else if (s->capture) {
		gpu.next_correlation++;
		rc = cuda_graph_capture_locked(s, w);
	} else {
		gpu_stream_admit_locked(s);
		gpu_submit_locked(s, w, gpu.next_correlation++, NULL, 0);
	}
	gpu_unlock();
	return rc;
}

/* ---- initialisation and devices ---- */

static void forked_child(void)
{
	/* CUDA does not survive a fork: every call fails in the child. */
	gpu_unlock();
	if (gpu.initialised)
		gpu.forked = true;
}

static void init_once(void)
{
	pthread_atfork(gpu_lock, gpu_unlock, forked_child);
}

CU_API(2000, cuInit, (unsigned flags))
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	if (flags)
		return CU_INVALID_VALUE;
	if (gpu.forked)
		return CU_NOT_INITIALIZED;
	pthread_once(&once, init_once);
	return gpu_init();
}

static int driver_version(void)
{
	return (int)gpu_env("SIM_CUDA_VERSION", 13000);
}

CU_API(2020, cuDriverGetVersion, (int *version))
{
	if (!version)
		return CU_INVALID_VALUE;
	*version = driver_version();
	return CU_OK;
}

static bool device_ok(int dev)
{
	return gpu.initialised && dev >= 0 && dev < gpu.device_count;
}

CU_API(2000, cuDeviceGetCount, (int *count))
{
	if (!gpu.initialised)
		return CU_NOT_INITIALIZED;
	*count = gpu.device_count;
	return CU_OK;
}

CU_API(2000, cuDeviceGet, (cu_device * dev, int ordinal))
{
	if (!gpu.initialised)
		return CU_NOT_INITIALIZED;
	if (!device_ok(ordinal))
		return 101;
	*dev = ordinal;
	return CU_OK;
}

static cu_result device_uuid(cu_uuid *uuid, cu_device dev)
{
	if (!device_ok(dev))
		return 101;
	/* The same on every run: 53494d47-5055-0000-0000-0000000000NN ("SIMGPU"). */
	memset(uuid, 0, sizeof(*uuid));
	memcpy(uuid, "SIMGPU", 6);
	((unsigned char *)uuid)[15] = (unsigned char)gpu.visible[dev];
	return CU_OK;
}

CU_API(9020, cuDeviceGetUuid, (cu_uuid * uuid, cu_device dev))
{
	return device_uuid(uuid, dev);
}

CU_API(11040, cuDeviceGetUuid_v2, (cu_uuid * uuid, cu_device dev))
{
	return device_uuid(uuid, dev);
}

/* ---- contexts ---- */

CU_API(7000, cuDevicePrimaryCtxRetain, (cu_context * out, cu_device dev))
{
	struct gpu_device *d;

	if (gpu.forked || !gpu.initialised)
		return CU_NOT_INITIALIZED;
	if (!device_ok(dev))
		return 101;
	gpu_lock();
	d = &gpu.devices[dev];
	if (!d->primary)
		d->primary = gpu_context_new_locked(dev);
	*out = d->primary;
	gpu_unlock();
	return *out ? CU_OK : CU_OUT_OF_MEMORY;
}

CU_API(4000, cuCtxSetCurrent, (cu_context c))
{
	if (!c) {
		if (context_top)
			context_top--;
		return CU_OK;
	}
	if (!context_top)
		context_top = 1;
	context_stack[context_top - 1] = c;
	return CU_OK;
}

CU_API(4000, cuCtxGetCurrent, (cu_context * c))
{
	*c = gpu_current();
	return CU_OK;
}

CU_API(4000, cuCtxPushCurrent_v2, (cu_context c))
{
	if (!c || context_top == STACK_DEPTH)
		return CU_INVALID_CONTEXT;
	context_stack[context_top++] = c;
	return CU_OK;
}

CU_API(4000, cuCtxPopCurrent_v2, (cu_context * c))
{
	if (!context_top)
		return CU_INVALID_CONTEXT;
	context_top--;
	if (c)
		*c = context_stack[context_top];
	return CU_OK;
}

CU_API(3020, cuCtxCreate_v2, (cu_context * out, unsigned flags, cu_device dev))
{
	if (!gpu.initialised || gpu.forked)
		return CU_NOT_INITIALIZED;
	if (!device_ok(dev))
		return 101;
	gpu_lock();
	*out = gpu_context_new_locked(dev);
	gpu_unlock();
	return *out ? cuCtxPushCurrent_v2(*out) : CU_OUT_OF_MEMORY;
}

static cu_result context_sync(cu_context c)
{
	if (!c)
		return CU_INVALID_CONTEXT;
	gpu_lock();
	gpu.next_correlation++;
	for (struct cu_stream_st *s = c->streams; s;) {
		if (gpu_op_done_locked(s->tail)) {
			s = s->next;
			continue;
		}
		gpu_op_synchronize_locked(s->tail);
		s = c->streams; /* the list may have changed meanwhile */
	}
	gpu_retire_locked(&gpu.devices[c->device], false);
	gpu_unlock();
	return CU_OK;
}

CU_API(2000, cuCtxSynchronize, (void))
{
	return context_sync(gpu_current());
}

CU_API(2000, cuCtxGetDevice, (cu_device * dev))
{
	if (!gpu_current())
		return CU_INVALID_CONTEXT;
	*dev = gpu_current()->device;
	return CU_OK;
}

/* ---- modules and functions ---- */

static cu_result module_new(cu_module *out)
{
	if (!gpu_current())
		return CU_INVALID_CONTEXT;
	*out = calloc(1, sizeof(**out));
	return *out ? CU_OK : CU_OUT_OF_MEMORY;
}

CU_API(2000, cuModuleLoadData, (cu_module * out, const void *image))
{
	return image ? module_new(out) : CU_INVALID_VALUE;
}

CU_API(2000, cuModuleGetFunction, (cu_function * out, cu_module m, const char *name))
{
	if (!out || !m || !name)
		return CU_INVALID_VALUE;
	gpu_lock();
	*out = gpu_function_locked(m, name);
	gpu_unlock();
	return *out ? CU_OK : CU_OUT_OF_MEMORY;
}

CU_API(12030, cuKernelGetName, (const char **name, cu_function f))
{
	if (!f || !name)
		return CU_INVALID_VALUE;
	*name = f->name;
	return CU_OK;
}

CU_API(12030, cuFuncGetName, (const char **name, cu_function f))
{
	return cuKernelGetName(name, f);
}

/* ---- launches ---- */

static cu_result launch(bool pt, cu_function f, const unsigned *dims, unsigned shared, cu_stream s,
			void **params)
{
	struct gpu_work w = {.kind = GPU_OP_KERNEL, .function = f, .shared_bytes = shared};

	if (!f)
		return CU_INVALID_HANDLE;
	for (int i = 0; i < 3; i++) {
		w.grid[i] = dims[i];
		w.block[i] = dims[i + 3];
		if (!dims[i] || !dims[i + 3])
			return CU_INVALID_VALUE;
	}
	if (f->peer) {
		w.kind = GPU_OP_PEER;
		w.plan = *(void **)params[0];
	} else {
		w.dur_ns = params && params[0] ? *(uint64_t *)params[0] : gpu.default_kernel_ns;
	}
	return cuda_double_submit(s, pt, &w);
}

CU_API_TWO(4000, 7000, cuLaunchKernel, _ptsz,
	   (cu_function f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
	    unsigned bz, unsigned shared, cu_stream s, void **params, void **extra),
	   (f, gx, gy, gz, bx, by, bz, shared, s, params, extra))
{
	unsigned dims[6] = {gx, gy, gz, bx, by, bz};

	return launch(pt, f, dims, shared, s, params);
}

CU_API_TWO(9000, 9000, cuLaunchCooperativeKernel, _ptsz,
	   (cu_function f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
	    unsigned bz, unsigned shared, cu_stream s, void **params),
	   (f, gx, gy, gz, bx, by, bz, shared, s, params))
{
	unsigned dims[6] = {gx, gy, gz, bx, by, bz};

	return launch(pt, f, dims, shared, s, params);
}

CU_API_TWO(11060, 11060, cuLaunchKernelEx, _ptsz,
	   (const cu_launch_config *c, cu_function f, void **params, void **extra),
	   (c, f, params, extra))
{
	if (!c)
		return CU_INVALID_VALUE;
	unsigned dims[6] = {c->grid_x, c->grid_y, c->grid_z, c->block_x, c->block_y, c->block_z};

	return launch(pt, f, dims, c->shared_bytes, c->stream, params);
}

CU_API_TWO(10000, 10000, cuLaunchHostFunc, _ptsz, (cu_stream s, gpu_host_fn fn, void *user),
	   (s, fn, user))
{
	struct gpu_work w = {.kind = GPU_OP_HOST, .host_fn = fn, .host_arg = user};

	return fn ? cuda_double_submit(s, pt, &w) : CU_INVALID_VALUE;
}

/* ---- streams ---- */

CU_API(5050, cuStreamCreateWithPriority, (cu_stream * out, unsigned flags, int priority))
{
	if (!gpu_current())
		return CU_INVALID_CONTEXT;
	gpu_lock();
	*out = gpu_stream_new_locked(gpu_current(), flags);
	gpu_unlock();
	return *out ? CU_OK : CU_OUT_OF_MEMORY;
}

CU_API(2000, cuStreamCreate, (cu_stream * out, unsigned flags))
{
	return cuStreamCreateWithPriority(out, flags, 0);
}

CU_API(4000, cuStreamDestroy_v2, (cu_stream s))
{
	cu_result rc = CU_OK;

	gpu_lock();
	if (!s || s <= CU_STREAM_PER_THREAD_HANDLE || s->magic != MAGIC_STREAM || s->legacy) {
		rc = CU_INVALID_HANDLE;
	} else {
		s->destroyed = true;
		gpu_stream_drop_locked(s);
	}
	gpu_unlock();
	return rc;
}

CU_API_TWO(2000, 7000, cuStreamSynchronize, _ptsz, (cu_stream h), (h))
{
	struct cu_stream_st *s;
	cu_result rc = CU_OK;

	gpu_lock();
	s = cuda_double_stream_locked(h, pt);
	gpu.next_correlation++;
	if (!s) {
		rc = no_stream();
	} else if (s->capture) {
		rc = 900; /* STREAM_CAPTURE_UNSUPPORTED */
	} else {
		struct cu_context_st *c = s->context;

		gpu_op_synchronize_locked(s->tail);
		gpu_retire_locked(&gpu.devices[c->device], false);
	}
	gpu_unlock();
	return rc;
}

CU_API_TWO(2000, 7000, cuStreamQuery, _ptsz, (cu_stream h), (h))
{
	struct cu_stream_st *s;
	cu_result rc;

	gpu_lock();
	s = cuda_double_stream_locked(h, pt);
	gpu.next_correlation++;
	rc = !s				   ? no_stream()
	     : s->capture		   ? 900
	     : gpu_op_done_locked(s->tail) ? CU_OK
					   : CU_NOT_READY;
	gpu_unlock();
	return rc;
}

CU_API_TWO(3020, 7000, cuStreamWaitEvent, _ptsz, (cu_stream h, cu_event e, unsigned flags),
	   (h, e, flags))
{
	static const struct gpu_work mark = {.kind = GPU_OP_MARK};
	struct cu_stream_st *s;
	cu_result rc = CU_OK;

	if (!e || e->magic != MAGIC_EVENT)
		return CU_INVALID_HANDLE;
	gpu_lock();
	s = cuda_double_stream_locked(h, pt);
	gpu.next_correlation++;
	if (!s)
		rc = no_stream();
	else if (e->capture || s->capture)
		rc = cuda_graph_event_wait_locked(s, e);
	else if (e->op && !gpu_op_done_locked(e->op))
		gpu_submit_locked(s, &mark, 0, &e->op, 1);
	gpu_unlock();
	return rc;
}

/* ---- events ---- */

CU_API(2000, cuEventCreate, (cu_event * out, unsigned flags))
{
	struct cu_event_st *e;

	if (!gpu_current())
		return CU_INVALID_CONTEXT;
	e = calloc(1, sizeof(*e));
	if (!e)
		return CU_OUT_OF_MEMORY;
	e->magic = MAGIC_EVENT;
	*out = e;
	return CU_OK;
}

CU_API(4000, cuEventDestroy_v2, (cu_event e))
{
	if (!e || e->magic != MAGIC_EVENT)
		return CU_INVALID_HANDLE;
	gpu_lock();
	e->magic = 0;
	gpu_op_unref(e->op);
	free(e->capture_deps);
	gpu_unlock();
	free(e);
	return CU_OK;
}

CU_API_TWO(2000, 7000, cuEventRecord, _ptsz, (cu_event e, cu_stream h), (e, h))
{
	static const struct gpu_work mark = {.kind = GPU_OP_MARK};
	struct cu_stream_st *s;
	cu_result rc = CU_OK;

	if (!e || e->magic != MAGIC_EVENT)
		return CU_INVALID_HANDLE;
	gpu_lock();
	s = gpu.forked ? NULL : cuda_double_stream_locked(h, pt);
	gpu.next_correlation++;
	if (!s) {
		rc = no_stream();
	} else if (s->capture) {
		cuda_graph_event_record_locked(s, e);
	} else {
		struct gpu_op *op = gpu_op_ref(gpu_submit_locked(s, &mark, 0, NULL, 0));

		gpu_op_unref(e->op);
		e->op = op;
		e->capture = NULL;
	}
	gpu_unlock();
	return rc;
}

CU_API(2000, cuEventSynchronize, (cu_event e))
{
	if (!e || e->magic != MAGIC_EVENT)
		return CU_INVALID_HANDLE;
	gpu_lock();
	gpu.next_correlation++;
	if (e->op)
		gpu_op_synchronize_locked(e->op);
	gpu_unlock();
	return CU_OK;
}

static cu_result elapsed(float *ms, cu_event a, cu_event b)
{
	cu_result rc = CU_OK;

	if (!a || !b || a->magic != MAGIC_EVENT || b->magic != MAGIC_EVENT || !a->op || !b->op)
		return CU_INVALID_HANDLE;
	gpu_lock();
	if (!gpu_op_done_locked(a->op) || !gpu_op_done_locked(b->op))
		rc = CU_NOT_READY;
	else
		*ms = (float)((double)((int64_t)(b->op->end_ns - a->op->end_ns)) / 1e6);
	gpu_unlock();
	return rc;
}

CU_API(2000, cuEventElapsedTime, (float *ms, cu_event a, cu_event b))
{
	return elapsed(ms, a, b);
}

CU_API(12080, cuEventElapsedTime_v2, (float *ms, cu_event a, cu_event b))
{
	return elapsed(ms, a, b);
}

/* ---- the rest ---- */

CU_API(3000, cuGetExportTable, (const void **table, const cu_uuid *id))
{
	if (table)
		*table = NULL;
	return CU_NOT_FOUND;
}

static bool is_named(const struct cuda_symbol *s, const char *name)
{
	size_t n = strlen(s->name);

	if (n > 3 && !strncmp(s->name + n - 3, "_v", 2))
		n -= 3;
	return strlen(name) == n && !strncmp(s->name, name, n);
}

static cu_result proc_address(const char *name, void **fn, int version, uint64_t flags, int *query)
{
	const struct cuda_symbol *best = NULL;
	bool known = false;

	*fn = NULL;
	if (version > driver_version())
		return CU_INVALID_VALUE;
	for (const struct cuda_symbol *s = cuda_symbols_begin; s < cuda_symbols_end; s++) {
		if (!is_named(s, name) || (s->per_thread && !(flags & CU_GPA_PTSZ)))
			continue;
		known = true;
		if (s->version > version)
			continue;
		/* Prefers the per-thread twin if requested, then the newest. */
		if (!best || (s->per_thread && !best->per_thread) ||
		    (s->per_thread == best->per_thread && s->version > best->version))
			best = s;
	}
	if (query)
		*query = best	 ? CU_GPA_SUCCESS
			 : known ? CU_GPA_VERSION_INSUFFICIENT
				 : CU_GPA_SYMBOL_NOT_FOUND;
	if (best)
		memcpy(fn, &best->fn, sizeof(*fn));
	return CU_OK;
}

CU_API(11030, cuGetProcAddress, (const char *name, void **fn, int version, uint64_t flags))
{
	cu_result rc;

	if (!name || !fn)
		return CU_INVALID_VALUE;
	rc = proc_address(name, fn, version, flags, NULL);
	return rc ? rc : *fn ? CU_OK : CU_NOT_FOUND;
}

CU_API(12000, cuGetProcAddress_v2,
       (const char *name, void **fn, int version, uint64_t flags, int *query))
{
	if (!name || !fn)
		return CU_INVALID_VALUE;
	return proc_address(name, fn, version, flags, query);
}
