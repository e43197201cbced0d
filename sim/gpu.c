/* SPDX-License-Identifier: Apache-2.0
 * gpu.c - the model is analytic: start and end of an operation follow from its predecessors, so no
 * kernel needs a wake-up. Only ends that depend on other processes (collectives) and host functions
 * stay open. A worker resolves them, and passes finished work to a profiler every few milliseconds.
 * So eight ranks with some thousand kernels a second fit on two cores. */
#include "sim/gpu.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "sim/gpu_clock.h"
#include "sim/scramble.h"
#include "sim/sim_base.h"

#define GPU_WATCH_MAX	  60
#define GPU_TICK_NS	  4000000ull /* delay of records to the profiler without a flush */
#define GPU_POLL_NS	  1000000ull /* without futex_waitv(2) (before Linux 5.16) */
#define GPU_LIVE_SWEEP	  512
#define GPU_MAGIC_STREAM  0x5354524du
#define GPU_MAGIC_CONTEXT 0x43545847u

struct gpu_state gpu;

static pthread_mutex_t gpu_mutex = PTHREAD_MUTEX_INITIALIZER;
static uint32_t *watch_words[GPU_WATCH_MAX];
static unsigned watch_count;
static bool no_waitv;

void gpu_lock(void)
{
	pthread_mutex_lock(&gpu_mutex);
}

void gpu_unlock(void)
{
	pthread_mutex_unlock(&gpu_mutex);
}

uint64_t gpu_env(const char *name, uint64_t otherwise)
{
	const char *s = getenv(name);
	char *end;
	uint64_t v;

	if (!s || !*s)
		return otherwise;
	v = strtoull(s, &end, 10);
	return *end ? otherwise : v;
}

static long futex_wait(uint32_t *word, uint32_t value, const struct timespec *until)
{
	/* WAIT_BITSET takes an absolute time on CLOCK_MONOTONIC. */
	return syscall(SYS_futex, word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, value, until, NULL,
		       FUTEX_BITSET_MATCH_ANY);
}

static void futex_wake_private(uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, INT_MAX, NULL, NULL, 0);
}

static struct timespec to_timespec(uint64_t ns)
{
	return (struct timespec){.tv_sec = (time_t)(ns / 1000000000ull),
				 .tv_nsec = (long)(ns % 1000000000ull)};
}

/* ---- operations ---- */

struct gpu_op *gpu_op_ref(struct gpu_op *op)
{
	if (op)
		op->refs++;
	return op;
}

void gpu_op_unref(struct gpu_op *op)
{
	while (op && --op->refs == 0) {
		struct gpu_op *first = op->first;

		free(op->dependents);
		free(op);
		op = first;
	}
}

bool gpu_op_done_locked(struct gpu_op *op)
{
	return !op || (op->state == GPU_OP_KNOWN && op->end_ns <= sim_now());
}

static bool op_counts(const struct gpu_op *op)
{
	return op->stream != NULL && op->work.kind != GPU_OP_MARK;
}

static void op_depend(struct gpu_op *op, struct gpu_op *on, uint64_t gap_ns)
{
	if (!on || on == op)
		return;
	if (on->state == GPU_OP_KNOWN) {
		if (on->end_ns + gap_ns > op->floor_ns)
			op->floor_ns = on->end_ns + gap_ns;
		return;
	}
	if (on->dependent_count == on->dependent_room) {
		unsigned room = on->dependent_room ? on->dependent_room * 2 : 2;
		struct gpu_op **grown = realloc(on->dependents, room * sizeof(*grown));

		if (!grown)
			abort(); /* without memory the model cannot continue */
		on->dependents = grown;
		on->dependent_room = room;
	}
	on->dependents[on->dependent_count++] = gpu_op_ref(op);
	op->deps_left++;
}

static void op_ready(struct gpu_op *op, struct gpu_op **todo);

/* The end is now known: its dependents can proceed. */
static void op_known(struct gpu_op *op, uint64_t end_ns, struct gpu_op **todo)
{
	op->state = GPU_OP_KNOWN;
	op->end_ns = end_ns;
	op->todo = *todo;
	*todo = gpu_op_ref(op);
}

