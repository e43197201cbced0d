/* SPDX-License-Identifier: Apache-2.0
 * During a long fault dozens of windows come, and which one explains most is known only at the end.
 * The window that lost most may lack stacks, or be from a time that does not show the cause. So
 * each window is diagnosed alone when it comes: its slow steps against its own healthy ones. For
 * each cause, the window with most lost time is kept. The heaviest windows without a cause are kept
 * too. The loss of all windows with the same cause is summed up, because one noisy window may have
 * lost more than each of many windows that agree. While there is room, the order of arrival does
 * not matter.
 *
 * All incidents share the room, and no sender, node or job may take it from others. To make room,
 * excerpts of closed incidents go first, beginning with the oldest incident. Then the sender with
 * the most excerpt bytes gives room. Within it, the node with the most is chosen, then the job of
 * that node, then the incident of that job. */
#include "aggregator/incident/incident_private.h"

#include "base/limits.h"
#include "model/thresholds.h"

/* ---- room ---- */

/* The importance of a place. Ranks that only waited matter least, because there are many. */
static uint32_t rank_at(const struct member *m, const struct view *at)
{
	return m->steps.reasons & ~(1u << WINDOW_COMM)
		   ? INCIDENT_PLACES + 1 - (uint32_t)(at - m->excerpts.at)
		   : 1;
}

/* The importance of the most important place that holds p; 0: none. */
static uint32_t rank_of(const struct member *m, const struct excerpt *p)
{
	for (uint32_t k = 0; k < INCIDENT_PLACES; k++)
		if (m->excerpts.at[k].excerpt == p)
			return rank_at(m, &m->excerpts.at[k]);
	return 0;
}

static void drop(struct incident_set *s, struct incident *i, struct member *m, struct view *from)
{
	struct excerpt *p = from->excerpt;

	from->excerpt = NULL;
	if (p && !rank_of(m, p)) {
		s->excerpt_bytes -= p->bytes;
		i->excerpt_bytes -= p->bytes;
	}
	excerpt_drop(p);
}

/* Drops an excerpt less important than `below`; false: none. The search begins where the last
 * search ended, and stops at an excerpt no more important than the last dropped one. */
static bool drop_least(struct incident_set *s, struct incident *i, uint32_t below)
{
	struct member *least = NULL;
	struct excerpt *p = NULL;
	uint32_t rank = below, from = i->excerpt_member;

	if (below <= i->excerpt_rank)
		return false;
	for (uint32_t n = 0; n < i->member_count && (!least || rank > i->excerpt_rank); n++) {
		uint32_t at = (from + n) % i->member_count;

		for (uint32_t k = 0; k < INCIDENT_PLACES; k++) {
			struct excerpt *have = i->members[at].excerpts.at[k].excerpt;
			uint32_t its = have ? rank_of(&i->members[at], have) : rank;

			if (its < rank) {
				least = &i->members[at];
				rank = its;
				p = have;
				i->excerpt_member = at;
			}
		}
	}
	i->excerpt_rank = rank;
	for (uint32_t k = 0; least && k < INCIDENT_PLACES; k++)
		if (least->excerpts.at[k].excerpt == p)
			drop(s, i, least, &least->excerpts.at[k]);
	i->excerpts_dropped += least != NULL;
	return least != NULL;
}

/* Whether a's sender, node or job has more than b's would have with `need` more bytes; compared in
 * this order. If all three are the same, compares the incidents. */
static bool has_more(const struct incident *a, const struct incident *b, size_t need)
{
	for (int n = 0; n < SHARE_LEVELS; n++)
		if (a->share[n] != b->share[n])
			return a->share[n]->bytes > b->share[n]->bytes + need;
	return a->excerpt_bytes > b->excerpt_bytes + need;
}

static struct incident *giver(const struct incident_set *s, struct incident *to, size_t need)
{
	struct incident *most = to, *closed = NULL;

	incident_share_weigh(s);
	/* a restored closed incident takes no room from open ones */
	for (struct incident *i = s->first; i; i = i->next) {
		if (to->row.open && i->excerpt_bytes && has_more(i, most, 0))
			most = i;
		if (i != to && !i->row.open && i->excerpt_bytes &&
		    (to->row.open || i->row.arrival_unix_ns < to->row.arrival_unix_ns) &&
		    (!closed || i->row.arrival_unix_ns < closed->row.arrival_unix_ns))
			closed = i;
	}
	if (closed)
		return closed;
	return has_more(most, to, need) ? most : to;
}

