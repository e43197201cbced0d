/* SPDX-License-Identifier: Apache-2.0
 * verdict.h - from an incident's windows and findings to what is wrong, by analysis/cause/diagnosis:
 * suspects are its culprits, healthy peers the other ranks that sent windows (victims, or asked
 * for), the past is the suspects' own healthy steps. Suspects with different causes get verdicts of
 * their own, so that two faults at once are told apart; ranks that lost less than a culprit are
 * looked at too. Pure. Threads: one caller. */
#ifndef SYSOM_AGGREGATOR_INCIDENT_VERDICT_H
#define SYSOM_AGGREGATOR_INCIDENT_VERDICT_H

#include "aggregator/incident/incident_private.h"
#include "analysis/cause/diagnosis.h"
#include "base/limits.h"

#define VERDICTS_MAX 4u

struct verdict {
	struct diagnosis diagnosis;
	int32_t ranks[LIMIT_VERDICT_RANKS]; /* worst first; none: it is about everybody */
	uint32_t rank_count;
	uint64_t begin_unix_ns; /* of its ranks' first slow window; 0 not known */
};

/* s: for its sources of sketches. out: VERDICTS_MAX. The number of verdicts, the weightiest first;
 * 0: no memory. What is called the job's by the number of culprits alone (j->by_count) becomes that of
 * slow ranks in j where more than one cause is found. */
uint32_t verdict_make(const struct incident_set *s, const struct incident *i,
		      struct incident_judgement *j, struct verdict *out);
json_t *verdict_json(const struct verdict *v);

#endif
