/* SPDX-License-Identifier: Apache-2.0
 * A collective overlaps with other work at its start, because the compute work runs out before it
 * ends. So if a part is exposed for less than it lasts, the exposed time is at its end, and counts
 * as transfer first. */
#include "analysis/ledger/coll_split.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/idmap.h"
#include "base/limits.h"
#include "base/order.h"
#include "base/room.h"

#define FUNCS (RECORD_COLL_OTHER + 1u)

/* ---- parts of a window ---- */

static bool is_kept(uint64_t id, uint32_t shift)
{
	return !(hash_mix(id) & ((1ull << shift) - 1));
}

static void thin(struct coll_parts *c)
{
	uint32_t n = 0;

	c->shift++;
	for (uint32_t i = 0; i < c->count; i++)
		if (is_kept(c->part[i].id, c->shift))
			c->part[n++] = c->part[i];
	c->count = n;
}

/* After so many halvings, the ids that are left are all equal. */
#define SHIFT_MAX 31u

static int make_room(struct coll_parts *c)
{
	while (c->count >= LIMIT_EXCERPT_COLLECTIVES && c->shift < SHIFT_MAX)
		thin(c);
	return c->count < LIMIT_EXCERPT_COLLECTIVES ? ROOM_FOR(c->part, c->room, c->count + 1)
						    : -ENOSPC;
}

int coll_parts_add(struct coll_parts *c, const struct record *r, uint64_t exposed_ns,
		   uint64_t step_end_ns, uint32_t step, bool out, uint8_t kind, bool healthy)
{
	const uint64_t what[3] = {r->key, r->func, r->seq};
	uint64_t id = hash_bytes(HASH_SEED, what, sizeof(what));
	int err;

	if (r->kind != RECORD_COLL_KERNEL || !r->key || r->flags & RECORD_FLAG_UNMATCHED ||
	    r->func == RECORD_COLL_SEND || r->func == RECORD_COLL_RECV || r->func >= FUNCS ||
	    r->end_ns <= r->begin_ns || !is_kept(id, c->shift))
		return 0;
	err = make_room(c);
	if (err || !is_kept(id, c->shift))
		return err == -ENOMEM ? err : 0;
	c->part[c->count++] = (struct coll_part){
	    .id = id,
	    .comm = (uint32_t)hash_mix(r->key),
	    .ns = (float)(r->end_ns - r->begin_ns),
	    .exposed_ns = (float)exposed_ns,
	    .after_ns = r->end_ns > step_end_ns ? (float)(r->end_ns - step_end_ns) : 0,
	    .step = step,
	    .func = r->func,
	    .kind = kind,
	    .healthy = healthy,
	    .out = out};
	return 0;
}

ORDER_BY(by_id, struct coll_part, ORDER_UP(id));

void coll_parts_finish(struct coll_parts *c)
{
	if (c->count)
		qsort(c->part, c->count, sizeof(*c->part), by_id);
}

void coll_parts_fini(struct coll_parts *c)
{
	free(c->part);
	*c = (struct coll_parts){0};
}

/* ---- all ranks ---- */

struct entry {		   /* a collective, or a communicator */
	uint32_t ranks;	   /* ranks that have it */
	uint32_t last;	   /* the latest of them */
	uint32_t shortest; /* the rank with the shortest kernel */
	float shortest_ns;
	bool out; /* one of the steps that contain it is out */
};
struct table {
	struct entry *entry;
	size_t room;
	uint32_t count;
	struct idmap by_id;
};
struct coll_split {
	struct table colls, comms;
	uint32_t shift, ranks;
	bool shown; /* every rank of the job has shown its collectives */
};

static const struct entry *find(const struct table *t, uint64_t id)
{
	static const struct entry none;
	uint32_t at = idmap_get(&t->by_id, id);

	return at == IDMAP_NONE ? &none : &t->entry[at];
}

