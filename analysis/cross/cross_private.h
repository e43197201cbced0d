/* SPDX-License-Identifier: Apache-2.0
 * cross_private.h - what the parts of cross share: slots (ranks), instances (sampled collectives),
 * cohorts (members of one role, rows of steps), findings that have not ended. */
#ifndef SYSOM_ANALYSIS_CROSS_CROSS_PRIVATE_H
#define SYSOM_ANALYSIS_CROSS_CROSS_PRIVATE_H

#include "analysis/cross/clocks.h"
#include "analysis/cross/cross.h"
#include "analysis/slow/skew.h"
#include "base/limits.h"

#define CROSS_NONE     UINT32_MAX
#define CROSS_TIMES    128u
#define CROSS_ROW_NONE UINT64_MAX
#define CROSS_SKEW_ROWS                                                                            \
	64u /* below the rows of a cohort's ring: flags change those that are in it */
/* Beyond these a number of a beat is nonsense: 2^48 steps are 9,000 years of a millisecond, 2^62 ns
 * 146. */
#define CROSS_STEP_MAX	  (1ull << 48)
#define CROSS_TIME_MAX	  (1ull << 62)
#define CROSS_LATENCY_MAX 3.6e12

/* A collective that an unplaced rank told before any rank whose numbering is known did. */
struct cross_unmatched {
	uint64_t comm, step; /* the rank's own numbering */
	uint32_t func, seq;
};

struct cross_slot {
	bool used;
	bool placed; /* offset is known */
	bool strong; /* by collectives, not by time */
	bool begun;  /* it has sent groups */
	int32_t rank;
	uint32_t node, role, role_part, member;
	uint64_t seen_ns, unplaced_ns, next_own, last_end_ns;
	int64_t offset, other; /* job's step = own step + offset */
	uint32_t agree, disagree;
	uint32_t findings; /* open ones that name it */
	uint32_t steps;	   /* of its latest group */
	double latency_ns;
	struct cross_unmatched
	    *unmatched; /* LIMIT_CROSS_UNMATCHED; NULL: none, as of every placed rank */
	uint32_t unmatched_count;
};

struct cross_entry {
	uint32_t slot;
	float enter_ns, end_ns; /* after the instance's base; NAN not seen */
};

struct cross_instance {
	uint64_t key; /* 0: free */
	uint64_t comm, born_ns;
	uint64_t draw; /* which part of the ranks it takes */
	int64_t step, base_unix_ns;
	struct cross_entry *entries;
	uint32_t count, room, expected;
	uint32_t seen;	/* ranks that reported it, taken or not */
	uint32_t parts; /* of the ranks, it takes one part in so many; 1: all */
	bool settled, weak;
};

struct cross_member {
	uint32_t slot;	 /* CROSS_NONE: gone */
	uint32_t steps;	 /* per group, latest */
	uint64_t passed; /* rows below are complete as far as it goes */
	/* its node's realtime less this machine's clock, when its latest group came */
	int64_t clock_ns;
	float latency_ns;
	bool astray;		      /* its latest groups lie outside of the rows */
	bool heavy;		      /* its own time is flagged now, whoever is told */
	uint64_t high_from, high_end; /* rows of its latest stretch that was told */
};

struct cross_row {
	uint64_t index, born_ns;
	int64_t end_unix_ns;
	bool live;
};

struct cross_role_part {
	bool used, uneven; /* uneven: its members are compared with their own past only */
	uint32_t role, part, count;
	struct cross_member *members;
	/* per row; what most members send instead, since */
	uint32_t steps, steps_next, steps_votes;
	bool started;
	uint64_t next;	  /* row */
	int64_t clock_ns; /* of most members; 0: not known yet */
	uint64_t lone_ns; /* since when rows have one member only; 0: they have more */
	struct cross_row rows[LIMIT_CROSS_ROWS];
	/* [row][member]: means over cover steps; sum over late_n. blocks 0: not known */
	float *self_ns, *blocks, *late_ns;
	uint16_t *cover;
	uint8_t *late_n;
	double step_ns, self_typical_ns;
	struct {
		uint64_t step;
		int64_t end_unix_ns;
	} times[CROSS_TIMES];
	uint32_t time_count;
	void *memory;
	struct peers *peers;
	double *values[PEERS_MEASURES];
	double *row; /* [3 * count], of cross_skew.c */
	/* Of the rows handed on last, by row: by the times, and by what there was to do. */
	struct skew_step skew[CROSS_SKEW_ROWS], input[CROSS_SKEW_ROWS];
	uint64_t skew_row[CROSS_SKEW_ROWS];
	/* pushed since the columns were made; flags that it explains */
	uint32_t skew_count, skew_folded;
	size_t bytes;
};

