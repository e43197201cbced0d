/* SPDX-License-Identifier: Apache-2.0
 * ledger.h - where the wall time of a rank's steps went, in accounts that add up.
 *
 *   a step of 50 ms                        reference, 40 ms a step    excess
 *   compute    gemm <128x1 x 256>  30 ms   30 ms                         0
 *   collective AllReduce            4 ms    8 ms                        -4
 *   blocked    futex in lock (a.py) 14 ms   0 ms                       +14   <- explains all 10 ms
 *   unobserved                       2 ms   2 ms                         0
 *
 * Each moment of a step is charged to exactly one account.
 * - While the GPU works: compute kernels come before copies, and copies before collectives. So a
 *   collective gets only its exposed time. If two kernels of one kind overlap, the one that began
 *   first gets the time.
 * - While the GPU idles: the time from a launch to the start of its kernel is LEDGER_QUEUED. The
 *   time before the launch is charged to what the launch thread did. If that thread waited for
 *   another known thread, it is charged to what the other one did. Time that nothing recorded is
 *   LEDGER_UNOBSERVED. A process that launches nothing has its steps' marks in place of launches.
 *
 * A ledger is a sum over steps, so ledgers add up over windows and ranks. Differences are taken
 * between means per step. So if only one step in ten lost time, the difference is a tenth of what
 * that step lost.
 *
 * Pure: no I/O, clock or globals. Owns its memory: at most LEDGER_ACCOUNTS_MAX accounts, half of them
 * of kernels. Further launch configurations of a kernel share one account, and further accounts of
 * a kind one without a name. Threads: one caller. Times: nanoseconds. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ledger_kind {
	LEDGER_UNOBSERVED = 0, /* the GPU waits for the host, and nothing recorded what it did */
	LEDGER_COMPUTE,	       /* kernels, by name and launch configuration */
	LEDGER_COPY,	       /* copies and memsets that no kernel overlaps */
	LEDGER_COLLECTIVE,     /* collectives that no kernel or copy overlaps: LEDGER_LAST_RANK,
			    * LEDGER_TRANSFER, or neither if the time could not be divided */
	LEDGER_QUEUED,	       /* launched, but not begun by the GPU */
	LEDGER_RUNNING,	       /* the launch thread runs user code; by function */
	LEDGER_KERNEL_CODE,    /* it runs kernel code; by function */
	LEDGER_RUNNABLE,       /* it waits for a CPU; by the task that runs instead */
	LEDGER_BLOCKED,	       /* it waits for something else; by what, and in which function */
	LEDGER_STOLEN,	       /* an interrupt or the hypervisor has its CPU; by which */
	LEDGER_STOPPED,	       /* a signal, a debugger or a frozen cgroup stopped it */
	LEDGER_KINDS
};
/* "compute" ...; static text. */
const char *ledger_kind_name(enum ledger_kind kind);
/* Whether the account is part of a rank's self time. Waiting for others in collectives is not. */
static inline bool ledger_is_own(enum ledger_kind kind)
{
	return kind != LEDGER_COLLECTIVE;
}

/* What the host did: the sort of code, or what it waited for. */
enum ledger_what {
#define WHAT(symbol, id, text) LEDGER_##symbol,
#include "analysis/ledger/ledger_what.def"
#undef WHAT
	LEDGER_WHATS
};
const char *ledger_what_id(enum ledger_what what);   /* "file-read"; "" for NONE */
const char *ledger_what_text(enum ledger_what what); /* "file read"; "" for NONE */
/* Whether such a wait leaves open what the thread waits for: another thread of the job, a peer, or
 * somebody who has no work for it. */
bool ledger_what_is_vague(enum ledger_what what);
/* Whether it is a wait for other ranks. */
bool ledger_what_is_of_ranks(enum ledger_what what);
/* Whether another thread or process, at the other end, ends such a wait. */
bool ledger_what_has_other_end(enum ledger_what what);
/* "host blocked (file read) in load (train.py)". what: its text, or "". */
void ledger_account_text(enum ledger_kind kind, const char *what, const char *name, char *out,
			 size_t bytes);

/* Whether an account's name belongs to the function: "f (a.py)", or "openat() of f (a.py)". */
bool ledger_is_of(const char *name, const char *function);

