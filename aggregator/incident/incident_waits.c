/* SPDX-License-Identifier: Apache-2.0
 * Finds whom the ranks waited for. A rank whose work explains its steps sends no window by itself,
 * and no finding names it. But the ranks that waited for it sent windows, the fleet requested its
 * window of the same time, and the collectives in both windows show that it entered last. */
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

/* What windows of the same time say about each rank. */
struct waits {
	struct coll_source *source;
	uint32_t count;
	/* caused_ns, waited_ns: by the collectives. says_ns: by what the rank's own steps lost,
	 * since it may have waited for ranks without a window. */
	double *caused_ns, *waited_ns, *says_ns;
};

static void waits_close(struct waits *w)
{
	free(w->source);
	free(w->caused_ns);
}

static bool waits_open(struct waits *w, uint32_t ranks)
{
	w->source = calloc((size_t)ranks + 1, sizeof(*w->source));
	w->caused_ns = calloc((size_t)3 * ranks + 1, sizeof(*w->caused_ns));
	if (!w->source || !w->caused_ns) {
		waits_close(w);
		return false;
	}
	w->waited_ns = w->caused_ns + ranks;
	w->says_ns = w->waited_ns + ranks;
	return true;
}

/* Uses the new window, and one kept window of each other rank. */
static void waits_fill(struct waits *w, const struct incident *i, const struct member *of,
		       const struct excerpt *fresh)
{
	struct coll_split *s;

	for (uint32_t k = 0; k < i->member_count; k++) {
		const struct member *m = &i->members[k];
		const struct excerpt *p = m == of ? fresh : incident_ledgers_not_slow(m);

		if (!p)
			continue;
		w->source[w->count++] = (struct coll_source){k, &p->ledger.colls};
		w->says_ns[k] = p->waited_ns;
	}
	s = coll_split_open(w->source, w->count, i->member_count);
	coll_split_caused(s, w->source, w->count, w->caused_ns, w->waited_ns, i->member_count);
	coll_split_close(s);
}

static double most_of(const double *ns, uint32_t count)
{
	double most = 0;

	for (uint32_t k = 0; k < count; k++)
		most = fmax(most, ns[k]);
	return most;
}

/* Takes the fewest ranks that together caused nearly all of the waiting. */
static void set_waited_for(struct incident *i, const struct waits *w, double known)
{
	double left = known * (1 - thresholds.part.matters);

	i->waits_ns = known;
	for (uint32_t k = 0; k < i->member_count; k++)
		i->members[k].waited_for_ns = 0;
	while (left > 0) {
		uint32_t most = 0;

		for (uint32_t k = 0; k < i->member_count; k++)
			if (w->caused_ns[k] > w->caused_ns[most])
				most = k;
		i->members[most].waited_for_ns = w->caused_ns[most];
		left -= w->caused_ns[most];
		w->caused_ns[most] = 0;
	}
}

/* Every rank waits for others now and then. A rank that waited less than half as long as the
 * longest waiting one counts as not waiting. Such ranks are the ones that were waited for, if they
 * explain most of the waiting. Of all sets of windows so far, the one that shows most waiting
 * counts. */
static void note(struct incident *i, const struct waits *w)
{
	double longest = most_of(w->waited_ns, i->member_count), all = 0, known = 0,
	       says = most_of(w->says_ns, i->member_count);

	for (uint32_t k = 0; k < i->member_count; k++) {
		bool waits = w->waited_ns[k] >= thresholds.part.half * longest ||
			     (says > 0 && w->says_ns[k] >= thresholds.part.half * says);

		all += w->caused_ns[k];
		w->caused_ns[k] = waits ? 0 : w->caused_ns[k];
		known += w->caused_ns[k];
	}
	if (known < thresholds.part.most * all || known < thresholds.part.half * longest ||
	    known <= i->waits_ns)
		return;
	set_waited_for(i, w, known);
}

void incident_waits_note(struct incident *i, const struct member *of, const struct excerpt *fresh)
{
	struct waits w = {.count = 0};

	if (!fresh || !incident_waits_most(i) || !waits_open(&w, i->member_count))
		return;
	waits_fill(&w, i, of, fresh);
	note(i, &w);
	waits_close(&w);
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
	return j->waited && m->waited_for_ns > 0;
}
