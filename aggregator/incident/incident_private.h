/* SPDX-License-Identifier: Apache-2.0
 * incident_private.h - what an incident is made of, for the files that add to it (incident.c),
 * judge it (incident_judge.c), diagnose it (verdict.c) and write it (incident_json.c).
 *
 *   incident                        of one job
 *    +- row                         id, job, time: its row in the store
 *    +- members[]                   one per rank: sums of its windows, never the windows
 *    |   +- steps                   its slow steps and what they lost
 *    |   +- sent                    counts of its windows and losses
 *    |   +- own, accused            when it was slow itself; what findings say of it
 *    |   +- signals
 *    |   +- excerpts                the few windows that its verdict is made from
 *    |       +- open, slow, healthy, waiting
 *    |       +- view[]              per cause the window that shows it best
 *    +- runs[]                      slow steps of one member in a row, with their own `steps`
 *    +- anomalies[]                 ids, for windows that arrive far apart
 *    +- findings[]                  what detection reported
 *    +- share[]                     whose room its excerpts take: sender, node, job
 *
 * A judgement is made from members, runs and findings; a verdict from a judgement and the excerpts. */
#pragma once

#include "aggregator/incident/incident.h"
#include "analysis/cause/excerpt.h"
#include "base/limits.h"

/* A window of the rank that its verdict may use. */
struct view {
	struct excerpt *excerpt;  /* NULL: none */
	enum finding_cause cause; /* of a view: UNKNOWN: none, or not sure enough */
	double worth;		  /* how much it says */
	double lost_ns;		  /* self time above what was expected, of its steps */
	uint64_t begin_unix_ns;
};

/* Views with a cause, each with a different one; the other views have none. */
#define INCIDENT_VIEWS_CAUSE 3u
#define INCIDENT_VIEWS	     6u
/* Added to a window's weight if the rank itself was slow. It exceeds any window's flagged steps and
 * lost milliseconds, and a double can still add one half to it. */
#define INCIDENT_OWN_WEIGHT 1e12
/* The windows that a rank's verdict is made from, by what they show; incident_views.c holds their
 * excerpts. The most important place comes first. */
#define INCIDENT_PLACES (INCIDENT_VIEWS + 5u)
struct excerpts {
	union {
		struct {
			struct view open; /* most of the time in which steps stand still */
			struct view slow; /* most of its slow steps */
			struct view
			    view[INCIDENT_VIEWS]; /* own windows, diagnosed without others */
			struct view healthy;	  /* the best reference */
			struct view waiting;	  /* steps in which it was not slow itself */
			struct view typical;	  /* all steps of a time; it was not slow itself */
		};
		struct view at[INCIDENT_PLACES];
	};
	double lost_ns[CAUSE_COUNT]; /* of all own windows with that cause, kept or not */
};

/* Spikes in one function and span. */
struct incident_spike {
	struct slow_step step; /* the longest one */
	uint64_t count;
	int32_t rank; /* of the longest one */
	bool waits;   /* the rank only waited in them */
};

/* Counts from the member's windows. */
struct sent {
	uint64_t windows, summaries; /* summaries: of the windows, those without events */
	uint64_t collectives;	     /* entered so far, by the window that knows of most */
	uint64_t lost;		     /* events, in the window that lost most */
	char lost_cause[32];	     /* the cause of most of them */
};

/* What others say that the rank lost. */
struct accused {
	double ns;			     /* by findings and by its node; 0: neither names it */
	double by_node_ns;		     /* what its node says, which compares its ranks */
	uint64_t begin_unix_ns, end_unix_ns; /* of the findings that name it; 0: none */
};

/* When the rank was slow by its own windows; 0: never. */
struct own_time {
	uint64_t begin_unix_ns, end_unix_ns; /* of these windows */
	uint64_t itself_end_unix_ns;	     /* of those in which nothing was stolen */
	uint64_t slow_end_unix_ns;	     /* of these, those that are not transients */
	double stolen_ns; /* slow, but the hypervisor took the CPU: not in slow_ns */
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
	double waited_for_ns;	   /* how long others waited for it, in windows of the same time */
	struct os_signal *signals; /* DIGEST_SIGNALS_MAX or NULL; of all windows, the strongest */
	uint32_t signal_count;
	struct excerpts excerpts;
};

struct anomaly {
	uint8_t id[16];
};

/* Slow steps of one rank in a row, without healthy ones between: from windows that touch in time.
 * (An anomaly continues over seconds of healthy steps.) */
