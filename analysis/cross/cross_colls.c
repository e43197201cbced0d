/* SPDX-License-Identifier: Apache-2.0
 * Sampled collectives, in one table per job whose size follows the number of ranks. The first rank
 * that reports a collective creates an instance. The instance is settled when all ranks of its
 * communicator have reported it, or when their beats are overdue. A settled instance loses its
 * entries but stays in the table for a while, because a rank that joins late still derives its
 * numbering from it. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "analysis/cross/cross_private.h"
#include "base/hash.h"
#include "base/keyed.h"
#include "base/order.h"
#include "model/thresholds.h"

#define PROBE_MAX     16u
#define MORE_PER_RANK 8u

static uint64_t key_of(uint64_t comm, uint32_t func, uint32_t seq)
{
	uint64_t h = keyed_words(keyed_process(), comm, (uint64_t)func << 32 | seq);

	return h ? h : 1;
}

void cross_colls_free(struct cross *c)
{
	for (uint32_t i = 0; i < c->instance_room; i++)
		free(c->instances[i].entries);
	free(c->instances);
	c->instances = NULL;
	c->instance_room = 0;
}

/* Instances that find no place in the new table are dropped: the next beat reports newer ones. */
int cross_colls_resize(struct cross *c, uint32_t ranks)
{
	uint32_t room = 256;
	struct cross_instance *instances;

	while (room < MORE_PER_RANK * ranks && room < LIMIT_CROSS_COLLS)
		room *= 2;
	if (room == c->instance_room)
		return 0;
	instances = calloc(room, sizeof(*instances));
	if (!instances)
		return -ENOMEM;
	for (uint32_t i = 0; i < c->instance_room; i++) {
		struct cross_instance *from = &c->instances[i], *to = NULL;

		for (uint32_t k = 0; k < PROBE_MAX && from->key && !to; k++)
			if (!instances[(from->key + k) % room].key)
				to = &instances[(from->key + k) % room];
		if (to)
			*to = *from;
		else
			free(from->entries);
	}
	free(c->instances);
	c->instances = instances;
	c->instance_room = room;
	return 0;
}

static struct cross_instance *find(struct cross *c, uint64_t key)
{
	for (uint32_t i = 0; i < PROBE_MAX && c->instance_room; i++) {
		struct cross_instance *in = &c->instances[(key + i) % c->instance_room];

		if (in->key == key)
			return in;
	}
	return NULL;
}

struct cross_instance *cross_colls_find(struct cross *c, uint64_t comm, uint32_t func, uint32_t seq)
{
	return find(c, key_of(comm, func, seq));
}

/* A free place, or the place of the oldest settled instance. */
static struct cross_instance *make(struct cross *c, uint64_t key, uint64_t now_ns)
{
	struct cross_instance *best = NULL;

	for (uint32_t i = 0; i < PROBE_MAX; i++) {
		struct cross_instance *in = &c->instances[(key + i) % c->instance_room];

		if (!in->key) {
			best = in;
			break;
		}
		if (in->settled && (!best || in->born_ns < best->born_ns))
			best = in;
	}
	if (!best)
		return NULL;
	free(best->entries);
	*best = (struct cross_instance){.key = key, .born_ns = now_ns};
	return best;
}

static uint32_t comm_size(const struct beat_rank *b, uint64_t comm)
{
	for (uint32_t i = 0; i < b->comm_count && i < BEAT_COMMS_MAX; i++)
		if (b->comms[i].comm == comm)
			return b->comms[i].ranks;
	return 0;
}

/* Peers' clocks may show any time, so the difference of two times may overflow. */
static bool is_far(int64_t a_ns, int64_t b_ns)
{
	int64_t apart_ns;

	return __builtin_sub_overflow(a_ns, b_ns, &apart_ns) ||
	       fabs((double)apart_ns) > (double)thresholds.time.gone_ns;
}

/* The number of parts into which to split the ranks of a communicator, so that one part fits into
 * an instance. A hash assigns the ranks, so the size of a part varies by about its square root. An
 * eighth of the room is reserved for this. */
static uint32_t parts_of(uint32_t ranks)
{
	uint32_t room = LIMIT_CROSS_ENTRIES - LIMIT_CROSS_ENTRIES / 8;

	return ranks <= LIMIT_CROSS_ENTRIES ? 1 : ranks / room + 1;
}

