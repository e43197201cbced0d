/* SPDX-License-Identifier: Apache-2.0
 * The device side. Correlation ids are not told to the launch wrappers, so a stream's order is what
 * joins: launch k meets kernel k. One lost record would shift everything after it, hence the
 * signatures, and the alignment that looks for the cheapest shift both sides agree on. */
#include <string.h>

#include "base/check.h"
#include "base/hash.h"
#include "sidecar/join_state.h"

/* ---- pools and lists ---- */

uint32_t join_match_launch_new(struct join *j)
{
	uint32_t node = j->launch_free;

	if (node) {
		j->launch_free = j->launches[node].next;
		__builtin_prefetch(&j->launches[j->launch_free], 1);
	} else if (j->launch_used < JOIN_LAUNCHES) {
		node = j->launch_used++;
	}
	return node;
}

void join_match_launch_push(struct join *j, struct join_stream *s, uint32_t node)
{
	j->launches[node].next = 0;
	if (s->launches.tail)
		j->launches[s->launches.tail].next = node;
	else
		s->launches.head = node;
	s->launches.tail = node;
	s->launches.count++;
	/* One stream may not starve the others. */
	if (s->launches.count > JOIN_LAUNCHES / 2)
		join_match_launch_drop(j, s);
}

static void launch_pop(struct join *j, struct join_stream *s)
{
	uint32_t node = s->launches.head;

	s->launches.head = j->launches[node].next;
	/* it was written a flush ago, and is asked for next */
	__builtin_prefetch(&j->launches[s->launches.head]);
	if (!s->launches.head)
		s->launches.tail = 0;
	s->launches.count--;
	j->launches[node].next = j->launch_free;
	j->launch_free = node;
}

void join_match_launch_drop(struct join *j, struct join_stream *s)
{
	join_count(j, JOIN_LAUNCH_NO_KERNEL, 1);
	launch_pop(j, s);
}

static void coll_pop(struct join *j, struct join_stream *s)
{
	uint32_t node = s->colls.head;

	s->colls.head = j->colls[node].next;
	if (!s->colls.head)
		s->colls.tail = 0;
	s->colls.count--;
	j->colls[node].next = j->coll_free;
	j->colls[node].open = 0;
	j->coll_free = node;
}

void join_match_coll_drop(struct join *j, struct join_stream *s)
{
	const struct join_coll *c = &j->colls[s->colls.head];

	/* Several calls of one group may share a kernel; the first of them stands for it. */
	if (c->group && c->group == s->last_group)
		j->stats.coll_fused++;
	else
		join_count(j, JOIN_COLL_NO_KERNEL, 1);
	coll_pop(j, s);
}

struct join_func *join_match_func(struct join *j, uint64_t handle, bool create)
{
	uint32_t at = (uint32_t)hash_mix(handle) & (JOIN_FUNCS - 1);

	for (uint32_t n = 0; n < 64; n++, at = (at + 1) & (JOIN_FUNCS - 1)) {
		struct join_func *f = &j->funcs[at];

		if (f->handle == handle && handle)
			return f;
		if (f->handle)
			continue;
		if (!create || !handle)
			return NULL;
		f->handle = handle;
		return f;
	}
	if (create)
		join_count(j, JOIN_TABLE_FULL, 1);
	return NULL;
}

uint8_t join_match_name_class(struct join *j, uint32_t name)
{
	if (!name || name > LIMIT_NAME_COUNT)
		return 0;
	if (!j->name_class[name]) {
		const char *text = j->sink.name(j->sink.arg, name);

		if (!*text) /* not polled yet: ask again */
			return 0;
		j->name_class[name] = JOIN_NAME_ASKED;
		if (record_is_coll_kernel(text))
			j->name_class[name] |= JOIN_NAME_COLL;
		if (record_is_optimizer(text))
			j->name_class[name] |= JOIN_NAME_OPTIMIZER;
	}
	return j->name_class[name];
}

static bool is_coll_name(struct join *j, uint32_t name)
{
	return join_match_name_class(j, name) & JOIN_NAME_COLL;
}

/* ---- streams ---- */

static struct join_device_stream *find_device_stream(struct join *j, const struct event_kernel *k)
{
	struct join_device_stream *d;