static void op_drain(struct gpu_op *todo)
{
	while (todo) {
		struct gpu_op *op = todo;

		todo = op->todo;
		for (unsigned i = 0; i < op->dependent_count; i++) {
			struct gpu_op *d = op->dependents[i];
			uint64_t gap = d->work.kind == GPU_OP_MARK ? 0 : gpu.gap_ns;

			if (op->end_ns + gap > d->floor_ns)
				d->floor_ns = op->end_ns + gap;
			if (--d->deps_left == 0)
				op_ready(d, &todo);
			gpu_op_unref(d);
		}
		free(op->dependents);
		op->dependents = NULL;
		op->dependent_count = op->dependent_room = 0;
		gpu_op_unref(op);
	}
}

static void kick_locked(struct gpu_device *d)
{
	__atomic_add_fetch(&d->doorbell, 1, __ATOMIC_RELEASE);
	d->idle = false;
	futex_wake_private(&d->doorbell);
}

static void op_ready(struct gpu_op *op, struct gpu_op **todo)
{
	struct gpu_device *d = &gpu.devices[op->device];
	uint64_t end;

	op->start_ns = op->floor_ns;
	switch (op->work.kind) {
	case GPU_OP_PEER:
		op->state = GPU_OP_RUNS;
		end = op->work.function->peer->start(op->run, op->start_ns);
		if (!end) {
			op->wait_next = d->peers;
			d->peers = gpu_op_ref(op);
			return;
		}
		op_known(op, end, todo);
		return;
	case GPU_OP_HOST:
		op->state = GPU_OP_RUNS;
		op->wait_next = d->hosts;
		d->hosts = gpu_op_ref(op);
		kick_locked(d);
		return;
	case GPU_OP_GRAPH:
		op_known(op, op->start_ns, todo);
		if (op->first)
			op->start_ns = op->first->start_ns;
		return;
	default:
		op_known(op, op->start_ns + op->work.dur_ns, todo);
	}
}

static struct gpu_op *op_new(struct cu_stream_st *s, const struct gpu_work *w, uint32_t correlation)
{
	struct gpu_op *op = calloc(1, sizeof(*op));

	if (!op)
		abort();
	op->refs = 1;
	op->coarse = !gpu.graph_nodes;
	op->work = *w;
	op->device = (uint32_t)s->context->device;
	op->context = s->context->id;
	op->stream_id = s->id;
	op->correlation = correlation;
	op->floor_ns = sim_now() + gpu.submit_ns;
	if (w->kind == GPU_OP_KERNEL)
		op->work.dur_ns = gpu_clock_scale(gpu.visible[op->device], w->dur_ns, op->floor_ns);
	if (w->kind == GPU_OP_PEER) {
		w->function->peer->ref(w->plan);
		op->run = w->function->peer->begin(w->plan);
	}
	return op;
}

static void op_enlist(struct gpu_op *op)
{
	struct gpu_device *d = &gpu.devices[op->device];

	op->prev = d->tail;
	op->next = NULL;
	if (d->tail)
		d->tail->next = op;
	else
		d->head = op;
	d->tail = op;
	d->live_count++;
	if (op_counts(op))
		op->stream->pending++;
	gpu_op_ref(op);
	if (gpu.hooks && d->idle)
		kick_locked(d);
}

static void op_delist(struct gpu_op *op)
{
	struct gpu_device *d = &gpu.devices[op->device];

	if (op->prev)
		op->prev->next = op->next;
	else
		d->head = op->next;
	if (op->next)
		op->next->prev = op->prev;
	else
		d->tail = op->prev;
	d->live_count--;
	if (op_counts(op)) {
		op->stream->pending--;
		gpu_stream_drop_locked(op->stream);
	}
	if (op->work.kind == GPU_OP_PEER) {
		op->work.function->peer->finish(op->run);
		op->work.function->peer->unref(op->work.plan);
	}
	gpu_op_unref(op);
}

