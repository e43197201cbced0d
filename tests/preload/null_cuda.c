/* SPDX-License-Identifier: Apache-2.0
 * null_cuda.c - a libcuda that does nothing and remembers how it was called: for tests of the
 * wrappers (exactly once, same arguments, same result, errno) and for their cost. */
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "foreign/cuda.h"

#define EXPORT __attribute__((visibility("default")))

/* how often, and the sum of the arguments: read by the caller through dlsym */
EXPORT unsigned long null_calls, null_sum;
EXPORT int null_errno; /* what a launch leaves in errno, 0: as it was */
EXPORT unsigned null_lookups;

static int context_word, graph_word, exec_word;
static uint64_t capture_id;
static unsigned capture_count;

static cu_result note(uint64_t sum)
{
	null_calls++;
	null_sum += sum;
	if (null_errno)
		errno = null_errno;
	return (cu_result)(sum % 3 == 0 ? CU_OK : 0);
}

#define P(x) ((uint64_t)(uintptr_t)(x))

#define LAUNCH(name, salt)                                                                         \
	EXPORT cu_result name(cu_function f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,   \
			      unsigned by, unsigned bz, unsigned shared, cu_stream s, void **a,    \
			      void **e);                                                           \
	cu_result name(cu_function f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,          \
		       unsigned by, unsigned bz, unsigned shared, cu_stream s, void **a, void **e) \
	{                                                                                          \
		return P(f) == 0xbad                                                               \
		       ? note(1),                                                                  \
		       CU_INVALID_HANDLE                                                           \
		       : note(salt + P(f) + gx + 2 * gy + 3 * gz + 4 * bx + 5 * by + 6 * bz +      \
			      7 * shared + 8 * P(s) + 9 * P(a) + 10 * P(e));                       \
	}
LAUNCH(cuLaunchKernel, 0)
LAUNCH(cuLaunchKernel_ptsz, 1000)
/* the same function under a name that nobody wraps: the plain cost */
LAUNCH(null_launch, 0)

#define LAUNCH_EX(name, salt)                                                                      \
	EXPORT cu_result name(const cu_launch_config *c, cu_function f, void **a, void **e);       \
	cu_result name(const cu_launch_config *c, cu_function f, void **a, void **e)               \
	{                                                                                          \
		return note(salt + P(f) + c->grid_x + c->block_x + P(c->stream) + P(a) + P(e));    \
	}
LAUNCH_EX(cuLaunchKernelEx, 0)
LAUNCH_EX(cuLaunchKernelEx_ptsz, 1000)

#define LAUNCH_COOP(name, salt)                                                                    \
	EXPORT cu_result name(cu_function f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,   \
			      unsigned by, unsigned bz, unsigned shared, cu_stream s, void **a);   \
	cu_result name(cu_function f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,          \
		       unsigned by, unsigned bz, unsigned shared, cu_stream s, void **a)           \
	{                                                                                          \
		return note(salt + P(f) + gx + gy + gz + bx + by + bz + shared + P(s) + P(a));     \
	}
LAUNCH_COOP(cuLaunchCooperativeKernel, 0)
LAUNCH_COOP(cuLaunchCooperativeKernel_ptsz, 1000)

