/* SPDX-License-Identifier: Apache-2.0
 * hooks.h - the hook table of hooks.def, and the real function behind each wrapper.
 * Threads: any. A real pointer is stored once and never changes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum hook_library { HOOK_CORE, HOOK_CUDA, HOOK_NCCL, HOOK_CUPTI };

enum hook_id {
#define HOOK(symbol, library, lookup, ptsz, first, end) HOOK_ID_##symbol,
#include "preload/hooks.def"
#undef HOOK
	HOOK_ID_COUNT
};

struct hook {
	const char *symbol, *lookup;
	void *wrapper;
	uint16_t symbol_bytes, lookup_bytes;
	uint8_t library, ptsz;
	uint16_t first, end; /* CUDA versions, see hooks.def */
};

extern const struct hook hooks_table[HOOK_ID_COUNT];
extern void *hooks_real[HOOK_ID_COUNT];
/* Called when Python looks up the entry of an extension module. Set once, at the start. */
extern void (*hooks_on_import)(void);

/* The hook of an exported name; -1: none. */
int hooks_find_symbol(const char *name);
/* The hook of a driver function by cuGetProcAddress's name, version and stream variant; -1 none. */
int hooks_find_lookup(const char *name, int version, int ptsz);

/* The real function, looked up at the first call; NULL if the process has none. */
void *hooks_resolve(enum hook_id id);
static inline void *hooks_get(enum hook_id id)
{
	/* acquire pairs with the release in hooks_offer: a pointer only, nothing behind it */
	void *real = __atomic_load_n(&hooks_real[id], __ATOMIC_ACQUIRE);

	return __builtin_expect(real != NULL, 1) ? real : hooks_resolve(id);
}
/* The job looked up hook id and the real look-up returned `found`; caller is the look-up's return
 * address. Returns what the job gets: the wrapper, or `found` unchanged (the caller is inside the
 * CUDA driver or CUPTI, it is a second library of the same name, or tracing latched off). */
void *hooks_substitute(enum hook_id id, void *found, const void *caller);
/* Called when the job looks up a table of NCCL's profiler plugin. Gets what the real look-up found,
 * and returns what the job gets. NULL: the job gets what was found. Set in the constructor, before
 * the job has threads. */
#define HOOKS_PLUGIN "ncclProfiler_v"
extern void *(*hooks_plugin)(void *handle, const char *name, void *found);
/* The real dlsym, bypassing our own. RTLD_NEXT is relative to this library. */
void *hooks_dlsym(void *handle, const char *name);
/* Keeps the library of this address loaded. False: the address is in no library and not in the
 * program. */
bool hooks_pin(const void *address);
/* Finds a library that is already loaded: by name, else the first loaded object whose base name
 * begins with prefix. NULL: none. Keeps the reference. */
void *hooks_loaded(const char *name, const char *prefix);

/* Gives wrap_<name> its exported name: calls inside this library never go through the PLT. */
#define HOOKS_EXPORT(name)                                                                         \
	extern __typeof__(wrap_##name) name                                                        \
	    __attribute__((alias("wrap_" #name), visibility("default"), used))
