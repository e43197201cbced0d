/* SPDX-License-Identifier: Apache-2.0
 * nccl_profile.c - kernel events come after the operation's own stop, as in the real library. A
 * plugin that frees on stop fails here. */
#include "sim/nccl_profile.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PENDING_MAX 4096

struct pending {
	void *context, *parent;
	int rank;
	uint64_t start_ns, end_ns;
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static const struct nccl_profiler_table *plugin;
static int mask; /* the plugin may change it at any time */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t more = PTHREAD_COND_INITIALIZER;
static struct pending *pending;
static unsigned pending_head, pending_count;
static bool proxy_started;

static void *plugin_library(void)
{
	const char *name = getenv("NCCL_PROFILER_PLUGIN");
	char path[512];
	void *lib;

	if (!name)
		return dlopen("libnccl-profiler.so", RTLD_NOW | RTLD_LOCAL);
	if (!strcasecmp(name, "none"))
		return NULL;
	if (!strcmp(name, "STATIC_PLUGIN"))
		return dlopen(NULL, RTLD_NOW);
	lib = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	if (lib)
		return lib;
	snprintf(path, sizeof(path), "libnccl-profiler-%s.so", name);
	return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

static void plugin_open(void)
{
	void *lib = plugin_library();

	if (lib)
		plugin = dlsym(lib, "ncclProfiler_v4");
}

static void log_nothing(int level, unsigned long flags, const char *file, int line,
			const char *format, ...)
{
}

static nccl_result start(void *context, void **handle, struct nccl_profiler_v4_event *event)
{
	return ((nccl_profiler_v4_start_fn)plugin->start)(context, handle, event);
}

static void kernel_events(const struct pending *p)
{
	struct nccl_profiler_v4_event e = {
	    .type = (uint8_t)NCCL_PROFILE_KERNEL_CH, .parent = p->parent, .rank = p->rank};
	uint64_t end_ns = p->end_ns; /* the state's argument: a union of at most 8 bytes */
	void *handle = NULL;

	e.kernel_ch.timer = p->start_ns;
	if (start(p->context, &handle, &e) || !handle)
		return;
	plugin->record(handle, NCCL_PROFILE_STATE_KERNEL_CH_STOP, &end_ns);
	plugin->stop(handle);
}

static void *proxy_main(void *arg)
{
	for (;;) {
		struct pending p;
		struct timespec until;

		pthread_mutex_lock(&lock);
		while (!pending_count)
			pthread_cond_wait(&more, &lock);
		p = pending[pending_head];
		pending_head = (pending_head + 1) % PENDING_MAX;
		pending_count--;
		pthread_mutex_unlock(&lock);
		until = (struct timespec){(time_t)(p.end_ns / 1000000000ull),
					  (long)(p.end_ns % 1000000000ull)};
		while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
			;
		kernel_events(&p);
	}
	return NULL;
}

static void proxy_start(void)
{
	sigset_t all, old;
	pthread_t t;

	pthread_mutex_lock(&lock);
	if (!proxy_started) {
		pending = calloc(PENDING_MAX, sizeof(*pending));
		sigfillset(&all);
		pthread_sigmask(SIG_SETMASK, &all, &old);
		if (pending && pthread_create(&t, NULL, proxy_main, NULL) == 0) {
			pthread_detach(t);
			proxy_started = true;
		}
		pthread_sigmask(SIG_SETMASK, &old, NULL);
	}
	pthread_mutex_unlock(&lock);
}

bool nccl_profile_comm_init(void **context, uint64_t hash, int ranks, int rank)
{
	nccl_profiler_v4_init_fn init;

	*context = NULL;
	pthread_once(&once, plugin_open);
	if (!plugin)
		return false;
	init = (nccl_profiler_v4_init_fn)plugin->init;
	if (init(context, &mask, NULL, hash, 1, ranks, rank, (void *)log_nothing))
		return false;
	return true;
}

void nccl_profile_comm_fini(void *context)
{
	if (plugin)
		plugin->finalize(context);
}

static bool wants(int type)
{
	return plugin && (__atomic_load_n(&mask, __ATOMIC_RELAXED) & type);
}

void *nccl_profile_start(void *context, struct nccl_profiler_v4_event *event)
{
	void *handle = NULL;

	if (!wants(event->type) || start(context, &handle, event))
		return NULL;
	return handle;
}

void nccl_profile_stop(void *handle)
{
	if (handle)
		plugin->stop(handle);
}

void nccl_profile_kernel(void *context, void *parent, int rank, uint64_t start_ns, uint64_t end_ns)
{
	if (!wants(NCCL_PROFILE_KERNEL_CH))
		return;
	proxy_start();
	pthread_mutex_lock(&lock);
	if (proxy_started && pending_count < PENDING_MAX) {
		pending[(pending_head + pending_count++) % PENDING_MAX] =
		    (struct pending){context, parent, rank, start_ns, end_ns};
		pthread_cond_signal(&more);
	}
	pthread_mutex_unlock(&lock);
}
