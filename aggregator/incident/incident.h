/* SPDX-License-Identifier: Apache-2.0
 * incident.h - the windows of one fault, across ranks, as one thing that a person reads.
 *
 * A window joins the incident of its job whose time it overlaps or nearly touches (gap_ns), else
 * the one that holds earlier windows of the same anomaly, else it founds one. A window that closes
 * the gap between two incidents makes them one; the older keeps its id. Order of arrival does not
 * matter. Once a rank has been slow for seconds, only what nearly touches the time of ranks that
 * were slow themselves joins: a fault that begins after that is another incident, whatever waits in
 * between. Culprits are the ranks that lost most of their own time; ranks that only waited are
 * victims.
 *
 * Owns its incidents. Threads: one caller. Pure but for memory: time is an argument. Bounded by
 * LIMIT_INCIDENTS_LIVE and LIMIT_INCIDENT_RANKS. */
#ifndef SYSOM_AGGREGATOR_INCIDENT_INCIDENT_H
#define SYSOM_AGGREGATOR_INCIDENT_INCIDENT_H

#include <jansson.h>

#include "analysis/cause/diagnosis.h"
#include "analysis/cause/digest.h"
#include "model/finding.h"

#define INCIDENT_ID_BYTES   9 /* 8 hex digits and NUL */
#define INCIDENT_ABSORB_MAX 16

struct incident_set;

/* What else is known of a job's ranks, from sketches; any member may be NULL. Called while a
 * verdict is made; results are the caller's (wire_sketch_free). */
struct incident_sources {
	void *arg;
	int (*sketch)(void *arg, const char *job, int32_t rank, struct sketch *out); /* 0, -errno */
	/* what is normal of its role by earlier runs */
	int (*baseline)(void *arg, const char *job, int32_t rank, struct sketch *out);
	/* healthy ranks of its role; their number */
	uint32_t (*peers)(void *arg, const char *job, int32_t rank, int32_t *ranks, uint32_t max);
	/* functions' shares in the role of the first of these ranks, without these ranks'; is_of:
	 * which of them are of that role; 0, -errno; out->function is the caller's (free). */
	int (*waterline)(void *arg, const char *job, const int32_t *ranks, uint32_t count,
			 bool *is_of, struct diagnosis_group *out);
};

struct incident_config {
	uint64_t gap_ns;     /* between windows of one incident */
	uint64_t silence_ns; /* without a window until an incident is closed */
	uint64_t memory_ns;  /* how long late windows may still join a closed one */
	/* of this process; a restored finding of another one is told again or ends */
	uint64_t teller;
	uint64_t excerpt_bytes; /* room for all excerpts; 0: LIMIT_INCIDENT_EXCERPT_BYTES */
	struct incident_sources sources;
};

struct incident_change {
	char id[INCIDENT_ID_BYTES]; /* "" : the window belongs to no incident */
	bool opened;
	uint32_t absorbed_count; /* incidents that became part of id */
	char absorbed[INCIDENT_ABSORB_MAX][INCIDENT_ID_BYTES];
	/* An open incident that was closed for want of room; "" none. Its row and JSON are there
	 * until the next incident is opened; no window joins it any more. */
	char evicted[INCIDENT_ID_BYTES];
};

/* The columns of an incident's row in the store. */
struct incident_row {
	char id[INCIDENT_ID_BYTES], job[WIRE_TEXT_BYTES];
	bool open;
	uint64_t begin_unix_ns, end_unix_ns, arrival_unix_ns; /* of the last window */
	uint64_t updated_unix_ns; /* when it was written; never the same for two writes */
};

int incident_set_open(struct incident_set **out, const struct incident_config *c);
void incident_set_close(struct incident_set *s); /* NULL is a no-op */
/* A window that is not known yet (the caller dedupes). arrival_unix_ns: this machine's clock.
 * 0, -ENOMEM (nothing changed). */
int incident_set_add(struct incident_set *s, const struct digest *d, uint64_t arrival_unix_ns,
		     struct incident_change *out);
/* A finding joins the incident of its job as a window does; one about imbalance joins only its
 * like, since it blames nobody. 0, -ENOMEM, -EINVAL (no job, impossible kind or counts). */
int incident_set_add_finding(struct incident_set *s, const struct finding_report *f,
			     uint64_t arrival_unix_ns, struct incident_change *out);
/* As stored earlier: an incident without its windows, then its windows. -EEXIST, -ENOENT. */
int incident_set_restore(struct incident_set *s, const struct incident_row *row);
int incident_set_restore_window(struct incident_set *s, const char *id, const struct digest *d);
int incident_set_restore_finding(struct incident_set *s, const char *id,
				 const struct finding_report *f);
/* Open incidents whose excerpts lack names of functions and that have no more windows than that. */
uint32_t incident_set_unnamed(const struct incident_set *s, uint64_t windows_max,
			      char ids[][INCIDENT_ID_BYTES], uint32_t max);
/* To build one anew from the store: takes it out, for the restore functions to put it in again;
 * then keep the new one, or put the old one back. NULL: no such. keep: false, and the old one is
 * back, where the store has fewer windows than it had. */
struct incident *incident_set_take_out(struct incident_set *s, const char *id);
bool incident_set_keep(struct incident_set *s, struct incident *old);
void incident_set_put_back(struct incident_set *s, struct incident *old);
/* A finding that has not ended holds its incident open for memory_ns at most, or until its job is
 * told to be gone. The index-th job with such a finding (jobs may come twice); false: no more. */
bool incident_set_held_job(const struct incident_set *s, uint32_t index, char job[WIRE_TEXT_BYTES]);
void incident_set_job_ended(struct incident_set *s, const char *job);
/* What an earlier process told holds its incident like a finding of this one, which takes its place
 * if it is of the same kind and names one of its ranks. Those that nobody has told again end. */
void incident_set_end_earlier(struct incident_set *s);
/* Closes what is silent and forgets what is old; the ids of the newly closed. */
uint32_t incident_set_tick(struct incident_set *s, uint64_t now_unix_ns,
			   char closed[][INCIDENT_ID_BYTES], uint32_t max);
/* job_ranks: ranks of the job that are known to be alive, 0 unknown. Returns owned; NULL: no such. */
json_t *incident_set_json(const struct incident_set *s, const char *id, uint32_t job_ranks,
			  struct incident_row *row);
bool incident_set_row(const struct incident_set *s, const char *id, struct incident_row *row);
/* Its findings for the store, a list as finding_json.h makes them; NULL: it has none. */
json_t *incident_set_findings(const struct incident_set *s, const char *id);
uint32_t incident_set_count(const struct incident_set *s, bool open_only);

#endif
