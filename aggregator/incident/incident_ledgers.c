/* SPDX-License-Identifier: Apache-2.0
 * A reference counts only if it shows the fault. The rank's own past shows what has changed. Its
 * peers also show what was wrong from the beginning. Steps that were as slow as the slow steps show
 * nothing. */
#include "aggregator/incident/incident_ledgers.h"

#include <math.h>
#include <stdlib.h>

#include "aggregator/incident/incident_private.h"
#include "base/room.h"
#include "model/thresholds.h"

#define EXCERPTS  (INCIDENT_PLACES - 1)
#define KINDS_MAX (EXCERPTS * WINDOW_LEDGER_KINDS)

/* Collects the rank's excerpts, each once; returns their number. waited: also those of steps in
 * which it was not slow itself. */
static uint32_t excerpts_of(const struct member *m, bool waited, const struct excerpt **out)
{
	const struct excerpts *e = &m->excerpts;
	uint32_t n = 0, k;

	for (const struct view *v = &e->slow; v <= (waited ? &e->typical : &e->healthy); v++) {
		for (k = 0; k < n && out[k] != v->excerpt; k++)
			;
		if (v->excerpt && k == n)
			out[n++] = v->excerpt;
	}
	return n;
}

/* Divides the collectives of the kept windows. NULL: nothing to divide. */
static struct coll_split *split_of(const struct incident *i, const struct incident_judgement *j)
{
	struct coll_source *list = calloc((size_t)i->member_count * EXCERPTS + 1, sizeof(*list));
	const struct excerpt *p[EXCERPTS];
	struct coll_split *s = NULL;
	uint32_t n = 0;

	for (uint32_t k = 0; list && k < i->member_count; k++)
		for (uint32_t q = excerpts_of(&i->members[k], true, p); q-- > 0;)
			list[n++] = (struct coll_source){k, &p[q]->ledger.colls};
	if (n)
		s = coll_split_open(list, n, j->ranks);
	free(list);
	return s;
}

/* Steps of peers that are compared with slow steps of the kind's period and phase. */
struct peer_steps {
	struct excerpt_kind kind;
	bool same; /* of the same phase; else of other phases */
	struct ledger ledger;
};

struct incident_common {
	const struct incident *i;
	const struct incident_judgement *j;
	struct coll_split *split;
	struct peer_steps *peers;
	uint32_t count;
	size_t room;
};

struct incident_common *incident_common_open(const struct incident *i,
					     const struct incident_judgement *j)
{
	struct incident_common *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	*c = (struct incident_common){.i = i, .j = j, .split = split_of(i, j)};
	return c;
}

void incident_common_close(struct incident_common *c)
{
	if (!c)
		return;
	coll_split_close(c->split);
	for (uint32_t k = 0; k < c->count; k++)
		ledger_fini(&c->peers[k].ledger);
	free(c->peers);
	free(c);
}

static void add(const struct excerpt *p, uint32_t kind, bool healthy, double weight,
		const struct coll_split *s, struct ledger *to)
{
	ledger_add(to, excerpt_ledger(p, kind, healthy), weight);
	coll_split_divide(s, &p->ledger.colls, (uint8_t)kind, healthy, weight, to);
}

/* Whether peers or earlier runs show more of the loss than the rank's own flagged steps do. */
static bool is_slow_throughout(const struct incident_judgement *j, const struct member *m)
{
	return j->finding &&
	       (j->kind == FINDING_UNIFORM || m->accused.ns > m->steps.self_excess_ns);
}

/* Whether all ranks are slow, and this one lost more by waiting than by itself. */
static bool is_waiting(const struct incident_judgement *j, const struct member *m)
{
	return j->kind == FINDING_UNIFORM && m->excerpts.waiting.excerpt &&
	       m->steps.waited_ns > m->steps.self_excess_ns;
}

/* The number of the excerpt's slow steps, and their self time. */
struct took {
	double steps, self_ns;
};

static struct took took_of(const struct excerpt *p)
{
	struct took t = {0, 0};
	struct diagnosis_rank r;

	for (uint32_t k = 0; k < p->kinds; k++) {
		const struct ledger *l = excerpt_ledger(p, k, false);

		t.steps += (double)l->steps;
		for (uint32_t q = 0; q < l->count; q++)
			t.self_ns +=
			    ledger_is_own(l->account[q].kind) ? (double)l->account[q].ns : 0;
	}
	if (t.steps > 0)
		return t;
	excerpt_rank(p, false, &r); /* a window without records has no ledger */
	return (struct took){r.steps, r.steps * fmax(r.self_ns, 0)};
}

