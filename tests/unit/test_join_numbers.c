/* SPDX-License-Identifier: Apache-2.0
 * test_join_numbers.c - jobs whose true pairs are known by construction, with all that can go missing:
 * events that a ring laps, records that CUPTI drops or that nobody takes, launches that race. No kernel
 * ever gets another's launch, and nearly all that can be joined are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "node/join/join.h"

#define US	   1000ull
#define MS	   1000000ull
#define T0	   (1000 * MS)
#define LAYERS	   28u
#define LAYER	   12u /* launches of a layer: all layers look alike */
#define REST	   24u /* ... and what an optimizer adds */
#define STEP	   (LAYERS * LAYER + REST)
#define QUEUED_MAX 1024u /* launches of a stream before the call blocks */
#define EVENTS_MAX 700000u
#define PAIRS_MAX  200000u
#define LOST_MAX   64u
#define SEEDS	   5u

enum { COMPUTE, COMM, STREAMS };

struct play {
	uint32_t steps, wait_every;  /* 0: the host never waits */
	uint64_t pace_ns, kernel_ns; /* between launches; of a kernel, about */
	uint32_t laps, lap_max;	     /* stretches that rings lose, and their longest, in events */
	uint32_t gaps;		     /* the kinds are off, so often */
	uint32_t drops;		     /* CUPTI drops records, so often */
	bool alike;		     /* all kernels look alike */
	bool race;		     /* a second thread launches meanwhile */
	bool late;		     /* sysomd comes after a third of it */
};

struct timed {
	uint64_t at_ns; /* when it is in the ring */
	uint32_t order, lane, pair;
	union ring_event e;
};

struct lost {
	uint32_t lane;
	uint64_t from_ns, to_ns;
};

struct stream {
	uint32_t launched, kernels; /* as process and CUPTI number */
	uint64_t free_ns, end_ns[QUEUED_MAX];
	uint32_t queued;
};

struct world {
	uint64_t random, t_ns;
	struct timed *events;
	uint32_t count, pairs, lane_events[4];
	uint64_t *launch_of; /* by correlation */
	bool *kernel_seen;
	struct stream stream[STREAMS];
	uint32_t epoch, gap_epoch, unnumbered, dropping;
	uint64_t gap_from_ns, gap_to_ns, gap_at_ns, gap_on_ns; /* reported, true, certain */
	/* what came out */
	struct clockmap clock;
	struct join *j;
	uint64_t joined, wrong, both, kernels;
};

static uint64_t below(struct world *w, uint64_t n)
{
	w->random ^= w->random << 13;
	w->random ^= w->random >> 7;
	w->random ^= w->random << 17;
	return w->random % n;
}

static void put(struct world *w, uint64_t at_ns, uint32_t lane, const void *event, size_t bytes)
{
	struct timed *t = &w->events[w->count];

	assert_true(w->count < EVENTS_MAX);
	*t = (struct timed){.at_ns = at_ns, .order = w->count++, .lane = lane, .pair = w->pairs};
	memcpy(&t->e, event, bytes);
}

static void push_streams(struct world *w)
{
	for (uint32_t k = 0; k < STREAMS; k++) {
		struct event_stream e = {.head = {.kind = EVENT_STREAM, .t = w->t_ns},
					 .stream = 0x50 + k,
					 .context = 0xc0de,
					 .stream_id = 7 + k,
					 .context_id = 3};

		put(w, w->t_ns, 0, &e, sizeof(e));
	}
}

/* Records are taken at flushes. */
static uint64_t reported_at(uint64_t end_ns)
{
	return end_ns / (5 * MS) * 5 * MS + 5 * MS;
}

static void run_kernel(struct world *w, uint32_t k, uint32_t shape, uint64_t begin_ns,
		       uint64_t end_ns, bool recorded)
{
	struct event_kernel e = {.head = {.kind = EVENT_KERNEL, .t = begin_ns},
				 .end = end_ns,
				 .correlation = w->pairs,
				 .context_id = 3,
				 .stream_id = 7 + k,
				 .name = 1,
				 .grid = {shape, 1, 1},
				 .block = {128, 1, 1}};

	if (!recorded)
		return;
	if (w->dropping) {
		/* the buffer that it would have been in says so: what is in there has no numbers */
		if (!--w->dropping) {
			w->epoch = w->epoch % 255 + 1;
			w->unnumbered = 50;
		}
		return;
	}
	w->stream[k].kernels++;
	if (w->unnumbered)
		w->unnumbered--;
	else
		e.number = RING_NUMBER(w->epoch, w->stream[k].kernels);
	w->kernel_seen[w->pairs] = true;
	put(w, reported_at(end_ns), 3, &e, sizeof(e));
}

