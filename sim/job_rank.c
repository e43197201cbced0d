/* SPDX-License-Identifier: Apache-2.0
 * job_rank.c - one rank. It finds the driver and NCCL as a framework does (dlopen, then dlsym for
 * the launcher of a kernel compiler and cuGetProcAddress for the rest) and runs a program's
 * steps. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "sim/job.h"

#define JITTER_TRACE  0.005
#define GAPS_PER_STEP 10u
#define SHARD_PIECES  16u
#define ENDLESS_NS    1000000000000000ull /* eleven days: longer than any job waits */

const char *const job_fault_names[] = {"none",	"slow",	   "kernel", "gaps",	"late",	   "stop",
				       "stuck", "variant", "host",   "endless", "mismatch"};

struct api {
	cu_result (*init)(unsigned flags);
	cu_result (*device_get)(cu_device *dev, int ordinal);
	cu_result (*retain)(cu_context *c, cu_device dev);
	cu_result (*set_current)(cu_context c);
	cu_result (*module_load)(cu_module *m, const void *image);
	cu_result (*get_function)(cu_function *f, cu_module m, const char *name);
	cu_result (*stream_create)(cu_stream *s, unsigned flags);
	cu_result (*event_create)(cu_event *e, unsigned flags);
	cu_result (*event_record)(cu_event e, cu_stream s);
	cu_result (*stream_wait)(cu_stream s, cu_event e, unsigned flags);
	cu_result (*stream_sync)(cu_stream s);
	cu_result (*ctx_sync)(void);
	cu_result (*alloc)(cu_deviceptr *p, size_t bytes);
	cu_result (*host_alloc)(void **p, size_t bytes, unsigned flags);
	cu_result (*copy_in)(cu_deviceptr d, const void *h, size_t n, cu_stream s);
	cu_result (*copy_out)(void *h, cu_deviceptr d, size_t n, cu_stream s);
	cu_result (*copy_device)(cu_deviceptr a, cu_deviceptr b, size_t n, cu_stream s);
	cu_result (*set)(cu_deviceptr d, unsigned char v, size_t n, cu_stream s);
	cu_launch_kernel_fn launch;
	cu_launch_kernel_ex_fn launch_ex; /* by dlsym */
	cu_result (*begin_capture)(cu_stream s, int mode);
	cu_result (*end_capture)(cu_stream s, cu_graph *g);
	cu_result (*instantiate)(cu_graph_exec *e, cu_graph g, unsigned long long flags);
	cu_graph_launch_fn graph_launch;
	cu_result (*graph_nodes)(cu_graph g, cu_graph_node *nodes, size_t *count);
	cu_result (*graph_set)(cu_graph_exec e, cu_graph_node n, const void *params);

	nccl_result (*get_id)(nccl_unique_id *id);
	nccl_result (*init_rank)(nccl_comm *c, int n, nccl_unique_id id, int rank);
	nccl_result (*all_reduce)(const void *s, void *r, size_t n, unsigned type, unsigned op,
				  nccl_comm c, cu_stream st);
	nccl_result (*all_gather)(const void *s, void *r, size_t n, unsigned type, nccl_comm c,
				  cu_stream st);
	nccl_result (*reduce_scatter)(const void *s, void *r, size_t n, unsigned type, unsigned op,
				      nccl_comm c, cu_stream st);
	nccl_result (*broadcast)(const void *s, void *r, size_t n, unsigned type, int root,
				 nccl_comm c, cu_stream st);
	nccl_result (*send)(const void *s, size_t n, unsigned type, int peer, nccl_comm c,
			    cu_stream st);
	nccl_result (*recv)(void *r, size_t n, unsigned type, int peer, nccl_comm c, cu_stream st);
	nccl_result (*group_start)(void);
	nccl_result (*group_end)(void);
};

#define BUFFER_BYTES (64u << 20)

struct graph {
	cu_graph_exec exec;
	cu_graph_node *nodes;
	size_t count;
};

