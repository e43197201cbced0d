/* SPDX-License-Identifier: Apache-2.0
 * fleet.h - the jobs, ranks, roles and nodes that beats and sketches report, and the results of
 * detection: findings, and requests for windows. Soft state: in memory only, rebuilt from beats
 * within 60 s of a start. Baselines of earlier runs are on disk (baselines.h).
 *
 * Which claims are trusted (INV-6; docs/fleet.md): a job belongs to a user (base/job_key.h). A rank
 * of the job belongs to the node that named it first, as long as that node sends beats. The same
 * rank from another node is quarantined: it is shown and counted, but compared with nobody. A
 * node's messages must use the connection of its beats. A rank beyond the job's world size, or with
 * another world size than the job's nodes report, is refused. If the job's communicators reach
 * beyond one node, ranks of a node without any of them are shown, but compared with nobody. Every
 * refusal is counted.
 *
 * Owns its tables. Threads: any; one mutex inside, held for one beat or for one job's part of a
 * tick. Findings are reported on the thread that ticks, without the mutex. Trust: beats are decoded
 * and bounded, but their numbers may be false. */
#pragma once

#include <jansson.h>

#include "analysis/cause/digest.h"
#include "base/buf.h"
#include "base/metrics/metrics.h"
#include "wire/codec.h"

struct fleet;
struct diagnosis_group;
struct finding_report;
struct incident_sources;
struct http_user;

struct fleet_config {
	uint64_t alive_ns;	  /* a rank counts as gone this long after its last beat */
	uint64_t forget_ns;	  /* a rank is forgotten this long after its last beat */
	bool sysom;		  /* use mean + k sigma instead of the robust comparison */
	uint64_t hang_ns;	  /* how long a collective may take; at least ten steps */
	uint64_t waterline_ns;	  /* sliding window of the waterline */
	bool pull;		  /* ask for windows */
	uint64_t baseline_age_ns; /* how long an ended run is kept */
};

/* The connection that a message came through: a unique number (0: unknown), when it was made, and
 * its sender. */
struct fleet_via {
	uint64_t connection, since_ns;
	uint64_t sender;	 /* the connection's sender (rep.h); 0: unknown */
	const char *certificate; /* the name that the peer proved, borrowed for the call; or NULL */
};

/* FLEET_LATER: the connection is new, and no beat of the node has used it yet. */
enum fleet_word { FLEET_REFUSED, FLEET_TAKEN, FLEET_LATER };

struct fleet_totals {
	uint32_t jobs, jobs_alive, jobs_hanging; /* jobs_alive: with a living process */
	uint32_t others, others_alive;		 /* processes without a rank */
	uint32_t ranks, ranks_alive, ranks_quarantined, nodes, nodes_alive, suspects;
	uint64_t events, lost, dropped; /* of known ranks; dropped: entries without room */
	uint64_t uploaded_bytes, raw_bytes, windows_dropped; /* of known nodes */
	uint64_t bytes;					     /* memory used by detection */
	/* refused, by reason */
	uint64_t refused_foreign, refused_range, refused_world, refused_node, refused_backwards,
	    refused_repeated, refused_processes, refused_window, refused_sketch;
	/* of the comparison; see cross.h and hang.h */
	uint64_t groups, rows, stale, ahead, bad, unplaced, no_room, thinned, renumbered;
	uint32_t slice_most; /* most jobs or ranks handled in one slice of the lock */
	uint64_t findings, imbalances, hangs, uniform;
	uint64_t sketches, sketch_bytes, sketches_dropped;
	uint64_t commands_window, commands_hold, commands_suspect, commands_pieces,
	    commands_refused;
	uint64_t baselines_saved, baselines_failed;
};

void fleet_config_default(struct fleet_config *c);
/* 0, -ENOMEM. */
int fleet_open_with(struct fleet **out, const struct fleet_config *c);
void fleet_close(struct fleet *f);
/* Call before the first tick. Keeps baselines of earlier runs in this directory. Errors as
 * baselines_open; then none are kept. */
int fleet_keep_baselines(struct fleet *f, const char *dir);

/* Call before the first tick. fn gets the findings; f is borrowed for the call. */
typedef void (*fleet_finding_fn)(void *arg, const struct finding_report *f);
void fleet_on_finding(struct fleet *f, fleet_finding_fn fn, void *arg);

/* now_ns: CLOCK_MONOTONIC of this machine. */
void fleet_beat(struct fleet *f, const struct beat *b, struct fleet_via via, uint64_t now_ns);
/* Call when the connection has ended. */
void fleet_gone(struct fleet *f, uint64_t connection);
/* Takes at most max queued commands for the sender of this beat; returns how many. */
uint32_t fleet_commands(struct fleet *f, const struct beat *b, struct wire_command *out,
			uint32_t max);
/* A sketch, decoded (s) and as received (data). false: refused. */
bool fleet_sketch_put(struct fleet *f, const struct sketch *s, const void *data, size_t bytes,
		      struct fleet_via via, uint64_t now_ns);
/* Call when a window has arrived. FLEET_REFUSED: the sender is not a node of this job, or the rank
 * belongs to another node, so the window must not affect any verdict about the job. Sets
 * d->beyond_peers. */
