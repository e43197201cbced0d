/* SPDX-License-Identifier: Apache-2.0
 * sampler.c - see sampler.h: selects the mode, runs the timers, drains. */
#include "sampler/sampler.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "sampler/copy_mode.h"
#include "sampler/perf_ring.h"
#include "sampler/processes.h"
#include "sampler/sampler_events.h"
#include "sampler/sampler_maps.h"
#include "sampler/stacks/sleepers.h"
#include "sampler/stacks/stack_build.h"
#include "sampler/stacks/switches.h"

#define CPUS_MAX 1024u
/* Longest time between polls: Python names must be read while their process lives. */
#define POLL_NS 100000000
/* After an event, events accumulate for this long: a starting PyTorch maps 300 files. */
#define EVENT_PAUSE_NS 10000000
/* A higher rate would fill the whole ring. */
#define SWITCH_RATE_MAX 100000u
/* How long a drain waits for the names of its last stacks; an idle node needs milliseconds. */
#define NAMES_WAIT_NS 500000000ull

struct sampler {
	struct sampler_options options;
	bool wide; /* also sample processes that were not added, with kernel stacks */
	char proc_root[128];
	enum sampler_mode mode;
	char why[160], missing[160];
	struct sampler_maps *maps;
	struct sampler_events *events;
	struct unwind_store *store;
	struct processes *processes;
	struct kernel_symbols *kernel;
	struct stack_store *stacks;
	struct stack_build build;
	struct sleepers *sleepers;
	struct switches *switches;
	uint64_t look_ns; /* time of the next read of the switch rows */
	bool switches_paused;
	uint64_t asleep; /* samples of threads that were still asleep at a drain */
	struct copy_mode *copy;
	int *tick_fd;
	int cpus[CPUS_MAX];
	uint32_t cpu_count;
	int epoll_fd, timer_fd;
	bool paused; /* event descriptors are not in the epoll set until the timer expires */
	uint64_t begin_ns, drain_ns;
	uint64_t stack_refused; /* ring records that were not stacks or found no room */
	uint64_t lost_reported;
};

const char *sampler_mode_name(enum sampler_mode mode)
{
	static const char *const name[] = {"off", "copy", "bpf-tail", "bpf-loop"};

	return (unsigned)mode < sizeof(name) / sizeof(name[0]) ? name[mode] : "unknown";
}

void sampler_options_init(struct sampler_options *o)
{
	memset(o, 0, sizeof(*o));
	o->mode_max = SAMPLER_BPF_LOOP;
	o->rate_hz = 99;
	o->fraction_percent = 10;
	o->off_cpu = true;
	o->off_cpu_min_ns = 1000000;
	o->switch_rate_max = 1000;
	o->python = true;
	o->table_bytes_max = 64u << 20;
	o->proc_root = "/proc";
}

static bool rate_valid(uint32_t rate_hz, uint32_t fraction_percent)
{
	return rate_hz >= 10 && rate_hz <= 999 && fraction_percent >= 1 && fraction_percent <= 100;
}

static uint64_t sample_weight_ns(const struct sampler *s)
{
	return 100000000000ull / s->options.rate_hz / s->options.fraction_percent;
}

/* ---- BPF modes ---- */

static int sink_set(void *context, uint32_t pid, const struct unwind_process *p, uint8_t generation)
{
	return sampler_maps_process(context, pid, p, generation);
}

static void sink_remove(void *context, uint32_t pid)
{
	sampler_maps_process_remove(context, pid);
}

static int sink_python(void *context, uint32_t pid, const struct python_process *p)
{
	return sampler_maps_python(context, pid, p);
}

/* A thread that sleeps, or has slept until now, may have a stack from an earlier drain. The names
 * of such a stack must be checked again. */
static void warm(struct sampler *s, uint64_t python_hash)
{
	const struct sampler_stack *head =
	    python_hash ? stack_store_find(s->stacks, python_hash) : NULL;

	if (head)
		stack_build_warm(&s->build, head);
}

static void on_switch(void *arg, const void *data, size_t bytes)
{
	struct sampler *s = arg;
	struct sampler_switch r;

	switches_put(s->switches, data, bytes);
	if (bytes < SAMPLER_SWITCH_STACK_BYTES)
		return;
	memcpy(&r, data, SAMPLER_SWITCH_STACK_BYTES);
	if (r.kind == SAMPLER_SWITCH_RECORD && r.out_ns < s->begin_ns)
		warm(s, r.stacks.python_hash);
}

