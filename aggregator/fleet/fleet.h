/* SPDX-License-Identifier: Apache-2.0
 * fleet.h - what beats and sketches say: jobs, ranks, roles, nodes, who is alive; and what
 * detection makes of it: findings, and the windows that are asked for. Soft state: in memory only,
 * rebuilt from beats within 60 s of a start; baselines of earlier runs are on disk (baselines.h).
 *
 * Whose word counts (INV-6; docs/aggregator.md): a rank is of a job, which is of a user
 * (base/job_key.h), and of a node. It belongs to the node that named it first for as long as that
 * node's beats come; the same rank of another node is quarantined: shown and counted, compared with
 * nobody. What a node says comes by the connection of its beats; a
 * rank beyond the job's world size, or of another world size
 * than the job's nodes say, is refused; where the job's communicators reach beyond a node, the
 * ranks of a node that shows none of them are kept and shown, but compared with nobody. Every
 * refusal is counted.
 *
 * Owns its tables. Threads: any; one mutex inside, held for one beat or one job's turn of a tick.
 * Findings are told on the thread that ticks, without the mutex. Trust: beats are decoded and
 * bounded, what their numbers claim is not believed. */
#ifndef SYSOM_AGGREGATOR_FLEET_FLEET_H
#define SYSOM_AGGREGATOR_FLEET_FLEET_H

#include <jansson.h>

#include "analysis/cause/digest.h"
#include "base/buf.h"
#include "wire/codec.h"

struct fleet;
struct diagnosis_group;
struct finding_report;
struct incident_sources;

struct fleet_config {
	uint64_t alive_ns;     /* a rank counts as alive for so long after the beat that named it */
	uint64_t forget_ns;    /* and is forgotten after so long */
	bool sysom;	       /* mean + k sigma in place of the robust comparison */
	uint64_t hang_ns;      /* how long a collective may take; at least ten steps are waited */
	uint64_t waterline_ns; /* sliding window of the waterline */
	bool pull;	       /* ask for windows */
	uint64_t baseline_age_ns; /* how long a run without news is kept */
};

/* By which connection a message came, and since when that is there. Number 0: not known, and nothing hangs
 * on it; else no other connection has it. */
struct fleet_via {
	uint64_t connection, since_ns;
	uint64_t sender; /* whose connection (rep.h); 0: not known */
};

/* Later: no beat of the node came by this connection yet, which is young. */
enum fleet_word { FLEET_REFUSED, FLEET_TAKEN, FLEET_LATER };

struct fleet_totals {
	uint32_t jobs, jobs_alive, jobs_hanging; /* jobs_alive: with a rank that is */
	uint32_t ranks, ranks_alive, ranks_quarantined, nodes, nodes_alive, suspects;
	uint64_t events, lost, dropped; /* of the known ranks; entries that found no room */
	uint64_t uploaded_bytes, raw_bytes, windows_dropped; /* of the known nodes */
	uint64_t bytes;					     /* of memory for detection */
	/* refused, by reason */
	uint64_t refused_foreign, refused_range, refused_world, refused_node, refused_backwards,
	    refused_repeated, refused_processes, refused_window, refused_sketch;
	/* of the comparison; see cross.h and hang.h */
	uint64_t groups, rows, stale, ahead, bad, unplaced, no_room, thinned, renumbered;
	uint32_t slice_most; /* jobs or ranks that one turn of the lock looked at, at most */
	uint64_t findings, imbalances, hangs, uniform;
	uint64_t sketches, sketch_bytes, sketches_dropped;
	uint64_t commands_window, commands_hold, commands_suspect, commands_refused;
	uint64_t baselines_saved, baselines_failed;
};

void fleet_config_default(struct fleet_config *c);
/* 0, -ENOMEM. */
int fleet_open_with(struct fleet **out, const struct fleet_config *c);
/* With the defaults otherwise. */
int fleet_open(struct fleet **out, uint64_t alive_ns, uint64_t forget_ns);
void fleet_close(struct fleet *f);
/* Baselines of earlier runs are read from and written to this directory. Before the first tick.
 * Errors of baselines_open: none are kept. */
int fleet_keep_baselines(struct fleet *f, const char *dir);

/* Who is told of findings; f is borrowed for the call. Before the first tick. */
typedef void (*fleet_finding_fn)(void *arg, const struct finding_report *f);
void fleet_on_finding(struct fleet *f, fleet_finding_fn fn, void *arg);

/* now_ns: CLOCK_MONOTONIC of this machine. */
void fleet_beat(struct fleet *f, const struct beat *b, struct fleet_via via, uint64_t now_ns);
/* The connection has ended. */
void fleet_gone(struct fleet *f, uint64_t connection);
/* Commands for the sender of this beat, taken off the queue; at most max. */
uint32_t fleet_commands(struct fleet *f, const struct beat *b, struct wire_command *out,
			uint32_t max);
