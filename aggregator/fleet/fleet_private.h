/* SPDX-License-Identifier: Apache-2.0
 * fleet_private.h - shared by the files of the fleet. fleet.lock protects everything below. */
#pragma once

#include <pthread.h>

#include "aggregator/fleet/baselines.h"
#include "aggregator/fleet/fleet.h"
#include "analysis/cause/diagnosis.h"
#include "analysis/cross/cross.h"
#include "analysis/slow/hang.h"
#include "analysis/slow/roles.h"
#include "analysis/slow/temporal.h"
#include "analysis/slow/waterline.h"
#include "base/buf.h"
#include "base/idmap.h"
#include "base/limits.h"

#define FLEET_NONE IDMAP_NONE
/* The most ranks that the API reads while it holds the lock once: 0.1 ms. */
#define FLEET_SLICE 1024u
/* How many earlier sizes of an elastic job are stored, because windows may come late. */
#define FLEET_WORLDS 4u
/* The role of ranks that all do the same, if nobody names their work. */
#define FLEET_ANY_ROLE "rank"

struct fleet_job;
struct fleet_joined;
struct fleet_requests;
struct request_job;
struct request_pieces;
struct request_violation;

struct fleet_held {
	struct fleet_job *job;
	uint32_t slot;
};

struct fleet_node {
	char name[WIRE_TEXT_BYTES];
	bool used;
	/* 1 + index of the place that was taken before this one; never changes for a place */
	uint32_t next;
	uint8_t boot_id[16], boot_before[16];
	uint64_t key, seen_ns, sequence, now_ns;
	/* connections of its beats; via_before: an earlier one of the same run, or 0 */
	uint64_t via, via_before;
	bool connected;	 /* via is still connected */
	uint64_t sender; /* of its latest beat */
	int64_t realtime_offset_ns;
	uint64_t uploaded_bytes, raw_bytes, windows_dropped;
	char version[WIRE_VERSION_BYTES];
	char certificate[WIRE_TEXT_BYTES]; /* the name that the node proved; "": plain TCP */
	uint32_t wire_version;
	/* [LIMIT_FLEET_COMMANDS]; allocated only while there are commands */
	struct wire_command *commands;
	uint32_t command_count;
	struct fleet_held *held; /* its ranks, at most LIMIT_NODE_PROCESSES */
	uint32_t held_count;
	size_t held_room;
};

/* clang-format off */
#define FLEET_STATS_32(X) \
	X(trace_state) X(cupti_state) X(model_state) X(flags)
#define FLEET_STATS_64(X) \
	X(steps) X(flagged) X(events) X(lost) \
	X(kernels_joined) X(kernels_unmatched)
#define FLEET_STATS_DOUBLE(X) \
	X(latency_median_ns) X(latency_mad_ns) X(self_median_ns) X(expected_ns) X(compute_ns) \
	X(comm_ns) X(exposed_comm_ns) X(copy_ns) X(idle_ns)
/* clang-format on */

struct fleet_stats {
#define X(f) uint32_t f;
	FLEET_STATS_32(X)
#undef X
#define X(f) uint64_t f;
	FLEET_STATS_64(X)
#undef X
#define X(f) double f;
	FLEET_STATS_DOUBLE(X)
#undef X
};

struct fleet_rank {
	bool used, compared;
	bool ended;	/* its process has ended; stats are its last */
	bool contested; /* another node has the rank: shown, counted, compared with nobody */
	int32_t rank, world_size;
	uint32_t pid;
	/* Times on this machine's clock. window_ns: when its last window came or was requested;
	 * windows in which it only waited do not count. */
	uint64_t key, start_time_ticks, seen_ns, window_ns;
	uint64_t began_ns; /* when the process of these ids was first heard of */
	uint64_t window_begin_unix_ns, window_end_unix_ns; /* the time that this window covers */
	/* when a window with which peers can be compared came or was requested */
	uint64_t peer_ns;
	/* A spell of slowness in which the rank waits again and again, or is slow itself: when the
	 * spell began, when its latest window ended, in how many windows the rank waited, how long
	 * it waited, and how long it was slow itself. 0: none. */
	uint64_t spell_begin_unix_ns, spell_end_unix_ns;
	uint32_t spell_waits;
	double spell_waited_ns, spell_lost_ns;
	uint32_t node; /* index of the node; for a free place: 1 + index of the next free place */
	uint32_t role; /* index into the job's roles */
	char *program, *role_text,
	    *before; /* owned; before: name of the node that had the rank earlier, or NULL */
	char *pod[POD_TEXTS]; /* owned */
	struct fleet_stats stats;
	uint64_t stalled_ns; /* when it hung, on this machine's clock; 0: it does not hang */
	/* steps and flagged when the temporal model last read them */
	uint64_t steps_before, flagged_before;
	uint64_t born_ns, signature;
	struct roles_kernel *kernels;	   /* what it launches, if its role must be learned */
	uint32_t kernel_count, learned;	   /* 1 + role; 0: not yet */
	uint32_t pace;			   /* 1 + index into the job's paces; 0: unknown yet */
	uint64_t pace_kernels, pace_steps; /* values at the first beat with steps */
	/* since then: the sum over steps, and the extremes over groups */
	double launched, launch_low, launch_high;
	uint64_t launch_steps;
	void *sketch; /* the message as received */
	uint32_t sketch_bytes;
};