const struct excerpt *incident_ledgers_not_slow(const struct member *m)
{
	return m->excerpts.typical.excerpt ? m->excerpts.typical.excerpt
					   : m->excerpts.waiting.excerpt;
}

/* Mean self time of the peers' steps in which these were not late themselves; 0: unknown. */
static double healthy_ns(const struct incident *i, const struct incident_judgement *j)
{
	struct took all = {0, 0};

	for (uint32_t k = 0; k < i->member_count && j->kind != FINDING_UNIFORM; k++) {
		const struct excerpt *p = incident_ledgers_not_slow(&i->members[k]);
		struct took t = p ? took_of(p) : (struct took){0, 0};

		if (t.steps > 0 && !incident_is_culprit(i, j, &i->members[k])) {
			all.self_ns += t.self_ns / t.steps;
			all.steps++;
		}
	}
	return all.steps > 0 ? all.self_ns / all.steps : 0;
}

/* How much of the rank's loss the excerpt shows. */
static double shown_ns(const struct excerpt *p, double healthy)
{
	struct took t = took_of(p);

	return t.self_ns - t.steps * healthy;
}

/* The steps of a requested window are more typical than those of windows of flagged steps, but the
 * fault may have been over by then. */
const struct excerpt *incident_ledgers_excerpt(const struct incident *i,
					       const struct incident_judgement *j,
					       const struct member *m)
{
	const struct excerpt *all = incident_ledgers_not_slow(m);
	double healthy;

	/* the work of a rank that others waited for explains its steps, so no step is flagged */
	if (incident_is_waited_for(j, m))
		return all;
	if (is_waiting(j, m))
		return m->excerpts.waiting.excerpt;
	if (!is_slow_throughout(j, m) || !all)
		return m->excerpts.slow.excerpt;
	if (!m->excerpts.slow.excerpt)
		return all;
	healthy = healthy_ns(i, j);
	return shown_ns(all, healthy) > shown_ns(m->excerpts.slow.excerpt, healthy)
		   ? all
		   : m->excerpts.slow.excerpt;
}

static bool is_in(const struct run *spells, uint32_t count, uint64_t at_unix_ns)
{
	for (uint32_t k = 0; k < count; k++)
		if (at_unix_ns >= spells[k].begin_unix_ns && at_unix_ns <= spells[k].end_unix_ns)
			return true;
	return !count;
}

/* The ledgers of steps of one kind. */
struct kind_ledgers {
	struct excerpt_kind kind;
	/* own: of the rank's other steps; peers: of ranks that are not culprits */
	struct ledger slow, own, peers;
};

/* Whether the slow steps of both kinds belong together. */
static bool is_same(const struct excerpt_kind *a, const struct excerpt_kind *b)
{
	return a->kind == b->kind && a->period == b->period && a->phase == b->phase;
}

static void add_kind(const struct excerpt *p, double weight, const struct coll_split *s,
		     struct kind_ledgers *to)
{
	for (uint32_t k = 0; k < p->kinds; k++)
		if (is_same(&p->kind[k], &to->kind))
			add(p, k, false, weight, s, &to->slow);
}

/* Adds the rank's views of the fault in steps of a kind. A view also stands for dropped windows
 * with the same cause. */
static void add_views(const struct incident *i, const struct member *m, const struct coll_split *s,
		      struct kind_ledgers *to)
{
	uint32_t count;
	struct run *spells = incident_fault_spells(i, m, &count);

	for (uint32_t k = 0; k < INCIDENT_VIEWS; k++) {
		const struct view *v = &m->excerpts.view[k];

		if (v->excerpt && is_in(spells, count, v->begin_unix_ns))
			add_kind(v->excerpt,
				 v->lost_ns > 0
				     ? incident_views_stands_for(&m->excerpts, v) / v->lost_ns
				     : 1,
				 s, to);
	}
	free(spells);
}

/* Whether steps of the kind `is` are a reference. own: they are of the same rank; kinds of other
 * ranks are the same if they recur as often. same: take steps of the same phase, else of other
 * phases. */
static bool compares(const struct excerpt_kind *is, bool own, bool healthy,
		     const struct excerpt_kind *kind, bool same)
{
	return (!own || is->kind == kind->kind) && is->period == kind->period &&
	       ((healthy ? is->healthy_phase : is->phase) == kind->phase) == same;
}