static int control_write(struct sampler *s)
{
	struct sampler_control c = {
	    .fraction_percent = s->options.fraction_percent,
	    .weight_ns = sample_weight_ns(s),
	    .period_ns = 1000000000ull / s->options.rate_hz,
	    .slice_ns = (uint64_t)s->options.slice_ms * 1000000,
	    .off_cpu_min_ns = s->options.off_cpu_min_ns,
	    .all_processes = s->options.all_processes ? SAMPLER_OTHERS_ALL
			     : s->wide		      ? SAMPLER_OTHERS_KERNEL
						      : 0,
	    .off_cpu = s->options.off_cpu,
	};

	return sampler_maps_control(s->maps, &c);
}

static int ticks_open(struct sampler *s)
{
	struct perf_event_attr attr = {
	    .size = sizeof(attr),
	    .type = PERF_TYPE_SOFTWARE,
	    .config = PERF_COUNT_SW_CPU_CLOCK,
	    .sample_period = 1000000000ull / s->options.rate_hz,
	    .exclude_idle = 1,
	};
	int err = 0;

	s->tick_fd = malloc(s->cpu_count * sizeof(*s->tick_fd));
	if (!s->tick_fd)
		return -ENOMEM;
	for (uint32_t i = 0; i < s->cpu_count; i++)
		s->tick_fd[i] = -1;
	for (uint32_t i = 0; !err && i < s->cpu_count; i++) {
		s->tick_fd[i] = perf_ring_event(&attr, -1, s->cpus[i]);
		if (s->tick_fd[i] == -ENODEV)
			continue;
		err =
		    s->tick_fd[i] < 0 ? s->tick_fd[i] : sampler_maps_attach(s->maps, s->tick_fd[i]);
	}
	return err;
}

static void ticks_close(struct sampler *s)
{
	for (uint32_t i = 0; s->tick_fd && i < s->cpu_count; i++) {
		if (s->tick_fd[i] >= 0)
			close(s->tick_fd[i]);
	}
	free(s->tick_fd);
	s->tick_fd = NULL;
}

static int watch(struct sampler *s, int fd)
{
	struct epoll_event e = {.events = EPOLLIN, .data.fd = fd};

	return epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, fd, &e) ? -errno : 0;
}

static void bpf_close(struct sampler *s)
{
	ticks_close(s);
	sampler_events_close(s->events);
	processes_close(s->processes);
	unwind_store_close(s->store);
	sampler_maps_close(s->maps);
	s->events = NULL;
	s->processes = NULL;
	s->store = NULL;
	s->maps = NULL;
}

static int bpf_open(struct sampler *s, enum sampler_mode mode, char why[160])
{
	struct processes_sink sink = {
	    .set = sink_set, .remove = sink_remove, .python = sink_python};
	struct unwind_backing backing;
	uint64_t nothing;
	int err = sampler_maps_open(&s->maps, mode, &s->options, why, s->missing);

	if (err)
		return err;
	sampler_maps_switch_sink(s->maps, on_switch, s);
	sampler_maps_backing(s->maps, &backing);
	sink.context = s->maps;
	err = unwind_store_open(&s->store, &backing, s->options.table_bytes_max);
	err = err ? err
		  : processes_open(&s->processes, s->proc_root, s->store, &sink, s->options.python,
				   s->options.reader);
	err = err ? err : control_write(s);
	err = err ? err : sampler_events_open(&s->events, s->cpus, s->cpu_count);
	err = err ? err : ticks_open(s);
	err = err ? err : watch(s, sampler_maps_fd(s->maps));
	if (!err && sampler_maps_switch_fd(s->maps) >= 0)
		err = watch(s, sampler_maps_switch_fd(s->maps));
	err = err ? err : watch(s, sampler_events_fd(s->events));
	err = err ? err : watch(s, processes_fd(s->processes));
	if (err) {
		snprintf(why, 160, "BPF loaded, but did not start: %s", strerror(-err));
		bpf_close(s);
		return err;
	}
	/* reads the kernel's symbols now: the first drain would need 100 ms for it */
	kernel_symbols_find(s->kernel, 0, &nothing);
	return 0;
}

/* ---- without BPF ---- */

/* A copy costs the same whether it is kept or not. So a smaller fraction makes the period longer
 * instead. */