	if (j->device_stream_last < j->device_stream_count) {
		d = &j->device_streams[j->device_stream_last];
		if (d->stream_id == k->stream_id && d->context_id == k->context_id &&
		    d->device == k->device)
			return d;
	}
	for (uint32_t i = 0; i < j->device_stream_count; i++) {
		d = &j->device_streams[i];
		if (d->stream_id == k->stream_id && d->context_id == k->context_id &&
		    d->device == k->device) {
			j->device_stream_last = i;
			return d;
		}
	}
	if (j->device_stream_count >= JOIN_DEVICE_STREAMS) {
		join_count(j, JOIN_TABLE_FULL, 1);
		return NULL;
	}
	d = &j->device_streams[j->device_stream_count];
	d->device = k->device;
	d->context_id = k->context_id;
	d->stream_id = k->stream_id;
	d->stream = -1;
	for (uint32_t i = 0; i < j->stream_count; i++) {
		struct join_stream *s = &j->streams[i];

		if (s->known && s->device_stream < 0 && s->stream_id == k->stream_id &&
		    (!s->context_id || s->context_id == k->context_id)) {
			d->stream = (int32_t)i;
			s->device_stream = (int32_t)j->device_stream_count;
		}
	}
	j->device_stream_last = j->device_stream_count++;
	return d;
}

void join_match_bind(struct join *j, uint32_t stream_index)
{
	struct join_stream *s = &j->streams[stream_index];

	for (uint32_t i = 0; i < j->device_stream_count; i++) {
		struct join_device_stream *d = &j->device_streams[i];

		if (d->stream_id != s->stream_id ||
		    (s->context_id && d->context_id != s->context_id))
			continue;
		if (d->stream >= 0 && d->stream != (int32_t)stream_index)
			j->streams[d->stream].device_stream = -1;
		d->stream = (int32_t)stream_index;
		s->device_stream = (int32_t)i;
	}
}

/* ---- records ---- */

/* Into *r field by field: a returned copy of what was just written waits for the stores. */
static void device_record(struct record *r, const struct join_device_pend *p)
{
	const struct event_kernel *k = &p->e.kernel;

	memset(r, 0, sizeof(*r));
	r->begin_ns = p->begin_ns;
	r->end_ns = p->end_ns;
	r->kind = RECORD_KERNEL;
	r->name = k->name;
	r->thread = k->device;
	r->stream = k->stream_id;
	r->correlation = k->correlation;
	r->registers = k->registers;
	r->peer = -1;
	r->shared_bytes = k->shared_static_bytes + k->shared_dynamic_bytes;
	for (int i = 0; i < 3; i++) {
		r->grid[i] = k->grid[i];
		r->block[i] = k->block[i];
	}
	if (k->graph_id || (k->head.flags & EVENT_FLAG_GRAPH_NODE))
		r->flags |= RECORD_FLAG_GRAPH;
}

static void emit_unmatched(struct join *j, const struct join_device_pend *p, enum join_loss why)
{
	struct record r;

	device_record(&r, p);
	join_count(j, why, 1);
	j->stats.kernels_unmatched++;
	if (is_coll_name(j, r.name)) {
		r.kind = RECORD_COLL_KERNEL;
		join_count(j, JOIN_COLL_KERNEL_ALONE, 1);
		j->stats.coll_kernels++;
	}
	r.flags |= RECORD_FLAG_UNMATCHED;
	j->sink.device(j->sink.arg, &r);
}

static void take_coll(struct join *j, struct join_stream *s, struct record *r)
{
	const struct join_coll *c = &j->colls[s->colls.head];

	r->key = c->key;
	r->bytes = c->bytes;
	r->seq = c->seq;
	r->func = c->func;
	r->peer = c->peer;
	s->last_group = c->group;
	j->stats.coll_kernels_joined++;
	coll_pop(j, s);
}

/* The collective during whose call (or group end) the kernel's launch ran. */
static void join_coll(struct join *j, struct join_stream *s, uint64_t launch_ns, struct record *r)
{
	r->kind = RECORD_COLL_KERNEL;
	j->stats.coll_kernels++;
	while (s->colls.count) {
		const struct join_coll *c = &j->colls[s->colls.head];

		if (launch_ns < c->begin_ns || c->open)
			break;
		if (launch_ns <= c->end_ns) {
			take_coll(j, s, r);
			return;
		}
		join_match_coll_drop(j, s);
	}
	join_count(j, JOIN_COLL_KERNEL_ALONE, 1);
}

