/* SPDX-License-Identifier: Apache-2.0
 * nccl_lookup.c - NCCL opens a plugin's library and asks dlsym for ncclProfiler_vN, the newest
 * first. Our dlsym sees this, so we need not know how NCCL searches. Whatever library NCCL opened
 * is the user's: we keep its table, and NCCL gets ours, which passes every callback on. If the user
 * named no plugin, NCCL must find ours. So NCCL_PROFILER_PLUGIN is set to STATIC_PLUGIN, and then
 * NCCL does not search. So we look where NCCL would have looked: nccl.conf, the default library,
 * the network plugin's library, and a static plugin elsewhere in the process. */
#include "preload/nccl/nccl_lookup.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "preload/hooks.h"
#include "preload/registry.h"
#include "preload/sysom.h"
#include "preload/tracer.h"

#define LOOKUP_VARIABLE	    "NCCL_PROFILER_PLUGIN"
#define LOOKUP_PATH_BYTES   512
#define LOOKUP_LINE_BYTES   1024
#define LOOKUP_LINES_MAX    1000 /* of nccl.conf */
#define LOOKUP_VERSIONS_MAX 12	 /* versions of a user's plugin that are later than ours */

static const struct nccl_profiler_table *lookup_user[NCCL_LOOKUP_VERSIONS + 1];
static uint32_t lookup_started; /* 0; 1: a thread searches; 2: done */
static void *lookup_library;	/* the user's library, if NCCL did not search by itself */
static bool lookup_none;	/* the user wants no plugin */
static bool lookup_alone;	/* the user has no plugin: NCCL gets ours */
static uint32_t lookup_failed;	/* failures not counted yet, because there may be no ring */
static char
    lookup_named[LOOKUP_PATH_BYTES]; /* by the user's variable; "": none, or already known */

/* The value that a configuration file of NCCL gives our variable. The first line counts, because
 * NCCL sets only variables that are not set. */
static bool lookup_in_file(const char *path, char *value, size_t room)
{
	char line[LOOKUP_LINE_BYTES];
	FILE *f = fopen(path, "re");
	bool found = false;

	for (unsigned n = 0; f && !found && n < LOOKUP_LINES_MAX && fgets(line, sizeof(line), f);
	     n++) {
		size_t name = strcspn(line, "=");

		found = name == sizeof(LOOKUP_VARIABLE) - 1 && line[name] == '=' &&
			!strncmp(line, LOOKUP_VARIABLE, name);
		if (found)
			snprintf(value, room, "%.*s", (int)strcspn(line + name + 1, "\r\n"),
				 line + name + 1);
	}
	if (f)
		fclose(f);
	return found;
}

static bool lookup_in_files(char *value, size_t room)
{
	const char *file = getenv("NCCL_CONF_FILE"), *home = getenv("HOME");
	char path[LOOKUP_PATH_BYTES];

	if (file && *file)
		return lookup_in_file(file, value, room);
	snprintf(path, sizeof(path), "%s/.nccl.conf", home ? home : "");
	return (home && lookup_in_file(path, value, room)) ||
	       lookup_in_file("/etc/nccl.conf", value, room);
}

static void lookup_fail(bool failed)
{
	if (failed)
		__atomic_add_fetch(&lookup_failed, 1, __ATOMIC_RELAXED);
}

static void *lookup_open(const char *name, int flags)
{
	char path[LOOKUP_PATH_BYTES + 32];
	void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL | flags);

	if (library)
		return library;
	snprintf(path, sizeof(path), "libnccl-profiler-%s.so", name);
	return dlopen(path, RTLD_NOW | RTLD_LOCAL | flags);
}

static unsigned lookup_version(const char *name)
{
	unsigned long v = strtoul(name + sizeof(HOOKS_PLUGIN) - 1, NULL, 10);

	return v >= 1 && v <= NCCL_LOOKUP_VERSIONS ? (unsigned)v : 0;
}

/* Looks up the user's table: in that library, or (NULL) anywhere in the process, before or after
 * ours. */
static void *lookup_theirs(void *library, const char *name)
{
	unsigned version = lookup_version(name);
	void *found = hooks_dlsym(library ? library : RTLD_DEFAULT, name);

	if (!library && version && found == nccl_plugin_tables[version])
		found = hooks_dlsym(RTLD_NEXT, name);
	dlerror(); /* leaves no error for the job */
	return found;
}

static bool lookup_has_any(void *library)
{
	char name[32];

	for (unsigned v = 1; v <= LOOKUP_VERSIONS_MAX; v++) {
		snprintf(name, sizeof(name), HOOKS_PLUGIN "%u", v);
		if (lookup_theirs(library, name))
			return true;
	}
	return false;
}

