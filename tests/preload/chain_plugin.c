/* SPDX-License-Identifier: Apache-2.0
 * chain_plugin.c - somebody else's profiler plugin (version 5), to be chained to. Says at the end
 * what it got, and whether contexts, handles and parents were its own.
 * CHAIN_MODE: refuse (init fails), garbage (handles and results are nonsense, all event types are asked
 * for), crash (in init), unload (finalize closes its own library), later (asks for more at its first
 * event). Built with CHAIN_EMPTY its table has no function for the start of an event. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "foreign/nccl_profiler.h"

static int contexts, events, stops, records, strangers;
static int *asked; /* NCCL lets a plugin change its mask at any time */
static char context_word, handles[100000];

static int is_mode(const char *mode)
{
	const char *text = getenv("CHAIN_MODE");

	return text && !strcmp(text, mode);
}

static int own(const void *p)
{
	if (is_mode("garbage"))
		return !p || p == (void *)0x11;
	return !p || ((const char *)p >= handles && (const char *)p < handles + sizeof(handles));
}

static nccl_result init(void **context, uint64_t hash, int *mask, const char *name, int nodes,
			int nranks, int rank, void *log)
{
	if (is_mode("refuse"))
		return 3;
	if (is_mode("crash")) {
		nanosleep(&(struct timespec){0, 300000000}, NULL); /* a reader attaches meanwhile */
		abort();
	}
	*context = &context_word;
	asked = mask;
	*mask = NCCL_PROFILE_COLL | NCCL_PROFILE_P2P | NCCL_PROFILE_PROXY_OP;
	if (is_mode("garbage"))
		*mask = -1;
	contexts++;
	strangers += hash != 0xc5 || rank != 3;
	return NCCL_OK;
}

__attribute__((unused)) static nccl_result start(void *context, void **handle,
						 struct nccl_profiler_v5_event *e)
{
	strangers += context != &context_word || !own(e->parent);
	if (is_mode("later"))
		*asked |= NCCL_PROFILE_PROXY_CTRL;
	*handle = &handles[events++ % (int)sizeof(handles)];
	if (is_mode("garbage"))
		*handle = (void *)0x11;
	return is_mode("garbage") ? 77 : NCCL_OK;
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
	Dl_info info;

	if (is_mode("unload") && dladdr(&context_word, &info)) {
		void *self = dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);

		dlclose(self);
		dlclose(self);
	}
	return NCCL_OK;
}

__attribute__((destructor)) static void report(void)
{
	printf("chain contexts=%d events=%d stops=%d records=%d strangers=%d\n", contexts, events,
	       stops, records, strangers);
}

extern const struct nccl_profiler_table ncclProfiler_v5;
#ifdef CHAIN_EMPTY
#define START NULL
#else
#define START start
#endif
const struct nccl_profiler_table ncclProfiler_v5 = {"other", init, START, stop, record, finalize};