static void op_go(struct gpu_op *op)
{
	struct gpu_op *todo = NULL;

	if (op->deps_left == 0)
		op_ready(op, &todo);
	op_drain(todo);
}

/* ---- records ---- */

static void op_record(const struct gpu_op *op, uint64_t end_ns)
{
	struct gpu_record r = {.start_ns = op->start_ns,
			       .end_ns = end_ns,
			       .device = op->device,
			       .context = op->context,
			       .stream = op->stream_id,
			       .correlation = op->correlation,
			       .graph_id = op->graph_id,
			       .node_id = op->node_id,
			       .bytes = op->work.bytes,
			       .shared_bytes = op->work.shared_bytes,
			       .copy_kind = op->work.copy_kind};

	switch (op->work.kind) {
	case GPU_OP_KERNEL:
	case GPU_OP_PEER:
		r.kind = GPU_RECORD_KERNEL;
		r.name = op->work.function->name;
		memcpy(r.grid, op->work.grid, sizeof(r.grid));
		memcpy(r.block, op->work.block, sizeof(r.block));
		break;
	case GPU_OP_COPY:
		r.kind = GPU_RECORD_COPY;
		break;
	case GPU_OP_SET:
		r.kind = GPU_RECORD_SET;
		break;
	case GPU_OP_GRAPH:
		r.kind = GPU_RECORD_GRAPH;
		break;
	default:
		return;
	}
	if (r.kind == GPU_RECORD_GRAPH ? !op->coarse : op->graph_id && op->coarse)
		return;
	gpu.hooks->record(&r);
}

void gpu_retire_locked(struct gpu_device *d, bool running)
{
	uint64_t now = sim_now();
	struct gpu_op *next;

	for (struct gpu_op *op = d->head; op; op = next) {
		next = op->next;
		if (op->state == GPU_OP_KNOWN && op->end_ns <= now) {
			if (gpu.hooks && !op->delivered && !op->silent)
				op_record(op, op->end_ns);
			op_delist(op);
		} else if (running && gpu.hooks && !op->delivered && !op->silent &&
			   op->state != GPU_OP_WAITS && op->start_ns <= now) {
			op->delivered = true;
			op_record(op, 0);
		}
	}
}

/* ---- submission ---- */

/* The order in which default streams wait for others (CUDA's legacy semantics). */
static void op_order(struct gpu_op *op, struct cu_stream_st *s)
{
	struct cu_context_st *c = s->context;
	uint64_t gap = op->work.kind == GPU_OP_MARK ? 0 : gpu.gap_ns;

	op_depend(op, s->tail, gap);
	if (s->legacy) {
		for (struct cu_stream_st *o = c->streams; o; o = o->next)
			if (!o->nonblocking && o != s)
				op_depend(op, o->tail, 0);
	} else if (!s->nonblocking) {
		op_depend(op, c->legacy_tail, 0);
	}
}

static void stream_set_tail(struct cu_stream_st *s, struct gpu_op *op)
{
	gpu_op_unref(s->tail);
	s->tail = gpu_op_ref(op);
	if (s->legacy) {
		gpu_op_unref(s->context->legacy_tail);
		s->context->legacy_tail = gpu_op_ref(op);
	}
}

struct gpu_op *gpu_submit_locked(struct cu_stream_st *s, const struct gpu_work *w,
				 uint32_t correlation, struct gpu_op **deps, unsigned dep_count)
{
	struct gpu_op *op = op_new(s, w, correlation);

	op->stream = s;
	op_order(op, s);
	for (unsigned i = 0; i < dep_count; i++)
		op_depend(op, deps[i], 0);
	op_enlist(op);
	stream_set_tail(s, op);
	op_go(op);
	gpu_op_unref(op); /* the live list and the stream hold it */
	return op;
}

/* The duration of a replayed kernel varies around the captured one. */
static void op_vary(struct gpu_op *op)
{
	uint64_t span = op->work.dur_ns * gpu.graph_jitter_ppm / 1000000;

	if (op->work.kind != GPU_OP_KERNEL || !span)
		return;
	gpu.random = scramble(gpu.random + 0x9e3779b97f4a7c15ull);
	op->work.dur_ns += gpu.random % (2 * span + 1) - span;
}

