/* SPDX-License-Identifier: Apache-2.0
 * incident_private.h - what an incident is made of, for the files that add to it (incident.c),
 * judge it (incident_judge.c), diagnose it (verdict.c) and write it (incident_json.c). */
#ifndef SYSOM_AGGREGATOR_INCIDENT_INCIDENT_PRIVATE_H
#define SYSOM_AGGREGATOR_INCIDENT_INCIDENT_PRIVATE_H

#include "aggregator/incident/incident.h"
#include "analysis/cause/excerpt.h"
#include "base/limits.h"

/* A window of a rank's own and what it says by itself. */
#define INCIDENT_VIEWS_TELLING 3u
#define INCIDENT_VIEWS	       6u
struct view {
	struct excerpt *excerpt;  /* NULL: none */
	enum finding_cause cause; /* UNKNOWN: none, or not surely */
	double worth, lost_ns;
	uint64_t begin_unix_ns;
};

struct views {
	struct view view[INCIDENT_VIEWS]; /* the causes first, each one once */
	double lost_ns[CAUSE_COUNT]; /* of all windows that say so by themselves, kept or not */
};

struct member {
	int32_t rank;
	char node[WIRE_TEXT_BYTES];
	int32_t world_size;
	uint32_t reasons; /* bit per enum window_reason */
	/* flagged steps that its node had announced as transients when they began */
	uint64_t hinted;
	uint64_t windows, summaries, flagged, first_step, last_step, onset_step, collectives, lost;
	double self_excess_ns;
	/* of flagged_ns and of it, of steps like which it had none before: they may be the last */
	double first_ns, first_self_ns;
	char lost_cause[32];
	double weight; /* of the window that the medians below come from */
	double latency_ns, expected_ns, self_ns, expected_self_ns;
	struct os_signal *signals; /* DIGEST_SIGNALS_MAX or NULL; of all windows, the strongest */
	uint32_t signal_count;
	struct excerpt *slow,
	    *healthy;	    /* of the window that says most, and of its healthy steps; or NULL */
	double slow_weight; /* how much the excerpt `slow` says */
	struct excerpt *waiting; /* the same of windows in which it was not slow itself; or NULL */
	double waiting_weight;
	struct excerpt
	    *open; /* that shows most of the time in which its steps stand still; or NULL */
	struct views views;	/* of its own windows */
	double accused_ns;	/* lost by what findings and its node say; 0: neither names it */
	double peer_accused_ns; /* the part of it that its node says */
	uint64_t accused_begin_unix_ns,
	    accused_end_unix_ns;		     /* of the findings that name it; 0 none */
	uint64_t own_begin_unix_ns, own_end_unix_ns; /* of its own windows; 0 none */
	/* of those of them that tell of what it did itself, and of those of these that are no
	 * hiccups by themselves; 0 none */
	uint64_t itself_end_unix_ns, slow_end_unix_ns;
	double slow_ns;	  /* how long it was slow itself: its own windows' flagged steps */
	double stolen_ns; /* the same of what the hypervisor took, which is not in slow_ns */
	/* its flagged steps above what was expected of them, whoever slowed them */
	double flagged_ns;
};

struct anomaly {
	uint8_t id[16];
};

/* Slow steps of one rank without healthy ones between: windows that go on where another ends. (An
 * anomaly also holds what comes seconds later.) */
struct run {
	uint64_t member; /* member_key() */
	uint32_t reasons;
	uint64_t flagged, first_step, last_step, onset_step;
	uint64_t begin_unix_ns, end_unix_ns;
	double self_excess_ns, first_ns, first_self_ns; /* as a member's */
	uint64_t hinted;				/* as a member's */
	double flagged_ns;				/* as a member's */
	double slow_ns;					/* as a member's */
};

/* Who shares the room with others, from the outside in: who sent the window that founded an
 * incident, its node, its job. */
enum { SHARE_SENDER, SHARE_NODE, SHARE_JOB, SHARE_LEVELS };

struct share {
	struct share *next;
	uint64_t key;
	uint32_t incidents; /* that point here */
	uint32_t counted;   /* of those that are compared for room */
	uint64_t bytes;	    /* of their excerpts */
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
	uint64_t excerpt_bytes; /* of its members' excerpts, each counted once */
	/* where to look for one to let go of, and for which */
	uint32_t excerpt_member, excerpt_rank;
	/* windows whose excerpts were let go, or not taken, for want of room */
	uint64_t excerpts_dropped;
	uint64_t order; /* of creation */
	bool blameless; /* imbalance: no window and no other finding joins it */
};

struct incident_set {
	struct incident_config config;
	struct incident *first;
	uint32_t count;
	struct incident *evicted; /* none of `first`; see incident_change */
	struct share *shares;
	uint64_t orders, excerpt_bytes;
};