static struct copy_mode_settings copy_settings(const struct sampler *s)
{
	struct copy_mode_settings c = {
	    .period_ns = sample_weight_ns(s),
	    .weight_ns = sample_weight_ns(s),
	    .slice_ns = (uint64_t)s->options.slice_ms * 1000000,
	};

	return c;
}

/* Copies taken before the mappings were read are unwound with the older mappings. */
static void sink_catch_up(void *context)
{
	struct sampler *s = context;

	if (s->copy)
		copy_mode_poll(s->copy);
}

static void copy_close(struct sampler *s)
{
	copy_mode_close(s->copy);
	processes_close(s->processes);
	unwind_store_close(s->store);
	s->copy = NULL;
	s->processes = NULL;
	s->store = NULL;
}

static int copy_open(struct sampler *s, char why[160])
{
	const struct processes_sink sink = {.context = s, .catch_up = sink_catch_up};
	struct copy_mode_settings settings = copy_settings(s);
	int err = unwind_store_open(&s->store, &unwind_store_memory, s->options.table_bytes_max);

	err = err ? err
		  : processes_open(&s->processes, s->proc_root, s->store, &sink, false,
				   s->options.reader);
	if (err)
		snprintf(why, 160, "no memory");
	err = err ? err
		  : copy_mode_open(&s->copy, s->processes, s->store, s->kernel, s->proc_root,
				   &settings, why, s->missing);
	err = err ? err : watch(s, copy_mode_fd(s->copy));
	err = err ? err : watch(s, processes_fd(s->processes));
	if (err)
		copy_close(s);
	return err;
}

/* ---- open and close ---- */

static int modes_try(struct sampler *s)
{
	char why[160];

	for (int mode = (int)s->options.mode_max; mode >= SAMPLER_COPY; mode--) {
		int err;

		why[0] = 0;
		err = mode == SAMPLER_COPY ? copy_open(s, why)
					   : bpf_open(s, (enum sampler_mode)mode, why);
		if (!err) {
			s->mode = (enum sampler_mode)mode;
			return 0;
		}
		if (err == -ENOMEM)
			return err;
		/* the reason against the best mode comes first; a second reason is added only if it
		 * differs */
		if (!s->why[0])
			memcpy(s->why, why, sizeof(why));
		else if (!strstr(s->why, why) && strlen(s->why) + strlen(why) + 3 < sizeof(s->why))
			snprintf(s->why + strlen(s->why), sizeof(s->why) - strlen(s->why), "; %s",
				 why);
	}
	s->mode = SAMPLER_OFF;
	if (!s->why[0])
		snprintf(s->why, sizeof(s->why), "switched off");
	return 0;
}

static void timer_set(struct sampler *s, long first_ns)
{
	struct itimerspec t = {.it_value = {.tv_nsec = first_ns},
			       .it_interval = {.tv_nsec = POLL_NS}};

	timerfd_settime(s->timer_fd, 0, &t, NULL);
}

static int common_open(struct sampler *s)
{
	int err;

	s->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	s->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (s->epoll_fd < 0 || s->timer_fd < 0)
		return -errno;
	s->cpu_count = perf_ring_cpus(s->cpus, CPUS_MAX);
	err = watch(s, s->timer_fd);
	err = err ? err : kernel_symbols_open(&s->kernel, NULL);
	err = err ? err : stack_store_open(&s->stacks);
	err = err ? err : sleepers_open(&s->sleepers);
	err = err ? err : switches_open(&s->switches);
	s->build.kernel = s->kernel;
	s->build.stacks = s->stacks;
	return err ? err : stack_build_init(&s->build);
}

int sampler_open(struct sampler **out, const struct sampler_options *o)
{
	struct sampler *s;
	int err;

	if (!rate_valid(o->rate_hz, o->fraction_percent) || o->mode_max > SAMPLER_BPF_LOOP ||
	    (o->slice_ms && o->slice_ms < 10) || !o->switch_rate_max ||
	    o->switch_rate_max > SWITCH_RATE_MAX)
		return -EINVAL;
	s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	s->options = *o;
	s->epoll_fd = s->timer_fd = -1;
	snprintf(s->proc_root, sizeof(s->proc_root), "%s", o->proc_root ? o->proc_root : "/proc");
	s->options.proc_root = s->proc_root;
	err = common_open(s);
	err = err ? err : modes_try(s);
	if (err) {
		sampler_close(s);
		return err;
	}
	s->build.processes = s->processes;
	s->begin_ns = clock_monotonic_ns();
	if (s->mode != SAMPLER_OFF)
		timer_set(s, POLL_NS);
	if (s->maps && o->all_processes)
		processes_add_all(s->processes);
	*out = s;
	return 0;
}