/* NULL: no memory. */
static struct entry *count_rank(struct table *t, uint64_t id, uint32_t rank)
{
	uint32_t at = idmap_get(&t->by_id, id);
	struct entry *e;

	if (at == IDMAP_NONE) {
		at = t->count;
		if (ROOM_FOR(t->entry, t->room, at + 1) || idmap_put(&t->by_id, id, at))
			return NULL;
		t->entry[t->count++] = (struct entry){.shortest_ns = INFINITY};
	}
	e = &t->entry[at];
	e->ranks += !e->ranks || e->last != rank;
	e->last = rank;
	return e;
}

static bool count_source(struct coll_split *s, const struct coll_source *from)
{
	for (uint32_t k = 0; k < from->parts->count; k++) {
		const struct coll_part *p = &from->parts->part[k];
		struct entry *e;

		if (!is_kept(p->id, s->shift))
			continue;
		e = count_rank(&s->colls, p->id, from->rank);
		if (!e || !count_rank(&s->comms, p->comm, from->rank))
			return false;
		e->out |= p->out;
		if (p->ns < e->shortest_ns) {
			e->shortest_ns = p->ns;
			e->shortest = from->rank;
		}
	}
	return true;
}

/* The largest shift of the sources, or a larger one if the parts do not fit. False: no part is
 * left. */
static bool choose_shift(struct coll_split *s, const struct coll_source *source, uint32_t count)
{
	uint64_t all = 0;

	for (uint32_t i = 0; i < count; i++)
		s->shift = source[i].parts->shift > s->shift ? source[i].parts->shift : s->shift;
	for (; s->shift < SHIFT_MAX; s->shift++) {
		all = 0;
		for (uint32_t i = 0; i < count; i++)
			for (uint32_t k = 0; k < source[i].parts->count; k++)
				all += is_kept(source[i].parts->part[k].id, s->shift);
		if (all <= LIMIT_COLL_SPLIT)
			return all > 0;
	}
	return false;
}

struct coll_split *coll_split_open(const struct coll_source *source, uint32_t count, uint32_t ranks)
{
	struct coll_split *s = calloc(1, sizeof(*s));
	bool good = s && choose_shift(s, source, count);
	uint32_t shown = 0;

	for (uint32_t i = 0; i < count && good; i++) {
		shown += source[i].parts->count && (!i || source[i - 1].rank != source[i].rank);
		good = count_source(s, &source[i]);
	}
	if (!good) {
		coll_split_close(s);
		return NULL;
	}
	s->ranks = ranks;
	s->shown = shown >= ranks;
	return s;
}

void coll_split_close(struct coll_split *s)
{
	if (!s)
		return;
	free(s->colls.entry);
	free(s->comms.entry);
	idmap_fini(&s->colls.by_id);
	idmap_fini(&s->comms.by_id);
	free(s);
}

/* ---- division ---- */

struct sum {
	double wait_ns, transfer_ns, wait_busy_ns, transfer_busy_ns, count;
};

/* The transfer that is exposed in the part. It is at the end of the kernel, so the part after the
 * step's end is cut from it. */
static double transfer_of(const struct entry *e, const struct coll_part *p)
{
	return fmin(fmax((double)e->shortest_ns - (double)p->after_ns, 0), (double)p->exposed_ns);
}

static void add_part(const struct coll_split *s, const struct coll_part *p, struct sum *sum)
{
	const struct entry *e = find(&s->colls, p->id), *comm = find(&s->comms, p->comm);
	bool all = e->ranks == comm->ranks && e->ranks > 1 && (s->shown || comm->ranks >= s->ranks);
	double last = transfer_of(e, p);

	if (!e->ranks)
		return;
	sum->wait_ns += (double)p->exposed_ns - last;
	sum->wait_busy_ns += (double)p->ns - (double)e->shortest_ns;
	if (!all)
		return;
	sum->transfer_ns += last;
	sum->transfer_busy_ns += (double)e->shortest_ns;
	sum->count++;
}

