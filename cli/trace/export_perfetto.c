/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/trace/export.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/hash.h"
#include "base/limits.h"
#include "base/order.h"
#include "base/room.h"
#include "base/sorted.h"
#include "cli/perfetto.pb-c.h"
#include "cli/profile/incident_stacks.h"
#include "cli/text/intern.h"
#include "cli/trace/export_stacks.h"
#include "cli/trace/trace_label.h"
#include "cli/trace/trace_lanes.h"
#include "model/kernel_name.h"
#include "render/term.h"

#define SEQUENCE 1

typedef Perfetto__Protos__TracePacket packet_t;
typedef Perfetto__Protos__TrackDescriptor track_t;

struct writer {
	struct trace_model *model;
	FILE *to;
	struct buf out;
	struct intern names, categories, keys; /* that the file has */
	uint64_t slices, left_out;
	uint32_t rank;
	char name[LIMIT_NAME_BYTES + 1]; /* of the event being written */
	struct export_stacks stacks;
	uint8_t *launched; /* per host record of the rank: a kernel's flow begins there */
	int err;
};

/* ---- packets ---- */

static void put_packet(struct writer *w, packet_t *p)
{
	Perfetto__Protos__Trace trace = PERFETTO__PROTOS__TRACE__INIT;
	size_t bytes;
	void *at;

	p->has_trusted_packet_sequence_id = 1;
	p->trusted_packet_sequence_id = SEQUENCE;
	trace.n_packet = 1;
	trace.packet = &p; /* Trace messages concatenate */
	bytes = perfetto__protos__trace__get_packed_size(&trace);
	buf_clear(&w->out);
	at = buf_reserve(&w->out, bytes);
	if (!at) {
		w->err = w->err ? w->err : -ENOMEM;
		return;
	}
	perfetto__protos__trace__pack(&trace, at);
	if (fwrite(at, 1, bytes, w->to) != bytes)
		w->err = w->err ? w->err : errno ? -errno : -EIO;
}

static void put_clocks(struct writer *w)
{
	const struct trace_rank *r = w->model->rank_count ? &w->model->ranks[0] : NULL;
	Perfetto__Protos__ClockSnapshot snapshot = PERFETTO__PROTOS__CLOCK_SNAPSHOT__INIT;
	Perfetto__Protos__ClockSnapshot__Clock clocks[2] =
	    {PERFETTO__PROTOS__CLOCK_SNAPSHOT__CLOCK__INIT,
	     PERFETTO__PROTOS__CLOCK_SNAPSHOT__CLOCK__INIT},
					       *both[2] = {&clocks[0], &clocks[1]};
	Perfetto__Protos__TracePacketDefaults defaults =
	    PERFETTO__PROTOS__TRACE_PACKET_DEFAULTS__INIT;
	uint64_t now = r && r->window_count ? r->windows[0].begin_ns : 0;
	packet_t p = PERFETTO__PROTOS__TRACE_PACKET__INIT;

	clocks[0].has_clock_id = clocks[1].has_clock_id = 1;
	clocks[0].has_timestamp = clocks[1].has_timestamp = 1;
	clocks[0].clock_id = PERFETTO__PROTOS__BUILTIN_CLOCK__BUILTIN_CLOCK_REALTIME;
	clocks[0].timestamp = now;
	/* the clock of the first rank's node */
	clocks[1].clock_id = PERFETTO__PROTOS__BUILTIN_CLOCK__BUILTIN_CLOCK_MONOTONIC;
	clocks[1].timestamp = r ? now - (uint64_t)r->realtime_offset_ns : now;
	snapshot.clocks = both;
	snapshot.n_clocks = 2;
	snapshot.has_primary_trace_clock = 1;
	snapshot.primary_trace_clock = PERFETTO__PROTOS__BUILTIN_CLOCK__BUILTIN_CLOCK_REALTIME;
	p.clock_snapshot = &snapshot;
	p.has_first_packet_on_sequence = p.first_packet_on_sequence = 1;
	p.has_sequence_flags = 1;
	p.sequence_flags =
	    PERFETTO__PROTOS__TRACE_PACKET__SEQUENCE_FLAGS__SEQ_INCREMENTAL_STATE_CLEARED;
	defaults.has_timestamp_clock_id = 1;
	defaults.timestamp_clock_id = PERFETTO__PROTOS__BUILTIN_CLOCK__BUILTIN_CLOCK_REALTIME;
	p.trace_packet_defaults = &defaults;
	put_packet(w, &p);
}

