/* SPDX-License-Identifier: Apache-2.0
 * judge.h - judges the steps of one rank, one after the other, against their expected latency. Each
 * step is judged twice: by its latency (is it slow?) and by its self time (does this rank make it
 * slow?). A step of a kind is judged against its kind (kinds.h). sysomd runs it live, and `sysom
 * replay window` on the recording of a live run: the same input gives the same verdicts, bit for
 * bit.
 *
 * Pure: no I/O, clock, threads or globals; memory is the caller's. Threads: one caller. */
#pragma once

#include "analysis/expect/growth.h"
#include "analysis/expect/roofline.h"
#include "analysis/steps/kinds.h"
#include "analysis/steps/steps.h"

#define JUDGE_MODELS 16u  /* phases and graph buckets of one rank with a model each */
#define JUDGE_HOLD   64u  /* an anomaly's thresholds stay in force for this many healthy steps */
#define JUDGE_PERIOD 128u /* a drift must show in the median self time of this many steps */

struct judge_config {
	struct roofline_config roofline;
	struct kinds_config kinds;
	/* a single slow step among normal ones is flagged only above this excess */
	double instant_ratio;
	uint64_t step_min_ns; /* shorter patterns are not steps of a job, and are not judged */
	/* a step is ignored if the whole machine stalled for a larger share of it */
	double host_stall_share;
};
void judge_config_default(struct judge_config *c);

/* Why a step was not judged. */
enum judge_skip {
	JUDGE_USED = 0,
	JUDGE_BRIEF = 1,
	/* tracing was off during a part of it, or it is at the edge of a recording */
	JUDGE_GAP = 2,
	JUDGE_INCOMPLETE = 3, /* more than one kernel in twenty is missing */
	JUDGE_HOST_STALL = 4,
};
/* "used", "brief", ... Static text. */
const char *judge_skip_name(unsigned skip);

struct judge_verdict {
	uint32_t skip;	/* enum judge_skip; unless it is JUDGE_USED, the rest is zero */
	uint32_t state; /* enum roofline_state of the latency model */
	double expected_ns, expected_self_ns; /* 0: not known */
	double excess, self_excess;
	bool self_known;       /* the self time is meaningful */
	bool out;	       /* beyond the threshold of latency or self time */
	bool flagged;	       /* out, and persistent or far enough out */
	bool self;	       /* flagged for its self time */
	bool of_kind;	       /* compared with its kind; out and flagged only if longer */
	bool first;	       /* belongs to no known kind, and is longer than any step before */
	bool drift;	       /* this step raised the drift alarm */
	uint32_t kind, period; /* of_kind: as in kinds_verdict */
	/* Flagged, and so much longer than its stated work explains that one such step counts. */
	bool spike;
};

/* A healthy step as the models saw it. Also a file format (sidecar/baseline.c). */
struct judge_sample {
	uint64_t key; /* key of the model */
	double latency_ns, self_ns;
	double work[STEP_WORK_MAX];
	uint32_t work_count;
	uint32_t known; /* 1: self_ns is meaningful */
};

struct judge; /* opaque; lives in the caller's memory */
size_t judge_memory_bytes(const struct judge_config *c);
/* memory: 64-byte aligned, judge_memory_bytes(c) long, borrowed until the caller drops it. */
struct judge *judge_init(void *memory, const struct judge_config *c);
/* Judges the next step. stalled_ns: how long the whole machine stood still during it. */
struct judge_verdict judge_push(struct judge *j, const struct step *s, uint64_t stalled_ns);
/* The growth of work that the latest step made certain; NULL: none. */
const struct growth_change *judge_growth(const struct judge *j);
/* Before the first step: learns a step that an earlier judge of the same rank found healthy. Kinds
 * of steps are not restored. */
void judge_restore(struct judge *j, const struct judge_sample *s);
/* Call after the last restored step: fits the models at once, since the next regular fit may be
 * many steps away. Without this call the next step does it. */
void judge_settle(struct judge *j);
/* The latency model of the latest judged step's kind. */
void judge_model(const struct judge *j, struct roofline_summary *out);

/* The latency model of one kind of step. */
struct judge_model_row {
	uint32_t source; /* enum step_source; STEP_SOURCE_NONE: no step of it was seen yet */
	uint32_t phase;	 /* as in struct step */
	struct roofline_summary fit;
};
/* The models in the order of their first use; returns their count. */
uint32_t judge_models(const struct judge *j, struct judge_model_row *out, uint32_t max);
/* The kinds of steps, most expensive first; returns their count. */
uint32_t judge_kinds(const struct judge *j, struct kinds_row *out, uint32_t max);
/* Number of models, of latency and of self time, that are ready to judge. */
uint32_t judge_ready_count(const struct judge *j);
