/* SPDX-License-Identifier: Apache-2.0
 * bench_drain.c - from ring to verdict on one core: real rings, the join, the steps, the roofline
 * and the recorder of sysomd, 8 ranks of a training-like pattern (ring_job.h). Only the reading side is
 * timed, in CPU time of its thread: the rings are filled in between. The recorder packs in a thread of
 * its own, whose time is given beside. Then the same with kernel records that are lost now and then,
 * thousands in a row, as where a ring overflows. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "sidecar/node.h"
#include "tests/bench/ring_job.h"

#define RANKS	   8u
#define STEPS	   600u
#define STEP_NS	   40000000ull /* 20,000 launches/s */
#define SLOW_FROM  500u	       /* steps of rank 5 that are slow */
#define SLOW_TO	   520u
#define LOSS_EVERY 50u /* steps; the kernels of the first LOSS_STEPS of them are lost */
#define LOSS_STEPS 5u
#define WAIT_EVERY 10u /* steps: the host asks for the loss, as training does for its log */

struct lane_set {
	struct ring_job job;
	struct ring_reader *reader;
	struct join *join;
	struct rank *rank;
	uint64_t t_ns, windows;
};

static struct clockmap map;
static struct recorder *recorder;
static void *steps_scratch; /* as sysomd has it: one for all ranks */
static union ring_event batch[LIMIT_DRAIN_BATCH];
static uint64_t event_count, spent_ns;

enum play { MARKED, FOUND, LOSSES, PLAYS };