void sampler_close(struct sampler *s)
{
	if (!s)
		return;
	bpf_close(s);
	copy_close(s);
	stack_build_fini(&s->build);
	stack_store_close(s->stacks);
	sleepers_close(s->sleepers);
	switches_close(s->switches);
	kernel_symbols_close(s->kernel);
	if (s->timer_fd >= 0)
		close(s->timer_fd);
	if (s->epoll_fd >= 0)
		close(s->epoll_fd);
	free(s);
}

/* ---- control ---- */

int sampler_add(struct sampler *s, uint32_t pid, bool children)
{
	int err = s->processes ? processes_add(s->processes, pid, children) : 0;

	if (!err && s->copy) {
		err = copy_mode_add(s->copy, pid);
		/* the process may have changed before its events were opened */
		processes_doubt(s->processes, pid);
	}
	return err;
}

void sampler_remove(struct sampler *s, uint32_t pid)
{
	if (s->processes)
		processes_remove(s->processes, pid);
	switches_end_process(s->switches, pid);
}

static bool thread_gone(void *arg, uint32_t pid, uint32_t tid)
{
	const struct sampler *s = arg;
	char path[200];

	snprintf(path, sizeof(path), "%s/%u/task/%u", s->proc_root, pid, tid);
	return access(path, F_OK) && errno == ENOENT;
}

int sampler_record_switches(struct sampler *s, uint32_t pid, uint32_t tid, bool on)
{
	struct sampler_switch_thread row = {
	    .tid = tid, .pid = pid, .cost_ns = 1000000000ull / s->options.switch_rate_max};
	int rc;

	if (!s->maps)
		return on ? -ENOTSUP : 0;
	if (!on)
		return switches_end(s->switches, tid) ? 0 : -ESRCH;
	if (thread_gone(s, pid, tid))
		return -ESRCH;
	rc = switches_add(s->switches, pid, tid);
	if (rc <= 0)
		return rc;
	rc = sampler_maps_switch_add(s->maps, &row);
	if (rc)
		switches_forget(s->switches, tid);
	return rc;
}

int sampler_set_rate(struct sampler *s, uint32_t rate_hz, uint32_t fraction_percent)
{
	uint64_t period = rate_hz ? 1000000000ull / rate_hz : 0;
	bool faster = rate_hz != s->options.rate_hz;
	int err = 0;

	if (!rate_valid(rate_hz, fraction_percent))
		return -EINVAL;
	s->options.rate_hz = rate_hz;
	s->options.fraction_percent = fraction_percent;
	if (s->copy) {
		struct copy_mode_settings settings = copy_settings(s);

		return copy_mode_settings_set(s->copy, &settings);
	}
	for (uint32_t i = 0; faster && s->tick_fd && i < s->cpu_count; i++) {
		if (s->tick_fd[i] >= 0 && ioctl(s->tick_fd[i], PERF_EVENT_IOC_PERIOD, &period))
			err = -errno;
	}
	return s->maps && !err ? control_write(s) : err;
}

int sampler_set_wide(struct sampler *s, bool on)
{
	if (!s->maps)
		return s->copy && on ? -ENOTSUP : 0;
	s->wide = on;
	return control_write(s);
}

static void on_stack(void *arg, const void *data, size_t bytes);

static void on_asleep(void *arg, const struct sampler_blocked *b)
{
	warm(arg, b->key.python_hash);
}

static void on_row(void *arg, uint32_t first_tid, const struct sampler_switch_thread *row)
{
	struct sampler *s = arg;

	switches_row(s->switches, first_tid, row, s->look_ns);
	if (row->phase == SAMPLER_SWITCH_OFF) {
		warm(s, row->stacks.python_hash);
		stack_store_keep(s->stacks, row->stacks.kernel_hash);
	}
}

/* Reads the rows of the recorded threads. */
static void switches_look(struct sampler *s, uint64_t now_ns)
{
	s->look_ns = now_ns;
	if (switches_count(s->switches))
		sampler_maps_switch_rows(s->maps, on_row, s);
}

