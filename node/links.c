/* SPDX-License-Identifier: Apache-2.0 */
#include "node/links.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "model/record.h"

#define CHANGE_Z 4.0 /* width of the median's confidence interval: wrong once in 16,000 periods */
/* a period that is certainly slower than usual by this factor is not learned as usual */
#define CHANGED	  1.25
#define TIME_MAX  (1ull << LINK_BITS_MAX)
#define COUNT_MAX (1u << 20)

struct open_coll {
	uint64_t comm, begin_ns, end_ns, bytes, transfers;
	uint32_t seq;
	uint8_t func;
	bool used;
};
struct tables {
	struct links_link link[LINKS_MAX];
	struct links_coll coll[LINKS_COLLS_MAX];
	struct links_channel channel[LINKS_MAX][LINKS_CHANNELS]; /* by link */
	struct open_coll open[LINKS_OPEN_MAX];
	struct link_scratch scratch;
};
struct links {
	struct links *next; /* a ring of the job's ranks on this node */
	uint32_t link_count, coll_count;
	uint64_t latest_ns; /* end of the latest input */
	struct links_stats stats;
	struct tables *t; /* NULL until the first transfer */
};

int links_open(struct links **out, struct links *sibling)
{
	struct links *l = calloc(1, sizeof(*l));

	if (!l)
		return -ENOMEM;
	l->next = sibling ? sibling->next : l;
	if (sibling)
		sibling->next = l;
	*out = l;
	return 0;
}

static bool same_key(const struct links_key *a, const struct links_key *b)
{
	return a->comm == b->comm && a->peer == b->peer && a->rank == b->rank && a->func == b->func;
}

/* NULL: there is no room. */
static struct links_link *link_of(struct links *l, const struct links_key *key)
{
	for (uint32_t i = 0; i < l->link_count; i++)
		if (same_key(&l->t->link[i].key, key))
			return &l->t->link[i];
	if (l->link_count == LINKS_MAX)
		return NULL;
	l->t->link[l->link_count].key = *key;
	return &l->t->link[l->link_count++];
}

/* ---- collectives ---- */

static struct links_coll *coll_find(const struct links *l, const struct links_key *key)
{
	for (uint32_t i = 0; i < l->coll_count; i++)
		if (same_key(&l->t->coll[i].key, key))
			return &l->t->coll[i];
	return NULL;
}

/* NULL: there is no room. */
static struct links_coll *coll_of(struct links *l, const struct links_key *key)
{
	struct links_coll *c = coll_find(l, key), *other = NULL;

	if (c || l->coll_count == LINKS_COLLS_MAX)
		return c;
	for (const struct links *s = l->next; s != l && !other; s = s->next)
		other = coll_find(s, key);
	c = &l->t->coll[l->coll_count];
	c->key = *key;
	c->pool = other ? other->pool : calloc(1, sizeof(*c->pool));
	if (!c->pool)
		return NULL;
	if (!other)
		c->pool->first = l;
	c->pool->ranks++;
	l->coll_count++;
	return c;
}

static void leave(const struct links *l, const struct links_coll *c)
{
	const struct links *s = l->next;

	if (!--c->pool->ranks) {
		free(c->pool);
		return;
	}
	while (!coll_find(s, &c->key))
		s = s->next;
	c->pool->first = s;
}

void links_close(struct links *l)
{
	struct links *before = l;

	if (!l)
		return;
	while (before->next != l)
		before = before->next;
	for (uint32_t i = 0; i < l->coll_count; i++)
		leave(l, &l->t->coll[i]);
	before->next = l->next;
	free(l->t);
	free(l);
}

static void add_sums(struct links_sums *to, const struct open_coll *o)
{
	to->collectives++;
	to->transfers += o->transfers;
	to->bytes += o->bytes;
	to->time_ns += o->end_ns - o->begin_ns;
}

