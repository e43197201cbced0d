/* SPDX-License-Identifier: Apache-2.0
 * incident_private.h - what an incident is made of, for the files that add to it (incident.c),
 * judge it (incident_judge.c), diagnose it (verdict.c) and write it (incident_json.c).
 *
 *   incident                        of one job
 *    +- row                         id, job, time: its row in the store
 *    +- members[]                 one per rank: sums of its windows, never the windows
 *    |   +- steps                   its slow steps and what they lost
 *    |   +- sent                    counts of its windows and losses
 *    |   +- own, accused            when it was slow itself; what findings say of it
 *    |   +- signals
 *    |   +- excerpts                the few windows that its verdict is made from
 *    |       +- open, slow, healthy, waiting
 *    |       +- view[]              per cause the window that shows it best
 *    +- runs[]                      slow steps of one rank in a row, with their own `steps`
 *    +- anomalies[]                 ids, for windows that arrive far apart
 *    +- findings[]                  what detection reported
 *    +- share[]                     whose room its excerpts take: sender, node, job
 *
 * A judgement is made from ranks, runs and findings; a verdict from a judgement and the excerpts. */
#pragma once

#include "aggregator/incident/incident.h"
#include "analysis/cause/excerpt.h"
#include "base/limits.h"

/* A window of the rank that its verdict may use. */
struct view {
	struct excerpt *excerpt;  /* NULL: none */
	enum finding_cause cause; /* of a view: UNKNOWN: none, or not sure enough */
	double worth;		  /* how much it says */
	double lost_ns; /* by how much the self time of its steps exceeded the expected one */
	uint64_t begin_unix_ns;
};

/* Views with a cause, each with a different one; the other views have none. */
#define INCIDENT_VIEWS_CAUSE 3u
#define INCIDENT_VIEWS	     6u
/* Added to a window's weight if the rank itself was slow. It is greater than any number of flagged
 * steps or lost milliseconds, but small enough that a double can still add one half to it. */
#define INCIDENT_OWN_WEIGHT 1e12
/* The windows that a rank's verdict is made from, by what they show; incident_views.c holds their
 * excerpts. The most important place comes first. */
#define INCIDENT_PLACES (INCIDENT_VIEWS + 5u)
struct excerpts {
	union {
		struct {
			struct view open; /* the one with most time in which steps stand still */
			struct view slow; /* the one with most of its slow steps */
			struct view
			    view[INCIDENT_VIEWS]; /* own windows, diagnosed without others */
			struct view healthy;	  /* the best reference */
			struct view waiting;	  /* steps in which it was not slow itself */
			struct view typical; /* all steps of some time; it was not slow itself */
		};
		struct view at[INCIDENT_PLACES];
	};
	/* by cause: the loss of all own windows with that cause, kept or not */
	double lost_ns[CAUSE_COUNT];
};

/* Spikes in one function and span. */
struct incident_spike {
	struct slow_step step; /* the longest one */
	uint64_t count;
	int32_t rank; /* the rank that has the longest spike */
	bool waits;   /* the rank only waited in them */
};

/* Counts from the rank's windows. */
struct sent {
	uint64_t windows, summaries; /* summaries: number of windows without events */
	uint64_t collectives;	     /* entered so far, by the window that states most */
	uint64_t lost;		     /* events lost, in the window that lost most */
	char lost_cause[32];	     /* the cause of most of these losses */
};

/* What the rank lost according to others. */
struct accused {
	double ns;	   /* the larger of what findings and its node state; 0: neither names it */
	double by_node_ns; /* what its node states, which compares the node's ranks */
	uint64_t begin_unix_ns, end_unix_ns; /* of the findings that name it; 0: none */
};

/* When the rank was slow by its own windows; 0: never. */
struct own_time {
	uint64_t begin_unix_ns, end_unix_ns; /* time of these windows */
	uint64_t itself_end_unix_ns; /* end of the last window in which no CPU time was stolen */
	uint64_t slow_end_unix_ns;   /* end of the last such window that is not a transient */
	double stolen_ns; /* slow time in which the hypervisor took the CPU: not in slow_ns */
};

struct member {
	int32_t rank;
	char node[WIRE_TEXT_BYTES];
	struct wire_pod pod;
	int32_t world_size;
	struct slow_steps steps;
	struct sent sent;
	struct own_time own;
	struct accused accused;
	bool drifted; /* it had a drift that the ranks that it is compared with did not share */
	double waited_for_ns;	   /* how long others waited for it, in windows of the same time */
	struct os_signal *signals; /* DIGEST_SIGNALS_MAX or NULL; the strongest of all windows */
	uint32_t signal_count;
	struct excerpts excerpts;
};

struct anomaly {
	uint8_t id[16];
};

/* Consecutive slow steps of one rank, without healthy ones between: from windows that touch in
 * time. (An anomaly, in contrast, continues across seconds of healthy steps.) */
struct run {
	uint64_t member; /* incident_member_key() */
	uint64_t begin_unix_ns, end_unix_ns;
	struct slow_steps steps;
};