/* Adds the steps in which the peer was not late itself: those in which it waited, and the healthy
 * steps of its other windows. */
static void add_peer(const struct member *m, const struct coll_split *s, struct peer_steps *to)
{
	const struct excerpt *list[EXCERPTS];

	for (uint32_t q = excerpts_of(m, true, list); q-- > 0;)
		for (uint32_t k = 0; k < list[q]->kinds; k++) {
			bool healthy = list[q] != m->excerpts.waiting.excerpt &&
				       list[q] != m->excerpts.typical.excerpt;

			if (compares(&list[q]->kind[k], false, healthy, &to->kind, to->same))
				add(list[q], k, healthy, 1, s, &to->ledger);
		}
}

/* The peers' steps to compare slow steps of the kind with; NULL: no memory. */
static const struct ledger *peers_of(struct incident_common *c, const struct excerpt_kind *kind,
				     bool same)
{
	struct peer_steps *p;

	for (uint32_t k = 0; k < c->count; k++) {
		p = &c->peers[k];
		if (p->kind.period == kind->period && p->kind.phase == kind->phase &&
		    p->same == same)
			return &p->ledger;
	}
	if (ROOM_FOR(c->peers, c->room, c->count + 1ull))
		return NULL;
	p = &c->peers[c->count++];
	*p = (struct peer_steps){.kind = *kind, .same = same};
	ledger_init(&p->ledger);
	for (uint32_t k = 0; k < c->i->member_count; k++)
		if (!incident_is_culprit(c->i, c->j, &c->i->members[k]))
			add_peer(&c->i->members[k], c->split, p);
	return &p->ledger;
}

/* Self time per step; if all ranks are slow, including waiting for others. */
static double step_ns(const struct incident_judgement *j, const struct ledger *l)
{
	uint64_t ns = 0;

	for (uint32_t k = 0; k < l->count; k++)
		if (ledger_is_own(l->account[k].kind) || j->kind == FINDING_UNIFORM)
			ns += l->account[k].ns;
	return l->steps ? (double)ns / (double)l->steps : 0;
}

/* How long others waited for the rank, per step. Its work explains its own steps. */
static double waited_for_ns(const struct member *m)
{
	const struct excerpt *p = incident_ledgers_not_slow(m);
	uint64_t steps = 0;

	for (uint32_t k = 0; p && k < p->kinds; k++)
		steps += excerpt_ledger(p, k, false)->seen;
	return steps ? m->waited_for_ns / (double)steps : 0;
}

double incident_ledgers_lost_ns(const struct incident *i, const struct incident_judgement *j,
				const struct member *m)
{
	double lost_ns = j->kind == FINDING_UNIFORM
			     ? m->steps.flagged_ns - m->steps.first_ns
			     : m->steps.self_excess_ns - m->steps.first_self_ns;

	if (j->kind == FINDING_HANG)
		return 0;
	if (incident_is_waited_for(j, m))
		return waited_for_ns(m);
	if (m->steps.flagged &&
	    (is_waiting(j, m) || incident_ledgers_excerpt(i, j, m) == m->excerpts.slow.excerpt))
		return lost_ns / (double)m->steps.flagged;
	return j->finding ? finding_effect_of(j->finding, m->rank) : 0;
}

double incident_ledgers_enough_ns(double most_ns, double lost_ns)
{
	return (1 - thresholds.part.matters) * (lost_ns > 0 ? fmin(most_ns, lost_ns) : most_ns);
}

/* Whether the excerpt's healthy steps are earlier than any slow step of the rank. */
static bool is_before(const struct member *m, const struct excerpt *p)
{
	return p->healthy_is_before && p->begin_unix_ns <= (int64_t)m->own.begin_unix_ns;
}

struct healthy {
	const struct excerpt *excerpt;
	uint32_t kind;
	/* how much longer the slow steps are than reference steps with the same work */
	double shown_ns;
};

static const struct ledger *healthy_ledger(const struct healthy *h)
{
	return excerpt_ledger(h->excerpt, h->kind, true);
}

/* Adds the healthy steps of windows in which they differ enough from slow steps. Healthy steps
 * after the first slow step may have a milder form of the fault, so earlier ones replace them if
 * there are any. */