/* A hash, not a random number: equal input must give equal results in every run. */
static uint64_t draw_of(const struct beat_coll *k)
{
	const uint64_t what[3] = {k->comm, k->func, k->seq};

	return hash_mix(hash_bytes(HASH_SEED, what, sizeof(what)));
}

/* Whether this collective samples the rank. Each collective samples a different part, so every rank
 * has its turn. Otherwise ranks that always report after the instance is full would never be
 * compared. */
static bool is_sampled(const struct cross_instance *in, uint32_t slot)
{
	return in->parts < 2 || (hash_mix(slot + 1ull) ^ in->draw) % in->parts == 0;
}

static void add_entry(struct cross *c, struct cross_instance *in, uint32_t slot,
		      const struct beat_coll *k, int64_t offset_ns)
{
	int64_t enter = (int64_t)(k->begin_ns ? k->begin_ns : k->call_ns) + offset_ns;
	int64_t end = k->end_ns ? (int64_t)k->end_ns + offset_ns : 0;
	struct cross_entry *e;

	in->seen++;
	if (!is_sampled(in, slot)) {
		c->stats.thinned++;
		return;
	}
	if (in->count == LIMIT_CROSS_ENTRIES) {
		c->stats.no_room++;
		return;
	}
	if (!in->count)
		in->base_unix_ns = enter;
	if (is_far(enter, in->base_unix_ns) || (end && is_far(end, in->base_unix_ns))) {
		c->stats.bad++;
		return;
	}
	if (in->count == in->room) {
		uint32_t room = in->room			    ? 2 * in->room
				: in->expected && in->expected < 64 ? in->expected
								    : 8;

		e = realloc(in->entries, room * sizeof(*e));
		if (!e)
			return;
		in->entries = e;
		in->room = room;
	}
	e = &in->entries[in->count++];
	e->slot = slot;
	e->enter_ns = (float)(enter - in->base_unix_ns);
	e->end_ns = end ? (float)(end - in->base_unix_ns) : NAN;
}

bool cross_colls_is_sane(const struct beat_coll *k)
{
	return k->step < CROSS_STEP_MAX && k->call_ns < CROSS_TIME_MAX &&
	       k->begin_ns < CROSS_TIME_MAX && k->end_ns < CROSS_TIME_MAX;
}

void cross_colls_push(struct cross *c, uint32_t slot, const struct beat_rank *b, int64_t offset_ns,
		      uint64_t now_ns)
{
	const struct cross_slot *s = &c->slots[slot];

	/* A job of one rank never needs the table. */
	if (b->coll_count && s->placed && !c->instance_room &&
	    cross_colls_resize(c, c->slot_room)) {
		c->stats.no_room += b->coll_count;
		return;
	}
	for (uint32_t i = 0; i < b->coll_count; i++) {
		const struct beat_coll *k = &b->colls[i];
		uint64_t key = key_of(k->comm, k->func, k->seq);
		struct cross_instance *in;

		if (!cross_colls_is_sane(k) || (!k->call_ns && !k->begin_ns)) {
			c->stats.bad++;
			continue;
		}
		if (!s->placed)
			continue;
		in = find(c, key);
		if (!in) {
			in = make(c, key, now_ns);
			if (!in) {
				c->stats.no_room++;
				continue;
			}
			in->step = (int64_t)k->step + s->offset;
			in->weak = !s->strong;
			in->expected = comm_size(b, k->comm);
			/* One rank claims this size, so it is capped at the number of known
			 * ranks. */
			in->parts =
			    parts_of(in->expected < c->slot_count ? in->expected : c->slot_count);
			in->draw = draw_of(k);
		} else if (in->weak && s->strong) {
			in->weak = false;
			in->step = (int64_t)k->step + s->offset;
		}
		if (!in->settled)
			add_entry(c, in, slot, k, offset_ns);
	}
}

/* ---- settling ---- */

/* An entry with its clock corrected; sorted by role part. */
struct sorted {
	uint32_t role_part, slot, node;
	double enter_ns, end_ns;
};

ORDER_BY(by_role_part, struct sorted, ORDER_UP(role_part) ?: ORDER_UP(enter_ns));

ORDER_BY(by_node, struct sorted, ORDER_UP(node));