/* Room is divided on three levels: by the sender of the window that founded the incident, by its
 * node, and by its job. */
enum { SHARE_SENDER, SHARE_NODE, SHARE_JOB, SHARE_LEVELS };

struct share {
	struct share *next;
	uint64_t key;
	uint32_t incidents; /* incidents that point here */
	uint32_t counted;   /* incidents counted by the last incident_share_count */
	uint64_t bytes;	    /* bytes of their excerpts, by the last incident_share_weigh */
};

struct incident {
	struct incident *next;
	struct share *share[SHARE_LEVELS]; /* of the set */
	struct incident_row row;
	struct member *members;
	uint32_t member_count;
	size_t member_room;
	/* of the ranks' windows; connects windows that arrive far apart */
	struct anomaly *anomalies;
	uint32_t anomaly_count;
	size_t anomaly_room;
	struct run *runs;
	uint32_t run_count;
	size_t run_room;
	struct finding_report *findings;
	uint32_t finding_count;
	size_t finding_room;
	uint64_t windows, bytes, raw_bytes, ranks_dropped, findings_dropped;
	uint64_t windows_without_gpu; /* of the windows */
	uint64_t excerpt_bytes;	      /* of its ranks' excerpts, each counted once */
	/* windows whose excerpts were dropped or not kept for lack of room */
	uint64_t excerpts_dropped;
	/* For the search for the next excerpt to drop: the rank at which it begins, and how
	 * important the last dropped excerpt was. */
	uint32_t excerpt_member, excerpt_rank;
	uint64_t order; /* of creation */
	/* 0: an ordinary incident. Otherwise only findings with the same number join it, and
	 * windows with an id of its anomalies. 1: imbalance; greater: requests that missed an
	 * objective in one way. */
	uint64_t apart;
	/* Spikes whose function is known. First those of ranks that were slow themselves, then
	 * those of ranks that waited; in each group the longest first. An incident of spikes is
	 * about the first one. In an incident of requests: their slow steps in processes without
	 * steps of their own. */
	struct incident_spike *spikes;
	uint32_t spike_count;
	size_t spike_room;
	double waits_ns; /* waiting for known members: sum of waited_for_ns */
};

struct incident_set {
	struct incident_config config;
	struct incident *first;
	uint32_t count;
	struct incident *evicted; /* not in the list `first`; see incident_change */
	struct share *shares;
	uint64_t orders, excerpt_bytes;
};

/* Who is to blame, and for what. */
struct incident_judgement {
	const char *symptom;
	enum finding_kind kind;
	bool by_count; /* only the number of culprits suggests that the whole job is slow */
	/* the window_reason whose windows make ranks culprits; 0: no window does */
	uint32_t reason;
	double worst;			    /* the largest blame by windows */
	double worst_slow_ns;		    /* how long that rank was slow */
	uint32_t culprits, suspects, ranks; /* ranks: number of the job's ranks, as far as known */
	const struct member *lead;     /* worst culprit, else worst victim; NULL: none is known */
	const struct finding *finding; /* the most informative one; NULL: none */
	/* The job hangs, and no rank is to blame: it names the ranks that wait for each other on
	 * the CPU. */
	bool mutual;
	/* The culprits wait for each other because the network loses segments. This rank
	 * retransmits most segments, and it alone is to blame. NULL: no such case. */
	const struct member *lossy;
	/* All ranks only waited, mostly for this one, whose work explains its own steps. NULL: no
	 * such case. */
	const struct member *waited;
	/* The rank that was slow for longest; brief slowness of others does not count beside it.
	 * NULL: none. */
	const struct member *longest;
	/* Ranks that are not accused, because their causes account for little of the incident's cost.
	 * verdict_make sets them. */
	const struct member *minor[LIMIT_VERDICT_RANKS];
	uint32_t minor_count;
	bool is_common; /* most ranks other than the worst ones lost nearly as much */
};

/* Means per step; 0: not known. */
double incident_latency_ns(const struct step_times *t);
double incident_expected_ns(const struct step_times *t);
/* How long the rank was slow, ns: by its own windows or by findings, whichever is longer. */
double incident_slow_ns(const struct member *m);

void incident_judge(const struct incident *i, uint32_t job_ranks, struct incident_judgement *out);
bool incident_is_culprit(const struct incident *i, const struct incident_judgement *j,
			 const struct member *m);
/* Whether the rank is no culprit, and waited for others. */
bool incident_is_victim(const struct incident *i, const struct incident_judgement *j,
			const struct member *m);
/* The time of the fault: that of the culprits' runs, or of all runs if there is no culprit.
 * Transients do not count, nor do runs that are short beside the rank's longest stretch. If all
 * runs are transients, it is the time of the incident. */
void incident_fault_time(const struct incident *i, const struct incident_judgement *j,
			 uint64_t *begin_unix_ns, uint64_t *end_unix_ns);
/* The time from the start of the run's first slow step to the end of its last one; for a hang, the
 * time of its windows. */
