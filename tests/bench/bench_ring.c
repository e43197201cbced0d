/* SPDX-License-Identifier: Apache-2.0
 * bench_ring.c - what one event costs at either end of the ring. Median of RUNS runs, and the
 * fastest and slowest of them; the clock reads are printed apart, since they are the machine's. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "ring/ring_reader.h"
#include "ring/ring_writer.h"

#define RUNS   11
#define EVENTS 400000u
#define BATCH  1024

struct bench {
	struct ring_writer w;
	struct ring_reader *r;
	struct ring_lane_writer host, device;
};

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void print_ns(const char *what, double *ns)
{
	qsort(ns, RUNS, sizeof(ns[0]), by_value);
	printf("%-44s %8.2f ns   (%.2f to %.2f)\n", what, ns[RUNS / 2], ns[0], ns[RUNS - 1]);
}

static volatile uint64_t sink;

static void run_ticks(struct bench *b)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < EVENTS; i++)
		sum += clock_ticks() + clock_ticks();
	sink = sum;
}

static void run_push(struct bench *b)
{
	struct event_launch e = {.head.kind = EVENT_LAUNCH};

	for (uint32_t i = 0; i < EVENTS; i++) {
		e.head.t = i;
		ring_writer_push(&b->host, &e);
	}
}

static void run_push_and_ticks(struct bench *b)
{
	struct event_launch e = {.head.kind = EVENT_LAUNCH};

	for (uint32_t i = 0; i < EVENTS; i++) {
		e.head.t = clock_ticks();
		e.duration = (uint32_t)(clock_ticks() - e.head.t);
		ring_writer_push(&b->host, &e);
	}
}

static void run_push_device(struct bench *b)
{
	struct event_kernel e = {.head.kind = EVENT_KERNEL};

	for (uint32_t i = 0; i < EVENTS; i++) {
		e.head.t = i;
		ring_writer_push(&b->device, &e);
	}
}

static void run_intern(struct bench *b)
{
	static const char name[] =
	    "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEE"
	    "EEviT0_T1_";

	for (uint32_t i = 0; i < EVENTS; i++)
		sink = ring_writer_intern(&b->w, name, sizeof(name) - 1);
}

static void measure(struct bench *b, const char *what, void (*run)(struct bench *))
{
	double ns[RUNS];

	run(b); /* warm */
	for (int i = 0; i < RUNS; i++) {
		uint64_t begin = clock_monotonic_ns();

		run(b);
		ns[i] = (double)(clock_monotonic_ns() - begin) / EVENTS;
	}
	print_ns(what, ns);
}

/* The lane is filled outside the measured stretch, so that only the reader's part counts. */
static void measure_drain(struct bench *b, const char *what, bool device)
{
	static union ring_event out[BATCH];
	struct ring_lane_writer *lw = device ? &b->device : &b->host;
	uint32_t lane = (uint32_t)(lw->lane - b->w.lanes);
	union ring_event e = {.head.kind = device ? EVENT_KERNEL : EVENT_LAUNCH};
	struct ring_lane_view view;
	double ns[RUNS];

	while (ring_reader_drain_lane(b->r, lane, out, BATCH, &view))
		;
	for (int i = 0; i < RUNS; i++) {
		uint64_t spent = 0;
		size_t events = 0;

		while (events < EVENTS) {
			uint64_t begin;
			size_t n;

			for (uint32_t k = 0; k <= lw->mask; k++)
				ring_writer_push(lw, &e);
			begin = clock_monotonic_ns();
			while ((n = ring_reader_drain_lane(b->r, lane, out, BATCH, &view)))
				events += n;
			spent += clock_monotonic_ns() - begin;
		}
		ns[i] = (double)spent / (double)events;
	}
	CHECK(!ring_reader_stats(b->r)->lost_torn && !ring_reader_stats(b->r)->detach_reason);
	print_ns(what, ns);
}

int main(void)
{
	struct ring_geometry g;
	struct bench b;
	int fd;

	ring_geometry_default(&g);
	CHECK(!ring_writer_init(&b.w, &g) && !ring_writer_fill(&b.w));
	fd = dup(b.w.fd);
	CHECK(fd >= 0 && !ring_reader_open(&b.r, fd, dup(b.w.page_fd)));
	CHECK(ring_writer_claim(&b.w, RING_LANE_HOST, 1, &b.host));
	CHECK(ring_writer_claim(&b.w, RING_LANE_DEVICE, 1, &b.device));
	measure(&b, "two counter reads", run_ticks);
	measure(&b, "push of a host event (64 bytes)", run_push);
	measure(&b, "push of a host event and two counter reads", run_push_and_ticks);
	measure(&b, "push of a device event (128 bytes)", run_push_device);
	measure(&b, "look-up of a known kernel name", run_intern);
	measure_drain(&b, "drain, per host event", false);
	measure_drain(&b, "drain, per device event", true);
	ring_reader_close(b.r);
	ring_writer_fini(&b.w);
	return 0;
}
