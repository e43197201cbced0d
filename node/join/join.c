/* SPDX-License-Identifier: Apache-2.0
 * The host side: order, conversion, tables. Events stay raw until they are in order, because what
 * they mean (the stream of a handle, the context of a thread) depends on earlier events. */
#include "node/join/join.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/hash.h"
#include "base/keyed.h"
#include "node/join/join_private.h"

static const char *const loss_names[] = {
#define X(name, text) text,
    JOIN_LOSSES(X)
#undef X
};

const char *join_loss_name(unsigned loss)
{
	return loss < JOIN_LOSS_COUNT ? loss_names[loss] : "";
}

const struct join_stats *join_stats(const struct join *j)
{
	return &j->stats;
}

uint64_t join_watermark_ns(const struct join *j)
{
	return j->watermark_ns;
}

/* ---- open and close ---- */

static bool alloc_tables(struct join *j)
{
	uint32_t pending =
	    JOIN_HOST_PENDING > JOIN_DEVICE_PENDING ? JOIN_HOST_PENDING : JOIN_DEVICE_PENDING;

	/* Untouched pages cost no memory, and most jobs use little of each table. */
	return (j->host = malloc(sizeof(*j->host) * JOIN_HOST_PENDING)) &&
	       (j->device = malloc(sizeof(*j->device) * JOIN_DEVICE_PENDING)) &&
	       (j->order = malloc(sizeof(*j->order) * pending)) &&
	       (j->order_scratch = malloc(sizeof(*j->order_scratch) * pending)) &&
	       (j->launches = aligned_alloc(64, JOIN_LAUNCHES * sizeof(*j->launches))) &&
	       (j->colls = calloc(JOIN_COLLS, sizeof(*j->colls))) &&
	       (j->streams = calloc(JOIN_STREAMS, sizeof(*j->streams))) &&
	       (j->device_streams = calloc(JOIN_DEVICE_STREAMS, sizeof(*j->device_streams))) &&
	       (j->comms = calloc(JOIN_COMMS, sizeof(*j->comms))) &&
	       (j->funcs = calloc(JOIN_FUNCS, sizeof(*j->funcs))) &&
	       (j->name_class = calloc(LIMIT_NAME_COUNT + 1, 1)) &&
	       (j->templates = calloc(JOIN_TEMPLATES, sizeof(*j->templates))) &&
	       (j->template_colls = calloc(JOIN_TEMPLATE_COLLS, sizeof(*j->template_colls))) &&
	       (j->execs = calloc(JOIN_EXECS, sizeof(*j->execs))) &&
	       (j->replays = calloc(JOIN_REPLAYS, sizeof(*j->replays))) &&
	       (j->lanes = calloc(j->lane_count, sizeof(*j->lanes)));
}

int join_open(struct join **out, const struct join_sink *sink, const struct clockmap *clock,
	      uint32_t lane_count)
{
	struct join *j = calloc(1, sizeof(*j));

	if (!j)
		return -ENOMEM;
	j->sink = *sink;
	j->clock = clock;
	j->key = keyed_process();
	j->lane_count = lane_count ? lane_count : 1;
	j->host_sorted = j->device_sorted = true;
	j->chunk_used = j->coll_used = j->template_coll_used = 1; /* index 0 ends a list */
	if (!alloc_tables(j)) {
		join_close(j);
		return -ENOMEM;
	}
	*out = j;
	return 0;
}

void join_close(struct join *j)
{
	if (!j)
		return;
	free(j->host);
	free(j->device);
	free(j->order);
	free(j->order_scratch);
	free(j->launches);
	free(j->colls);
	free(j->streams);
	free(j->device_streams);
	probe_fini(&j->stream_index);
	probe_fini(&j->device_index);
	free(j->comms);
	free(j->funcs);
	free(j->name_class);
	free(j->templates);
	free(j->template_colls);
	free(j->execs);
	free(j->replays);
	free(j->lanes);
	free(j);
}

/* ---- tables ---- */

static struct join_comm *find_comm(struct join *j, uint64_t handle, bool create)
{
	PROBE_PLACES (i, keyed_word(keyed_process(), handle), JOIN_COMMS) {
		struct join_comm *c = &j->comms[i];

		if (c->handle == handle && c->id)
			return c;
		if (c->id)
			continue;
		if (!create)
			return NULL;
		if (j->comm_count >= JOIN_COMMS / 2) {
			join_count(j, JOIN_TABLE_FULL, 1);
			return NULL;
		}
		j->comm_count++;
		c->handle = handle;
		return c;
	}
}

static struct join_stream *find_stream(struct join *j, uint64_t handle, uint64_t scope, bool create)
{
	struct join_stream *s = &j->streams[j->stream_last];
	uint64_t hash;

	if (j->stream_last < j->stream_count && s->handle == handle && s->scope == scope)
		return s;
	hash = keyed_words(keyed_process(), handle, scope);
	PROBE_EACH (i, &j->stream_index, hash) {
		j->stream_last = i.number;
		s = &j->streams[i.number];
		if (s->handle == handle && s->scope == scope)
			return s;
	}
	if (!create)
		return NULL;
	if (j->stream_count >= JOIN_STREAMS || probe_add(&j->stream_index, hash, j->stream_count)) {
		join_count(j, JOIN_TABLE_FULL, 1);
		return NULL;
	}
	s = &j->streams[j->stream_count++];
	*s = (struct join_stream){.handle = handle, .scope = scope, .device_stream = -1};
	return s;
}

/* CU_STREAM_LEGACY is 1, CU_STREAM_PER_THREAD is 2. Handle 0 is one of them, depending on the
 * called variant. */
static struct join_stream *stream_of(struct join *j, const struct join_host_pend *p,
				     uint64_t handle, uint64_t context)
{
	const struct join_lane *lane = &j->lanes[p->lane];

	if (!context)
		context = lane->context ? lane->context : j->context;
	if (handle == 2 || (handle == 0 && (p->e.head.flags & EVENT_FLAG_PTSZ)))
		return find_stream(j, 2, hash_mix(p->tid) ^ context, true);
	if (handle <= 1)
		return find_stream(j, 1, context, true);
	return find_stream(j, handle, 0, true);
}