/* A sketch as decoded and as it came. false: refused. */
bool fleet_sketch_put(struct fleet *f, const struct sketch *s, const void *data, size_t bytes,
		      struct fleet_via via, uint64_t now_ns);
/* A window has come. Refused: the sender is no node of this job, or the rank is another node's: it
 * must not lead to any verdict about the job. */
enum fleet_word fleet_window(struct fleet *f, const struct digest *d, struct fleet_via via,
			     uint64_t now_ns);
/* Once a second: compares, tells findings, queues commands. One thread. */
void fleet_tick(struct fleet *f, uint64_t now_ns, uint64_t now_unix_ns);

/* ---- for diagnosis ---- */

/* 0, -ENOENT. */
int fleet_rank_node(struct fleet *f, const char *job, int32_t rank, char node[WIRE_TEXT_BYTES]);
/* Ranks of its role that no finding names, nearest numbers first; the number written. */
uint32_t fleet_peers(struct fleet *f, const char *job, int32_t rank, int32_t *ranks, uint32_t max);
/* The latest sketch of a rank; the caller frees it (wire_sketch_free). -ENOENT, -ENOMEM. */
int fleet_sketch(struct fleet *f, const char *job, int32_t rank, struct sketch *out);
/* What is normal of the rank's role by earlier runs of the job: a sketch over the role's ranks (rank -1),
 * the caller frees it. -ENOENT: no run of 200 healthy steps is known. */
int fleet_baseline(struct fleet *f, const char *job, int32_t rank, struct sketch *out);

/* The waterline of the first one's role without these ranks: the robust line, in mode sysom the
 * paper's. is_of: which of these ranks are of that role.
 * The caller frees out->function. -ENOENT, -ENOMEM. */
int fleet_waterline(struct fleet *f, const char *job, const int32_t *ranks, uint32_t count,
		    uint64_t now_ns, bool *is_of, struct diagnosis_group *out);

/* All of these for verdicts, as of the last tick. */
void fleet_sources(struct fleet *f, struct incident_sources *out);

/* ---- for people ---- */

/* The key of the job that a person asks for by key or by name: of jobs that are known, else of
 * earlier runs. The number of jobs that it may be: with more than one, several users have a job of
 * that name. */
uint32_t fleet_resolve_job(struct fleet *f, const char *asked, char key[WIRE_TEXT_BYTES]);
/* Ranks of a job that are alive. */
uint32_t fleet_job_ranks(struct fleet *f, const char *job, uint64_t now_ns);
void fleet_totals(struct fleet *f, uint64_t now_ns, struct fleet_totals *out);
struct fleet_page {
	const char *job;   /* NULL: all */
	const char *after; /* "next" of the page before; NULL: from the first one on */
	uint32_t limit;
};
/* Appends {"ranks":[...]} by job and rank, and "next" where there are more. The lock is held for slices of
 * a bounded number of ranks. -EINVAL: after is no "next"; -ENOMEM. */
int fleet_ranks_page(struct fleet *f, const struct fleet_page *q, uint64_t now_ns, struct buf *out);
/* Appends metrics of the ranks that are alive, in the text format of Prometheus. */
void fleet_ranks_metrics(struct fleet *f, uint64_t now_ns, struct buf *out);
/* {"jobs":[...]} by name: size, roles, run. */
int fleet_jobs_page(struct fleet *f, const struct fleet_page *q, uint64_t now_ns, struct buf *out);
/* The following return owned; NULL without memory. */
/* {"job","roles":[...],"clocks":[...]}; NULL: no such job. */
json_t *fleet_roles_json(struct fleet *f, const char *job, uint64_t now_unix_ns);
/* {"job","role","functions":[...]}; NULL: no such. role NULL: the first one. */
json_t *fleet_waterline_json(struct fleet *f, const char *job, const char *role, uint64_t now_ns);
/* {"baselines":[...]} of a job, and which run of it there is now. */
json_t *fleet_baselines_json(struct fleet *f, const char *job, uint64_t now_ns);
/* One of them whole; NULL: no such. */
json_t *fleet_baseline_json(struct fleet *f, const char *job, const char *role, uint64_t run);
/* The latest sketch of a rank; NULL: none. */
/* The kinds of steps that its ranks told of last (analysis/steps/kinds.h), the same ones of several
 * ranks as one, dearest first; NULL: no such job. */
json_t *fleet_kinds_json(struct fleet *f, const char *job);
json_t *fleet_sketch_json(struct fleet *f, const char *job, int32_t rank);

#endif