struct rank {
	const struct job_options *o;
	struct job_control *control;
	int rank;
	struct job_program program;
	struct api api;
	cu_stream streams[JOB_STREAMS];
	cu_event events[JOB_EVENTS];
	struct graph *graphs;
	const struct job_fault *graph_fault; /* what the graphs' kernels were set to */
	cu_context context;
	cu_function variants[JOB_MAX_FAULTS];
	nccl_comm comm;
	struct { /* --comm-thread: performs one action at a time */
		pthread_t thread;
		pthread_mutex_t lock;
		pthread_cond_t changed;
		const struct job_action *todo;
		bool on;
	} sharer;
	cu_deviceptr device;
	void *host;
	uint64_t random;
	double input; /* --skew: factor of this step's kernels */
	/* the current step */
	const struct job_fault *fault;
	bool fault_done;	     /* a one-time fault has happened: endless, mismatch */
	uint64_t begin_ns, shift_ns; /* shift: what faults added to the host's offsets */
	int truth_fd;
	void (*mark_begin)(const double *work, unsigned count);
	void (*mark_end)(void);
};

void *job_alloc(size_t count, size_t bytes)
{
	void *p = calloc(count ? count : 1, bytes ? bytes : 1);

	if (!p) {
		fprintf(stderr, "simjob: out of memory\n");
		exit(1);
	}
	return p;
}

static void sleep_until(uint64_t ns)
{
	struct timespec ts = {(time_t)(ns / 1000000000ull), (long)(ns % 1000000000ull)};

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
		;
}

unsigned job_program_name(struct job_program *p, const char *name)
{
	for (unsigned i = 0; i < p->name_count; i++)
		if (!strcmp(p->names[i], name))
			return i;
	if (p->name_count == p->name_room) {
		unsigned room = p->name_room ? p->name_room * 2 : 64;
		char **grown = job_alloc(room, sizeof(*grown));

		if (p->name_count)
			memcpy(grown, p->names, p->name_count * sizeof(*grown));
		free(p->names);
		p->names = grown;
		p->name_room = room;
	}
	p->names[p->name_count] = job_alloc(1, strlen(name) + 1);
	strcpy(p->names[p->name_count], name);
	return p->name_count++;
}

struct job_action *job_phase_add(struct job_phase *ph, enum job_action_kind kind, unsigned stream,
				 uint64_t at_ns)
{
	struct job_action *a;

	if (ph->count == ph->room) {
		unsigned room = ph->room ? ph->room * 2 : 256;
		struct job_action *grown = job_alloc(room, sizeof(*grown));

		if (ph->count)
			memcpy(grown, ph->actions, ph->count * sizeof(*grown));
		free(ph->actions);
		ph->actions = grown;
		ph->room = room;
	}
	a = &ph->actions[ph->count++];
	a->kind = (uint8_t)kind;
	a->stream = (uint8_t)stream;
	a->at_ns = at_ns;
	return a;
}

/* ---- finding the libraries ---- */

bool job_rank_library_dir(char *path, size_t bytes)
{
	static const char *const beside[] = {"/../lib/sim", "/../lib/sysom/sim"};
	ssize_t n = bytes > 64 ? readlink("/proc/self/exe", path, bytes - 64) : 0;
	char *slash;

	if (n <= 0)
		return false;
	path[n] = 0;
	slash = strrchr(path, '/');
	for (int i = 0; slash && i < 2; i++) {
		strcpy(slash, beside[i]);
		if (!access(path, X_OK))
			return true;
	}
	return false;
}

static void *library(const char *name)
{
	char path[4096];
	void *lib = dlopen(name, RTLD_NOW | RTLD_GLOBAL);
	size_t n;

	if (lib || !job_rank_library_dir(path, sizeof(path) - 64))
		return lib;
	n = strlen(path);
	snprintf(path + n, sizeof(path) - n, "/%.40s", name);
	return dlopen(path, RTLD_NOW | RTLD_GLOBAL);
}

