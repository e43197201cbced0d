/* SPDX-License-Identifier: Apache-2.0
 * hang.h - hangs of one job: which rank has not entered which collective while others wait in it.
 *
 * For each communicator of a rank, every beat has the number of collectives it entered, the last
 * one's function, sequence and bytes, and whether its kernel ended. A rank waits if its last
 * collective has not ended for longer than the bound. A communicator hangs if none of the ranks
 * that entered the most collectives has left its last one. Then:
 * - ranks that entered fewer are missing (hang-missing);
 * - ranks that entered as many, but another function or other bytes, differ (hang-mismatch);
 * - otherwise all have entered and it does not end (hang-transfer).
 *
 * Collectives on the CPU (gloo, MPI) have no records. The node reports what the launch thread of a
 * rank without GPU work is blocked in, if the ledger of its open interval shows that. All ranks of
 * the job then count as one more communicator: ranks that wait in such a collective have entered
 * it, the others have not. A rank that has not entered is missing only if the reason is known
 * (something holds it, it is dead, or it waits for its GPU or for a message). Otherwise it may have
 * no requests, or may be at work, and no hang is reported.
 *
 * If a rank's GPU does not finish one of its own kernels, though everything before that kernel is
 * over, the rank is the cause, whether it has entered or not (hang-kernel). It is reported even if
 * nobody waits in a collective. If several communicators hang, the one whose missing ranks wait
 * nowhere else is reported. If all of them wait somewhere, the ranks entered collectives in
 * different orders (hang-mismatch). Point-to-point calls are not compared, because each side
 * numbers its own.
 *
 * Owns its state, bounded by the ranks that were pushed times BEAT_COMMS_MAX. Pure but for memory.
 * Threads: one caller. Trust: numbers may be anything. A communicator is kept only while the last
 * beat of some rank names it. */
#pragma once

#include "model/finding.h"
#include "model/window.h"

struct hang;

struct hang_stats {
	/* comms: stored now, over all ranks; bad: refused because of impossible numbers */
	uint64_t comms, bad;
	uint64_t findings; /* opened */
};

/* 0, -ENOMEM. */
int hang_open(struct hang **out, const char *job);
void hang_close(struct hang *h); /* NULL is a no-op */
/* Replaces the rank's communicators by those of its beat. step: its last step in the job's common
 * numbering, -1: not known. offset_ns: the node's CLOCK_REALTIME minus its CLOCK_MONOTONIC;
 * beat_ns: when the node sent the beat, in CLOCK_MONOTONIC. 0, -ENOMEM. */
int hang_push(struct hang *h, uint32_t slot, const struct beat_rank *b, int64_t step,
	      int64_t offset_ns, uint64_t beat_ns, uint64_t now_ns);
void hang_drop(struct hang *h, uint32_t slot);
/* The rank's process has ended: its last beat still counts, but it no longer waits. */
void hang_end(struct hang *h, uint32_t slot);
/* bound_ns: a longer wait is a hang. alive_ns: a rank whose last beat is older is reported as
 * silent. A waiting rank must still send beats; otherwise the job may simply have ended. */
void hang_tick(struct hang *h, uint64_t bound_ns, uint64_t alive_ns, uint64_t now_ns);
bool hang_next(struct hang *h, struct finding_report *out);
/* Whether a hang is open. The caller then requests windows of all ranks. */
bool hang_is_open(const struct hang *h);
/* What is known about the open hang; NULL: none is open. */
const struct finding *hang_finding(const struct hang *h);
/* When the open hang began, on this machine's clock; 0: none is open. */
uint64_t hang_since_ns(const struct hang *h);
void hang_stats(const struct hang *h, struct hang_stats *out);
