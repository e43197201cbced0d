/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/trace/export.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text/json_text.h"
#include "cli/text/outfile.h"
#include "cli/trace/trace_label.h"
#include "render/term.h"

/* The base of times is a multiple of it. So files of several ranks, written separately, have the same base,
 * and a double still resolves nanoseconds. */
#define BASE_NS (90ull * 86400 * 1000000000)

struct writer {
	const struct trace_model *model;
	FILE *to;
	uint64_t base_ns, slices;
	bool several;
};

static void put_us(FILE *to, uint64_t ns)
{
	fprintf(to, "%llu.%03u", (unsigned long long)(ns / 1000), (unsigned)(ns % 1000));
}

static const char *category(const struct trace_label *l)
{
	static const struct {
		const char *ours, *kineto;
	} names[] = {
	    {"kernel", "kernel"},
	    {"collective", "kernel"},
	    {"graph", "kernel"},
	    {"copy", "gpu_memcpy"},
	    {"memset", "gpu_memset"},
	    {"launch", "cuda_runtime"},
	    {"sync", "cuda_runtime"},
	    {"memory", "cuda_runtime"},
	    {"host", "cuda_runtime"},
	    {"nccl", "cpu_op"},
	    {"span", "user_annotation"},
	    {"step", "user_annotation"},
	    {TRACE_LABEL_HOLE_CATEGORY, TRACE_LABEL_HOLE_CATEGORY},
	};

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (strcmp(l->category, names[i].ours) == 0)
			return names[i].kineto;
	return "user_annotation";
}

static void put_arg(FILE *to, const struct trace_arg *a)
{
	json_text_print(to, "", a->key);
	if (a->type == TRACE_ARG_UINT) /* many readers keep a number as a double */
		fprintf(to, a->u > 1ull << 53 ? ": \"%llu\"" : ": %llu", (unsigned long long)a->u);
	else if (a->type == TRACE_ARG_DOUBLE)
		fprintf(to, ": %.6g", a->d);
	else if (!strcmp(a->key, "grid") || !strcmp(a->key, "block"))
		fprintf(to, ": [%s]", a->text); /* three numbers of ours */
	else
		json_text_print(to, ": ", a->text);
}

/* Kineto has processes by pid and devices by ordinal. In a file of several ranks these may be equal, so
 * they are made up. */
static unsigned long host_pid(const struct writer *w, size_t rank)
{
	return w->several ? (rank + 1) * 100000ul : w->model->ranks[rank].who.pid;
}

static unsigned long device_pid(const struct writer *w, size_t rank, uint32_t device)
{
	return w->several ? (rank + 1) * 100000ul + 1000 + device % 1000 : device;
}

/* Gives a launch its call's usual name and its kernels' correlation: the record has neither. */
static void label_launch(struct trace_label *l, const struct record *h, uint32_t correlation)
{
	bool graph = h->kind == RECORD_GRAPH_LAUNCH;

	if (graph || h->kind == RECORD_LAUNCH)
		snprintf(l->name, sizeof(l->name), "%s",
			 graph ? "cuGraphLaunch" : "cuLaunchKernel");
	if (correlation && !h->correlation && l->arg_count < TRACE_LABEL_ARGS)
		l->args[l->arg_count++] = (struct trace_arg){
		    .key = "correlation", .type = TRACE_ARG_UINT, .u = correlation};
}

static void put_event(struct writer *w, const struct trace_label *l, unsigned long pid,
		      const char *tid, uint64_t begin_ns, uint64_t end_ns)
{
	json_text_print(w->to, ",\n{\"ph\": \"X\", \"cat\": ", category(l));
	json_text_print(w->to, ", \"name\": ", l->name);
	fprintf(w->to, ", \"pid\": %lu, \"tid\": %s, \"ts\": ", pid, tid);
	put_us(w->to, begin_ns - w->base_ns);
	fputs(", \"dur\": ", w->to);
	put_us(w->to, end_ns - begin_ns);
	fputs(", \"args\": {", w->to);
	for (uint32_t i = 0; i < l->arg_count; i++) {
		if (i)
			fputs(", ", w->to);
		put_arg(w->to, &l->args[i]);
	}
	fputs("}}", w->to);
	w->slices++;
}

static void put_flow(struct writer *w, char phase, uint64_t id, unsigned long pid, const char *tid,
		     uint64_t ns)
{
	fprintf(w->to,
		",\n{\"ph\": \"%c\", \"id\": %llu, \"pid\": %lu, \"tid\": %s, \"ts\": ", phase,
		(unsigned long long)id, pid, tid);
	put_us(w->to, ns - w->base_ns);
	fprintf(w->to, ", \"cat\": \"ac2g\", \"name\": \"ac2g\"%s}",
		phase == 'f' ? ", \"bp\": \"e\"" : "");
}

static void put_name(struct writer *w, unsigned long pid, const char *name, bool first)
{
	fprintf(
	    w->to,
	    "%s{\"ph\": \"M\", \"name\": \"process_name\", \"pid\": %lu, \"tid\": 0, \"ts\": 0, "
	    "\"args\": {\"name\": ",
	    first ? "\n" : ",\n", pid);
	json_text_print(w->to, "", name);
	fputs("}}", w->to);
}

