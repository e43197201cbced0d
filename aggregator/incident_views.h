/* SPDX-License-Identifier: Apache-2.0
 * incident_views.h - the few windows of a rank that its verdict is made from, whatever comes later.
 * Owns: what it holds of pictures, counted in the set's picture_bytes. Threads: one caller. */
#ifndef SYSOM_AGGREGATOR_INCIDENT_VIEWS_H
#define SYSOM_AGGREGATOR_INCIDENT_VIEWS_H

#include "aggregator/incident_private.h"

/* A picture held by *to in place of what it held; none. */
void incident_views_hold(struct incident_set *s, struct picture **to, struct picture *p);
void incident_views_drop(struct incident_set *s, struct picture **p); /* NULL inside is a no-op */
/* How much a picture can say: time lost, more with kernels and with stacks. */
double incident_views_worth(const struct picture *p, double lost_ns);
/* views: zeroed at first. An own window of the rank; kept if it says more than another, which then
 * goes. The order of the calls does not matter while there is room. */
void incident_views_add(struct incident_set *s, struct views *views, const struct digest *d);
void incident_views_merge(struct incident_set *s, struct views *views, const struct views *from);
void incident_views_clear(struct incident_set *s, struct views *views);
/* Time lost that this kept window stands for, ns: its own, and its part of what windows lost that said
 * the same and are not kept. */
double incident_views_stands_for(const struct views *views, const struct view *v);

#endif
