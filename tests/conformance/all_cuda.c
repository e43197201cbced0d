/* SPDX-License-Identifier: Apache-2.0
 * all_cuda.c - a libcuda that has every function that anybody asks for, and notes who asked and what
 * the asker was given in the end. The real libcudart refuses it as a driver, but only after it has
 * looked everything up. At exit it reports through standard output. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define NOTES  1024

static struct note {
	char name[64];
	void **where;
	void *given;
	int version;
	uint64_t flags;
	int by_preload;
} notes[NOTES];
static unsigned note_count, table_count;

static int in_preload(const void *address)
{
	Dl_info info;

	return dladdr(address, &info) && info.dli_fname &&
	       strstr(info.dli_fname, "libsysom_preload");
}

static int stub(void)
{
	return 0;
}
/* distinct functions, so that a mix-up would show */
#define FN(n)                                                                                      \
	static int stub_##n(void)                                                                  \
	{                                                                                          \
		return n;                                                                          \
	}
FN(0) FN(1) FN(2) FN(3) FN(4) FN(5) FN(6) FN(7) static const struct {
	const char *name;
	uint64_t flags;
	int (*fn)(void);
} launches[] = {
    {"cuLaunchKernel", 0, stub_0},
    {"cuLaunchKernel", 2, stub_1},
    {"cuLaunchKernelEx", 0, stub_2},
    {"cuLaunchKernelEx", 2, stub_3},
    {"cuLaunchCooperativeKernel", 0, stub_4},
    {"cuLaunchCooperativeKernel", 2, stub_5},
    {"cuGraphLaunch", 0, stub_6},
    {"cuGraphLaunch", 2, stub_7},
};

EXPORT int cuGetProcAddress(const char *name, void **fn, int version, uint64_t flags);
EXPORT int cuGetProcAddress_v2(const char *name, void **fn, int version, uint64_t flags,
			       int *query);

static int version_fn(int *v)
{
	*v = 13000;
	return 0;
}
static int count_fn(int *n)
{
	*n = 1;
	return 0;
}
static int export_table(const void **table, const void *id)
{
	table_count++;
	*table = NULL;
	return 500;
}

static void *find(const char *name, int version, uint64_t flags)
{
	if (!name[0])
		return NULL;
	if (!strcmp(name, "cuGetProcAddress"))
		return version >= 12000 ? (void *)cuGetProcAddress_v2 : (void *)cuGetProcAddress;
	if (!strcmp(name, "cuDriverGetVersion"))
		return (void *)version_fn;
	if (!strcmp(name, "cuDeviceGetCount"))
		return (void *)count_fn;
	if (!strcmp(name, "cuGetExportTable"))
		return (void *)export_table;
	for (unsigned i = 0; i < sizeof(launches) / sizeof(launches[0]); i++)
		if (!strcmp(name, launches[i].name) && flags == launches[i].flags)
			return (void *)launches[i].fn;
	return (void *)stub;
}

static int note(const char *name, void **fn, int version, uint64_t flags, const void *caller)
{
	void *found = find(name, version, flags);

	*fn = found;
	if (note_count < NOTES) {
		struct note *n = &notes[note_count++];

		strncpy(n->name, name, sizeof(n->name) - 1);
		n->where = fn;
		n->given = found;
		n->version = version;
		n->flags = flags;
		n->by_preload = in_preload(caller);
	}
	return found ? 0 : 500;
}

int cuGetProcAddress(const char *name, void **fn, int version, uint64_t flags)
{
	return note(name, fn, version, flags, __builtin_return_address(0));
}

int cuGetProcAddress_v2(const char *name, void **fn, int version, uint64_t flags, int *query)
{
	int res = note(name, fn, version, flags, __builtin_return_address(0));

	if (query)
		*query = res ? 1 : 0;
	return res;
}

EXPORT int cuInit(unsigned flags);
int cuInit(unsigned flags)
{
	return 0;
}

/* One line: how many look-ups, how many came through the preload, and per launch function whether
 * what the asker holds now is the preload's. */
EXPORT void all_cuda_report(void);
void all_cuda_report(void)
{
	unsigned through = 0;

	for (unsigned i = 0; i < note_count; i++)
		through += (unsigned)notes[i].by_preload;
	printf("lookups=%u through=%u first=%s tables=%u\n", note_count, through,
	       note_count && !notes[0].name[0] ? "empty" : "other", table_count);
	for (unsigned i = 0; i < note_count; i++)
		if (!strncmp(notes[i].name, "cuLaunch", 8) ||
		    !strcmp(notes[i].name, "cuGraphLaunch") ||
		    !strcmp(notes[i].name, "cuGetProcAddress"))
			printf("slot %s version=%d flags=%d wrapped=%d\n", notes[i].name,
			       notes[i].version, (int)notes[i].flags, in_preload(*notes[i].where));
}
