/* SPDX-License-Identifier: Apache-2.0
 * verdict.h - makes verdicts from an incident's windows and findings, with
 * analysis/cause/diagnosis. The suspects are the incident's culprits. The healthy peers are the
 * other ranks that sent windows (as victims, or on request). The past is the suspects' own healthy
 * steps. Suspects with different causes get separate verdicts, one for each of two simultaneous
 * faults. Ranks that lost less than a culprit are examined too. Pure. Threads: one caller. */
#pragma once

#include "aggregator/incident/incident_private.h"
#include "analysis/cause/diagnosis.h"
#include "base/limits.h"

#define VERDICTS_MAX 4u

struct verdict {
	struct diagnosis diagnosis;
	int32_t ranks[LIMIT_VERDICT_RANKS]; /* worst first; none: the verdict is about all ranks */
	uint32_t rank_count;
	uint64_t begin_unix_ns; /* start of its ranks' first slow window of the fault; 0: unknown */
};

/* s: its sources of sketches are used. out: [VERDICTS_MAX]. Returns the number of verdicts, the
 * most important first; 0: out of memory. If j is about the whole job only because many ranks
 * are slow (j->by_count), and these have more than one cause, *j becomes a judgement about slow
 * ranks. */
uint32_t verdict_make(const struct incident_set *s, const struct incident *i,
		      struct incident_judgement *j, struct verdict *out);
json_t *verdict_json(const struct verdict *v);
