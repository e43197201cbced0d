/* SPDX-License-Identifier: Apache-2.0
 * hooks.c - dlsym, cuGetProcAddress and the way from a wrapper to the real function. Every look-up
 * asks the real function first and then wraps the result by exact name. So a symbol that the job's
 * driver lacks stays missing, and the driver decides about version and stream variant. For
 * everything else, and always for RTLD_NEXT, our dlsym tail-jumps to the real one. The real dlsym
 * finds its caller by the return address, so a call from here would search after *this* library. */
#include "preload/hooks.h"

#include <dlfcn.h>
#include <link.h>
#include <stdbool.h>
#include <string.h>

#include "foreign/cuda.h"
#include "preload/tracer.h"

typedef void *(*dlsym_fn)(void *handle, const char *name);

void *hooks_real[HOOK_ID_COUNT];
void (*hooks_on_import)(void);
void *(*hooks_plugin)(void *handle, const char *name, void *found);

static void *hooks_bootstrap_dlsym(void)
{
	static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"};
	void *real = NULL;

	for (unsigned i = 0; !real && i < sizeof(versions) / sizeof(versions[0]); i++)
		real = dlvsym(RTLD_NEXT, "dlsym", versions[i]);
	__atomic_store_n(&hooks_real[HOOK_ID_dlsym], real, __ATOMIC_RELEASE);
	return real;
}

void *hooks_dlsym(void *handle, const char *name)
{
	dlsym_fn real = (dlsym_fn)__atomic_load_n(&hooks_real[HOOK_ID_dlsym], __ATOMIC_ACQUIRE);

	if (!real)
		real = (dlsym_fn)hooks_bootstrap_dlsym();
	return real ? real(handle, name) : NULL;
}

/* Whether the name may be in the table: cuX..., cupti..., nccl...; not cublas, cudnn, curl_... */
static inline int hooks_candidate(const char *name)
{
	if (name[0] == 'c' && name[1] == 'u')
		return (name[2] >= 'A' && name[2] <= 'Z') || (name[2] == 'p' && name[3] == 't');
	return name[0] == 'n' && name[1] == 'c' && name[2] == 'c' && name[3] == 'l';
}

int hooks_find_symbol(const char *name)
{
	size_t bytes;

	if (!hooks_candidate(name))
		return -1;
	bytes = strlen(name);
	for (int i = 1; i < HOOK_ID_COUNT; i++)
		if (hooks_table[i].symbol_bytes == bytes &&
		    !memcmp(hooks_table[i].symbol, name, bytes))
			return i;
	return -1;
}

int hooks_find_lookup(const char *name, int version, int ptsz)
{
	size_t bytes = strlen(name);
	int plain = -1;

	for (int i = 1; i < HOOK_ID_COUNT; i++) {
		const struct hook *h = &hooks_table[i];

		if (h->library != HOOK_CUDA || h->lookup_bytes != bytes ||
		    memcmp(h->lookup, name, bytes))
			continue;
		if (version < h->first || (h->end && version >= h->end))
			continue;
		if (h->ptsz == !!ptsz)
			return i;
		if (!h->ptsz)
			plain = i;
	}
	/* A per-thread variant was requested of a function that has none: return the plain one. */
	return ptsz ? plain : -1;
}

/* The object that contains an address: its base, and its base name through *name. */
static const void *hooks_object(const void *address, const char **name)
{
	Dl_info info;
	const char *slash;

	*name = "";
	if (!address || !dladdr(address, &info) || !info.dli_fname)
		return NULL;
	slash = strrchr(info.dli_fname, '/');
	*name = slash ? slash + 1 : info.dli_fname;
	return info.dli_fbase;
}

static int hooks_trusted_caller(const void *caller)
{
	const char *name;

	hooks_object(caller, &name);
	return !strncmp(name, "libcuda.so", 10) || !strncmp(name, "libcupti.so", 11);
}

/* Keeps the address's object loaded permanently: a job that closes its library and opens it
 * elsewhere must not call the old address. Leaves no error for the job's dlerror. */
