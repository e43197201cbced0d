/* SPDX-License-Identifier: Apache-2.0
 * A buffer for all steps of a minute would need 60,000 entries. Every n-th step gives the same
 * medians, so only these are stored, and n doubles when the buffer is full. Kernels are summed over
 * all healthy steps. */
#include "node/normal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/robust/median.h"
#include "base/hash.h"
#include "base/limits.h"
#include "base/order.h"
#include "base/probe.h"

#define KEPT_MAX 1024u
enum { LATENCY, SELF, COMPUTE, COMM, EXPOSED, COPY, IDLE, LAUNCHES, VALUES };

struct kernel {
	uint32_t name; /* 0: free */
	double count, total_ns;
};

struct normal {
	uint64_t begin_ns, end_ns, steps, flagged, healthy;
	double value[VALUES][KEPT_MAX], sorted[KEPT_MAX];
	uint32_t kept, stride_log;
	struct kernel kernel[2 * NORMAL_KERNELS_MAX]; /* by hash of the name */
	uint32_t kernel_count, kernels_cut;
	struct {
		uint32_t tid;
		uint64_t launches;
	} thread[NORMAL_THREADS_MAX];
	uint32_t thread_count, thread_last;
	struct normal_span span[NORMAL_SPANS_MAX];
	uint32_t span_count;
};

int normal_open(struct normal **out)
{
	struct normal *n = calloc(1, sizeof(*n));

	if (!n)
		return -ENOMEM;
	*out = n;
	return 0;
}

void normal_close(struct normal *n)
{
	free(n);
}

uint64_t normal_steps(const struct normal *n)
{
	return n->steps;
}

void normal_host(struct normal *n, const struct record *r)
{
	uint32_t i;

	if (r->kind != RECORD_LAUNCH && r->kind != RECORD_GRAPH_LAUNCH)
		return;
	if (n->thread_last < n->thread_count && n->thread[n->thread_last].tid == r->thread) {
		n->thread[n->thread_last].launches++;
		return;
	}
	for (i = 0; i < n->thread_count && n->thread[i].tid != r->thread; i++)
		;
	if (i == NORMAL_THREADS_MAX)
		/* with this many threads, a further one hardly makes a tenth of the launches */
		return;
	n->thread_count += i == n->thread_count;
	n->thread[i].tid = r->thread;
	n->thread[i].launches++;
	n->thread_last = i;
}

static void add_kernel(struct normal *n, const struct step_kernel *k)
{
	if (!k->name)
		return;
	PROBE_PLACES (at, hash_mix(k->name), 2 * NORMAL_KERNELS_MAX) {
		struct kernel *have = &n->kernel[at];

		if (have->name && have->name != k->name)
			continue;
		if (!have->name && n->kernel_count == NORMAL_KERNELS_MAX) {
			n->kernels_cut++;
			return;
		}
		n->kernel_count += !have->name;
		have->name = k->name;
		have->count += k->count;
		have->total_ns += (double)k->total_ns;
		return;
	}
}

static void keep_values(struct normal *n, const struct step *s)
{
	const double v[VALUES] = {
	    [LATENCY] = (double)s->latency_ns,
	    [SELF] = (double)s->self_ns,
	    [COMPUTE] = (double)s->compute_ns,
	    [COMM] = (double)s->comm_ns,
	    [EXPOSED] = (double)s->exposed_comm_ns,
	    [COPY] = (double)s->copy_ns,
	    [IDLE] = (double)s->idle_ns,
	    [LAUNCHES] = (double)s->launches,
	};

	if ((n->healthy & ((1ull << n->stride_log) - 1)) != 0)
		return;
	if (n->kept == KEPT_MAX) {
		for (int i = 0; i < VALUES; i++)
			for (uint32_t k = 0; k < KEPT_MAX / 2; k++)
				n->value[i][k] = n->value[i][2 * k];
		n->kept = KEPT_MAX / 2;
		n->stride_log++;
	}
	for (int i = 0; i < VALUES; i++)
		n->value[i][n->kept] = v[i];
	n->kept++;
}

/* If there is no room, extends the last span. */
static void add_span(struct normal *n, uint64_t begin_ns, uint64_t end_ns)
{
	struct normal_span *last = n->span_count ? &n->span[n->span_count - 1] : NULL;

	if (last && (begin_ns <= last->end_ns || n->span_count == NORMAL_SPANS_MAX)) {
		last->end_ns = end_ns > last->end_ns ? end_ns : last->end_ns;
		return;
	}
	n->span[n->span_count++] = (struct normal_span){begin_ns, end_ns};
}

