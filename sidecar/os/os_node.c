/* SPDX-License-Identifier: Apache-2.0
 * sysomd's use of the OS signals: which processes are watched, what goes into a window, status and
 * metrics. */
#include "sidecar/os/os_node.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/robust/median.h"
#include "base/daemon/log.h"
#include "base/metrics/metrics.h"
#include "base/text/json_text.h"
#include "sidecar/os/os_signals.h"
#include "sidecar/process.h"
#include "sidecar/stacks/cpu_stacks.h"

/* Loading the programs takes the kernel's verifier half a second. Rings would not be read
 * meanwhile, so a thread does it and the loop takes the result. */
struct opening {
	pthread_t thread;
	struct os_signals_options options;
	struct os_signals *os;
	int err;
	bool done;
};

struct os_node {
	struct os_signals *signals; /* NULL: being loaded, or it failed */
	struct opening *opening;    /* NULL: not being loaded */
	bool paused;
};

static void *open_signals(void *arg)
{
	struct opening *o = arg;

	o->err = os_signals_open(&o->os, &o->options, clock_monotonic_ns());
	/* release: pairs with the acquire in take_opened */
	__atomic_store_n(&o->done, true, __ATOMIC_RELEASE);
	return NULL;
}

int os_node_open(struct node *n)
{
	struct opening *o;
	int err;

	if (!n->settings.os_signals)
		return 0;
	n->os = calloc(1, sizeof(*n->os));
	o = calloc(1, sizeof(*o));
	if (!n->os || !o) {
		free(o);
		return -ENOMEM;
	}
	o->options = (struct os_signals_options){.proc_root = n->settings.proc_root,
						 .sys_root = n->settings.sys_root,
						 .canary = n->analysis.canary,
						 .no_bpf = !n->settings.os_bpf,
						 .bpf_budget = n->settings.os_bpf_budget / 100};
	err = pthread_create(&o->thread, NULL, open_signals, o);
	if (err) {
		free(o);
		return -err;
	}
	n->os->opening = o;
	return 0;
}

/* Takes the loaded signals. wait: waits until loading ends. */
static void take_opened(struct os_node *k, bool wait)
{
	struct opening *o = k->opening;
	struct os_signals_stats st;

	/* acquire: pairs with the release in open_signals */
	if (!o || (!wait && !__atomic_load_n(&o->done, __ATOMIC_ACQUIRE)))
		return;
	pthread_join(o->thread, NULL);
	k->signals = o->os;
	k->opening = NULL;
	malloc_trim(0); /* loading the programs took megabytes */
	if (o->err) {
		log_warn("os_signals", "not opened: %s; there are no OS signals",
			 strerror(-o->err));
	} else {
		os_signals_stats(k->signals, &st);
		log_info("os_signals", "bpf=%d why=\"%s\" missing=\"%s\" map_bytes=%llu", st.bpf,
			 st.why, st.missing, (unsigned long long)st.map_bytes);
	}
	free(o);
}

void os_node_close(struct node *n)
{
	if (!n->os)
		return;
	take_opened(n->os, true);
	os_signals_close(n->os->signals);
	free(n->os);
	n->os = NULL;
}

static bool is_alive(const struct node *n, uint32_t pid)
{
	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++) {
		const struct process *p = n->processes[i];

		if (p && p->pid > 0 && (uint32_t)p->pid == pid)
			return true;
	}
	return false;
}

/* Logs a change of the groups that the budget detached. */
static void log_turned_down(const struct os_signals *os)
{
	static char logged[sizeof(((struct os_signals_stats *)0)->turned_down)];
	struct os_signals_stats st;

	os_signals_stats(os, &st);
	if (!strcmp(logged, st.turned_down))
		return;
	snprintf(logged, sizeof(logged), "%s", st.turned_down);
	if (*logged)
		log_warn("os_signals", "over os.bpf_budget (%.3g%%); detached for a while: %s",
			 100 * st.budget, logged);
	else
		log_info("os_signals", "all programs attached again");
}

void os_node_tend(struct node *n, uint64_t now_ns)
{
	struct os_signals *os;
	uint32_t pid;

	if (n->os)
		take_opened(n->os, false);
	os = os_node_signals(n);
	if (!os)
		return;
	if (n->os->paused != n->run.idle) {
		n->os->paused = n->run.idle;
		os_signals_pause(os, n->run.idle);
		if (!n->run.idle) /* counts so far belong to no rank */
			os_signals_read(os, now_ns);
	}
	if (n->run.idle)
		return;
	/* keep watching ended processes until they are forgotten: their last windows need the
	 * signals */
	for (uint32_t i = 0; (pid = os_signals_rank(os, i));)
		if (is_alive(n, pid))
			i++;
		else
			os_signals_unwatch(os, pid);
	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++) {
		const struct process *p = n->processes[i];

		if (p && p->pid > 0 && p->state != PROCESS_GONE)
			os_signals_watch(os, (uint32_t)p->pid, now_ns);
	}
	os_signals_closer(os, process_any_anomaly(n, now_ns));
	os_signals_read(os, now_ns);
	log_turned_down(os);
}

/* Median latency of the flagged steps; of all steps if none is flagged. */
static double step_ms(const struct window *w)
{
	double *v = malloc(sizeof(*v) * (w->step_count + 1)), median;
	uint32_t n = 0;

	if (!v)
		return 0;
	for (uint32_t i = 0; i < w->step_count; i++)
		if (w->steps[i].flags & WINDOW_STEP_FLAGGED)
			v[n++] = (double)w->steps[i].step.latency_ns;
	for (uint32_t i = 0; !n && i < w->step_count; i++)
		v[i] = (double)w->steps[i].step.latency_ns;
	median = median_of(v, n ? n : w->step_count);
	free(v);
	return median * 1e-6;
}

