/* SPDX-License-Identifier: Apache-2.0
 * A long fault sends dozens of windows, and only at the end is it known which explains most. A
 * window that lost more may lack stacks, or be from a time that does not show the cause. So each
 * window is diagnosed alone when it comes: its slow steps against its own healthy ones. Per cause,
 * the window with most lost time is kept; of windows without a cause, the heaviest. The loss of all
 * windows with the same cause is summed, because one noisy window may have lost more than each of
 * many that agree. While there is room, the order of arrival does not matter.
 *
 * All incidents share the room, and no sender, node or job may take it from others. Room comes from
 * closed incidents first, the oldest first; then from the incident that has most, of the job, node
 * and sender that have most. */
#include "aggregator/incident/incident_private.h"

#include "base/limits.h"
#include "model/thresholds.h"

/* Where a member holds excerpts. */
#define PLACES (INCIDENT_VIEWS + 4)

/* ---- room ---- */

/* The k-th place; more important places have higher k. */
static struct excerpt **place(struct member *m, uint32_t k)
{
	if (k == 0)
		return &m->excerpts.waiting;
	if (k == 1)
		return &m->excerpts.healthy;
	if (k == PLACES - 2)
		return &m->excerpts.slow;
	if (k == PLACES - 1)
		return &m->excerpts.open;
	return &m->excerpts.views.view[INCIDENT_VIEWS + 1 - k].excerpt;
}

/* The importance of the k-th place. Ranks that only waited matter least, because there are many. */
static uint32_t rank_at(const struct member *m, uint32_t k)
{
	return m->steps.reasons & ~(1u << WINDOW_COMM) ? k + 2 : 1;
}

/* The importance of the most important place that holds p; 0: none. */
static uint32_t rank_of(struct member *m, const struct excerpt *p)
{
	for (uint32_t k = PLACES; k-- > 0;)
		if (*place(m, k) == p)
			return rank_at(m, k);
	return 0;
}

static uint32_t rank_of_place(struct member *m, struct excerpt **to)
{
	uint32_t k = 0;

	while (place(m, k) != to)
		k++;
	return rank_at(m, k);
}

static void drop(struct incident_set *s, struct incident *i, struct member *m,
		 struct excerpt **from)
{
	struct excerpt *p = *from;

	*from = NULL;
	if (p && !rank_of(m, p)) {
		s->excerpt_bytes -= p->bytes;
		i->excerpt_bytes -= p->bytes;
	}
	excerpt_drop(p);
}

/* Drops an excerpt less important than `below`; false: none. The search begins where the last one
 * ended, and stops at one no more important than the last one dropped. */
