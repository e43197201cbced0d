/* SPDX-License-Identifier: Apache-2.0
 * diagnosis.h - from what is known of the suspects, their healthy peers and the baseline to a verdict,
 * layer by layer (SysOM-AI 3.1 and 5.4): GPU, CPU, OS, network, storage, software. Each layer gives
 * evidence with its effect in time per step, or is ruled out with the figure that does so; what is
 * missing lowers the confidence and is named (INV-9).
 * Pure: no I/O, clock, threads or globals (INV-7). All pointers are borrowed for the call. */
#ifndef SYSOM_ANALYSIS_CAUSE_DIAGNOSIS_H
#define SYSOM_ANALYSIS_CAUSE_DIAGNOSIS_H

#include "analysis/ledger/ledger.h"
#include "model/finding.h"
#include "model/os_signal.h"
#include "model/window.h"

struct diagnosis_kernel {
	const char *name;	  /* mangled, as the GPU reports it */
	double count, total_ns;   /* per step, medians */
	bool collective;
};
struct diagnosis_function {
	const char *name;
	uint8_t kind; /* enum function_kind */
	double self_ns, total_ns; /* CPU time per step, of all threads of the rank */
	double off_ns;		  /* blocked time per step with it on the stack, of the launch threads */
	double launch_ns;	  /* of total_ns, the launch threads'; 0 in all: not told apart */
};
struct diagnosis_setting { /* what is installed and set: driver, libraries, environment */
	const char *name, *value;
};

/* What share of the CPU time a function usually has on the ranks of a role, and the line above which it is
 * unusual; 0 to 1. What is not listed has a share of 0. */
struct diagnosis_usual {
	const char *name;
	uint8_t kind; /* enum function_kind */
	double usual, line;
};
struct diagnosis_group {
	const struct diagnosis_usual *function;
	uint32_t function_count, sketches; /* sketches: that it is made of */
	bool paper; /* mean and mean + 2 sigma; else median and median + 2 x 1.4826 MAD */
};

/* One rank over one stretch of steps (or a stored baseline of its role). Times per step, medians;
 * negative: not known. Profiles (cpu_ns, gil_wait_ns, functions) are known where samples > 0, off_ns and
 * what functions say of it also where there are functions without samples; kernels and settings where
 * their count is not 0, signals where there is one (totals are told always). */
struct diagnosis_rank {
	int32_t rank;
	const char *node;
	uint32_t steps; /* 0: nothing but signals or settings is known */
	double step_ns, self_ns, compute_ns, comm_ns, exposed_comm_ns, copy_ns, idle_ns, late_ns;
	double kernels; /* launches per step */
	const struct diagnosis_kernel *kernel;
	uint32_t kernel_count;
	const struct diagnosis_function *function;
	uint32_t function_count;
	double cpu_ns, samples;	    /* on-CPU time per step of all its threads; samples behind it */
	double off_ns;		    /* blocked time per step of its launching threads */
	double gil_wait_ns;	    /* waiting for the GIL per step, of its launching threads */
	double late_gap_ns;	    /* idle of the GPU that waits for launches, per step */
	const char *launch_thread;  /* name of the thread that launches most; NULL unknown */
	const char *gil_holder; /* "spin (train.py:12) in thread loader": who held it; or NULL */
	const struct os_signal *signal; /* of the kinds of os_signal.h, GPU telemetry too */
	uint32_t signal_count;
	const struct diagnosis_setting *setting;
	uint32_t setting_count;
	/* of its slow steps, and what that is compared with: its own healthy steps (usual_is_own) or
	 * its peers'; NULL: not known */
	const struct ledger *ledger, *usual;
	bool usual_is_own;
	double lost_ns; /* of each of its slow steps, as detection measured it; 0: not known */
	const char *stuck; /* where the thread is that it hangs in, as a stack; "" or NULL: not known */
	const struct diagnosis_group *group; /* a suspect's: its role without suspects; NULL: not known */
};

struct diagnosis_input {
	enum finding_kind kind;
	const struct diagnosis_rank *suspect; /* worst first */
	uint32_t suspect_count;
	const struct diagnosis_rank *peer; /* healthy, same role, same stretch */
	uint32_t peer_count;
	const struct diagnosis_rank *before; /* the suspects' role in earlier runs or before; NULL: none */
	uint32_t job_ranks;
	bool of_some; /* FINDING_UNIFORM: of the suspects, not of every rank */
	enum finding_cause known; /* what detection has said already (hangs, imbalance); else UNKNOWN */
};

#define DIAGNOSIS_LINES_MAX 24u
struct diagnosis {
	enum finding_cause cause;
	double confidence, effect_ns;
	bool by_ledger; /* the accounts are of whole steps, not of figures */
	struct finding_line evidence[DIAGNOSIS_LINES_MAX];  /* strongest first; those of the cause lead */
	struct finding_line ruled_out[LAYER_COUNT];	     /* one line per layer that is not the cause */
	char missing[DIAGNOSIS_LINES_MAX][FINDING_TEXT_BYTES];
	uint32_t evidence_count, ruled_out_count, missing_count;
	char summary[FINDING_TEXT_BYTES]; /* "rank 5 is slow because ..." */
	char remedy[FINDING_TEXT_BYTES];  /* the catalogue's, made concrete where the evidence allows */
};
/* A cause is named from the first suspect's figures; the others say whether they agree. */
void diagnosis_make(const struct diagnosis_input *in, struct diagnosis *out);
/* Suspects with one cause get one number, from 0 on, in the order of the suspects; the numbers used (at
 * most in->suspect_count). As few causes as explain nearly as much as each suspect's own. shows: by number,
 * the suspect that shows the cause most, for the first place in diagnosis_make. Room for suspect_count of
 * each, and for one where there is none. */
uint32_t diagnosis_split(const struct diagnosis_input *in, uint32_t *group, uint32_t *shows);

/* A kernel's name without what tells its variants apart: template arguments, parameters, and in plain
 * names (cuBLAS's) the digits. Returns out. */
const char *diagnosis_kernel_base(const char *name, char *out, size_t out_bytes);

#endif
