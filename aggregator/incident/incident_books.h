/* SPDX-License-Identifier: Apache-2.0
 * incident_books.h - the two ledgers of a rank of an incident whose difference is its verdict: of
 * its slow steps, and of what these are compared with. Sums over every window that is kept of the
 * incident, each window once. Owns: both ledgers. Threads: one caller. */
#ifndef SYSOM_AGGREGATOR_INCIDENT_INCIDENT_BOOKS_H
#define SYSOM_AGGREGATOR_INCIDENT_INCIDENT_BOOKS_H

#include "aggregator/incident/incident_private.h"
#include "analysis/ledger/ledger.h"

struct incident_books {
	struct ledger slow, usual;
	bool flagged;	   /* slow is of the steps that the rank flagged; else of typical ones */
	bool usual_is_own; /* the rank's healthy steps; else steps of ranks that are no culprits */
};

/* The steps that show best why a culprit is slow: its flagged ones, or typical ones where it is slow
 * throughout. NULL: none are known. */
const struct excerpt *incident_books_excerpt(const struct incident *i,
					     const struct incident_judgement *j,
					     const struct member *m);
/* By how much each of these steps is too slow, as detection measured it; 0: not known. */
double incident_books_lost_ns(const struct incident *i, const struct incident_judgement *j,
			      const struct member *m);
/* What a reference has to show of a slow step where the best one shows most_ns and so much was lost (0: not
 * known): nearly as much as the one or the other. Steps that were as slow themselves show nothing. */
double incident_books_enough_ns(double most_ns, double lost_ns);
/* Of a hang the "slow step" is the open interval, and usual may be empty.
 * false: too few steps are known on either side; *out is then empty. */
bool incident_books_open(const struct incident *i, const struct incident_judgement *j,
			 const struct member *m, struct incident_books *out);
void incident_books_close(struct incident_books *b);

#endif