static void sink_host(void *arg, const struct record *r, const struct step_mark *mark)
{
	rank_host(((struct lane_set *)arg)->rank, r, mark);
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

static void on_drift(void *arg, struct rank *r, const struct growth_change *more)
{
	on_window(arg, r);
}

static void rank_start(struct lane_set *s, uint32_t i)
{
	struct join_sink sink = {s, sink_host, sink_device, sink_name, NULL, NULL};
	struct rank_config rc;

	s->t_ns = 1000000000000ull;
	ring_job_start(&s->job, i, RANKS, s->t_ns);
	CHECK(!ring_reader_open(&s->reader, dup(s->job.w.fd), dup(s->job.w.page_fd)));
	CHECK(!join_open(&s->join, &sink, &map, ring_reader_lane_count(s->reader)));
	CHECK(!recorder_add_rank(recorder, i, i + 1));
	rank_config_default(&rc);
	if (!steps_scratch) {
		CHECK((steps_scratch = aligned_alloc(16, steps_scratch_bytes(&rc.steps))));
		steps_scratch_init(steps_scratch);
	}
	rc.steps.scratch = steps_scratch;
	CHECK(!rank_open(&s->rank, &rc, recorder, i, NULL, i + 1, 0));
	s->rank->on_window = on_window;
	s->rank->on_drift = on_drift;
	s->rank->arg = s;
}

static void push_wait(struct lane_set *s, uint64_t stream)
{
	struct event_sync e = {.head = {.kind = EVENT_SYNC, .t = s->t_ns - 900000},
			       .handle = stream,
			       .duration = 100000,
			       .scope = SYNC_STREAM};

	ring_writer_push(&s->job.host, &e);
}

/* As long as the ring has room: one step at a time. */
static void fill_step(struct lane_set *s, double slow, bool marks, bool lost)
{
	uint64_t pace = (uint64_t)((double)STEP_NS * slow) / (RING_JOB_LAUNCHES + 40);
	struct event_step mark = {.head = {.kind = EVENT_STEP_BEGIN, .t = s->t_ns - 1000},
				  .work = {RING_JOB_LAUNCHES},
				  .work_count = 1};

	if (marks)
		ring_writer_push(&s->job.host, &mark);
	for (uint32_t i = 0; i < RING_JOB_LAUNCHES; i++)
		ring_job_launch(&s->job, i, s->t_ns + i * pace);
	for (uint32_t i = 0; i < RING_JOB_LAUNCHES; i++)
		ring_job_kernel(&s->job, i, s->t_ns + i * pace + 15000, pace * 3 / 4, lost);
	s->t_ns += (uint64_t)((double)STEP_NS * slow);
}

static void drain(struct lane_set *s)
{
	uint64_t begin_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID), mark;
	struct ring_lane_view view;
	size_t n;

	for (uint32_t lane = 0; lane < ring_reader_lane_count(s->reader); lane++)
		while ((
		    n = ring_reader_drain_lane(s->reader, lane, batch, LIMIT_DRAIN_BATCH, &view))) {
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
	ring_writer_fini(&s->job.w);
	*s = (struct lane_set){0};
}

/* CPU time of all threads but this one. */
static uint64_t others_ns(void)
{
	return clock_ns(CLOCK_PROCESS_CPUTIME_ID) - clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

static double run(struct lane_set *set, enum play play)
{
	static const char *const names[] = {"steps marked", "steps found by their pattern",
					    "and 10% of the kernels lost"};
	uint64_t packing_ns = others_ns();
	uint64_t joined = 0, unmatched = 0, steps = 0, flagged = 0, self = 0;

	event_count = spent_ns = 0;
	for (uint32_t i = 0; i < RANKS; i++)
		rank_start(&set[i], i);
	for (uint32_t k = 0; k < STEPS; k++)
		for (uint32_t i = 0; i < RANKS; i++) {
			fill_step(&set[i],
				  i == 5 && k >= SLOW_FROM && k < SLOW_TO
				      ? 1.5
				      : 1 + (k * 2654435761u >> 20) % 100 * 1e-5,
				  play == MARKED, play == LOSSES && k % LOSS_EVERY < LOSS_STEPS);
			for (uint64_t stream = RING_JOB_STREAM;
			     play == LOSSES && !(k % WAIT_EVERY) &&
			     stream < RING_JOB_STREAM + RING_JOB_STREAMS;
			     stream++)
				push_wait(&set[i], stream);
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
	packing_ns = others_ns() - packing_ns;
	printf(
	    "  drain to detect, %-32s %6.2f M events/s on one core (%.0f ns an event, and %.0f of "
	    "the packing thread)\n",
	    names[play], (double)event_count * 1e3 / (double)spent_ns,
	    (double)spent_ns / (double)event_count, (double)packing_ns / (double)event_count);
	printf(
	    "    events %llu, kernels joined %llu, unmatched %llu, steps %llu of %u, flagged %llu "
	    "(self %llu; 20 were slow)\n",
	    (unsigned long long)event_count, (unsigned long long)joined,
	    (unsigned long long)unmatched, (unsigned long long)steps, RANKS * STEPS,
	    (unsigned long long)flagged, (unsigned long long)self);
	return (double)spent_ns / (double)event_count;
}

int main(void)
{
	static struct lane_set set[RANKS];
	struct recorder_config rc = {.memory_bytes = 32u << 20, .ranks_max = RANKS};
	struct recorder_stats rs;
	struct recorder_extract none;
	double found_ns;

	clockmap_init(&map);
	CHECK(!recorder_open(&recorder, &rc));
	run(set, MARKED);
	CHECK(!recorder_extract(recorder, 0, 0, 0, 0, &none)); /* all is packed */
	recorder_stats(recorder, &rs);
	printf("  recorder: bytes per stored event                  %6.2f\n",
	       (double)rs.stored_bytes / (double)(rs.blocks * RECORDER_BLOCK_RECORDS));
	printf("  peak memory with %u ranks                          %6.1f MiB, of which the rings "
	       "%.1f MiB (mapped at both ends here), the recorder %.1f MiB\n",
	       RANKS, (double)status_kib("VmHWM") / 1024, (double)status_kib("RssShmem") / 1024,
	       (double)rs.memory_bytes / 1048576);
	for (uint32_t i = 0; i < RANKS; i++)
		rank_stop(&set[i]);
	found_ns = run(set, FOUND);
	for (uint32_t i = 0; i < RANKS; i++)
		rank_stop(&set[i]);
	printf("  an event where kernels are lost costs             %6.2f times as much (budget "
	       "1.5)\n",
	       run(set, LOSSES) / found_ns);
	return 0;
}