void gpu_submit_graph_locked(struct cu_stream_st *s, const struct gpu_graph_node_view *nodes,
			     unsigned count, uint32_t graph_id, uint32_t correlation)
{
	static const struct gpu_work mark = {.kind = GPU_OP_MARK};
	static const struct gpu_work end_work = {.kind = GPU_OP_GRAPH};
	struct gpu_op *root = op_new(s, &mark, correlation), *end;
	struct gpu_op **ops = calloc(count ? count : 1, sizeof(*ops));

	if (!ops)
		abort();
	root->stream = s;
	op_order(root, s);
	op_enlist(root);
	op_go(root);
	end = op_new(s, &end_work, correlation);
	end->stream = s;
	end->graph_id = graph_id;
	op_depend(end, root, 0);
	for (unsigned i = 0; i < count; i++) {
		struct gpu_op *op = op_new(s, nodes[i].work, correlation);

		ops[i] = op;
		op->graph_id = graph_id;
		op->node_id = nodes[i].node_id;
		op_vary(op);
		op_depend(op, root, 0);
		for (unsigned k = 0; k < nodes[i].dep_count; k++)
			op_depend(op, ops[nodes[i].deps[k]], gpu.gap_ns);
		op_enlist(op);
		op_go(op);
		op_depend(end, op, 0);
	}
	if (count)
		end->first = gpu_op_ref(ops[0]);
	op_enlist(end);
	stream_set_tail(s, end);
	op_go(end);
	for (unsigned i = 0; i < count; i++)
		gpu_op_unref(ops[i]);
	gpu_op_unref(root);
	gpu_op_unref(end);
	free(ops);
}

void gpu_op_synchronize_locked(struct gpu_op *op)
{
	gpu_op_ref(op);
	while (op && !gpu_op_done_locked(op)) {
		if (op->state == GPU_OP_KNOWN) {
			struct timespec until = to_timespec(op->end_ns);

			gpu_unlock();
			while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) ==
			       EINTR)
				;
			gpu_lock();
		} else {
			uint32_t seen = __atomic_load_n(&gpu.known_gen, __ATOMIC_ACQUIRE);

			gpu_unlock();
			futex_wait(&gpu.known_gen, seen, NULL);
			gpu_lock();
		}
	}
	gpu_op_unref(op);
}

void gpu_stream_admit_locked(struct cu_stream_st *s)
{
	struct gpu_device *d = &gpu.devices[s->context->device];

	if (d->live_count >= GPU_LIVE_SWEEP)
		gpu_retire_locked(d, false);
	while (s->pending >= GPU_QUEUE_DEPTH) {
		struct gpu_op *oldest = d->head;

		while (oldest && (oldest->stream != s || !op_counts(oldest)))
			oldest = oldest->next;
		if (!oldest)
			return;
		gpu_op_synchronize_locked(oldest);
		gpu_retire_locked(d, false);
	}
}

/* ---- contexts and streams ---- */

struct cu_stream_st *gpu_stream_new_locked(struct cu_context_st *c, unsigned flags)
{
	struct cu_stream_st *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->magic = GPU_MAGIC_STREAM;
	s->context = c;
	s->nonblocking = flags & 1;
	s->id = gpu.next_stream++;
	s->next = c->streams;
	c->streams = s;
	return s;
}

void gpu_stream_drop_locked(struct cu_stream_st *s)
{
	struct cu_stream_st **p = &s->context->streams;

	if (!s->destroyed || s->pending)
		return;
	while (*p && *p != s)
		p = &(*p)->next;
	if (*p)
		*p = s->next;
	for (struct gpu_op *op = gpu.devices[s->context->device].head; op; op = op->next)
		if (op->stream == s)
			op->stream = NULL;
	gpu_op_unref(s->tail);
	free(s->capture_deps);
	s->magic = 0;
	free(s);
}

