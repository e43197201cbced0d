/* SPDX-License-Identifier: Apache-2.0
 * cross.h - one job's ranks compared step by step, live: from the step groups and sampled
 * collectives of their beats to findings about slow ranks.
 *
 * Every rank numbers its own steps. A sampled collective is the same event on all its ranks, so two
 * ranks that report it tell how far their numberings stand apart; ranks that share none are chained
 * through others, and what is never linked is placed by time. Groups then fall into rows of the
 * job's common numbering, one column per member of a role; a row is complete once every living
 * member has passed it, or after CROSS_ROW_WAIT_NS. Entry lateness: a member's entry into a sampled
 * collective less the median of the role's members in it, on clocks aligned by the ends (clocks.h).
 * Complete rows go to analysis/slow/peers; its flags become findings. A finding is told when it is first
 * sure, while it lasts every CROSS_REFRESH_NS, and when it ends.
 *
 * Ranks of different roles are never compared. Owns its state, bounded by the ranks that were set
 * and LIMIT_CROSS_*. Pure but for memory: time is an argument. Threads: one caller. Trust: numbers
 * of beats may be anything; what is out of bounds is dropped and counted. */
#ifndef SYSOM_ANALYSIS_CROSS_CROSS_H
#define SYSOM_ANALYSIS_CROSS_CROSS_H

#include "analysis/slow/peers.h"
#include "model/finding.h"
#include "model/window.h"

#define CROSS_ROW_WAIT_NS 7500000000ull	 /* a beat's period and half of one */
#define CROSS_ALIVE_NS	  12000000000ull /* a member is not waited for after so long without a beat \
					  */
#define CROSS_SETTLE_NS	 6000000000ull	 /* ranks of a starting job are gathered for so long */
#define CROSS_REFRESH_NS 10000000000ull

struct cross;
struct cross_cohort;

struct cross_stats {
	uint64_t rows, groups; /* pushed to the comparison; taken from beats */
	uint64_t stale;	       /* groups of rows that had gone already, or repeated */
	uint64_t ahead;	       /* groups far ahead of the others' */
	uint64_t bad;	       /* groups or collectives with impossible numbers */
	uint64_t unplaced;     /* groups of ranks whose numbering is not known yet */
	uint64_t no_room;      /* collectives that found no room */
	uint64_t thinned;      /* collectives of ranks that others of their communicator stand for */
	uint64_t renumbered;   /* ranks whose numbering was found to have moved */
	uint64_t findings;     /* opened, about ranks */
	uint64_t imbalances;   /* opened, about roles */
	uint64_t bytes;	       /* of memory, now */
};

/* 0, -ENOMEM. */
int cross_open(struct cross **out, const char *job, const struct peers_config *c);
void cross_close(struct cross *c); /* NULL is a no-op */

/* slot: the caller's dense number of a rank, below LIMIT_FLEET_RANKS; node: dense number of its
 * node. role "": compared with nobody. Called again when one of them changes. -ENOMEM. */
int cross_set(struct cross *c, uint32_t slot, int32_t rank, uint32_t node, const char *role,
	      uint64_t now_ns);
/* Ranks of the job do different work: from now on only changes are told, what is open is let go. */
void cross_uneven(struct cross *c, uint64_t now_ns);
/* The rank started anew: its numbering begins again. */
void cross_restart(struct cross *c, uint32_t slot);
void cross_drop(struct cross *c, uint32_t slot, uint64_t now_ns);
/* The node is gone, and its ranks were dropped: the number will be another's. */
void cross_forget_node(struct cross *c, uint32_t node);
/* What a beat says. offset_ns: of the node's realtime to its monotonic clock. */
void cross_push(struct cross *c, uint32_t slot, const struct beat_rank *b, int64_t offset_ns,
		uint64_t now_ns);
/* So many ranks make up the job: when all have a role, no more are waited for. 0: not known. */
void cross_expect(struct cross *c, uint32_t ranks);
/* Once a second or so: settles, compares. */
void cross_tick(struct cross *c, uint64_t now_ns);
/* What the last tick made known; false: nothing more. */
bool cross_next(struct cross *c, struct finding_report *out);
void cross_stats(const struct cross *c, struct cross_stats *out);

/* Whether the rank stands in a finding that has not ended. */
bool cross_is_suspect(const struct cross *c, uint32_t slot);
/* The median self time of those that this rank is compared with; 0: not known. */
double cross_role_self_ns(const struct cross *c, uint32_t slot);
uint32_t cross_suspects(const struct cross *c);
/* Members of the same role, itself left out, those that no finding names; nearest rank numbers
 * first. The number written. */
uint32_t cross_healthy_peers(const struct cross *c, uint32_t slot, uint32_t *slots, uint32_t max);
/* The job's common number of a rank's own step; -1: not known. */
int64_t cross_step(const struct cross *c, uint32_t slot, uint64_t own_step);
/* The ranks of one role that are compared with each other; borrowed until the next call that changes c. */
struct cross_role {
	const char *role;
	uint32_t part, steps_per_row, count; /* count: of members */
	double step_ns, self_ns;
	uint64_t last_step;
	const struct cross_cohort *cohort;
};
/* The index-th; false: no more. */
bool cross_role(const struct cross *c, uint32_t index, struct cross_role *out);
/* False: the place is empty. */
bool cross_role_member(const struct cross *c, const struct cross_role *role, uint32_t index, int32_t *rank,
		       bool *suspect);
/* Clock of a node against the job's: false where it is not known. */
bool cross_clock_state(const struct cross *c, uint32_t node, int64_t at_unix_ns, double *offset_ns,
		       double *drift, double *error_ns);

#endif
