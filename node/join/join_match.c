/* SPDX-License-Identifier: Apache-2.0
 * The device side. The launch wrappers do not see correlation ids, so kernels are joined by number:
 * host and device side both number the launches of a stream, and the two numbers differ by the
 * stream's difference (join_align.c). */
#include <string.h>

#include "base/hash.h"
#include "base/keyed.h"
#include "node/join/join_private.h"

/* ---- pools and lists ---- */

/* Reuses the chunk freed last, which is still in the cache. */
static uint32_t chunk_new(struct join *j)
{
	uint32_t c = j->chunk_free;

	if (c)
		j->chunk_free = j->chunk_next[c];
	else if (j->chunk_used < JOIN_LAUNCHES / JOIN_CHUNK)
		c = j->chunk_used++;
	return c;
}

static void chunk_free(struct join *j, uint32_t node)
{
	j->chunk_next[node / JOIN_CHUNK] = j->chunk_free;
	j->chunk_free = node / JOIN_CHUNK;
}

static void graph_push(struct join *j, struct join_stream *s, uint32_t node)
{
	if (s->graph_head) {
		j->launches[s->graph_tail].graph_next = node;
	} else {
		s->graph_head = node;
		j->graph_streams++;
		j->graph_streams_sum += (uint32_t)(s - j->streams);
	}
	s->graph_tail = node;
}

static void graph_pop(struct join *j, struct join_stream *s)
{
	s->graph_head = j->launches[s->graph_head].graph_next;
	if (s->graph_head)
		return;
	j->graph_streams--;
	j->graph_streams_sum -= (uint32_t)(s - j->streams);
}

uint32_t join_match_launch_push(struct join *j, struct join_stream *s, bool graph)
{
	uint32_t node = s->launches.tail + 1;

	if (!s->launches.tail || node % JOIN_CHUNK == 0) {
		uint32_t c = chunk_new(j);

		if (!c)
			return 0;
		if (s->launches.tail)
			j->chunk_next[s->launches.tail / JOIN_CHUNK] = c;
		j->chunk_prev[c] = s->launches.tail / JOIN_CHUNK;
		node = c * JOIN_CHUNK;
	}
	if (!s->launches.tail)
		s->launches.head = node;
	s->launches.tail = node;
	s->launches.count++;
	j->launches[node] =
	    (struct join_launch){.type = graph ? JOIN_LAUNCH_GRAPH : JOIN_LAUNCH_KERNEL};
	if (graph)
		graph_push(j, s, node);
	/* One stream must not use up the pool. */
	if (s->launches.count > JOIN_LAUNCHES / 2)
		join_match_launch_drop(j, s);
	return node;
}

static void launch_pop(struct join *j, struct join_stream *s)
{
	uint32_t node = s->launches.head;

	join_align_left(j, s, node, &j->launches[node]);
	if (node == s->graph_head)
		graph_pop(j, s);
	s->launches.head = join_launch_next(j, s, node);
	if (!s->launches.head)
		s->launches.tail = 0;
	if (s->launches.head / JOIN_CHUNK != node / JOIN_CHUNK)
		chunk_free(j, node);
	s->launches.count--;
}

void join_match_stream_moved(struct join *j, const struct join_stream *s, struct join_stream *to)
{
	if (to->device_stream >= 0)
		j->device_streams[to->device_stream].stream = (int32_t)(to - j->streams);
	if (to->graph_head)
		j->graph_streams_sum += (uint32_t)(to - j->streams) - (uint32_t)(s - j->streams);
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

	/* Calls of one group may share a kernel. The kernel is joined with the first call. */
	if (!c->group || c->group != s->last_group)
		join_count(j, JOIN_COLL_NO_KERNEL, 1);
	coll_pop(j, s);
}

static struct join_func *search_func(struct join *j, uint64_t handle, bool create)
{
	uint32_t looks = 0;

	PROBE_PLACES (at, keyed_place(j->key, handle, JOIN_FUNCS_BITS), JOIN_FUNCS) {
		struct join_func *f = &j->funcs[at];

		if (looks++ == JOIN_FUNCS_LOOK)
			break;
		if (f->handle == handle)
			return f;
		if (f->handle)
			continue;
		if (!create)
			return NULL;
		f->handle = handle;
		return f;
	}
	if (create)
		join_count(j, JOIN_TABLE_FULL, 1);
	return NULL;
}

/* Launches recur in the same order, so the function that followed last time is tried first, and was
 * prefetched. */
struct join_func *join_match_func(struct join *j, uint64_t handle, bool create)
{
	struct join_func *f = &j->funcs[j->func_guess];

	if (!handle)
		return NULL;
	if (f->handle != handle)
		f = search_func(j, handle, create);
	if (!f)
		return NULL;
	j->funcs[j->func_last].next = (uint32_t)(f - j->funcs);
	j->func_last = (uint32_t)(f - j->funcs);
	j->func_guess = f->next;
	__builtin_prefetch(&j->funcs[f->next]);
	return f;
}