static void put_processes(struct writer *w)
{
	bool first = true;

	for (size_t i = 0; i < w->model->rank_count; i++) {
		const struct trace_rank *r = &w->model->ranks[i];
		uint64_t seen[4] = {0}; /* devices 0..255 */
		char text[4 * WIRE_TEXT_BYTES];

		snprintf(text, sizeof(text), "%s%s%s on %s",
			 r->who.rank < 0 ? "" : term_rank(r->who.rank), r->who.rank < 0 ? "" : " ",
			 r->who.program, r->who.node);
		put_name(w, host_pid(w, i), text, first);
		first = false;
		for (size_t k = 0; k < r->device_count; k++) {
			uint32_t d = r->device[k].thread;

			if (d > 255 || seen[d / 64] & 1ull << d % 64)
				continue;
			seen[d / 64] |= 1ull << d % 64;
			snprintf(text, sizeof(text), "GPU %u of %s", d, term_rank(r->who.rank));
			put_name(w, device_pid(w, i, d), text, false);
		}
	}
}

struct launched {
	bool any;
	uint32_t correlation; /* 0: not known */
};

/* Marks the time between a rank's windows as not recorded, so that it does not look like a long step.
 * `sysom replay events` reads these marks. */
static void put_holes(struct writer *w, size_t index)
{
	const struct trace_rank *r = &w->model->ranks[index];
	static const struct trace_label l = {.name = TRACE_LABEL_HOLE,
					     .category = TRACE_LABEL_HOLE_CATEGORY};
	uint64_t until_ns = 0;

	for (size_t i = 0; i < r->window_count; i++) {
		const struct trace_window *t = &r->windows[i];

		if (t->summary_only)
			continue;
		if (until_ns && t->begin_ns > until_ns)
			put_event(w, &l, host_pid(w, index), "\"steps\"", until_ns, t->begin_ns);
		until_ns = t->end_ns > until_ns ? t->end_ns : until_ns;
	}
}

static void put_rank(struct writer *w, size_t index)
{
	const struct trace_rank *r = &w->model->ranks[index];
	struct launched *launched = calloc(r->host_count + 1, sizeof(*launched));
	static struct trace_label l;
	char tid[32];

	for (size_t i = 0; i < r->device_count; i++) {
		const struct record *d = &r->device[i];
		unsigned long pid = device_pid(w, index, d->thread);
		ptrdiff_t launch = trace_model_launch(r, d);

		snprintf(tid, sizeof(tid), "%u", d->stream);
		trace_label_record(&l, w->model, d);
		put_event(w, &l, pid, tid, d->begin_ns, d->end_ns);
		if (launch < 0 || !launched)
			continue;
		launched[launch].any = true;
		if (!launched[launch].correlation)
			launched[launch].correlation = d->correlation;
		put_flow(w, 'f', (uint64_t)(index + 1) << 40 | (uint64_t)(launch + 1), pid, tid,
			 d->begin_ns);
	}
	for (size_t i = 0; i < r->host_count; i++) {
		const struct record *h = &r->host[i];

		if (h->kind == RECORD_STEP_BEGIN || h->kind == RECORD_STEP_END)
			continue;
		snprintf(tid, sizeof(tid), "%u", h->thread);
		trace_label_record(&l, w->model, h);
		label_launch(&l, h, launched ? launched[i].correlation : 0);
		put_event(w, &l, host_pid(w, index), tid, h->begin_ns, h->end_ns);
		if (launched && launched[i].any)
			put_flow(w, 's', (uint64_t)(index + 1) << 40 | (uint64_t)(i + 1),
				 host_pid(w, index), tid, h->begin_ns);
	}
	for (size_t i = 0; i < r->step_count; i++) {
		const struct step *s = &r->steps[i].step;

		trace_label_step(&l, &r->steps[i]);
		put_event(w, &l, host_pid(w, index), "\"steps\"", s->begin_ns, s->end_ns);
	}
	put_holes(w, index);
	free(launched);
}

static uint64_t earliest(const struct trace_model *m)
{
	uint64_t t = UINT64_MAX;

	for (size_t i = 0; i < m->rank_count; i++) {
		const struct trace_rank *r = &m->ranks[i];

		if (r->host_count && r->host[0].begin_ns < t)
			t = r->host[0].begin_ns;
		if (r->device_count && r->device[0].begin_ns < t)
			t = r->device[0].begin_ns;
		if (r->step_count && r->steps[0].step.begin_ns < t)
			t = r->steps[0].step.begin_ns;
		if (r->window_count && r->windows[0].begin_ns < t)
			t = r->windows[0].begin_ns;
	}
	return t == UINT64_MAX ? 0 : t;
}

int export_kineto_write(const struct trace_model *m, FILE *to, uint64_t *slices)
{
	uint64_t from_ns = earliest(m);
	struct writer w = {.model = m,
			   .to = to,
			   .base_ns = from_ns - from_ns % BASE_NS,
			   .several = m->rank_count > 1};

	fprintf(
	    to,
	    "{\"schemaVersion\": 1, \"displayTimeUnit\": \"ms\", \"baseTimeNanoseconds\": %llu, "
	    "\"deviceProperties\": [],",
	    (unsigned long long)w.base_ns);
	if (m->rank_count == 1)
		fprintf(to,
			"\n\"distributedInfo\": {\"backend\": \"nccl\", \"rank\": %d, "
			"\"world_size\": %d},",
			m->ranks[0].who.rank, m->ranks[0].who.world_size);
	fputs("\n\"traceEvents\": [", to);
	put_processes(&w);
	for (size_t i = 0; i < m->rank_count; i++)
		put_rank(&w, i);
	fputs("\n]}\n", to);
	*slices = w.slices;
	return outfile_error(to);
}
