/* SPDX-License-Identifier: Apache-2.0
 * sim_child.h - runs a case in a process of its own, since the doubles read their environment once
 * and keep state as the real libraries do. */
#pragma once

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "foreign/cuda.h"

#define EXPECT(cond)                                                                               \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond);                 \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

/* 0 if fn came back in the child. */
static inline int sim_child(void (*fn)(void *), void *arg)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		alarm(20);
		fn(arg);
		_exit(0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return -1;
	return status;
}

/* A library of the build tree: the tests lie beside lib/. */
static inline void *sim_library(const char *name)
{
	char path[4096];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 64);
	void *lib;

	EXPECT(n > 0);
	path[n] = 0;
	strcpy(strrchr(path, '/'), "/../lib/sim/");
	strcat(path, name);
	lib = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
	if (!lib)
		fprintf(stderr, "%s\n", dlerror());
	EXPECT(lib != NULL);
	return lib;
}

struct sim_cuda {
	void *lib;
	cu_context context;
	cu_module module;
	cu_launch_kernel_fn launch, launch_ptsz;
	cu_result (*stream_create)(cu_stream *s, unsigned flags);
	cu_result (*stream_sync)(cu_stream s);
	cu_result (*stream_query)(cu_stream s);
	cu_result (*ctx_sync)(void);
	cu_result (*get_function)(cu_function *f, cu_module m, const char *name);
	cu_result (*event_create)(cu_event *e, unsigned flags);
	cu_result (*event_record)(cu_event e, cu_stream s);
	cu_result (*event_sync)(cu_event e);
	cu_result (*event_elapsed)(float *ms, cu_event a, cu_event b);
	cu_result (*wait_event)(cu_stream s, cu_event e, unsigned flags);
};

static inline void *sim_symbol(void *lib, const char *name)
{
	void *p = dlsym(lib, name);

	if (!p)
		fprintf(stderr, "%s is missing\n", name);
	EXPECT(p != NULL);
	return p;
}

#define SIM_CALL(lib, type, name) ((type)sim_symbol(lib, name))

static inline void sim_cuda_open(struct sim_cuda *c, int device)
{
	c->lib = sim_library("libcuda.so.1");
	EXPECT(SIM_CALL(c->lib, cu_result(*)(unsigned), "cuInit")(0) == 0);
	EXPECT(SIM_CALL(c->lib, cu_result(*)(cu_context *, int),
			"cuDevicePrimaryCtxRetain")(&c->context, device) == 0);
	EXPECT(SIM_CALL(c->lib, cu_result(*)(cu_context), "cuCtxSetCurrent")(c->context) == 0);
	EXPECT(SIM_CALL(c->lib, cu_result(*)(cu_module *, const void *),
			"cuModuleLoadData")(&c->module, "image") == 0);
	*(void **)&c->launch = sim_symbol(c->lib, "cuLaunchKernel");
	*(void **)&c->launch_ptsz = sim_symbol(c->lib, "cuLaunchKernel_ptsz");
	*(void **)&c->stream_create = sim_symbol(c->lib, "cuStreamCreate");
	*(void **)&c->stream_sync = sim_symbol(c->lib, "cuStreamSynchronize");
	*(void **)&c->stream_query = sim_symbol(c->lib, "cuStreamQuery");
	*(void **)&c->ctx_sync = sim_symbol(c->lib, "cuCtxSynchronize");
	*(void **)&c->get_function = sim_symbol(c->lib, "cuModuleGetFunction");
	*(void **)&c->event_create = sim_symbol(c->lib, "cuEventCreate");
	*(void **)&c->event_record = sim_symbol(c->lib, "cuEventRecord");
	*(void **)&c->event_sync = sim_symbol(c->lib, "cuEventSynchronize");
	*(void **)&c->event_elapsed = sim_symbol(c->lib, "cuEventElapsedTime");
	*(void **)&c->wait_event = sim_symbol(c->lib, "cuStreamWaitEvent");
}

static inline cu_function sim_kernel(struct sim_cuda *c, const char *name)
{
	cu_function f;

	EXPECT(c->get_function(&f, c->module, name) == 0);
	return f;
}

static inline void sim_launch(struct sim_cuda *c, cu_function f, uint64_t ns, cu_stream s)
{
	void *params[] = {&ns};

	EXPECT(c->launch(f, 3, 2, 1, 128, 1, 1, 64, s, params, NULL) == 0);
}
