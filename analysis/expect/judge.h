/* SPDX-License-Identifier: Apache-2.0
 * judge.h - one rank's steps against what they should have taken, one after the other. A step is judged
 * twice: by its latency (is it slow?) and by its self time (is this rank the one that makes it slow?).
 * A step of a kind that the job has on purpose now and then is judged against its kind (kinds.h).
 * sysomd runs it live, `sysom replay window` over what a live run recorded: the same input gives the same
 * verdicts, bit for bit (INV-7).
 *
 * Pure: no I/O, clock, threads or globals; memory is the caller's. Threads: one caller. */
#ifndef SYSOM_ANALYSIS_EXPECT_JUDGE_H
#define SYSOM_ANALYSIS_EXPECT_JUDGE_H

#include "analysis/expect/roofline.h"
#include "analysis/steps/kinds.h"
#include "analysis/steps/steps.h"

#define JUDGE_MODELS 16u  /* phases and graph buckets of one rank that are told apart */
#define JUDGE_HOLD   64u  /* healthy steps after which an anomaly's thresholds are let go */
#define JUDGE_PERIOD 128u /* steps whose median self time a drift must show in */

struct judge_config {
	struct roofline_config roofline;
	struct kinds_config kinds;
	double instant_ratio;	 /* a step alone, its neighbours being as expected, needs this excess */
	uint64_t step_min_ns;	 /* a pattern this short is none of a job's steps: not judged */
	double host_stall_share; /* of a step under which the host's stalls are ignored */
};
void judge_config_default(struct judge_config *c);

/* Why a step says nothing about the rank. */
enum judge_skip {
	JUDGE_USED = 0,
	JUDGE_BRIEF = 1,
	JUDGE_GAP = 2,	      /* tracing was off in it, or an outer edge */
	JUDGE_INCOMPLETE = 3, /* a kernel in twenty is missing */
	JUDGE_HOST_STALL = 4,
};
/* "used", "brief", ... Static text. */
const char *judge_skip_name(unsigned skip);

struct judge_verdict {
	uint32_t skip;	/* enum judge_skip; unless JUDGE_USED all below is zero */
	uint32_t state; /* enum roofline_state of the latency model */
	double expected_ns, expected_self_ns; /* 0: not known */
	double excess, self_excess;
	bool self_known; /* its self time says something */
	bool out;	 /* beyond a threshold, of latency or self time */
	bool flagged;	 /* and persistent or far enough out */
	bool self;	 /* flagged for the rank's own time */
	bool of_kind;	 /* longer as its kind is; flagged where it is longer than that */
	bool first;	 /* of no kind, and out as no step before it was */
	bool drift;	 /* a sustained change against the frozen baseline shows with this step */
};

/* A healthy step as the models saw it. Also a file format (sidecar/baseline.c). */
struct judge_sample {
	uint64_t key; /* of the model */
	double latency_ns, self_ns;
	double work[STEP_WORK_MAX];
	uint32_t work_count;
	uint32_t known; /* 1: self_ns says something */
};

struct judge; /* opaque; lives in the caller's memory */
size_t judge_memory_bytes(const struct judge_config *c);
/* memory: 64-byte aligned, judge_memory_bytes(c) long, borrowed until the caller drops it. */
struct judge *judge_init(void *memory, const struct judge_config *c);
/* The next step. stalled_ns: of it, in which the whole host stood still. */
struct judge_verdict judge_push(struct judge *j, const struct step *s, uint64_t stalled_ns);
/* Learns a step that an earlier judge of the same rank found healthy; before the first step. What kinds of
 * steps there were it does not know, and it learns none by place. */
void judge_restore(struct judge *j, const struct judge_sample *s);
/* After the last of them: fits what they are, as the next fit of each model may be many steps away. The
 * next step does it where nobody has. */
void judge_settle(struct judge *j);
/* The latency model of the latest judged step's kind. */
void judge_model(const struct judge *j, struct roofline_summary *out);
uint32_t judge_model_count(const struct judge *j);
/* The kinds of steps of which a person is told, dearest first. Their count. */
uint32_t judge_kinds(const struct judge *j, struct kinds_row *out, uint32_t max);
/* Of the latency and the self time models together, those that judge by now. */
uint32_t judge_armed_count(const struct judge *j);

#endif
