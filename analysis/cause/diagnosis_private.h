/* SPDX-License-Identifier: Apache-2.0
 * diagnosis_private.h - what the files of the diagnosis share: one suspect compared with its base,
 * and the candidates of the layers. */
#pragma once

#include "analysis/cause/diagnosis.h"
#include "base/text/text.h"
#include "model/rank_name.h"

enum diagnosis_figure {
	FIGURE_STEP,
	FIGURE_SELF,
	FIGURE_COMPUTE,
	FIGURE_EXPOSED,
	FIGURE_COPY,
	FIGURE_IDLE,
	FIGURE_KERNELS,
	FIGURE_GIL,
	FIGURE_COUNT
};

#define DIAGNOSIS_SUBJECT_BYTES	 128u
#define DIAGNOSIS_CANDIDATES_MAX 48u

/* How directly evidence shows its time (diagnosis_sure). */
enum diagnosis_proof {
	DIAGNOSIS_MEASURED, /* this time was measured or sampled */
	DIAGNOSIS_LIKELY,   /* it fits, but nothing shows that it took this time */
	DIAGNOSIS_GUESS	    /* others fit as well */
};

struct diagnosis_candidate {
	enum finding_cause cause;
	double effect_ns; /* per step, as measured; may exceed the excess */
	enum diagnosis_proof proof;
	bool evidence_only;		       /* evidence that explains no account */
	bool is_work;			       /* more work, which lengthens every account */
	bool is_counted;		       /* a number of events, without a time of their own */
	bool by_profile;		       /* a function that takes more of the CPU */
	bool by_class;			       /* functions of a class, whoever caused it */
	uint32_t cpu;			       /* as in os_signal */
	char subject[DIAGNOSIS_SUBJECT_BYTES]; /* the process, function or kernel to blame */
	char text[FINDING_TEXT_BYTES];	       /* evidence, with its figure */
	/* Clause after "rank 5 is slow because", or, if view.many, after "ranks 5 and 6 are slow
	 * because". */
	char because[FINDING_TEXT_BYTES];
};

/* A cause's part of the excess. */
struct diagnosis_share {
	const struct diagnosis_candidate *lead; /* explains most of that part; NULL: no part */
	double ns, sure;
	double seen_ns; /* of observed accounts */
};

/* The time per step of all accounts of one kind. */
struct diagnosis_kind {
	bool known;
	double slow_ns, reference_ns;
};

struct diagnosis_view {
	const struct diagnosis_input *in;
	const struct diagnosis_rank *who;
	struct rank_name name;			       /* of who */
	double mine[FIGURE_COUNT], base[FIGURE_COUNT]; /* negative: not known */
	bool many;		/* the summary is about several ranks, but not every rank */
	const char *its;	/* "its"; if many, "their" */
	struct ledger_row *row; /* the slow steps' ledger minus the reference */
	uint32_t row_count;
	/* the rows of the ledger's compute kernels, even if `row` was made from the steps'
	 * figures */
	struct ledger_row *kernel_row;
	uint32_t kernel_row_count;
	/* From the ledger that the incident shows, even if the verdict is not based on it; without a
	 * ledger, from the steps' figures. */
	struct diagnosis_kind kind[LEDGER_KINDS];
	bool has_ledger;
	double excess_ns; /* per step, of all accounts that grew; 0: none */
	/* Parts of it. waits_ns: waits that another process ends and that no candidate explains;
	 * late_ns: all other observed time. */
	double waits_ns, late_ns;
	/* the part of excess_ns that the ledgers do not show, because the reference is slow too */
	double hidden_ns;
	/* parts of excess_ns; host_ns is a whole step if there is no reference */
	double compute_ns, host_ns;
	struct diagnosis_kind transfer; /* collectives without the waiting for the last rank */
	double room_ns[CAUSE_COUNT];	/* the part of excess_ns that each cause could explain */
	struct diagnosis_share share[CAUSE_COUNT];
	bool past; /* base is the rank's own past, as far as known */
	struct diagnosis_candidate
	    list[DIAGNOSIS_CANDIDATES_MAX + CAUSE_COUNT]; /* and the accounts' default causes */
	uint32_t count;
	/* Figures for the lines that rule a layer out. */
	/* the bases of kernels and of functions: "before" or "on the peers" */
	const char *kernels_where, *functions_where;
	double kernel_ratio;   /* typical kernel's time over its base; 0: not known */
	double kernel_spread;  /* largest deviation of a kernel that matters from kernel_ratio */
	double function_delta; /* largest change of a function's share; negative: not known */
	char function_name[DIAGNOSIS_SUBJECT_BYTES];
	double storage_ns; /* launch threads blocked in reads, per step; negative: not known */
	uint32_t settings_equal, settings_differ;
	/* a setting of CUDA that differs, and how; "": none does */
	char cuda_setting[FINDING_TEXT_BYTES];
	struct diagnosis *out;
};