void incident_run_time(const struct run *r, uint64_t *begin_unix_ns, uint64_t *end_unix_ns);
/* The rank's stretches of slowness in the time of the fault; none: all were transients. The caller
 * frees them. */
struct run *incident_fault_spells(const struct incident *i, const struct member *m,
				  uint32_t *count);
/* The rank's slow steps in the time of the fault. */
struct slow_steps incident_fault_steps(const struct incident *i, const struct member *m);
/* Whether the rank was slow for a short time, and j->longest for much longer. */
bool incident_is_moment(const struct incident_judgement *j, const struct member *m);
/* Whether the run is a transient, as every node has now and then. */
bool incident_is_brief(const struct run *r);
/* Whether the run is only a few slow steps, spikes or not. */
bool incident_is_short(const struct run *r);
/* Whether the incident's runs are single slow steps, some of them spikes, and nothing accuses a
 * rank. */
bool incident_is_spikes(const struct incident *i);
/* Notes a spike of that rank whose function is known. */
void incident_spikes_note(struct incident *i, int32_t rank, const struct slow_step *s, bool waits);
/* Whether both are in the same function and the same span. */
bool incident_spikes_is_like(const struct slow_step *a, const struct slow_step *b);
void incident_spikes_merge(struct incident *to, const struct incident *from);
/* The spikes in another function or span than `shown` (may be NULL), longest first. Returns
 * owned. */
json_t *incident_spikes_json(const struct incident *i, const struct slow_step *shown);
/* How the rank's spikes recur. Returns their number. *period_ns: the time between them; 0: they
 * are too few, or irregular. */
uint64_t incident_spikes(const struct incident *i, const struct member *m, double *period_ns);
/* For an incident of requests: the longest slow step in which a process without steps of its own
 * worked and did not wait; NULL: none is known. */
const struct slow_step *incident_spikes_of_request(const struct incident *i);
/* Whether the rank has a run that is not a transient. */
bool incident_is_lasting(const struct incident *i, const struct member *m);
json_t *incident_json_make(const struct incident_set *s, const struct incident *i,
			   uint32_t job_ranks);
/* Counts i among the incidents of its sender, node and job. sender 0: unknown. False: no memory. */
bool incident_share_join(struct incident_set *s, struct incident *i, uint64_t sender,
			 const char *node);
void incident_share_leave(struct incident_set *s, struct incident *i);
/* Counts the open, or the closed, incidents of every share. */
void incident_share_count(const struct incident_set *s, bool open);
/* Compares how many incidents the senders have, then the nodes, then the jobs, as last counted.
 * Above 0: a's has more; below 0: b's has more. */
int incident_share_compare(const struct incident *a, const struct incident *b);
/* Sums up the excerpt bytes of every share. */
void incident_share_weigh(const struct incident_set *s);
/* Merges two runs. Steps that both have count once. */
void incident_run_merge(struct run *to, const struct run *from);
/* The first entry of that rank; NULL: none. */
const struct member *incident_member(const struct incident *i, int32_t rank);
/* The rank, or a hash of the node if the rank has no number. */
uint64_t incident_member_key(int32_t rank, const char *node);

/* ---- incident_views.c: which excerpts a rank keeps. Each excerpt is counted once in the
 * excerpt_bytes of the incident and of the set, and the set bounds their sum. Without room the
 * least important excerpt is dropped. ---- */

void incident_views_clear(struct incident_set *s, struct incident *i, struct member *m);
/* Offers the window to every place. A place takes the window if it says more than the present one,
 * which is then dropped. While there is room, the order of calls does not matter. slow: how much
 * the window says about the rank's slow steps. False: there was no room. */
bool incident_views_add(struct incident_set *s, struct incident *i, struct member *m,
			const struct digest *d, double slow);
/* Moves the excerpts of `from` that say more than those of `to`. The incident of `from` is about to
 * be freed. */
void incident_views_merge(struct incident_set *s, struct incident *i, struct member *to,
			  const struct member *from);
/* The lost time that this kept window stands for, ns: its own, and a share of the loss of dropped
 * windows with the same cause. */
double incident_views_stands_for(const struct excerpts *e, const struct view *v);

/* ---- incident_waits.c ---- */

/* Call when a requested window of the rank comes: notes whom the ranks waited for. Only requested
 * windows cause this, because they are few, and come after the windows about waiting. fresh may be
 * NULL. */
void incident_waits_note(struct incident *i, const struct member *of, const struct excerpt *fresh);
/* Call before the ranks are merged. The incident that knows more waiting decides. */
void incident_waits_merge(struct incident *to, struct incident *from);
/* The rank for which the others waited longest, and which waited little itself; NULL: none is
 * known. */
const struct member *incident_waits_for(const struct incident *i);
/* Whether the others waited for this rank, or for j->waited, nearly all of the time. */
bool incident_is_waited_for(const struct incident_judgement *j, const struct member *m);
/* The rank that lost most in windows in which it only waited; NULL: none. */
const struct member *incident_waits_most(const struct incident *i);

#define INCIDENT_REASON(m, r) ((m)->steps.reasons >> (r)&1)
