/* SPDX-License-Identifier: Apache-2.0
 * excerpt.h - what a diagnosis needs to know about one window: where the time of its slow and of
 * its healthy steps went, by kernel name, and what its threads did meanwhile, by function. Some 50
 * KB instead of 100 KB to 8 MB; bounded by LIMIT_EXCERPT_*. Names: Python and kernel functions as
 * the window has them, native ones through the caller's resolver, else "[libx.so]". Kernels by
 * mangled name. Owns: its memory, by reference count. Threads: any; it does not change. Trust: the
 * window was decoded; its numbers are checked here. */
#ifndef SYSOM_ANALYSIS_CAUSE_EXCERPT_H
#define SYSOM_ANALYSIS_CAUSE_EXCERPT_H

#include "analysis/cause/diagnosis.h"
#include "analysis/cause/slow_step.h"
#include "analysis/ledger/coll_split.h"
#include "analysis/ledger/ledger.h"
#include "model/window.h"

struct excerpt; /* opaque */

/* Writes the name of the function at an ELF address of a file to out; false: not known. */
typedef bool (*excerpt_name_fn)(void *arg, const uint8_t *build_id, size_t build_id_bytes,
				uint64_t address, char *out, size_t out_bytes);

/* name NULL: native functions stay without names. NULL: the window is empty, or no memory. */
struct excerpt *excerpt_make(const struct window *w, excerpt_name_fn name, void *arg);
struct excerpt *excerpt_hold(struct excerpt *p);
void excerpt_drop(struct excerpt *p); /* NULL is a no-op */
size_t excerpt_bytes(const struct excerpt *p);
/* When its window begins, ns since 1970. */
int64_t excerpt_begin(const struct excerpt *p);
/* Number of steps in the slow or the healthy part. Slow: the flagged steps; without any, the steps
 * that are out; without these, or if they are only a short part of a window that was asked for, all
 * steps. Healthy: neither out nor flagged, and closer to the expected latency than to the slow
 * steps. */
uint32_t excerpt_steps(const struct excerpt *p, bool healthy);
/* Whether functions of a file with a Build-ID have no name yet: their names may arrive later. */
bool excerpt_unnamed(const struct excerpt *p);
/* Fills out; its pointers are valid as long as p. The healthy part has no functions, since samples
 * are not split by step. */
void excerpt_rank(const struct excerpt *p, bool healthy, struct diagnosis_rank *out);
/* The ledger of the slow or of the healthy steps; borrowed. */
const struct ledger *excerpt_ledger(const struct excerpt *p, bool healthy);
/* The collectives of both, for coll_split.h; borrowed. */
const struct coll_parts *excerpt_colls(const struct excerpt *p);
/* The ledger of the time in which the rank hung; 0 steps: it did not hang. Borrowed. */
const struct ledger *excerpt_open(const struct excerpt *p);
/* The step of the slow part that lost most; borrowed. */
const struct slow_step *excerpt_slow_step(const struct excerpt *p);
/* What the launch thread has been blocked in, without a break, for most of the open interval:
 * BEAT_UNFINISHED_HOST or _HELD since launch_ns; _NONE: neither, or not known. */
const struct beat_unfinished *excerpt_wait(const struct excerpt *p);
/* The stack in which the rank hangs: "flock < wait_for (train.py:88) < main (train.py:120)"; "":
 * not known. */
const char *excerpt_stuck(const struct excerpt *p);

/* Whether all healthy steps of the ledger are earlier than the first slow step. */
bool excerpt_healthy_is_before(const struct excerpt *p);

#endif