/* A node's part in a job. */
struct fleet_part {
	uint32_t node; /* FLEET_NONE: dropped */
	/* key: of the node's name, because places are reused; for a dropped part: 1 + the next
	 * dropped part, or 0 */
	uint64_t key, seen_ns;
	/* requests open on the node, how long the oldest has waited, and when the node reported
	 * this; 0: never */
	uint32_t running, waiting;
	uint64_t wait_ns, requests_ns;
	/* the run of its sysomd that was asked for pieces of requests; 0: none */
	uint64_t asked_run;
	/* the node shares a communicator with the job's other nodes, or was the job's first node */
	bool proven;
};

struct fleet_role {
	char name[WIRE_TEXT_BYTES];
	uint32_t members; /* the number when the temporal model last read it; 0: not known yet */
	struct waterline *waterline;
	struct temporal *temporal;
	struct sketch base; /* of the newest earlier run */
	bool has_base;
};

struct fleet_pull {
	uint64_t minute_ns, hold_ns, suspect_ns, hang_ns;
	uint32_t windows; /* requested in this minute */
	/* The time of a window that came before its peers were known, and when it came; 0: none. */
	uint64_t waiting_ns, waiting_begin_unix_ns, waiting_end_unix_ns;
	int32_t waiting_rank;
	uint8_t waiting_anomaly[16];
	/* The time of slowness in which ranks wait again and again, and when it was first reported;
	 * 0: none. */
	uint64_t waits_ns, waits_begin_unix_ns, waits_end_unix_ns;
	double waited_ns; /* how long the rank that waited longest has waited */
};

struct fleet_job {
	char name[WIRE_TEXT_BYTES];
	uint64_t key, born_ns, look_ns, save_ns, refused;
	uint64_t sender;		     /* the sender whose beat made the job known */
	int32_t world;			     /* 0: unknown */
	int32_t worlds_before[FLEET_WORLDS]; /* latest first */
	struct fleet_rank *ranks;
	uint32_t rank_count, used;
	size_t rank_room;
	uint32_t free_rank;   /* 1 + slot of a free place; 0: none below rank_count */
	struct idmap by_rank; /* rank_key -> slot */
	struct fleet_part *parts;
	uint32_t part_count;
	size_t part_room;
	uint32_t free_part;   /* 1 + index of a dropped part; 0: none */
	struct idmap by_node; /* node index -> part */
	struct idmap comms;   /* communicator of a proven node -> the part that showed it first */
	bool spans;	      /* a communicator has ranks of several nodes */
	bool complete;	      /* proven nodes have all ranks of the world */
	struct fleet_role *roles;
	uint32_t role_count;
	struct cross *cross;
	struct hang *hang;
	struct fleet_pull pull;
	uint64_t run;			/* identity of this run; 0: unknown yet */
	bool run_loaded;		/* baselines of earlier runs were loaded */
	float paces[LIMIT_FLEET_PACES]; /* kernels per step that ranks were seen to launch */
	uint32_t pace_count;
	bool partial;	  /* some communicator has only some of the ranks */
	bool roles_dirty; /* a rank launches new kernels */
	uint32_t role_kinds;
	uint64_t roles_ns;
	bool uniform, hanging; /* a finding of that kind is open */
	uint64_t uniform_reported_ns, uniform_begin_unix_ns, uniform_step; /* as last reported */
	struct fleet_requests *requests;				   /* NULL: it had none */
};

/* A run's row for the baselines, written without the lock. */
struct fleet_save {
	char job[WIRE_TEXT_BYTES], role[WIRE_TEXT_BYTES];
	struct baselines_run run;
	struct buf body;
};