void coll_split_divide(const struct coll_split *s, const struct coll_parts *parts, uint8_t kind,
		       bool healthy, double weight, struct ledger *l)
{
	struct sum sums[FUNCS] = {{0}};

	if (!s)
		return;
	weight = ldexp(weight, (int)s->shift);
	for (uint32_t k = 0; k < parts->count; k++) {
		const struct coll_part *p = &parts->part[k];

		if (p->kind == kind && p->healthy == healthy && is_kept(p->id, s->shift))
			add_part(s, p, &sums[p->func]);
	}
	for (unsigned f = 0; f < FUNCS; f++) {
		const struct sum *q = &sums[f];
		const char *name = record_coll_name(f);

		ledger_move(l, LEDGER_COLLECTIVE, name, LEDGER_LAST_RANK, q->wait_ns * weight,
			    q->wait_busy_ns * weight, 0);
		ledger_move(l, LEDGER_COLLECTIVE, name, LEDGER_TRANSFER, q->transfer_ns * weight,
			    q->transfer_busy_ns * weight, q->count * weight);
	}
}

/* ---- who is waited for ---- */

/* A collective in a rank's step. */
struct wait {
	uint32_t rank, step, coll; /* coll: index of s->colls */
	double ns;
};

ORDER_BY(by_step, struct wait, ORDER_UP(rank) ?: ORDER_UP(step));

/* Fills w with one wait for each part whose collective counts; returns their number. longest: the
 * longest wait per collective, initially 0. */
static uint32_t waits_of(const struct coll_split *s, const struct coll_source *source,
			 uint32_t count, struct wait *w, float *longest)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < count; i++)
		for (uint32_t k = 0; k < source[i].parts->count; k++) {
			const struct coll_part *p = &source[i].parts->part[k];
			uint32_t at = idmap_get(&s->colls.by_id, p->id);
			const struct entry *e = at == IDMAP_NONE ? NULL : &s->colls.entry[at];
			double ns;

			if (!e || !e->out)
				continue;
			ns = (double)p->exposed_ns - (e->ranks > 1 ? transfer_of(e, p) : 0);
			longest[at] = fmaxf(longest[at], (float)ns);
			w[n++] = (struct wait){source[i].rank, p->step, at, ns};
		}
	return n;
}

void coll_split_caused(const struct coll_split *s, const struct coll_source *source, uint32_t count,
		       double *caused_ns, double *waited_ns, uint32_t ranks)
{
	float *longest = s ? calloc((size_t)s->colls.count + 1, sizeof(*longest)) : NULL;
	struct wait *w;
	size_t parts = 0;
	uint32_t n;

	memset(caused_ns, 0, ranks * sizeof(*caused_ns));
	memset(waited_ns, 0, ranks * sizeof(*waited_ns));
	for (uint32_t i = 0; i < count; i++)
		parts += source[i].parts->count;
	w = longest ? calloc(parts + 1, sizeof(*w)) : NULL;
	n = w ? waits_of(s, source, count, w, longest) : 0;
	ORDER_SORT(w, n, by_step);
	for (uint32_t k = 0, from = 0; k < n; from = k) {
		double waited = 0, caused = 0;
		bool shared = false;

		for (; k < n && w[k].rank == w[from].rank && w[k].step == w[from].step; k++) {
			const struct entry *e = &s->colls.entry[w[k].coll];

			waited += w[k].ns;
			shared |= e->ranks > 1;
			if (e->ranks > 1 && e->shortest == w[k].rank)
				caused += (double)(longest[w[k].coll] - e->shortest_ns);
		}
		if (!shared) /* no other source's window has a collective of this step */
			continue;
		waited_ns[w[from].rank] += ldexp(waited, (int)s->shift);
		caused_ns[w[from].rank] += ldexp(fmax(caused - waited, 0), (int)s->shift);
	}
	free(longest);
	free(w);
}