uint8_t join_match_name_class(struct join *j, uint32_t name)
{
	if (!name || name > LIMIT_NAME_COUNT)
		return 0;
	if (!j->name_class[name]) {
		const char *text = j->sink.name(j->sink.arg, name);

		if (!*text) /* the name has not arrived yet: ask again */
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

static struct join_device_stream *device_stream_new(struct join *j, const struct event_kernel *k)
{
	struct join_device_stream *d;

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

static bool is_device_stream(const struct join_device_stream *d, const struct event_kernel *k)
{
	return d->stream_id == k->stream_id && d->context_id == k->context_id &&
	       d->device == k->device;
}

static struct join_device_stream *find_device_stream(struct join *j, const struct event_kernel *k)
{
	struct join_device_stream *d = &j->device_streams[j->device_stream_last];
	uint64_t hash;

	if (j->device_stream_last < j->device_stream_count && is_device_stream(d, k))
		return d;
	hash = hash_mix((uint64_t)k->stream_id << 32 ^ (uint64_t)k->context_id << 8 ^ k->device);
	PROBE_EACH (i, &j->device_index, hash) {
		d = &j->device_streams[i.number];
		if (!is_device_stream(d, k))
			continue;
		j->device_stream_last = i.number;
		return d;
	}
	if (probe_room(&j->device_index, j->device_stream_count + 1))
		return NULL;
	d = device_stream_new(j, k);
	if (d)
		probe_add(&j->device_index, hash, j->device_stream_last);
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
		if (s->device_stream != (int32_t)i)
			join_align_bound(s);
		s->device_stream = (int32_t)i;
	}
}

/* ---- records ---- */

/* Fills *r field by field, because a copy of a struct that was just written would stall on the
 * stores. */
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

void join_match_unmatched(struct join *j, const struct join_device_pend *p, enum join_loss why)
{
	struct record r;

	device_record(&r, p);
	join_count(j, why, 1);
	j->stats.kernels_unmatched++;
	if (is_coll_name(j, r.name)) {
		r.kind = RECORD_COLL_KERNEL;
		join_count(j, JOIN_COLL_KERNEL_ALONE, 1);
	}
	r.flags |= RECORD_FLAG_UNMATCHED;
	j->sink.device(j->sink.arg, &r);
}

static void use_coll(struct join *j, struct join_stream *s, struct record *r)
{
	const struct join_coll *c = &j->colls[s->colls.head];

	r->key = c->key;
	r->bytes = c->bytes;
	r->seq = c->seq;
	r->func = c->func;
	r->peer = c->peer;
	s->last_group = c->group;
	coll_pop(j, s);
}

/* Finds the collective during whose call, or group end, the kernel was launched. */
static void join_coll(struct join *j, struct join_stream *s, uint64_t launch_ns, struct record *r)
{
	r->kind = RECORD_COLL_KERNEL;
	while (s->colls.count) {
		const struct join_coll *c = &j->colls[s->colls.head];

		if (launch_ns < c->begin_ns || c->open)
			break;
		if (launch_ns <= c->end_ns) {
			use_coll(j, s, r);
			return;
		}
		join_match_coll_drop(j, s);
	}
	join_count(j, JOIN_COLL_KERNEL_ALONE, 1);
}

bool join_match_fits(const struct join *j, const struct join_launch *l,
		     const struct join_device_pend *p)
{
	const struct event_kernel *k = &p->e.kernel;

	if (l->t_ns > p->begin_ns + j->clock->error_ns)
		return false; /* a kernel cannot start before its launch */
	if (l->type == JOIN_LAUNCH_GRAPH)
		return false; /* joined by correlation in on_graph_node */
	return l->grid[0] == k->grid[0] && l->grid[1] == k->grid[1] && l->grid[2] == k->grid[2] &&
	       l->block[0] == k->block[0] && l->block[1] == k->block[1] &&
	       l->block[2] == k->block[2];
}

static void learn_name(struct join *j, const struct join_launch *l, uint32_t name)
{
	struct join_func *f;

	if (!name)
		return;
	/* table entries do not move */
	f = l->type == JOIN_LAUNCH_KERNEL && l->func_at ? &j->funcs[l->func_at - 1]
							: join_match_func(j, l->func, true);
	if (f && f->name != name)
		f->name = name;
}

void join_match_meet(struct join *j, struct join_stream *s, const struct join_device_pend *p)
{
	const struct join_launch *l = &j->launches[s->launches.head];
	struct record r;

	device_record(&r, p);
	r.launch_ns = l->t_ns;
	/* the name may not have been known at the launch */
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

/* NCCL launched the kernel without a wrapper of ours: use the call as its launch. */
bool join_match_meet_unseen_coll(struct join *j, struct join_stream *s,
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
	use_coll(j, s, &r);
	j->stats.kernels_joined++;
	j->sink.device(j->sink.arg, &r);
	return true;
}

/* ---- waits ---- */

/* A kernel that began after a wait had ended was launched after the wait began. Older launches get
 * no kernel any more. On streams where all kernels look alike, this corrects a join that is off by
 * some launches. */
static void pass_syncs(struct join *j, struct join_stream *s, uint64_t begin_ns)
{
	uint32_t n = 0;

	while (n < s->sync_count && s->syncs[n].end_ns + j->clock->error_ns <= begin_ns)
		n++;
	if (!n)
		return;
	while (s->launches.count && j->launches[s->launches.head].end_ns < s->syncs[n - 1].begin_ns)
		join_match_launch_drop(j, s);
	while (s->colls.count && !j->colls[s->colls.head].open &&
	       j->colls[s->colls.head].end_ns < s->syncs[n - 1].begin_ns)
		join_match_coll_drop(j, s);
	join_align_over(s, s->syncs[n - 1].begin_ns, s->syncs[n - 1].end_ns + j->clock->error_ns);
	s->sync_count -= n;
	memmove(s->syncs, s->syncs + n, sizeof(s->syncs[0]) * s->sync_count);
}

/* ---- graphs ---- */

static struct join_replay *find_replay(struct join *j, uint32_t correlation)
{
	/* Newest first, and only a few: the nodes of few launches interleave. */
	for (uint32_t n = 0; n < 64 && n < j->replay_next; n++) {
		struct join_replay *r = &j->replays[(j->replay_next - n) % JOIN_REPLAYS];

		if (r->met && r->correlation == correlation)
			return r;
	}
	return NULL;
}

/* Takes the stream's next graph launch. The kernel launches before it get no kernel any more. */
static struct join_replay *pop_graph_launch(struct join *j, struct join_stream *s,
					    uint64_t begin_ns)
{
	uint32_t node = s->graph_head;
	struct join_replay *r;

	if (!node || j->launches[node].t_ns > begin_ns + j->clock->error_ns)
		return NULL;
	r = &j->replays[j->launches[node].replay % JOIN_REPLAYS];
	while (s->launches.head != node)
		join_match_launch_drop(j, s);
	if (r->number != j->launches[node].replay)
		r = NULL;
	launch_pop(j, s);
	return r;
}

/* The only stream with an open graph launch, for node records of a stream inside the graph or of an
 * unknown stream; NULL: none, or several. */
static struct join_stream *only_graph_stream(struct join *j)
{
	return j->graph_streams == 1 ? &j->streams[j->graph_streams_sum] : NULL;
}

static void join_graph_coll(struct join *j, struct join_replay *rp, struct record *r)
{
	const struct join_template_coll *c;

	r->kind = RECORD_COLL_KERNEL;
	if (!rp || !rp->next_coll) {
		join_count(j, JOIN_COLL_KERNEL_ALONE, 1);
		return;
	}
	c = &j->template_colls[rp->next_coll];
	rp->next_coll = c->next;
	r->key = c->key;
	/* A hash of (graph, node, replay). The communicator did not count this call, so the number
	 * must not collide with numbers of calls. */
	r->seq = 0x80000000u | (uint32_t)hash_mix(hash_mix(rp->capture << 20 ^ c->node) + rp->nth);
	r->func = c->func;
	r->peer = c->peer;
	r->bytes = c->bytes;
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
			pass_syncs(j, s, p->begin_ns);
			rp = pop_graph_launch(j, s, p->begin_ns);
		}
		if (!rp) {
			s = only_graph_stream(j);
			rp = s ? pop_graph_launch(j, s, p->begin_ns) : NULL;
		}
		if (rp) {
			rp->met = true;
			rp->correlation = p->e.kernel.correlation;
		}
	}
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

/* ---- entry point ---- */

static void on_copy(struct join *j, const struct join_device_pend *p)
{
	const struct event_copy *c = &p->e.copy;
	struct record r = {.begin_ns = p->begin_ns,
			   .end_ns = p->end_ns,
			   .kind = RECORD_COPY,
			   .bytes = c->bytes,
			   .thread = c->device,
			   .stream = c->stream_id,
			   .correlation = c->correlation,
			   .func = c->copy_kind,
			   .peer = -1};

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
		join_match_unmatched(j, p, JOIN_KERNEL_NO_LAUNCH);
		return;
	}
	s = d->stream >= 0 ? &j->streams[d->stream] : join_align_bind(j, d, p);
	if (!s) {
		join_match_unmatched(j, p, JOIN_KERNEL_NO_LAUNCH);
		return;
	}
	pass_syncs(j, s, p->begin_ns);
	join_align_kernel(j, s, p);
}