static bool make_room(struct incident_set *s, struct incident *to, uint32_t rank, size_t need)
{
	uint64_t room =
	    s->config.excerpt_bytes ? s->config.excerpt_bytes : LIMIT_INCIDENT_EXCERPT_BYTES;

	while (s->excerpt_bytes + need > room) {
		struct incident *from = giver(s, to, need);

		if (!drop_least(s, from, from == to ? rank : UINT32_MAX))
			return false;
	}
	return true;
}

/* How many more bytes the rank would hold. */
static int64_t growth(struct member *m, struct view *to, const struct excerpt *p)
{
	struct excerpt *old = to->excerpt;
	int64_t more = rank_of(m, p) ? 0 : (int64_t)p->bytes;

	to->excerpt = NULL;
	if (old && old != p && !rank_of(m, old))
		more -= (int64_t)old->bytes;
	to->excerpt = old;
	return more;
}

/* Puts v into that place of the rank. */
static void hold(struct incident_set *s, struct incident *i, struct member *m, struct view *to,
		 const struct view *v)
{
	struct excerpt *held = excerpt_hold(v->excerpt);

	drop(s, i, m, to);
	if (rank_at(m, to) < i->excerpt_rank)
		i->excerpt_rank = rank_at(m, to);
	if (!rank_of(m, held)) {
		s->excerpt_bytes += held->bytes;
		i->excerpt_bytes += held->bytes;
	}
	*to = *v;
}

void incident_views_clear(struct incident_set *s, struct incident *i, struct member *m)
{
	for (uint32_t k = 0; k < INCIDENT_PLACES; k++)
		drop(s, i, m, &m->excerpts.at[k]);
}

/* ---- diagnosis of one window ---- */

/* How much an excerpt can say: its weight, times 8 if it has kernels, times 8 if it has stacks. */
static double worth_of(const struct excerpt *p, bool healthy, double weight)
{
	struct diagnosis_rank r;

	excerpt_rank(p, healthy, &r);
	return weight * (r.kernel_count ? 8 : 1) * (r.samples > 0 ? 8 : 1);
}

/* How much the window says about the rank's slow steps. A summary may have lost more than a window
 * with events and stacks, but explains less. */
static double slow_worth(const struct excerpt *p, double weight)
{
	return weight < INCIDENT_OWN_WEIGHT
		   ? weight
		   : INCIDENT_OWN_WEIGHT + worth_of(p, false, weight - INCIDENT_OWN_WEIGHT);
}

/* How good a reference the healthy steps are. Steps from before the fault are best; then more
 * steps, kernels and stacks count. 0: there are none. */
static double healthy_worth(const struct excerpt *p)
{
	double worth = worth_of(p, true, p->healthy.rank.steps);

	return worth > 0 && p->healthy_is_before ? INCIDENT_OWN_WEIGHT + worth : worth;
}

/* The observed time of a ledger. */
static uint64_t seen_ns(const struct ledger *l)
{
	uint64_t ns = 0;

	for (uint32_t k = 0; k < l->count; k++)
		ns += l->account[k].kind == LEDGER_UNOBSERVED ? 0 : l->account[k].ns;
	return ns;
}

/* Diagnoses the window alone. */
static void look(struct view *v)
{
	static struct diagnosis d;
	struct diagnosis_rank slow, healthy;
	struct diagnosis_input in = {
	    .kind = FINDING_SLOW_RANK, .suspect = &slow, .suspect_count = 1};

	excerpt_rank(v->excerpt, false, &slow);
	excerpt_rank(v->excerpt, true, &healthy);
	in.before = healthy.steps ? &healthy : NULL;
	slow.ledger = excerpt_ledger(v->excerpt, 0, false);
	slow.usual = excerpt_ledger(v->excerpt, 0, true);
	slow.usual_is_own = true;
	diagnosis_make(&in, &d);
	v->cause = CAUSE_UNKNOWN;
	v->worth = worth_of(v->excerpt, false, v->lost_ns);
	if (d.cause == CAUSE_UNKNOWN || d.cause == CAUSE_CPU_HOST_GAP ||
	    d.confidence < thresholds.sure.separate)
		return;
	v->cause = d.cause;
	v->worth = d.confidence * v->lost_ns;
}

