/* SPDX-License-Identifier: Apache-2.0
 * Of two references the one counts that shows the fault: a rank's own past shows what has changed,
 * its peers show what was always so. */
#include "aggregator/incident_books.h"

#include "aggregator/incident_views.h"

/* Fewer steps are no reference: their mean is one hesitation's. */
#define REFERENCE_STEPS_MIN 3u
/* The rank's own past is the reference where it shows at least this share of what peers show. */
#define PAST_SHARE 0.8

/* Every picture of the member once; one that is kept stands for others that said the same. */
static void add_slow(const struct member *m, struct ledger *to)
{
	bool has_slow = !m->slow;

	for (uint32_t k = 0; k < INCIDENT_VIEWS; k++) {
		const struct view *v = &m->views.view[k];

		if (!v->picture)
			continue;
		has_slow |= v->picture == m->slow;
		ledger_add(to, picture_ledger(v->picture, false),
			   v->lost_ns > 0 ? incident_views_stands_for(&m->views, v) / v->lost_ns : 1);
	}
	if (!has_slow)
		ledger_add(to, picture_ledger(m->slow, false), 1);
}

/* Steps before the fault, where a window has them. */
static void add_calm(const struct member *m, struct ledger *to)
{
	const struct picture *list[INCIDENT_VIEWS + 2];
	bool before = m->calm && picture_calm_is_before(m->calm);
	uint32_t n = 0, k;

	for (uint32_t v = 0; v < INCIDENT_VIEWS; v++)
		list[n++] = m->views.view[v].picture;
	list[n++] = m->slow;
	list[n++] = m->calm;
	for (uint32_t q = 0; q < n; q++) {
		for (k = 0; k < q && list[k] != list[q]; k++)
			;
		if (list[q] && k == q && picture_calm_is_before(list[q]) == before)
			ledger_add(to, picture_ledger(list[q], true), 1);
	}
}

static void add_peers(const struct incident *i, const struct incident_judgement *j,
		      struct ledger *to)
{
	for (uint32_t k = 0; k < i->member_count; k++) {
		const struct member *m = &i->members[k];
		const struct picture *p = m->waiting ? m->waiting : m->slow;

		if (p && !incident_is_culprit(i, j, m))
			ledger_add(to, picture_ledger(p, false), 1);
	}
}

/* Of a step, ns. */
static double own_ns(const struct ledger *l)
{
	uint64_t ns = 0;

	for (uint32_t k = 0; k < l->count; k++)
		if (ledger_is_own(l->account[k].kind))
			ns += l->account[k].ns;
	return l->steps ? (double)ns / (double)l->steps : 0;
}

bool incident_books_open(const struct incident *i, const struct incident_judgement *j,
			  const struct member *m, struct incident_books *out)
{
	struct ledger peers;
	double slow_ns;
	bool own, others;

	ledger_init(&out->slow);
	ledger_init(&out->usual);
	ledger_init(&peers);
	/* of a run that was slow all the time no step is healthy */
	if (j->finding && j->finding->earlier_runs)
		return false;
	add_slow(m, &out->slow);
	add_calm(m, &out->usual);
	if (j->kind != FINDING_UNIFORM)
		add_peers(i, j, &peers);
	slow_ns = own_ns(&out->slow);
	own = out->usual.steps >= REFERENCE_STEPS_MIN;
	others = peers.steps >= REFERENCE_STEPS_MIN;
	out->usual_is_own = own && (!others || slow_ns - own_ns(&out->usual) >=
						   PAST_SHARE * (slow_ns - own_ns(&peers)));
	ledger_fini(out->usual_is_own ? &peers : &out->usual);
	if (!out->usual_is_own)
		out->usual = peers;
	if (out->slow.steps && (own || others))
		return true;
	incident_books_close(out);
	return false;
}

void incident_books_close(struct incident_books *b)
{
	ledger_fini(&b->slow);
	ledger_fini(&b->usual);
}