#define LEDGER_ACCOUNTS_MAX 1024u
#define LEDGER_NAME_BYTES   256u
/* Stands for all launch configurations of the kernel that had no room. */
#define LEDGER_OTHER_LAUNCHES "<<<*>>>"

struct ledger_account {
	uint8_t kind;  /* enum ledger_kind */
	uint8_t what;  /* enum ledger_what */
	uint32_t name; /* offset in the ledger's names; 0: "" */
	uint64_t ns;
	uint64_t busy_ns; /* kernels, copies, collectives: including overlapped time; else as ns */
	/* number of kernels, copies, collectives or waits, including waits while the GPU works;
	 * else 0 */
	uint64_t count;
	uint64_t hash;
};

struct ledger {
	struct ledger_account *account; /* ordered by hash */
	char *names;
	uint32_t count, names_bytes;
	size_t room, names_room;
	uint64_t steps, total_ns; /* total_ns: latency of the steps; the accounts add up to it */
	uint64_t seen;		/* number of added steps, regardless of the weights of ledger_add */
	double compute_squares; /* sum over the steps of (time of the step's kernels)^2 */
	/* Over the steps whose work the job states: stated_ns is how long their work should take,
	 * in sum; stated is their number. */
	double stated_ns, stated;
	/* Over the steps with an expected latency: lost_ns is by how much they exceeded it,
	 * lost_self_ns by how much their self time exceeded the expected one, both in sum; judged
	 * is their number. */
	double lost_ns, lost_self_ns, judged;
};

/* An empty one, without memory. */
void ledger_init(struct ledger *l);
void ledger_fini(struct ledger *l);
/* name: NULL is "". Without room or memory, a kernel's time goes to LEDGER_OTHER_LAUNCHES of the
 * kernel; all other time goes to the kind's account without a name, which always exists. */
void ledger_charge(struct ledger *l, enum ledger_kind kind, enum ledger_what what, const char *name,
		   uint64_t ns, uint64_t count);
/* Call after adding a step whose work the job states. expected_ns: how long this work should
 * take. */
void ledger_state(struct ledger *l, double expected_ns);
/* Call after adding a step that has an expected latency: by how much its latency and its self time
 * exceeded the expected ones. */
void ledger_judge(struct ledger *l, double lost_ns, double lost_self_ns);
/* By how much the steps exceeded their expected latency or self time, per step. False: not known
 * for half of them. */
bool ledger_lost(const struct ledger *l, bool self, double *ns);
/* How long the work of a step of `like` should take, divided by how long the work of a step of `l`
 * should take. 1: not known for all steps. */
double ledger_work_ratio(const struct ledger *like, const struct ledger *l);
/* Whether the work of all steps is stated. */
bool ledger_is_stated(const struct ledger *l);
/* Adds up the launch configurations of each kernel, because a kernel's launch configuration depends
 * on the work. */
void ledger_join_configurations(struct ledger *l);
/* Scales all times as if the steps had `ratio` times their work. */
void ledger_scale(struct ledger *l, double ratio);
/* Adds to the reference the time of the extra work that the slow steps have, kernel by kernel.
 * If this is more than most_ns per step, each kernel gets the same share of it. The reference's
 * counts and busy times stay as they are. Nothing changes if the slow steps have no more work.
 * 0, -ENOMEM. */
int ledger_same_work(const struct ledger *slow, struct ledger *reference, double most_ns);
/* Makes the mean difference of each account between `l` and `from` `factor` times as large; no
 * account becomes negative. For steps whose excess is known but that have no ledger of their own.
 * Both ledgers must have steps. */
void ledger_stretch(struct ledger *l, const struct ledger *from, double factor);
/* Moves time from the account (kind, LEDGER_NONE, name) to the account (kind, to, name): no more
 * than is there, and nothing if there is no room. The ledger's sum does not change. */
void ledger_move(struct ledger *l, enum ledger_kind kind, const char *name, enum ledger_what to,
		 double ns, double busy_ns, double count);
/* Adds weight times `from` to `into`; weight: at least 0. */
void ledger_add(struct ledger *into, const struct ledger *from, double weight);
/* The same for steps of another kind. Its mean compute time differs for a reason, not by chance, so
 * the difference does not count in ledger_compute_error. */