/* One launch by the thread of `lane`, and its kernel; returns when the call has ended. */
static uint64_t launch(struct world *w, const struct play *p, uint32_t k, uint32_t lane,
		       uint64_t t_ns, uint32_t shape)
{
	struct stream *s = &w->stream[k];
	uint64_t end_ns = t_ns + 2 * US + below(w, 2 * US), begin_ns;
	uint64_t oldest_ns = s->end_ns[s->queued % QUEUED_MAX];
	struct event_launch e = {.head = {.kind = EVENT_LAUNCH, .t = t_ns},
				 .func = 0x1000 + shape,
				 .stream = 0x50 + k,
				 .grid = {shape, 1, 1},
				 .block = {128, 1, 1}};
	bool off;

	assert_true(w->pairs < PAIRS_MAX);
	if (oldest_ns > end_ns)
		end_ns = oldest_ns; /* the queue is full: the call blocks */
	begin_ns = end_ns + 3 * US + below(w, 10 * US);
	if (begin_ns < s->free_ns + 500)
		begin_ns = s->free_ns + 500;
	s->free_ns = begin_ns + p->kernel_ns / 2 + below(w, p->kernel_ns);
	s->end_ns[s->queued++ % QUEUED_MAX] = s->free_ns;
	off = t_ns >= w->gap_from_ns && end_ns < w->gap_at_ns;
	e.number = RING_NUMBER(0, ++s->launched);
	e.duration = (uint32_t)(end_ns - t_ns);
	w->launch_of[w->pairs] = t_ns;
	put(w, end_ns, lane, &e, sizeof(e));
	run_kernel(w, k, shape, begin_ns, s->free_ns, !off);
	w->pairs++;
	return end_ns;
}

static void wait_for_compute(struct world *w)
{
	uint64_t free_ns = w->stream[COMPUTE].free_ns + 5 * US;
	struct event_sync e = {
	    .head = {.kind = EVENT_SYNC, .t = w->t_ns}, .handle = 0x50, .scope = SYNC_STREAM};

	if (free_ns > w->t_ns)
		w->t_ns = free_ns;
	e.duration = (uint32_t)(w->t_ns - e.head.t);
	put(w, w->t_ns, 0, &e, sizeof(e));
	w->t_ns += 50 * US;
}

static void open_gap(struct world *w)
{
	/* counts from 1 are of what has a record after it */
	w->gap_epoch = w->epoch = w->epoch % 255 + 1;
	w->stream[COMPUTE].kernels = w->stream[COMM].kernels = 0;
	w->gap_from_ns = w->t_ns;
	w->gap_to_ns = w->t_ns + 40 * MS + below(w, 20 * MS);
	w->gap_at_ns = w->gap_to_ns + below(w, 20 * US);
	w->gap_on_ns = w->gap_to_ns + 20 * US;
}

static void close_gap(struct world *w)
{
	struct event_gap e = {.head = {.kind = EVENT_GAP, .t = w->gap_from_ns},
			      .to = w->gap_to_ns,
			      .on = w->gap_on_ns,
			      .cause = GAP_GOVERNED,
			      .detail = (int32_t)w->gap_epoch};

	put(w, e.on, 0, &e, sizeof(e));
	w->gap_from_ns = UINT64_MAX;
}

static uint32_t shape_of(const struct play *p, uint32_t i)
{
	return p->alike ? 4 : i < LAYERS * LAYER ? 1 + i % LAYER : 100 + i;
}

static void one_step(struct world *w, const struct play *p)
{
	for (uint32_t i = 0; i < STEP; i++) {
		/* the backward pass has a thread of its own */
		uint32_t lane = i >= STEP / 3 && i < STEP - REST;
		bool races = p->race && i % 5 == 0, first = races && below(w, 2);
		uint64_t end_ns;

		if (first)
			launch(w, p, COMPUTE, 2, w->t_ns + 500, shape_of(p, i + 1));
		end_ns = launch(w, p, COMPUTE, lane, w->t_ns, shape_of(p, i));
		if (races && !first)
			launch(w, p, COMPUTE, 2, w->t_ns + 500, shape_of(p, i + 1));
		if (i % 30 == 29)
			end_ns = launch(w, p, COMM, lane, end_ns + US, 24);
		w->t_ns += p->pace_ns / 2 + below(w, p->pace_ns);
		if (w->t_ns < end_ns)
			w->t_ns = end_ns + 200;
		if (w->gap_from_ns <= w->t_ns && w->gap_on_ns <= w->t_ns)
			close_gap(w);
	}
}

