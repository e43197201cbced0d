/* SPDX-License-Identifier: Apache-2.0
 * ring_job.h - one rank of a training-like job that writes a ring of its own: launches of 40 shapes on
 * two streams, a collective every 20 launches, and their kernels. No GPU, and no preload: an event costs
 * the writer some 30 ns. Trouble is our bug, and ends the program. */
#pragma once

#include "ring/ring_writer.h"

#define RING_JOB_LAUNCHES   800u /* of a step */
#define RING_JOB_EVENTS	    (2 * RING_JOB_LAUNCHES + RING_JOB_LAUNCHES / RING_JOB_COLL_EVERY)
#define RING_JOB_COLL_EVERY 20u
#define RING_JOB_STREAMS    2u
#define RING_JOB_STREAM	    0x50u /* handle of the first */

struct ring_job {
	struct ring_writer w;
	struct ring_lane_writer host, device;
	uint32_t correlation, seq, names[40], nccl;
	uint32_t launched[RING_JOB_STREAMS], ran[RING_JOB_STREAMS];
};

/* The ring and its lanes; what describes the streams and the communicator, before begin_ns. */
void ring_job_start(struct ring_job *j, uint32_t rank, uint32_t ranks, uint64_t begin_ns);
/* Launch `i` of a step, with the call of its collective where it has one. */
void ring_job_launch(struct ring_job *j, uint32_t i, uint64_t t);
/* Its kernel. lost: it ran, and its record is not delivered. */
void ring_job_kernel(struct ring_job *j, uint32_t i, uint64_t t, uint64_t length_ns, bool lost);