bool hooks_pin(const void *address)
{
	Dl_info info;

	if (!dladdr(address, &info) || !info.dli_fname)
		return false;
	if (!dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE))
		dlerror(); /* the program itself, which is never unloaded */
	return true;
}

/* Stores `found` as the real function if there is none yet. 0: a different one is stored. */
static int hooks_offer(enum hook_id id, void *found)
{
	void *known = NULL;
	const char *a, *b;

	/* release pairs with the acquire in hooks_get */
	if (__atomic_compare_exchange_n(&hooks_real[id], &known, found, 0, __ATOMIC_ACQ_REL,
					__ATOMIC_ACQUIRE)) {
		hooks_pin(found);
		return 1;
	}
	if (known == found)
		return 1;
	/* One lookup in the driver may return an exported entry point, and another the function to
	 * which it jumps. In the same library they count as the same function. A second library of
	 * the same name is left alone. */
	return hooks_object(known, &a) == hooks_object(found, &b);
}

void *hooks_substitute(enum hook_id id, void *found, const void *caller)
{
	if (!found || found == hooks_table[id].wrapper || tracer_is_dead() ||
	    tracer_internal_thread() || hooks_trusted_caller(caller))
		return found;
	return hooks_offer(id, found) ? hooks_table[id].wrapper : found;
}

/* The path of the nth loaded object whose base name begins with prefix, copied out. We must not
 * call dlopen inside dl_iterate_phdr: it holds a lock that another thread's dlopen waits for while
 * holding the lock that our dlopen needs. */
struct hooks_scan {
	const char *prefix;
	unsigned skip;
	bool found;
	char path[1024];
};

static int hooks_scan_object(struct dl_phdr_info *info, size_t bytes, void *arg)
{
	struct hooks_scan *s = arg;
	const char *path = info->dlpi_name, *slash;

	if (!path || !*path || strlen(path) >= sizeof(s->path))
		return 0;
	slash = strrchr(path, '/');
	if (strncmp(slash ? slash + 1 : path, s->prefix, strlen(s->prefix)))
		return 0;
	if (s->skip) {
		s->skip--;
		return 0;
	}
	strcpy(s->path, path);
	s->found = true;
	return 1;
}

static void *hooks_nth_object(const char *prefix, unsigned nth, bool *any)
{
	struct hooks_scan s = {.prefix = prefix, .skip = nth};

	dl_iterate_phdr(hooks_scan_object, &s);
	*any = s.found;
	return s.found ? dlopen(s.path, RTLD_LAZY | RTLD_NOLOAD) : NULL;
}

void *hooks_loaded(const char *name, const char *prefix)
{
	void *handle = dlopen(name, RTLD_LAZY | RTLD_NOLOAD);
	bool any = true;

	for (unsigned i = 0; !handle && any; i++)
		handle = hooks_nth_object(prefix, i, &any);
	return handle;
}

/* Looks for a symbol in loaded objects with that prefix; never returns our own wrapper. */
static void *hooks_search(const struct hook *h, const char *prefix)
{
	void *handle, *found = NULL;
	bool any = true;

	for (unsigned i = 0; !found && any; i++) {
		handle = hooks_nth_object(prefix, i, &any);
		if (!handle)
			continue;
		found = hooks_dlsym(handle, h->symbol);
		if (found == h->wrapper)
			found = NULL;
		if (!found)
			dlclose(handle);
	}
	return found;
}

/* The slow path, once per function: for linked callers, which make no look-up. */
void *hooks_resolve(enum hook_id id)
{
	static const char *const prefix[] = {"libc.so", "libcuda.so", "libnccl", "libcupti.so"};
	const struct hook *h = &hooks_table[id];
	void *real = hooks_dlsym(RTLD_NEXT, h->symbol);

	/* RTLD_NEXT searches the global scope only; the library may come from a local dlopen. */
	if (!real)
		real = hooks_search(h, prefix[h->library]);
	if (!real)
		real = hooks_search(h, "");
	if (real && real != h->wrapper)
		hooks_offer(id, real);
	return __atomic_load_n(&hooks_real[id], __ATOMIC_ACQUIRE);
}