static void add_healthy(const struct incident_judgement *j, const struct member *m,
			const struct coll_split *s, double lost_ns, bool same,
			struct kind_ledgers *to)
{
	double slow_ns = step_ns(j, &to->slow), most = -HUGE_VAL, enough;
	const struct excerpt *of[EXCERPTS];
	struct healthy list[KINDS_MAX];
	uint32_t count = excerpts_of(m, false, of), n = 0, kept = 0;
	uint64_t before = 0;

	for (uint32_t q = 0; q < count; q++)
		for (uint32_t k = 0; k < of[q]->kinds; k++) {
			const struct ledger *l = excerpt_ledger(of[q], k, true);

			if (!l->steps || !compares(&of[q]->kind[k], true, true, &to->kind, same))
				continue;
			list[n] = (struct healthy){
			    of[q], k, slow_ns - step_ns(j, l) * ledger_work_ratio(&to->slow, l)};
			if (l->steps >= thresholds.count.few)
				most = fmax(most, list[n].shown_ns);
			n++;
		}
	enough = most > 0 ? incident_ledgers_enough_ns(most, lost_ns) : -HUGE_VAL;
	for (uint32_t q = 0; q < n; q++)
		if (list[q].shown_ns >= enough)
			list[kept++] = list[q];
	for (uint32_t q = 0; q < kept; q++)
		if (is_before(m, list[q].excerpt))
			before += healthy_ledger(&list[q])->steps;
	for (uint32_t q = 0; q < kept; q++)
		if (before < thresholds.count.few || is_before(m, list[q].excerpt))
			add(list[q].excerpt, list[q].kind, true, 1, s, &to->own);
}

static bool has_reference(const struct kind_ledgers *l)
{
	return l->own.steps >= thresholds.count.few || l->peers.steps >= thresholds.count.few;
}

/* Adds the rank's own healthy steps and its peers' steps: those of the kind's phase, or those of
 * other phases. */
static void add_references(struct incident_common *c, const struct member *m, double lost_ns,
			   bool same, struct kind_ledgers *to)
{
	const struct ledger *peers =
	    c->j->kind == FINDING_UNIFORM ? NULL : peers_of(c, &to->kind, same);

	ledger_fini(&to->own);
	ledger_fini(&to->peers);
	add_healthy(c->j, m, c->split, lost_ns, same, to);
	if (peers)
		ledger_add(&to->peers, peers, 1);
}

/* For a rank that hangs: compares the time in which its steps stand still with its earlier steps.
 * Peers are not a reference, because they hang too. */
static bool open_hang(const struct incident_judgement *j, const struct member *m,
		      struct incident_ledgers *out)
{
	const struct excerpt *open = m->excerpts.open.excerpt;
	struct kind_ledgers before = {{0}, {0}, {0}, {0}};

	if (!open)
		return false;
	before.kind = open->kind[0];
	ledger_add(&out->slow, &open->ledger.open, 1);
	out->slow_steps = out->slow.steps;
	for (uint32_t k = 0; k < open->kinds; k++)
		ledger_add(&before.own, excerpt_ledger(open, k, true), 1);
	for (int same = 1; same >= 0 && !before.own.steps; same--)
		add_healthy(j, m, NULL, 0, same, &before);
	out->usual = before.own;
	out->usual_is_own = true;
	return true;
}

/* The loss per step that detection measured. Own steps: for exactly the steps that are compared. If
 * peers are the reference: lost_ns, of all flagged steps, because the peers' models do not show how
 * long this rank's steps should take. */
static double measured_ns(const struct incident_judgement *j, double lost_ns,
			  const struct incident_ledgers *b)
{
	bool self = j->kind != FINDING_UNIFORM;
	double slow_ns, usual_ns;

	if (!b->usual_is_own || !b->flagged || !ledger_lost(&b->slow, self, &slow_ns) ||
	    !ledger_lost(&b->usual, self, &usual_ns))
		return lost_ns;
	return slow_ns - usual_ns;
}

/* Gives the reference the work of the slow steps. If the job states its work, the reference is
 * scaled to the same work. Otherwise it gets only as much additional work as explains why it shows
 * more loss than detection measured, because detection knows how long a step with these launches
 * should take. */
static void same_work(const struct incident_judgement *j, double lost_ns,
		      struct incident_ledgers *b)
{
	double shown_ns = step_ns(j, &b->slow) - step_ns(j, &b->usual);