static void complete(struct links *l, struct open_coll *o)
{
	struct links_key key = {.comm = o->comm, .peer = -1, .func = o->func};
	struct links_coll *c = coll_of(l, &key);

	o->used = false;
	if (!c) {
		l->stats.no_room++;
		return;
	}
	l->stats.collectives++;
	add_sums(&c->sum, o);
	add_sums(&c->pool->sum, o);
	c->pool->usual.count++;
	link_samples_add(&c->pool->usual.samples, o->bytes, o->end_ns - o->begin_ns);
}

/* Whether the transfer's collective was already complete: it is not open, and later ones have
 * ended. */
static bool is_late(const struct links *l, const struct transfer *t)
{
	const struct open_coll *o = l->t->open;

	for (uint32_t i = 0; i < LINKS_OPEN_MAX; i++, o++)
		if (o->used && o->comm == t->comm && o->func == t->func && o->seq == t->seq)
			return false;
	return l->latest_ns > t->end_ns + LINKS_COMPLETE_NS;
}

static void add_to_coll(struct links *l, const struct transfer *t)
{
	struct open_coll *o, *spare = NULL, *oldest = &l->t->open[0];

	if (is_late(l, t)) {
		l->stats.late++;
		return;
	}
	for (uint32_t i = 0; i < LINKS_OPEN_MAX; i++) {
		o = &l->t->open[i];
		if (o->used && o->end_ns + LINKS_COMPLETE_NS < t->end_ns)
			complete(l, o);
		if (!o->used) {
			spare = o;
			continue;
		}
		if (o->end_ns < oldest->end_ns)
			oldest = o;
		if (o->comm == t->comm && o->func == t->func && o->seq == t->seq) {
			o->begin_ns = t->begin_ns < o->begin_ns ? t->begin_ns : o->begin_ns;
			o->end_ns = t->end_ns > o->end_ns ? t->end_ns : o->end_ns;
			o->bytes += t->bytes;
			o->transfers += t->count;
			return;
		}
	}
	if (!spare) {
		complete(l, oldest);
		spare = oldest;
	}
	*spare = (struct open_coll){t->comm,  t->begin_ns, t->end_ns, t->bytes,
				    t->count, t->seq,	   t->func,   true};
}

/* ---- links ---- */

static void add_to_channel(struct links_channel *c, const struct transfer *t)
{
	c->inputs++;
	c->transfers += t->count;
	c->bytes += t->bytes;
	c->time_ns += t->end_ns - t->begin_ns;
	c->wait_ns += t->wait_ns;
}

void links_add(struct links *l, const struct transfer *t)
{
	struct links_key key = {.comm = t->comm, .peer = t->peer, .rank = t->rank};
	struct links_link *link;

	l->stats.inputs++;
	if (t->end_ns < t->begin_ns || t->end_ns - t->begin_ns >= TIME_MAX || !t->count ||
	    t->count > COUNT_MAX || !t->bytes || t->bytes >= TIME_MAX || t->peer < 0 ||
	    t->wait_ns >= TIME_MAX) {
		l->stats.bad++;
		return;
	}
	if (!l->t)
		l->t = calloc(1, sizeof(*l->t));
	link = l->t ? link_of(l, &key) : NULL;
	if (!link) {
		l->stats.no_room++;
		return;
	}
	link->sum.transfers += t->count;
	link->sum.bytes += t->bytes;
	link->channels |= 1ull << (t->channel & 63);
	link->busy_ns += t->end_ns - t->begin_ns;
	link->sum.time_ns += t->end_ns - t->begin_ns;
	add_to_channel(
	    &l->t->channel[link - l->t->link]
			  [t->channel < LINKS_CHANNELS ? t->channel : LINKS_CHANNELS - 1],
	    t);
	link_samples_add_sum(&link->period, t->bytes, t->wait_ns, t->count);
	if (t->func && t->func != RECORD_COLL_OTHER)
		add_to_coll(l, t);
	l->latest_ns = t->end_ns > l->latest_ns ? t->end_ns : l->latest_ns;
}