struct fleet {
	pthread_mutex_t lock;
	struct fleet_config config;
	fleet_finding_fn fn;
	void *arg;
	struct fleet_node
	    *nodes; /* LIMIT_FLEET_NODES; mapped, so places that were never taken cost no memory */
	/* 1 + index of the place taken last; a place never leaves the chain */
	uint32_t first_node;
	struct fleet_job *jobs[LIMIT_FLEET_JOBS];
	uint32_t job_count; /* slots ever used; holes are NULL */
	struct idmap by_name;
	struct idmap by_via; /* connection -> index of the node whose latest beat came through it */
	struct baselines *baselines;
	struct fleet_totals counts; /* only its counters are used */
	uint32_t ranks;
	struct fleet_joined *joined[LIMIT_FLEET_JOINED]; /* the jobs with a table; holes are NULL */
	uint64_t forget_ns; /* as configured, or less while a table is crowded */
	uint64_t last_tick_ns, expire_ns;
	uint32_t slice_most; /* fleet_pages.c */
	/* findings of one job's turn, reported without the lock; only the ticking thread uses
	 * them */
	struct finding_report *pending;
	uint32_t pending_count;
	size_t pending_room;
	struct fleet_save *saves; /* used only by the ticking thread, too */
	uint32_t save_count;
	size_t save_room;
};

static inline const char *fleet_name_of(const char *const *names, size_t count, uint32_t i)
{
	return i < count ? names[i] : "unknown";
}

/* fleet_pages.c */
struct fleet_job_name {
	char name[WIRE_TEXT_BYTES];
};
/* Sorted names of all jobs that `who` may see (NULL: all jobs), or only of the job `only`; only
 * names after `after`. The caller frees them. Takes the lock for a slice of jobs at a time. 0,
 * -ENOMEM. */
int fleet_job_names(struct fleet *f, const struct http_user *who, const char *only,
		    const char *after, struct fleet_job_name **out, uint32_t *count);

/* fleet.c */
struct fleet_job *fleet_find_job(const struct fleet *f, const char *name);
struct fleet_rank *fleet_find_rank(struct fleet_job *job, int32_t rank);
bool fleet_is_alive(const struct fleet *f, uint64_t seen_ns, uint64_t now_ns);
bool fleet_rank_is_alive(const struct fleet *f, const struct fleet_rank *r, uint64_t now_ns);
/* When the rank hung, on this machine's clock; 0: it does not hang. */
uint64_t fleet_rank_hangs(const struct fleet *f, const struct fleet_job *job,
			  const struct fleet_rank *r, uint64_t now_ns);
/* Whether a finding names the rank: it is slow, or the others wait for it in a hang. */
bool fleet_rank_is_suspect(const struct fleet_job *job, const struct fleet_rank *r);
uint32_t fleet_suspects(struct fleet_job *job); /* their number */
bool fleet_is_forgotten(const struct fleet *f, uint64_t seen_ns, uint64_t now_ns);
/* fleet_admit.c */
/* Whether to accept a beat from this connection; n NULL: the node is new. Counts refusals. */
bool fleet_admit_beat(struct fleet *f, struct fleet_node *n, const struct beat *b, uint64_t via,
		      uint64_t now_ns);
/* Notes an accepted beat. */
void fleet_admit_node(struct fleet *f, struct fleet_node *n, const struct beat *b, uint64_t via);
/* Whether beats of the node came through the connection; n may be NULL. */
bool fleet_admit_heard(const struct fleet_node *n, uint64_t via);
struct fleet_part *fleet_admit_part(const struct fleet *f, struct fleet_job *job, uint32_t node,
				    uint64_t now_ns);
/* Drops the parts of forgotten nodes, whose ranks were dropped. */
void fleet_admit_forget(const struct fleet *f, struct fleet_job *job, uint64_t now_ns);
/* NULL: the node has none. */
struct fleet_part *fleet_admit_find_part(const struct fleet *f, struct fleet_job *job,
					 uint32_t node);
/* Whether the node is believed about the job; part may be NULL. If the job is complete, or its
 * communicators span nodes, a node that shares none of them is a stranger. */
bool fleet_admit_believes(const struct fleet_job *job, const struct fleet_part *part);
void fleet_admit_tick(const struct fleet *f, struct fleet_job *job, uint64_t now_ns);
/* Whether this node may report the rank, which no other node has. Counts refusals. */
bool fleet_admit_rank(struct fleet *f, struct fleet_job *job, const struct wire_rank *id,
		      uint32_t node, uint64_t now_ns);
/* Whether the job has, or had, as many ranks as the window states. */
bool fleet_admit_window(const struct fleet_job *job, const struct wire_rank *id);
/* Compares the rank's communicators with those of the job. */
void fleet_admit_prove(struct fleet_job *job, struct fleet_part *part, const struct beat_rank *b);
/* fleet_detect.c */
void fleet_detect_beat(struct fleet *f, struct fleet_job *job, uint32_t slot,
		       const struct beat_rank *b, const struct fleet_node *n, uint32_t part,
		       bool restarted, uint64_t now_ns);
void fleet_detect_tick(struct fleet *f, struct fleet_job *job, uint64_t now_ns,
		       uint64_t now_unix_ns);