static bool find_driver(struct api *a)
{
	void *lib = library("libcuda.so.1");
	cu_get_proc_address_v2_fn get;
	int query;
	bool ok = true;

	if (!lib) {
		fprintf(stderr, "simjob: %s\n", dlerror());
		return false;
	}
	get = (cu_get_proc_address_v2_fn)dlsym(lib, "cuGetProcAddress_v2");
	if (!get)
		return false;
#define GET(field, name, version)                                                                  \
	ok = ok && !get(name, (void **)&a->field, version, CU_GPA_DEFAULT, &query) && a->field
	GET(init, "cuInit", 2000);
	GET(device_get, "cuDeviceGet", 2000);
	GET(retain, "cuDevicePrimaryCtxRetain", 7000);
	GET(set_current, "cuCtxSetCurrent", 4000);
	GET(module_load, "cuModuleLoadData", 2000);
	GET(get_function, "cuModuleGetFunction", 2000);
	GET(stream_create, "cuStreamCreate", 2000);
	GET(event_create, "cuEventCreate", 2000);
	GET(event_record, "cuEventRecord", 2000);
	GET(stream_wait, "cuStreamWaitEvent", 3020);
	GET(stream_sync, "cuStreamSynchronize", 2000);
	GET(ctx_sync, "cuCtxSynchronize", 2000);
	GET(alloc, "cuMemAlloc", 3020);
	GET(host_alloc, "cuMemHostAlloc", 2020);
	GET(copy_in, "cuMemcpyHtoDAsync", 3020);
	GET(copy_out, "cuMemcpyDtoHAsync", 3020);
	GET(copy_device, "cuMemcpyDtoDAsync", 3020);
	GET(set, "cuMemsetD8Async", 3020);
	GET(launch, "cuLaunchKernel", 4000);
	GET(begin_capture, "cuStreamBeginCapture", 10010);
	GET(end_capture, "cuStreamEndCapture", 10000);
	GET(instantiate, "cuGraphInstantiateWithFlags", 11040);
	GET(graph_launch, "cuGraphLaunch", 10000);
	GET(graph_nodes, "cuGraphGetNodes", 10000);
	GET(graph_set, "cuGraphExecKernelNodeSetParams", 12000);
#undef GET
	a->launch_ex = (cu_launch_kernel_ex_fn)dlsym(lib, "cuLaunchKernelEx");
	/* Frameworks link it; only a profiler uses it. */
	library(getenv("SIMJOB_CUPTI") ? getenv("SIMJOB_CUPTI") : "libcupti.so.13");
	return ok && a->launch_ex;
}

static bool find_nccl(struct api *a)
{
	void *lib = library("libnccl.so.2");
	bool ok = lib != NULL;

#define GET(field, name) ok = ok && (*(void **)&a->field = dlsym(lib, name)) != NULL
	GET(get_id, "ncclGetUniqueId");
	GET(init_rank, "ncclCommInitRank");
	GET(all_reduce, "ncclAllReduce");
	GET(all_gather, "ncclAllGather");
	GET(reduce_scatter, "ncclReduceScatter");
	GET(broadcast, "ncclBroadcast");
	GET(send, "ncclSend");
	GET(recv, "ncclRecv");
	GET(group_start, "ncclGroupStart");
	GET(group_end, "ncclGroupEnd");
#undef GET
	if (!ok)
		fprintf(stderr, "simjob: libnccl.so.2: %s\n",
			lib ? "symbols missing" : "not found");
	return ok;
}

/* ---- start ---- */

static bool check(int rc, const char *what)
{
	if (rc)
		fprintf(stderr, "simjob: %s failed: %d\n", what, rc);
	return rc == 0;
}

