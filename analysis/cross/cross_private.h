/* SPDX-License-Identifier: Apache-2.0
 * cross_private.h - what the files of cross share: slots (ranks), instances (sampled collectives),
 * role parts (ranks of one role, with rows of steps), and findings that have not ended. */
#pragma once

#include "analysis/cross/clocks.h"
#include "analysis/cross/cross.h"
#include "analysis/slow/skew.h"
#include "base/limits.h"

#define CROSS_NONE     UINT32_MAX
#define CROSS_TIMES    128u
#define CROSS_ROW_NONE UINT64_MAX
/* Less than LIMIT_CROSS_ROWS: a flag changes the skew of rows that must still exist. */
#define CROSS_SKEW_ROWS 64u
/* Larger numbers in a beat are impossible: 2^48 steps of 1 ms last 9,000 years, 2^62 ns last
 * 146. */
#define CROSS_STEP_MAX	  (1ull << 48)
#define CROSS_TIME_MAX	  (1ull << 62)
#define CROSS_LATENCY_MAX 3.6e12

/* A collective that an unplaced rank reported before any placed rank did. */
struct cross_unmatched {
	uint64_t comm, step; /* in the rank's own numbering */
	uint32_t func, seq;
};

struct cross_slot {
	bool used;
	bool placed; /* offset is known */
	bool strong; /* the offset comes from collectives, not from time */
	bool begun;  /* it has sent groups */
	int32_t rank;
	uint32_t node, role, role_part, member;
	uint64_t seen_ns, unplaced_ns, next_own, last_end_ns;
	int64_t offset, other; /* job's step = own step + offset */
	uint32_t agree, disagree;
	uint32_t findings; /* open findings that name it */
	uint32_t steps;	   /* per group, in its latest one */
	double latency_ns;
	struct cross_unmatched
	    *unmatched; /* [LIMIT_CROSS_UNMATCHED]; NULL: none. A placed rank has none. */
	uint32_t unmatched_count;
};

struct cross_entry {
	uint32_t slot;
	float enter_ns, end_ns; /* since base_unix_ns; NAN: not seen */
};

struct cross_instance {
	uint64_t key; /* 0: free */
	uint64_t born_ns;
	uint64_t draw; /* selects which part of the ranks this collective samples */
	int64_t step, base_unix_ns;
	struct cross_entry *entries;
	uint32_t count, room, expected;
	uint32_t seen;	/* ranks that reported it, sampled or not */
	uint32_t parts; /* it samples one of this many parts of its ranks; 1: all */
	bool settled, weak;
};

struct cross_member {
	uint32_t slot;	 /* CROSS_NONE: gone */
	uint32_t steps;	 /* per group, in its latest one */
	uint64_t passed; /* the rank will send nothing more for rows below this one */
	/* Its node's CLOCK_REALTIME minus this machine's clock, when its latest group arrived. */
	int64_t clock_ns;
	float latency_ns;
	/* recent: means over the rows of the latest tick that had rows; sum: the sums from which
	 * they are computed */
	struct cross_recent recent, sum;
	uint32_t recent_rows;
	bool astray; /* its latest groups lie outside the stored rows */
	/* its self time is flagged now, even if the finding blames nobody */
	bool heavy;
	uint64_t high_from, high_end; /* rows [high_from, high_end) of its latest flagged stretch */
};

struct cross_row {
	uint64_t index, born_ns;
	int64_t end_unix_ns;
	bool live;
};

struct cross_role_part {
	bool used, uneven; /* uneven: each rank is compared with its own past only */
	uint32_t role, part, count;
	struct cross_member *members;
	/* steps: steps per row. steps_votes: for this many ticks most ranks have sent groups of
	 * steps_next steps instead. */
	uint32_t steps, steps_next, steps_votes;
	bool started;
	uint64_t next;	  /* the lowest row that was not pushed yet */
	int64_t clock_ns; /* of the median rank; 0: not known yet */
	uint64_t lone_ns; /* since when rows have only one rank; 0: they have several */
	struct cross_row rows[LIMIT_CROSS_ROWS];
	/* [row][member]: means over `cover` steps, but late_ns is the sum of late_n values. blocks
	 * 0: not known. */
	float *self_ns, *latency_ns, *blocks, *late_ns;
	uint16_t *cover;
	uint8_t *late_n;
	double step_ns, self_typical_ns;
	double self_recent_ns; /* the median of its ranks' recent self time */
	struct {
		uint64_t step;
		int64_t end_unix_ns;
	} times[CROSS_TIMES];
	uint32_t time_count;
	void *memory;
	struct peers *peers;
	double *values[PEERS_MEASURES];
	double *row; /* [3 * count], scratch of cross_skew.c */
	/* For the latest pushed rows; skew: of the times; input: of the ranks' work. */
	struct skew_step skew[CROSS_SKEW_ROWS], input[CROSS_SKEW_ROWS];
	uint64_t skew_row[CROSS_SKEW_ROWS];
	/* skew_count: rows since the comparison started; skew_folded: flags that the skew
	 * explained */
	uint32_t skew_count, skew_folded;
	size_t bytes;
};