	if (!ledger_is_stated(&b->slow) || !ledger_is_stated(&b->usual)) {
		if (lost_ns > 0)
			ledger_same_work(&b->slow, &b->usual,
					 shown_ns - measured_ns(j, lost_ns, b));
		return;
	}
	ledger_scale(&b->usual, ledger_work_ratio(&b->slow, &b->usual));
	ledger_join_configurations(&b->slow);
	ledger_join_configurations(&b->usual);
}

/* Collects the kinds of the excerpts; returns their number. */
static uint32_t kinds_of(const struct excerpt *const *list, uint32_t count,
			 struct kind_ledgers *of_kind)
{
	uint32_t n = 0, at;

	for (uint32_t q = 0; q < count; q++)
		for (uint32_t k = 0; k < list[q]->kinds; k++) {
			at = 0;
			while (at < n && !is_same(&of_kind[at].kind, &list[q]->kind[k]))
				at++;
			if (at == n)
				of_kind[n++] = (struct kind_ledgers){.kind = list[q]->kind[k]};
		}
	return n;
}

/* Adds the slow steps of each kind; returns the number of kinds. If no view has a ledger, they come
 * from the most significant window. */
static uint32_t add_slow(const struct incident_common *c, const struct member *m, bool flagged,
			 struct kind_ledgers *of_kind)
{
	const struct excerpt *list[EXCERPTS];
	const struct excerpt *one = incident_ledgers_excerpt(c->i, c->j, m);
	uint32_t n = kinds_of(list, excerpts_of(m, !flagged, list), of_kind);
	uint64_t steps = 0;

	for (uint32_t k = 0; k < n; k++) {
		if (flagged)
			add_views(c->i, m, c->split, &of_kind[k]);
		steps += of_kind[k].slow.steps;
	}
	for (uint32_t k = 0; k < n && !steps && one; k++)
		add_kind(one, 1, c->split, &of_kind[k]);
	return n;
}

/* Adds up the kinds that have this reference (own or peers). Each kind gets the same share of the
 * reference's steps as it has of the slow steps. */
static void add_up(const struct kind_ledgers *of_kind, uint32_t n, bool own, struct ledger *slow,
		   struct ledger *usual)
{
	double slow_steps = 0, steps = 0;

	for (uint32_t k = 0; k < n; k++) {
		const struct ledger *l = own ? &of_kind[k].own : &of_kind[k].peers;

		slow_steps += l->steps ? (double)of_kind[k].slow.steps : 0;
		steps += (double)l->steps;
	}
	for (uint32_t k = 0; k < n; k++) {
		const struct ledger *l = own ? &of_kind[k].own : &of_kind[k].peers;

		if (!l->steps)
			continue;
		ledger_add_kind(slow, &of_kind[k].slow, 1);
		ledger_add_kind(usual, l,
				(double)of_kind[k].slow.steps / slow_steps *
				    (steps / (double)l->steps));
	}
}

/* How much longer the slow steps are than a reference with as much work. */
static double shown_by(const struct incident_judgement *j, const struct ledger *slow,
		       const struct ledger *usual)
{
	return step_ns(j, slow) - step_ns(j, usual) * ledger_work_ratio(slow, usual);
}

/* Chooses the reference: the rank's own steps, if they show nearly as much as its peers. */
static bool choose(const struct incident_judgement *j, const struct kind_ledgers *of_kind,
		   uint32_t n, double lost_ns, struct incident_ledgers *out)
{
	struct incident_ledgers own = {.usual_is_own = true}, peers = {.usual_is_own = false};
	bool has_own, has_peers, takes_own;

	add_up(of_kind, n, true, &own.slow, &own.usual);
	add_up(of_kind, n, false, &peers.slow, &peers.usual);
	has_own = own.usual.steps >= thresholds.count.few;
	has_peers = peers.usual.steps >= thresholds.count.few;
	takes_own =
	    has_own && (!has_peers || shown_by(j, &own.slow, &own.usual) >=
					  incident_ledgers_enough_ns(
					      shown_by(j, &peers.slow, &peers.usual), lost_ns));
	*out = takes_own ? own : peers;
	incident_ledgers_close(takes_own ? &peers : &own);
	return has_own || has_peers;
}

/* Compares each kind with steps of its phase (same) if there are enough, else with steps of other
 * phases. */
