/* SPDX-License-Identifier: Apache-2.0
 * Whom the ranks waited for. A rank whose work explains its steps sends no window of its own, and no
 * finding names it. The ranks that waited for it sent theirs, the fleet asked for its window of the
 * same time, and the collectives of both show that it was the last to enter. */
#include <math.h>
#include <stdlib.h>

#include "aggregator/incident/incident_private.h"
#include "model/thresholds.h"

const struct member *incident_waits_most(const struct incident *i)
{
	const struct member *best = NULL;

	for (uint32_t k = 0; k < i->member_count; k++)
		if (i->members[k].steps.waited_ns > (best ? best->steps.waited_ns : 0))
			best = &i->members[k];
	return best;
}

/* Every rank waits for others now and then: a rank that waited for less than half as long as the
 * others did not wait with them. most: the rank that waited longest. */
static bool waited(const struct member *m, const struct member *most)
{
	return !m->excerpts.waiting.excerpt ||
	       m->steps.waited_ns >= thresholds.part.half * most->steps.waited_ns;
}

static bool is_known(const struct incident *i, const struct member *most)
{
	bool late = false;

	for (uint32_t k = 0; k < i->member_count && most; k++)
		late |= !waited(&i->members[k], most);
	return late;
}

/* The collectives of the new window, and of the windows that are kept; their number. */
static uint32_t sources_of(const struct incident *i, const struct member *most,
			   const struct member *of, const struct excerpt *fresh,
			   struct coll_source *list)
{
	uint32_t n = 0;

	for (uint32_t k = 0; k < i->member_count; k++) {
		const struct excerpts *e = &i->members[k].excerpts;
		const struct excerpt *own = &i->members[k] == of ? fresh : NULL;
		bool waits = waited(&i->members[k], most);

		if (own)
			list[n++] = (struct coll_source){k, &own->ledger.colls, waits};
		if (e->waiting.excerpt && e->waiting.excerpt != own)
			list[n++] =
			    (struct coll_source){k, &e->waiting.excerpt->ledger.colls, waits};
	}
	return n;
}

void incident_waits_note(struct incident *i, const struct member *of, const struct excerpt *fresh)
{
	const struct member *waits = incident_waits_most(i);
	uint32_t room = i->member_count;
	struct coll_source *list = NULL;
	struct coll_split *s = NULL;
	double *caused = NULL, most = 0;
	uint32_t n;

	if (!fresh || !is_known(i, waits))
		return;
	list = calloc((size_t)room + 2, sizeof(*list));
	caused = calloc((size_t)room + 1, sizeof(*caused));
	n = list && caused ? sources_of(i, waits, of, fresh, list) : 0;
	s = n ? coll_split_open(list, n, room) : NULL;
	if (s)
		coll_split_caused(s, list, n, caused, room);
	for (uint32_t k = 0; k < room && s; k++)
		most = fmax(most, -caused[k]);
	for (uint32_t k = 0; k < room && s; k++)
		if (!waited(&i->members[k], waits) && caused[k] >= thresholds.part.half * most)
			i->members[k].waited_for_ns = fmax(i->members[k].waited_for_ns, caused[k]);
	coll_split_close(s);
	free(list);
	free(caused);
}

const struct member *incident_waits_for(const struct incident *i)
{
	const struct member *best = NULL, *most = incident_waits_most(i);

	for (uint32_t k = 0; k < i->member_count && most; k++) {
		const struct member *m = &i->members[k];

		if (!waited(m, most) && m->waited_for_ns > (best ? best->waited_for_ns : 0))
			best = m;
	}
	return best;
}
