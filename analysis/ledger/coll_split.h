/* SPDX-License-Identifier: Apache-2.0
 * coll_split.h - divides the exposed time of collectives into waiting and transfer.
 *
 * On every rank, the kernel of a collective runs from the rank's own entry to the end of the
 * transfer. The last rank to enter waits for nobody, so its kernel takes as long as the transfer.
 * If another rank's kernel takes longer, the difference is waiting. Only durations of the same
 * collective are compared, so clocks do not matter.
 *
 *   rank 0  |---- waits ----|== transfer ==|   30 ms: waits for 20
 *   rank 1          |-waits-|== transfer ==|   15 ms: waits for 5
 *   rank 2                  |== transfer ==|   10 ms: the last one
 *
 * If a participating rank's kernel is missing, the shortest of the others may include waiting as
 * well. Time of a rank beyond that shortest kernel is certainly waiting; the rest stays undivided.
 * A communicator is complete if it has as many ranks as the job, or if every rank of the job has
 * shown its collectives.
 *
 * Owns: its memory. Threads: one caller. Trust: durations and ids may be anything; work is
 * bounded. */
#pragma once

#include "analysis/ledger/ledger.h"
#include "model/record.h"

/* The part of a collective's kernel that lies in one step. */
struct coll_part {
	uint64_t id;	  /* equal on all ranks of the communicator */
	uint32_t comm;	  /* hash of the communicator */
	float ns;	  /* duration of the whole kernel */
	float exposed_ns; /* time of this part that no kernel or copy overlaps */
	float after_ns;	  /* time of the kernel after the step's end */
	uint32_t step;	  /* the rank's step; any number */
	uint8_t func;
	uint8_t kind; /* the step's kind; any number */
	bool healthy; /* whether the step is healthy; otherwise it is slow */
	bool out;     /* detection says that the step took too long */
};
/* The parts of a window. If there are too many, one of 2^shift collectives is kept. They are chosen
 * by id, so that every rank keeps the same ones, or more if its shift is smaller. */
struct coll_parts {
	struct coll_part *part; /* ordered by id */
	uint32_t count, shift;
	size_t room;
};

/* Sends, receives and kernels without a known call are left out. 0, -ENOMEM. */
int coll_parts_add(struct coll_parts *c, const struct record *r, uint64_t exposed_ns,
		   uint64_t step_end_ns, uint32_t step, bool out, uint8_t kind, bool healthy);
/* Call after the last coll_parts_add. */
void coll_parts_finish(struct coll_parts *c);
void coll_parts_fini(struct coll_parts *c);

/* The parts of one rank's window; sources of the same rank follow each other. */
struct coll_source {
	uint32_t rank; /* any unique number */
	const struct coll_parts *parts;
};
struct coll_split; /* opaque */
/* ranks: size of the job. Borrows the parts. NULL: no memory, or nothing to divide. */
struct coll_split *coll_split_open(const struct coll_source *source, uint32_t count,
				   uint32_t ranks);
void coll_split_close(struct coll_split *s); /* NULL is a no-op */
/* l: a ledger to which the ledger of the parts' steps of this kind (healthy or slow) was added with
 * this weight. Moves its undivided collective time to waiting and transfer, as far as known. Sums
 * do not change. s NULL: a no-op. */
void coll_split_divide(const struct coll_split *s, const struct coll_parts *parts, uint8_t kind,
		       bool healthy, double weight, struct ledger *l);
/* waited_ns[k]: how long rank k waited for others. caused_ns[k]: how long the others waited for
 * rank k, less rank k's own waiting in the same step. In each collective all wait for the rank with
 * the shortest kernel. It has caused the longest wait, less the duration of the transfer: so a slow
 * transfer blames nobody. A collective counts only if one of its steps is out, because all ranks
 * also wait for a usual checkpoint. Steps without a collective in common with another source are
 * left out. In the others, a collective that only one source has may be waiting from begin to end.
 * Each source has its own rank, from 0 to ranks - 1. If the window of the rank that entered last is
 * missing, no rank seems to have caused much. s NULL, or no memory: all 0. */
void coll_split_caused(const struct coll_split *s, const struct coll_source *source, uint32_t count,
		       double *caused_ns, double *waited_ns, uint32_t ranks);