static int switches_pause(struct sampler *s, bool paused)
{
	int err;

	if (paused && !s->switches_paused) {
		switches_look(s, clock_monotonic_ns());
		sampler_maps_stacks(s->maps, on_stack, s);
	}
	err = sampler_maps_off_cpu(s->maps, !paused);
	if (!paused && s->switches_paused)
		switches_resume(s->switches);
	s->switches_paused = paused;
	return err;
}

int sampler_pause(struct sampler *s, bool paused)
{
	int err;

	if (s->mode != SAMPLER_OFF)
		timer_set(s, paused ? 0 : POLL_NS); /* 0 disarms the timer */
	if (!s->maps)				    /* copies exist only for added threads */
		return 0;
	for (uint32_t i = 0; s->tick_fd && i < s->cpu_count; i++)
		if (s->tick_fd[i] >= 0)
			ioctl(s->tick_fd[i],
			      paused ? PERF_EVENT_IOC_DISABLE : PERF_EVENT_IOC_ENABLE, 0);
	err = switches_pause(s, paused);
	sampler_events_pause(s->events, paused, s->processes);
	return err;
}

int sampler_fd(const struct sampler *s)
{
	return s->epoll_fd;
}

static void on_stack(void *arg, const void *data, size_t bytes)
{
	struct sampler *s = arg;
	struct sampler_stack head;

	if (stack_store_put(s->stacks, data, bytes)) {
		s->stack_refused++;
		return;
	}
	memcpy(&head, data, sizeof(head));
	if (head.kind == SAMPLER_STACK_PYTHON)
		stack_build_warm(&s->build, stack_store_find(s->stacks, head.hash));
}

/* Event descriptors stay readable while records arrive, so wait until some have accumulated. */
static void events_pause(struct sampler *s, bool pause)
{
	struct epoll_event e = {.events = pause ? 0 : EPOLLIN};

	if (!s->events || s->paused == pause)
		return;
	s->paused = pause;
	epoll_ctl(s->epoll_fd, EPOLL_CTL_MOD, sampler_events_fd(s->events), &e);
	if (pause)
		timer_set(s, EVENT_PAUSE_NS);
}

void sampler_poll(struct sampler *s)
{
	uint64_t expired;
	bool timer = read(s->timer_fd, &expired, sizeof(expired)) == (ssize_t)sizeof(expired);

	if (s->mode == SAMPLER_OFF)
		return;
	if (s->copy)
		copy_mode_poll(s->copy);
	if (s->events && (timer || !s->paused))
		sampler_events_poll(s->events, s->processes);
	if (s->events)
		events_pause(s, !timer);
	processes_poll(s->processes);
	if (s->copy)
		unwind_store_quiesce(s->store); /* no walk is in progress */
	if (s->maps)
		sampler_maps_stacks(s->maps, on_stack, s);
	processes_names_ask(s->processes);
}

/* Waits for the names of the last stacks while their processes live. The wait is bounded, so that
 * an unreadable process does not delay the others' names. */
static void names_wait(struct sampler *s)
{
	uint64_t until_ns = clock_monotonic_ns() + NAMES_WAIT_NS, now_ns;
	struct pollfd p = {.fd = processes_fd(s->processes), .events = POLLIN};

	while (processes_names_ask(s->processes) && (now_ns = clock_monotonic_ns()) < until_ns) {
		poll(&p, 1, (int)((until_ns - now_ns) / 1000000) + 1);
		processes_poll(s->processes);
	}
}

/* ---- draining ---- */

static void on_count(void *arg, const struct sampler_key *k, const struct sampler_count *c)
{
	struct sampler *s = arg;
	struct sampler_count rest = *c;

	rest.weight_ns = sleepers_repay(s->sleepers, k, c->weight_ns);
	stack_build_count(&s->build, k, &rest);
	/* code without an event: memory made executable later, as JIT compilers do */
	if (k->end == UNWIND_END_NO_MAPPING && k->user_hash)
		processes_doubt(s->processes, k->pid);
}