uint32_t join_stream_number(const struct join *j, const struct join_stream *s)
{
	if (!s)
		return 0;
	/* If CUPTI's number is unknown: a dense number, in a range that CUPTI does not use. */
	return s->known ? s->stream_id : 0x80000000u | (uint32_t)(s - j->streams);
}

/* ---- host events, in order ---- */

static void emit(struct join *j, const struct record *r, const struct step_mark *mark)
{
	if (r->begin_ns > j->last_host_ns)
		j->last_host_ns = r->begin_ns;
	j->sink.host(j->sink.arg, r, mark);
}

/* Fills *r field by field, because a copy of a struct that was just written would stall on the
 * stores. */
static void host_record(struct record *r, const struct join *j, const struct join_host_pend *p,
			int kind, uint32_t duration)
{
	static const struct {
		uint16_t event, record;
	} flags[] = {
	    {EVENT_FLAG_FAILED, RECORD_FLAG_FAILED},
	    {EVENT_FLAG_CAPTURED, RECORD_FLAG_CAPTURED},
	    {EVENT_FLAG_EXPLICIT, RECORD_FLAG_EXPLICIT},
	    {EVENT_FLAG_AGGREGATE, RECORD_FLAG_GROUPED},
	    {EVENT_FLAG_CONTINUES, RECORD_FLAG_CONTINUES},
	};

	memset(r, 0, sizeof(*r));
	r->begin_ns = p->t_ns;
	r->end_ns = p->t_ns + clockmap_duration(j->clock, p->clock_source, duration);
	r->kind = (uint16_t)kind;
	r->thread = p->tid;
	r->peer = -1;
	if (!p->e.head.flags)
		return;
	for (size_t i = 0; i < ARRAY_LEN(flags); i++)
		if (p->e.head.flags & flags[i].event)
			r->flags |= flags[i].record;
}

static struct join_exec *find_exec(struct join *j, uint64_t handle, bool create)
{
	uint32_t start = (uint32_t)keyed_word(keyed_process(), handle) & (JOIN_EXECS - 1);

	for (uint32_t n = 0; n < 16; n++) {
		struct join_exec *x = &j->execs[(start + n) & (JOIN_EXECS - 1)];

		if (x->handle == handle || !x->handle)
			return x->handle || create ? x : NULL;
	}
	if (create)
		join_count(j, JOIN_TABLE_FULL, 1);
	return NULL;
}

static struct join_template *find_template(struct join *j, uint64_t capture, bool create)
{
	struct join_template *t;

	for (uint32_t i = 0; i < j->template_count; i++)
		if (j->templates[i].capture == capture)
			return &j->templates[i];
	if (!create)
		return NULL;
	if (j->template_count >= JOIN_TEMPLATES) {
		join_count(j, JOIN_TABLE_FULL, 1);
		return NULL;
	}
	t = &j->templates[j->template_count++];
	*t = (struct join_template){.capture = capture};
	return t;
}

/* Starts the replay of a graph: its node records will arrive with the replay's number. */
static uint32_t start_replay(struct join *j, const struct event_launch *e, uint64_t t_ns)
{
	struct join_exec *x = find_exec(j, e->func, false);
	uint64_t capture = (uint64_t)e->grid[2] << 32 | e->grid[1];
	struct join_template *t;
	struct join_replay *r;

	if (!capture && x)
		capture = x->capture;
	t = capture ? find_template(j, capture, false) : NULL;
	if (!++j->replay_next)
		j->replay_next = 1;
	r = &j->replays[j->replay_next % JOIN_REPLAYS];
	*r = (struct join_replay){.number = j->replay_next,
				  .t_ns = t_ns,
				  .capture = capture,
				  .nth = e->grid[0],
				  .next_coll = t ? t->colls.head : 0};
	return r->number;
}

/* Counts launches inside the thread's latest collective on the same stream: its kernel then has a
 * launch record. */
static void note_inner_launch(struct join *j, const struct join_host_pend *p, uint32_t stream)
{
	const struct join_lane *lane = &j->lanes[p->lane];
	struct join_coll *c;

	if (!lane->last_coll || p->t_ns > lane->last_coll_end_ns)
		return;
	c = &j->colls[lane->last_coll];
	if (c->stream == stream && c->tid == p->tid)
		c->launches++;
}

static void note_launcher(struct join *j, uint32_t tid)
{
	struct join_launchers *l = &j->launchers;

	if (tid == j->launcher_last)
		return;
	j->launcher_last = tid;
	for (uint32_t i = 0; i < JOIN_LAUNCHERS; i++)
		if (l->tid[i] == tid)
			return;
	l->tid[l->serial++ % JOIN_LAUNCHERS] = tid;
}

const struct join_launchers *join_launchers(const struct join *j)
{
	return &j->launchers;
}

static void on_launch(struct join *j, const struct join_host_pend *p)
{
	const struct event_launch *e = &p->e.launch;
	bool graph = e->head.kind == EVENT_GRAPH_LAUNCH;
	struct join_stream *s = stream_of(j, p, e->stream, 0);
	struct record r;
	struct join_func *f = graph ? NULL : join_match_func(j, e->func, false);
	struct join_launch *l;
	uint32_t node;

	note_launcher(j, p->tid);
	host_record(&r, j, p, graph ? RECORD_GRAPH_LAUNCH : RECORD_LAUNCH, e->duration);
	r.stream = join_stream_number(j, s);
	r.name = f ? f->name : 0;
	if (join_match_name_class(j, r.name) & JOIN_NAME_OPTIMIZER)
		r.flags |= RECORD_FLAG_OPTIMIZER;
	if (!graph)
		for (int i = 0; i < 3; i++) {
			r.grid[i] = e->grid[i];
			r.block[i] = e->block[i];
		}
	else
		r.key = e->func;
	emit(j, &r, NULL);
	j->stats.launches++;
	if (!s || (e->head.flags & (EVENT_FLAG_FAILED | EVENT_FLAG_CAPTURED)))
		return;
	if (!graph)
		note_inner_launch(j, p, (uint32_t)(s - j->streams));
	if (p->t_ns < j->gap_end_ns) {
		join_count_gap(j, JOIN_LAUNCH_NO_KERNEL);
		if (!graph && e->number && r.end_ns < j->gap_end_ns) {
			join_align_left(
			    j, s, 0,
			    &(struct join_launch){.number = e->number, .end_ns = r.end_ns});
			join_align_over(s, j->gap_end_ns, j->gap_end_ns);
		}
		return;
	}
	node = graph || e->number ? join_match_launch_push(j, s, graph) : 0;
	if (!node) {
		join_count(j, graph || e->number ? JOIN_TABLE_FULL : JOIN_LAUNCH_NO_KERNEL, 1);
		return;
	}
	l = &j->launches[node];
	l->t_ns = p->t_ns;
	l->end_ns = r.end_ns;
	l->func = e->func;
	memcpy(l->grid, r.grid, sizeof(l->grid));
	memcpy(l->block, r.block, sizeof(l->block));
	if (graph) {
		l->replay = start_replay(j, e, p->t_ns);
		return;
	}
	if (f)
		l->func_at = (uint32_t)(f - j->funcs) + 1;
	l->number = e->number;
	join_align_launched(j, s);
}

