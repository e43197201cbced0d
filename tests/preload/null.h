/* SPDX-License-Identifier: Apache-2.0
 * null.h - what the null libraries export, for callers that are linked to them. */
#pragma once

#include "foreign/cuda.h"
#include "foreign/nccl.h"

extern unsigned long null_calls, null_sum, null_nccl_calls;
extern int null_errno;

cu_result cuDevicePrimaryCtxRetain(cu_context *c, cu_device d);
cu_result cuCtxSetCurrent(cu_context c);
cu_result cuLaunchKernel(cu_function f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
			 unsigned by, unsigned bz, unsigned shared, cu_stream s, void **a,
			 void **e);
cu_result cuLaunchKernel_ptsz(cu_function f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
			      unsigned by, unsigned bz, unsigned shared, cu_stream s, void **a,
			      void **e);
cu_result cuLaunchKernelEx(const cu_launch_config *c, cu_function f, void **a, void **e);
cu_result cuLaunchKernelEx_ptsz(const cu_launch_config *c, cu_function f, void **a, void **e);
cu_result cuLaunchCooperativeKernel(cu_function f, unsigned gx, unsigned gy, unsigned gz,
				    unsigned bx, unsigned by, unsigned bz, unsigned shared,
				    cu_stream s, void **a);
cu_result cuGraphLaunch(cu_graph_exec e, cu_stream s);
cu_result cuMemAlloc_v2(cu_deviceptr *out, size_t bytes);
cu_result cuMemFree_v2(cu_deviceptr p);
cu_result cuStreamSynchronize(cu_stream s);
cu_result cuStreamBeginCapture_v2(cu_stream s, int mode);
cu_result cuStreamEndCapture(cu_stream s, cu_graph *g);
cu_result cuGraphInstantiateWithFlags(cu_graph_exec *e, cu_graph g, uint64_t flags);
cu_result cuGraphExecDestroy(cu_graph_exec e);

nccl_result ncclCommInitRank(nccl_comm *out, int nranks, nccl_unique_id id, int rank);
nccl_result ncclCommSplit(nccl_comm c, int color, int key, nccl_comm *out, void *config);
nccl_result ncclCommShrink(nccl_comm c, int *ranks, int count, nccl_comm *out, void *config,
			   int flags);
nccl_result ncclCommGrow(nccl_comm c, int nranks, const nccl_unique_id *id, int rank,
			 nccl_comm *out, void *config);
nccl_result ncclCommDestroy(nccl_comm c);
nccl_result ncclGroupStart(void);
nccl_result ncclGroupEnd(void);
nccl_result ncclAllReduce(const void *send, void *recv, size_t count, int type, int op,
			  nccl_comm comm, cu_stream stream);
nccl_result ncclBroadcast(const void *send, void *recv, size_t count, int type, int root,
			  nccl_comm comm, cu_stream stream);
nccl_result ncclSend(const void *b, size_t count, int type, int peer, nccl_comm comm,
		     cu_stream stream);
nccl_result ncclRecv(void *b, size_t count, int type, int peer, nccl_comm comm, cu_stream stream);