/* What a suspect is compared with: the healthy peers that `serves` accepts. If there are none, or if
 * every rank is slow, it is the rank's own past, if `serves` accepts that. */
#define DIAGNOSIS_BASES_MAX 64u
struct diagnosis_bases {
	const struct diagnosis_rank *rank[DIAGNOSIS_BASES_MAX];
	uint32_t count;
	const char *where; /* "before" or "on the peers" */
};
void diagnosis_bases(const struct diagnosis_view *v, bool (*serves)(const struct diagnosis_rank *r),
		     struct diagnosis_bases *out);
/* The rank's next raised signal after `last` (NULL: the first) whose name starts with `begin`;
 * NULL: none. */
const struct os_signal *diagnosis_raised(const struct diagnosis_view *v, const char *begin,
					 const struct os_signal *last);

/* "TIME per step, TIME when healthy". NULL: not known. */
const char *diagnosis_kind_text(const struct diagnosis_view *v, const struct diagnosis_kind *k,
				char *out, size_t bytes);

/* Adds an empty candidate, or replaces the weakest; never NULL. */
struct diagnosis_candidate *diagnosis_add(struct diagnosis_view *v, enum finding_cause cause,
					  double effect_ns);
/* How sure the candidate's proof is, 0 to 1. */
double diagnosis_sure(const struct diagnosis_candidate *c);
void diagnosis_missing(struct diagnosis *out, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* diagnosis_text.c */
struct diagnosis_number {
	char text[TEXT_DURATION_BYTES];
};
/* "3.2 ms"; the text is stored in *t. */
const char *diagnosis_text_ms(double ns, struct diagnosis_number *t);
/* " on CPU 1" and the rest of an interrupt signal's subject; cpu: as in the signal. A thread's name
 * comes before it, and may be any text. "": no CPU is named. */
const char *diagnosis_text_cpu(const char *subject, uint32_t cpu);
/* The remedy of the candidate's cause, with names filled in. */
void diagnosis_text_remedy(const struct diagnosis_view *v, const struct diagnosis_candidate *c,
			   char *out, size_t bytes);

/* The depth of the cause (causes.def). */
double diagnosis_depth(enum finding_cause cause);
/* diagnosis_sure times the depth of the candidate's cause. */
double diagnosis_weight(const struct diagnosis_candidate *c);

/* diagnosis_ledger.c. begin: rows and sums, before the layers run. look: the causes' shares, after
 * all candidates were added. */
void diagnosis_ledger_begin(struct diagnosis_view *v);
void diagnosis_ledger_look(struct diagnosis_view *v);

void diagnosis_gpu_look(struct diagnosis_view *v);
void diagnosis_host_look(struct diagnosis_view *v); /* profiles: functions, GIL, blocked time */
void diagnosis_os_look(struct diagnosis_view *v);   /* signals: OS, network, storage */
/* The median over the peers of each peer's highest comparable signal; negative: no peer has signals. */
double diagnosis_os_of_peers(const struct diagnosis_view *v, enum os_signal_kind kind,
			     const struct os_signal *than);
/* The kernel lock for which the threads' wait is furthest above its usual value and the peers';
 * NULL: none. */
const struct os_signal *diagnosis_os_lock(const struct diagnosis_view *v);
void diagnosis_software_look(struct diagnosis_view *v);

/* The work of the rank's steps divided by that of the base's steps; work is the time that it should
 * take. 1: the job does not state its work. */
double diagnosis_work_ratio(const struct diagnosis_view *v, const struct diagnosis_rank *base);
