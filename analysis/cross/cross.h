/* SPDX-License-Identifier: Apache-2.0
 * cross.h - compares the ranks of one live job step by step. The input is the step groups and
 * sampled collectives of the ranks' beats, the output is findings about slow ranks.
 *
 * Every rank numbers its own steps. A sampled collective is the same event on all its ranks, so two
 * ranks that report it show the difference between their numberings. Ranks that share no collective
 * are linked through other ranks; ranks without any link are placed by time. Groups then fall into
 * rows of the job's common numbering, with one column per rank of a role. A row is complete once
 * every living rank has passed it, or after CROSS_ROW_WAIT_NS. Entry lateness is the time of a
 * rank's entry into a sampled collective minus the median of the role's ranks, on clocks
 * aligned by the ends (clocks.h). Complete rows go to analysis/slow/peers; its flags become
 * findings. A finding is reported once it is significant, every CROSS_REFRESH_NS while it lasts,
 * and when it ends.
 *
 * Ranks of different roles are never compared. Owns its state, bounded by the ranks that were set
 * and by LIMIT_CROSS_*. Pure but for memory: time is an argument. Threads: one caller. Trust:
 * numbers in beats may be anything; those out of bounds are dropped and counted. */
#pragma once

#include "analysis/slow/peers.h"
#include "model/finding.h"
#include "model/window.h"

#define CROSS_ROW_WAIT_NS 7500000000ull /* one and a half beat periods */
/* without a beat for this long, a rank no longer holds up rows */
#define CROSS_ALIVE_NS	 12000000000ull
#define CROSS_SETTLE_NS	 6000000000ull /* how long to wait for more ranks of a starting job */
#define CROSS_REFRESH_NS 10000000000ull

struct cross;
struct cross_role_part;

struct cross_stats {
	uint64_t rows, groups; /* rows compared; groups accepted from beats */
	uint64_t stale;	       /* groups that came twice, or too late for their row */
	uint64_t ahead;	       /* groups too far ahead of the other ranks' groups */
	uint64_t bad;	       /* groups or collectives with impossible numbers */
	uint64_t unplaced;     /* groups of ranks whose numbering is not known yet */
	uint64_t no_room;      /* collectives dropped because a table was full */
	uint64_t thinned; /* collectives of ranks that were not sampled in a large communicator */
	uint64_t renumbered; /* ranks whose numbering was corrected */
	uint64_t findings;   /* findings about ranks that were opened */
	uint64_t imbalances; /* findings about roles that were opened */
	uint64_t bytes;	     /* memory in use */
};

/* 0, -ENOMEM. */
int cross_open(struct cross **out, const char *job, const struct peers_config *c);
void cross_close(struct cross *c); /* NULL is a no-op */

/* slot: the caller's dense number of a rank, below LIMIT_FLEET_RANKS; node: dense number of its
 * node. role "": the rank is compared with nobody. Call again when one of them changes. 0, -EINVAL
 * (no such slot), -ENOMEM. */
int cross_set(struct cross *c, uint32_t slot, int32_t rank, uint32_t node, const char *role,
	      uint64_t now_ns);
/* The job's ranks do different work: from now on report only changes, and drop open findings. */
void cross_uneven(struct cross *c, uint64_t now_ns);
/* The rank has restarted: its numbering begins again. */
void cross_restart(struct cross *c, uint32_t slot);
void cross_drop(struct cross *c, uint32_t slot, uint64_t now_ns);
/* The node is gone and its ranks were dropped: the number will be reused. */
void cross_forget_node(struct cross *c, uint32_t node);
/* A rank's part of a beat. offset_ns: the node's CLOCK_REALTIME minus its CLOCK_MONOTONIC. */
void cross_push(struct cross *c, uint32_t slot, const struct beat_rank *b, int64_t offset_ns,
		uint64_t now_ns);
/* The number of ranks in the job; 0: not known. Once this many ranks have a role, cross does not
 * wait for more. */
void cross_expect(struct cross *c, uint32_t ranks);
/* Call about once a second: settles collectives and compares complete rows. */
void cross_tick(struct cross *c, uint64_t now_ns);
/* The next report of the last tick; false: no more. */
bool cross_next(struct cross *c, struct finding_report *out);
void cross_stats(const struct cross *c, struct cross_stats *out);

/* Whether an open finding names the rank. */
bool cross_is_suspect(const struct cross *c, uint32_t slot);
struct cross_recent {
	double self_ns, latency_ns;
};
/* The rank's mean times in the latest rows, and the median self time of the ranks that it is
 * compared with. 0: not known. A beat's medians over its last 128 steps would be too late: they
 * show a fault only when half of these steps are slow. */
struct cross_recent cross_recent(const struct cross *c, uint32_t slot, double *typical_self_ns);
/* By how much its recent self time exceeds that of the ranks that it is compared with, relative; NAN:
 * not known, or they do different work. */
double cross_beyond_peers(const struct cross *c, uint32_t slot);
uint32_t cross_suspects(const struct cross *c);
/* Other ranks of the same role that no finding names, nearest rank numbers first. Returns how
 * many were written. */
uint32_t cross_healthy_peers(const struct cross *c, uint32_t slot, uint32_t *slots, uint32_t max);
/* A rank's own step in the job's common numbering; -1: not known. */
int64_t cross_step(const struct cross *c, uint32_t slot, uint64_t own_step);
/* The ranks of one role that are compared with each other: the whole role, or one part of a large
 * role. Borrowed until the next call that changes c. */
struct cross_role {
	const char *role;
	uint32_t part, steps_per_row, count; /* count: ranks */
	/* step_ns: typical latency of a step; self_ns: typical self time */
	double step_ns, self_ns;
	uint64_t last_step;
	const struct cross_role_part *role_part;
};
/* The index-th; false: no more. */
bool cross_role(const struct cross *c, uint32_t index, struct cross_role *out);
/* False: the rank is gone. */
bool cross_role_member(const struct cross *c, const struct cross_role *role, uint32_t index,
		       int32_t *rank, bool *suspect);
/* The state of a node's clock against the job's; false: not known. */
bool cross_clock_state(const struct cross *c, uint32_t node, int64_t at_unix_ns, double *offset_ns,
		       double *drift, double *error_ns);