static bool start_device(struct rank *r)
{
	struct api *a = &r->api;
	const char *local = getenv("LOCAL_RANK");
	cu_module module;
	cu_device dev;

	if (!check(a->init(0), "cuInit") ||
	    !check(a->device_get(&dev, local ? atoi(local) : r->rank), "cuDeviceGet") ||
	    !check(a->retain(&r->context, dev), "cuDevicePrimaryCtxRetain") ||
	    !check(a->set_current(r->context), "cuCtxSetCurrent") ||
	    !check(a->module_load(&module, "image"), "cuModuleLoadData") ||
	    !check(a->alloc(&r->device, BUFFER_BYTES), "cuMemAlloc") ||
	    !check(a->host_alloc(&r->host, 65536, 0), "cuMemHostAlloc"))
		return false;
	r->program.functions = job_alloc(r->program.name_count, sizeof(cu_function));
	for (unsigned i = 0; i < r->program.name_count; i++)
		if (!check(a->get_function(&r->program.functions[i], module, r->program.names[i]),
			   "cuModuleGetFunction"))
			return false;
	for (int i = 0; i < r->o->fault_count; i++)
		if (r->o->faults[i].kind == JOB_FAULT_VARIANT &&
		    !check(a->get_function(&r->variants[i], module, r->o->faults[i].variant),
			   "cuModuleGetFunction"))
			return false;
	for (int i = 1; i < JOB_STREAMS; i++)
		if (!check(a->stream_create(&r->streams[i], 1), "cuStreamCreate"))
			return false;
	for (int i = 0; i < JOB_EVENTS; i++)
		if (!check(a->event_create(&r->events[i], 2), "cuEventCreate"))
			return false;
	return true;
}

static bool start_comm(struct rank *r)
{
	struct job_control *c = r->control;

	if (r->rank == 0) {
		if (!check(r->api.get_id(&c->id), "ncclGetUniqueId"))
			return false;
		__atomic_store_n(&c->id_ready, 1, __ATOMIC_RELEASE);
		syscall(SYS_futex, &c->id_ready, FUTEX_WAKE, JOB_MAX_RANKS, NULL, NULL, 0);
	}
	while (!__atomic_load_n(&c->id_ready, __ATOMIC_ACQUIRE))
		syscall(SYS_futex, &c->id_ready, FUTEX_WAIT, 0, NULL, NULL, 0);
	return check(r->api.init_rank(&r->comm, r->o->ranks, c->id, r->rank), "ncclCommInitRank");
}

/* ---- a step ---- */

static bool fault_is(const struct rank *r, enum job_fault_kind kind)
{
	return r->fault && r->fault->kind == kind;
}

/* Whether the fault affects this kernel. */
static bool meant(const struct rank *r, const struct job_action *a)
{
	return (fault_is(r, JOB_FAULT_KERNEL) || fault_is(r, JOB_FAULT_VARIANT)) &&
	       strstr(r->program.names[a->function], r->fault->kernel);
}

/* About normal: six uniforms have a variance of 1/2. */
static double job_normal(uint64_t *random)
{
	double x = 0;

	for (int i = 0; i < 6; i++)
		x += job_uniform(random);
	return (x - 3) * 1.41421356;
}

static uint64_t duration(struct rank *r, const struct job_action *a)
{
	double factor = (1 + r->program.jitter * job_normal(&r->random)) * r->input;

	if (fault_is(r, JOB_FAULT_SLOW) || meant(r, a))
		factor *= r->fault->size;
	if (fault_is(r, JOB_FAULT_ENDLESS) && !r->fault_done &&
	    strstr(r->program.names[a->function], r->fault->kernel)) {
		r->fault_done = true;
		return ENDLESS_NS;
	}
	return (uint64_t)((double)a->dur_ns * factor);
}

static void run_kernel(struct rank *r, const struct job_action *a, cu_stream s)
{
	cu_function f = r->program.functions[a->function];
	uint64_t ns = duration(r, a);
	void *params[] = {&ns};
	unsigned grid = (unsigned)fmax(1, a->grid[0] * r->input + 0.5); /* of longer sequences */

	if (fault_is(r, JOB_FAULT_VARIANT) && meant(r, a))
		f = r->variants[r->fault - r->o->faults];
	if (a->ex) {
		cu_launch_config c = {grid,	   a->grid[1], a->grid[2], a->block[0], a->block[1],
				      a->block[2], 0,	       s,	   NULL,	0};

		r->api.launch_ex(&c, f, params, NULL);
	} else {
		r->api.launch(f, grid, a->grid[1], a->grid[2], a->block[0], a->block[1],
			      a->block[2], 0, s, params, NULL);
	}
}