static bool signature_fits(struct join *j, const struct join_launch *l,
			   const struct join_device_pend *p)
{
	const struct event_kernel *k = &p->e.kernel;

	if (l->t_ns > p->begin_ns + j->clock->error_ns)
		return false; /* a kernel cannot start before its launch */
	if (l->type == JOIN_LAUNCH_GRAPH)
		return false; /* by correlation, see on_graph_node */
	return l->grid[0] == k->grid[0] && l->grid[1] == k->grid[1] && l->grid[2] == k->grid[2] &&
	       l->block[0] == k->block[0] && l->block[1] == k->block[1] && l->block[2] == k->block[2];
}

static void learn_name(struct join *j, const struct join_launch *l, uint32_t name)
{
	struct join_func *f;

	if (!name)
		return;
	/* entries stay where they are */
	f = l->type == JOIN_LAUNCH_KERNEL && l->func_at ? &j->funcs[l->func_at - 1] :
							  join_match_func(j, l->func, true);
	if (f && f->name != name)
		f->name = name;
}

static void meet(struct join *j, struct join_stream *s, const struct join_device_pend *p)
{
	const struct join_launch *l = &j->launches[s->launches.head];
	struct record r;

	device_record(&r, p);
	r.launch_ns = l->t_ns;
	/* At the launch the name may not have been known. */
	if (join_match_name_class(j, r.name) & JOIN_NAME_OPTIMIZER)
		r.flags |= RECORD_FLAG_OPTIMIZER;
	learn_name(j, l, r.name);
	if (is_coll_name(j, r.name))
		join_coll(j, s, l->t_ns, &r);
	launch_pop(j, s);
	if (p->end_ns > j->device_ns)
		j->device_ns = p->end_ns;
	j->stats.kernels_joined++;
	j->sink.device(j->sink.arg, &r);
}

/* NCCL launched it where no wrapper of ours looks: the call itself stands for the launch. */
static bool meet_unseen_coll(struct join *j, struct join_stream *s,
			     const struct join_device_pend *p)
{
	const struct join_coll *c;
	struct record r;

	if (!is_coll_name(j, p->e.kernel.name) || !s->colls.count)
		return false;
	c = &j->colls[s->colls.head];
	if (c->launches || c->open || c->call_ns > p->begin_ns + j->clock->error_ns)
		return false;
	device_record(&r, p);
	r.kind = RECORD_COLL_KERNEL;
	r.launch_ns = c->call_ns;
	j->stats.coll_kernels++;
	take_coll(j, s, &r);
	j->stats.kernels_joined++;
	j->sink.device(j->sink.arg, &r);
	return true;
}

/* ---- alignment ---- */

struct window_of { /* what an alignment looks at */
	uint32_t launches[JOIN_LOOK_AHEAD];
	uint32_t launch_count;
	/* of grid and block: what differs in it does not fit; made once the first pair doesn't */
	bool has_shapes;
	uint64_t launch_shape[JOIN_LOOK_AHEAD], kernel_shape[JOIN_DEVICE_QUEUE];
};

#define SHAPE_OF(x)                                                                                \
	((x)->grid[0] * 0x9e3779b97f4a7c15ull + (x)->grid[1] * 0xbf58476d1ce4e5b9ull +             \
	 (x)->grid[2] * 0x94d049bb133111ebull + (x)->block[0] * 0xd6e8feb86659fd93ull +            \
	 (x)->block[1] * 0xff51afd7ed558ccdull + (x)->block[2] * 0xc4ceb9fe1a85ec53ull)

static void look_at_shapes(const struct join *j, const struct join_device_stream *d,
			   struct window_of *w)
{
	for (uint32_t i = 0; i < w->launch_count; i++)
		w->launch_shape[i] = SHAPE_OF(&j->launches[w->launches[i]]);
	for (uint32_t i = 0; i < d->queue_count; i++)
		w->kernel_shape[i] = SHAPE_OF(&d->queue[i].e.kernel);
	w->has_shapes = true;
}

static void look_ahead(const struct join *j, const struct join_stream *s, struct window_of *w)
{
	uint32_t node = s->launches.head;

	w->has_shapes = false;
	for (w->launch_count = 0; node && w->launch_count < JOIN_LOOK_AHEAD; w->launch_count++) {
		w->launches[w->launch_count] = node;
		node = j->launches[node].next;
	}
}

/* How many pairs in a row fit from (launch a, kernel b), JOIN_RUN at most. */
static uint32_t run_length(struct join *j, const struct window_of *w,
			   const struct join_device_stream *d, uint32_t a, uint32_t b)
{
	uint32_t n = 0;

	if (w->has_shapes && w->launch_shape[a] != w->kernel_shape[b])
		return 0;
	while (n < JOIN_RUN && a + n < w->launch_count && b + n < d->queue_count &&
	       signature_fits(j, &j->launches[w->launches[a + n]], &d->queue[b + n]))
		n++;
	return n;
}

