/* SPDX-License-Identifier: Apache-2.0
 * The machine stands still for whoever sleeps on it when every CPU is taken by real-time threads of the
 * highest priority: as good as a hypervisor that runs others. */
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/daemon/realtime.h"
#include "node/canary.h"
#include "tests/unit/skip.h"

#define MS	 1000000ull
#define STOP_NS	 (150 * MS)
#define CPUS_MAX 1024

static uint64_t from_ns; /* when all begin */
static bool refused;	 /* as by a filter of system calls */

int clock_nanosleep(clockid_t id, int flags, const struct timespec *t, struct timespec *left)
{
	if (__atomic_load_n(&refused, __ATOMIC_RELAXED))
		return EPERM;
	return syscall(SYS_clock_nanosleep, id, flags, t, left) ? errno : 0;
}

static void *take_cpu(void *arg)
{
	(void)arg;
	clock_sleep_until(from_ns);
	while (clock_monotonic_ns() < from_ns + STOP_NS)
		;
	return NULL;
}

/* The first max of the CPUs that the process may use; ns that the canary saw the host stand still. */
static uint64_t seen_while_taken(struct canary *c, int max)
{
	pthread_t thread[CPUS_MAX];
	int n = 0;
	cpu_set_t all;

	assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
	from_ns = clock_monotonic_ns() + 50 * MS;
	for (int i = 0; i < CPUS_MAX && n < max; i++)
		if (CPU_ISSET(i, &all))
			assert_int_equal(realtime_thread(&thread[n++], i, take_cpu, NULL), 0);
	for (int i = 0; i < n; i++)
		pthread_join(thread[i], NULL);
	usleep(100000); /* until all have woken */
	return canary_stalled_ns(c, from_ns, from_ns + STOP_NS);
}

static void sees_the_machine_stand_still(void **state)
{
	struct canary *c;
	uint64_t stolen_ns, count, total_ns;

	(void)state;
	assert_int_equal(canary_open(&c, true), 0);
	if (!canary_is_realtime(c)) {
		canary_close(c);
		skip_needs("realtime");
	}
	canary_run(c, true);
	usleep(50000);
	stolen_ns = canary_stolen_ns(c);
	assert_true(seen_while_taken(c, CPUS_MAX) >= STOP_NS - 2 * CANARY_PERIOD_NS);
	stolen_ns = canary_stolen_ns(c) - stolen_ns;
	assert_true(stolen_ns >= STOP_NS - 2 * CANARY_PERIOD_NS);
	canary_totals(c, &count, &total_ns);
	assert_true(count >= 1 && total_ns >= STOP_NS - 2 * CANARY_PERIOD_NS);
	/* one CPU alone: that is a rank's affair */
	assert_true(seen_while_taken(c, 1) < STOP_NS / 2);
	canary_close(c);
}

static void an_ordinary_thread_says_nothing_of_the_hypervisor(void **state)
{
	struct canary *c;
	uint64_t now_ns = clock_monotonic_ns() + 1800000 * MS; /* its own stalls are elsewhere */

	(void)state;
	assert_int_equal(canary_open(&c, false), 0);
	assert_false(canary_is_realtime(c));
	canary_late(c, 0, now_ns, now_ns + 40 * MS);
	assert_int_equal(canary_stalled_ns(c, now_ns + 10 * MS, now_ns + 20 * MS), 10 * MS);
	assert_int_equal(canary_stalled_ns(c, now_ns - 10 * MS, now_ns + 100 * MS), 40 * MS);
	assert_int_equal(canary_stalled_ns(c, now_ns + 40 * MS, now_ns + 100 * MS), 0);
	assert_int_equal(canary_stolen_ns(c), 0);
	canary_close(c);
	assert_int_equal(canary_stolen_ns(NULL), 0);
	assert_int_equal(canary_stalled_ns(NULL, 0, now_ns), 0);
}