static void put_track(struct writer *w, track_t *t, uint64_t uuid, uint64_t parent)
{
	packet_t p = PERFETTO__PROTOS__TRACE_PACKET__INIT;

	t->has_uuid = 1;
	t->uuid = uuid;
	t->has_parent_uuid = parent != 0;
	t->parent_uuid = parent;
	p.track_descriptor = t;
	put_packet(w, &p);
}

/* Track ids must differ within the file and not be 0. */
static uint64_t track_id(const struct writer *w, unsigned group, uint64_t a, uint64_t b)
{
	uint64_t h = hash_mix(((uint64_t)w->rank << 32 | group) + 1);

	h = hash_mix(h ^ a);
	h = hash_mix(h ^ b);
	return h ? h : 1;
}

/* ---- interning ---- */

struct interned {
	Perfetto__Protos__InternedData data;
	Perfetto__Protos__EventName name, *names[1];
	Perfetto__Protos__EventCategory category, *categories[1];
	Perfetto__Protos__DebugAnnotationName keys[TRACE_LABEL_ARGS], *key_list[TRACE_LABEL_ARGS];
};

/* *fresh: the file does not have the text yet. */
static uint64_t iid_of(struct writer *w, struct intern *t, const char *text, bool *fresh)
{
	uint32_t before = t->count;
	int64_t id = intern_text(t, text, UINT32_MAX);

	*fresh = t->count > before;
	if (id < 0)
		w->err = w->err ? w->err : (int)id;
	return (uint64_t)id + 1;
}

static void intern_name(struct writer *w, struct interned *in, Perfetto__Protos__TrackEvent *e,
			const char *text)
{
	bool fresh;

	text = kernel_name_text(text, w->name, sizeof(w->name));
	e->has_name_iid = 1;
	e->name_iid = iid_of(w, &w->names, text, &fresh);
	in->name = (Perfetto__Protos__EventName)PERFETTO__PROTOS__EVENT_NAME__INIT;
	in->name.has_iid = 1;
	in->name.iid = e->name_iid;
	in->name.name = (char *)text;
	in->names[0] = &in->name;
	in->data.event_names = in->names;
	in->data.n_event_names = fresh;
}

static uint64_t intern_category(struct writer *w, struct interned *in, const char *text)
{
	bool fresh;
	uint64_t iid = iid_of(w, &w->categories, text, &fresh);

	in->category = (Perfetto__Protos__EventCategory)PERFETTO__PROTOS__EVENT_CATEGORY__INIT;
	in->category.has_iid = 1;
	in->category.iid = iid;
	in->category.name = (char *)text;
	in->categories[0] = &in->category;
	in->data.event_categories = in->categories;
	in->data.n_event_categories = fresh;
	return iid;
}

static size_t put_args(struct writer *w, struct interned *in, const struct trace_label *l,
		       Perfetto__Protos__DebugAnnotation *args,
		       Perfetto__Protos__DebugAnnotation **list)
{
	in->data.debug_annotation_names = in->key_list;
	for (uint32_t i = 0; i < l->arg_count; i++) {
		Perfetto__Protos__DebugAnnotation *a = list[i] = &args[i];
		Perfetto__Protos__DebugAnnotationName *k =
		    &in->keys[in->data.n_debug_annotation_names];
		const struct trace_arg *from = &l->args[i];
		bool fresh;

		*a = (Perfetto__Protos__DebugAnnotation)PERFETTO__PROTOS__DEBUG_ANNOTATION__INIT;
		a->name_iid = iid_of(w, &w->keys, from->key, &fresh);
		a->has_name_iid = 1;
		if (fresh) {
			*k = (Perfetto__Protos__DebugAnnotationName)
			    PERFETTO__PROTOS__DEBUG_ANNOTATION_NAME__INIT;
			k->has_iid = 1;
			k->iid = a->name_iid;
			k->name = (char *)from->key;
			in->key_list[in->data.n_debug_annotation_names++] = k;
		}
		a->has_uint_value = from->type == TRACE_ARG_UINT;
		a->uint_value = from->u;
		a->has_double_value = from->type == TRACE_ARG_DOUBLE;
		a->double_value = from->d;
		a->string_value = from->type == TRACE_ARG_TEXT ? (char *)from->text : NULL;
	}
	return l->arg_count;
}