enum align_result { ALIGN_NONE, ALIGN_WAIT, ALIGN_UNIQUE, ALIGN_AMBIGUOUS };

/* The cheapest (a launches, b kernels) to skip so that what follows fits. patient: wait for a longer
 * run; else what there is has to do. */
static enum align_result align(struct join *j, const struct join_stream *s,
			       const struct join_device_stream *d, bool patient, uint32_t *a_out,
			       uint32_t *b_out)
{
	struct window_of w;
	bool short_run = false;

	look_ahead(j, s, &w);
	for (uint32_t cost = 0; cost < JOIN_LOOK_AHEAD; cost++) {
		uint32_t fits = 0;

		if (cost == 1)
			look_at_shapes(j, d, &w);
		for (uint32_t a = 0; a <= cost && a < w.launch_count; a++) {
			uint32_t b = cost - a, left, run;

			if (b >= d->queue_count)
				continue;
			left = w.launch_count - a < d->queue_count - b ? w.launch_count - a :
									  d->queue_count - b;
			run = run_length(j, &w, d, a, b);
			if (!run || run < (left < JOIN_RUN ? left : JOIN_RUN))
				continue;
			if (run < JOIN_RUN && patient) {
				short_run = true;
				continue;
			}
			fits++;
			*a_out = a;
			*b_out = b;
		}
		if (fits)
			return short_run ? ALIGN_WAIT : fits == 1 ? ALIGN_UNIQUE : ALIGN_AMBIGUOUS;
	}
	return short_run ? ALIGN_WAIT : ALIGN_NONE;
}

static void queue_shift(struct join_device_stream *d, uint32_t n, uint64_t now_ns)
{
	d->queue_count -= n;
	memmove(d->queue, d->queue + n, sizeof(d->queue[0]) * d->queue_count);
	d->queue_since_ns = now_ns;
}

/* Binds d to the one host stream of unknown ids whose launches fit its kernels. */
static bool learn_stream(struct join *j, struct join_device_stream *d, bool patient)
{
	uint32_t a, b, fits = 0, found = 0;

	for (uint32_t i = 0; i < j->stream_count; i++) {
		struct join_stream *s = &j->streams[i];

		if (s->known || s->device_stream >= 0 || !s->launches.count)
			continue;
		switch (align(j, s, d, patient, &a, &b)) {
		case ALIGN_UNIQUE:
		case ALIGN_AMBIGUOUS: /* how far to skip is the next question */
			fits++;
			found = i;
			break;
		case ALIGN_WAIT:
			return false;
		case ALIGN_NONE:
			break;
		}
	}
	if (fits != 1)
		return false;
	d->stream = (int32_t)found;
	j->streams[found].device_stream = (int32_t)(d - j->device_streams);
	j->stats.streams_learned++;
	return true;
}

/* Meets whatever at the queue's head fits now. */
static void queue_drain(struct join *j, struct join_device_stream *d)
{
	struct join_stream *s = &j->streams[d->stream];
	uint32_t n = 0;

	while (n < d->queue_count) {
		if (s->launches.count &&
		    signature_fits(j, &j->launches[s->launches.head], &d->queue[n]))
			meet(j, s, &d->queue[n]);
		else if (!meet_unseen_coll(j, s, &d->queue[n]))
			break;
		n++;
	}
	if (n)
		queue_shift(d, n, j->now_ns);
}

/* One decision about the queue; false: nothing to do but wait. */
static bool resolve(struct join *j, struct join_device_stream *d, bool patient)
{
	struct join_stream *s;
	uint32_t a = 0, b = 0;

	if (d->stream < 0 && !learn_stream(j, d, patient)) {
		if (patient)
			return false;
		emit_unmatched(j, &d->queue[0], JOIN_KERNEL_NO_LAUNCH);
		queue_shift(d, 1, d->queue_since_ns);
		return true;
	}
	s = &j->streams[d->stream];
	switch (align(j, s, d, patient, &a, &b)) {
	case ALIGN_UNIQUE:
		if (a || b)
			j->stats.resyncs++;
		while (a--)
			join_match_launch_drop(j, s);
		for (uint32_t i = 0; i < b; i++)
			emit_unmatched(j, &d->queue[i], JOIN_KERNEL_NO_LAUNCH);
		queue_shift(d, b, j->now_ns);
		queue_drain(j, d);
		return true;
	case ALIGN_AMBIGUOUS:
		emit_unmatched(j, &d->queue[0], JOIN_KERNEL_AMBIGUOUS);
		queue_shift(d, 1, d->queue_since_ns);
		return true;
	case ALIGN_WAIT:
	case ALIGN_NONE:
		if (patient)
			return false;
		emit_unmatched(j, &d->queue[0], JOIN_KERNEL_NO_LAUNCH);
		queue_shift(d, 1, d->queue_since_ns);
		return true;
	}
	return false;
}

