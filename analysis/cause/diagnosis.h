/* SPDX-License-Identifier: Apache-2.0
 * diagnosis.h - makes a verdict from the suspects, their healthy peers and the baseline. It looks
 * at each layer (SysOM-AI 3.1 and 5.4): GPU, CPU, OS, network, storage, software. A layer either
 * gives evidence, with its effect in time per step, or is ruled out by a figure. Missing data is
 * named and lowers the confidence. Pure: no I/O, clock, threads or globals. All pointers are
 * borrowed for the call. Memory: malloc within the call; without memory the verdict is what detection
 * found, or unknown. Threads: any. */
#pragma once

#include "analysis/ledger/ledger.h"
#include "model/finding.h"
#include "model/os_signal.h"
#include "model/window.h"

struct diagnosis_kernel {
	const char *name;	/* mangled, as the GPU reports it */
	double count, total_ns; /* medians per step */
	bool collective;
};
struct diagnosis_function {
	const char *name;
	uint8_t kind;		  /* enum function_kind */
	double self_ns, total_ns; /* CPU time per step, of all threads of the rank */
	double off_ns;	  /* of the launch threads: blocked time per step with it on the stack */
	double launch_ns; /* the launch threads' part of total_ns; 0 everywhere: not known */
};
struct diagnosis_setting { /* a version or setting: driver, library, environment */
	const char *name, *value;
};

/* A function's usual share of CPU time on the ranks of a role, and the share above which it is
 * unusual; 0 to 1. Functions that are not listed have the share 0. */
struct diagnosis_usual {
	const char *name;
	uint8_t kind; /* enum function_kind */
	double usual, line;
};
struct diagnosis_group {
	const struct diagnosis_usual *function;
	uint32_t function_count, sketches; /* sketches: the number that it was computed from */
	bool paper; /* mean and mean + 2 sigma; else median and median + 2 x 1.4826 MAD */
};

/* One rank over a range of steps, or a stored baseline of its role. Times are medians per step;
 * negative: not known. What is known:
 * - cpu_ns, gil_wait_ns and functions: if samples > 0.
 * - off_ns, also that of functions: if samples > 0 or there are functions.
 * - kernels, settings and signals: if their count is not 0. Signals that are always reported do not
 *   count. */
struct diagnosis_rank {
	int32_t rank;
	uint64_t begin_unix_ns, end_unix_ns; /* when it was slow, as a suspect; 0: not known */
	uint32_t steps;			     /* 0: only signals or settings are known */
	/* its steps are of a kind that recurs every so many steps (kinds.h); 0: of the usual kind, or
	 * of several kinds */
	uint32_t period;
	double step_ns, self_ns, compute_ns, comm_ns, exposed_comm_ns, copy_ns, idle_ns;
	double kernels; /* launches per step */
	/* how long the stated work of a step should take, by the roofline; 0: not known */
	double stated_ns;
	const struct diagnosis_kernel *kernel;
	uint32_t kernel_count;
	const struct diagnosis_function *function;
	uint32_t function_count;
	double cpu_ns, samples;	   /* on-CPU time per step of all its threads; effective samples */
	double off_ns;		   /* blocked time per step of its launch threads */
	double gil_wait_ns;	   /* time per step in which its launch threads wait for the GIL */
	const char *launch_thread; /* name of the thread that launches most; NULL: not known */
	const char *gil_holder;	   /* "spin (train.py:12) in thread loader": the holder; or NULL */
	/* "feeder (thread 7)": who ended most of the launch threads' waits, with these waits' time
	 * per step; or NULL */
	const char *waker;
	double waker_ns;
	const struct os_signal *signal; /* including GPU telemetry */
	uint32_t signal_count;
	const struct diagnosis_setting *setting;
	uint32_t setting_count;
	/* ledger: of its slow steps; usual: the reference, from its own healthy steps
	 * (usual_is_own) or from its peers; NULL: not known */
	const struct ledger *ledger, *usual;
	bool usual_is_own;
	double lost_ns;	   /* time lost per slow step, as detection measured it; 0: not known */
	const char *stuck; /* stack of the thread that hangs; "" or NULL: not known */
	const struct diagnosis_group
	    *group; /* a suspect's: its role, without the suspects; NULL: not known */
};

struct diagnosis_input {
	enum finding_kind kind;
	const struct diagnosis_rank *suspect; /* worst first */
	uint32_t suspect_count;
	const struct diagnosis_rank *peer; /* healthy, same role, same stretch */
	uint32_t peer_count;
	/* the suspects' role in earlier runs, or earlier in this one; NULL: not known */
	const struct diagnosis_rank *before;
	bool of_some;		  /* FINDING_UNIFORM: it is about the suspects, not every rank */
	enum finding_cause known; /* what detection found (hangs, imbalance); else UNKNOWN */
};

#define DIAGNOSIS_LINES_MAX 24u
struct diagnosis {
	enum finding_cause cause;
	double confidence, effect_ns;
	bool by_ledger; /* the accounts cover whole steps, not only some figures */
	/* lines of the cause's layer first, then by effect */
	struct finding_line evidence[DIAGNOSIS_LINES_MAX];
	struct finding_line ruled_out[LAYER_COUNT]; /* one line per layer that is not the cause */
	char missing[DIAGNOSIS_LINES_MAX][FINDING_TEXT_BYTES];
	uint32_t evidence_count, ruled_out_count, missing_count;
	char summary[FINDING_TEXT_BYTES]; /* "rank 5 is slow because ..." */
	char remedy[FINDING_TEXT_BYTES];  /* of the catalogue, with names and figures where known */
};
/* The first suspect's figures decide the cause; those of the others confirm or contradict it. */
void diagnosis_make(const struct diagnosis_input *in, struct diagnosis *out);
/* "rank 5", "ranks 2 and 5", "ranks 2, 5, 1, 0, 7, 4 and 3 more". count 0: "every rank". */
void diagnosis_ranks_text(const struct diagnosis_rank *rank, uint32_t count, char *out,
			  size_t bytes);
/* The group of a suspect that only waits for another one, on the CPU. */
#define DIAGNOSIS_WAITS UINT32_MAX
/* Whom such a suspect waits for (its number), and how long per step. */
struct diagnosis_wait {
	uint32_t whom;
	double ns;
};
/* Groups suspects by cause. Uses as few causes as possible; together they must explain nearly as
 * much as separate verdicts for each suspect would.
 * group[i]: the group of suspect i; groups are numbered from 0 in the order of the suspects.
 * shows[g]: the suspect that shows the cause of group g best, to be the first one in
 * diagnosis_make. Returns the number of groups. All need room for suspect_count entries, and at
 * least one. */
uint32_t diagnosis_split(const struct diagnosis_input *in, uint32_t *group, uint32_t *shows,
			 struct diagnosis_wait *waits);

/* The causes for which a signal of this name and subject is evidence, one bit each; 0: none. */
uint64_t diagnosis_signal_causes(const char *name, const char *subject);
/* Whether accounts.def says that one of these causes can lengthen the account (ledger_kind_name,
 * ledger_what_id). */
bool diagnosis_causes_lengthen(uint64_t causes, const char *account, const char *what);