/* ---- slices ---- */

static void put_event(struct writer *w, packet_t *p, Perfetto__Protos__TrackEvent *e,
		      uint64_t track, uint64_t t)
{
	e->has_type = e->has_track_uuid = 1;
	e->track_uuid = track;
	p->has_timestamp = p->has_sequence_flags = 1;
	p->timestamp = t;
	p->track_event = e;
	p->sequence_flags =
	    PERFETTO__PROTOS__TRACE_PACKET__SEQUENCE_FLAGS__SEQ_NEEDS_INCREMENTAL_STATE;
	put_packet(w, p);
}

static void put_begin(struct writer *w, const struct trace_label *l, uint64_t track, uint64_t t,
		      uint64_t flow, uint64_t correlation)
{
	Perfetto__Protos__DebugAnnotation args[TRACE_LABEL_ARGS], *list[TRACE_LABEL_ARGS];
	Perfetto__Protos__TrackEvent e = PERFETTO__PROTOS__TRACK_EVENT__INIT;
	packet_t p = PERFETTO__PROTOS__TRACE_PACKET__INIT;
	struct interned in;
	uint64_t category;

	in.data = (Perfetto__Protos__InternedData)PERFETTO__PROTOS__INTERNED_DATA__INIT;
	intern_name(w, &in, &e, l->name);
	category = intern_category(w, &in, l->category);
	e.category_iids = &category;
	e.n_category_iids = 1;
	e.n_debug_annotations = put_args(w, &in, l, args, list);
	e.debug_annotations = list;
	e.type = PERFETTO__PROTOS__TRACK_EVENT__TYPE__TYPE_SLICE_BEGIN;
	e.flow_ids = &flow;
	e.n_flow_ids = flow ? 1 : 0;
	e.has_correlation_id = correlation != 0;
	e.correlation_id = correlation;
	if (in.data.n_event_names || in.data.n_event_categories || in.data.n_debug_annotation_names)
		p.interned_data = &in.data;
	put_event(w, &p, &e, track, t);
	w->slices++;
}

static void put_end(struct writer *w, uint64_t track, uint64_t t)
{
	Perfetto__Protos__TrackEvent e = PERFETTO__PROTOS__TRACK_EVENT__INIT;
	packet_t p = PERFETTO__PROTOS__TRACE_PACKET__INIT;

	e.type = PERFETTO__PROTOS__TRACK_EVENT__TYPE__TYPE_SLICE_END;
	put_event(w, &p, &e, track, t);
}

enum slice_of { OF_RECORD, OF_STEP, OF_WINDOW, OF_REQUEST };

/* A span about a request, or one of a step that the request is in. */
struct request_slice {
	uint64_t id;
	const struct record *span, *part; /* part: NULL, or says how many of the tokens are its */
};

static void put_slice(struct writer *w, const struct trace_slice *s, enum slice_of of,
		      uint64_t track)
{
	const struct trace_rank *r = &w->model->ranks[of == OF_REQUEST ? 0 : w->rank];
	static __thread struct trace_label l;
	uint64_t flow = 0, correlation = 0;
	ptrdiff_t launch = -1;

	if (of == OF_REQUEST) {
		const struct request_slice *q = s->of;

		trace_label_record(&l, w->model, q->span);
		if (q->part && l.arg_count < TRACE_LABEL_ARGS)
			l.args[l.arg_count++] = (struct trace_arg){
			    .key = "own_tokens", .type = TRACE_ARG_UINT, .u = q->part->bytes};
	} else if (of == OF_STEP) {
		trace_label_step(&l, s->of);
	} else if (of == OF_WINDOW) {
		trace_label_window(&l, s->of);
	} else {
		const struct record *rec = s->of;

		trace_label_record(&l, w->model, rec);
		correlation = trace_label_collective(rec);
		if (RECORD_IS_DEVICE(rec->kind))
			launch = trace_model_launch(r, rec);
		else if (w->launched && w->launched[rec - r->host])
			launch = rec - r->host;
		if (launch >= 0)
			flow = ((uint64_t)w->rank + 1) << 40 | ((uint64_t)launch + 1);
	}
	put_begin(w, &l, track, s->begin_ns, flow, correlation);
}