static uint64_t dtype_bytes(uint8_t dtype)
{
	/* ncclDataType_t: int8 uint8 int32 uint32 int64 uint64 half float double bfloat16 fp8 fp8 */
	static const uint8_t bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};

	return dtype < sizeof(bytes) ? bytes[dtype] : 1;
}

static void capture_coll(struct join *j, const struct event_coll *e, uint64_t bytes)
{
	struct join_template *t = find_template(j, e->capture, true);
	struct join_comm *comm = find_comm(j, e->comm, false);
	uint32_t node;

	if (!t)
		return;
	if (j->template_coll_used >= JOIN_TEMPLATE_COLLS) {
		join_count(j, JOIN_TABLE_FULL, 1);
		return;
	}
	node = j->template_coll_used++;
	j->template_colls[node] = (struct join_template_coll){
	    .key = comm ? comm->id : 0,
	    .bytes = bytes,
	    .node = e->seq,
	    .peer = e->peer,
	    .func = e->func,
	};
	if (t->colls.tail)
		j->template_colls[t->colls.tail].next = node;
	else
		t->colls.head = node;
	t->colls.tail = node;
	t->colls.count++;
}

/* Ends the lane's group. Its kernels were launched during [begin_ns, end_ns]; begin_ns 0: not
 * launched, or not seen. */
static void group_close(struct join *j, struct join_lane *lane, uint64_t begin_ns, uint64_t end_ns)
{
	for (uint32_t i = 0; i < lane->group_count; i++) {
		struct join_coll *c = &j->colls[lane->group_colls[i]];

		if (!c->open || c->group != lane->group_id)
			continue; /* the node was dropped and reused */
		c->begin_ns = begin_ns ? begin_ns : c->call_ns;
		c->end_ns = begin_ns ? end_ns : c->call_ns;
		c->open = 0;
	}
	if (lane->group_count && begin_ns) {
		lane->last_coll = lane->group_colls[lane->group_count - 1];
		lane->last_coll_end_ns = end_ns;
	}
	lane->group_count = 0;
}

static uint32_t coll_new(struct join *j)
{
	uint32_t node = j->coll_free;

	if (node)
		j->coll_free = j->colls[node].next;
	else if (j->coll_used < JOIN_COLLS)
		node = j->coll_used++;
	return node;
}

static void enqueue_coll(struct join *j, const struct join_host_pend *p, const struct record *r)
{
	const struct event_coll *e = &p->e.coll;
	struct join_lane *lane = &j->lanes[p->lane];
	struct join_stream *s = stream_of(j, p, e->stream, 0);
	bool grouped = e->head.flags & EVENT_FLAG_AGGREGATE;
	struct join_coll *c;
	uint32_t node;

	if (!s)
		return;
	if (!grouped && p->t_ns < j->gap_end_ns) {
		join_count_gap(j, JOIN_COLL_NO_KERNEL);
		return;
	}
	if (s->colls.count >= JOIN_COLLS / 4)
		join_match_coll_drop(j, s);
	node = coll_new(j);
	if (!node) {
		join_count(j, JOIN_TABLE_FULL, 1);
		return;
	}
	c = &j->colls[node];
	*c = (struct join_coll){.begin_ns = r->begin_ns,
				.end_ns = r->end_ns,
				.call_ns = r->begin_ns,
				.key = r->key,
				.bytes = r->bytes,
				.tid = p->tid,
				.seq = r->seq,
				.peer = r->peer,
				.func = r->func,
				.stream = (uint32_t)(s - j->streams)};
	if (s->colls.tail)
		j->colls[s->colls.tail].next = node;
	else
		s->colls.head = node;
	s->colls.tail = node;
	s->colls.count++;
	if (grouped && lane->group_count < ARRAY_LEN(lane->group_colls)) {
		if (!lane->group_count)
			lane->group_id = ++j->group_next;
		lane->group_colls[lane->group_count++] = node;
		c->group = lane->group_id;
		c->open = 1;
		c->end_ns = UINT64_MAX;
	} else {
		lane->last_coll = node;
		lane->last_coll_end_ns = c->end_ns;
	}
}

static void on_coll(struct join *j, const struct join_host_pend *p)
{
	const struct event_coll *e = &p->e.coll;
	struct record r;
	struct join_comm *c = find_comm(j, e->comm, false);
	struct join_lane *lane = &j->lanes[p->lane];

	note_launcher(j, p->tid);
	host_record(&r, j, p, RECORD_COLL, e->duration);
	r.func = e->func;
	r.key = c ? c->id : 0;
	r.seq = e->seq;
	r.peer = e->peer;
	r.bytes = e->count * dtype_bytes(e->dtype);
	r.dtype = e->dtype < UINT8_MAX ? (uint8_t)(e->dtype + 1) : 0;
	if (e->func < COLL_GROUP_START || e->func == COLL_OTHER) {
		struct join_stream *s = stream_of(j, p, e->stream, 0);

		r.stream = join_stream_number(j, s);
		if (e->capture || e->head.kind == EVENT_GRAPH_NODE)
			r.flags |= RECORD_FLAG_CAPTURED;
	}
	emit(j, &r, NULL);
	/* An event outside of a group closes an open group, whose end may have been lost. */
	if (!(e->head.flags & EVENT_FLAG_AGGREGATE)) {
		bool launched = e->func == COLL_GROUP_END && !(e->head.flags & EVENT_FLAG_FAILED);

		group_close(j, lane, launched ? r.begin_ns : 0, r.end_ns);
	}
	if (e->head.flags & EVENT_FLAG_FAILED)
		return;
	if (e->func < COLL_GROUP_START) {
		if (e->capture) {
			capture_coll(j, e, r.bytes);
		} else if (!(e->head.flags & EVENT_FLAG_CAPTURED)) {
			enqueue_coll(j, p, &r);
		}
	}
}