static void enqueue(struct join *j, struct join_device_stream *d, const struct join_device_pend *p)
{
	if (d->queue_count == JOIN_DEVICE_QUEUE)
		resolve(j, d, false);
	if (!d->queue_count)
		d->queue_since_ns = j->now_ns;
	d->queue[d->queue_count++] = *p;
	/* Trying at every record would cost a burst dear. */
	if (d->queue_count == 1 || d->queue_count % JOIN_RUN == 0)
		while (d->queue_count && resolve(j, d, true))
			;
}

void join_match_expire(struct join *j, bool finish)
{
	for (uint32_t i = 0; i < j->device_stream_count; i++) {
		struct join_device_stream *d = &j->device_streams[i];

		if (!d->queue_count)
			continue;
		if (d->stream >= 0)
			queue_drain(j, d);
		while (d->queue_count &&
		       resolve(j, d, !finish && j->now_ns - d->queue_since_ns < JOIN_ALIGN_WAIT_NS))
			;
	}
}

/* A kernel that began after a wait had ended was launched after it began: older launches have no
 * kernel any more. Where all of a stream look alike this is what ends a shift. */
static void pass_syncs(struct join *j, struct join_device_stream *d, struct join_stream *s,
		       uint64_t begin_ns)
{
	uint32_t n = 0;

	while (n < s->sync_count && s->syncs[n].end_ns + j->clock->error_ns <= begin_ns)
		n++;
	if (!n)
		return;
	while (d->queue_count && resolve(j, d, false))
		;
	while (s->launches.count && j->launches[s->launches.head].end_ns < s->syncs[n - 1].begin_ns)
		join_match_launch_drop(j, s);
	while (s->colls.count && !j->colls[s->colls.head].open &&
	       j->colls[s->colls.head].end_ns < s->syncs[n - 1].begin_ns)
		join_match_coll_drop(j, s);
	s->sync_count -= n;
	memmove(s->syncs, s->syncs + n, sizeof(s->syncs[0]) * s->sync_count);
}

/* ---- graphs ---- */

static struct join_replay *find_replay(struct join *j, uint32_t correlation)
{
	/* Newest first; nodes of more than a few launches at a time do not mix. */
	for (uint32_t n = 0; n < 64 && n < j->replay_next; n++) {
		struct join_replay *r = &j->replays[(j->replay_next - n) % JOIN_REPLAYS];

		if (r->met && r->correlation == correlation)
			return r;
	}
	return NULL;
}

/* The next graph launch of the stream, kernels before it having been waited for. */
static struct join_replay *take_graph_launch(struct join *j, struct join_stream *s,
					     uint64_t begin_ns)
{
	uint32_t node = s->launches.head, skipped = 0;
	struct join_replay *r;

	while (node && j->launches[node].type != JOIN_LAUNCH_GRAPH) {
		node = j->launches[node].next;
		skipped++;
	}
	if (!node || j->launches[node].t_ns > begin_ns + j->clock->error_ns)
		return NULL;
	r = &j->replays[j->launches[node].replay % JOIN_REPLAYS];
	while (skipped--)
		join_match_launch_drop(j, s);
	if (r->number != j->launches[node].replay)
		r = NULL;
	launch_pop(j, s);
	return r;
}

/* On an inner stream of the graph, or one not learned: the one stream with a graph launch open. */
static struct join_stream *only_graph_stream(struct join *j)
{
	struct join_stream *only = NULL;

	for (uint32_t i = 0; i < j->stream_count; i++) {
		struct join_stream *s = &j->streams[i];
		uint32_t node = s->launches.head;

		while (node && j->launches[node].type != JOIN_LAUNCH_GRAPH)
			node = j->launches[node].next;
		if (!node)
			continue;
		if (only)
			return NULL;
		only = s;
	}
	return only;
}