static bool drop_least(struct incident_set *s, struct incident *i, uint32_t below)
{
	struct member *least = NULL;
	struct excerpt *p = NULL;
	uint32_t rank = below, from = i->excerpt_member;

	if (below <= i->excerpt_rank)
		return false;
	for (uint32_t n = 0; n < i->member_count && (!least || rank > i->excerpt_rank); n++) {
		uint32_t at = (from + n) % i->member_count;

		for (uint32_t k = 0; k < PLACES; k++) {
			struct excerpt *have = *place(&i->members[at], k);
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
	for (uint32_t k = 0; least && k < PLACES; k++)
		if (*place(least, k) == p)
			drop(s, i, least, place(least, k));
	i->excerpts_dropped += least != NULL;
	return least != NULL;
}

/* Whether a's sender, node or job, in this order, has more than b's would have with `need` bytes
 * more. If all are the same, compares the incidents. */
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
	/* restored closed incidents take nothing from open ones */
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

/* How many more bytes the member would hold. */
static int64_t growth(struct member *m, struct excerpt **to, struct excerpt *p)
{
	struct excerpt *old = *to;
	int64_t more = rank_of(m, p) ? 0 : (int64_t)p->bytes;

	*to = NULL;
	if (old && old != p && !rank_of(m, old))
		more -= (int64_t)old->bytes;
	*to = old;
	return more;
}

static void hold(struct incident_set *s, struct incident *i, struct member *m, struct excerpt **to,
		 struct excerpt *p)
{
	struct excerpt *held = excerpt_hold(p);

	drop(s, i, m, to);
	if (rank_of_place(m, to) < i->excerpt_rank)
		i->excerpt_rank = rank_of_place(m, to);
	if (!rank_of(m, held)) {
		s->excerpt_bytes += held->bytes;
		i->excerpt_bytes += held->bytes;
	}
	*to = held;
}

bool incident_views_hold(struct incident_set *s, struct incident *i, struct member *m,
			 struct excerpt **to, struct excerpt *p)
{
	int64_t more = growth(m, to, p);

	if (more > 0 && !make_room(s, i, rank_of_place(m, to), (size_t)more))
		return false;
	hold(s, i, m, to, p);
	return true;
}

void incident_views_clear(struct incident_set *s, struct incident *i, struct member *m)
{
	for (uint32_t k = 0; k < PLACES; k++)
		drop(s, i, m, place(m, k));
}

/* ---- diagnosis of one window ---- */

static double worth_of(const struct excerpt *p, bool healthy, double weight)
{
	struct diagnosis_rank r;

	excerpt_rank(p, healthy, &r);
	return weight * (r.kernel_count ? 8 : 1) * (r.samples > 0 ? 8 : 1);
}

double incident_views_worth(const struct excerpt *p, double lost_ns)
{
	return worth_of(p, false, lost_ns);
}

bool incident_views_is_healthier(const struct excerpt *p, const struct excerpt *than)
{
	double worth = worth_of(p, true, p->healthy.rank.steps), had;

	if (!than || !(worth > 0))
		return worth > 0;
	if (p->healthy_is_before != than->healthy_is_before)
		return p->healthy_is_before;
	had = worth_of(than, true, than->healthy.rank.steps);
	return worth > had || (!(worth < had) && p->begin_unix_ns < than->begin_unix_ns);
}

/* The observed time of a ledger. */
static uint64_t seen_ns(const struct ledger *l)
{
	uint64_t ns = 0;

	for (uint32_t k = 0; k < l->count; k++)
		ns += l->account[k].kind == LEDGER_UNOBSERVED ? 0 : l->account[k].ns;
	return ns;
}

bool incident_views_shows_more(const struct excerpt *p, const struct excerpt *than)
{
	return p && p->ledger.open.steps &&
	       (!than || seen_ns(&p->ledger.open) > seen_ns(&than->ledger.open));
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
	slow.ledger = excerpt_ledger(v->excerpt, false);
	slow.usual = excerpt_ledger(v->excerpt, true);
	slow.usual_is_own = true;
	diagnosis_make(&in, &d);
	v->cause = CAUSE_UNKNOWN;
	v->worth = incident_views_worth(v->excerpt, v->lost_ns);
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

/* The place for v: a free one, that of its cause, or the least; NULL: all others matter more. */
static struct view *place_of(struct views *views, const struct view *v)
{
	bool has_cause = v->cause != CAUSE_UNKNOWN;
	struct view *from = views->view + (has_cause ? 0 : INCIDENT_VIEWS_CAUSE), *least = NULL;
	uint32_t count = has_cause ? INCIDENT_VIEWS_CAUSE : INCIDENT_VIEWS - INCIDENT_VIEWS_CAUSE;

	for (uint32_t k = 0; has_cause && k < count; k++)
		if (from[k].excerpt && from[k].cause == v->cause)
			return is_better(v, &from[k]) ? &from[k] : NULL;
	for (uint32_t k = 0; k < count; k++) {
		if (!from[k].excerpt)
			return &from[k];
		if (!least || is_better(least, &from[k]))
			least = &from[k];
	}
	return is_better(v, least) ? least : NULL;
}

static void become(struct view *to, const struct view *v)
{
	struct excerpt *held = to->excerpt;

	*to = *v;
	to->excerpt = held;
}

bool incident_views_add(struct incident_set *s, struct incident *i, struct member *m,
			const struct digest *d)
{
	struct view v = {.excerpt = d->excerpt,
			 .begin_unix_ns = d->begin_unix_ns,
			 .lost_ns = d->slow.self_excess_ns > 1 ? d->slow.self_excess_ns : 1};
	struct view *to;

	if (!d->excerpt || !d->excerpt->slow.rank.steps)
		return true;
	look(&v);
	m->excerpts.views.lost_ns[v.cause] += v.lost_ns;
	to = place_of(&m->excerpts.views, &v);
	if (!to)
		return true;
	if (!incident_views_hold(s, i, m, &to->excerpt, v.excerpt))
		return false;
	become(to, &v);
	return true;
}

void incident_views_merge(struct incident_set *s, struct incident *i, struct member *to,
			  const struct member *from)
{
	for (uint32_t k = 0; k < CAUSE_COUNT; k++)
		to->excerpts.views.lost_ns[k] += from->excerpts.views.lost_ns[k];
	for (uint32_t k = 0; k < INCIDENT_VIEWS; k++) {
		const struct view *v = &from->excerpts.views.view[k];
		struct view *at = v->excerpt ? place_of(&to->excerpts.views, v) : NULL;

		if (!at)
			continue;
		hold(s, i, to, &at->excerpt, v->excerpt);
		become(at, v);
	}
	if (incident_views_shows_more(from->excerpts.open, to->excerpts.open))
		hold(s, i, to, &to->excerpts.open, from->excerpts.open);
	if (from->excerpts.healthy &&
	    incident_views_is_healthier(from->excerpts.healthy, to->excerpts.healthy))
		hold(s, i, to, &to->excerpts.healthy, from->excerpts.healthy);
	if (from->excerpts.slow &&
	    (!to->excerpts.slow || from->excerpts.slow_weight > to->excerpts.slow_weight)) {
		hold(s, i, to, &to->excerpts.slow, from->excerpts.slow);
		to->excerpts.slow_weight = from->excerpts.slow_weight;
	}
	if (from->excerpts.waiting && (!to->excerpts.waiting || from->excerpts.waiting_weight >
								    to->excerpts.waiting_weight)) {
		hold(s, i, to, &to->excerpts.waiting, from->excerpts.waiting);
		to->excerpts.waiting_weight = from->excerpts.waiting_weight;
	}
}

double incident_views_stands_for(const struct views *views, const struct view *v)
{
	double kept_ns = 0;

	for (uint32_t k = 0; k < INCIDENT_VIEWS; k++)
		if (views->view[k].excerpt && views->view[k].cause == v->cause)
			kept_ns += views->view[k].lost_ns;
	return v->lost_ns * (views->lost_ns[v->cause] / kept_ns);
}