/* Who is to blame, and for what. */
struct incident_judgement {
	const char *symptom;
	enum finding_kind kind;
	/* that it is the job's is said by the number of culprits and by nothing else */
	bool by_count;
	uint32_t reason;      /* whose windows make ranks culprits; 0: no window does */
	double worst;	      /* blame by windows */
	double worst_slow_ns; /* how long that rank was slow */
	uint32_t culprits, suspects, ranks; /* ranks: of the job, as far as known */
	const struct member
	    *lead; /* the worst culprit, else the worst victim; NULL: nobody is known */
	const struct finding *finding; /* the one that says most; NULL none */
	/* The culprits wait for each other, since segments get lost: who sends most of them again.
	 * It alone is to blame then; NULL: nothing of the kind. */
	const struct member *lossy;
	const struct member *longest; /* slow for longest: beside it moments don't count; or NULL */
	/* Their own causes cost little of the incident, so they are not accused; set by
	 * verdict_make. */
	const struct member *minor[LIMIT_VERDICT_RANKS];
	uint32_t minor_count;
};

/* How long it was slow: by its own windows or by what findings say, whichever is more. */
double incident_slow_ns(const struct member *m);

void incident_judge(const struct incident *i, uint32_t job_ranks, struct incident_judgement *out);
bool incident_is_culprit(const struct incident *i, const struct incident_judgement *j,
			 const struct member *m);
/* It waited for others. */
bool incident_is_victim(const struct incident *i, const struct incident_judgement *j,
			const struct member *m);
/* When the fault was: from the culprits' runs (everybody's where there is no culprit) that are more
 * than hiccups and no moments far from the rank's longest spell; where all are hiccups, the
 * incident's own time. */
void incident_fault_time(const struct incident *i, const struct incident_judgement *j,
			 uint64_t *begin_unix_ns, uint64_t *end_unix_ns);
/* Its steps that were slow, by the same rule. */
struct run incident_fault_steps(const struct incident *i, const struct member *m);
/* Slow for a moment, beside a rank that was slow for long. */
bool incident_is_moment(const struct incident_judgement *j, const struct member *m);
/* What a host does now and then. */
bool incident_is_brief(const struct run *r);
/* Slow for longer than a moment. */
bool incident_is_lasting(const struct incident *i, const struct member *m);
json_t *incident_json_make(const struct incident_set *s, const struct incident *i,
			   uint32_t job_ranks);
/* i is on the account of who sent this; sender 0: not known. False: no memory. */
bool incident_share_join(struct incident_set *s, struct incident *i, uint64_t sender,
			 const char *node);
void incident_share_leave(struct incident_set *s, struct incident *i);
/* Counts the open, or the closed, incidents of every share. */
void incident_share_count(const struct incident_set *s, bool open);
/* Of two the one whose sender, node or job was counted more often: above 0 a, below 0 b; 0:
 * neither. */
int incident_share_compare(const struct incident *a, const struct incident *b);
/* Sums up the excerpts of every share. */
void incident_share_weigh(const struct incident_set *s);
void incident_run_merge(struct run *to, const struct run *from);
/* The first of that rank; NULL: none. */
const struct member *incident_member(const struct incident *i, int32_t rank);
uint64_t incident_member_key(int32_t rank, const char *node);

/* ---- incident_views.c: the few windows of a rank that its verdict is made from, whatever comes
 * later ---- A member's excerpts are counted once in the excerpt_bytes of its incident and of the
 * set, and bounded by the set's. Without room, what matters least goes. */

/* A excerpt held by *to, one of the member's, in place of what it held. false: there is no room,
 * and *to is as before. */
bool incident_views_hold(struct incident_set *s, struct incident *i, struct member *m,
			 struct excerpt **to, struct excerpt *p);
void incident_views_clear(struct incident_set *s, struct incident *i, struct member *m);
/* Whether p shows more of the time in which the rank's steps stand still; either may be NULL. */
bool incident_views_shows_more(const struct excerpt *p, const struct excerpt *than);
/* Whether the healthy steps of p are the better reference: from before the fault, then more of
 * them, with kernels and stacks, then the earlier ones. than may be NULL. */
bool incident_views_is_healthier(const struct excerpt *p, const struct excerpt *than);
/* How much a excerpt can say: time lost, more with kernels and with stacks. */
double incident_views_worth(const struct excerpt *p, double lost_ns);
/* An own window of the rank; kept if it says more than another, which then goes. The order of the
 * calls does not matter while there is room. false: there was none. */
bool incident_views_add(struct incident_set *s, struct incident *i, struct member *m,
			const struct digest *d);
/* Those excerpts of `from`, a member of an incident that is about to be freed, that say more than
 * its own. */
void incident_views_merge(struct incident_set *s, struct incident *i, struct member *to,
			  const struct member *from);
/* Time lost that this kept window stands for, ns: its own, and its part of what windows lost that
 * said the same and are not kept. */
double incident_views_stands_for(const struct views *views, const struct view *v);

#define INCIDENT_REASON(m, r) ((m)->reasons >> (r)&1)

#endif