static bool is_better(const struct view *a, const struct view *b)
{
	if (a->worth > b->worth || a->worth < b->worth)
		return a->worth > b->worth;
	return a->begin_unix_ns < b->begin_unix_ns;
}

/* The place for a view: the one with the same cause, a free one, or the one worth least. */
static struct view *place_of(struct excerpts *e, const struct view *v)
{
	bool has_cause = v->cause != CAUSE_UNKNOWN;
	struct view *from = e->view + (has_cause ? 0 : INCIDENT_VIEWS_CAUSE), *least = NULL;
	uint32_t count = has_cause ? INCIDENT_VIEWS_CAUSE : INCIDENT_VIEWS - INCIDENT_VIEWS_CAUSE;

	for (uint32_t k = 0; has_cause && k < count; k++)
		if (from[k].excerpt && from[k].cause == v->cause)
			return &from[k];
	for (uint32_t k = 0; k < count; k++) {
		if (!from[k].excerpt)
			return &from[k];
		if (!least || is_better(least, &from[k]))
			least = &from[k];
	}
	return least;
}

/* Puts v into a place if it is worth more than the present view. find_room: other excerpts may be
 * dropped for it; the excerpts of a merged incident already have room. False: there was no room. */
static bool offer(struct incident_set *s, struct incident *i, struct member *m, struct view *to,
		  struct view v, double worth, bool find_room)
{
	int64_t more;

	v.worth = worth;
	if (to->excerpt && !is_better(&v, to))
		return true;
	more = growth(m, to, v.excerpt);
	if (find_room && more > 0 && !make_room(s, i, rank_at(m, to), (size_t)more))
		return false;
	hold(s, i, m, to, &v);
	return true;
}

bool incident_views_add(struct incident_set *s, struct incident *i, struct member *m,
			const struct digest *d, double slow)
{
	const struct excerpt *p = d->excerpt;
	struct excerpts *e = &m->excerpts;
	struct view v = {.excerpt = d->excerpt,
			 .begin_unix_ns = d->begin_unix_ns,
			 .lost_ns = d->slow.self_excess_ns > 1 ? d->slow.self_excess_ns : 1};
	bool room = true;

	if (p->ledger.open.steps)
		room = offer(s, i, m, &e->open, v, (double)seen_ns(&p->ledger.open), true);
	room &= offer(s, i, m, &e->slow, v, slow_worth(p, slow), true);
	if (digest_is_own(d) && p->slow.rank.steps) {
		look(&v);
		e->lost_ns[v.cause] += v.lost_ns;
		room &= offer(s, i, m, place_of(e, &v), v, v.worth, true);
	} else if (p->slow.rank.steps) {
		room &= offer(s, i, m, p->typical ? &e->typical : &e->waiting, v,
			      worth_of(p, false, p->slow.rank.steps), true);
	}
	if (p->healthy.rank.steps)
		room &= offer(s, i, m, &e->healthy, v, healthy_worth(p), true);
	return room;
}

void incident_views_merge(struct incident_set *s, struct incident *i, struct member *to,
			  const struct member *from)
{
	struct excerpts *e = &to->excerpts;

	for (uint32_t k = 0; k < CAUSE_COUNT; k++)
		e->lost_ns[k] += from->excerpts.lost_ns[k];
	for (uint32_t k = 0; k < INCIDENT_PLACES; k++) {
		const struct view *v = &from->excerpts.at[k];
		bool is_view = v >= from->excerpts.view && v < from->excerpts.view + INCIDENT_VIEWS;

		if (v->excerpt)
			offer(s, i, to, is_view ? place_of(e, v) : &e->at[k], *v, v->worth, false);
	}
}

double incident_views_stands_for(const struct excerpts *e, const struct view *v)
{
	double kept_ns = 0;

	for (uint32_t k = 0; k < INCIDENT_VIEWS; k++)
		if (e->view[k].excerpt && e->view[k].cause == v->cause)
			kept_ns += e->view[k].lost_ns;
	return v->lost_ns * (e->lost_ns[v->cause] / kept_ns);
}
