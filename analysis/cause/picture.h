/* SPDX-License-Identifier: Apache-2.0
 * picture.h - what a diagnosis needs to know of one window: where its slow steps went and its
 * healthy ones, by kernel name, and what its threads did meanwhile, by function. Some 50 KB of some
 * 100 KB to 8 MB; bounded by LIMIT_PICTURE_*. Names: Python and kernel functions as the window has
 * them, native ones through the caller's resolver, else "[libx.so]". Kernels by mangled name. Owns:
 * its memory, by count of holders. Threads: any; it does not change. Trust: the window was decoded,
 * its numbers are checked here. */
#ifndef SYSOM_ANALYSIS_CAUSE_PICTURE_H
#define SYSOM_ANALYSIS_CAUSE_PICTURE_H

#include "analysis/cause/diagnosis.h"
#include "analysis/ledger/coll_split.h"
#include "analysis/ledger/ledger.h"
#include "model/window.h"

struct picture; /* opaque */

/* Puts the name of the function at an ELF address of a file into out; false: not known. */
typedef bool (*picture_name_fn)(void *arg, const uint8_t *build_id, size_t build_id_bytes,
				uint64_t address, char *out, size_t out_bytes);

/* name NULL: native functions stay without names. NULL: nothing to tell, or no memory. */
struct picture *picture_make(const struct window *w, picture_name_fn name, void *arg);
struct picture *picture_hold(struct picture *p);
void picture_drop(struct picture *p); /* NULL is a no-op */
size_t picture_bytes(const struct picture *p);
/* Of its window, ns since 1970. */
int64_t picture_begin(const struct picture *p);
/* Steps of the slow part (flagged; where none is, those that are out; where none is either, or they are but
 * a moment of a window that was asked for, all) and of the calm part (neither out nor flagged, and nearer
 * to what was expected than to the slow ones). */
uint32_t picture_steps(const struct picture *p, bool calm);
/* Functions of a file that has a Build-ID have no name: they may have one later. */
bool picture_unnamed(const struct picture *p);
/* Borrows p. Calm: no functions, since samples are not told apart by step. */
void picture_rank(const struct picture *p, bool calm, struct diagnosis_rank *out);
/* Where the time of the slow, or the calm, steps went; borrowed. */
const struct ledger *picture_ledger(const struct picture *p, bool calm);
/* The collectives of both, for coll_split.h; borrowed. */
const struct coll_parts *picture_colls(const struct picture *p);
/* Of the time in which the rank's steps stood still; no steps: they went on. */
const struct ledger *picture_open(const struct picture *p);
/* Where the thread is that it hangs in: "flock < wait_for (train.py:88) < main (train.py:120)"; "": not
 * known. */
const char *picture_stuck(const struct picture *p);

/* The ledger of the healthy steps is of steps before the first slow one. */
bool picture_calm_is_before(const struct picture *p);

#endif
