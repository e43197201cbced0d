/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/trace/trace_label.h"

#include <stdio.h>

#include "base/check.h"
#include "base/hash.h"
#include "base/span_kind.h"
#include "base/text/text.h"

static void start(struct trace_label *l, const char *category)
{
	l->category = category;
	l->arg_count = 0;
	l->name[0] = '\0';
}

static struct trace_arg *next(struct trace_label *l, const char *key, enum trace_arg_type type)
{
	static __thread struct trace_arg spare;
	struct trace_arg *a = l->arg_count < TRACE_LABEL_ARGS ? &l->args[l->arg_count++] : &spare;

	a->key = key;
	a->type = type;
	return a;
}

static void put_uint(struct trace_label *l, const char *key, uint64_t v)
{
	next(l, key, TRACE_ARG_UINT)->u = v;
}

static void put_double(struct trace_label *l, const char *key, double v)
{
	next(l, key, TRACE_ARG_DOUBLE)->d = text_finite(v);
}

static void put_text(struct trace_label *l, const char *key, const char *text)
{
	struct trace_arg *a = next(l, key, TRACE_ARG_TEXT);

	snprintf(a->text, sizeof(a->text), "%s", text);
}

static const char *name_of(const struct trace_model *m, uint32_t id)
{
	return id < m->names.count ? m->names.text[id] : "";
}

static const char *gap_cause(uint32_t cause)
{
	static const char *const texts[] = {
	    "tracing reduced",
	    "switched off",
	    "another profiler has CUPTI",
	    "CUPTI refused",
	    "reduced to limit its cost",
	    "no sysomd",
	    "off for good after an internal failure",
	    "device records arrived late",
	};

	return texts[cause < ARRAY_LEN(texts) ? cause : 0];
}

static void put_geometry(struct trace_label *l, const struct record *r)
{
	char text[64];

	if (!r->grid[0] && !r->block[0])
		return;
	snprintf(text, sizeof(text), "%u,%u,%u", r->grid[0], r->grid[1], r->grid[2]);
	put_text(l, "grid", text);
	snprintf(text, sizeof(text), "%u,%u,%u", r->block[0], r->block[1], r->block[2]);
	put_text(l, "block", text);
	if (r->registers)
		put_uint(l, "registers", r->registers);
	if (r->shared_bytes)
		put_uint(l, "shared_bytes", r->shared_bytes);
}

static void put_collective(struct trace_label *l, const struct record *r)
{
	char text[32];

	snprintf(text, sizeof(text), "%016llx", (unsigned long long)r->key);
	put_text(l, "communicator", text);
	put_uint(l, "seq", r->seq);
	if (r->peer >= 0)
		put_uint(l, "peer", (uint64_t)r->peer);
}

/* What a catalogue says about a span; unknown kinds (a newer peer's) are left out. */
static void put_span(struct trace_label *l, const struct record *r)
{
#define X(name) name,
	static const char *const works[] = {SPAN_WORKS(X)};
	static const char *const processes[] = {SPAN_PROCESSES(X)};
	static const char *const threads[] = {SPAN_THREADS(X)};
#undef X
	char text[32];

	for (unsigned i = 0; i < 3; i++)
		if (r->grid[i])
			put_uint(l, works[i], r->grid[i]);
	if (r->bytes)
		put_uint(l, works[3], r->bytes);
	if (r->func && r->func < sizeof(processes) / sizeof(processes[0]))
		put_text(l, "process", processes[r->func]);
	if (r->dtype && r->dtype < sizeof(threads) / sizeof(threads[0]))
		put_text(l, "thread", threads[r->dtype]);
	if (r->key) {
		snprintf(text, sizeof(text), "%016llx", (unsigned long long)r->key);
		put_text(l, "request", text);
	}
}

static void label_host(struct trace_label *l, const struct record *r, const char *name)
{
	switch (r->kind) {
	case RECORD_LAUNCH:
		start(l, "launch");
		snprintf(l->name, sizeof(l->name), "launch%s%s", *name ? " " : "", name);
		put_geometry(l, r);
		break;
	case RECORD_GRAPH_LAUNCH:
		start(l, "launch");
		snprintf(l->name, sizeof(l->name), "launch graph%s%s", *name ? " " : "", name);
		break;
	case RECORD_COLL:
		start(l, "nccl");
		snprintf(l->name, sizeof(l->name), "nccl%s",
			 r->func == RECORD_COLL_GROUP_START ? "GroupStart"
			 : r->func == RECORD_COLL_GROUP_END ? "GroupEnd"
							    : record_coll_name(r->func));
		if (r->func < RECORD_COLL_GROUP_START)
			put_collective(l, r);
		break;
	case RECORD_SYNC:
		start(l, "sync");
		snprintf(l->name, sizeof(l->name), "%s", *name ? name : TRACE_LABEL_WAIT);
		break;
	case RECORD_MEM:
		start(l, "memory");
		snprintf(l->name, sizeof(l->name), "%s", r->bytes ? "allocate" : "free");
		break;
	case RECORD_SPAN:
		start(l, "span");
		snprintf(l->name, sizeof(l->name), "%s", *name ? name : "span");
		if (r->flags & RECORD_FLAG_PYTHON)
			put_span(l, r);
		break;
	case RECORD_GAP:
		start(l, "gap");
		snprintf(l->name, sizeof(l->name), "%s", gap_cause(r->seq));
		break;
	default:
		start(l, "host");
		snprintf(l->name, sizeof(l->name), "%s", *name ? name : record_kind_name(r->kind));
	}
	if (r->flags & RECORD_FLAG_FAILED)
		put_text(l, "failed", "yes");
	if (r->flags & RECORD_FLAG_CAPTURED)
		put_text(l, "captured", "into a graph");
}