/* Writes one lane's slices: begins and ends in order, properly nested. */
static void put_lane(struct writer *w, const struct trace_slice *s, size_t n, unsigned lane,
		     enum slice_of of, uint64_t track)
{
	uint64_t ends[TRACE_LANES_DEPTH];
	unsigned depth = 0;

	for (size_t i = 0; i < n; i++) {
		if (s[i].lane != lane)
			continue;
		while (depth && ends[depth - 1] <= s[i].begin_ns)
			put_end(w, track, ends[--depth]);
		put_slice(w, &s[i], of, track);
		CHECK(depth < TRACE_LANES_DEPTH);
		ends[depth++] = s[i].end_ns;
	}
	while (depth)
		put_end(w, track, ends[--depth]);
}

struct track_plan {
	const char *name;
	unsigned group;	 /* the kind of track */
	uint64_t member; /* thread, or device << 32 | stream */
	enum slice_of of;
	bool nest;
	int order;
	int pid, tid; /* tid >= 0: lane 0 is the thread's own track */
};

static void put_slices(struct writer *w, const struct track_plan *plan, struct trace_slice *s,
		       size_t n)
{
	uint64_t process = track_id(w, 0, 0, 0);
	unsigned lanes = trace_lanes_assign(s, n, plan->nest, &w->left_out);

	for (unsigned lane = 0; lane < lanes; lane++) {
		Perfetto__Protos__ThreadDescriptor thread =
		    PERFETTO__PROTOS__THREAD_DESCRIPTOR__INIT;
		uint64_t id = track_id(w, plan->group, plan->member, lane);
		track_t t = PERFETTO__PROTOS__TRACK_DESCRIPTOR__INIT;

		if (!lane && plan->tid >= 0) {
			thread.has_pid = thread.has_tid = 1;
			thread.pid = plan->pid;
			thread.tid = plan->tid;
			thread.thread_name = (char *)plan->name;
			t.thread = &thread;
			put_track(w, &t, id, 0);
		} else {
			t.name = (char *)plan->name;
			t.has_sibling_order_rank = 1;
			t.sibling_order_rank = plan->order;
			put_track(w, &t, id, process);
		}
		put_lane(w, s, n, lane, plan->of, id);
	}
}

/* ---- a rank ---- */

enum {
	GROUP_STEPS = 1,
	GROUP_WINDOWS,
	GROUP_GAPS,
	GROUP_THREAD,
	GROUP_SPANS,
	GROUP_STREAM,
	GROUP_SAMPLED,
	GROUP_REQUEST
};

static unsigned group_of(const struct record *r)
{
	if (RECORD_IS_DEVICE(r->kind))
		return GROUP_STREAM;
	switch (r->kind) {
	case RECORD_STEP_BEGIN:
	case RECORD_STEP_END:
		return 0; /* shown by the steps track */
	case RECORD_SPAN_REQUEST:
		return 0; /* shown by the request's track */
	case RECORD_GAP:
		return GROUP_GAPS;
	case RECORD_SPAN:
		return GROUP_SPANS;
	}
	return GROUP_THREAD;
}

static uint64_t member_of(const struct record *r, unsigned group)
{
	if (group == GROUP_STREAM)
		return (uint64_t)r->thread << 32 | r->stream;
	return group == GROUP_GAPS ? 0 : r->thread;
}

struct keyed_row {
	uint64_t group, member;
	const struct record *r;
};

/* already in order of time */
ORDER_BY(compare_keyed, struct keyed_row, ORDER_UP(group) ?: ORDER_UP(member) ?: ORDER_UP(r));

/* Real ids if they are unique, else made-up ones: Perfetto has only one machine, and two nodes may use the
 * same pid or tid. */
static bool one_node(const struct trace_model *m)
{
	for (size_t i = 1; i < m->rank_count; i++)
		if (strcmp(m->ranks[i].who.node, m->ranks[0].who.node))
			return false;
	return true;
}

