/* SPDX-License-Identifier: Apache-2.0
 * hang.h - one job's communicators: who has not entered which collective while others wait in it.
 *
 * Every beat tells, per communicator of a rank, how many collectives it entered, the last one's
 * function, sequence and bytes, and whether its kernel was seen to end. A rank waits when its last
 * collective has not ended for longer than the bound; a communicator hangs when nobody's last one
 * (of those that entered most) has ended. Then: ranks that entered fewer are missing
 * (hang-missing); ranks that entered as many but another function or other bytes differ
 * (hang-mismatch); else all are in and it does not end (hang-transfer). A rank whose GPU does not
 * end a kernel of its own, all before it being over, is the cause whether it has entered or not
 * (hang-kernel), and is told where nobody waits in a collective, too. Of several communicators
 * that hang, the one is told whose missing ranks wait nowhere themselves; when all of them wait,
 * the ranks entered collectives in different orders (hang-mismatch). Point-to-point calls are
 * counted by each side for itself and are not compared.
 *
 * Owns its state, bounded by the ranks that were pushed times BEAT_COMMS_MAX. Pure but for memory.
 * Threads: one caller. Trust: numbers may be anything; no communicator is kept that no rank's last
 * beat names. */
#ifndef SYSOM_ANALYSIS_SLOW_HANG_H
#define SYSOM_ANALYSIS_SLOW_HANG_H

#include "model/finding.h"
#include "model/window.h"

struct hang;

struct hang_stats {
	uint64_t comms, bad; /* kept now, over all ranks; refused for impossible numbers */
	uint64_t findings;   /* opened */
};

/* 0, -ENOMEM. */
int hang_open(struct hang **out, const char *job);
void hang_close(struct hang *h); /* NULL is a no-op */
/* The communicators of a rank's beat take the place of its earlier ones. step: the job's common
 * number of its last step, -1 not known. offset_ns: of the node's realtime to its monotonic clock;
 * beat_ns: of that, when it sent the beat. -ENOMEM. */
int hang_push(struct hang *h, uint32_t slot, const struct beat_rank *b, int64_t step,
	      int64_t offset_ns, uint64_t beat_ns, uint64_t now_ns);
void hang_drop(struct hang *h, uint32_t slot);
/* Its process has ended: what its last beat said stays, but it waits no more. */
void hang_end(struct hang *h, uint32_t slot);
/* bound_ns: how long is too long, by a rank's last beat: who ended waits no longer. alive_ns: a rank
 * whose beats are older is told as silent; one that waits must be heard, or the job may just have
 * ended. */
void hang_tick(struct hang *h, uint64_t bound_ns, uint64_t alive_ns, uint64_t now_ns);
bool hang_next(struct hang *h, struct finding_report *out);
/* Whether one is under way: windows of all ranks are wanted then. */
bool hang_is_open(const struct hang *h);
/* Since when, on this machine's clock; 0: none is under way. */
uint64_t hang_since_ns(const struct hang *h);
void hang_stats(const struct hang *h, struct hang_stats *out);

#endif