/* A role whose ranks have unequal work from step to step. */
struct cross_imbalance {
	bool open, changed, ended;
	uint32_t role, folded;
	/* even_ns: since when the imbalance has not been seen */
	uint64_t first_step, last_step, reported_ns, even_ns;
	int64_t begin_unix_ns, end_unix_ns;
	struct skew skew;
	double effect_ns;
};

struct cross_culprit {
	uint32_t slot, measures; /* one bit per measure that is flagged now */
	int32_t rank;
	uint32_t window;
	uint64_t last_step; /* of its own excess, as reported */
	double excess, excess_ns, late_excess_ns, score;
	/* since when no comparison can report the end of its flag; 0: one can */
	uint64_t orphan_ns;
	bool done;
};

struct cross_finding {
	bool used, changed, ended;
	uint32_t role;
	uint64_t first_step, last_step, reported_ns;
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
	uint32_t slot_count; /* slots in use */
	char (*roles)[WIRE_TEXT_BYTES];
	uint32_t role_count;
	struct cross_instance *instances;
	uint32_t instance_room;
	struct cross_role_part *role_parts;
	uint32_t role_part_count;
	uint32_t expected; /* ranks of the job; 0: not known */
	bool dirty;
	uint64_t dirty_ns, dirty_last_ns;
	bool referenced;		 /* at least one rank is placed */
	int64_t time_step, time_unix_ns; /* the latest known step of the job, and when it ended */
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
void cross_colls_push(struct cross *c, uint32_t slot, const struct beat_rank *b, int64_t offset_ns,
		      uint64_t now_ns);
void cross_colls_tick(struct cross *c, uint64_t now_ns);
int cross_colls_resize(struct cross *c, uint32_t ranks);
void cross_colls_free(struct cross *c);
/* cross_rows.c */
void cross_rows_regroup(struct cross *c, uint64_t now_ns);
void cross_rows_put(struct cross *c, struct cross_slot *s, const struct beat_group *g,
		    int64_t end_unix_ns, uint64_t now_ns);
void cross_rows_late(struct cross *c, const struct cross_slot *s, int64_t step, double late_ns);
/* Every row below the returned one is complete: all living ranks have passed it, or it has waited
 * too long. Collectives of these rows may be settled. */
uint64_t cross_rows_limit(const struct cross *c, const struct cross_role_part *rp, uint64_t now_ns);
void cross_rows_tick(struct cross *c, uint64_t now_ns);
void cross_rows_free(struct cross_role_part *rp);
size_t cross_rows_cell(const struct cross_role_part *rp, uint64_t index, uint32_t member);
/* cross_skew.c */
/* Call after each row that was pushed to peers. */
void cross_skew_push(struct cross_role_part *rp, uint64_t index);
/* Call when the comparison restarts. */
void cross_skew_reset(struct cross_role_part *rp);
/* Whether the role's unequal work explains the flag, so that it blames nobody. */
bool cross_skew_explains(struct cross_role_part *rp, const struct peers_flag *f);
void cross_skew_tick(struct cross *c, struct cross_role_part *rp, uint64_t now_ns);
/* Ends the imbalance of roles that have no ranks left to compare. */
void cross_skew_orphans(struct cross *c, uint64_t now_ns);
bool cross_skew_next(struct cross *c, struct finding_report *out);
/* cross_findings.c */
/* When a step of the job's numbering ended, by the rows that were pushed. */
int64_t cross_findings_time(const struct cross_role_part *rp, uint64_t step);
/* Fills *out with the job and the period, and no finding yet. Times before the epoch become 0. */
void cross_findings_frame(const struct cross *c, int64_t begin_unix_ns, int64_t end_unix_ns,
			  bool ended, struct finding_report *out);
void cross_findings_flag(struct cross *c, struct cross_role_part *rp, const struct peers_flag *f);
void cross_findings_orphan(struct cross *c, uint32_t slot, uint64_t now_ns);
void cross_findings_tick(struct cross *c, uint64_t now_ns);