static void all_to_all(struct rank *r, uint64_t bytes, cu_stream s)
{
	size_t each = bytes / (unsigned)r->o->ranks + 1;
	void *p = (void *)(uintptr_t)r->device;

	r->api.group_start();
	for (int i = 0; i < r->o->ranks; i++) {
		r->api.send(p, each, 0, i, r->comm, s);
		r->api.recv(p, each, 0, i, r->comm, s);
	}
	r->api.group_end();
}

static void run_collective(struct rank *r, const struct job_action *a, cu_stream s)
{
	void *p = (void *)(uintptr_t)r->device;
	size_t floats = a->bytes / 4 ? a->bytes / 4 : 1;
	uint8_t which = a->collective;

	if (r->o->ranks < 2)
		return;
	if (fault_is(r, JOB_FAULT_MISMATCH) && !r->fault_done) {
		r->fault_done = true;
		which = which == JOB_ALLREDUCE ? JOB_ALLGATHER : JOB_ALLREDUCE;
	}
	switch (which) {
	case JOB_ALLREDUCE:
		r->api.all_reduce(p, p, floats, 7, 0, r->comm, s);
		break;
	case JOB_ALLGATHER:
		r->api.all_gather(p, p, floats, 7, r->comm, s);
		break;
	case JOB_REDUCESCATTER:
		r->api.reduce_scatter(p, p, floats, 7, 0, r->comm, s);
		break;
	case JOB_BROADCAST:
		r->api.broadcast(p, p, floats, 7, a->slot, r->comm, s);
		break;
	default:
		all_to_all(r, a->bytes, s);
	}
}

static void share(struct rank *r, const struct job_action *a)
{
	struct job_action send = {.kind = JOB_COLLECTIVE,
				  .collective = JOB_BROADCAST,
				  .slot = a->slot,
				  .bytes = a->bytes};
	struct job_host work = r->o->host;
	cu_stream s = r->streams[a->stream];

	if (work.ms)
		work.kib = r->control->host_kib;
	if (fault_is(r, JOB_FAULT_HOST)) {
		work.kib = (uint64_t)((double)work.kib * r->fault->size);
		work.count = (unsigned)((double)work.count * r->fault->size);
	}
	for (unsigned i = 0; i < SHARD_PIECES && a->slot == r->rank; i++) {
		job_host_work(&work, r->rank, i, SHARD_PIECES);
		r->api.copy_in(r->device, r->host, a->bytes / SHARD_PIECES, s);
	}
	run_collective(r, &send, s);
	r->api.stream_sync(s);
}

static void *share_thread(void *arg)
{
	struct rank *r = arg;

	prctl(PR_SET_NAME, "nccl-comm");
	r->api.set_current(r->context);
	pthread_mutex_lock(&r->sharer.lock);
	for (;;) {
		while (!r->sharer.todo)
			pthread_cond_wait(&r->sharer.changed, &r->sharer.lock);
		pthread_mutex_unlock(&r->sharer.lock);
		share(r, r->sharer.todo);
		pthread_mutex_lock(&r->sharer.lock);
		r->sharer.todo = NULL;
		pthread_cond_broadcast(&r->sharer.changed);
	}
	return NULL;
}

static bool start_sharer(struct rank *r)
{
	pthread_mutex_init(&r->sharer.lock, NULL);
	pthread_cond_init(&r->sharer.changed, NULL);
	r->sharer.on = r->o->comm_thread;
	return !r->sharer.on ||
	       check(pthread_create(&r->sharer.thread, NULL, share_thread, r), "pthread_create");
}

/* Waits until the shard has arrived from its sender. */
static void run_share(struct rank *r, const struct job_action *a)
{
	if (!r->sharer.on) {
		share(r, a);
		return;
	}
	pthread_mutex_lock(&r->sharer.lock);
	r->sharer.todo = a;
	pthread_cond_broadcast(&r->sharer.changed);
	while (r->sharer.todo)
		pthread_cond_wait(&r->sharer.changed, &r->sharer.lock);
	pthread_mutex_unlock(&r->sharer.lock);
}

