/* SPDX-License-Identifier: Apache-2.0
 * jobsteps.h - the steps of a whole job from those of its ranks: one numbering, and per rank and step
 * where the time went.
 *
 * A rank's steps are found and accounted by steps.h, as they are live. The steps of one rank (the most
 * regular ones) number the job's: another rank's step has the number of that in which the reference
 * leaves most of the collectives that both share, by time where it shares none. Steps with one number
 * are parts of that step and add up; one that holds the collectives of two has no number. A rank's own
 * time: the step less communication that nothing overlaps (own = latency - exposed). Its pace: the time
 * of its compute kernels over what the same kernels usually take on this rank, so that other kernels, or
 * more of them, do not change it.
 *
 * Pure: no I/O, clock, threads or globals. Memory: malloc behind struct jobsteps. Threads: one
 * caller. */
#ifndef SYSOM_ANALYSIS_TRACE_JOBSTEPS_H
#define SYSOM_ANALYSIS_TRACE_JOBSTEPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/steps/steps.h"
#include "analysis/trace/align.h"

enum jobsteps_measure {
	JOBSTEPS_LATENCY, /* ns, as all but PACE and KERNELS */
	JOBSTEPS_SELF,	  /* latency less exposed communication */
	JOBSTEPS_COMPUTE,
	JOBSTEPS_COMM,
	JOBSTEPS_EXPOSED,
	JOBSTEPS_COPY, /* unions of intervals */
	JOBSTEPS_IDLE, /* nothing runs */
	JOBSTEPS_LATE, /* how much later than its typical peer it enters collectives, mean */
	JOBSTEPS_WORK, /* what its compute kernels would usually take, summed */
	JOBSTEPS_BUSY, /* what they took, summed: pace times work */
	JOBSTEPS_PACE,
	JOBSTEPS_KERNELS, /* number of compute kernels */
	JOBSTEPS_MEASURES
};

struct jobsteps_rank {
	int32_t rank;
	const struct step *step; /* in order */
	uint32_t step_count;
	const struct step_kernel *kernel; /* of all its steps; a name has the same id on every rank */
	const uint32_t *kernel_at;	  /* [step_count + 1]: step k has those from kernel_at[k] on */
	uint64_t device_begin_ns, last_begin_ns; /* when its device's first and last record begin */
	/* out */
	uint64_t *end_ns; /* [step_count]: where they end on the device, never falling */
	uint32_t *number; /* [step_count]: the job's step; JOBSTEPS_NONE: not known */
	uint32_t *own;	  /* [steps + 1]: step s is the rank's steps from own[s] to before own[s + 1], but
			   * for those without a number */
};

#define JOBSTEPS_NONE	   UINT32_MAX
#define JOBSTEPS_LEADS_MAX 12u

struct jobsteps {
	struct jobsteps_rank *rank; /* the caller's */
	uint32_t rank_count;
	const struct align_job *align; /* the same ranks */
	uint32_t name_count;
	/* out */
	uint32_t steps;
	double *value[JOBSTEPS_MEASURES]; /* [rank * steps + step], NAN: not known */
	/* the compute kernels that take most of the time, job-wide, and the pace of each alone */
	uint32_t lead[JOBSTEPS_LEADS_MAX], leads;
	double *lead_pace[JOBSTEPS_LEADS_MAX]; /* [rank * steps + step] */
	double *lead_ns;     /* [rank * JOBSTEPS_LEADS_MAX + lead]: mean time of one, 0: none */
	double *transfer_ns; /* [steps]: of its collectives, from the last one's entry to the end,
				summed */
	uint32_t *transfers; /* [steps]: collectives of two ranks and more in it */
	void *memory;	     /* that all of these lie in */
};

/* 0, -ENOMEM, -ENODATA (no steps). Afterwards jobsteps_fini, whatever came of it. */
int jobsteps_make(struct jobsteps *j);
void jobsteps_fini(struct jobsteps *j);

static inline double jobsteps_value(const struct jobsteps *j, enum jobsteps_measure m,
				    uint32_t rank, uint32_t step)
{
	return j->value[m][(size_t)rank * j->steps + step];
}

static inline double jobsteps_lead_ns(const struct jobsteps *j, uint32_t rank, uint32_t lead)
{
	return j->lead_ns[(size_t)rank * JOBSTEPS_LEADS_MAX + lead];
}

/* The job's step in which a time of the rank's device lies, the last one before it where that is not
 * known. */
uint32_t jobsteps_at(const struct jobsteps *j, uint32_t rank, uint64_t ns);

/* A rank's kernels and copies over the steps [first, last] that are known, by name; per step. */
struct jobsteps_kernel {
	uint32_t name;
	uint8_t kind;
	double count, total_ns;
};
/* *out is malloc'ed, by name; their number, -ENOMEM. */
int jobsteps_kernels(const struct jobsteps *j, uint32_t rank, uint32_t first, uint32_t last,
		     struct jobsteps_kernel **out);

#endif
