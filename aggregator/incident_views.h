/* SPDX-License-Identifier: Apache-2.0
 * incident_views.h - the few windows of a rank that its verdict is made from, whatever comes later.
 * Owns: what a member holds of pictures, counted once per member in the picture_bytes of its incident and
 * of the set. Threads: one caller. Bounded by the set's picture_bytes; without room, what matters least
 * goes. */
#ifndef SYSOM_AGGREGATOR_INCIDENT_VIEWS_H
#define SYSOM_AGGREGATOR_INCIDENT_VIEWS_H

#include "aggregator/incident_private.h"

/* A picture held by *to, one of the member's, in place of what it held. false: there is no room, and *to is
 * as before. */
bool incident_views_hold(struct incident_set *s, struct incident *i, struct member *m, struct picture **to,
			 struct picture *p);
void incident_views_clear(struct incident_set *s, struct incident *i, struct member *m);
/* Whether p shows more of the time in which the rank's steps stand still; either may be NULL. */
bool incident_views_shows_more(const struct picture *p, const struct picture *than);
/* Whether the healthy steps of p are the better reference: from before the fault, then more of them,
 * with kernels and stacks, then the earlier ones. than may be NULL. */
bool incident_views_is_calmer(const struct picture *p, const struct picture *than);
/* How much a picture can say: time lost, more with kernels and with stacks. */
double incident_views_worth(const struct picture *p, double lost_ns);
/* An own window of the rank; kept if it says more than another, which then goes. The order of the calls
 * does not matter while there is room. false: there was none. */
bool incident_views_add(struct incident_set *s, struct incident *i, struct member *m,
			const struct digest *d);
/* Those pictures of `from`, a member of an incident that is about to be freed, that say more than its
 * own. */
void incident_views_merge(struct incident_set *s, struct incident *i, struct member *to,
			  const struct member *from);
/* Time lost that this kept window stands for, ns: its own, and its part of what windows lost that said
 * the same and are not kept. */
double incident_views_stands_for(const struct views *views, const struct view *v);

#endif