struct cu_context_st *gpu_context_new_locked(int device)
{
	struct cu_context_st *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->magic = GPU_MAGIC_CONTEXT;
	c->device = device;
	c->id = gpu.next_context++;
	c->legacy = gpu_stream_new_locked(c, 0);
	if (!c->legacy) {
		free(c);
		return NULL;
	}
	c->legacy->legacy = true;
	c->legacy->id = GPU_LEGACY_STREAM_ID;
	gpu_device_start_locked(&gpu.devices[device]);
	return c;
}

struct cu_function_st *gpu_function_locked(struct cu_module_st *m, const char *name)
{
	struct cu_function_st *f;

	for (f = m->functions; f; f = f->next)
		if (!strcmp(f->name, name))
			return f;
	f = calloc(1, sizeof(*f));
	if (!f)
		return NULL;
	f->name = strndup(name, GPU_NAME_BYTES - 1);
	if (!f->name) {
		free(f);
		return NULL;
	}
	f->next = m->functions;
	m->functions = f;
	return f;
}

/* ---- the worker ---- */

static void worker_peers(struct gpu_device *d)
{
	struct gpu_op **p = &d->peers, *todo = NULL;
	bool any = false;

	while (*p) {
		struct gpu_op *op = *p;
		uint64_t end = op->work.function->peer->poll(op->run);

		if (!end) {
			p = &op->wait_next;
			continue;
		}
		*p = op->wait_next;
		op_known(op, end, &todo);
		gpu_op_unref(op);
		any = true;
	}
	/* Drained after the walk, because operations that become ready may join the list. */
	op_drain(todo);
	if (any) {
		__atomic_add_fetch(&gpu.known_gen, 1, __ATOMIC_RELEASE);
		futex_wake_private(&gpu.known_gen);
	}
}

/* Runs due host functions; returns the time of the next one, or UINT64_MAX. */
static uint64_t worker_hosts(struct gpu_device *d)
{
	uint64_t next = UINT64_MAX;
	struct gpu_op **p = &d->hosts;

	while (*p) {
		struct gpu_op *op = *p, *todo = NULL;

		if (op->start_ns > sim_now()) {
			next = op->start_ns < next ? op->start_ns : next;
			p = &op->wait_next;
			continue;
		}
		*p = op->wait_next;
		gpu_unlock();
		op->work.host_fn(op->work.host_arg);
		gpu_lock();
		op_known(op, sim_now(), &todo);
		op_drain(todo);
		gpu_op_unref(op);
		__atomic_add_fetch(&gpu.known_gen, 1, __ATOMIC_RELEASE);
		futex_wake_private(&gpu.known_gen);
		p = &d->hosts; /* the list may have changed meanwhile */
		next = UINT64_MAX;
	}
	return next;
}

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif
#ifndef FUTEX_32
#define FUTEX_32 2
struct futex_waitv {
	uint64_t val, uaddr;
	uint32_t flags, reserved;
};
#endif

static void worker_sleep(struct gpu_device *d, uint32_t bell, uint32_t *const *words,
			 const uint32_t *values, unsigned count, uint64_t until_ns)
{
	struct futex_waitv v[GPU_WATCH_MAX + 1];
	struct timespec ts;

	memset(v, 0, sizeof(v));
	v[0] = (struct futex_waitv){
	    .val = bell, .uaddr = (uintptr_t)&d->doorbell, .flags = FUTEX_32 | FUTEX_PRIVATE_FLAG};
	for (unsigned i = 0; i < count; i++)
		v[i + 1] = (struct futex_waitv){
		    .val = values[i], .uaddr = (uintptr_t)words[i], .flags = FUTEX_32};
	if (no_waitv && count && until_ns > sim_now() + GPU_POLL_NS)
		until_ns = sim_now() + GPU_POLL_NS;
	ts = to_timespec(until_ns == UINT64_MAX ? (uint64_t)LONG_MAX / 2 : until_ns);
	if (!no_waitv) {
		if (syscall(SYS_futex_waitv, v, count + 1, 0, until_ns == UINT64_MAX ? NULL : &ts,
			    CLOCK_MONOTONIC) >= 0 ||
		    errno != ENOSYS)
			return;
		no_waitv = true;
		return;
	}
	futex_wait(&d->doorbell, bell, until_ns == UINT64_MAX ? NULL : &ts);
}

