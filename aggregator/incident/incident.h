/* SPDX-License-Identifier: Apache-2.0
 * incident.h - groups the windows of one fault, across ranks, into one incident for a person to
 * read.
 *
 * A window joins the incident of its job whose time it overlaps or nearly touches (gap_ns).
 * Otherwise it joins the incident that has earlier windows of the same anomaly, or opens a new
 * incident. A window that closes the gap between two incidents merges them; the older one keeps its
 * id. The order of arrival does not matter. Once a fault has lasted for seconds and ended, slowness
 * of another rank is a new incident, even if waiting ranks fill the gap: their windows do not
 * connect two faults. Culprits are the ranks that lost most self time; ranks that only waited are
 * victims.
 *
 * Owns its incidents. Threads: one caller. Pure but for memory: time is an argument. Bounded by
 * LIMIT_INCIDENTS_LIVE and LIMIT_INCIDENT_RANKS. */
#pragma once

#include <jansson.h>

#include "analysis/cause/diagnosis.h"
#include "analysis/cause/digest.h"
#include "model/finding.h"

#define INCIDENT_ID_BYTES   9 /* 8 hex digits and NUL */
#define INCIDENT_ABSORB_MAX 16

struct incident_set;

/* Other data about a job's ranks, from sketches; any function may be NULL. They are called while a
 * verdict is made. The caller owns the results (wire_sketch_free). */
struct incident_sources {
	void *arg;
	int (*sketch)(void *arg, const char *job, int32_t rank, struct sketch *out); /* 0, -errno */
	/* the role's baseline from earlier runs */
	int (*baseline)(void *arg, const char *job, int32_t rank, struct sketch *out);
	/* finds healthy ranks of the rank's role; returns their number */
	uint32_t (*peers)(void *arg, const char *job, int32_t rank, int32_t *ranks, uint32_t max);
	/* finds the shares of functions in the role of ranks[0], leaving out all of ranks[].
	 * is_of[i]: whether ranks[i] has that role. 0, -errno; the caller frees out->function. */
	int (*waterline)(void *arg, const char *job, const int32_t *ranks, uint32_t count,
			 bool *is_of, struct diagnosis_group *out);
};

struct incident_config {
	uint64_t gap_ns;     /* the longest gap between windows of one incident */
	uint64_t silence_ns; /* an incident without a window for this long is closed */
	uint64_t memory_ns;  /* how long late windows may still join a closed incident */
	/* Identifies this process. A restored finding of another process ends, unless it is
	 * reported again. */
	uint64_t reporter;
	uint64_t excerpt_bytes; /* room for all excerpts; 0: LIMIT_INCIDENT_EXCERPT_BYTES */
	struct incident_sources sources;
	/* Returns whether the store has that id. NULL: there is no store. */
	bool (*is_taken)(void *arg, const char *id);
	void *taken_arg;
};

struct incident_change {
	char id[INCIDENT_ID_BYTES]; /* "": the window belongs to no incident */
	bool opened;
	uint32_t absorbed_count; /* incidents that were merged into id */
	char absorbed[INCIDENT_ABSORB_MAX][INCIDENT_ID_BYTES];
	/* An open incident that was closed to make room; "": none. No window joins it any more. Its
	 * row and JSON exist until the next incident is opened. */
	char evicted[INCIDENT_ID_BYTES];
};

/* The columns of an incident's row in the store. */
struct incident_row {
	char id[INCIDENT_ID_BYTES], job[WIRE_TEXT_BYTES];
	bool open;
	/* arrival_unix_ns: of the last window */
	uint64_t begin_unix_ns, end_unix_ns, arrival_unix_ns;
	uint64_t updated_unix_ns; /* when the row was written; different for each write */
};

/* Copies *c. 0, -ENOMEM. */
int incident_set_open(struct incident_set **out, const struct incident_config *c);
void incident_set_close(struct incident_set *s); /* NULL is a no-op */
/* Adds a new window (the caller removes duplicates). arrival_unix_ns: this machine's clock. 0,
 * -ENOMEM (nothing changed). */
int incident_set_add(struct incident_set *s, const struct digest *d, uint64_t arrival_unix_ns,
		     struct incident_change *out);
/* Adds a finding. It joins an incident of its job as a window does. A finding about imbalance joins
 * only findings of its kind, because it blames no rank. 0, -ENOMEM, -EINVAL (no job, impossible
 * kind or counts). */
int incident_set_add_finding(struct incident_set *s, const struct finding_report *f,
			     uint64_t arrival_unix_ns, struct incident_change *out);
/* Restores from the store: first an incident without its windows, then its windows. -EEXIST,
 * -ENOENT, -ENOMEM. */
int incident_set_restore(struct incident_set *s, const struct incident_row *row);
int incident_set_restore_window(struct incident_set *s, const char *id, const struct digest *d);
int incident_set_restore_finding(struct incident_set *s, const char *id,
				 const struct finding_report *f);
/* Open incidents whose excerpts lack names of functions and that have at most windows_max
 * windows. */
uint32_t incident_set_unnamed(const struct incident_set *s, uint64_t windows_max,
			      char ids[][INCIDENT_ID_BYTES], uint32_t max);
/* Rebuilds an incident from the store. take_out removes it from the set; NULL: there is no such
 * incident. The restore functions then add it again. Then keep the new incident, or put the old one
 * back. keep returns false, and puts the old one back, if the store has fewer windows than the old
 * one had. */
struct incident *incident_set_take_out(struct incident_set *s, const char *id);
bool incident_set_keep(struct incident_set *s, struct incident *old);
void incident_set_put_back(struct incident_set *s, struct incident *old);
/* A finding that has not ended keeps its incident open for at most memory_ns, or until its job is
 * reported gone. Returns the job of finding number `index` of this sort (jobs may repeat); false:
 * no more. */
bool incident_set_held_job(const struct incident_set *s, uint32_t index, char job[WIRE_TEXT_BYTES]);
void incident_set_job_ended(struct incident_set *s, const char *job);
/* An earlier process's finding keeps its incident open like one of this process. A new finding of
 * the same kind about one of its ranks replaces it. This call ends the earlier process's findings
 * that no new finding has replaced. */
void incident_set_end_earlier(struct incident_set *s);
/* Closes silent incidents and forgets old ones. Fills the ids of the newly closed; returns their
 * number. */
uint32_t incident_set_tick(struct incident_set *s, uint64_t now_unix_ns,
			   char closed[][INCIDENT_ID_BYTES], uint32_t max);
/* job_ranks: living ranks of the job, 0: unknown. Returns owned; NULL: no such incident. */
json_t *incident_set_json(const struct incident_set *s, const char *id, uint32_t job_ranks,
			  struct incident_row *row);
bool incident_set_row(const struct incident_set *s, const char *id, struct incident_row *row);
/* The incident's findings for the store, as a list (finding_json.h); NULL: none. */
json_t *incident_set_findings(const struct incident_set *s, const char *id);
