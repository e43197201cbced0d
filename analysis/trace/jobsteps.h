/* SPDX-License-Identifier: Apache-2.0
 * jobsteps.h - makes the steps of a whole job from the steps of its ranks: one numbering, and where
 * the time of each rank and step went.
 *
 * steps.h finds and accounts each rank's steps, as it does live. The rank with the most regular
 * steps is the reference and gives the numbering: another rank's step gets the number of the
 * reference step in which most of the collectives that both share end, or, if they share none, the
 * number by time. Several steps of a rank with the same number are parts of that step, and their
 * times add up. A step that holds the collectives of two reference steps has no number. The pace of
 * a rank is the time of its compute kernels relative to what the same kernels usually take on this
 * rank, so that other kernels, or more of them, do not change it.
 *
 * Pure: no I/O, clock, threads or globals. Memory: malloc behind struct jobsteps. Threads: one
 * caller. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "analysis/steps/steps.h"
#include "analysis/trace/align.h"

enum jobsteps_measure {
	JOBSTEPS_LATENCY, /* ns, like all others except PACE and KERNELS */
	JOBSTEPS_SELF,	  /* latency minus exposed communication */
	JOBSTEPS_COMPUTE,
	JOBSTEPS_COPY, /* COMPUTE and COPY are unions of intervals */
	JOBSTEPS_IDLE, /* no work on the device */
	JOBSTEPS_WORK, /* sum of the usual times of its compute kernels */
	JOBSTEPS_BUSY, /* sum of their actual times: pace times work */
	JOBSTEPS_PACE,
	JOBSTEPS_KERNELS, /* number of compute kernels */
	JOBSTEPS_MEASURES
};

struct jobsteps_rank {
	int32_t rank;
	const struct step *step; /* in order */
	uint32_t step_count;
	const struct step_kernel
	    *kernel; /* the kernels of all its steps; a name has the same id on every rank */
	const uint32_t *kernel_at; /* [step_count + 1]: kernels of step k begin at kernel_at[k] */
	uint64_t device_begin_ns, last_begin_ns; /* when the device's first and last record began */
	/* out */
	uint64_t *end_ns; /* [step_count]: end of each step on the device, ascending */
	uint32_t *number; /* [step_count]: the job's step; JOBSTEPS_NONE: not known */
	uint32_t *own;	  /* [steps + 1]: the job's step s consists of this rank's steps own[s] to
			   * own[s + 1] - 1, except those without a number */
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
	/* lead: the compute kernels with most time in the job; lead_pace: the pace of each */
	uint32_t lead[JOBSTEPS_LEADS_MAX], leads;
	double *lead_pace[JOBSTEPS_LEADS_MAX]; /* [rank * steps + step] */
	/* [rank * JOBSTEPS_LEADS_MAX + lead]: mean time of one launch; 0: the rank has none */
	double *lead_ns;
	/* [steps]: ns from the last entry to the end, summed over the step's collectives */
	double *transfer_ns;
	uint32_t *transfers; /* [steps]: number of collectives with two or more ranks */
	void *memory;	     /* holds all of these arrays */
};

/* 0, -ENOMEM, -ENODATA (no steps). Call jobsteps_fini afterwards, even after an error. */
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

/* The job's step at a time of the rank's device; if that step has no number, the last one before
 * it. */
uint32_t jobsteps_at(const struct jobsteps *j, uint32_t rank, uint64_t ns);

/* A rank's kernels and copies by name: means per step over the known steps of [first, last]. */
struct jobsteps_kernel {
	uint32_t name;
	uint8_t kind;
	double count, total_ns;
};
/* Sorted by name; the caller frees *out. Returns the number of entries, or -ENOMEM. */
int jobsteps_kernels(const struct jobsteps *j, uint32_t rank, uint32_t first, uint32_t last,
		     struct jobsteps_kernel **out);
