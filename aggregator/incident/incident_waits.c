/* SPDX-License-Identifier: Apache-2.0
 * Whom the ranks waited for. A rank whose work explains its steps sends no window of its own, and no
 * finding names it. The ranks that waited for it sent theirs, the fleet asked for its window of the
 * same time, and the collectives of both show that it was the last to enter. */
#include <math.h>
#include <stdlib.h>

#include "aggregator/incident/incident_ledgers.h"
#include "model/thresholds.h"

const struct member *incident_waits_most(const struct incident *i)
{
	const struct member *best = NULL;

	for (uint32_t k = 0; k < i->member_count; k++)
		if (i->members[k].steps.waited_ns > (best ? best->steps.waited_ns : 0))
			best = &i->members[k];
	return best;
}

/* The collectives of the new window, and of one that is kept of each other rank; their number. */
static uint32_t sources_of(const struct incident *i, const struct member *of,
			   const struct excerpt *fresh, struct coll_source *list)
{
	uint32_t n = 0;

	for (uint32_t k = 0; k < i->member_count; k++) {
		const struct member *m = &i->members[k];
		const struct excerpt *p = m == of ? fresh : incident_ledgers_not_slow(m);

		if (p)
			list[n++] = (struct coll_source){k, &p->ledger.colls};
	}
	return n;
}

/* Every rank waits for others now and then: one that waited for less than half as long as another did not
 * wait with it. Those are waited for, if they explain most of the waiting. Of all windows so far, those
 * count that show most of it. */
static void note(struct incident *i, const double *caused, const double *waited)
{
	double longest = 0, all = 0, known = 0;

	for (uint32_t k = 0; k < i->member_count; k++)
		longest = fmax(longest, waited[k]);
	for (uint32_t k = 0; k < i->member_count; k++) {
		all += caused[k];
		known += waited[k] < thresholds.part.half * longest ? caused[k] : 0;
	}
	if (known < thresholds.part.most * all || known < thresholds.part.half * longest ||
	    known < i->waits_ns)
		return;
	i->waits_ns = known;
	for (uint32_t k = 0; k < i->member_count; k++)
		i->members[k].waited_for_ns =
		    waited[k] < thresholds.part.half * longest ? caused[k] : 0;
}

void incident_waits_note(struct incident *i, const struct member *of, const struct excerpt *fresh)
{
	uint32_t room = i->member_count;
	struct coll_source *list = NULL;
	struct coll_split *s = NULL;
	double *caused, *waited;
	uint32_t n;

	if (!fresh || !incident_waits_most(i))
		return;
	list = calloc((size_t)room + 1, sizeof(*list));
	caused = calloc((size_t)2 * room + 1, sizeof(*caused));
	waited = caused ? caused + room : NULL;
	n = list && caused ? sources_of(i, of, fresh, list) : 0;
	s = n ? coll_split_open(list, n, room) : NULL;
	if (s) {
		coll_split_caused(s, list, n, caused, waited, room);
		note(i, caused, waited);
	}
	coll_split_close(s);
	free(list);
	free(caused);
}

void incident_waits_merge(struct incident *to, struct incident *from)
{
	struct incident *less = from->waits_ns > to->waits_ns ? to : from;

	to->waits_ns = fmax(to->waits_ns, from->waits_ns);
	for (uint32_t k = 0; k < less->member_count; k++)
		less->members[k].waited_for_ns = 0;
}

const struct member *incident_waits_for(const struct incident *i)
{
	const struct member *best = NULL;

	for (uint32_t k = 0; k < i->member_count; k++)
		if (i->members[k].waited_for_ns > (best ? best->waited_for_ns : 0))
			best = &i->members[k];
	return best;
}

bool incident_is_waited_for(const struct incident_judgement *j, const struct member *m)
{
	return j->waited && m->waited_for_ns >= thresholds.part.half * j->waited->waited_for_ns;
}
