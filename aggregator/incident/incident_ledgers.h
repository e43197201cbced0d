/* SPDX-License-Identifier: Apache-2.0
 * incident_ledgers.h - two ledgers for a rank of an incident: one of its slow steps, one of the
 * reference. The verdict comes from their difference. Each kept window of the incident counts once.
 * Owns: both ledgers. Threads: one caller. */
#pragma once

#include "aggregator/incident/incident_private.h"
#include "analysis/ledger/ledger.h"

struct incident_ledgers {
	/* usual: its steps are of the same kinds as the slow ones, in the same proportions */
	struct ledger slow, usual;
	uint32_t period; /* as in diagnosis_rank */
	/* The steps that `slow` stands for: all slow steps of the fault (incident_fault_steps), made
	 * from those with records as if they were as slow as all are on average. If they were not, or
	 * of typical steps: those with records. */
	uint64_t slow_steps;
	bool flagged; /* slow: steps that the rank flagged; else typical steps */
	/* usual: the rank's healthy steps; else steps of ranks that are not culprits */
	bool usual_is_own;
};

/* An excerpt of steps in which the rank was not slow itself: of all its steps of a time, or else of
 * those in which it waited; NULL: none. */
const struct excerpt *incident_ledgers_not_slow(const struct member *m);
/* The excerpt that shows best why a culprit is slow: of its flagged steps, or of typical ones if it
 * is always slow. NULL: unknown. */
const struct excerpt *incident_ledgers_excerpt(const struct incident *i,
					       const struct incident_judgement *j,
					       const struct member *m);
/* How much each of these steps is too slow, as detection measured it; 0: unknown. */
double incident_ledgers_lost_ns(const struct incident *i, const struct incident_judgement *j,
				const struct member *m);
/* How much of a slow step a reference must show: nearly all of most_ns, which the best reference
 * shows, or of lost_ns (0: unknown). A reference that was as slow itself shows nothing. */
double incident_ledgers_enough_ns(double most_ns, double lost_ns);
/* For a hang, the "slow step" is the open interval, and usual may be empty. false: too few steps on
 * either side; *out is then empty. */
bool incident_ledgers_open(const struct incident *i, const struct incident_judgement *j,
			   const struct member *m, struct incident_ledgers *out);
void incident_ledgers_close(struct incident_ledgers *b);