/* Calls the profiler's hook, if any, without the lock. */
static void hook_deliver(void)
{
	const struct gpu_hooks *h = __atomic_load_n(&gpu.hooks, __ATOMIC_ACQUIRE);

	if (h && h->deliver)
		h->deliver();
}

static void *worker_main(void *arg)
{
	struct gpu_device *d = arg;
	uint32_t *words[GPU_WATCH_MAX];
	uint32_t values[GPU_WATCH_MAX];

	prctl(PR_SET_NAME, "sim-gpu", 0, 0, 0);
	prctl(PR_SET_TIMERSLACK, 50000, 0, 0, 0);
	for (;;) {
		uint32_t bell = __atomic_load_n(&d->doorbell, __ATOMIC_ACQUIRE);
		uint64_t until, now;
		bool hooked, tick;
		unsigned n = 0;

		gpu_lock();
		/* Read the words before the poll, so that a change after it ends the sleep at
		 * once. */
		for (unsigned i = 0; i < watch_count; i++) {
			words[n] = watch_words[i];
			values[n++] = __atomic_load_n(watch_words[i], __ATOMIC_ACQUIRE);
		}
		worker_peers(d);
		until = worker_hosts(d);
		hooked = gpu.hooks != NULL;
		gpu_retire_locked(d, false);
		now = sim_now();
		tick = hooked && d->head;
		if (tick && until > now + GPU_TICK_NS)
			until = now + GPU_TICK_NS;
		d->idle = !tick;
		gpu_unlock();
		hook_deliver();
		worker_sleep(d, bell, words, values, n, until);
	}
	return NULL;
}