static void on_comm(struct join *j, const struct join_host_pend *p)
{
	const struct event_comm *e = &p->e.comm;
	struct record r;
	bool gone =
	    e->action == COMM_DESTROY || e->action == COMM_ABORT || e->action == COMM_FINALIZE;
	struct join_comm *c = find_comm(j, e->comm, !gone && e->id);

	host_record(&r, j, p, RECORD_COMM, e->duration);
	/* Entries are never removed; a handle that is reused gets the new communicator's id. */
	if (c && !gone)
		c->id = e->id;
	r.key = c ? c->id : e->id;
	r.seq = e->action;
	r.peer = e->rank <= INT16_MAX ? (int16_t)e->rank : -1;
	r.bytes = gone || e->nranks < 0 ? 0 : (uint64_t)e->nranks;
	emit(j, &r, NULL);
}

static void on_stream(struct join *j, const struct join_host_pend *p)
{
	static const uint8_t unknown[sizeof(p->e.stream.device_uuid)];
	const struct event_stream *e = &p->e.stream;
	struct join_lane *lane = &j->lanes[p->lane];
	struct join_stream *s;

	if (e->context)
		j->context = e->context;
	if (j->sink.gpu && memcmp(e->device_uuid, unknown, sizeof(unknown)))
		j->sink.gpu(j->sink.arg, e->device_uuid);
	if (e->head.kind == EVENT_CONTEXT) {
		lane->context = e->context;
		if (!e->stream_id)
			return;
	}
	s = stream_of(j, p, e->stream, e->context);
	if (!s || !e->stream_id)
		return;
	if (s->known && (s->stream_id != e->stream_id || s->context_id != e->context_id)) {
		/* The handle is reused: launches on the old stream stay with the old stream. */
		struct join_stream *moved;

		if (j->stream_count >= JOIN_STREAMS) {
			join_count(j, JOIN_TABLE_FULL, 1);
			return;
		}
		moved = &j->streams[j->stream_count++]; /* in no hash slot: found only by its ids */
		*moved = *s;
		join_match_stream_moved(j, s, moved);
		*s = (struct join_stream){
		    .handle = moved->handle, .scope = moved->scope, .device_stream = -1};
	}
	s->known = true;
	s->stream_id = e->stream_id;
	s->context_id = e->context_id;
	join_match_bind(j, (uint32_t)(s - j->streams));
}

static void on_graph(struct join *j, const struct event_graph *e)
{
	struct join_template *t;
	struct join_exec *x;
	uint64_t capture = e->capture;

	if (e->action == GRAPH_CAPTURE_END && e->capture) {
		t = find_template(j, e->capture, false);
		if (t)
			t->graph = e->graph;
		return;
	}
	if (e->action == GRAPH_DESTROY && e->exec) {
		x = find_exec(j, e->exec, false);
		if (x)
			x->capture = 0;
		return;
	}
	if ((e->action != GRAPH_INSTANTIATE && e->action != GRAPH_UPDATE) || !e->exec)
		return;
	/* Without a capture in the event, use the latest capture of that graph. */
	for (uint32_t i = j->template_count; !capture && e->graph && i-- > 0;)
		if (j->templates[i].graph == e->graph)
			capture = j->templates[i].capture;
	x = find_exec(j, e->exec, true);
	if (x)
		*x = (struct join_exec){.handle = e->exec, .graph = e->graph, .capture = capture};
}

static void span_remove(struct join_lane *lane, uint32_t i)
{
	memmove(&lane->spans[i], &lane->spans[i + 1],
		sizeof(lane->spans[0]) * (--lane->span_count - i));
}

/* Spans of a catalogue nest among themselves, and their events state the depth. So a lost end is
 * noticed at the next begin, and cannot end another span. */
static void span_drop_deeper(struct join *j, struct join_lane *lane, uint32_t depth)
{
	for (uint32_t i = lane->span_count; i-- > 0;)
		if (lane->spans[i].source == SPAN_SOURCE_PYTHON &&
		    lane->spans[i].python_depth >= depth) {
			span_remove(lane, i);
			join_count(j, JOIN_SPAN_UNPAIRED, 1);
		}
}

/* Drops the oldest span. The job probably never closed it, while the innermost spans are in use. */
static bool span_drop_oldest(struct join *j, struct join_lane *lane)
{
	for (uint32_t i = 0; i < lane->span_count; i++)
		if (lane->spans[i].source != SPAN_SOURCE_PYTHON) {
			span_remove(lane, i);
			join_count(j, JOIN_SPAN_UNPAIRED, 1);
			return true;
		}
	return false;
}

/* Call when the thread ends. A function that has not returned by then is not a mistake. */
static void span_drop_all(struct join *j, struct join_lane *lane)
{
	while (span_drop_oldest(j, lane))
		;
	lane->span_count = 0;
}

static struct join_span span_of(const struct join_lane *lane, const struct join_host_pend *p)
{
	const struct event_span *e = &p->e.span;
	struct join_span s = {.t_ns = p->t_ns,
			      .span = e->span,
			      .domain = e->domain,
			      .name = e->name,
			      .depth = lane->span_count,
			      .tid = p->tid,
			      .python_depth = e->depth,
			      .source = e->source,
			      .process = e->process,
			      .thread = e->thread};

	memcpy(s.work, e->work, sizeof(s.work));
	return s;
}

/* ---- ranges that begin and end by handle, on any thread ---- */

