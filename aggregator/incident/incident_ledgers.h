/* SPDX-License-Identifier: Apache-2.0
 * incident_ledgers.h - two ledgers for a rank of an incident: one of its slow steps, and one of the
 * reference. The verdict comes from their difference. Each kept window of the incident counts once.
 * Owns: both ledgers. Threads: one caller. */
#pragma once

#include "aggregator/incident/incident_private.h"
#include "analysis/ledger/ledger.h"

struct incident_ledgers {
	/* usual: its steps are of the same kinds as the slow ones, in the same proportions */
	struct ledger slow, usual;
	uint32_t period; /* as in diagnosis_rank */
	/* Number of the steps that `slow` stands for. Usually these are all slow steps of the fault
	 * (incident_fault_steps): the ledger is made from the steps with records, and stretched to
	 * the mean loss of all. If the two mean losses differ too much, or for typical steps,
	 * slow_steps counts only the steps with records. */
	uint64_t slow_steps;
	bool flagged; /* `slow` is of steps that the rank flagged; else of typical steps */
	/* `usual` is of the rank's own healthy steps; else of ranks that are not culprits */
	bool usual_is_own;
};

/* An excerpt of steps in which the rank was not slow itself: of all steps of some time, or else of
 * steps in which it waited; NULL: none. */
const struct excerpt *incident_ledgers_not_slow(const struct member *m);
/* The excerpt that shows best why a culprit is slow: of its flagged steps, or of typical ones if it
 * is always slow. NULL: unknown. */
const struct excerpt *incident_ledgers_excerpt(const struct incident *i,
					       const struct incident_judgement *j,
					       const struct member *m);
/* How much each of these steps is too slow, as detection measured it, ns; 0: unknown. */
double incident_ledgers_lost_ns(const struct incident *i, const struct incident_judgement *j,
				const struct member *m);
/* How much of a slow step's loss a reference must show: nearly all of most_ns (what the best
 * reference shows) or of lost_ns (0: unknown). A reference that was as slow itself shows
 * nothing. */
double incident_ledgers_enough_ns(double most_ns, double lost_ns);
/* What the ledgers of an incident's ranks have in common. Borrows i and j. Peers are the ranks that
 * were no culprits when they were first needed. NULL: no memory. */
struct incident_common; /* opaque */
struct incident_common *incident_common_open(const struct incident *i,
					     const struct incident_judgement *j);
void incident_common_close(struct incident_common *c); /* NULL is a no-op */
/* For a hang, the "slow step" is the open interval, and usual may be empty. False: either side has
 * too few steps; *out is then empty. c NULL: false. */
bool incident_ledgers_open(struct incident_common *c, const struct member *m,
			   struct incident_ledgers *out);
void incident_ledgers_close(struct incident_ledgers *b);