/* fleet_roles.c */
void fleet_roles_sketch(struct fleet_job *job, struct fleet_rank *r, const struct sketch *s);
/* A new process has the rank's number: learns its role again from its first steps. */
void fleet_roles_restart(struct fleet_rank *r);
void fleet_roles_tick(struct fleet_job *job, uint64_t now_ns);
void fleet_roles_comms(struct fleet_job *job, const struct beat_rank *b);
void fleet_roles_pace(struct fleet_job *job, struct fleet_rank *r, const struct beat_rank *b);
/* True if all ranks are known and launch different numbers of kernels in no regular pattern: their
 * work differs by nature. */
bool fleet_roles_uneven(const struct fleet_job *job);
/* The rank's role; "": unknown yet. out: space for a learned role's name. */
const char *fleet_roles_name(const struct fleet_job *job, const struct fleet_rank *r,
			     uint64_t now_ns, char *out, size_t bytes);
/* fleet_temporal.c */
void fleet_temporal_tick(struct fleet *f, struct fleet_job *job, uint64_t now_ns,
			 uint64_t now_unix_ns);
struct finding_report *fleet_detect_pending(struct fleet *f);
/* fleet_requests.c */
/* Takes a node's report. It counts only if the node is believed about the job, or has pieces of
 * requests that others have too. */
void fleet_requests_beat(struct fleet *f, struct fleet_job *job, const struct fleet_node *n,
			 bool believed, const struct request_job *r, uint64_t now_ns);
void fleet_requests_pieces(struct fleet *f, struct fleet_job *job, const struct fleet_node *n,
			   bool believed, const struct request_pieces *p, uint64_t now_ns);
/* Adds counts and times of requests that were judged here. */
void fleet_requests_counted(struct fleet_job *job, const struct request_job *r);
/* Adds a request that missed an objective; v is on the job's clock. */
void fleet_requests_late(struct fleet_job *job, const char *nodes,
			 const struct request_violation *v, uint64_t now_ns);
/* Whether the node was asked for windows of the anomaly because it had a part in late requests.
 * Such windows are accepted even if the node is not believed about the job. */
bool fleet_requests_asked(const struct fleet *f, const struct fleet_job *job,
			  const struct fleet_node *n, const uint8_t anomaly[16]);
void fleet_requests_tick(struct fleet *f, struct fleet_job *job, uint64_t now_ns);
void fleet_requests_free(struct fleet *f, struct fleet_job *job);
/* fleet_joined.c */
/* Asks the job's nodes for pieces of its requests, if the job has several nodes. n: the node that
 * has seen requests. q: NULL at first. Returns q, perhaps a new one. */
struct fleet_joined *fleet_joined_ask(struct fleet *f, struct fleet_job *job,
				      struct fleet_joined *q, const struct fleet_node *n,
				      uint64_t now_ns);
void fleet_joined_free(struct fleet *f, struct fleet_joined *q); /* NULL is a no-op */
/* Takes a node's pieces. A believed node that sends pieces without being asked was asked by an
 * earlier aggregator. q: may be NULL. Returns q, perhaps a new one. */
struct fleet_joined *fleet_joined_pieces(struct fleet *f, struct fleet_job *job,
					 struct fleet_joined *q, const struct fleet_node *n,
					 bool believed, const struct request_pieces *p,
					 uint64_t now_ns);
/* Whether the node had a part in a request that a believed node has as well. */
bool fleet_joined_shares(const struct fleet_joined *q, uint32_t node);
bool fleet_joined_asked(const struct fleet_joined *q, uint32_t node, const uint8_t anomaly[16]);
void fleet_joined_tick(struct fleet *f, struct fleet_job *job, struct fleet_joined *q,
		       uint64_t now_ns);
/* Appends the request as JSON; false: it is not known. */
bool fleet_joined_json(struct fleet *f, struct fleet_job *job, struct fleet_joined *q, uint64_t id,
		       struct buf *out);
json_t *fleet_joined_objectives(const struct fleet_joined *q);
json_t *fleet_joined_counts(const struct fleet_joined *q, uint64_t now_ns);
/* fleet_pull.c */
void fleet_pull_finding(struct fleet *f, struct fleet_job *job, const struct finding_report *e,
			uint64_t now_ns);
/* Asks the node for windows of all its ranks of the job, over that time. */
void fleet_pull_request(struct fleet *f, struct fleet_job *job, uint32_t node,
			uint64_t begin_unix_ns, uint64_t end_unix_ns, const uint8_t *anomaly,
			uint64_t now_ns);
/* Asks the node to send pieces of the job's requests for the next for_ns. */
void fleet_pull_pieces(struct fleet *f, const struct fleet_job *job, uint32_t node,
		       uint64_t for_ns);
/* Sends the requests for windows that had to wait. */
void fleet_pull_tick(struct fleet *f, struct fleet_job *job, uint64_t now_ns);
void fleet_pull_window(struct fleet *f, struct fleet_job *job, struct fleet_rank *r,
		       const struct digest *d, uint64_t now_ns);
