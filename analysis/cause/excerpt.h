/* SPDX-License-Identifier: Apache-2.0
 * excerpt.h - what a diagnosis needs to know about one window: where the time of its slow and of
 * its healthy steps went, by kernel name, and what its threads did meanwhile, by function. Some 50
 * KB instead of 100 KB to 8 MB; bounded by LIMIT_EXCERPT_*. Names: Python and kernel functions as
 * the window has them, native ones through the caller's resolver, else "[libx.so]". Kernels by
 * mangled name. Owns: its memory, by reference count. Threads: any; it does not change. Trust: the
 * window was decoded; its numbers are checked here. */
#pragma once

#include <stdatomic.h>

#include "analysis/cause/diagnosis.h"
#include "analysis/cause/slow_step.h"
#include "analysis/ledger/window_ledger.h"
#include "model/window.h"

/* For the stack of a hang; a line of evidence has room for it. */
#define EXCERPT_STUCK_BYTES 200u

struct excerpt_part {
	struct diagnosis_rank rank; /* its arrays are the excerpt's */
	struct diagnosis_kernel *kernels;
};

/* Steps that are compared with each other. */
struct excerpt_kind {
	uint32_t kind, period; /* as in window_step */
	/* The same in all windows of a job. EXCERPT_PHASES: of several, or not known. */
	uint32_t phase, healthy_phase;
};
#define EXCERPT_PHASES UINT32_MAX

/* Only excerpt.c writes to it. */
struct excerpt {
	atomic_uint holders;
	/* Slow: the flagged steps. If no step is flagged: the steps that are out. If there are none
	 * either, or if they are only a small part of a requested window: all steps.
	 * Healthy: neither out nor flagged, and closer to the expected latency than to the slow
	 * steps. The healthy part has no functions, since samples are not split by step. */
	struct excerpt_part slow, healthy;
	struct diagnosis_function *functions;
	uint32_t function_count;
	char *pool; /* all names */
	size_t pool_bytes, pool_room, bytes;
	struct os_signal *signals;
	/* .kind: the ledgers of each kind of steps. In a window with slow steps, this is the kind that
	 * lost most; in a window that shows what is usual, the kinds that took most time. .open: the
	 * ledger of the time in which the rank hung; 0 steps: it did not hang */
	struct window_ledger ledger;
	struct excerpt_kind kind[WINDOW_LEDGER_KINDS];
	uint32_t kinds;
	char launch_thread[32], gil_holder[SLOW_STEP_TEXT_BYTES], waker[48];
	/* the stack in which the rank hangs: "flock < wait_for (train.py:88) < main (train.py:120)";
	 * "": not known */
	char stuck[EXCERPT_STUCK_BYTES];
	/* What the launch thread has been blocked in, without a break, for most of the open
	 * interval: BEAT_UNFINISHED_HOST, _MESSAGE or _HELD since launch_ns; _NONE: none
	 * of them, or not known. */
	struct beat_unfinished wait;
	struct slow_step step; /* of the slow part, the one that lost most */
	/* functions of a file with a Build-ID have no name yet: their names may arrive later */
	bool unnamed;
	bool healthy_is_before; /* all healthy steps are earlier than the first slow step */
	/* Of a requested window whose slow part is all steps: it shows what is usual. */
	bool typical;
	/* How long it waited for others per step: its excess over the expected latency, less its
	 * excess over the expected self time. */
	double waited_ns;
	int64_t begin_unix_ns; /* of its window */
};

/* Writes the name of the function at an ELF address of a file to out; false: not known. */
typedef bool (*excerpt_name_fn)(void *arg, const uint8_t *build_id, size_t build_id_bytes,
				uint64_t address, char *out, size_t out_bytes);

/* name NULL: native functions stay without names. Returns NULL if the window is empty, or without
 * memory. */
struct excerpt *excerpt_make(const struct window *w, excerpt_name_fn name, void *arg);
struct excerpt *excerpt_hold(struct excerpt *p);
void excerpt_drop(struct excerpt *p); /* NULL is a no-op */
/* The part, with pointers that are valid as long as p. */
void excerpt_rank(const struct excerpt *p, bool healthy, struct diagnosis_rank *out);
/* The ledger of the slow or of the healthy steps of a kind; borrowed. */
const struct ledger *excerpt_ledger(const struct excerpt *p, uint32_t kind, bool healthy);