/* The flagged steps' time range: the margins around it are usual time. */
static void stretch(const struct window *w, uint64_t *begin_ns, uint64_t *end_ns)
{
	bool found = false;

	*begin_ns = w->begin_ns;
	*end_ns = w->end_ns;
	for (uint32_t i = 0; i < w->step_count; i++) {
		const struct window_step *s = &w->steps[i];

		if (!(s->flags & WINDOW_STEP_FLAGGED))
			continue;
		if (!found)
			*begin_ns = s->step.begin_ns;
		*end_ns = s->step.end_ns;
		found = true;
	}
}

bool os_node_read(struct process *p)
{
	struct os_signals *os = os_node_signals(p->node);

	if (!os || p->pid <= 0 || !os_signals_watches(os, (uint32_t)p->pid))
		return false;
	os_signals_read(os, clock_monotonic_ns());
	return true;
}

void os_node_fill(struct process *p, struct window *w)
{
	struct os_signals *os = os_node_signals(p->node);
	uint64_t begin_ns, end_ns;
	struct os_signals_stats st;

	w->signals = calloc(LIMIT_WINDOW_SIGNALS, sizeof(*w->signals));
	if (!w->signals)
		return;
	stretch(w, &begin_ns, &end_ns);
	w->signal_count =
	    os_signals_window(os, (uint32_t)p->pid, begin_ns, end_ns, step_ms(w),
			      w->reason == WINDOW_SELF || w->reason == WINDOW_COMM ||
				  w->reason == WINDOW_STALL || w->reason == WINDOW_PEER,
			      w->signals, LIMIT_WINDOW_SIGNALS);
	os_signals_stats(os, &st);
	if (!st.bpf) /* without BPF only the sampler knows the other processes */
		cpu_stacks_neighbours(p->node->stacks, (uint32_t)p->pid, begin_ns, end_ns,
				      step_ms(w), w->signals, &w->signal_count,
				      LIMIT_WINDOW_SIGNALS);
}

struct os_signals *os_node_signals(const struct node *n)
{
	return n->os ? n->os->signals : NULL;
}

/* ---- status and metrics ---- */

void os_node_json(const struct node *n, struct buf *b)
{
	const struct os_signals *os = os_node_signals(n);
	struct os_signals_stats st;

	if (!os) {
		buf_puts(b, n->os && n->os->opening
				? "\"os\":{\"mode\":\"starting\",\"why\":\"\"},"
				: "\"os\":{\"mode\":\"off\",\"why\":\"switched off\"},");
		return;
	}
	os_signals_stats(os, &st);
	buf_printf(b, "\"os\":{\"mode\":\"%s\"", st.bpf ? "bpf" : "proc");
	json_text_append(b, ",\"why\":", st.why);
	json_text_append(b, ",\"missing\":", st.missing);
	buf_printf(
	    b,
	    ",\"processes\":%u,"
	    "\"threads\":%u,\"series\":%u,\"map_bytes\":%llu,\"lost\":{\"threads\":%llu,"
	    "\"others\":%llu,\"block\":%llu,\"locks\":%llu,\"processes\":%llu,\"series\":%llu},"
	    "\"cost\":{\"measurements\":%llu,\"share\":%.6f,\"budget\":%.6f",
	    st.processes, st.threads, st.series, (unsigned long long)st.map_bytes,
	    (unsigned long long)st.lost_threads, (unsigned long long)st.lost_others,
	    (unsigned long long)st.lost_block, (unsigned long long)st.lost_locks,
	    (unsigned long long)st.lost_processes, (unsigned long long)st.lost_series,
	    (unsigned long long)st.cost_measurements, st.cost, st.budget);
	json_text_append(b, ",\"turned_down\":", st.turned_down);
	buf_puts(b, "}},");
}

void os_node_metrics(const struct node *n, struct metrics *m)
{
	const struct os_signals *os = os_node_signals(n);
	struct os_signals_stats st = {.bpf = false};

	if (os)
		os_signals_stats(os, &st);
	METRICS(
	    m, {"sysom_os_bpf", "1 while OS signals come from BPF.", st.bpf},
	    {"sysom_os_processes", "Processes whose OS signals are kept.", st.processes},
	    {"sysom_os_map_bytes", "Kernel memory of the OS signals' maps.", st.map_bytes},
	    {"sysom_os_read_seconds_total", "CPU time spent on reading OS signals.",
	     st.read_ns * 1e-9},
	    {"sysom_os_bpf_cost_ratio",
	     "Time in the OS signals' programs when last measured, as a share of the time of all "
	     "CPUs.",
	     st.cost},
	    {"sysom_os_bpf_budget_ratio", "Limit of sysom_os_bpf_cost_ratio; 0: no limit.",
	     st.budget},
	    {"sysom_os_bpf_turned_down", "1 while programs are detached because of their cost.",
	     *st.turned_down != 0});
	METRICS_BY(m, "sysom_os_lost_total", "OS signals that found no room, by table.", "what",
		   {"threads", st.lost_threads}, {"others", st.lost_others},
		   {"block", st.lost_block}, {"locks", st.lost_locks},
		   {"processes", st.lost_processes}, {"series", st.lost_series});
}