/* The host idles; the rest of the step moves back by the same time. */
static void idle(struct rank *r, double share)
{
	uint64_t ns = (uint64_t)((double)r->program.nominal_ns * share);

	r->api.ctx_sync();
	sleep_until(sim_now() + ns);
	r->shift_ns += ns;
}

/* A traced wait lasted longer than in the trace: the host's next actions move back by the
 * difference. */
static void catch_up(struct rank *r, const struct job_action *a)
{
	uint64_t then = r->begin_ns + r->shift_ns + a->dur_ns, now = sim_now();

	if (a->dur_ns && now > then)
		r->shift_ns += now - then;
}

static void run_action(struct rank *r, const struct job_action *a, bool paced)
{
	cu_stream s = r->streams[a->stream];

	if (paced && a->at_ns) {
		uint64_t at = r->begin_ns + r->shift_ns + a->at_ns;

		/* A sleep of less than half a millisecond would cost more than it is worth. */
		if (at > sim_now() + 500000)
			sleep_until(at);
	}
	switch (a->kind) {
	case JOB_KERNEL:
		run_kernel(r, a, s);
		break;
	case JOB_COPY_IN:
		r->api.copy_in(r->device, r->host,
			       a->bytes < BUFFER_BYTES ? a->bytes : BUFFER_BYTES, s);
		break;
	case JOB_COPY_OUT:
		r->api.copy_out(r->host, r->device,
				a->bytes < BUFFER_BYTES ? a->bytes : BUFFER_BYTES, s);
		break;
	case JOB_COPY_DEVICE:
		r->api.copy_device(r->device, r->device,
				   a->bytes < BUFFER_BYTES ? a->bytes : BUFFER_BYTES, s);
		break;
	case JOB_SET:
		r->api.set(r->device, 0, a->bytes < BUFFER_BYTES ? a->bytes : BUFFER_BYTES, s);
		break;
	case JOB_COLLECTIVE:
		run_collective(r, a, s);
		break;
	case JOB_RECORD:
		r->api.event_record(r->events[a->slot], s);
		break;
	case JOB_WAIT:
		r->api.stream_wait(s, r->events[a->slot], 0);
		break;
	case JOB_SYNC:
		r->api.stream_sync(s);
		catch_up(r, a);
		break;
	case JOB_SYNC_ALL:
		r->api.ctx_sync();
		catch_up(r, a);
		break;
	case JOB_SHARE:
		run_share(r, a);
		break;
	case JOB_GRAPH:
		r->api.graph_launch(r->graphs[a->slot].exec, s);
		break;
	default:
		break;
	}
}

/* Faults at places within a step. */
static void fault_place(struct rank *r, const struct job_phase *ph, unsigned i, unsigned *late)
{
	const struct job_action *a = &ph->actions[i];
	unsigned every = ph->count / GAPS_PER_STEP ? ph->count / GAPS_PER_STEP : 1;

	if (fault_is(r, JOB_FAULT_GAPS) && i % every == every / 2)
		idle(r, (r->fault->size - 1) / GAPS_PER_STEP);
	if (a->kind != JOB_COLLECTIVE && a->kind != JOB_GRAPH && a->kind != JOB_SHARE)
		return;
	if (fault_is(r, JOB_FAULT_STUCK))
		for (;;)
			pause();
	if (fault_is(r, JOB_FAULT_LATE) && !(*late)++)
		idle(r, r->fault->size - 1);
}

static void ask_for_stop(struct rank *r)
{
	struct job_control *c = r->control;
	uint32_t ms = (uint32_t)((double)r->program.nominal_ns / 1e6 * (r->fault->size - 1));

	c->stop_rank = (uint32_t)r->rank;
	__atomic_store_n(&c->stop_ms, ms ? ms : 1, __ATOMIC_RELEASE);
	syscall(SYS_futex, &c->stop_ms, FUTEX_WAKE, 1, NULL, NULL, 0);
	/* The launcher clears it after SIGCONT. */
	while (__atomic_load_n(&c->stop_ms, __ATOMIC_ACQUIRE))
		syscall(SYS_futex, &c->stop_ms, FUTEX_WAIT, ms ? ms : 1, NULL, NULL, 0);
}

