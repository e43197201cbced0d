/* SPDX-License-Identifier: Apache-2.0
 * coll_split.h - the exposed time of collectives, divided into waiting and transfer.
 *
 * On every rank the kernel of a collective runs from the rank's own entry to the end of the transfer. The
 * last rank to enter waits for nobody, so its kernel takes as long as the transfer; what the kernel of
 * another rank takes longer is waiting. Only durations of the same collective are compared: clocks do not
 * matter.
 *
 *   rank 0  |---- waits ----|== transfer ==|   30 ms: waits for 20
 *   rank 1          |-waits-|== transfer ==|   15 ms: waits for 5
 *   rank 2                  |== transfer ==|   10 ms: the last one
 *
 * Where the kernel of a rank that takes part is missing, the shortest of the others is no less than the
 * transfer: what a rank has beyond it is waiting for sure, and the rest stays undivided. All ranks of a
 * communicator are known where they are as many as the job's, or where each rank of the job has shown its
 * collectives.
 *
 * Owns: its memory. Threads: one caller. Trust: durations and ids may be anything; work is bounded. */
#ifndef SYSOM_ANALYSIS_LEDGER_COLL_SPLIT_H
#define SYSOM_ANALYSIS_LEDGER_COLL_SPLIT_H

#include "analysis/ledger/ledger.h"
#include "model/record.h"

/* A collective's kernel, as far as it lies in one step. */
struct coll_part {
	uint64_t id;   /* the same on all ranks of the communicator */
	uint32_t comm; /* of the communicator; a hash */
	float ns;      /* of the whole kernel */
	float exposed_ns; /* of the part: what neither kernels nor copies overlap */
	float after_ns;	  /* of the kernel behind the step's end */
	uint8_t func;
	bool calm; /* the step is of the window's healthy ones; else of its slow ones */
};
/* Of a window. With too many it keeps one of 2^shift: which ones is a function of the id, so that the
 * larger set of two ranks holds the smaller one. */
struct coll_parts {
	struct coll_part *part; /* in order of id */
	uint32_t count, shift;
	size_t room;
};

/* Sends and receives, and what no call is known of, are left out. -ENOMEM. */
int coll_parts_add(struct coll_parts *c, const struct record *r, uint64_t exposed_ns, uint64_t step_end_ns,
		   bool calm);
/* No more are added. */
void coll_parts_finish(struct coll_parts *c);
void coll_parts_fini(struct coll_parts *c);

/* Whose parts they are; those of one rank stand together. */
struct coll_source {
	uint32_t rank; /* any number of its own */
	const struct coll_parts *parts;
};
struct coll_split; /* opaque */
/* ranks: of the job. Borrows the parts. NULL: no memory, or nothing to divide. */
struct coll_split *coll_split_open(const struct coll_source *source, uint32_t count, uint32_t ranks);
void coll_split_close(struct coll_split *s); /* NULL is a no-op */
/* l has the ledger of the parts' slow, or healthy, steps in it, times weight: what is known of its
 * undivided collectives becomes waiting and transfer. Sums stay. s NULL: a no-op. */
void coll_split_divide(const struct coll_split *s, const struct coll_parts *parts, bool calm, double weight,
		       struct ledger *l);

#endif