struct run {
	uint64_t member; /* incident_member_key() */
	uint64_t begin_unix_ns, end_unix_ns;
	struct slow_steps steps;
};

/* Room is shared out on three levels: by who sent the window that founded the incident, by its
 * node, by its job. */
enum { SHARE_SENDER, SHARE_NODE, SHARE_JOB, SHARE_LEVELS };

struct share {
	struct share *next;
	uint64_t key;
	uint32_t incidents; /* that point here */
	uint32_t counted;   /* of these, by the last incident_share_count */
	uint64_t bytes;	    /* of their excerpts, by the last incident_share_weigh */
};

struct incident {
	struct incident *next;
	struct share *share[SHARE_LEVELS]; /* of the set */
	struct incident_row row;
	struct member *members;
	uint32_t member_count;
	size_t member_room;
	struct anomaly *anomalies; /* of the members' windows, for those that arrive far apart */
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
	uint64_t excerpt_bytes;	      /* of its members' excerpts, each counted once */
	uint64_t excerpts_dropped;    /* windows whose excerpts were dropped or not kept: no room */
	/* The search for the next excerpt to drop: the member at which it begins, and how important
	 * the last dropped one was. */
	uint32_t excerpt_member, excerpt_rank;
	uint64_t order; /* of creation */
	/* 0: ordinary. Else only findings with the same number join it, and windows with an id of its
	 * anomalies: 1: imbalance; above: requests that missed an objective in one way. */
	uint64_t apart;
	/* Spikes whose function is known. First those of ranks that were slow themselves, then those
	 * of ranks that waited; in each group the longest first. An incident of spikes is about the
	 * first one. Of requests: their slow steps in processes without steps of their own. */
	struct incident_spike *spikes;
	uint32_t spike_count;
	size_t spike_room;
	double waits_ns; /* waiting that is known to be for members: sum of waited_for_ns */
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
	bool by_count;	      /* only the number of culprits says that the whole job is slow */
	uint32_t reason;      /* whose windows make ranks culprits; 0: no window does */
	double worst;	      /* blame by windows */
	double worst_slow_ns; /* how long that rank was slow */
	uint32_t culprits, suspects, ranks; /* ranks: of the job, as far as known */
	const struct member *lead;     /* worst culprit, else worst victim; NULL: none is known */
	const struct finding *finding; /* the most informative one; NULL: none */
	/* The job hangs, and no rank is to blame: those that wait for each other on the CPU are
	 * named. */
	bool mutual;
	/* The culprits wait for each other because the network loses segments. This one sends most
	 * of them again, and it alone is to blame. NULL: no such case. */
	const struct member *lossy;
	/* All ranks only waited, for this one most: its work explains its steps. NULL: no such case. */
	const struct member *waited;
	/* The rank that was slow for longest. Short slowness of other ranks doesn't count. Or NULL */
	const struct member *longest;
	/* Not accused: their causes cost little of the incident. verdict_make sets them. */
	const struct member *minor[LIMIT_VERDICT_RANKS];
	uint32_t minor_count;
	bool is_common; /* most ranks beside the worst ones lost nearly as much */
};

/* Means; 0: not known. */
double incident_latency_ns(const struct step_times *t);
double incident_expected_ns(const struct step_times *t);
/* How long the rank was slow, ns: by its own windows or by findings, whichever is longer. */
double incident_slow_ns(const struct member *m);

void incident_judge(const struct incident *i, uint32_t job_ranks, struct incident_judgement *out);
bool incident_is_culprit(const struct incident *i, const struct incident_judgement *j,
			 const struct member *m);
/* No culprit, and it waited for others. */
bool incident_is_victim(const struct incident *i, const struct incident_judgement *j,
			const struct member *m);
/* When the fault was: the time of the culprits' runs, or of all runs if there is no culprit.
 * Transients don't count, nor runs that are short beside the rank's longest stretch. If all runs are
 * transients, it is the incident's own time. */
void incident_fault_time(const struct incident *i, const struct incident_judgement *j,
			 uint64_t *begin_unix_ns, uint64_t *end_unix_ns);
/* From the start of its first slow step to the end of its last one; of a hang, its windows' time. */
void incident_run_time(const struct run *r, uint64_t *begin_unix_ns, uint64_t *end_unix_ns);
/* The rank's stretches of slowness in that time; none: all were transients. The caller frees them. */
struct run *incident_fault_spells(const struct incident *i, const struct member *m,
				  uint32_t *count);
