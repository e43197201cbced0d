/* SPDX-License-Identifier: Apache-2.0
 * chain_plugin.c - somebody else's profiler plugin (version 5), to be chained to. Says at the end
 * what it got, and whether contexts, handles and parents were its own. */
#include <stdio.h>
#include <stdlib.h>

#include "foreign/nccl_profiler.h"

static int contexts, events, stops, records, strangers;
static char context_word, handles[100000];

static int own(const void *p)
{
	return !p || ((const char *)p >= handles && (const char *)p < handles + sizeof(handles));
}

static nccl_result init(void **context, uint64_t hash, int *mask, const char *name, int nodes,
			int nranks, int rank, void *log)
{
	*context = &context_word;
	*mask = NCCL_PROFILE_COLL | NCCL_PROFILE_P2P | NCCL_PROFILE_PROXY_OP;
	contexts++;
	strangers += hash != 0xc5 || rank != 3;
	return NCCL_OK;
}

static nccl_result start(void *context, void **handle, struct nccl_profiler_v5_event *e)
{
	strangers += context != &context_word || !own(e->parent);
	*handle = &handles[events++ % (int)sizeof(handles)];
	return NCCL_OK;
}

static nccl_result stop(void *handle)
{
	stops++;
	strangers += !own(handle);
	return NCCL_OK;
}

static nccl_result record(void *handle, int state, void *args)
{
	records++;
	strangers += !own(handle);
	return NCCL_OK;
}

static nccl_result finalize(void *context)
{
	return NCCL_OK;
}

__attribute__((destructor)) static void report(void)
{
	printf("chain contexts=%d events=%d stops=%d records=%d strangers=%d\n", contexts, events,
	       stops, records, strangers);
}

extern const struct nccl_profiler_table ncclProfiler_v5;
const struct nccl_profiler_table ncclProfiler_v5 = {"other", init, start, stop, record, finalize};