static void range_remove(struct join *j, uint32_t i)
{
	memmove(&j->ranges[i], &j->ranges[i + 1], sizeof(j->ranges[0]) * (--j->range_count - i));
}

static void range_begin(struct join *j, const struct join_lane *lane,
			const struct join_host_pend *p)
{
	if (j->range_count == JOIN_RANGES) {
		range_remove(j, 0);
		join_count(j, JOIN_SPAN_UNPAIRED, 1);
	}
	j->ranges[j->range_count++] = span_of(lane, p);
	if (!j->first_range)
		j->first_range = p->e.span.span;
}

/* Handles ascend, so a range with a lower handle than the first began before recording. */
static void range_end(struct join *j, const struct join_host_pend *p)
{
	const struct event_span *e = &p->e.span;
	uint32_t i = j->range_count;
	struct record r;

	while (i && (j->ranges[i - 1].span != e->span || j->ranges[i - 1].domain != e->domain))
		i--;
	if (!i) {
		join_count(j, JOIN_SPAN_UNPAIRED, j->first_range && e->span >= j->first_range);
		return;
	}
	host_record(&r, j, p, RECORD_SPAN, 0);
	r.begin_ns = j->ranges[i - 1].t_ns;
	r.thread = j->ranges[i - 1].tid;
	r.name = j->ranges[i - 1].name;
	r.key = e->domain;
	r.seq = j->ranges[i - 1].depth;
	range_remove(j, i - 1);
	/* a range is complete only at its end, so it is always late */
	j->sink.host(j->sink.arg, &r, NULL);
}

/* ---- ranges of a thread ---- */

static void span_begin(struct join *j, struct join_lane *lane, const struct join_host_pend *p)
{
	const struct event_span *e = &p->e.span;
	struct join_span *s;

	if (e->source == SPAN_SOURCE_PYTHON)
		span_drop_deeper(j, lane, e->depth);
	if (lane->span_count == JOIN_SPAN_DEPTH && !span_drop_oldest(j, lane)) {
		join_count(j, JOIN_SPAN_UNPAIRED, 1);
		return;
	}
	s = &lane->spans[lane->span_count];
	*s = span_of(lane, p);
	lane->span_count++;
}

/* Whether the job opened the range while its thread was already watched. This is for ranges that
 * the job closes. The start of a function came too early, or was overwritten, which is counted. */
static bool span_was_watched(struct join_lane *lane, const struct event_span *e)
{
	bool watched = lane->span_floor && e->depth + 1u >= lane->span_floor;

	if (e->source == SPAN_SOURCE_PYTHON)
		return false;
	if (!watched)
		lane->span_floor = e->depth + 1u;
	return watched;
}

static bool span_is(const struct join_span *s, const struct event_span *e)
{
	if (e->source == SPAN_SOURCE_PYTHON || s->source == SPAN_SOURCE_PYTHON)
		return s->source == e->source && s->python_depth == e->depth;
	return s->domain == e->domain;
}

/* A count in the form of a record. The process is not trusted: any other number becomes 0. */
static uint32_t span_count_of(float begin, float end)
{
	float v = end > 0 ? end : begin;

	return v > 0 && v < 4294967040.0f ? (uint32_t)v : 0;
}

static void span_describe(struct record *r, const struct join_span *s, const struct event_span *e)
{
	_Static_assert(SPAN_WORK_MAX == 4, "record.grid and bytes");
	r->flags |= RECORD_FLAG_PYTHON;
	r->key = e->domain ? e->domain : s->domain;
	for (unsigned i = 0; i < 3; i++)
		r->grid[i] = span_count_of(s->work[i], e->work[i]);
	r->bytes = span_count_of(s->work[3], e->work[3]);
	r->func = s->process;
	r->dtype = s->thread;
}

static void on_span(struct join *j, const struct join_host_pend *p)
{
	const struct event_span *e = &p->e.span;
	struct join_lane *lane = &j->lanes[p->lane];
	struct record r;
	bool watched;
	uint32_t i;

	if (e->source != SPAN_SOURCE_PYTHON && e->span) {
		if (e->head.kind == EVENT_SPAN_BEGIN)
			range_begin(j, lane, p);
		else
			range_end(j, p);
		return;
	}
	watched = span_was_watched(lane, e);
	if (e->head.kind == EVENT_SPAN_BEGIN) {
		span_begin(j, lane, p);
		return;
	}
	for (i = lane->span_count; i-- > 0;)
		if (span_is(&lane->spans[i], e))
			break;
	if (i >= lane->span_count) {
		join_count(j, JOIN_SPAN_UNPAIRED, watched);
		return;
	}
	host_record(&r, j, p, RECORD_SPAN, 0);
	r.begin_ns = lane->spans[i].t_ns;
	r.name = lane->spans[i].name ? lane->spans[i].name : e->name;
	r.key = lane->spans[i].domain;
	r.seq = lane->spans[i].depth;
	if (e->source == SPAN_SOURCE_PYTHON) {
		note_launcher(j, p->tid);
		span_describe(&r, &lane->spans[i], e);
	}
	span_remove(lane, i);
	/* A span is complete at its end, so it is always late. */
	j->sink.host(j->sink.arg, &r, NULL);
}

static void on_span_request(struct join *j, const struct join_host_pend *p)
{
	const struct event_span_request *e = &p->e.span_request;
	struct record r;

	for (unsigned i = 0; i < SPAN_REQUEST_SLOTS; i++) {
		if (!e->request[i])
			continue;
		host_record(&r, j, p, RECORD_SPAN_REQUEST, 0);
		r.name = e->name;
		r.key = e->request[i];
		r.bytes = e->tokens[i];
		r.flags |= RECORD_FLAG_PYTHON | (e->done >> i & 1 ? RECORD_FLAG_DONE : 0);
		/* late, as spans are: it may have begun long before it becomes known */
		j->sink.host(j->sink.arg, &r, NULL);
	}
}