/* Of a role: its members' work differs from step to step. */
struct cross_imbalance {
	bool open, changed, ended;
	uint32_t role, members, folded;
	uint64_t first_step, last_step, told_ns, even_ns; /* even: since when it is not seen */
	int64_t begin_unix_ns, end_unix_ns;
	struct skew skew;
	double effect_ns;
};

struct cross_culprit {
	uint32_t slot, measures; /* bits of those flagged now */
	int32_t rank;
	uint32_t window;
	uint64_t first_step, last_step; /* its own excess, as told */
	double excess, excess_ns, late_excess_ns, score;
	uint64_t orphan_ns; /* since when nobody would tell its end; 0: somebody does */
	bool done;
};

struct cross_finding {
	bool used, changed, ended;
	uint32_t role;
	uint64_t first_step, last_step, opened_ns, told_ns;
	int64_t begin_unix_ns, end_unix_ns;
	struct cross_culprit *culprits;
	uint32_t count, peers;
	size_t room;
};

struct cross {
	char job[WIRE_TEXT_BYTES];
	struct peers_config config;
	struct cross_slot *slots;
	size_t slot_room;
	uint32_t slot_count; /* used ones */
	char (*roles)[WIRE_TEXT_BYTES];
	uint32_t role_count;
	struct cross_instance *instances;
	uint32_t instance_room;
	struct cross_role_part *role_parts;
	uint32_t role_part_count;
	uint32_t expected; /* ranks of the job; 0: not known */
	bool dirty;
	uint64_t dirty_ns, dirty_last_ns;
	bool referenced;		 /* somebody is placed */
	int64_t time_step, time_unix_ns; /* a step of the job's and when it ended */
	double time_latency_ns;
	uint64_t time_seen_ns;
	struct clocks *clocks;
	struct cross_finding findings[LIMIT_CROSS_FINDINGS];
	struct cross_imbalance *imbalances; /* [LIMIT_CROSS_ROLES] */
	struct cross_stats stats;
};

/* cross.c */
bool cross_alive(const struct cross_slot *s, uint64_t now_ns);
/* cross_colls.c */
bool cross_colls_is_sane(const struct beat_coll *k);
struct cross_instance *cross_colls_find(struct cross *c, uint64_t comm, uint32_t func,
					uint32_t seq);
void cross_colls_take(struct cross *c, uint32_t slot, const struct beat_rank *b, int64_t offset_ns,
		      uint64_t now_ns);
void cross_colls_tick(struct cross *c, uint64_t now_ns);
int cross_colls_resize(struct cross *c, uint32_t ranks);
void cross_colls_free(struct cross *c);
/* cross_rows.c */
void cross_rows_regroup(struct cross *c, uint64_t now_ns);
void cross_rows_put(struct cross *c, struct cross_slot *s, const struct beat_group *g,
		    int64_t end_unix_ns, uint64_t now_ns);
void cross_rows_late(struct cross *c, const struct cross_slot *s, int64_t step, double late_ns);
/* Rows that are complete but for late members; what is below may be settled. */
uint64_t cross_rows_limit(const struct cross *c, const struct cross_role_part *rp, uint64_t now_ns);
void cross_rows_tick(struct cross *c, uint64_t now_ns);
void cross_rows_free(struct cross_role_part *rp);
size_t cross_rows_cell(const struct cross_role_part *rp, uint64_t index, uint32_t member);
/* cross_skew.c */
/* A row was handed on. */
void cross_skew_push(struct cross_role_part *rp, uint64_t index);
/* The columns or rows begin anew. */
void cross_skew_reset(struct cross_role_part *rp);
/* Whether the flag is a part of what the role's work differs by, and accuses nobody. */
bool cross_skew_takes(struct cross_role_part *rp, const struct peers_flag *f);
void cross_skew_tick(struct cross *c, struct cross_role_part *rp, uint64_t now_ns);
/* Roles that nobody has any more, or one rank alone, are told of as even. */
void cross_skew_orphans(struct cross *c, uint64_t now_ns);
bool cross_skew_next(struct cross *c, struct finding_report *out);
/* cross_findings.c */
/* When a step of the job's numbering ended, by the rows that were handed on. */
int64_t cross_findings_time(const struct cross_role_part *rp, uint64_t step);
/* *out with the job and the stretch, and nothing found yet; times before the epoch are 0. */
void cross_findings_frame(const struct cross *c, int64_t begin_unix_ns, int64_t end_unix_ns,
			  bool ended, struct finding_report *out);
void cross_findings_flag(struct cross *c, struct cross_role_part *rp, const struct peers_flag *f,
			 uint64_t now_ns);
void cross_findings_orphan(struct cross *c, uint32_t slot, uint64_t now_ns);
void cross_findings_tick(struct cross *c, uint64_t now_ns);

#endif