/* The ends of one collective, one per node, show the offsets between the nodes' clocks. */
static void push_clocks(struct cross *c, const struct cross_instance *in, struct sorted *v,
			uint32_t n)
{
	uint32_t nodes[256], k = 0;
	int64_t ends[256];

	qsort(v, n, sizeof(*v), by_node);
	for (uint32_t i = 0; i < n && k < 256; i++) {
		if (isnan(v[i].end_ns) || (k && nodes[k - 1] == v[i].node))
			continue;
		nodes[k] = v[i].node;
		ends[k++] = in->base_unix_ns + (int64_t)v[i].end_ns;
	}
	if (k > 1)
		clocks_push(c->clocks, nodes, ends, k);
}

static void push_lateness(struct cross *c, const struct cross_instance *in, struct sorted *v,
			  uint32_t n, bool nodes)
{
	uint32_t begin = 0;

	for (uint32_t i = 0; i < n; i++) {
		double offset, drift, error;
		bool known;

		/* Ranks are not compared across nodes whose clock offset is not known yet. */
		known = cross_clock_state(c, v[i].node, in->base_unix_ns, &offset, &drift, &error);
		if (nodes && (!known || error > thresholds.clock.error_ns))
			v[i].role_part = CROSS_NONE;
		else if (nodes)
			v[i].enter_ns -= offset;
	}
	qsort(v, n, sizeof(*v), by_role_part);
	while (begin < n) {
		uint32_t end = begin, count;
		double typical;

		while (end < n && v[end].role_part == v[begin].role_part)
			end++;
		count = end - begin;
		/* If only two ranks of a larger role are seen, they do not show which of them is
		 * late. */
		if (v[begin].role_part != CROSS_NONE &&
		    (count > 2 || (count == 2 && c->role_parts[v[begin].role_part].count == 2))) {
			typical = count % 2 ? v[begin + count / 2].enter_ns
					    : (v[begin + count / 2 - 1].enter_ns +
					       v[begin + count / 2].enter_ns) /
						  2;
			for (uint32_t i = begin; i < end; i++) {
				double late = v[i].enter_ns - typical;

				/* excludes ranks that attached during the collective, and clocks
				 * that were set */
				if (fabs(late) < (double)thresholds.time.gone_ns)
					cross_rows_late(c, &c->slots[v[i].slot], in->step, late);
			}
		}
		begin = end;
	}
}

static void settle(struct cross *c, struct cross_instance *in)
{
	struct sorted *v = in->count > 1 ? malloc(in->count * sizeof(*v)) : NULL;
	uint32_t n = 0;
	bool nodes = false;

	for (uint32_t i = 0; v && i < in->count; i++) {
		const struct cross_entry *e = &in->entries[i];
		const struct cross_slot *s = &c->slots[e->slot];

		if (!s->used)
			continue;
		nodes |= n && v[0].node != s->node;
		v[n++] = (struct sorted){s->role_part, e->slot, s->node, e->enter_ns, e->end_ns};
	}
	if (n > 1 && nodes)
		push_clocks(c, in, v, n);
	if (n > 1)
		push_lateness(c, in, v, n, nodes);
	free(v);
	free(in->entries);
	in->entries = NULL;
	in->count = in->room = 0;
	in->settled = true;
}

/* Whether all ranks that are waited for have reported. Collectives must settle before the rows of
 * their step are compared. */
static bool is_due(const struct cross *c, const struct cross_instance *in, const uint64_t *limits,
		   uint64_t now_ns)
{
	const struct cross_slot *s = in->count ? &c->slots[in->entries[0].slot] : NULL;
	const struct cross_role_part *rp;

	if (in->expected && in->seen >= in->expected)
		return true;
	if (now_ns - in->born_ns > CROSS_ROW_WAIT_NS - 500000000)
		return true;
	if (!s || !s->used || s->role_part == CROSS_NONE || in->step < 0)
		return false;
	rp = &c->role_parts[s->role_part];
	return rp->steps && (uint64_t)in->step / rp->steps < limits[s->role_part];
}

void cross_colls_tick(struct cross *c, uint64_t now_ns)
{
	uint64_t *limits = calloc(c->role_part_count + 1, sizeof(*limits));

	if (!limits)
		return;
	for (uint32_t i = 0; i < c->role_part_count; i++)
		limits[i] = cross_rows_limit(c, &c->role_parts[i], now_ns);
	for (uint32_t i = 0; i < c->instance_room; i++) {
		struct cross_instance *in = &c->instances[i];

		if (!in->key)
			continue;
		if (!in->settled && is_due(c, in, limits, now_ns))
			settle(c, in);
		else if (in->settled && now_ns - in->born_ns > thresholds.time.gone_ns)
			in->key = 0;
	}
	free(limits);
}