static void on_step(struct join *j, const struct join_host_pend *p)
{
	const struct event_step *e = &p->e.step;
	bool begin = e->head.kind == EVENT_STEP_BEGIN;
	struct record r;
	struct step_mark mark = {.phase = e->phase};

	note_launcher(j, p->tid);
	host_record(&r, j, p, begin ? RECORD_STEP_BEGIN : RECORD_STEP_END, 0);
	r.key = e->index;
	mark.work_count = e->work_count <= STEP_WORK_MAX ? e->work_count : STEP_WORK_MAX;
	for (uint32_t i = 0; i < mark.work_count; i++)
		mark.work[i] = e->work[i];
	emit(j, &r, begin ? &mark : NULL);
}

/* Drops launches and collectives before t_ns, whose kernels a gap lost. */
static void drop_before(struct join *j, uint64_t t_ns)
{
	uint64_t *launches = &j->stats.loss[JOIN_LAUNCH_NO_KERNEL];
	uint64_t *colls = &j->stats.loss[JOIN_COLL_NO_KERNEL];
	uint64_t launches_before = *launches, colls_before = *colls;

	for (uint32_t i = 0; i < j->stream_count; i++) {
		struct join_stream *s = &j->streams[i];

		while (s->launches.count && j->launches[s->launches.head].t_ns < t_ns)
			join_match_launch_drop(j, s);
		while (s->colls.count && j->colls[s->colls.head].call_ns < t_ns)
			join_match_coll_drop(j, s);
	}
	if (!j->gap_asked)
		return;
	j->stats.switched_off += *launches - launches_before + *colls - colls_before;
	*launches = launches_before;
	*colls = colls_before;
}

/* Whether the kernels of launches before the end of such a gap are lost. */
static bool gap_of_kernels(uint16_t cause)
{
	return cause == GAP_SWITCHED_OFF || cause == GAP_CUPTI_YIELDED || cause == GAP_GOVERNED ||
	       cause == GAP_NO_READER;
}

static void on_gap(struct join *j, const struct join_host_pend *p)
{
	const struct event_gap *e = &p->e.gap;
	struct record r;

	host_record(&r, j, p, RECORD_GAP, 0);
	r.end_ns = e->to ? clockmap_ns(j->clock, p->clock_source, e->to) : r.begin_ns;
	if (r.end_ns < r.begin_ns || r.end_ns > j->now_ns + JOIN_FUTURE_NS) {
		join_count(j, JOIN_BAD_STAMP, 1);
		return;
	}
	if (e->cause == GAP_EXPORT_DELAY) { /* a delay; nothing is missing */
		if (r.end_ns - r.begin_ns > j->stats.export_delay_max_ns)
			j->stats.export_delay_max_ns = r.end_ns - r.begin_ns;
		return;
	}
	r.seq = e->cause;
	r.name = e->name;
	if (e->cause == GAP_GRAPH_NODES) {
		r.flags |= RECORD_FLAG_COARSE;
		j->stats.graph_coarse_ns += e->to ? r.end_ns - r.begin_ns : 0;
	}
	emit(j, &r, NULL);
	/* Launches before the gap's end already have their kernels, or have lost them. On a stream
	 * where all kernels look alike (collectives), one launch too many would shift all later
	 * joins. The gap is delivered at its start, so launches of its last part may still come. */
	if (e->to && gap_of_kernels(e->cause)) {
		if (e->detail > 0)
			j->gap = (struct join_gap){j->gap.serial + 1, (uint8_t)e->detail, r.end_ns,
						   clockmap_ns(j->clock, p->clock_source, e->on)};
		if (r.end_ns > j->gap_end_ns) {
			j->gap_end_ns = r.end_ns;
			j->gap_asked = e->cause == GAP_SWITCHED_OFF;
		}
		drop_before(j, r.end_ns);
		for (uint32_t i = 0; i < j->stream_count; i++)
			join_align_over(&j->streams[i], r.end_ns, r.end_ns);
	}
}

static void stream_waited(struct join_stream *s, uint64_t begin_ns, uint64_t end_ns)
{
	if (s->sync_count && s->syncs[s->sync_count - 1].end_ns >= end_ns)
		return; /* a wait of another thread that ended earlier adds nothing */
	if (s->sync_count == JOIN_SYNCS)
		memmove(s->syncs, s->syncs + 1, sizeof(s->syncs[0]) * --s->sync_count);
	s->syncs[s->sync_count++] = (struct join_sync){begin_ns, end_ns};
}

/* Waiting for a context ends the work of all its streams. Streams of unknown context are included
 * only if all known streams have one context. */
static void context_waited(struct join *j, uint64_t begin_ns, uint64_t end_ns)
{
	uint32_t id = 0;

	for (uint32_t i = 0; i < j->stream_count; i++) {
		const struct join_stream *s = &j->streams[i];

		if (s->context_id && id && s->context_id != id)
			return;
		id = s->context_id ? s->context_id : id;
	}
	for (uint32_t i = 0; i < j->stream_count; i++)
		stream_waited(&j->streams[i], begin_ns, end_ns);
}

static void on_sync(struct join *j, const struct join_host_pend *p)
{
	const struct event_sync *e = &p->e.sync;
	struct record r;

	host_record(&r, j, p, RECORD_SYNC, e->duration);
	r.key = e->handle;
	emit(j, &r, NULL);
	/* a saturated duration may have been longer */
	if ((e->head.flags & EVENT_FLAG_FAILED) || e->duration == UINT32_MAX)
		return;
	if (e->scope == SYNC_STREAM) {
		struct join_stream *s = stream_of(j, p, e->handle, 0);

		if (s)
			stream_waited(s, r.begin_ns, r.end_ns);
	} else if (e->scope == SYNC_CONTEXT) {
		context_waited(j, r.begin_ns, r.end_ns);
	}
}

static void on_transfer(struct join *j, const struct join_host_pend *p)
{
	const struct event_transfer *e = &p->e.transfer;
	struct transfer t = {.begin_ns = p->t_ns,
			     .end_ns = p->t_ns +
				       clockmap_duration(j->clock, p->clock_source, e->duration),
			     .comm = e->comm_hash,
			     .bytes = e->bytes,
			     .wait_ns = clockmap_duration(j->clock, p->clock_source, e->wait),
			     .seq = e->seq,
			     .count = e->transfers,
			     .peer = e->peer,
			     .rank = e->rank,
			     .func = e->func,
			     .channel = e->channel};

	if (j->sink.transfer)
		j->sink.transfer(j->sink.arg, &t);
}

