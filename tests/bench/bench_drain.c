/* SPDX-License-Identifier: Apache-2.0
 * bench_drain.c - from ring to verdict on one core: real rings, the join, the steps, the roofline
 * and the recorder of sysomd, 8 ranks of a training-like pattern (launches of 40 shapes on two
 * streams, a collective every 20 launches, steps found by the pattern). Only the reading side is
 * timed, in CPU time of its thread: the rings are filled in between. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "ring/ring_writer.h"
#include "sidecar/node.h"

#define RANKS	      8u
#define STEPS	      600u
#define STEP_LAUNCHES 800u /* 800 kernels in 40 ms: 20,000 launches/s */
#define STEP_NS	      40000000ull
#define COLL_EVERY    20u
#define SLOW_FROM     500u /* steps of rank 5 that are slow */
#define SLOW_TO	      520u

struct lane_set {
	struct ring_writer w;
	struct ring_lane_writer host, device;
	struct ring_reader *reader;
	struct join *join;
	struct rank *rank;
	uint64_t t_ns, windows;
	uint32_t correlation, seq, names[40], nccl;
};

static struct clockmap map;
static struct recorder *recorder;
static void *steps_scratch; /* as sysomd has it: one for all ranks */
static union ring_event batch[LIMIT_DRAIN_BATCH];
static uint64_t event_count, spent_ns;

static void sink_host(void *arg, const struct record *r, const struct step_mark *mark, bool late)
{
	rank_host(((struct lane_set *)arg)->rank, r, mark, late);
}

static void sink_device(void *arg, const struct record *r)
{
	rank_device(((struct lane_set *)arg)->rank, r);
}

static const char *sink_name(void *arg, uint32_t id)
{
	return ring_reader_name(((struct lane_set *)arg)->reader, id);
}

static void on_window(void *arg, struct rank *r)
{
	((struct lane_set *)arg)->windows++;
	anomaly_reset(&r->anomaly);
}

static void rank_start(struct lane_set *s, uint32_t i)
{
	struct join_sink sink = { s, sink_host, sink_device, sink_name };
	struct event_stream e = { .head = { .kind = EVENT_STREAM }, .context = 7, .context_id = 1 };
	struct event_comm c = { .head = { .kind = EVENT_COMM }, .comm = 0xc0, .id = 0x1234,
				.nranks = RANKS, .action = COMM_INIT };
	struct ring_geometry g;
	struct rank_config rc;
	char name[64];

	ring_geometry_default(&g);
	g.host_clock = g.device_clock = CLOCK_SOURCE_MONOTONIC;
	CHECK(!ring_writer_init(&s->w, &g));
	CHECK(ring_writer_claim(&s->w, RING_LANE_HOST, 1000 + i, &s->host));
	CHECK(ring_writer_claim(&s->w, RING_LANE_DEVICE, 1, &s->device));
	CHECK(!ring_reader_open(&s->reader, dup(s->w.fd), true));
	CHECK(!join_open(&s->join, &sink, &map, ring_reader_lane_count(s->reader)));
	CHECK(!recorder_add_rank(recorder, i, i + 1));
	rank_config_default(&rc);
	if (!steps_scratch) {
		CHECK((steps_scratch = aligned_alloc(16, steps_scratch_bytes(&rc.steps))));
		steps_scratch_init(steps_scratch);
	}
	rc.steps.scratch = steps_scratch;
	CHECK(!rank_open(&s->rank, &rc, recorder, i, NULL, i + 1, 0));
	s->rank->on_window = s->rank->on_drift = on_window;
	s->rank->arg = s;
	for (uint32_t k = 0; k < 40; k++) {
		int n = snprintf(name, sizeof(name),
				 k < 30 ? "_ZN2at6native18elementwise_kernelILi%uE" :
					  "multi_tensor_apply_kernel_adam_%u", k);

		s->names[k] = ring_writer_intern(&s->w, name, (size_t)n);
	}
	s->nccl = ring_writer_intern(&s->w, "ncclDevKernel_AllReduce_Sum_f32", 31);
	s->t_ns = 1000000000000ull;
	for (uint32_t k = 0; k < 2; k++) {
		e.head.t = s->t_ns - 2000000;
		e.stream = 0x50 + k;
		e.stream_id = 7 + k;
		ring_writer_push(&s->host, &e);
	}
	c.head.t = s->t_ns - 1000000;
	ring_writer_push(&s->host, &c);
}

/* Layers, and an optimiser of other kernels at the end, as training has. */
static uint32_t shape_of(uint32_t i)
{
	return i < STEP_LAUNCHES - 60 ? i * 7 % 30 : 30 + i % 10;
}

static void push_launch(struct lane_set *s, uint32_t i, uint64_t t)
{
	uint32_t shape = shape_of(i);
	struct event_launch e = { .head = { .kind = EVENT_LAUNCH, .t = t }, .func = 0x1000 + shape,
				  .stream = 0x50, .grid = { 1 + shape * 3, 1, 1 },
				  .block = { 256, 1, 1 }, .duration = 4000 + i % 100 };
	struct event_coll c = { .head = { .kind = EVENT_COLL, .t = t }, .comm = 0xc0,
				.stream = 0x51, .count = 1 << 20, .seq = s->seq, .peer = -1,
				.func = COLL_ALL_REDUCE, .dtype = 9, .duration = 9000 };

	if (i % COLL_EVERY == COLL_EVERY - 1) {
		s->seq++;
		ring_writer_push(&s->host, &c);
		e.head.t = t + 2000;
		e.func = 0x9999;
		e.stream = 0x51;
		e.grid[0] = 24;
	}
	ring_writer_push(&s->host, &e);
}