void ledger_add_kind(struct ledger *into, const struct ledger *from, double weight);
const char *ledger_name(const struct ledger *l, const struct ledger_account *a);
/* The standard error of the mean compute time per step. It shows how much this time varies with the
 * steps' work. */
double ledger_compute_error(const struct ledger *l);
/* The sum of all accounts. */
uint64_t ledger_sum(const struct ledger *l);
/* The same per step; 0: there are no steps. */
double ledger_mean_ns(const struct ledger *l);
size_t ledger_bytes(const struct ledger *l);

/* ---- a step ---- */

struct ledger_busy { /* a kernel or copy of the GPU; clipped to the step */
	uint64_t begin_ns, end_ns;
	uint64_t launch_ns;    /* 0: not known */
	enum ledger_kind kind; /* COMPUTE, COPY or COLLECTIVE */
	uint32_t thread;       /* that launched it: index into the threads */
	const char *name;
	/* the time charged to this kernel or copy is added here; may be NULL */
	uint64_t *exposed_ns;
};
struct ledger_share {
	enum ledger_kind kind;
	enum ledger_what what;
	const char *name;
	double part;  /* share of the segment's time; the parts of a segment add up to 1 */
	double count; /* waits in the whole segment */
};
/* What a launch thread did. Segments are ordered by time and do not overlap; time between them is
 * unobserved. */
struct ledger_segment {
	uint64_t begin_ns, end_ns;
	enum ledger_kind kind; /* RUNNING and later ones, or UNOBSERVED */
	enum ledger_what what;
	/* BLOCKED: index + 1 of the thread that ended the wait; 0: not known. What that thread did
	 * meanwhile is charged instead. */
	uint32_t waker;
	const char *name;
	/* if set, it divides the time; kind and name do not apply */
	const struct ledger_share *share;
	uint32_t share_count; /* 0: not divided */
};
struct ledger_thread {
	const struct ledger_segment *segment;
	uint32_t count;
	/* A helper thread. If it ended a wait, only its own waits for a CPU, for files, for sockets
	 * and for locks of the C library are charged in place of that wait. */
	bool helper;
};
/* How far a chain of threads that wait for each other is followed. */
#define LEDGER_WAKERS_MAX 4u
struct ledger_interval {
	uint64_t begin_ns, end_ns;
};
/* Adds a step from begin_ns to end_ns. busy: ordered by start; parts outside the step are left out.
 * threads[0] is used for an unknown launch thread. scratch: room for 2 * busy_count intervals.
 * Linear in busy_count, apart from lookups. */
void ledger_step(struct ledger *l, uint64_t begin_ns, uint64_t end_ns,
		 const struct ledger_busy *busy, uint32_t busy_count,
		 const struct ledger_thread *threads, uint32_t thread_count,
		 struct ledger_interval *scratch);

/* Adds the open interval of a rank that hangs, as one step: the unfinished work of its GPU from the
 * launch on (NULL: none), and what the thread did before. A stopped process cannot report that its
 * GPU has finished, so LEDGER_STOPPED takes precedence. */
void ledger_open(struct ledger *l, uint64_t begin_ns, uint64_t end_ns,
		 const struct ledger_busy *unfinished, const struct ledger_thread *threads,
		 uint32_t thread_count, uint32_t thread);

/* ---- a subtraction ---- */

/* Slow minus reference, per step. work_ns: the part of the excess that is more work, not slowness.
 * It is the change of the count times the reference's mean duration. For an account that only one
 * side has, it is the whole excess. For accounts without a count it is 0. */
struct ledger_row {
	enum ledger_kind kind;
	enum ledger_what what;
	const char *name; /* borrowed from one of the ledgers */
	double slow_ns, reference_ns, excess_ns, work_ns;
	double slow_count, reference_count, slow_busy_ns, reference_busy_ns;
};
/* One row for each account of either, largest excess first; returns the number of rows. rows: room
 * for slow->count + reference->count. The excesses add up to the difference of both sums per step.
 * A ledger without steps counts as zero. */
uint32_t ledger_subtract(const struct ledger *slow, const struct ledger *reference,
			 struct ledger_row *rows);
/* How many of the first rows together explain this share of the whole excess (0.8: 80%). 0: there
 * is no excess. */
uint32_t ledger_explain(const struct ledger_row *rows, uint32_t count, double share);