/* The rank's slow steps in that time. */
struct slow_steps incident_fault_steps(const struct incident *i, const struct member *m);
/* The rank was slow for a short time, and j->longest for much longer. */
bool incident_is_moment(const struct incident_judgement *j, const struct member *m);
/* A transient, as every host has now and then. */
bool incident_is_brief(const struct run *r);
/* A few slow steps, spikes or not. */
bool incident_is_short(const struct run *r);
/* Its runs are single slow steps, some of which count one by one, and nothing accuses a rank. */
bool incident_is_spikes(const struct incident *i);
/* A spike of that rank, whose function is known. */
void incident_spikes_note(struct incident *i, int32_t rank, const struct slow_step *s, bool waits);
/* The same function in the same span. */
bool incident_spikes_is_like(const struct slow_step *a, const struct slow_step *b);
void incident_spikes_merge(struct incident *to, const struct incident *from);
/* Those in another function or span than `shown` (may be NULL), longest first; owned. */
json_t *incident_spikes_json(const struct incident *i, const struct slow_step *shown);
/* How the member's spikes recur: their number, and the time between them in ns; 0: they are too few, or
 * come at no regular time. */
uint64_t incident_spikes(const struct incident *i, const struct member *m, double *period_ns);
/* Of requests: the longest slow step in which a process without steps worked, and did not wait; NULL: none
 * is known. */
const struct slow_step *incident_spikes_of_request(const struct incident *i);
/* It has a run that is not a transient. */
bool incident_is_lasting(const struct incident *i, const struct member *m);
json_t *incident_json_make(const struct incident_set *s, const struct incident *i,
			   uint32_t job_ranks);
/* Counts i among the incidents of its sender, node and job. sender 0: unknown. False: no memory. */
bool incident_share_join(struct incident_set *s, struct incident *i, uint64_t sender,
			 const char *node);
void incident_share_leave(struct incident_set *s, struct incident *i);
/* Counts the open, or the closed, incidents of every share. */
void incident_share_count(const struct incident_set *s, bool open);
/* Compares how many incidents the sender has, then the node, then the job, as last counted. Above
 * 0: a's has more; below 0: b's. */
int incident_share_compare(const struct incident *a, const struct incident *b);
/* Sums up the excerpt bytes of every share. */
void incident_share_weigh(const struct incident_set *s);
/* Steps that both runs have count once. */
void incident_run_merge(struct run *to, const struct run *from);
/* The first member with that rank; NULL: none. */
const struct member *incident_member(const struct incident *i, int32_t rank);
/* The rank, or a hash of the node if the rank has no number. */
uint64_t incident_member_key(int32_t rank, const char *node);

/* ---- incident_views.c: which excerpts a member keeps. They are counted once in the excerpt_bytes
 * of the incident and of the set, and the set bounds them. Without room the least important one is
 * dropped. ---- */

void incident_views_clear(struct incident_set *s, struct incident *i, struct member *m);
/* Offers the window to every place. A place takes it if it says more than what is there, which is
 * then dropped. While there is room, the order of calls doesn't matter. slow: how much it says of
 * the rank's slow steps. False: there was no room. */
bool incident_views_add(struct incident_set *s, struct incident *i, struct member *m,
			const struct digest *d, double slow);
/* Takes the excerpts that say more than those of `to`. The incident of `from` is about to be freed. */
void incident_views_merge(struct incident_set *s, struct incident *i, struct member *to,
			  const struct member *from);
/* Time lost that this kept window stands for, ns: its own, and a share of what dropped windows of
 * the same cause lost. */
double incident_views_stands_for(const struct excerpts *e, const struct view *v);

/* ---- incident_waits.c ---- */

/* A requested window of the member came: notes whom the ranks waited for. Only then, because a job
 * gets few of them, and they come after the windows about waiting. fresh may be NULL. */
void incident_waits_note(struct incident *i, const struct member *of, const struct excerpt *fresh);
/* Before the members are merged: the one that knows of more waiting decides. */
void incident_waits_merge(struct incident *to, struct incident *from);
/* The rank that waited little itself, and for which the others waited longest; NULL: none known. */
const struct member *incident_waits_for(const struct incident *i);
/* The others waited for it, or for j->waited, nearly all the time. */
bool incident_is_waited_for(const struct incident_judgement *j, const struct member *m);
/* The rank that lost most in windows in which it only waited; NULL: none. */
const struct member *incident_waits_most(const struct incident *i);

#define INCIDENT_REASON(m, r) ((m)->steps.reasons >> (r)&1)