static int by_time(const void *a, const void *b)
{
	const struct timed *x = a, *y = b;

	if (x->at_ns != y->at_ns)
		return x->at_ns < y->at_ns ? -1 : 1;
	return x->order < y->order ? -1 : 1;
}

/* Stretches of a lane's events that nobody reads. */
static void lap(struct world *w, const struct play *p)
{
	for (uint32_t i = 0; i < p->laps; i++) {
		uint32_t lane = below(w, 2) ? 3 : (uint32_t)below(w, 2);
		uint32_t from = 100 + (uint32_t)below(w, w->count - 200);
		uint32_t n = 1 + (uint32_t)below(w, p->lap_max);

		for (uint32_t at = from; at < w->count && n; at++) {
			struct timed *t = &w->events[at];

			if (t->lane != lane || !t->e.head.kind || t->e.head.kind == EVENT_STREAM)
				continue;
			n--;
			if (t->e.head.kind == EVENT_KERNEL)
				w->kernel_seen[t->pair] = false;
			t->e.head.kind = 0; /* a gap's event and a wait's too */
		}
	}
}

static void got_host(void *arg, const struct record *r, const struct step_mark *mark)
{
	(void)arg, (void)r, (void)mark;
}

static void got_device(void *arg, const struct record *r)
{
	struct world *w = arg;

	w->kernels++;
	if (r->flags & RECORD_FLAG_UNMATCHED)
		return;
	w->joined++;
	w->wrong += r->launch_ns != w->launch_of[r->correlation];
}

static const char *name_of(void *arg, uint32_t id)
{
	(void)arg;
	return id ? "gemm" : "";
}

static void feed(struct world *w)
{
	struct join_sink sink = {w, got_host, got_device, name_of, NULL, NULL};
	uint64_t ran_ns = w->events[0].at_ns;

	w->clock = (struct clockmap){.count = 1, .ns_per_tick = 1, .anchors = {{1, 1, 1, 0}}};
	assert_int_equal(join_open(&w->j, &sink, &w->clock, 4), 0);
	for (uint32_t i = 0; i < w->count; i++) {
		struct timed *t = &w->events[i];
		struct ring_lane_view v = {.lane = t->lane,
					   .tid = 100 + t->lane,
					   .generation = 1,
					   .kind = t->lane == 3 ? RING_LANE_DEVICE : RING_LANE_HOST,
					   .clock_source = CLOCK_SOURCE_MONOTONIC};

		for (; ran_ns + 5 * MS < t->at_ns; ran_ns += 5 * MS)
			join_run(w->j, ran_ns + 5 * MS);
		if (t->e.head.kind)
			join_push(w->j, &t->e, 1, &v, t->at_ns);
	}
	join_finish(w->j);
}

/* What can be joined: launch and kernel were recorded. */
static void count_both(struct world *w)
{
	bool *launch_seen = calloc(w->pairs, 1);

	for (uint32_t i = 0; i < w->count; i++)
		if (w->events[i].e.head.kind == EVENT_LAUNCH)
			launch_seen[w->events[i].pair] = true;
	for (uint32_t i = 0; i < w->pairs; i++)
		w->both += launch_seen[i] && w->kernel_seen[i];
	free(launch_seen);
}

static struct world *world_open(uint64_t seed)
{
	struct world *w = calloc(1, sizeof(*w));

	w->random = 88172645463325252ull ^ seed * 0x9e3779b97f4a7c15ull;
	w->t_ns = T0;
	w->gap_from_ns = UINT64_MAX;
	w->events = malloc(sizeof(*w->events) * EVENTS_MAX);
	w->launch_of = calloc(PAIRS_MAX, sizeof(*w->launch_of));
	w->kernel_seen = calloc(PAIRS_MAX, 1);
	return w;
}

static void world_close(struct world *w)
{
	join_close(w->j);
	free(w->events);
	free(w->launch_of);
	free(w->kernel_seen);
	free(w);
}