static void push_kernel(struct lane_set *s, uint32_t i, uint64_t t, uint64_t length_ns)
{
	uint32_t shape = shape_of(i);
	bool coll = i % COLL_EVERY == COLL_EVERY - 1;
	struct event_kernel e = { .head = { .kind = EVENT_KERNEL, .t = t },
				  .end = t + length_ns + i * 37 % 997, .correlation = ++s->correlation,
				  .context_id = 1, .stream_id = coll ? 8 : 7,
				  .name = coll ? s->nccl : s->names[shape],
				  .grid = { coll ? 24 : 1 + shape * 3, 1, 1 },
				  .block = { 256, 1, 1 }, .registers = 64 };

	ring_writer_push(&s->device, &e);
}

/* As long as the ring has room: one step at a time. */
static void fill_step(struct lane_set *s, double slow, bool marks)
{
	uint64_t pace = (uint64_t)((double)STEP_NS * slow) / (STEP_LAUNCHES + 40);
	struct event_step mark = { .head = { .kind = EVENT_STEP_BEGIN, .t = s->t_ns - 1000 },
				   .work = { STEP_LAUNCHES }, .work_count = 1 };

	if (marks)
		ring_writer_push(&s->host, &mark);
	for (uint32_t i = 0; i < STEP_LAUNCHES; i++)
		push_launch(s, i, s->t_ns + i * pace);
	for (uint32_t i = 0; i < STEP_LAUNCHES; i++)
		push_kernel(s, i, s->t_ns + i * pace + 15000, pace * 3 / 4);
	s->t_ns += (uint64_t)((double)STEP_NS * slow);
}

static void drain(struct lane_set *s)
{
	uint64_t begin_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID), mark;
	struct ring_lane_view view;
	size_t n;

	ring_reader_poll_names(s->reader);
	for (uint32_t lane = 0; lane < ring_reader_lane_count(s->reader); lane++)
		while ((n = ring_reader_drain_lane(s->reader, lane, batch, LIMIT_DRAIN_BATCH,
						   &view))) {
			join_push(s->join, batch, n, &view, s->t_ns);
			event_count += n;
		}
	ring_reader_publish(s->reader, clock_monotonic_ns());
	join_run(s->join, s->t_ns + 30000000);
	mark = join_watermark_ns(s->join);
	rank_run(s->rank, mark - 1000000000, s->t_ns);
	spent_ns += clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin_ns;
}

static uint64_t status_kib(const char *field)
{
	char line[128];
	unsigned long v = 0;
	FILE *f = fopen("/proc/self/status", "re");

	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, field, strlen(field)))
			sscanf(line + strlen(field), ": %lu", &v);
	if (f)
		fclose(f);
	return v;
}

static void rank_stop(struct lane_set *s)
{
	join_close(s->join);
	rank_close(s->rank);
	ring_reader_close(s->reader);
	ring_writer_fini(&s->w);
	*s = (struct lane_set){ 0 };
}

static void run(struct lane_set *set, bool marks)
{
	uint64_t joined = 0, unmatched = 0, steps = 0, flagged = 0, self = 0;

	event_count = spent_ns = 0;
	for (uint32_t i = 0; i < RANKS; i++)
		rank_start(&set[i], i);
	for (uint32_t k = 0; k < STEPS; k++)
		for (uint32_t i = 0; i < RANKS; i++) {
			fill_step(&set[i], i == 5 && k >= SLOW_FROM && k < SLOW_TO ? 1.5 :
					   1 + (k * 2654435761u >> 20) % 100 * 1e-5, marks);
			drain(&set[i]);
		}
	for (uint32_t i = 0; i < RANKS; i++) {
		const struct join_stats *js = join_stats(set[i].join);

		joined += js->kernels_joined;
		unmatched += js->kernels_unmatched;
		steps += set[i].rank->stats.steps;
		flagged += set[i].rank->stats.flagged;
		self += set[i].rank->stats.flagged_self;
		CHECK(!ring_reader_stats(set[i].reader)->lost_lapped);
	}
	printf("  drain to detect, %-32s %6.2f M events/s on one core (%.0f ns an event)\n",
	       marks ? "steps marked" : "steps found by their pattern",
	       (double)event_count * 1e3 / (double)spent_ns,
	       (double)spent_ns / (double)event_count);
	printf("    events %llu, kernels joined %llu, unmatched %llu, steps %llu of %u, flagged %llu "
	       "(self %llu; 20 were slow)\n",
	       (unsigned long long)event_count, (unsigned long long)joined,
	       (unsigned long long)unmatched, (unsigned long long)steps, RANKS * STEPS,
	       (unsigned long long)flagged, (unsigned long long)self);
}

int main(void)
{
	static struct lane_set set[RANKS];
	struct recorder_config rc = { .memory_bytes = 32u << 20, .ranks_max = RANKS };
	struct recorder_stats rs;

	clockmap_init(&map);
	CHECK(!recorder_open(&recorder, &rc));
	run(set, true);
	recorder_stats(recorder, &rs);
	printf("  recorder: bytes per stored event                  %6.2f\n",
	       (double)rs.stored_bytes / (double)(rs.blocks * RECORDER_BLOCK_RECORDS));
	printf("  peak memory with %u ranks                          %6.1f MiB, of which the rings "
	       "%.1f MiB (mapped at both ends here), the recorder %.1f MiB\n",
	       RANKS, (double)status_kib("VmHWM") / 1024, (double)status_kib("RssShmem") / 1024,
	       (double)rs.memory_bytes / 1048576);
	for (uint32_t i = 0; i < RANKS; i++)
		rank_stop(&set[i]);
	run(set, false);
	return 0;
}
