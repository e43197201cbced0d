/* SPDX-License-Identifier: Apache-2.0
 * ledger.h - where the wall time of a rank's steps went, in accounts that add up (INV-12).
 *
 *   a step of 50 ms                        reference, 40 ms a step    excess
 *   compute    gemm <128x1 x 256>  30 ms   30 ms                         0
 *   collective AllReduce            4 ms    8 ms                        -4
 *   blocked    futex in lock (a.py) 14 ms   0 ms                       +14   <- explains the 10 ms
 *   unobserved                       2 ms   2 ms                         0
 *
 * At every moment of a step exactly one account is charged. While the GPU works: a compute kernel
 * before a copy before a collective, so that a collective is charged with its exposed time alone;
 * of two kernels of one kind the one that began first. While the GPU idles: the time from a launch
 * to its kernel's begin is charged to LEDGER_QUEUED, the time before that to what the thread did
 * that launched it; while that one waited for another thread that is known, to what the other one
 * did; what nobody saw of it to LEDGER_UNOBSERVED.
 *
 * A ledger is a sum over steps. Sums add: over windows, over ranks. Differences are taken of means
 * per step, so slowness of every tenth step is explained by a tenth of its time.
 *
 * Pure: no I/O, clock or globals. Owns its memory: at most LEDGER_ACCOUNTS_MAX accounts, the rest
 * of a kind in one account of that kind without a name. Threads: one caller. Times: nanoseconds. */
#ifndef SYSOM_ANALYSIS_LEDGER_LEDGER_H
#define SYSOM_ANALYSIS_LEDGER_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ledger_kind {
	LEDGER_UNOBSERVED = 0, /* the GPU waits for the host, and nothing says what that did */
	LEDGER_COMPUTE,	       /* a kernel, by name and launch configuration */
	LEDGER_COPY,	       /* copies and memsets that no kernel overlaps */
	LEDGER_COLLECTIVE, /* collectives that neither kernels nor copies overlap: LEDGER_LAST_RANK,
			    * LEDGER_TRANSFER, and what nobody could divide into these */
	LEDGER_QUEUED,	   /* launched, but the GPU has not begun it */
	LEDGER_RUNNING,	   /* the launching thread runs user code, by function */
	LEDGER_KERNEL_CODE, /* it runs in the kernel, by function */
	LEDGER_RUNNABLE,    /* it could run, and others had the CPU, by who ran instead */
	LEDGER_BLOCKED,	    /* it waits, by what for and in which function */
	LEDGER_STOLEN,	    /* interrupts ran on its CPU, by which */
	LEDGER_STOPPED,	    /* it was stopped by a signal, a debugger or a frozen cgroup */
	LEDGER_KINDS
};
/* "compute" ...; static text. */
const char *ledger_kind_name(enum ledger_kind kind);
/* Waiting for others in collectives is no time of a rank's own. */
static inline bool ledger_is_own(enum ledger_kind kind)
{
	return kind != LEDGER_COLLECTIVE;
}

/* Of a kind, what the host did: code of which sort, or what it waited for. */
enum ledger_what {
#define WHAT(symbol, id, text) LEDGER_##symbol,
#include "analysis/ledger/ledger_what.def"
#undef WHAT
	LEDGER_WHATS
};
const char *ledger_what_id(enum ledger_what what);   /* "file-read"; "" for NONE */
const char *ledger_what_text(enum ledger_what what); /* "file read"; "" for NONE */
/* "host blocked (file read) in load (train.py)". what: its text, or "". */
void ledger_account_text(enum ledger_kind kind, const char *what, const char *name, char *out,
			 size_t bytes);

#define LEDGER_ACCOUNTS_MAX 512u
#define LEDGER_NAME_BYTES   256u

struct ledger_account {
	uint8_t kind;  /* enum ledger_kind */
	uint8_t what;  /* enum ledger_what */
	uint32_t name; /* offset in the ledger's names; 0: "" */
	uint64_t ns;
	uint64_t busy_ns; /* of kernels, copies and collectives with what others overlap; else ns */
	uint64_t count;	  /* kernels, copies, collectives, waits; 0 where nothing is counted */
	uint64_t hash;
};

struct ledger {
	struct ledger_account *account; /* in order of hash */
	char *names;
	uint32_t count, names_bytes;
	size_t room, names_room;
	uint64_t steps, total_ns; /* total_ns: of the steps' latency; the accounts add up to it */
};

/* An empty one, without memory. */
void ledger_init(struct ledger *l);
void ledger_fini(struct ledger *l);
/* name: NULL is "". Without room (or memory) the time goes to the kind's account without a name;
 * that one always has room. */
