/* SPDX-License-Identifier: Apache-2.0
 * null_nccl.c - an NCCL that does nothing, for tests of the wrappers and for their cost. */
#include <stdlib.h>

#include "foreign/nccl.h"

#define EXPORT __attribute__((visibility("default")))

struct nccl_comm_st {
	int nranks, rank;
};
EXPORT unsigned long null_nccl_calls;

static nccl_result make(nccl_comm *out, int nranks, int rank)
{
	*out = malloc(sizeof(**out));
	(*out)->nranks = nranks;
	(*out)->rank = rank;
	null_nccl_calls++;
	return NCCL_OK;
}

EXPORT nccl_result ncclCommInitRank(nccl_comm *out, int nranks, nccl_unique_id id, int rank);
nccl_result ncclCommInitRank(nccl_comm *out, int nranks, nccl_unique_id id, int rank)
{
	return make(out, nranks, rank);
}
EXPORT nccl_result ncclCommSplit(nccl_comm c, int color, int key, nccl_comm *out, void *config);
nccl_result ncclCommSplit(nccl_comm c, int color, int key, nccl_comm *out, void *config)
{
	*out = NULL;
	return color < 0 ? NCCL_OK : make(out, c->nranks / 2, c->rank / 2);
}
EXPORT nccl_result ncclCommGrow(nccl_comm c, int nranks, const nccl_unique_id *id, int rank,
				nccl_comm *out, void *config);
nccl_result ncclCommGrow(nccl_comm c, int nranks, const nccl_unique_id *id, int rank,
			 nccl_comm *out, void *config)
{
	return make(out, nranks, c ? c->rank : rank);
}
EXPORT nccl_result ncclCommShrink(nccl_comm c, int *ranks, int count, nccl_comm *out, void *config,
				  int flags);
nccl_result ncclCommShrink(nccl_comm c, int *ranks, int count, nccl_comm *out, void *config,
			   int flags)
{
	return make(out, c->nranks - count, c->rank);
}
EXPORT nccl_result ncclCommCount(nccl_comm c, int *out);
nccl_result ncclCommCount(nccl_comm c, int *out)
{
	*out = c->nranks;
	return NCCL_OK;
}
EXPORT nccl_result ncclCommUserRank(nccl_comm c, int *out);
nccl_result ncclCommUserRank(nccl_comm c, int *out)
{
	*out = c->rank;
	return NCCL_OK;
}
EXPORT nccl_result ncclCommDestroy(nccl_comm c);
nccl_result ncclCommDestroy(nccl_comm c)
{
	free(c);
	return NCCL_OK;
}
EXPORT nccl_result ncclGroupStart(void);
nccl_result ncclGroupStart(void)
{
	return NCCL_OK;
}
EXPORT nccl_result ncclGroupEnd(void);
nccl_result ncclGroupEnd(void)
{
	return NCCL_OK;
}
#define ALL_REDUCE(name)                                                                           \
	EXPORT nccl_result name(const void *send, void *recv, size_t count, int type, int op,      \
				nccl_comm comm, cu_stream stream);                                 \
	nccl_result name(const void *send, void *recv, size_t count, int type, int op,             \
			 nccl_comm comm, cu_stream stream)                                         \
	{                                                                                          \
		null_nccl_calls++;                                                                 \
		return comm ? NCCL_OK : NCCL_INVALID_ARGUMENT;                                     \
	}
ALL_REDUCE(ncclAllReduce)
ALL_REDUCE(null_all_reduce)
EXPORT nccl_result ncclBroadcast(const void *send, void *recv, size_t count, int type, int root,
				 nccl_comm comm, cu_stream stream);
nccl_result ncclBroadcast(const void *send, void *recv, size_t count, int type, int root,
			  nccl_comm comm, cu_stream stream)
{
	null_nccl_calls++;
	return NCCL_OK;
}
EXPORT nccl_result ncclSend(const void *b, size_t count, int type, int peer, nccl_comm comm,
			    cu_stream stream);
nccl_result ncclSend(const void *b, size_t count, int type, int peer, nccl_comm comm,
		     cu_stream stream)
{
	null_nccl_calls++;
	return NCCL_OK;
}
EXPORT nccl_result ncclRecv(void *b, size_t count, int type, int peer, nccl_comm comm,
			    cu_stream stream);
nccl_result ncclRecv(void *b, size_t count, int type, int peer, nccl_comm comm, cu_stream stream)
{
	null_nccl_calls++;
	return NCCL_OK;
}