/* At least least_percent of the kernels whose launch and record arrived are joined, none wrongly. */
static void play(const struct play *p, uint32_t least_percent)
{
	for (uint32_t seed = 1; seed <= SEEDS; seed++) {
		struct world *w = world_open(seed);
		uint32_t from = 0;

		push_streams(w);
		for (uint32_t i = 0; i < p->steps; i++) {
			if (p->gaps && i % (p->steps / p->gaps) == p->steps / p->gaps / 2)
				open_gap(w);
			if (p->drops && i % (p->steps / p->drops) == p->steps / p->drops / 3)
				w->dropping = 1 + (uint32_t)below(w, 1500);
			if (p->late && i == p->steps / 3) {
				from = w->count;
				push_streams(w);
			}
			one_step(w, p);
			if (p->wait_every && i % p->wait_every == p->wait_every - 1)
				wait_for_compute(w);
		}
		for (uint32_t i = 0; i < from; i++) /* before sysomd came */
			w->events[i].e.head.kind = 0;
		qsort(w->events, w->count, sizeof(*w->events), by_time);
		lap(w, p);
		count_both(w);
		feed(w);
		printf("seed %u: %llu kernels, %llu wrong, %llu of %llu joined\n", seed,
		       (unsigned long long)w->kernels, (unsigned long long)w->wrong,
		       (unsigned long long)w->joined, (unsigned long long)w->both);
		assert_int_equal(w->wrong, 0);
		assert_true(w->joined * 100 >= w->both * least_percent);
		assert_true(join_stats(w->j)->align_steps <= 8 * (uint64_t)w->count);
		world_close(w);
	}
}

/* What rings lose is counted: all others are joined. */
static void losses_in_the_ring_cost_themselves_only(void **state)
{
	static const struct play bound_by_host = {.steps = 150,
						  .wait_every = 1,
						  .pace_ns = 10 * US,
						  .kernel_ns = 6 * US,
						  .laps = 60,
						  .lap_max = 60};
	static const struct play far = {.steps = 150,
					.wait_every = 3,
					.pace_ns = 10 * US,
					.kernel_ns = 6 * US,
					.laps = 30,
					.lap_max = 4000};

	(void)state;
	play(&bound_by_host, 100);
	play(&far, 100);
}

static void a_deep_queue_without_waits_loses_nothing_more(void **state)
{
	static const struct play deep = {
	    .steps = 150, .pace_ns = 5 * US, .kernel_ns = 12 * US, .laps = 60, .lap_max = 600};
	static const struct play alike = {.steps = 150,
					  .pace_ns = 5 * US,
					  .kernel_ns = 12 * US,
					  .laps = 60,
					  .lap_max = 600,
					  .alike = true};

	(void)state;
	play(&deep, 100);
	play(&alike, 100);
}

/* The kinds are off, or CUPTI drops records: the difference is learned again. */
static void after_uncounted_losses_nothing_is_guessed(void **state)
{
	static const struct play waits = {.steps = 450,
					  .wait_every = 1,
					  .pace_ns = 10 * US,
					  .kernel_ns = 6 * US,
					  .laps = 40,
					  .lap_max = 300,
					  .gaps = 8,
					  .drops = 6};
	static const struct play deep = {.steps = 450,
					 .wait_every = 10,
					 .pace_ns = 5 * US,
					 .kernel_ns = 12 * US,
					 .laps = 40,
					 .lap_max = 300,
					 .gaps = 8,
					 .drops = 6};
	static const struct play alike = {.steps = 450,
					  .wait_every = 4,
					  .pace_ns = 8 * US,
					  .kernel_ns = 8 * US,
					  .laps = 40,
					  .lap_max = 300,
					  .gaps = 8,
					  .drops = 6,
					  .alike = true};

	(void)state;
	play(&waits, 95);
	play(&deep, 85);
	play(&alike, 85);
}

/* Of two calls at the same time on one stream one is first. */
static void launches_that_race_are_numbered_in_order(void **state)
{
	static const struct play race = {.steps = 100,
					 .wait_every = 2,
					 .pace_ns = 10 * US,
					 .kernel_ns = 6 * US,
					 .laps = 30,
					 .lap_max = 300,
					 .race = true};

	(void)state;
	play(&race, 99);
}

static void a_sysomd_that_comes_late_joins_what_comes(void **state)
{
	static const struct play late = {.steps = 150,
					 .wait_every = 5,
					 .pace_ns = 5 * US,
					 .kernel_ns = 12 * US,
					 .laps = 20,
					 .lap_max = 300,
					 .late = true};

	(void)state;
	play(&late, 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(losses_in_the_ring_cost_themselves_only),
	    cmocka_unit_test(a_deep_queue_without_waits_loses_nothing_more),
	    cmocka_unit_test(after_uncounted_losses_nothing_is_guessed),
	    cmocka_unit_test(launches_that_race_are_numbered_in_order),
	    cmocka_unit_test(a_sysomd_that_comes_late_joins_what_comes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