/* The look-up found our own export. That is right if there is a real function behind it; otherwise
 * returns NULL, and leaves the reason for the job's dlerror. This must not be a tail-jump, because
 * the real dlsym would take the job for its caller. */
static void *hooks_behind(enum hook_id id)
{
	void *found = hooks_dlsym(RTLD_NEXT, hooks_table[id].symbol);

	return found ? hooks_table[id].wrapper : NULL;
}

void *wrap_dlsym(void *handle, const char *name);
void *wrap_dlsym(void *handle, const char *name)
{
	dlsym_fn real = (dlsym_fn)__atomic_load_n(&hooks_real[HOOK_ID_dlsym], __ATOMIC_ACQUIRE);
	void *found;
	bool pseudo;
	int id;

	if (__builtin_expect(!real, 0)) {
		real = (dlsym_fn)hooks_bootstrap_dlsym();
		if (!real)
			return NULL;
	}
	if (__builtin_expect(!name || !hooks_candidate(name), 1)) {
		if (name && name[0] == 'P' && !strncmp(name, "PyInit_", 7) && hooks_on_import)
			hooks_on_import();
		return real(handle, name);
	}
	if (hooks_plugin && !strncmp(name, HOOKS_PLUGIN, strlen(HOOKS_PLUGIN)) &&
	    handle != RTLD_NEXT)
		return hooks_plugin(handle, name, real(handle, name));
	id = hooks_find_symbol(name);
	if (id < 0)
		return real(handle, name);
	/* A caller that asks for RTLD_NEXT may come before us in the search order, and only the
	 * real dlsym knows its scope. So once a real function is known, the real dlsym answers. */
	pseudo = handle == RTLD_DEFAULT || handle == RTLD_NEXT;
	if (pseudo && hooks_get((enum hook_id)id))
		return real(handle, name);
	found = pseudo ? hooks_table[id].wrapper : real(handle, name);
	if (found == hooks_table[id].wrapper)
		return hooks_behind((enum hook_id)id);
	return hooks_substitute((enum hook_id)id, found, __builtin_return_address(0));
}
HOOKS_EXPORT(dlsym);

cu_result wrap_cuGetProcAddress(const char *name, void **fn, int version, uint64_t flags);
cu_result wrap_cuGetProcAddress(const char *name, void **fn, int version, uint64_t flags)
{
	cu_get_proc_address_v1_fn real = hooks_get(HOOK_ID_cuGetProcAddress);
	cu_result res;
	int id;

	if (!real)
		return CU_NOT_FOUND;
	res = real(name, fn, version, flags);
	if (res == CU_OK && name && fn && *fn) {
		id = hooks_find_lookup(name, version, (flags & CU_GPA_PTSZ) != 0);
		if (id >= 0)
			*fn = hooks_substitute((enum hook_id)id, *fn, __builtin_return_address(0));
	}
	return res;
}
HOOKS_EXPORT(cuGetProcAddress);

cu_result wrap_cuGetProcAddress_v2(const char *name, void **fn, int version, uint64_t flags,
				   int *query);
cu_result wrap_cuGetProcAddress_v2(const char *name, void **fn, int version, uint64_t flags,
				   int *query)
{
	cu_get_proc_address_v2_fn real = hooks_get(HOOK_ID_cuGetProcAddress_v2);
	cu_result res;
	int id;

	if (!real)
		return CU_NOT_FOUND;
	res = real(name, fn, version, flags, query);
	if (res == CU_OK && name && fn && *fn) {
		id = hooks_find_lookup(name, version, (flags & CU_GPA_PTSZ) != 0);
		if (id >= 0)
			*fn = hooks_substitute((enum hook_id)id, *fn, __builtin_return_address(0));
	}
	return res;
}
HOOKS_EXPORT(cuGetProcAddress_v2);