void ledger_charge(struct ledger *l, enum ledger_kind kind, enum ledger_what what, const char *name,
		   uint64_t ns, uint64_t count);
/* Of the account without a what, so much goes to the account `to` of its kind and name; no more than there
 * is, and nothing where there is no room. The ledger's sum stays. */
void ledger_move(struct ledger *l, enum ledger_kind kind, const char *name, enum ledger_what to, double ns,
		 double busy_ns, double count);
/* All of `from` added to `into`, as if there were so many of it; weight: at least 0. */
void ledger_add(struct ledger *into, const struct ledger *from, double weight);
const char *ledger_name(const struct ledger *l, const struct ledger_account *a);
/* The sum of all accounts. */
uint64_t ledger_sum(const struct ledger *l);
size_t ledger_bytes(const struct ledger *l);

/* ---- a step ---- */

struct ledger_busy { /* what the GPU did; clipped to the step */
	uint64_t begin_ns, end_ns;
	uint64_t launch_ns;    /* 0: not known */
	enum ledger_kind kind; /* COMPUTE, COPY or COLLECTIVE */
	uint32_t thread;       /* that launched it: index of a ledger_thread */
	const char *name;
	uint64_t *exposed_ns; /* NULL, or where what it is charged with is added to */
};
struct ledger_share {
	enum ledger_kind kind;
	enum ledger_what what;
	const char *name;
	double part;  /* of the segment's time; those of a segment add up to 1 */
	double count; /* of waits, in the whole segment */
};
/* What a launching thread did; segments in order of time, without overlap. Time between them is
 * unobserved. */
struct ledger_segment {
	uint64_t begin_ns, end_ns;
	enum ledger_kind kind; /* RUNNING and later ones, or UNOBSERVED */
	enum ledger_what what;
	/* BLOCKED: the thread that ended the wait, index + 1; what that one did meanwhile is
	 * charged instead. 0: nobody that is known of. */
	uint32_t waker;
	const char *name;
	const struct ledger_share *share; /* divides the time, in place of kind and name */
	uint32_t share_count;		  /* 0: it is not divided */
};
struct ledger_thread {
	const struct ledger_segment *segment;
	uint32_t count;
	/* It works for others: of it only waits for files and sockets are charged in place of a wait
	 * that it ended. */
	bool helper;
};
/* A thread waits for one that waits for one ...: so many are followed. */
#define LEDGER_WAKERS_MAX 4u
struct ledger_interval {
	uint64_t begin_ns, end_ns;
};
/* Adds a step that took the time from begin_ns to end_ns. busy: ordered by begin; what lies outside
 * the step is left out. scratch: room for 2 * busy_count intervals. threads: of a launch nobody
 * knows the thread of, the first. Linear in busy_count, but for lookups. */
void ledger_step(struct ledger *l, uint64_t begin_ns, uint64_t end_ns,
		 const struct ledger_busy *busy, uint32_t busy_count,
		 const struct ledger_thread *threads, uint32_t thread_count,
		 struct ledger_interval *scratch);

/* Adds the open interval of a rank that hangs, as a step: what its GPU was given and has not ended
 * (NULL: it has ended all), from its launch on, and what the thread did before. A process that is
 * stopped can't tell what its GPU has ended: that it is stopped comes first. */
void ledger_open(struct ledger *l, uint64_t begin_ns, uint64_t end_ns,
		 const struct ledger_busy *unfinished, const struct ledger_thread *threads,
		 uint32_t thread_count, uint32_t thread);

/* ---- a subtraction ---- */

/* Per step: slow less reference. excess_ns = work_ns + speed_ns for what is counted: more of the
 * same (count times the reference's mean duration), or the same for longer; else all of it is
 * speed. */
struct ledger_row {
	enum ledger_kind kind;
	enum ledger_what what;
	const char *name; /* borrowed from one of the ledgers */
	double slow_ns, reference_ns, excess_ns, work_ns, speed_ns;
	double slow_count, reference_count, slow_busy_ns, reference_busy_ns;
};
/* One row for each account of either, largest excess first; rows: room for slow->count +
 * reference->count. The number of rows. Their excesses add up to the difference of both sums per
 * step. A ledger without steps counts as zero. */
uint32_t ledger_subtract(const struct ledger *slow, const struct ledger *reference,
			 struct ledger_row *rows);
/* How many of the first rows explain the share (0.8: 80%) of the whole excess; 0 where there is
 * none. */
uint32_t ledger_explain(const struct ledger_row *rows, uint32_t count, double share);

#endif
