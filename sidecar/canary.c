/* SPDX-License-Identifier: Apache-2.0 */
#include "sidecar/canary.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"

#define CANARY_STALLS 256u

struct canary {
	pthread_t thread;
	pthread_mutex_t lock;
	bool stopping;
	struct {
		uint64_t begin_ns, end_ns;
	} stalls[CANARY_STALLS]; /* a ring */
	uint64_t count, total_ns;
};

static void *canary_thread(void *arg)
{
	struct canary *c = arg;
	uint64_t due_ns = clock_monotonic_ns();

	while (!__atomic_load_n(&c->stopping, __ATOMIC_RELAXED)) {
		struct timespec ts;
		uint64_t now_ns;

		due_ns += CANARY_PERIOD_NS;
		ts.tv_sec = (time_t)(due_ns / 1000000000ull);
		ts.tv_nsec = (long)(due_ns % 1000000000ull);
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL);
		now_ns = clock_monotonic_ns();
		if (now_ns > due_ns + CANARY_LATE_NS)
			canary_note(c, due_ns, now_ns);
		if (now_ns > due_ns)
			due_ns = now_ns;
	}
	return NULL;
}

int canary_open(struct canary **out)
{
	struct canary *c = calloc(1, sizeof(*c));
	int err;

	if (!c)
		return -ENOMEM;
	pthread_mutex_init(&c->lock, NULL);
	err = pthread_create(&c->thread, NULL, canary_thread, c);
	if (err) {
		pthread_mutex_destroy(&c->lock);
		free(c);
		return -err;
	}
	*out = c;
	return 0;
}

void canary_close(struct canary *c)
{
	if (!c)
		return;
	__atomic_store_n(&c->stopping, true, __ATOMIC_RELAXED);
	pthread_join(c->thread, NULL);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

void canary_note(struct canary *c, uint64_t begin_ns, uint64_t end_ns)
{
	pthread_mutex_lock(&c->lock);
	c->stalls[c->count % CANARY_STALLS].begin_ns = begin_ns;
	c->stalls[c->count++ % CANARY_STALLS].end_ns = end_ns;
	c->total_ns += end_ns - begin_ns;
	pthread_mutex_unlock(&c->lock);
}

uint64_t canary_stalled_ns(struct canary *c, uint64_t begin_ns, uint64_t end_ns)
{
	uint64_t sum = 0;

	if (!c)
		return 0;
	pthread_mutex_lock(&c->lock);
	for (uint64_t i = 0; i < c->count && i < CANARY_STALLS; i++) {
		uint64_t from = c->stalls[i].begin_ns, to = c->stalls[i].end_ns;

		from = from < begin_ns ? begin_ns : from;
		to = to > end_ns ? end_ns : to;
		sum += to > from ? to - from : 0;
	}
	pthread_mutex_unlock(&c->lock);
	return sum;
}

void canary_totals(struct canary *c, uint64_t *count, uint64_t *total_ns)
{
	*count = *total_ns = 0;
	if (!c)
		return;
	pthread_mutex_lock(&c->lock);
	*count = c->count;
	*total_ns = c->total_ns;
	pthread_mutex_unlock(&c->lock);
}
