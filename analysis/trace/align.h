/* SPDX-License-Identifier: Apache-2.0
 * align.h - which collective kernels of several ranks are the same collective, and the offsets
 * between the ranks' clocks.
 *
 * All ranks leave a collective within microseconds, though they enter it milliseconds apart, so
 * ends are common marks in time (SysOM-AI measured ends within 7 us, starts within 0.1 to 7.6 ms).
 * Pairing: the times between successive ends do not depend on the clock's offset. We look for a
 * stretch of these times from one rank in the other rank. From the match on, the collectives of
 * both are paired by time, so a collective that one rank lacks affects no other pair. If all steps
 * are alike, several places match. Then, if both ranks have the same number of collectives, the
 * first ones are paired; otherwise the place with the smaller offset wins. Clock: local = reference
 * + offset + drift * (reference - zero). Drift is the median of slopes, or 0 unless it exceeds
 * three of its standard errors. The reference is the first rank; ranks that share no collective
 * with it are chained through others.
 *
 * Pure: no I/O, clock, threads or globals; the same input gives the same output. Memory: malloc
 * within the call, 64 bytes per kernel. Threads: any, one per job. Trust: times and counts may be
 * anything. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define ALIGN_NONE UINT32_MAX

struct align_coll {
	uint64_t begin_ns, end_ns; /* on the rank's clock, below 2^62 */
	/* hash of operation, kernel name and bytes; equal on all ranks of one collective */
	uint64_t what;
	uint32_t order; /* for the caller's use; not changed */
	/* out: the same number on all ranks of one collective; ALIGN_NONE: no other rank has it */
	uint32_t instance;
};

struct align_rank {
	struct align_coll *coll; /* any order; sorted by end on return */
	uint32_t count;
	/* out */
	bool known;	  /* whether the clock is known */
	double offset_ns; /* at zero_ns of struct align_job */
	double drift;
	/* error of offset_ns: three robust standard errors plus 1 us; with fewer than 8 common
	 * collectives, Student's t times the standard error; with one, INFINITY */
	double error_ns;
	uint32_t common; /* collectives shared with the rank it was aligned to */
};

struct align_job {
	struct align_rank *rank; /* the caller's */
	uint32_t rank_count;
	/* out */
	uint64_t zero_ns; /* end of the first common collective on the reference's clock */
	uint32_t instances;
	uint64_t looked; /* collectives examined while pairing */
};

/* 0, -ENOMEM. */
int align_job(struct align_job *job);
/* Converts a time of rank r to the reference's clock. An offset within its error counts as 0. */
uint64_t align_to_reference(const struct align_job *job, uint32_t r, uint64_t local_ns);
/* The inverse. */
uint64_t align_to_local(const struct align_job *job, uint32_t r, uint64_t reference_ns);