void normal_step(struct normal *n, const struct window_step *ws, bool used,
		 const struct step_kernel *kernels, uint32_t kernel_count)
{
	const struct step *s = &ws->step;

	if (!n->steps++)
		n->begin_ns = s->begin_ns;
	n->end_ns = s->end_ns;
	if (ws->flags & WINDOW_STEP_FLAGGED) {
		n->flagged++;
		add_span(n, s->begin_ns, s->end_ns);
	}
	if (!used || ws->period || ws->flags & (WINDOW_STEP_FLAGGED | WINDOW_STEP_OUT))
		return;
	keep_values(n, s);
	n->healthy++;
	for (uint32_t i = 0; i < kernel_count; i++)
		add_kernel(n, &kernels[i]);
}

static double median(struct normal *n, int which)
{
	memcpy(n->sorted, n->value[which], sizeof(n->sorted[0]) * n->kept);
	return median_of(n->sorted, n->kept);
}

static double spread(struct normal *n, int which, double middle)
{
	memcpy(n->sorted, n->value[which], sizeof(n->sorted[0]) * n->kept);
	return median_mad(n->sorted, n->kept, middle);
}

static void fill_figures(struct normal *n, struct sketch *s)
{
	s->begin_ns = n->begin_ns;
	s->end_ns = n->end_ns;
	s->steps = n->steps;
	s->flagged = n->flagged;
	s->latency_ns = median(n, LATENCY);
	s->latency_mad_ns = spread(n, LATENCY, s->latency_ns);
	s->self_ns = median(n, SELF);
	s->self_mad_ns = spread(n, SELF, s->self_ns);
	s->compute_ns = median(n, COMPUTE);
	s->comm_ns = median(n, COMM);
	s->exposed_comm_ns = median(n, EXPOSED);
	s->copy_ns = median(n, COPY);
	s->idle_ns = median(n, IDLE);
	s->launches = median(n, LAUNCHES);
}

ORDER_BY(by_time, struct kernel, ORDER_DOWN(total_ns) ?: ORDER_UP(name));

static int fill_kernels(struct normal *n, const char *(*name)(void *arg, uint32_t id), void *arg,
			struct sketch *s)
{
	struct kernel *list = malloc(sizeof(*list) * (n->kernel_count + 1));
	uint32_t count = 0;
	int err = 0;

	s->kernels = calloc(LIMIT_SKETCH_KERNELS, sizeof(*s->kernels));
	if (!list || !s->kernels)
		err = -ENOMEM;
	for (uint32_t i = 0; !err && i < 2 * NORMAL_KERNELS_MAX; i++)
		if (n->kernel[i].name)
			list[count++] = n->kernel[i];
	if (!err)
		qsort(list, count, sizeof(*list), by_time);
	s->kernels_cut = n->kernels_cut;
	for (uint32_t i = 0; !err && i < count; i++) {
		const char *text = name(arg, list[i].name);
		struct sketch_kernel *k;

		if (!*text || s->kernel_count == LIMIT_SKETCH_KERNELS) {
			s->kernels_cut++;
			continue;
		}
		k = &s->kernels[s->kernel_count++];
		k->name = strndup(text, LIMIT_NAME_BYTES);
		k->per_step = list[i].count / (double)n->healthy;
		k->ns_per_step = list[i].total_ns / (double)n->healthy;
		err = k->name ? 0 : -ENOMEM;
	}
	free(list);
	return err;
}

static void fill_when(const struct normal *n, struct normal_when *when)
{
	uint64_t all = 0;

	memset(when, 0, sizeof(*when));
	for (uint32_t i = 0; i < n->thread_count; i++)
		all += n->thread[i].launches;
	for (uint32_t i = 0; i < n->thread_count; i++)
		if (n->thread[i].launches * 10 >= all)
			when->threads[when->thread_count++] = n->thread[i].tid;
	memcpy(when->spans, n->span, sizeof(n->span));
	when->span_count = n->span_count;
	when->healthy = n->healthy;
}

int normal_take(struct normal *n, const char *(*name)(void *arg, uint32_t id), void *arg,
		struct sketch *s, struct normal_when *when)
{
	int err = fill_kernels(n, name, arg, s);

	if (err) {
		wire_sketch_free(s);
		return err;
	}
	fill_figures(n, s);
	fill_when(n, when);
	memset(n, 0, sizeof(*n));
	return 0;
}
