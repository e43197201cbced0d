/* SPDX-License-Identifier: Apache-2.0
 * step.h - one step of a process: its work, its latency, and what its time was spent on.
 * analysis/steps finds steps. */
#pragma once

#include "model/record.h"

enum step_source { STEP_SOURCE_NONE = 0, STEP_SOURCE_EXPLICIT = 1, STEP_SOURCE_AUTO = 2 };

#define STEP_FLAG_INCOMPLETE 0x01 /* some of its kernels were not seen */
/* the GPU worked for less than 70% of its latency: it waited for launches */
#define STEP_FLAG_CPU_BOUND 0x02
#define STEP_FLAG_GAP	    0x04 /* tracing was off or reduced during it: not judged */
/* at an edge of the recording: its start is not a boundary; not judged */
#define STEP_FLAG_FIRST 0x08
/* at an edge of the recording: it ends with the file, not at a boundary; not judged */
#define STEP_FLAG_LAST 0x20
#define STEP_FLAG_EDGE (STEP_FLAG_FIRST | STEP_FLAG_LAST)
/* The work vector is stated by the job, not counted from launches. Somebody waits for such a step,
 * and its work shows how long it should take (requests of a serving engine, with their tokens). */
#define STEP_FLAG_STATED 0x40
/* the pattern was lost, and found again at the end of this step; STEP_FLAG_FIRST is set too */
#define STEP_FLAG_RESYNC 0x10

/* Automatic work vector, if there is no explicit one. */
enum step_work {
	STEP_WORK_KERNELS = 0, /* launches, including graph nodes if known */
	STEP_WORK_BLOCKS = 1,  /* thread blocks launched */
	STEP_WORK_COMM_BYTES = 2,
	STEP_WORK_COPY_BYTES = 3,
};

struct step {
	uint64_t index;		   /* counts this process's steps from 0 */
	uint64_t begin_ns, end_ns; /* host launch timeline */
	uint64_t device_begin_ns,
	    device_end_ns; /* when its first kernel began and its last one ended; 0: no kernel */
	/* automatic steps: device_latency_ns if known; else end_ns - begin_ns */
	uint64_t latency_ns;
	uint64_t self_ns;    /* device_latency_ns, or else latency_ns, minus exposed communication:
			      * what this rank alone decides */
	uint64_t compute_ns; /* union of compute kernels' time */
	uint64_t comm_ns;    /* union of communication kernels' time */
	uint64_t exposed_comm_ns; /* communication not overlapped by compute or copies */
	uint64_t copy_ns;	  /* union of copies */
	/* time within device_latency_ns during which no kernel or copy of the step ran; if
	 * device_latency_ns is 0, within the time from the first kernel's start to the last
	 * kernel's end */
	uint64_t idle_ns;
	uint64_t launch_gap_max_ns; /* longest host time between two launches of the step */
	uint32_t kernels, launches, collectives, copies, unmatched;
	uint32_t phase; /* class of steps with the same pattern (training, evaluation, ...), from 0;
			 * explicit steps: the name id of the phase */
	uint64_t key;	/* model key: hash of source, phase and graph bucket */
	double work[STEP_WORK_MAX];
	double blocks; /* thread blocks launched, for any work vector; not in files */
	uint32_t work_count;
	uint32_t source; /* enum step_source */
	uint32_t flags;
	/* From the previous step's device_end_ns to its own. A marked step begins at its begin mark
	 * if that is later, and ends at its end mark if that is later. 0: unknown; the wire keeps
	 * the value only if it equals latency_ns. */
	uint64_t device_latency_ns;
};

/* Whether latency_ns ends at device_end_ns; otherwise it ends at end_ns. */
static inline bool step_ends_on_device(const struct step *s)
{
	return s->source != STEP_SOURCE_EXPLICIT && s->device_latency_ns;
}

/* Device time per step and kernel name. For explanations and sketches. */
struct step_kernel {
	uint32_t name;
	uint32_t count;
	uint64_t total_ns;
	uint64_t max_ns;
	uint16_t kind; /* enum record_kind */
	uint16_t func; /* enum record_coll; only for RECORD_COLL_KERNEL */
	uint32_t reserved;
};
#define STEP_KERNELS_MAX 192 /* names stored per step, by time; the others add up under name 0 */

enum kinds_part {		  /* the account that took longer */
		  KINDS_HOST = 0, /* the GPU waits for the host */
		  KINDS_COMPUTE = 1,
		  KINDS_COPY = 2,
		  KINDS_WAIT =
		      3, /* collectives took longer: other ranks are late, or the network is slow */
		  KINDS_PARTS
};

/* A kind of step as a row of a table (analysis/steps/kinds.h). */
struct kinds_row {
	bool by_work;
	uint32_t part;	    /* index: enum kinds_part */
	uint64_t period;    /* steps between the starts of two occurrences; 0: irregular */
	uint64_t period_ns; /* the same in ns if it recurs by the clock; else 0 */
	uint64_t count;	    /* occurrences */
	uint64_t first_step, last_step; /* first steps of the first and of the latest occurrence */
	double steps;			/* per occurrence, mean */
	/* mean time of an occurrence: by work, all of its time; by place, its extra time */
	double cost_ns;
	double share;		      /* share of the time of all judged steps */
	double launches, collectives; /* only of a kind by work: mean per step */
	bool grown;		      /* the latest occurrence was longer than usual */
};