static void on_other(struct join *j, const struct join_host_pend *p)
{
	struct record r;

	switch (p->e.head.kind) {
	case EVENT_MEM:
		host_record(&r, j, p, RECORD_MEM, p->e.mem.duration);
		r.bytes = p->e.mem.bytes;
		r.key = p->e.mem.address;
		emit(j, &r, NULL);
		return;
	case EVENT_SYNC:
		on_sync(j, p);
		return;
	case EVENT_TRANSFER:
		on_transfer(j, p);
		return;
	case EVENT_ANCHOR: /* sysomd uses its own anchors */
	case EVENT_PLUGIN: /* single callbacks, on demand, for other readers of the ring */
		return;
	default:
		join_count(j, JOIN_UNKNOWN_EVENT, 1);
	}
}

static void on_host(struct join *j, const struct join_host_pend *p)
{
	struct join_lane *lane = &j->lanes[p->lane];

	if (lane->generation != p->generation) { /* another thread uses the lane */
		group_close(j, lane, 0, 0);
		span_drop_all(j, lane);
		memset(lane, 0, sizeof(*lane));
		lane->generation = p->generation;
	}
	switch (p->e.head.kind) {
	case EVENT_LAUNCH:
	case EVENT_GRAPH_LAUNCH:
		on_launch(j, p);
		return;
	case EVENT_COLL:
	case EVENT_GRAPH_NODE:
		on_coll(j, p);
		return;
	case EVENT_COMM:
		on_comm(j, p);
		return;
	case EVENT_STREAM:
	case EVENT_CONTEXT:
		on_stream(j, p);
		return;
	case EVENT_GRAPH:
		on_graph(j, &p->e.graph);
		return;
	case EVENT_SPAN_BEGIN:
	case EVENT_SPAN_END:
		on_span(j, p);
		return;
	case EVENT_SPAN_REQUEST:
		on_span_request(j, p);
		return;
	case EVENT_STEP_BEGIN:
	case EVENT_STEP_END:
		on_step(j, p);
		return;
	case EVENT_GAP:
		on_gap(j, p);
		return;
	default:
		on_other(j, p);
	}
}

/* ---- order ---- */

/* Host events by (time, thread, arrival); device records by (begin, stream, correlation). */
static bool host_before(const struct join *j, uint32_t a, uint32_t b)
{
	const struct join_host_pend *x = &j->host[a], *y = &j->host[b];

	if (x->t_ns != y->t_ns)
		return x->t_ns < y->t_ns;
	if (x->tid != y->tid)
		return x->tid < y->tid;
	return a < b;
}

static bool device_before(const struct join *j, uint32_t a, uint32_t b)
{
	const struct join_device_pend *x = &j->device[a], *y = &j->device[b];

	if (x->begin_ns != y->begin_ns)
		return x->begin_ns < y->begin_ns;
	if (x->e.kernel.stream_id != y->e.kernel.stream_id)
		return x->e.kernel.stream_id < y->e.kernel.stream_id;
	if (x->e.kernel.correlation != y->e.kernel.correlation)
		return x->e.kernel.correlation < y->e.kernel.correlation;
	return a < b;
}

typedef bool (*before_fn)(const struct join *j, uint32_t a, uint32_t b);

/* Merges existing runs, because each lane's events arrive together and in order. */
static void sort_order(struct join *j, uint32_t count, before_fn before)
{
	uint32_t *from = j->order, *to = j->order_scratch;

	for (uint32_t i = 0; i < count; i++)
		from[i] = i;
	for (;;) {
		uint32_t at = 0, out = 0, runs = 0;

		while (at < count) {
			uint32_t a = at, a_end, b, b_end;

			for (a_end = a + 1;
			     a_end < count && before(j, from[a_end - 1], from[a_end]);)
				a_end++;
			b = a_end;
			for (b_end = b + (b < count);
			     b_end < count && before(j, from[b_end - 1], from[b_end]);)
				b_end++;
			while (a < a_end && b < b_end)
				to[out++] = before(j, from[b], from[a]) ? from[b++] : from[a++];
			while (a < a_end)
				to[out++] = from[a++];
			while (b < b_end)
				to[out++] = from[b++];
			at = b_end;
			runs++;
		}
		if (to == j->order) {
			from = j->order;
			to = j->order_scratch;
		} else {
			from = j->order_scratch;
			to = j->order;
		}
		if (runs <= 1)
			break;
	}
	if (from != j->order)
		memcpy(j->order, from, sizeof(*from) * count);
}

static void release_host(struct join *j, uint64_t until_ns)
{
	uint32_t n = 0, kept = 0;

	if (j->host_sorted) {
		while (n < j->host_count && j->host[n].t_ns <= until_ns)
			on_host(j, &j->host[n++]);
		memmove(j->host, j->host + n, sizeof(*j->host) * (j->host_count - n));
		j->host_count -= n;
		return;
	}
	sort_order(j, j->host_count, host_before);
	while (n < j->host_count && j->host[j->order[n]].t_ns <= until_ns) {
		struct join_host_pend *p = &j->host[j->order[n++]];

		on_host(j, p);
		p->t_ns = 0; /* delivered */
	}
	for (uint32_t i = 0; i < j->host_count; i++)
		if (j->host[i].t_ns)
			j->host[kept++] = j->host[i];
	j->host_count = kept;
	j->host_sorted = true;
	for (uint32_t i = 1; i < kept && j->host_sorted; i++)
		j->host_sorted = j->host[i - 1].t_ns <= j->host[i].t_ns;
}

static void release_device(struct join *j, uint64_t until_ns)
{
	uint32_t n = 0, kept = 0;

	if (j->device_sorted) {
		while (n < j->device_count && j->device[n].begin_ns <= until_ns)
			join_match_device(j, &j->device[n++]);
		memmove(j->device, j->device + n, sizeof(*j->device) * (j->device_count - n));
		j->device_count -= n;
		return;
	}
	sort_order(j, j->device_count, device_before);
	while (n < j->device_count && j->device[j->order[n]].begin_ns <= until_ns) {
		struct join_device_pend *p = &j->device[j->order[n++]];

		join_match_device(j, p);
		p->begin_ns = 0;
	}
	for (uint32_t i = 0; i < j->device_count; i++)
		if (j->device[i].begin_ns)
			j->device[kept++] = j->device[i];
	j->device_count = kept;
	j->device_sorted = true;
	for (uint32_t i = 1; i < kept && j->device_sorted; i++)
		j->device_sorted = j->device[i - 1].begin_ns <= j->device[i].begin_ns;
}

