/* SPDX-License-Identifier: Apache-2.0
 * finding.h - what detection reports: which ranks were slow, in which steps, by how much, and
 * (after diagnosis) why. Also the catalogue of layers and causes (docs/causes.md).
 * Pure. Threads: any. Texts in evidence contain unfiltered names from the job and the node: whoever
 * prints them must escape them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/window.h"

enum finding_kind {
	FINDING_SLOW_RANK = 1, /* ranks are slow compared with the peers of their role */
	FINDING_UNIFORM = 2,   /* all ranks are slower than before */
	FINDING_HANG = 3,
	FINDING_IMBALANCE = 4, /* about a role; never blames a rank */
	FINDING_REQUESTS = 5,  /* requests missed an objective; never blames a rank */
};
enum finding_layer {
	LAYER_UNKNOWN = 0,
	LAYER_GPU,
	LAYER_CPU,
	LAYER_OS,
	LAYER_NETWORK,
	LAYER_STORAGE,
	LAYER_SOFTWARE,
	LAYER_COUNT
};
enum finding_cause {
#define CAUSE(symbol, ...) CAUSE_##symbol,
#include "model/causes.def"
#undef CAUSE
	CAUSE_COUNT
};

#define FINDING_RANKS_MAX    1024u
#define FINDING_EVIDENCE_MAX 16u
#define FINDING_TEXT_BYTES   256u

/* One line of evidence, with its figure. effect_ns: part of the excess per step; 0 if meaningless.
 * rank: the rank that it is about; FINDING_NO_RANK: no single one. */
#define FINDING_NO_RANK (-1)
struct finding_line {
	enum finding_layer layer;
	int32_t rank;
	double effect_ns;
	char text[FINDING_TEXT_BYTES];
};

struct finding {
	enum finding_kind kind;
	enum finding_cause cause;	  /* determines the layer */
	int32_t ranks[FINDING_RANKS_MAX]; /* worst first */
	uint32_t rank_count;
	uint64_t first_step, last_step; /* in the job's common numbering; inclusive */
	/* excess self time of the median step, relative to the peers'; 0.1: 10% */
	double excess;
	double effect_ns;  /* the excess in ns per step */
	double confidence; /* 0 to 1 */
	bool earlier_runs; /* the reference is earlier runs of the job */
	/* The rest is about requests. count: how many missed the objective in this way. period_ns:
	 * the usual time between two of them. anomaly_id: the id of the windows that show it, never
	 * all zeros. step_..._ns: when the slow step of the worst request was. 0: not known. */
	uint64_t count;
	double period_ns;
	uint8_t anomaly_id[16];
	uint64_t step_begin_unix_ns, step_end_unix_ns;
	struct finding_line evidence[FINDING_EVIDENCE_MAX];
	uint32_t evidence_count;
};

/* A finding of detection across ranks, without any window. It is reported once it is certain, again
 * whenever it changes, and a last time when it has ended. Two reports are about the same finding
 * if job, kind and begin_unix_ns (or the worst rank) are equal. A report of a hang, or of a slowdown
 * of all ranks, is also about the previous such finding if that has not ended. begin_unix_ns: of its
 * first step; end_unix_ns: of the latest step that shows it. */
struct finding_report {
	char job[WIRE_TEXT_BYTES];
	uint64_t begin_unix_ns, end_unix_ns;
	struct finding finding;
	bool ended;
	uint64_t sender; /* the node whose beats reported the job; 0: unknown */
	/* The incident set fills these, not the caller. reporter: the process that reported it
	 * last. reported_begin_unix_ns: the start that it reported; begin_unix_ns may be earlier,
	 * from another process's report. */
	uint64_t reporter, reported_begin_unix_ns;
};

const char *finding_kind_name(
    enum finding_kind kind); /* "slow_rank", "uniform", "hang", "imbalance", "requests" */
const char *finding_layer_name(enum finding_layer layer); /* "gpu", ... "unknown" */
const char *finding_cause_id(enum finding_cause cause);	  /* "os-softirq" */
const char *finding_cause_title(enum finding_cause cause);
const char *finding_cause_remedy(enum finding_cause cause);
enum finding_layer finding_cause_layer(enum finding_cause cause);
/* CAUSE_COUNT: unknown id. */
enum finding_cause finding_cause_find(const char *id);
/* Look up by name; 0 (LAYER_UNKNOWN): unknown name. */
enum finding_kind finding_kind_find(const char *name);
enum finding_layer finding_layer_find(const char *name);
bool finding_names(const struct finding *f, int32_t rank);
/* How many ns the rank loses per step. If no evidence is about this rank, it counts as losing as much
 * as the worst rank. */
double finding_effect_of(const struct finding *f, int32_t rank);
/* Adds a line; a full list drops the one with the least effect. */
void finding_say(struct finding *f, enum finding_layer layer, double effect_ns, const char *fmt,
		 ...) __attribute__((format(printf, 4, 5)));
/* The same, about one rank. */
void finding_say_of(struct finding *f, int32_t rank, enum finding_layer layer, double effect_ns,
		    const char *fmt, ...) __attribute__((format(printf, 5, 6)));
