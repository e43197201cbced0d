/* SPDX-License-Identifier: Apache-2.0
 * finding.h - what detection says: these ranks were slow from this step to that one, by so much, and
 * (where diagnosis has looked) why. The catalogue of layers and causes (docs/causes.md).
 * Pure. Threads: any. Texts in evidence hold names from the job and the node as they were: whoever
 * prints them makes them harmless. */
#ifndef SYSOM_MODEL_FINDING_H
#define SYSOM_MODEL_FINDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/window.h"

enum finding_kind {
	FINDING_SLOW_RANK = 1, /* ranks are slow among peers of their role */
	FINDING_UNIFORM = 2,   /* everybody is slower than before */
	FINDING_HANG = 3,
	FINDING_IMBALANCE = 4, /* about a role, never an accusation of a rank */
};
enum finding_layer {
	LAYER_UNKNOWN = 0, LAYER_GPU, LAYER_CPU, LAYER_OS, LAYER_NETWORK, LAYER_STORAGE, LAYER_SOFTWARE,
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

/* One line of evidence, with its figure. effect_ns: of the excess per step; 0 where it has no meaning.
 * rank: whom it is about; FINDING_NO_RANK: nobody alone. */
#define FINDING_NO_RANK (-1)
struct finding_line {
	enum finding_layer layer;
	int32_t rank;
	double effect_ns;
	char text[FINDING_TEXT_BYTES];
};

struct finding {
	enum finding_kind kind;
	enum finding_cause cause; /* gives the layer */
	int32_t ranks[FINDING_RANKS_MAX]; /* worst first */
	uint32_t rank_count;
	uint64_t first_step, last_step; /* of the job's common numbering; inclusive */
	double excess;		/* of the median step's own time above the peers', 0.1: 10% */
	double effect_ns;	/* the same per step */
	double confidence;	/* 0 to 1 */
	bool earlier_runs;	/* what it compares with is other runs of the job */
	struct finding_line evidence[FINDING_EVIDENCE_MAX];
	uint32_t evidence_count;
};

/* What detection across ranks says without any window: told when it is sure, as often as it knows more,
 * and once more when it has ended. The same job, kind and begin_unix_ns (or worst rank) is the same
 * finding; so is a hang, or a slowdown of everybody, that comes before the last one has ended.
 * begin_unix_ns: of its first step; end_unix_ns: of the latest step that shows it. */
struct finding_report {
	char job[WIRE_TEXT_BYTES];
	uint64_t begin_unix_ns, end_unix_ns;
	struct finding finding;
	bool ended;
	uint64_t sender; /* whose beats made the job known; 0: not known */
	/* Of the incident set: who told it last, and since when by that one, where an earlier one had told
	 * of it before. Whoever tells leaves them alone. */
	uint64_t teller, told_begin_unix_ns;
};

const char *finding_kind_name(enum finding_kind kind);	  /* "slow_rank", "uniform", "hang", "imbalance" */
const char *finding_layer_name(enum finding_layer layer); /* "gpu", ... "unknown" */
const char *finding_cause_id(enum finding_cause cause);	  /* "os-softirq" */
const char *finding_cause_title(enum finding_cause cause);
const char *finding_cause_remedy(enum finding_cause cause);
enum finding_layer finding_cause_layer(enum finding_cause cause);
/* CAUSE_COUNT: no such id. */
enum finding_cause finding_cause_find(const char *id);
/* By their names; the one of nothing (0, LAYER_UNKNOWN): no such. */
enum finding_kind finding_kind_find(const char *name);
enum finding_layer finding_layer_find(const char *name);
bool finding_names(const struct finding *f, int32_t rank);
/* Adds a line; a full list drops the one of least effect. */
void finding_say(struct finding *f, enum finding_layer layer, double effect_ns, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* The same about one rank. */
void finding_say_of(struct finding *f, int32_t rank, enum finding_layer layer, double effect_ns,
		    const char *fmt, ...) __attribute__((format(printf, 5, 6)));

#endif