static int pid_of(const struct writer *w)
{
	const struct wire_rank *who = &w->model->ranks[w->rank].who;

	if (one_node(w->model) && who->pid && who->pid < INT32_MAX)
		return (int)who->pid;
	return (int)(w->rank + 1) * 100000;
}

static void put_process(struct writer *w)
{
	const struct wire_rank *who = &w->model->ranks[w->rank].who;
	const char *part = w->model->ranks[w->rank].part;
	Perfetto__Protos__ProcessDescriptor d = PERFETTO__PROTOS__PROCESS_DESCRIPTOR__INIT;
	track_t t = PERFETTO__PROTOS__TRACK_DESCRIPTOR__INIT;
	char name[4 * WIRE_TEXT_BYTES], label[64], *labels[1] = {label};

	snprintf(name, sizeof(name), "%s%s%s on %s%s%s%s",
		 who->rank < 0 ? "" : term_rank(who->rank), who->rank < 0 ? "" : " ", who->program,
		 who->node, part ? " (" : "", part ? part : "", part ? ")" : "");
	snprintf(label, sizeof(label), "pid %u", who->pid);
	d.has_pid = 1;
	d.pid = pid_of(w);
	d.process_name = name;
	d.process_labels = labels;
	d.n_process_labels = 1;
	t.process = &d;
	t.has_child_ordering = 1;
	t.child_ordering = PERFETTO__PROTOS__TRACK_DESCRIPTOR__CHILD_TRACKS_ORDERING__EXPLICIT;
	put_track(w, &t, track_id(w, 0, 0, 0), 0);
}

static void put_group(struct writer *w, const struct keyed_row *k, size_t n, struct trace_slice *s,
		      unsigned thread_index)
{
	struct track_plan plan = {.group = (unsigned)k->group, .member = k->member, .tid = -1};
	bool real = one_node(w->model);
	char name[96];

	for (size_t i = 0; i < n; i++)
		s[i] = (struct trace_slice){k[i].r->begin_ns, k[i].r->end_ns, k[i].r, 0};
	switch (plan.group) {
	case GROUP_STREAM:
		snprintf(name, sizeof(name), "GPU %u stream %u", k->r->thread, k->r->stream);
		plan.order = 10;
		break;
	case GROUP_GAPS:
		snprintf(name, sizeof(name), "gaps in the recording");
		plan.order = 3;
		break;
	case GROUP_SPANS:
		snprintf(name, sizeof(name), "spans of thread %u", k->r->thread);
		plan.nest = true;
		plan.order = 5;
		break;
	default:
		snprintf(name, sizeof(name), "thread %u", k->r->thread);
		plan.nest = true;
		plan.pid = pid_of(w);
		plan.tid = real && k->r->thread < INT32_MAX
			       ? (int)k->r->thread
			       : plan.pid + (int)(thread_index % 90000);
		plan.order = 6;
	}
	plan.name = name;
	put_slices(w, &plan, s, n);
}

static int put_records(struct writer *w, const struct trace_rank *r)
{
	size_t total = r->host_count + r->device_count, n = 0;
	struct keyed_row *k = calloc(total + 1, sizeof(*k));
	struct trace_slice *s = calloc(total + 1, sizeof(*s));
	unsigned threads = 0;

	w->launched = calloc(r->host_count + 1, 1);
	if (!k || !s || !w->launched) {
		free(k);
		free(s);
		return -ENOMEM;
	}
	for (size_t i = 0; i < r->device_count; i++) {
		ptrdiff_t launch = trace_model_launch(r, &r->device[i]);

		if (launch >= 0)
			w->launched[launch] = 1;
	}
	for (size_t i = 0; i < total; i++) {
		const struct record *rec =
		    i < r->host_count ? &r->host[i] : &r->device[i - r->host_count];
		unsigned group = group_of(rec);

		if (group)
			k[n++] = (struct keyed_row){group, member_of(rec, group), rec};
	}
	qsort(k, n, sizeof(*k), compare_keyed);
	for (size_t i = 0, j; i < n; i = j) {
		for (j = i; j < n && k[j].group == k[i].group && k[j].member == k[i].member;)
			j++;
		put_group(w, k + i, j - i, s, threads);
		threads += k[i].group == GROUP_THREAD;
	}
	free(k);
	free(s);
	return 0;
}