/* A fit costs up to a millisecond, so it is repeated only after a quarter more transfers. */
static void refit(struct links *l, struct links_usual *u, uint32_t regimes_max)
{
	struct link_config c;

	if (u->count < LINKS_LEARN_MIN || u->count < u->fitted_count / 4 * 5)
		return;
	link_config_default(&c);
	c.regimes_max = regimes_max;
	for (c.centre = 0; c.centre < LINK_CENTRES; c.centre++)
		link_fit_run(&u->fit[c.centre], &u->samples, &c, &l->t->scratch);
	u->fitted_count = u->count;
}

static void learn(struct links *l, struct links_link *k, uint64_t count)
{
	link_samples_merge(&k->usual.samples, &k->period);
	k->usual.count += count;
	refit(l, &k->usual, 1);
}

static uint64_t count_of(const struct link_samples *s)
{
	uint64_t count = 0;

	for (uint32_t i = 0; i < s->cells; i++)
		count += s->cell[i].count;
	return count;
}

/* The inputs of several channels overlap, and so do the transfers of one input. So the link's busy
 * time is taken to be the time of one channel, and the lost time is the excess's share of it. */
static double lost(const struct links_link *k, double mean)
{
	uint32_t channels = (uint32_t)__builtin_popcountll(k->channels);

	return mean > 1 && channels ? (double)k->busy_ns / channels * (1 - 1 / mean) : 0;
}

void links_judge(struct links *l, uint64_t now_ns,
		 void (*on)(void *arg, const struct links_verdict *v), void *arg)
{
	for (uint32_t i = 0; i < l->link_count; i++) {
		struct links_link *k = &l->t->link[i];
		struct links_verdict v = {.link = k};
		uint64_t count = count_of(&k->period);

		if (count) {
			v.change = link_change_of(&k->usual.fit[LINK_MEDIAN], &k->period, CHANGE_Z);
			v.lost_ns = lost(k, v.change.mean);
			if (v.change.samples)
				on(arg, &v);
			if (k->usual.count < LINKS_LEARN_MAX && v.change.low < CHANGED)
				learn(l, k, count);
		}
		k->period.cells = 0;
		k->period.refused = 0;
		k->busy_ns = k->channels = 0;
	}
	for (uint32_t i = 0; l->t && i < LINKS_OPEN_MAX; i++)
		if (l->t->open[i].used && l->t->open[i].end_ns + LINKS_COMPLETE_NS < now_ns)
			complete(l, &l->t->open[i]);
	for (uint32_t i = 0; i < l->coll_count; i++)
		if (l->t->coll[i].pool->first == l)
			refit(l, &l->t->coll[i].pool->usual, LINK_REGIMES_MAX);
}

const struct links_link *links_at(const struct links *l, uint32_t at)
{
	return at < l->link_count ? &l->t->link[at] : NULL;
}

const struct links_coll *links_coll_at(const struct links *l, uint32_t at)
{
	return at < l->coll_count ? &l->t->coll[at] : NULL;
}

const struct links_channel *links_channel_at(const struct links *l, uint32_t at, uint32_t channel)
{
	const struct links_channel *c =
	    at < l->link_count && channel < LINKS_CHANNELS ? &l->t->channel[at][channel] : NULL;

	return c && c->inputs ? c : NULL;
}

double links_rate(const struct links *l, uint32_t at)
{
	double rate = 0;

	for (uint32_t i = 0; i < LINKS_CHANNELS; i++) {
		const struct links_channel *c = links_channel_at(l, at, i);

		if (c && c->time_ns)
			rate += (double)c->bytes * 1e9 / (double)c->time_ns;
	}
	return rate;
}

const struct links_stats *links_stats(const struct links *l)
{
	return &l->stats;
}