void gpu_device_start_locked(struct gpu_device *d)
{
	sigset_t all, old;

	if (d->started)
		return;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	if (pthread_create(&d->worker, NULL, worker_main, d) == 0) {
		pthread_detach(d->worker);
		d->started = true;
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

/* ---- profiler hooks and the private interface ---- */

void gpu_hook_launch(void)
{
	const struct gpu_hooks *h = __atomic_load_n(&gpu.hooks, __ATOMIC_ACQUIRE);

	if (h && h->launch)
		h->launch();
}

static cu_function iface_peer_function(const char *name, const struct gpu_peer_ops *ops)
{
	static struct cu_module_st module;
	struct cu_function_st *f;

	gpu_lock();
	f = gpu_function_locked(&module, name);
	if (f)
		f->peer = ops;
	gpu_unlock();
	return f;
}

static void kick_all_locked(void)
{
	for (int i = 0; i < GPU_MAX_DEVICES; i++)
		if (gpu.devices[i].started)
			kick_locked(&gpu.devices[i]);
}

static int iface_watch(uint32_t *word)
{
	int rc = -ENOSPC;

	gpu_lock();
	if (watch_count < GPU_WATCH_MAX) {
		watch_words[watch_count++] = word;
		rc = 0;
	}
	kick_all_locked();
	gpu_unlock();
	return rc;
}

static void iface_unwatch(uint32_t *word)
{
	gpu_lock();
	for (unsigned i = 0; i < watch_count; i++)
		if (watch_words[i] == word)
			watch_words[i--] = watch_words[--watch_count];
	kick_all_locked();
	gpu_unlock();
}

static void iface_kick(void)
{
	gpu_lock();
	kick_all_locked();
	gpu_unlock();
}

static void iface_set_hooks(const struct gpu_hooks *hooks)
{
	bool first;

	gpu_lock();
	first = hooks && !gpu.hooks;
	__atomic_store_n(&gpu.hooks, hooks, __ATOMIC_RELEASE);
	/* As with the real tool, work submitted unobserved stays unobserved. */
	if (first)
		for (int i = 0; i < GPU_MAX_DEVICES; i++)
			for (struct gpu_op *op = gpu.devices[i].head; op; op = op->next)
				op->silent = true;
	kick_all_locked();
	gpu_unlock();
}

static void iface_set_graph_nodes(bool nodes)
{
	gpu_lock();
	gpu.graph_nodes = nodes;
	gpu_unlock();
}

static void iface_retire(bool running)
{
	gpu_lock();
	for (int i = 0; i < GPU_MAX_DEVICES; i++)
		gpu_retire_locked(&gpu.devices[i], running);
	gpu_unlock();
}

static uint32_t iface_context_id(cu_context c)
{
	return c && c->magic == GPU_MAGIC_CONTEXT ? c->id : 0;
}

int gpu_init(void)
{
	int rc = 0;

	gpu_lock();
	if (!gpu.initialised) {
		const char *visible = getenv("CUDA_VISIBLE_DEVICES");
		uint64_t count = gpu_env("SIM_DEVICE_COUNT", 8);

		gpu.submit_ns = gpu_env("SIM_SUBMIT_NS", 4000);
		gpu.gap_ns = gpu_env("SIM_GAP_NS", 500);
		gpu.default_kernel_ns = gpu_env("SIM_KERNEL_NS", 10000);
		gpu.copy_bytes_per_us = gpu_env("SIM_COPY_MBPS", 24000);
		gpu.memory_total = gpu_env("SIM_DEVICE_MEMORY_MB", 81920) << 20;
		gpu.graph_jitter_ppm = gpu_env("SIM_GRAPH_JITTER_PPM", 8000);
		gpu.random = gpu_env("SIM_SEED", 1);
		gpu.next_context = 1;
		gpu.next_correlation = 1;
		gpu.next_stream = GPU_FIRST_STREAM;
		gpu.next_graph = 1;
		gpu.next_node = 1;
		gpu.next_capture = 1;
		gpu.graph_nodes = true;
		gpu.device_count = (int)(count < GPU_MAX_DEVICES ? count : GPU_MAX_DEVICES);
		for (int i = 0; i < gpu.device_count; i++)
			gpu.visible[i] = i;
		if (visible) {
			char copy[256];
			int total = gpu.device_count, n = 0;
			char *save = NULL;

			strncpy(copy, visible, sizeof(copy) - 1);
			copy[sizeof(copy) - 1] = 0;
			for (char *t = strtok_r(copy, ",", &save); t && n < GPU_MAX_DEVICES;
			     t = strtok_r(NULL, ",", &save)) {
				int id = atoi(t);

				if (*t < '0' || *t > '9' || id >= total)
					break;
				gpu.visible[n++] = id;
			}
			gpu.device_count = n;
		}
		gpu.initialised = true;
	}
	if (!gpu.device_count)
		rc = CU_NO_DEVICE;
	gpu_unlock();
	return rc;
}

static int iface_stream_id(cu_context c, cu_stream s, bool per_thread, uint32_t *id)
{
	if (s == CU_STREAM_LEGACY_HANDLE || (!s && !per_thread)) {
		*id = GPU_LEGACY_STREAM_ID;
		return 0;
	}
	if (!s || s == CU_STREAM_PER_THREAD_HANDLE) {
		extern cu_stream cuda_double_per_thread(cu_context context);

		s = cuda_double_per_thread(c ? c : gpu_current());
	}
	if (!s || s->magic != GPU_MAGIC_STREAM)
		return CU_INVALID_HANDLE;
	*id = s->id;
	return 0;
}

__attribute__((visibility("default"))) const struct gpu_iface gpu_iface = {
    .version = GPU_IFACE_VERSION,
    .peer_function = iface_peer_function,
    .watch = iface_watch,
    .unwatch = iface_unwatch,
    .kick = iface_kick,
    .set_hooks = iface_set_hooks,
    .set_graph_nodes = iface_set_graph_nodes,
    .retire = iface_retire,
    .context_id = iface_context_id,
    .stream_id = iface_stream_id,
};