enum fleet_word fleet_window(struct fleet *f, struct digest *d, struct fleet_via via,
			     uint64_t now_ns);
/* Call once a second, on one thread: compares, reports findings, queues commands. */
void fleet_tick(struct fleet *f, uint64_t now_ns, uint64_t now_unix_ns);

/* ---- for diagnosis ---- */

/* Finds other ranks of the rank's role that no finding names, nearest numbers first. Returns how
 * many. */
uint32_t fleet_peers(struct fleet *f, const char *job, int32_t rank, int32_t *ranks, uint32_t max);
/* The latest sketch of a rank; the caller frees it (wire_sketch_free). -ENOENT, -ENOMEM. */
int fleet_sketch(struct fleet *f, const char *job, int32_t rank, struct sketch *out);
/* The baseline of the rank's role from earlier runs of the job: a sketch over the role's ranks
 * (rank -1); the caller frees it. 0, -ENOENT: no earlier run with 200 healthy steps is known. */
int fleet_baseline(struct fleet *f, const char *job, int32_t rank, struct sketch *out);

/* The waterline of the role of ranks[0], without these ranks: the robust line, or SysOM-AI's in mode
 * sysom. is_of[i]: whether ranks[i] has that role. The caller frees out->function. 0, -ENOENT,
 * -ENOMEM. */
int fleet_waterline(struct fleet *f, const char *job, const int32_t *ranks, uint32_t count,
		    uint64_t now_ns, bool *is_of, struct diagnosis_group *out);

/* Sets the four functions above as the sources of verdicts. They answer as of the last tick. */
void fleet_sources(struct fleet *f, struct incident_sources *out);

/* ---- for the API ---- */

/* Finds the key of a job by its key or name: among known jobs, else among the series with
 * baselines. Of several runs of a series, takes the newest. Returns the number of series with that
 * name, because several users may have one. */
uint32_t fleet_resolve_job(struct fleet *f, const char *asked, char key[WIRE_TEXT_BYTES]);
/* Number of living ranks of a job; if none has a number, of its living processes. */
uint32_t fleet_job_ranks(struct fleet *f, const char *job, uint64_t now_ns);
void fleet_totals(struct fleet *f, uint64_t now_ns, struct fleet_totals *out);
struct fleet_page {
	const struct http_user *who; /* sees only that user's jobs; NULL: all */
	const char *job;	     /* NULL: all */
	const char *after; /* "next" of the previous page; NULL: begin with the first entry */
	uint32_t limit;
};
/* Appends {"ranks":[...]} by job and rank, and "next" if there are more. The lock is held for a
 * limited number of ranks at a time. 0, -EINVAL (after is not a "next"), -ENOMEM. */
int fleet_ranks_page(struct fleet *f, const struct fleet_page *q, uint64_t now_ns, struct buf *out);
/* Appends metrics of the ranks that are alive, in the text format of Prometheus. */
void fleet_ranks_metrics(struct fleet *f, const struct http_user *who, uint64_t now_ns,
			 struct metrics *m);
/* {"jobs":[...]} by name: size, roles, run. */
int fleet_jobs_page(struct fleet *f, const struct fleet_page *q, uint64_t now_ns, struct buf *out);
/* {"nodes":[...]}, in no order: version, certificate, when the last beat came. For users who see
 * all jobs; the page's job is not used. */
int fleet_nodes_page(struct fleet *f, const struct fleet_page *q, uint64_t now_ns, struct buf *out);
/* The functions below return owned JSON; NULL: not found, or no memory. */
/* {"job","roles":[...],"clocks":[...]} */
json_t *fleet_roles_json(struct fleet *f, const char *job, uint64_t now_unix_ns);
/* {"job","role","functions":[...]}; role NULL: the first one. */
json_t *fleet_waterline_json(struct fleet *f, const char *job, const char *role, uint64_t now_ns);
/* {"baselines":[...]} of a job, and its current run. */
json_t *fleet_baselines_json(struct fleet *f, const char *job, uint64_t now_ns);
/* One baseline with all details. */
json_t *fleet_baseline_json(struct fleet *f, const char *job, const char *role, uint64_t run);
/* The job's kinds of steps (analysis/steps/kinds.h) according to the latest sketches, most
 * expensive first. A kind that several ranks share is listed once. */
json_t *fleet_kinds_json(struct fleet *f, const char *job);
/* {"requests":[...]} of serving jobs by name, and "next" if there may be more. With q->job, a job's
 * key, the answer also has the requests that missed an objective. */
json_t *fleet_requests_json(struct fleet *f, const struct fleet_page *q, uint64_t now_ns);
/* {"objectives":...,"requests":[...]}: the request, joined from its nodes' pieces. The list is
 * empty if no job that `who` may see has pieces of it. */
json_t *fleet_request_json(struct fleet *f, const struct http_user *who, const char *job,
			   uint64_t id);
void fleet_requests_metrics(struct fleet *f, const struct http_user *who, uint64_t now_ns,
			    struct metrics *m);
/* The latest sketch of a rank. */
json_t *fleet_sketch_json(struct fleet *f, const char *job, int32_t rank);
