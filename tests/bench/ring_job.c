/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/bench/ring_job.h"

#include <stdio.h>

#include "base/check.h"
#include "base/clock.h"

void ring_job_start(struct ring_job *j, uint32_t rank, uint32_t ranks, uint64_t begin_ns)
{
	struct event_stream e = {
	    .head = {.kind = EVENT_STREAM, .t = begin_ns - 2000000}, .context = 7, .context_id = 1};
	struct event_comm c = {.head = {.kind = EVENT_COMM, .t = begin_ns - 1000000},
			       .comm = 0xc0,
			       .id = 0x1234,
			       .nranks = (int32_t)ranks,
			       .rank = (int32_t)rank,
			       .action = COMM_INIT};
	struct ring_geometry g;
	char name[64];

	ring_geometry_default(&g);
	g.host_clock = g.device_clock = CLOCK_SOURCE_MONOTONIC;
	CHECK(!ring_writer_init(&j->w, &g) && !ring_writer_fill(&j->w));
	CHECK(ring_writer_claim(&j->w, RING_LANE_HOST, 1000 + rank, &j->host));
	CHECK(ring_writer_claim(&j->w, RING_LANE_DEVICE, 1, &j->device));
	for (uint32_t k = 0; k < 40; k++) {
		int n = snprintf(name, sizeof(name),
				 k < 30 ? "_ZN2at6native18elementwise_kernelILi%uE"
					: "multi_tensor_apply_kernel_adam_%u",
				 k);

		j->names[k] = ring_writer_intern(&j->w, name, (size_t)n);
	}
	j->nccl = ring_writer_intern(&j->w, "ncclDevKernel_AllReduce_Sum_f32", 31);
	for (uint32_t k = 0; k < RING_JOB_STREAMS; k++) {
		e.stream = RING_JOB_STREAM + k;
		e.stream_id = 7 + k;
		ring_writer_push(&j->host, &e);
	}
	ring_writer_push(&j->host, &c);
}

/* Layers, and an optimiser of other kernels at the end, as training has. */
static uint32_t shape_of(uint32_t i)
{
	return i < RING_JOB_LAUNCHES - 60 ? i * 7 % 30 : 30 + i % 10;
}

void ring_job_launch(struct ring_job *j, uint32_t i, uint64_t t)
{
	uint32_t shape = shape_of(i);
	struct event_launch e = {.head = {.kind = EVENT_LAUNCH, .t = t},
				 .func = 0x1000 + shape,
				 .stream = RING_JOB_STREAM,
				 .grid = {1 + shape * 3, 1, 1},
				 .block = {256, 1, 1},
				 .duration = 4000 + i % 100};
	struct event_coll c = {.head = {.kind = EVENT_COLL, .t = t},
			       .comm = 0xc0,
			       .stream = RING_JOB_STREAM + 1,
			       .count = 1 << 20,
			       .seq = j->seq,
			       .peer = -1,
			       .func = COLL_ALL_REDUCE,
			       .dtype = 9,
			       .duration = 9000};

	if (i % RING_JOB_COLL_EVERY == RING_JOB_COLL_EVERY - 1) {
		j->seq++;
		ring_writer_push(&j->host, &c);
		e.head.t = t + 2000;
		e.func = 0x9999;
		e.stream = RING_JOB_STREAM + 1;
		e.grid[0] = 24;
	}
	e.number = RING_NUMBER(0, ++j->launched[e.stream - RING_JOB_STREAM]);
	ring_writer_push(&j->host, &e);
}

void ring_job_kernel(struct ring_job *j, uint32_t i, uint64_t t, uint64_t length_ns, bool lost)
{
	uint32_t shape = shape_of(i);
	bool coll = i % RING_JOB_COLL_EVERY == RING_JOB_COLL_EVERY - 1;
	struct event_kernel e = {.head = {.kind = EVENT_KERNEL, .t = t},
				 .end = t + length_ns + i * 37 % 997,
				 .correlation = ++j->correlation,
				 .context_id = 1,
				 .stream_id = coll ? 8 : 7,
				 .name = coll ? j->nccl : j->names[shape],
				 .grid = {coll ? 24 : 1 + shape * 3, 1, 1},
				 .block = {256, 1, 1},
				 .registers = 64,
				 .number = RING_NUMBER(0, ++j->ran[coll])};

	if (!lost)
		ring_writer_push(&j->device, &e);
}