static void label_device(struct trace_label *l, const struct record *r, const char *name)
{
	const char *fallback = "kernel";

	switch (r->kind) {
	case RECORD_COLL_KERNEL:
		start(l, "collective");
		fallback = record_coll_name(r->func);
		put_collective(l, r);
		break;
	case RECORD_COPY:
		start(l, "copy");
		fallback = "copy"; /* the model has a name for it, if it had room */
		break;
	case RECORD_MEMSET:
		start(l, "memset");
		fallback = "memset";
		break;
	case RECORD_GRAPH_EXEC:
		start(l, "graph");
		fallback = "graph";
		break;
	default:
		start(l, "kernel");
	}
	snprintf(l->name, sizeof(l->name), "%s", *name ? name : fallback);
	put_geometry(l, r);
	put_uint(l, "device", r->thread);
	put_uint(l, "stream", r->stream);
	if (r->flags & RECORD_FLAG_GRAPH)
		put_text(l, "in_graph", "yes");
	if (r->flags & RECORD_FLAG_UNMATCHED)
		put_text(l, "launch", "not found");
	else if (r->launch_ns && r->launch_ns <= r->begin_ns)
		put_double(l, "after_launch_us", (double)(r->begin_ns - r->launch_ns) / 1e3);
}

void trace_label_record(struct trace_label *l, const struct trace_model *m, const struct record *r)
{
	if (RECORD_IS_DEVICE(r->kind))
		label_device(l, r, name_of(m, r->name));
	else
		label_host(l, r, name_of(m, r->name));
	if (r->bytes)
		put_uint(l, "bytes", r->bytes);
	if (r->correlation)
		put_uint(l, "correlation", r->correlation);
}

void trace_label_step(struct trace_label *l, const struct window_step *s)
{
	start(l, "step");
	snprintf(l->name, sizeof(l->name), "step %llu%s", (unsigned long long)s->step.index,
		 s->flags & WINDOW_STEP_FLAGGED ? " (flagged)"
		 : s->flags & WINDOW_STEP_OUT	? " (slow)"
						: "");
	put_double(l, "latency_ms", (double)s->step.latency_ns / 1e6);
	put_double(l, "expected_ms", s->expected_ns / 1e6);
	put_double(l, "excess", s->excess);
	put_double(l, "self_ms", (double)s->step.self_ns / 1e6);
	put_double(l, "expected_self_ms", s->expected_self_ns / 1e6);
	put_double(l, "self_excess", s->self_excess);
	put_double(l, "compute_ms", (double)s->step.compute_ns / 1e6);
	put_double(l, "comm_ms", (double)s->step.comm_ns / 1e6);
	put_double(l, "exposed_comm_ms", (double)s->step.exposed_comm_ns / 1e6);
	put_double(l, "copy_ms", (double)s->step.copy_ns / 1e6);
	put_double(l, "idle_ms", (double)s->step.idle_ns / 1e6);
	put_double(l, "launch_gap_max_ms", (double)s->step.launch_gap_max_ns / 1e6);
	put_uint(l, "kernels", s->step.kernels);
	put_uint(l, "collectives", s->step.collectives);
	put_uint(l, "phase", s->step.phase);
	if (s->flags & WINDOW_STEP_MARGIN)
		put_text(l, "margin", "before or after the anomaly");
	if (s->step.flags & STEP_FLAG_INCOMPLETE)
		put_text(l, "incomplete", "some kernels were not seen");
	if (s->step.flags & STEP_FLAG_CPU_BOUND)
		put_text(l, "cpu_bound", "the GPU waited for launches");
}

void trace_label_window(struct trace_label *l, const struct trace_window *w)
{
	start(l, "window");
	snprintf(l->name, sizeof(l->name), "window (%s)", window_reason_name(w->reason));
	put_uint(l, "flagged_steps", w->flagged);
	put_double(l, "model_r2", w->model_r2);
	if (w->summary_only)
		put_text(l, "summary_only", "records left out");
}

uint64_t trace_label_collective(const struct record *r)
{
	uint64_t h;

	if (!r->key || !record_is_collective(r) || r->func >= RECORD_COLL_GROUP_START)
		return 0;
	h = hash_mix(r->key ^ hash_mix((uint64_t)r->func << 32 | r->seq));
	return h ? h : 1;
}
