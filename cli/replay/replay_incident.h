/* SPDX-License-Identifier: Apache-2.0
 * replay_incident.h - makes incidents and verdicts from stored windows with the aggregator's code.
 * Owns: what it keeps of the windows. Threads: one caller. Trust: windows and the incident are hostile. */
#pragma once

#include <jansson.h>
#include <stdio.h>

#include "aggregator/incident/incident.h"
#include "base/buf.h"

struct replay_incident_stats {
	uint64_t windows, duplicates, alone, steps, flagged, incidents, findings;
};

struct replay_incident; /* opaque */
/* known: the incident as `sysom show --json` printed it, borrowed until close. It gives the id, the job's
 * size and findings that have no windows, and all windows belong to it. NULL: windows form incidents as
 * they come. 0, -ENOMEM, -EINVAL (known is not an incident). */
int replay_incident_open(struct replay_incident **out, FILE *to, bool json, const json_t *known);
/* Opens one in which windows and findings form incidents as they come (replay_incident_take,
 * _finding). sources (copied), job_ranks: for verdicts. 0, -ENOMEM. */
int replay_incident_live(struct replay_incident **out, FILE *to, bool json,
			 const struct incident_sources *sources, uint32_t job_ranks);
void replay_incident_close(struct replay_incident *r); /* NULL is a no-op */
/* Adds a window in the form in which the aggregator stores and serves it, and prints its steps. 0; -EPROTO,
 * -EMSGSIZE, -ENOMEM. */
int replay_incident_window(struct replay_incident *r, const void *data, size_t bytes);

/* Adds a window or finding at its time, as in a live run. id: of its incident, "" none. An invalid finding
 * is left out. 0, -ENOMEM. */
int replay_incident_take(struct replay_incident *r, const struct window *w, size_t bytes,
			 uint64_t now_unix_ns, char id[INCIDENT_ID_BYTES]);
int replay_incident_finding(struct replay_incident *r, const struct finding_report *f,
			    uint64_t now_unix_ns, char id[INCIDENT_ID_BYTES]);
/* Closes silent incidents. */
void replay_incident_tick(struct replay_incident *r, uint64_t now_unix_ns);
/* The incident as it is now; the caller owns it. NULL: none, or out of memory. */
json_t *replay_incident_json(const struct replay_incident *r, const char *id);

/* Prints the incidents, and a finding for each verdict. 0, -ENOMEM. */
int replay_incident_finish(struct replay_incident *r);
void replay_incident_stats_get(const struct replay_incident *r, struct replay_incident_stats *out);