static void join_graph_coll(struct join *j, struct join_replay *rp, struct record *r)
{
	const struct join_template_coll *c;

	r->kind = RECORD_COLL_KERNEL;
	j->stats.coll_kernels++;
	if (!rp || !rp->next_coll) {
		join_count(j, JOIN_COLL_KERNEL_ALONE, 1);
		return;
	}
	c = &j->template_colls[rp->next_coll];
	rp->next_coll = c->next;
	r->key = c->key;
	/* (graph, node, replay): no call of the communicator, so a numbering apart from theirs. */
	r->seq = 0x80000000u | (uint32_t)hash_mix(hash_mix(rp->capture << 20 ^ c->node) + rp->nth);
	r->func = c->func;
	r->peer = c->peer;
	r->bytes = c->bytes;
	j->stats.coll_kernels_joined++;
}

static void on_graph_node(struct join *j, const struct join_device_pend *p, bool whole)
{
	struct join_device_stream *d = find_device_stream(j, &p->e.kernel);
	struct join_replay *rp = find_replay(j, p->e.kernel.correlation);
	struct record r;

	device_record(&r, p);
	if (whole)
		r.kind = RECORD_GRAPH_EXEC;
	r.flags |= RECORD_FLAG_GRAPH;
	if (!rp) {
		struct join_stream *s = d && d->stream >= 0 ? &j->streams[d->stream] : NULL;

		if (s) {
			pass_syncs(j, d, s, p->begin_ns);
			rp = take_graph_launch(j, s, p->begin_ns);
		}
		if (!rp) {
			s = only_graph_stream(j);
			rp = s ? take_graph_launch(j, s, p->begin_ns) : NULL;
		}
		if (rp) {
			rp->met = true;
			rp->correlation = p->e.kernel.correlation;
		}
	}
	j->stats.graph_nodes++;
	if (rp) {
		r.launch_ns = rp->t_ns;
		j->stats.kernels_joined++;
	} else {
		r.flags |= RECORD_FLAG_UNMATCHED;
		j->stats.kernels_unmatched++;
		join_count(j, JOIN_GRAPH_AMBIGUOUS, 1);
	}
	if (!whole && is_coll_name(j, r.name))
		join_graph_coll(j, rp, &r);
	j->sink.device(j->sink.arg, &r);
}

/* ---- entry ---- */

static void on_copy(struct join *j, const struct join_device_pend *p)
{
	const struct event_copy *c = &p->e.copy;
	struct record r = { .begin_ns = p->begin_ns, .end_ns = p->end_ns, .kind = RECORD_COPY,
			    .bytes = c->bytes, .thread = c->device, .stream = c->stream_id,
			    .correlation = c->correlation, .func = c->copy_kind, .peer = -1 };

	if (c->graph_id || (c->head.flags & EVENT_FLAG_GRAPH_NODE)) {
		struct join_replay *rp = find_replay(j, c->correlation);

		r.flags |= RECORD_FLAG_GRAPH;
		r.launch_ns = rp ? rp->t_ns : 0;
	}
	j->stats.copies++;
	j->sink.device(j->sink.arg, &r);
}

void join_match_device(struct join *j, const struct join_device_pend *p)
{
	struct join_device_stream *d;
	struct join_stream *s;

	switch (p->e.head.kind) {
	case EVENT_COPY:
		on_copy(j, p);
		return;
	case EVENT_GRAPH_EXEC:
		on_graph_node(j, p, true);
		return;
	case EVENT_KERNEL:
		break;
	default:
		join_count(j, JOIN_UNKNOWN_EVENT, 1);
		return;
	}
	j->stats.kernels++;
	if (p->e.kernel.graph_id || (p->e.head.flags & EVENT_FLAG_GRAPH_NODE)) {
		on_graph_node(j, p, false);
		return;
	}
	d = find_device_stream(j, &p->e.kernel);
	if (!d) {
		emit_unmatched(j, p, JOIN_KERNEL_NO_LAUNCH);
		return;
	}
	s = d->stream >= 0 ? &j->streams[d->stream] : NULL;
	if (s)
		pass_syncs(j, d, s, p->begin_ns);
	if (s && !d->queue_count) {
		if (s->launches.count && signature_fits(j, &j->launches[s->launches.head], p)) {
			meet(j, s, p);
			return;
		}
		if (meet_unseen_coll(j, s, p))
			return;
	}
	enqueue(j, d, p);
}