static void on_blocked(void *arg, const struct sampler_blocked *b)
{
	struct sampler *s = arg;
	struct sampler_key key = b->key;
	struct sampler_count so_far = {.count = 1, .cpu = b->cpu};
	uint64_t slice_ns = (uint64_t)s->options.slice_ms * 1000000;

	stack_store_keep(s->stacks, key.user_hash);
	stack_store_keep(s->stacks, key.kernel_hash);
	stack_store_keep(s->stacks, key.python_hash);
	so_far.weight_ns = sleepers_see(s->sleepers, b);
	if (!so_far.weight_ns || !processes_find(s->processes, key.pid))
		return;
	key.slice = slice_ns ? (uint32_t)(s->drain_ns / slice_ns) : 0;
	memcpy(so_far.comm, b->comm, sizeof(so_far.comm));
	stack_build_count(&s->build, &key, &so_far);
	s->asleep++;
}

static uint64_t lost_total(struct sampler *s)
{
	uint64_t counters[SAMPLER_COUNT_MAX];
	struct copy_mode_stats copy;

	if (s->copy) {
		copy_mode_stats_get(s->copy, &copy);
		return copy.lost;
	}
	sampler_maps_counters(s->maps, counters);
	return counters[SAMPLER_COUNT_FULL] + counters[SAMPLER_COUNT_BLOCKED_FULL] +
	       s->build.refused;
}

static bool on_switch_stack(void *arg, const struct sampler_key *k, uint32_t *stack)
{
	struct sampler *s = arg;

	return !stack_build_stack(&s->build, k, stack);
}

static int switches_finish(struct sampler *s, struct stack_batch *b)
{
	uint32_t first_tid, tid;
	int err;

	/* stacks of threads that woke after the rows were read, while those stacks are still
	 * kept */
	sampler_maps_stacks(s->maps, on_stack, s);
	err = switches_drain(s->switches, b, on_switch_stack, s);
	while (switches_gone(s->switches, thread_gone, s, &first_tid, &tid))
		sampler_maps_switch_remove(s->maps, first_tid, tid);
	return err;
}

/* *old: the epoch whose counts were drained. */
static int bpf_drain(struct sampler *s, struct stack_batch *b, uint32_t *old)
{
	uint64_t slice_ns = (uint64_t)s->options.slice_ms * 1000000;
	int err;

	err = sampler_maps_swap(s->maps, old);
	if (err)
		return err;
	/* Take mappings made before the swap, so that no sample that used an outdated table counts
	 * as complete. */
	sampler_events_poll(s->events, s->processes);
	sleepers_begin(s->sleepers, s->drain_ns, s->options.off_cpu_min_ns);
	switches_look(s, s->drain_ns);
	sampler_maps_blocked(s->maps, on_asleep, s);
	sampler_maps_stacks(s->maps, on_stack, s);
	names_wait(s);
	stack_build_begin(&s->build, b, s->begin_ns, slice_ns);
	err = sampler_maps_counts(s->maps, *old, on_count, s);
	sampler_maps_blocked(s->maps, on_blocked, s);
	if (!err && switches_count(s->switches))
		err = switches_finish(s, b);
	sleepers_end(s->sleepers);
	stack_store_sweep(s->stacks, *old);
	return err;
}

static void on_kept(void *arg, const struct sampler_stack *head)
{
	struct sampler *s = arg;

	stack_build_warm(&s->build, head);
}

int sampler_drain(struct sampler *s, struct stack_batch *b)
{
	uint64_t lost, now;
	uint32_t old = 0;
	int err = 0;

	sampler_poll(s);
	now = clock_monotonic_ns();
	if (!b->begin_ns)
		b->begin_ns = s->begin_ns;
	b->end_ns = s->drain_ns = now;
	if (s->copy)
		err = copy_mode_drain(s->copy, b);
	else if (s->maps)
		err = bpf_drain(s, b, &old);
	if (s->mode == SAMPLER_OFF)
		return 0;
	s->begin_ns = now;
	lost = lost_total(s);
	b->lost_samples += lost - s->lost_reported;
	s->lost_reported = lost;
	processes_sweep(s->processes);
	/* stacks that came during the drain belong to the next one, and are not sent again */
	if (!err && !s->copy && s->maps)
		stack_store_after(s->stacks, old, on_kept, s);
	processes_poll(s->processes);
	return err == -ENOMEM ? err : 0;
}

/* ---- figures ---- */

static void switches_stats(const struct sampler *s, struct sampler_stats *out)
{
	struct switches_stats w;

	switches_stats_get(s->switches, &w);
	out->switch_threads = w.threads;
	out->switch_records = w.records;
	out->switch_paced = w.folded[STACK_SWITCH_PACED];
	out->switch_ring_full = w.folded[STACK_SWITCH_RING_FULL];
	out->switch_no_room = w.folded[STACK_SWITCH_NO_ROOM];
	out->switch_missed = w.missed;
}