static int put_steps(struct writer *w, const struct trace_rank *r)
{
	struct track_plan steps = {
	    .name = "steps", .group = GROUP_STEPS, .of = OF_STEP, .order = 1, .tid = -1};
	struct track_plan windows = {
	    .name = "windows", .group = GROUP_WINDOWS, .of = OF_WINDOW, .order = 2, .tid = -1};
	size_t room = r->step_count > r->window_count ? r->step_count : r->window_count;
	struct trace_slice *s = calloc(room + 1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	for (size_t i = 0; i < r->step_count; i++)
		s[i] = (struct trace_slice){r->steps[i].step.begin_ns, r->steps[i].step.end_ns,
					    &r->steps[i], 0};
	put_slices(w, &steps, s, r->step_count);
	for (size_t i = 0; i < r->window_count; i++)
		s[i] = (struct trace_slice){r->windows[i].begin_ns, r->windows[i].end_ns,
					    &r->windows[i], 0};
	put_slices(w, &windows, s, r->window_count);
	free(s);
	return 0;
}

/* ---- CPU stacks ---- */

static void put_stack_packet(void *arg, packet_t *p)
{
	put_packet(arg, p);
}

static void shown_ids(void *arg, uint32_t pid, uint32_t tid, int *shown_pid, int *shown_tid)
{
	const struct writer *w = arg;

	if (one_node(w->model) && pid <= INT32_MAX && tid <= INT32_MAX) {
		*shown_pid = (int)pid;
		*shown_tid = (int)tid;
		return;
	}
	*shown_pid = pid_of(w);
	*shown_tid = pid == tid ? *shown_pid : *shown_pid + 50000 + (int)(tid % 40000);
}

ORDER_BY(by_thread, const struct stack_sample *, ORDER((*a)->tid, (*b)->tid) ?: ORDER(*a, *b));

/* Names sampled threads; threads with a track of calls already have names. */
static int name_threads(struct writer *w, const struct trace_rank *r)
{
	const struct stack_batch *b = &r->stacks;
	const struct stack_sample **s = calloc(b->sample_count + 1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	for (uint32_t i = 0; i < b->sample_count; i++)
		s[i] = &b->samples[i];
	qsort(s, b->sample_count, sizeof(*s), by_thread);
	for (uint32_t i = 0; i < b->sample_count; i++) {
		Perfetto__Protos__ThreadDescriptor thread =
		    PERFETTO__PROTOS__THREAD_DESCRIPTOR__INIT;
		track_t t = PERFETTO__PROTOS__TRACK_DESCRIPTOR__INIT;

		if ((i && s[i]->tid == s[i - 1]->tid) || !s[i]->comm)
			continue;
		shown_ids(w, s[i]->pid, s[i]->tid, &thread.pid, &thread.tid);
		thread.has_pid = thread.has_tid = 1;
		thread.thread_name = (char *)(uintptr_t)stack_batch_text(b, s[i]->comm);
		t.thread = &thread;
		put_track(w, &t, track_id(w, GROUP_SAMPLED, s[i]->tid, 0), 0);
	}
	free(s);
	return 0;
}

static int put_stacks(struct writer *w, const struct trace_rank *r)
{
	struct profile_names *names;
	int err;

	if (!r->stacks.sample_count)
		return 0;
	err = incident_stacks_names(r, &names);
	if (!err)
		err = name_threads(w, r);
	if (!err)
		err = export_stacks_put(&w->stacks, r, names);
	profile_names_close(names);
	return err;
}

/* ---- requests: one track each, over all processes ---- */

#define REQUEST_TRACKS_MAX 2000u
#define PROCESS_WORKER	   3 /* base/span_kind.h */

struct request_list {
	struct request_slice *of;
	size_t count, room;
};

static bool is_worker_but_first(const struct trace_rank *r, const struct record *span)
{
	return span->func == PROCESS_WORKER && r->who.rank > 0;
}

/* The span that a part names by its start and name; NULL: the window does not have it. */
static const struct record *span_of(const struct trace_rank *r, const struct record *part)
{
	size_t at = SORTED_FROM(r->host, r->host_count, begin_ns, part->begin_ns);

	for (; at < r->host_count && r->host[at].begin_ns == part->begin_ns; at++)
		if (r->host[at].kind == RECORD_SPAN && r->host[at].name == part->name &&
		    r->host[at].thread == part->thread)
			return &r->host[at];
	return NULL;
}

/* The ranks of a group do the same steps: rank 0 stands for them. */
static int find_requests(const struct trace_rank *r, struct request_list *out)
{
	for (size_t i = 0; i < r->host_count; i++) {
		const struct record *rec = &r->host[i], *span = rec;
		bool part = rec->kind == RECORD_SPAN_REQUEST;

		if (!part && (rec->kind != RECORD_SPAN || !(rec->flags & RECORD_FLAG_PYTHON)))
			continue;
		if (part)
			span = span_of(r, rec);
		if (!rec->key || !span || is_worker_but_first(r, span))
			continue;
		if (ROOM_FOR(out->of, out->room, out->count + 1))
			return -ENOMEM;
		out->of[out->count++] = (struct request_slice){rec->key, span, part ? rec : NULL};
	}
	return 0;
}

ORDER_BY(by_request, struct request_slice,
	 ORDER_UP(id) ?: ORDER_UP(span->begin_ns) ?: ORDER_DOWN(span->end_ns) ?: ORDER_UP(span));

static void put_request(struct writer *w, const struct request_slice *q, size_t n,
			struct trace_slice *s)
{
	char name[32];
	struct track_plan plan = {.name = name,
				  .group = GROUP_REQUEST,
				  .member = q->id,
				  .of = OF_REQUEST,
				  .nest = true,
				  .tid = -1};

	snprintf(name, sizeof(name), "request %016llx", (unsigned long long)q->id);
	for (size_t i = 0; i < n; i++)
		s[i] = (struct trace_slice){q[i].span->begin_ns, q[i].span->end_ns, &q[i], 0};
	put_slices(w, &plan, s, n);
}

static int put_requests(struct writer *w)
{
	track_t t = PERFETTO__PROTOS__TRACK_DESCRIPTOR__INIT;
	struct request_list list = {0};
	struct trace_slice *s = NULL;
	unsigned tracks = 0;
	int err = 0;

	for (size_t i = 0; i < w->model->rank_count && !err; i++)
		err = find_requests(&w->model->ranks[i], &list);
	s = err || !list.count ? NULL : calloc(list.count, sizeof(*s));
	if (!err && list.count && !s)
		err = -ENOMEM;
	if (s) {
		qsort(list.of, list.count, sizeof(*list.of), by_request);
		t.name = (char *)"requests";
		put_track(w, &t, track_id(w, 0, 0, 0), 0);
	}
	for (size_t i = 0, j; s && i < list.count; i = j) {
		for (j = i; j < list.count && list.of[j].id == list.of[i].id;)
			j++;
		if (tracks++ < REQUEST_TRACKS_MAX)
			put_request(w, list.of + i, j - i, s);
		else
			w->left_out += j - i;
	}
	free(list.of);
	free(s);
	return err;
}

int export_perfetto_write(struct trace_model *m, FILE *to, uint64_t *slices, uint64_t *left_out)
{
	struct writer w = {
	    .model = m, .to = to, .stacks = {.put = put_stack_packet, .ids = shown_ids, .arg = &w}};

	buf_init(&w.out, 1u << 20);
	put_clocks(&w);
	for (w.rank = 0; w.rank < m->rank_count && !w.err; w.rank++) {
		const struct trace_rank *r = &m->ranks[w.rank];
		int err;

		put_process(&w);
		err = put_steps(&w, r);
		if (!err)
			err = put_records(&w, r);
		if (!err)
			err = put_stacks(&w, r);
		free(w.launched);
		w.launched = NULL;
		w.err = w.err ? w.err : err;
	}
	if (!w.err) /* as the rank after the last one */
		w.err = put_requests(&w);
	buf_fini(&w.out);
	intern_fini(&w.names);
	intern_fini(&w.categories);
	intern_fini(&w.keys);
	*slices = w.slices;
	*left_out = w.left_out;
	return w.err;
}