EXPORT cu_result cuGraphLaunch(cu_graph_exec e, cu_stream s);
cu_result cuGraphLaunch(cu_graph_exec e, cu_stream s)
{
	return note(P(s));
}
EXPORT cu_result cuInit(unsigned flags);
cu_result cuInit(unsigned flags)
{
	return CU_OK;
}
EXPORT cu_result cuDriverGetVersion(int *v);
cu_result cuDriverGetVersion(int *v)
{
	*v = 13000;
	return CU_OK;
}
EXPORT cu_result cuDevicePrimaryCtxRetain(cu_context *c, cu_device d);
cu_result cuDevicePrimaryCtxRetain(cu_context *c, cu_device d)
{
	*c = (cu_context)&context_word;
	return CU_OK;
}
EXPORT cu_result cuCtxSetCurrent(cu_context c);
cu_result cuCtxSetCurrent(cu_context c)
{
	return CU_OK;
}
EXPORT cu_result cuStreamCreate(cu_stream *out, unsigned flags);
cu_result cuStreamCreate(cu_stream *out, unsigned flags)
{
	(void)flags;
	*out = (cu_stream)0x20;
	return CU_OK;
}
EXPORT cu_result cuCtxGetCurrent(cu_context *c);
cu_result cuCtxGetCurrent(cu_context *c)
{
	*c = (cu_context)&context_word;
	return CU_OK;
}
EXPORT cu_result cuCtxGetDevice(cu_device *d);
cu_result cuCtxGetDevice(cu_device *d)
{
	*d = 0;
	return CU_OK;
}
EXPORT cu_result cuMemAlloc_v2(cu_deviceptr *out, size_t bytes);
cu_result cuMemAlloc_v2(cu_deviceptr *out, size_t bytes)
{
	if (bytes > 1u << 30)
		return CU_OUT_OF_MEMORY;
	*out = 0x1000 + bytes;
	return note(bytes);
}
EXPORT cu_result cuMemFree_v2(cu_deviceptr p);
cu_result cuMemFree_v2(cu_deviceptr p)
{
	return note(p);
}
EXPORT cu_result cuStreamSynchronize(cu_stream s);
cu_result cuStreamSynchronize(cu_stream s)
{
	return note(P(s));
}
EXPORT cu_result cuStreamBeginCapture_v2(cu_stream s, int mode);
cu_result cuStreamBeginCapture_v2(cu_stream s, int mode)
{
	capture_id = 77 + capture_count++;
	return CU_OK;
}
EXPORT cu_result cuStreamEndCapture(cu_stream s, cu_graph *g);
cu_result cuStreamEndCapture(cu_stream s, cu_graph *g)
{
	capture_id = 0;
	*g = (cu_graph)&graph_word;
	return CU_OK;
}
EXPORT cu_result cuStreamGetCaptureInfo_v2(cu_stream s, int *status, uint64_t *id, cu_graph *g,
					   const cu_graph_node **deps, size_t *count);
cu_result cuStreamGetCaptureInfo_v2(cu_stream s, int *status, uint64_t *id, cu_graph *g,
				    const cu_graph_node **deps, size_t *count)
{
	*status = capture_id ? CU_CAPTURE_ACTIVE : CU_CAPTURE_NONE;
	*id = capture_id;
	return CU_OK;
}
EXPORT cu_result cuGraphInstantiateWithFlags(cu_graph_exec *e, cu_graph g, uint64_t flags);
cu_result cuGraphInstantiateWithFlags(cu_graph_exec *e, cu_graph g, uint64_t flags)
{
	*e = (cu_graph_exec)&exec_word;
	return CU_OK;
}
EXPORT cu_result cuGraphExecDestroy(cu_graph_exec e);
cu_result cuGraphExecDestroy(cu_graph_exec e)
{
	return CU_OK;
}
EXPORT cu_result null_legacy(cu_deviceptr *out, unsigned bytes);
cu_result null_legacy(cu_deviceptr *out, unsigned bytes)
{
	*out = 1;
	return note(bytes);
}

EXPORT cu_result cuGetProcAddress(const char *name, void **fn, int version, uint64_t flags);
EXPORT cu_result cuGetProcAddress_v2(const char *name, void **fn, int version, uint64_t flags,
				     int *query);

static void *find(const char *name, int version, uint64_t flags)
{
	int ptsz = (flags & CU_GPA_PTSZ) != 0;

	null_lookups++;
	if (!strcmp(name, "cuLaunchKernel") && version >= 4000)
		return ptsz ? (void *)cuLaunchKernel_ptsz : (void *)cuLaunchKernel;
	if (!strcmp(name, "cuLaunchKernelEx") && version >= 11060)
		return ptsz ? (void *)cuLaunchKernelEx_ptsz : (void *)cuLaunchKernelEx;
	if (!strcmp(name, "cuMemAlloc"))
		return version >= 3020 ? (void *)cuMemAlloc_v2 : (void *)null_legacy;
	if (!strcmp(name, "cuStreamSynchronize"))
		return (void *)cuStreamSynchronize;
	if (!strcmp(name, "cuGetProcAddress"))
		return version >= 12000 ? (void *)cuGetProcAddress_v2 : (void *)cuGetProcAddress;
	return NULL;
}

cu_result cuGetProcAddress(const char *name, void **fn, int version, uint64_t flags)
{
	*fn = find(name, version, flags);
	return *fn ? CU_OK : CU_NOT_FOUND;
}

cu_result cuGetProcAddress_v2(const char *name, void **fn, int version, uint64_t flags, int *query)
{
	*fn = find(name, version, flags);
	if (query)
		*query = *fn ? CU_GPA_SUCCESS : CU_GPA_SYMBOL_NOT_FOUND;
	return *fn ? CU_OK : CU_NOT_FOUND;
}