/* Each of four CPUs has its own reasons to be late; together they have the last 23 ms of 63. */
static void counts_what_all_were_late_in(void **state)
{
	struct canary *c;
	uint64_t at = (clock_monotonic_ns() / CANARY_PERIOD_NS + 180000) * CANARY_PERIOD_NS;
	uint64_t stolen_ns;

	(void)state;
	assert_int_equal(canary_open(&c, true), 0);
	if (!canary_is_realtime(c)) {
		canary_close(c);
		skip_needs("realtime");
	}
	stolen_ns = canary_stolen_ns(c);
	canary_late(c, 0, at, at + 63 * MS);
	assert_int_equal(canary_stalled_ns(c, at, at + 100 * MS), 0);
	for (unsigned i = 1; i < CANARY_CPUS; i++)
		canary_late(c, i, at + 40 * MS, at + 80 * MS);
	assert_int_equal(canary_stalled_ns(c, at, at + 100 * MS), 23 * MS);
	/* the moments at 40 and 60 ms */
	assert_true(canary_stolen_ns(c) - stolen_ns >= 2 * CANARY_PERIOD_NS);
	canary_close(c);
}

/* The thread whose number is largest. */
static int youngest_thread(void)
{
	DIR *d = opendir("/proc/self/task");
	int youngest = 0;
	struct dirent *e;

	assert_non_null(d);
	while ((e = readdir(d)))
		if (atoi(e->d_name) > youngest)
			youngest = atoi(e->d_name);
	closedir(d);
	return youngest;
}

/* Of the threads that are younger than this one: the canary's, and none of a sanitizer's. */
static unsigned long younger_woken(int than)
{
	DIR *d = opendir("/proc/self/task");
	unsigned long sum = 0, n;
	char path[300], line[128];
	struct dirent *e;

	assert_non_null(d);
	while ((e = readdir(d))) {
		FILE *f;

		snprintf(path, sizeof(path), "/proc/self/task/%s/status", e->d_name);
		if (atoi(e->d_name) <= than || !(f = fopen(path, "re")))
			continue;
		while (fgets(line, sizeof(line), f))
			if (sscanf(line, "voluntary_ctxt_switches: %lu", &n) == 1)
				sum += n;
		fclose(f);
	}
	closedir(d);
	return sum;
}

/* Its threads wait for good while nobody needs them; when they run and stop again, too. */
static void sleeps_until_it_is_to_run(void **state)
{
	int youngest = youngest_thread();
	unsigned long before;
	struct canary *c;

	(void)state;
	assert_int_equal(canary_open(&c, true), 0);
	for (int i = 0; i < 2; i++) {
		canary_run(c, true);
		before = younger_woken(youngest);
		while (younger_woken(youngest) < before + 3)
			usleep(1000);
		canary_run(c, false);
		usleep(3 * CANARY_PERIOD_NS / 1000);
		for (int tries = 0;; tries++) { /* until the last of them has come to rest */
			assert_true(tries < 20);
			before = younger_woken(youngest);
			usleep(10 * CANARY_PERIOD_NS / 1000);
			if (younger_woken(youngest) == before)
				break;
		}
	}
	canary_close(c);
}

/* It must not spin: at its priority nothing else would run. */
static void ends_if_its_sleep_does_not_last(void **state)
{
	int youngest = youngest_thread();
	uint64_t at = (clock_monotonic_ns() / CANARY_PERIOD_NS + 180000) * CANARY_PERIOD_NS;
	uint64_t stolen_ns;
	struct canary *c;

	(void)state;
	assert_int_equal(canary_open(&c, true), 0);
	assert_true(canary_is_on(c));
	for (unsigned i = 0; i < CANARY_CPUS; i++)
		canary_late(c, i, at, at + 63 * MS);
	stolen_ns = canary_stolen_ns(c);
	canary_run(c, true);
	__atomic_store_n(&refused, true, __ATOMIC_RELAXED);
	for (int tries = 0; youngest_thread() > youngest; tries++) {
		assert_true(tries < 1000);
		usleep(10000);
	}
	assert_false(canary_is_on(c) || canary_is_realtime(c));
	/* what was counted stays counted */
	assert_true(canary_stolen_ns(c) >= stolen_ns);
	canary_close(c);
	__atomic_store_n(&refused, false, __ATOMIC_RELAXED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(sees_the_machine_stand_still),
	    cmocka_unit_test(an_ordinary_thread_says_nothing_of_the_hypervisor),
	    cmocka_unit_test(sleeps_until_it_is_to_run),
	    cmocka_unit_test(counts_what_all_were_late_in),
	    cmocka_unit_test(ends_if_its_sleep_does_not_last),
	};

	return cmocka_run_group_tests_name("canary", tests, NULL, NULL);
}