static void bpf_stats(const struct sampler *s, struct sampler_stats *out)
{
	uint64_t n[SAMPLER_COUNT_MAX], early, guessed;

	sampler_maps_counters(s->maps, n);
	out->samples = n[SAMPLER_COUNT_TAKEN] + s->asleep;
	out->frames = n[SAMPLER_COUNT_FRAMES];
	for (int i = 0; i < UNWIND_END_COUNT; i++)
		out->end[i] = n[SAMPLER_COUNT_END + i];
	/* the kernel took the frame for a root while a table was still being compiled */
	early =
	    s->build.early < out->end[STACK_END_ROOT] ? s->build.early : out->end[STACK_END_ROOT];
	out->end[STACK_END_ROOT] -= early;
	out->end[STACK_END_NO_TABLE] += early;
	guessed = s->build.guessed;
	for (int i = 0; i < UNWIND_END_COUNT && guessed; i++) {
		uint64_t moved = guessed < out->end[i] ? guessed : out->end[i];

		out->end[i] -= moved;
		guessed -= moved;
		out->end[STACK_END_GUESSED] += moved;
	}
	out->scanned = n[SAMPLER_COUNT_SCANNED];
	out->lost_count_full = n[SAMPLER_COUNT_FULL] + n[SAMPLER_COUNT_BLOCKED_FULL];
	out->lost_stack_full = s->stack_refused;
	out->lost_ring_full = s->build.missing;
	out->lost_mapping = n[SAMPLER_COUNT_UNMAPPED];
	out->python_frames = n[SAMPLER_COUNT_PYTHON_FRAMES];
	out->python_failed = n[SAMPLER_COUNT_PYTHON_FAILED] + s->build.unnamed;
	out->python_mismatch = s->build.mismatched;
	out->guessed = s->build.guessed;
	out->early = s->build.early;
	out->off_cpu_short = n[SAMPLER_COUNT_SHORT];
	out->off_cpu_asleep = s->asleep;
	out->off_cpu_captures = n[SAMPLER_COUNT_CAPTURES];
	out->off_cpu_leaf_only = n[SAMPLER_COUNT_UNSTACKED];
	switches_stats(s, out);
	sampler_maps_run_stats(s->maps, &out->run_count, &out->run_time_ns);
	out->target_count = n[SAMPLER_COUNT_TARGET_RUNS];
	out->target_ns = n[SAMPLER_COUNT_TARGET_NS];
	out->off_cpu_ns = n[SAMPLER_COUNT_CAPTURE_NS];
	out->map_bytes = sampler_maps_bytes(s->maps);
}

void sampler_stats_get(const struct sampler *s, struct sampler_stats *out)
{
	struct unwind_store_stats store;
	struct processes_stats p;
	struct copy_mode_stats copy;

	memset(out, 0, sizeof(*out));
	out->mode = s->mode;
	memcpy(out->why, s->why, sizeof(out->why));
	memcpy(out->missing, s->missing, sizeof(out->missing));
	if (s->mode == SAMPLER_OFF)
		return;
	processes_stats_get(s->processes, &p);
	out->processes = p.processes;
	out->mappings = p.mappings;
	out->pending = p.files_waiting;
	out->first_pending = p.first_waiting;
	out->python_refused = p.python_refused;
	memcpy(out->python_why, p.python_why, sizeof(out->python_why));
	out->python_full = p.python_full;
	out->mappings_dropped = p.mappings_dropped;
	out->publish_full = p.publish_full;
	out->scan_failed = p.scan_failed;
	out->tables_refused = p.files_refused;
	out->table_build_ns = p.worker_cpu_ns;
	out->readers = p.readers;
	unwind_store_stats_get(s->store, &store);
	out->tables = store.tables;
	out->table_bytes = store.bytes;
	if (s->copy) {
		copy_mode_stats_get(s->copy, &copy);
		out->samples = copy.samples;
		out->frames = copy.frames;
		out->lost_ring_full = copy.lost;
		out->scanned = copy.scanned;
		out->lost_mapping = copy.unmapped;
		out->guessed = copy.end[STACK_END_GUESSED];
		memcpy(out->end, copy.end, sizeof(out->end));
		return;
	}
	bpf_stats(s, out);
}