/* In a burst, delivers some events early, so that none is dropped. */
static void make_room(struct join *j, bool host)
{
	uint64_t until = 0;

	join_count(j, JOIN_FORCED, 1);
	if (host) {
		for (uint32_t i = 0; i < j->host_count; i++)
			if (j->host[i].t_ns > until)
				until = j->host[i].t_ns;
	} else {
		until = UINT64_MAX;
	}
	release_host(j, until);
	if (host && until > j->watermark_ns)
		j->watermark_ns = until;
	if (!host)
		release_device(j, until);
}

/* Where to insert an event of time t near the end of a sorted array. Events are only slightly out
 * of order: the launch inside a call arrives before the call. -1: the place is further back. */
#define PLACE_LOOK_BACK 64u
#define PLACE(array, count, t, field, at)                                                          \
	do {                                                                                       \
		uint32_t low_ = (count) > PLACE_LOOK_BACK ? (count)-PLACE_LOOK_BACK : 0;           \
		for ((at) = (int64_t)(count); (at) > low_ && (array)[(at)-1].field > (t);)         \
			(at)--;                                                                    \
		if ((at) == low_ && low_ && (array)[low_ - 1].field > (t))                         \
			(at) = -1;                                                                 \
	} while (0)

static void push_host(struct join *j, const union ring_event *e, uint64_t t_ns,
		      const struct ring_lane_view *view)
{
	struct join_host_pend *p;
	int64_t at = -1;

	if (j->host_count == JOIN_HOST_PENDING)
		make_room(j, true);
	if (j->host_sorted)
		PLACE(j->host, j->host_count, t_ns, t_ns, at);
	if (at < 0) {
		j->host_sorted = false;
		at = j->host_count;
	}
	p = &j->host[at];
	if ((uint32_t)at < j->host_count)
		memmove(p + 1, p, sizeof(*p) * (j->host_count - (uint32_t)at));
	p->t_ns = t_ns;
	p->lane = (uint16_t)view->lane;
	p->clock_source = view->clock_source;
	p->generation = (uint8_t)view->generation;
	p->tid = view->tid;
	memcpy(p->e.bytes, e->bytes, RING_HOST_SLOT_BYTES);
	j->host_count++;
}

static void push_device(struct join *j, const union ring_event *e, uint64_t begin_ns,
			uint64_t end_ns)
{
	struct join_device_pend *p;
	int64_t at = -1;

	if (j->device_count == JOIN_DEVICE_PENDING)
		make_room(j, false);
	if (j->device_sorted)
		PLACE(j->device, j->device_count, begin_ns, begin_ns, at);
	if (at < 0) {
		j->device_sorted = false;
		at = j->device_count;
	}
	p = &j->device[at];
	if ((uint32_t)at < j->device_count)
		memmove(p + 1, p, sizeof(*p) * (j->device_count - (uint32_t)at));
	p->begin_ns = begin_ns;
	p->end_ns = end_ns;
	memcpy(p->e.bytes, e->bytes, RING_DEVICE_SLOT_BYTES);
	j->device_count++;
	j->stats.device_events++;
}

void join_push(struct join *j, const union ring_event *events, size_t count,
	       const struct ring_lane_view *view, uint64_t now_ns)
{
	uint64_t latest = now_ns + JOIN_FUTURE_NS;

	CHECK(view->lane < j->lane_count);
	j->now_ns = now_ns;
	for (size_t i = 0; i < count; i++) {
		uint64_t t = clockmap_ns(j->clock, view->clock_source, events[i].head.t), end;

		if (!t || t > latest) {
			join_count(j, JOIN_BAD_STAMP, 1);
			continue;
		}
		if (view->kind == RING_LANE_HOST) {
			push_host(j, &events[i], t, view);
			continue;
		}
		end = clockmap_ns(j->clock, view->clock_source, events[i].kernel.end);
		if (end < t || end > latest)
			join_count(j, JOIN_BAD_STAMP, 1);
		else
			push_device(j, &events[i], t, end);
	}
}

/* Drops launches that are too old to get a kernel. Otherwise they would fill the pool. */
static void age(struct join *j)
{
	uint64_t from = j->watermark_ns, hang = 0;

	if (j->device_ns && j->device_ns < from) {
		hang = from > JOIN_HANG_AGE_NS ? from - JOIN_HANG_AGE_NS : 0;
		from = j->device_ns;
	}
	from = from > JOIN_LAUNCH_AGE_NS ? from - JOIN_LAUNCH_AGE_NS : 0;
	drop_before(j, from > hang ? from : hang);
}

void join_run(struct join *j, uint64_t now_ns)
{
	uint64_t until = now_ns > JOIN_REORDER_NS ? now_ns - JOIN_REORDER_NS : 0;

	j->now_ns = now_ns;
	release_host(j, until);
	if (until > j->watermark_ns)
		j->watermark_ns = until;
	release_device(j, j->watermark_ns);
	if (now_ns - j->aged_ns > 1000000000ull) {
		j->aged_ns = now_ns;
		age(j);
	}
}

void join_finish(struct join *j)
{
	release_host(j, UINT64_MAX);
	if (j->last_host_ns > j->watermark_ns)
		j->watermark_ns = j->last_host_ns;
	release_device(j, UINT64_MAX);
	for (uint32_t i = 0; i < j->lane_count; i++)
		span_drop_all(j, &j->lanes[i]);
	join_count(j, JOIN_SPAN_UNPAIRED, j->range_count);
	j->range_count = 0;
	for (uint32_t i = 0; i < j->stream_count; i++) {
		while (j->streams[i].launches.count)
			join_match_launch_drop(j, &j->streams[i]);
		while (j->streams[i].colls.count)
			join_match_coll_drop(j, &j->streams[i]);
	}
}