static const struct job_fault *fault_at(struct rank *r, uint64_t step, uint64_t *begins)
{
	for (int i = 0; i < r->o->fault_count; i++) {
		const struct job_fault *f = &r->o->faults[i];
		uint64_t first = f->start_step;

		if (f->rank >= 0 && f->rank != r->rank)
			continue;
		if (first == UINT64_MAX) {
			if (begins[i] == UINT64_MAX &&
			    sim_now() - r->control->start_ns >= f->start_ns)
				begins[i] = step;
			first = begins[i];
		}
		if (step >= first && first != UINT64_MAX && step - first < f->steps)
			return f;
	}
	return NULL;
}

static void truth_step(struct rank *r, uint64_t step, const struct job_phase *ph, uint64_t end_ns)
{
	char line[512];
	int n;

	if (r->truth_fd < 0)
		return;
	n = snprintf(line, sizeof(line),
		     "{\"rank\":%d,\"step\":%llu,\"phase\":\"%s\",\"begin_ns\":%llu,"
		     "\"end_ns\":%llu,\"fault\":%s,\"fault_kind\":\"%s\"}\n",
		     r->rank, (unsigned long long)step, ph->name, (unsigned long long)r->begin_ns,
		     (unsigned long long)end_ns, r->fault ? "true" : "false",
		     job_fault_names[r->fault ? r->fault->kind : 0]);
	if (write(r->truth_fd, line, (size_t)n) != n)
		fprintf(stderr, "simjob: truth file: %s\n", strerror(errno));
}

/* A fault that slows kernels also slows those in graphs: same graphs, new durations. */
static void fault_graphs(struct rank *r)
{
	const struct job_fault *f =
	    fault_is(r, JOB_FAULT_SLOW) || fault_is(r, JOB_FAULT_KERNEL) ? r->fault : NULL;

	if (f == r->graph_fault)
		return;
	r->graph_fault = f;
	for (unsigned i = 0; i < r->program.graph_count; i++) {
		const struct job_phase *ph = &r->program.graphs[i];
		size_t node = 0;

		for (unsigned k = 0; k < ph->count && node < r->graphs[i].count; k++) {
			const struct job_action *a = &ph->actions[k];
			uint64_t ns = duration(r, a);
			void *params[] = {&ns};
			struct { /* CUDA_KERNEL_NODE_PARAMS */
				cu_function f;
				unsigned grid[3], block[3], shared_bytes;
				void **params, **extra;
				cu_function kernel;
				cu_context context;
			} p = {.f = r->program.functions[a->function], .params = params};

			memcpy(p.grid, a->grid, sizeof(p.grid));
			memcpy(p.block, a->block, sizeof(p.block));
			if (a->kind == JOB_KERNEL)
				r->api.graph_set(r->graphs[i].exec, r->graphs[i].nodes[node++], &p);
			else if (a->kind == JOB_COLLECTIVE && r->o->ranks > 1)
				node++;
		}
	}
}

static void run_step(struct rank *r, uint64_t step)
{
	const struct job_program *p = &r->program;
	const struct job_phase *ph = &p->phases[p->choose(p, r->o->seed, step)];
	double work = ph->work > 0 ? ph->work : (double)ph->count;
	unsigned late = 0;

	r->begin_ns = sim_now();
	r->shift_ns = 0;
	r->input = r->o->skew > 0 ? exp(r->o->skew * job_normal(&r->random)) : 1;
	fault_graphs(r);
	if (r->mark_begin)
		r->mark_begin(&work, 1);
	if (fault_is(r, JOB_FAULT_STOP))
		ask_for_stop(r);
	for (unsigned i = 0; i < ph->count; i++) {
		if (r->fault)
			fault_place(r, ph, i, &late);
		run_action(r, &ph->actions[i], true);
	}
	if (r->mark_end)
		r->mark_end();
	truth_step(r, step, ph, sim_now());
}

