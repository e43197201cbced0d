/* SPDX-License-Identifier: Apache-2.0
 * plugin_loader.c - looks for a profiler plugin, initialises it and unloads it: by itself, as NCCL
 * does, or by the code of a real libnccl. That code needs no GPU until an operation runs: its
 * functions are called at their places in the library, with a communicator of zeros.
 * usage: plugin_loader [LIBNCCL INIT FINALIZE], both places in hex from its beginning; or plugin_loader
 * stay: ends when a sysomd has its ring; again: before that, one more communicator after the unloading.
 * Says which table was found. */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "foreign/nccl_profiler.h"

#define COMM_BYTES (64u << 20) /* more than any version's communicator */

#ifdef STATIC_PLUGIN
/* a plugin inside the program: version 4 */
static nccl_result own_init(void **context, int *mask, const char *name, uint64_t hash, int nodes,
			    int nranks, int rank, void *log)
{
	*context = &own_init;
	*mask = NCCL_PROFILE_COLL;
	printf("own init\n");
	return NCCL_OK;
}
static nccl_result own_start(void *context, void **handle, struct nccl_profiler_v4_event *e)
{
	*handle = NULL;
	return NCCL_OK;
}
static nccl_result own_stop(void *handle)
{
	return NCCL_OK;
}
static nccl_result own_record(void *handle, int state, void *args)
{
	return NCCL_OK;
}
static nccl_result own_finalize(void *context)
{
	printf("own finalize %d\n", context == (void *)&own_init);
	return NCCL_OK;
}
__attribute__((visibility("default"))) extern const struct nccl_profiler_table ncclProfiler_v4;
const struct nccl_profiler_table ncclProfiler_v4 = {"own",    own_init,	  own_start,
						    own_stop, own_record, own_finalize};
#endif

static void *open_library(void)
{
	const char *name = getenv("NCCL_PROFILER_PLUGIN");
	char path[512];
	void *library;

	if (name && !strcasecmp(name, "none"))
		return NULL;
	if (!name)
		return dlopen("libnccl-profiler.so", RTLD_NOW | RTLD_LOCAL);
	if (!strcmp(name, "STATIC_PLUGIN"))
		return dlopen(NULL, RTLD_NOW);
	library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	if (library)
		return library;
	snprintf(path, sizeof(path), "libnccl-profiler-%s.so", name);
	return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

static void begin(const struct nccl_profiler_table *t, unsigned v)
{
	void *context = NULL;
	int mask = 0;

	if (v >= 5)
		((nccl_profiler_v5_init_fn)t->init)(&context, 0xc5, &mask, "name", 2, 8, 3, NULL);
	else if (v == 4)
		((nccl_profiler_v4_init_fn)t->init)(&context, &mask, "name", 0xc4, 2, 8, 3, NULL);
	printf("mask=%#x context=%d\n", (unsigned)mask, context != NULL);
	t->finalize(context);
}

static int by_ourselves(bool slow, bool again)
{
	const struct timespec attach = {0, 300000000};

	void *library = open_library();
	const struct nccl_profiler_table *t = NULL;
	unsigned v = 8; /* one that nobody has yet */
	char name[32];

	while (library && !t && --v) {
		snprintf(name, sizeof(name), "ncclProfiler_v%u", v);
		t = dlsym(library, name);
	}
	printf("found=%s version=%u\n", t ? t->name : "none", t ? v : 0);
	if (t)
		begin(t, v);
	if (library)
		dlclose(library);
	if (t && again)
		begin(t, v);
	if (slow)
		nanosleep(&attach, NULL);
	return 0;
}

static int by_libnccl(char **argv)
{
	void *library = dlopen(argv[1], RTLD_NOW);
	void *known = library ? dlsym(library, "ncclGetVersion") : NULL;
	uint8_t *comm = calloc(1, COMM_BYTES);
	Dl_info info;
	int err;

	if (!known || !dladdr(known, &info) || !comm)
		return 1;
	err = ((int (*)(void *))((uint8_t *)info.dli_fbase + strtoul(argv[2], NULL, 16)))(comm);
	printf("init=%d\n", err);
	err = ((int (*)(void *))((uint8_t *)info.dli_fbase + strtoul(argv[3], NULL, 16)))(comm);
	printf("finalize=%d\n", err);
	free(comm);
	return 0;
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IONBF, 0);
	return argc == 4 ? by_libnccl(argv)
			 : by_ourselves(argc == 2, argc == 2 && !strcmp(argv[1], "again"));
}