static bool compare(struct incident_common *c, const struct member *m, double lost_ns, bool same,
		    struct kind_ledgers *of_kind, uint32_t n, struct incident_ledgers *out)
{
	for (uint32_t k = 0; k < n; k++) {
		if (!of_kind[k].slow.steps)
			continue;
		add_references(c, m, lost_ns, same, &of_kind[k]);
		if (same && !has_reference(&of_kind[k]))
			add_references(c, m, lost_ns, false, &of_kind[k]);
	}
	return choose(c->j, of_kind, n, lost_ns, out);
}

/* Steps of other phases may have other work. So they are the reference only if they show the loss
 * and the steps of the same phase do not: then only this rank has the phase, because it launches
 * other kernels. */
static bool compare_best(struct incident_common *c, const struct member *m, double lost_ns,
			 struct kind_ledgers *of_kind, uint32_t n, struct incident_ledgers *out)
{
	bool known = compare(c, m, lost_ns, true, of_kind, n, out);
	double enough_ns = thresholds.part.half * lost_ns;
	struct incident_ledgers other;

	if (!known || shown_by(c->j, &out->slow, &out->usual) >= enough_ns)
		return known;
	if (compare(c, m, lost_ns, false, of_kind, n, &other) &&
	    shown_by(c->j, &other.slow, &other.usual) >= enough_ns) {
		incident_ledgers_close(out);
		*out = other;
	} else {
		incident_ledgers_close(&other);
	}
	return true;
}

static uint32_t common_period(const struct kind_ledgers *of_kind, uint32_t n)
{
	uint32_t period = 0;
	bool any = false;

	for (uint32_t k = 0; k < n; k++) {
		if (!of_kind[k].slow.steps)
			continue;
		if (any && of_kind[k].kind.period != period)
			return 0;
		period = of_kind[k].kind.period;
		any = true;
	}
	return period;
}

/* Most windows have no records, and the kept ones are those that lost most. Of all slow steps only
 * the mean loss is known, so the ledger is stretched to this excess. False: the two differ too
 * much. Then the ledger does not show why all the steps are slow, and stands only for its own
 * steps. The same holds if the reference is not the rank's own, because peers wait as long and do
 * not show the loss. */
static bool as_slow_as_all(const struct step_times *all, struct incident_ledgers *b)
{
	double lost_ns = incident_latency_ns(all) - incident_expected_ns(all),
	       shown_ns = ledger_mean_ns(&b->slow) - ledger_mean_ns(&b->usual),
	       factor = lost_ns / shown_ns;

	if (!b->usual_is_own || !b->slow.steps || !b->usual.steps || !(all->expected_steps > 0) ||
	    !(shown_ns > 0) || factor > thresholds.same.factor ||
	    factor * thresholds.same.factor < 1)
		return false;
	ledger_stretch(&b->slow, &b->usual, factor);
	return true;
}

bool incident_ledgers_open(struct incident_common *c, const struct member *m,
			   struct incident_ledgers *out)
{
	const struct incident_judgement *j = c ? c->j : NULL;
	struct kind_ledgers of_kind[KINDS_MAX];
	struct slow_steps all;
	bool known, flagged;
	double lost_ns;
	uint32_t n;

	*out = (struct incident_ledgers){.flagged = false};
	if (!c)
		return false;
	lost_ns = incident_ledgers_lost_ns(c->i, j, m);
	flagged = !incident_is_waited_for(j, m) &&
		  incident_ledgers_excerpt(c->i, j, m) == m->excerpts.slow.excerpt;
	all = incident_fault_steps(c->i, m);
	if (j->kind == FINDING_HANG)
		return open_hang(j, m, out);
	/* a run that was slow from the beginning has no healthy step */
	if (j->finding && j->finding->earlier_runs)
		return false;
	n = add_slow(c, m, flagged, of_kind);
	known = compare_best(c, m, lost_ns, of_kind, n, out);
	out->flagged = flagged;
	out->period = common_period(of_kind, n);
	same_work(j, lost_ns, out);
	out->slow_steps = flagged && as_slow_as_all(&all.took, out) ? all.flagged : out->slow.seen;
	for (uint32_t k = 0; k < n; k++) {
		ledger_fini(&of_kind[k].slow);
		ledger_fini(&of_kind[k].own);
		ledger_fini(&of_kind[k].peers);
	}
	if (out->slow.steps && known)
		return true;
	incident_ledgers_close(out);
	return false;
}

void incident_ledgers_close(struct incident_ledgers *b)
{
	ledger_fini(&b->slow);
	ledger_fini(&b->usual);
}