static bool capture_graphs(struct rank *r)
{
	r->graphs = job_alloc(r->program.graph_count, sizeof(*r->graphs));
	for (unsigned i = 0; i < r->program.graph_count; i++) {
		struct job_phase *ph = &r->program.graphs[i];
		struct graph *to = &r->graphs[i];
		cu_graph g;

		if (!check(r->api.begin_capture(r->streams[1], 0), "cuStreamBeginCapture"))
			return false;
		for (unsigned k = 0; k < ph->count; k++)
			run_action(r, &ph->actions[k], false);
		if (!check(r->api.end_capture(r->streams[1], &g), "cuStreamEndCapture") ||
		    !check(r->api.instantiate(&to->exec, g, 0), "cuGraphInstantiate") ||
		    !check(r->api.graph_nodes(g, NULL, &to->count), "cuGraphGetNodes"))
			return false;
		to->nodes = job_alloc(to->count, sizeof(*to->nodes));
		if (!check(r->api.graph_nodes(g, to->nodes, &to->count), "cuGraphGetNodes"))
			return false;
	}
	return true;
}

static bool load_program(struct rank *r)
{
	const struct job_options *o = r->o;

	if (o->trace_count) {
		r->program.jitter = JITTER_TRACE;
		return job_trace_build(&r->program, o->traces[r->rank % o->trace_count], o->ranks,
				       o->stretch) == 0;
	}
	return job_mix_build(&r->program, o->mix, o->ranks);
}

static void find_marks(struct rank *r)
{
	if (!r->o->mark_begin)
		return;
	*(void **)&r->mark_begin = dlsym(RTLD_DEFAULT, r->o->mark_begin);
	*(void **)&r->mark_end = dlsym(RTLD_DEFAULT, r->o->mark_end);
	if (!r->mark_begin || !r->mark_end)
		r->mark_begin = NULL, r->mark_end = NULL;
}

int job_rank_run(const struct job_options *o, struct job_control *control, int rank)
{
	struct rank r = {.o = o, .control = control, .rank = rank, .truth_fd = -1, .input = 1};
	uint64_t begins[JOB_MAX_FAULTS], step = 0;
	struct rusage u;

	prctl(PR_SET_NAME, "simjob"); /* not "exe", the name from its start */
	memset(begins, 0xff, sizeof(begins));
	r.random = o->seed * 1000003 + (uint64_t)rank;
	if (!load_program(&r) || !find_driver(&r.api) || !start_device(&r))
		return 1;
	if (o->ranks > 1 && (!find_nccl(&r.api) || !start_comm(&r)))
		return 1;
	if (job_host_start(&o->host, rank) || !start_sharer(&r))
		return 1;
	if (o->truth)
		r.truth_fd = open(o->truth, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
	find_marks(&r);
	if (!capture_graphs(&r))
		return 1;
	for (; step < __atomic_load_n(&control->last_step, __ATOMIC_ACQUIRE); step++) {
		r.fault = fault_at(&r, step, begins);
		run_step(&r, step);
		/* In a step with collectives no rank can be more than one step ahead of rank 0. */
		if (rank == 0 && o->seconds && control->last_step == UINT64_MAX &&
		    (__atomic_load_n(&control->finish, __ATOMIC_ACQUIRE) ||
		     sim_now() - control->start_ns > o->seconds * 1000000000ull))
			__atomic_store_n(&control->last_step, step + 3, __ATOMIC_RELEASE);
	}
	r.api.ctx_sync();
	if (o->verbose) {
		double wall = (double)(sim_now() - control->start_ns) / 1e9, cpu;

		getrusage(RUSAGE_SELF, &u);
		cpu = (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
		      (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
		fprintf(stderr, "simjob: rank %d: %llu steps in %.2f s, cpu %.2f%% of a core\n",
			rank, (unsigned long long)step, wall, 100 * cpu / wall);
	}
	return 0;
}
