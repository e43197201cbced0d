/* SPDX-License-Identifier: Apache-2.0
 * A long fault sends dozens of windows, and which one says most is known only once all are there: a
 * window that lost more may lack stacks, or be of a stretch in which the cause does not show. So a
 * window is looked at alone when it comes (its slow steps against its own healthy ones), and kept by
 * what it says: per cause the one that accounts for most lost time, and of those that name no cause
 * the heaviest. How much was lost in all that said the same is summed: one noisy window may have lost
 * more than each of many that agree. What is kept is the largest of an order of windows, so arrival
 * does not matter. */
#include "aggregator/incident_views.h"

#include <string.h>

#include "base/limits.h"

/* Below it a cause is no cause (as for a verdict's second fault). */
#define SURE_ENOUGH 0.4

void incident_views_drop(struct incident_set *s, struct picture **p)
{
	if (*p)
		s->picture_bytes -= picture_bytes(*p);
	picture_drop(*p);
	*p = NULL;
}

void incident_views_hold(struct incident_set *s, struct picture **to, struct picture *p)
{
	struct picture *held = picture_hold(p);

	incident_views_drop(s, to);
	*to = held;
	s->picture_bytes += picture_bytes(held);
}

void incident_views_clear(struct incident_set *s, struct views *views)
{
	for (uint32_t k = 0; k < INCIDENT_VIEWS; k++)
		incident_views_drop(s, &views->view[k].picture);
}

double incident_views_worth(const struct picture *p, double lost_ns)
{
	struct diagnosis_rank r;

	picture_rank(p, false, &r);
	return lost_ns * (r.kernel_count ? 8 : 1) * (r.samples > 0 ? 8 : 1);
}

/* What the window says by itself. */
static void look(struct view *v)
{
	static struct diagnosis d;
	struct diagnosis_rank slow, calm;
	struct diagnosis_input in = { .kind = FINDING_SLOW_RANK, .suspect = &slow,
				      .suspect_count = 1 };

	picture_rank(v->picture, false, &slow);
	picture_rank(v->picture, true, &calm);
	in.before = calm.steps ? &calm : NULL;
	diagnosis_make(&in, &d);
	v->cause = CAUSE_UNKNOWN;
	v->worth = incident_views_worth(v->picture, v->lost_ns);
	if (d.cause == CAUSE_UNKNOWN || d.cause == CAUSE_CPU_HOST_GAP || d.confidence < SURE_ENOUGH)
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

/* The place that v may take: free, of its own cause, or of the least; NULL: all others say more. */
static struct view *place_of(struct views *views, const struct view *v)
{
	bool tells = v->cause != CAUSE_UNKNOWN;
	struct view *from = views->view + (tells ? 0 : INCIDENT_VIEWS_TELLING), *least = NULL;
	uint32_t count = tells ? INCIDENT_VIEWS_TELLING : INCIDENT_VIEWS - INCIDENT_VIEWS_TELLING;

	for (uint32_t k = 0; tells && k < count; k++)
		if (from[k].picture && from[k].cause == v->cause)
			return is_better(v, &from[k]) ? &from[k] : NULL;
	for (uint32_t k = 0; k < count; k++) {
		if (!from[k].picture)
			return &from[k];
		if (!least || is_better(least, &from[k]))
			least = &from[k];
	}
	return is_better(v, least) ? least : NULL;
}

static void put(struct incident_set *s, struct views *views, const struct view *v)
{
	struct view *to = place_of(views, v);
	struct picture *held;

	/* without room one goes for another */
	if (!to || (!to->picture && s->picture_bytes >= LIMIT_INCIDENT_PICTURE_BYTES))
		return;
	incident_views_hold(s, &to->picture, v->picture);
	held = to->picture;
	*to = *v;
	to->picture = held;
}

void incident_views_add(struct incident_set *s, struct views *views, const struct digest *d)
{
	struct view v = { .picture = d->picture, .begin_unix_ns = d->begin_unix_ns,
			  .lost_ns = d->self_excess_ns > 1 ? d->self_excess_ns : 1 };

	if (!d->picture || !picture_steps(d->picture, false))
		return;
	look(&v);
	views->lost_ns[v.cause] += v.lost_ns;
	put(s, views, &v);
}

void incident_views_merge(struct incident_set *s, struct views *views, const struct views *from)
{
	for (uint32_t k = 0; k < CAUSE_COUNT; k++)
		views->lost_ns[k] += from->lost_ns[k];
	for (uint32_t k = 0; k < INCIDENT_VIEWS; k++)
		if (from->view[k].picture)
			put(s, views, &from->view[k]);
}

double incident_views_stands_for(const struct views *views, const struct view *v)
{
	double kept_ns = 0;

	for (uint32_t k = 0; k < INCIDENT_VIEWS; k++)
		if (views->view[k].picture && views->view[k].cause == v->cause)
			kept_ns += views->view[k].lost_ns;
	return v->lost_ns * (views->lost_ns[v->cause] / kept_ns);
}