/* Searches the user's plugin where NCCL would have found it without us. */
static void lookup_search(void)
{
	char value[LOOKUP_PATH_BYTES];
	const char *net = getenv("NCCL_NET_PLUGIN");

	if (lookup_in_files(value, sizeof(value))) {
		lookup_none = !strcasecmp(value, "none");
		if (!lookup_none && strcmp(value, "STATIC_PLUGIN")) {
			lookup_library = lookup_open(value, 0);
			lookup_fail(!lookup_library);
		}
		lookup_fail(lookup_library && !lookup_has_any(lookup_library));
	} else {
		lookup_library = dlopen("libnccl-profiler.so", RTLD_NOW | RTLD_LOCAL);
		lookup_fail(lookup_library && !lookup_has_any(lookup_library));
		if (!lookup_library && net && *net)
			lookup_library = dlopen(net, RTLD_NOW | RTLD_NOLOAD);
		if (!lookup_library)
			lookup_library = hooks_loaded("libnccl-net.so", "libnccl-net");
	}
	dlerror(); /* leaves no error for the job */
}

/* Whether the handle is the process itself, which includes us. */
static bool lookup_in_process(void *handle)
{
	void *found = hooks_dlsym(handle, "sysom_step_begin");

	dlerror();
	return found == (void *)sysom_step_begin;
}

static void lookup_start(void)
{
	uint32_t none = 0;

	if (!__atomic_compare_exchange_n(&lookup_started, &none, 1, false, __ATOMIC_ACQ_REL,
					 __ATOMIC_ACQUIRE))
		return;
	lookup_search();
	if (lookup_library && !lookup_has_any(lookup_library))
		/* it is a network plugin without a profiler; the library stays open */
		lookup_library = NULL;
	lookup_alone = !lookup_none && !lookup_library && !lookup_has_any(NULL);
	__atomic_store_n(&lookup_started, 2, __ATOMIC_RELEASE);
}

/* Whether the table has all functions; NCCL would call a missing one. */
static bool lookup_is_whole(const struct nccl_profiler_table *t)
{
	return t->init && t->start && t->stop && t->record && t->finalize;
}

/* NCCL looked for this table in handle, and the real look-up returned found. Returns what NCCL
 * gets: ours, with the user's behind it; the user's, if it is of a later version; or NULL, if the
 * user's plugin lacks this version, so that NCCL tries the next one. */
static void *lookup_table(void *handle, const char *name, void *found)
{
	unsigned version = lookup_version(name);
	bool alone = false, whole;

	if (tracer_is_dead())
		return found;
	if (lookup_in_process(handle)) {
		lookup_start();
		alone = lookup_alone;
		found = alone || lookup_none ? NULL : lookup_theirs(lookup_library, name);
	} else if (version && found == nccl_plugin_tables[version]) {
		return found; /* NCCL opened our own file by its path */
	}
	if (!version)
		return found;
	whole = found && lookup_is_whole(found);
	lookup_fail(found && !whole);
	/* release pairs with the acquire in nccl_lookup_user */
	__atomic_store_n(&lookup_user[version], whole ? found : NULL, __ATOMIC_RELEASE);
	return alone || found ? (void *)(uintptr_t)nccl_plugin_tables[version] : NULL;
}

void nccl_lookup_prepare(void)
{
	const char *text = getenv("SYSOM_NCCL_PLUGIN");

	if (text && (!strcmp(text, "0") || !strcasecmp(text, "off")))
		return;
	hooks_plugin = lookup_table;
	text = getenv(LOOKUP_VARIABLE);
	if (text && strcasecmp(text, "none") && strcmp(text, "STATIC_PLUGIN"))
		snprintf(lookup_named, sizeof(lookup_named), "%s", text);
	setenv(LOOKUP_VARIABLE, "STATIC_PLUGIN", 0);
}

const struct nccl_profiler_table *nccl_lookup_user(unsigned version)
{
	return __atomic_load_n(&lookup_user[version], __ATOMIC_ACQUIRE);
}

void nccl_lookup_left(unsigned version)
{
	const struct nccl_profiler_table *t = nccl_lookup_user(version);
	Dl_info info;

	if (!t || dladdr(t, &info))
		return;
	__atomic_store_n(&lookup_user[version], NULL, __ATOMIC_RELEASE);
	lookup_fail(true);
}

void nccl_lookup_unasked(void)
{
	void *library;

	/* with the first collective, a communicator is complete */
	if (!*lookup_named || !registry_collected())
		return;
	library = lookup_open(lookup_named, RTLD_NOLOAD);
	lookup_fail(!library || !lookup_has_any(library));
	if (library) /* NCCL bypassed our dlsym, perhaps because of RTLD_DEEPBIND */
		dlclose(library);
	dlerror();
	*lookup_named = 0;
}

uint32_t nccl_lookup_failures(void)
{
	return __atomic_exchange_n(&lookup_failed, 0, __ATOMIC_RELAXED);
}
