/* SPDX-License-Identifier: Apache-2.0
 * All threads wait for the same points in time. So the whole machine stood still in the
 * intersection of their late stretches, and the threads need not synchronise. */
#include "node/canary.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/daemon/log.h"
#include "base/daemon/realtime.h"

#define CANARY_STALLS 256u
#define CPUS_MAX      4096

struct stretch {
	uint64_t begin_ns, end_ns;
};

struct canary {
	pthread_t thread[CANARY_CPUS];
	struct stretch late[CANARY_CPUS]; /* the latest one of each thread */
	unsigned watched;	   /* number of CPUs that are watched; 1: no real-time threads */
	unsigned threads, started; /* started: numbers the threads */
	uint64_t late_ns;
	pthread_mutex_t lock;
	pthread_cond_t changed; /* stopping or running changed */
	bool stopping, running;
	bool blind;			      /* a thread ended, because its sleep did not last */
	struct stretch stalls[CANARY_STALLS]; /* ring */
	uint64_t count, total_ns, points;
};

/* False: the thread must end. */
static bool wait_to_run(struct canary *c)
{
	bool go_on;

	if (__atomic_load_n(&c->running, __ATOMIC_RELAXED) &&
	    !__atomic_load_n(&c->stopping, __ATOMIC_RELAXED))
		return true;
	pthread_mutex_lock(&c->lock);
	while (!c->running && !c->stopping)
		pthread_cond_wait(&c->changed, &c->lock);
	go_on = !c->stopping;
	pthread_mutex_unlock(&c->lock);
	return go_on;
}

/* All threads wait for the same points in time, multiples of the period. */
static void *canary_thread(void *arg)
{
	struct canary *c = arg;
	unsigned i = __atomic_fetch_add(&c->started, 1, __ATOMIC_RELAXED);

	while (wait_to_run(c)) {
		uint64_t now_ns = clock_monotonic_ns();
		uint64_t due_ns = (now_ns / CANARY_PERIOD_NS + 1) * CANARY_PERIOD_NS;

		clock_sleep_until(due_ns);
		now_ns = clock_monotonic_ns();
		/* The sleep did not last: a system call filter, or a library that fakes the clock.
		 * End the thread, because a real-time thread that does not sleep takes its CPU from
		 * every job. */
		if (now_ns < due_ns) {
			if (!__atomic_exchange_n(&c->blind, true, __ATOMIC_RELAXED))
				log_warn("canary", "why=\"a sleep ended before its time\" "
						   "effect=\"stalls of the machine are not seen\"");
			break;
		}
		if (now_ns > due_ns + c->late_ns)
			canary_late(c, i, due_ns, now_ns);
	}
	return NULL;
}

static void set(struct canary *c, bool *what, bool value)
{
	pthread_mutex_lock(&c->lock);
	__atomic_store_n(what, value, __ATOMIC_RELAXED);
	pthread_cond_broadcast(&c->changed);
	pthread_mutex_unlock(&c->lock);
}

void canary_run(struct canary *c, bool on)
{
	if (c)
		set(c, &c->running, on);
}

static void join(struct canary *c)
{
	set(c, &c->stopping, true);
	while (c->threads)
		pthread_join(c->thread[--c->threads], NULL);
	__atomic_store_n(&c->stopping, false, __ATOMIC_RELAXED);
	c->started = 0;
}

/* Chooses CPUs that the process may use, spread evenly. */
static uint32_t choose_cpus(int *cpu)
{
	cpu_set_t *set = CPU_ALLOC(CPUS_MAX);
	size_t bytes = CPU_ALLOC_SIZE(CPUS_MAX);
	uint32_t all, n, seen = 0, count = 0;

	if (!set || sched_getaffinity(0, bytes, set)) {
		CPU_FREE(set);
		return 0;
	}
	all = (uint32_t)CPU_COUNT_S(bytes, set);
	n = all < CANARY_CPUS ? all : CANARY_CPUS;
	for (int i = 0; i < CPUS_MAX && count < n; i++) {
		if (!CPU_ISSET_S((size_t)i, bytes, set))
			continue;
		if (seen++ == count * all / n)
			cpu[count++] = i;
	}
	CPU_FREE(set);
	return count;
}

static bool open_realtime(struct canary *c)
{
	int cpu[CANARY_CPUS];
	uint32_t n = choose_cpus(cpu);

	if (n < 2)
		return false;
	c->late_ns = CANARY_REALTIME_LATE_NS;
	c->watched = n;
	for (uint32_t i = 0; i < n; i++) {
		if (realtime_thread(&c->thread[i], cpu[i], canary_thread, c)) {
			join(c);
			return false;
		}
		c->threads++;
	}
	return true;
}

int canary_open(struct canary **out, bool realtime)
{
	struct canary *c = calloc(1, sizeof(*c));
	int err = 0;

	if (!c)
		return -ENOMEM;
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->changed, NULL);
	if (!realtime || !open_realtime(c)) {
		c->late_ns = CANARY_LATE_NS;
		c->watched = 1;
		err = pthread_create(&c->thread[0], NULL, canary_thread, c);
		c->threads = 1;
	}
	if (err) {
		pthread_cond_destroy(&c->changed);
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
	join(c);
	pthread_cond_destroy(&c->changed);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

bool canary_is_on(const struct canary *c)
{
	return c && !__atomic_load_n(&c->blind, __ATOMIC_RELAXED);
}

bool canary_is_realtime(const struct canary *c)
{
	return canary_is_on(c) && c->watched > 1;
}

static void note(struct canary *c, uint64_t begin_ns, uint64_t end_ns)
{
	c->stalls[c->count++ % CANARY_STALLS] = (struct stretch){begin_ns, end_ns};
	c->total_ns += end_ns - begin_ns;
}

void canary_late(struct canary *c, unsigned i, uint64_t due_ns, uint64_t woken_ns)
{
	struct stretch all = {due_ns, woken_ns};

	if (i >= c->watched)
		return;
	pthread_mutex_lock(&c->lock);
	c->late[i] = all;
	for (unsigned k = 0; k < c->watched; k++) {
		if (c->late[k].begin_ns > all.begin_ns)
			all.begin_ns = c->late[k].begin_ns;
		if (c->late[k].end_ns < all.end_ns)
			all.end_ns = c->late[k].end_ns;
	}
	if (all.end_ns > all.begin_ns + c->late_ns) {
		note(c, all.begin_ns, all.end_ns);
		c->points += (all.end_ns - all.begin_ns - c->late_ns) / CANARY_PERIOD_NS + 1;
	}
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

uint64_t canary_stolen_ns(struct canary *c)
{
	uint64_t points;

	/* watched, not started: the result must not fall when a thread ends */
	if (!c || c->watched < 2)
		return 0;
	pthread_mutex_lock(&c->lock);
	points = c->points;
	pthread_mutex_unlock(&c->lock);
	return points * CANARY_PERIOD_NS;
}
