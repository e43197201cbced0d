/* SPDX-License-Identifier: Apache-2.0
 * replay_incident.h - stored windows made into incidents again, by the aggregator's own code, and what it
 * says of them. Owns: what it keeps of the windows. Threads: one caller. Trust: windows and the incident
 * are hostile. */
#ifndef SYSOM_CLI_REPLAY_REPLAY_INCIDENT_H
#define SYSOM_CLI_REPLAY_REPLAY_INCIDENT_H

#include <jansson.h>
#include <stdio.h>

#include "aggregator/incident/incident.h"
#include "base/buf.h"

struct replay_incident_stats {
	uint64_t windows, duplicates, alone, steps, flagged, incidents, findings, unsound;
};

struct replay_incident; /* opaque */
/* known: the incident as `sysom show --json` printed it: its findings across ranks, which came without
 * windows, its id and its job's size; all windows are taken for its own. NULL: windows form incidents as
 * they come. Borrowed until the close. 0, -ENOMEM, -EINVAL (known is no incident). */
int replay_incident_open(struct replay_incident **out, FILE *to, bool json, const json_t *known);
/* What else is known of the job while verdicts are made; before the first window. */
int replay_incident_live(struct replay_incident **out, FILE *to, bool json,
			 const struct incident_sources *sources, uint32_t job_ranks);
void replay_incident_close(struct replay_incident *r); /* NULL is a no-op */
/* A window's bytes, as the aggregator stores and serves them: prints its steps. 0; -EPROTO, -EMSGSIZE,
 * -ENOMEM. */
int replay_incident_window(struct replay_incident *r, const void *data, size_t bytes);

/* As a live aggregator is told, in time; id: of the incident that it belongs to, "" none. A finding that
 * is not sound is counted. 0, -ENOMEM. */
int replay_incident_take(struct replay_incident *r, const struct window *w, size_t bytes,
			 uint64_t now_unix_ns, char id[INCIDENT_ID_BYTES]);
int replay_incident_finding(struct replay_incident *r, const struct finding_report *f,
			    uint64_t now_unix_ns, char id[INCIDENT_ID_BYTES]);
/* Closes what is silent. */
void replay_incident_tick(struct replay_incident *r, uint64_t now_unix_ns);
/* An incident of now; returns owned; NULL: no such, or no memory. */
json_t *replay_incident_json(const struct replay_incident *r, const char *id);

/* Incidents, and a finding for each verdict. 0, -ENOMEM. */
int replay_incident_finish(struct replay_incident *r);
void replay_incident_stats_get(const struct replay_incident *r, struct replay_incident_stats *out);

#endif
