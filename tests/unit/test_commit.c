/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "aggregator/commit.h"
#include "base/clock.h"
#include "base/limits.h"

#define S 1000000000ull

static char dir[64];
static struct fleet *fleet;
static struct commit *commit;

static int setup(void **unused)
{
	struct commit_config c = { .dir = dir, .window_age_ns = 3600 * S, .incident_age_ns = 3600 * S,
				   .max_bytes = 1ull << 30,
				   .incident = { .gap_ns = 5 * S, .silence_ns = 600 * S,
						 .memory_ns = 3600 * S } };

	strcpy(dir, "/tmp/test_commit_XXXXXX");
	if (!mkdtemp(dir) || fleet_open(&fleet, 60 * S, 3600 * S))
		return -1;
	return commit_open(&commit, &c, fleet);
}

static int teardown(void **unused)
{
	char command[128];

	commit_close(commit);
	fleet_close(fleet);
	snprintf(command, sizeof(command), "rm -rf '%s'", dir);
	return system(command);
}

static void on_done(struct commit_item *item, enum wire_status status, const char *why)
{
	__atomic_add_fetch((uint32_t *)item->body, status == WIRE_OK, __ATOMIC_RELAXED);
}

static struct store_totals stored(void)
{
	struct store_totals t = { 0 };
	struct store *s;

	assert_int_equal(store_open_reader(&s, dir), 0);
	assert_int_equal(store_totals(s, &t), 0);
	store_close(s);
	return t;
}

/* They queue up while the first of them waits for the disk. */
static void every_finding_of_a_burst_is_stored(void **unused)
{
	const uint32_t count = LIMIT_COMMIT_FINDINGS - 24;
	struct incident_finding f = { .finding = { .kind = FINDING_SLOW_RANK, .rank_count = 1 } };
	struct commit_stats stats;

	f.begin_unix_ns = clock_realtime_ns() - 9 * S;
	f.end_unix_ns = f.begin_unix_ns + 9 * S;
	for (uint32_t k = 0; k < count; k++) {
		snprintf(f.job, sizeof(f.job), "job-%u", k);
		assert_int_equal(commit_push_finding(commit, &f), 0);
	}
	commit_stop(commit);
	commit_stats(commit, &stats);
	assert_int_equal(stats.findings, count);
	assert_int_equal(stored().incidents, count);
}

static void what_has_no_room_is_closed_in_the_store_and_counted(void **unused)
{
	const uint32_t count = LIMIT_INCIDENTS_LIVE + 100;
	struct commit_item *items = calloc(count, sizeof(*items));
	uint64_t now = clock_realtime_ns();
	struct commit_stats stats;
	uint32_t ok = 0;

	for (uint32_t k = 0; k < count; k++) {
		struct digest *d = &items[k].digest;

		memcpy(d->id, &k, sizeof(k));
		snprintf(d->rank.job, sizeof(d->rank.job), "job-%u", k);
		d->reason = WINDOW_SELF;
		d->begin_unix_ns = now - 2 * S;
		d->end_unix_ns = now - S;
		items[k].body = &ok;
		items[k].bytes = sizeof(ok);
		items[k].done = on_done;
		assert_int_equal(commit_push(commit, &items[k]), 0);
	}
	commit_stop(commit);
	commit_stats(commit, &stats);
	assert_int_equal(ok, count);
	assert_int_equal(stats.incidents_evicted, 100);
	assert_int_equal(stored().incidents, count);
	assert_int_equal(stored().open_incidents, LIMIT_INCIDENTS_LIVE);
	free(items);
}

/* Nobody would tell its end: who told it is gone. */
static void what_was_told_before_a_restart_ends_unless_it_is_told_again(void **unused)
{
	struct commit_config c = { .dir = dir, .window_age_ns = 3600 * S, .incident_age_ns = 3600 * S,
				   .max_bytes = 1ull << 30,
				   .incident = { .gap_ns = 1, .silence_ns = S / 10,
						 .memory_ns = 3600 * S } };
	struct incident_finding f = { .job = "job",
				      .finding = { .kind = FINDING_SLOW_RANK, .rank_count = 1 } };
	struct beat_rank rank = { .rank = { .job = "job", .node = "n0", .world_size = 8 } };
	struct beat beat = { .node = "n0", .sequence = 1, .now_ns = S, .ranks = &rank, .rank_count = 1 };
	const struct timespec pause = { .tv_nsec = 20000000 };

	f.begin_unix_ns = clock_realtime_ns() - 9 * S;
	f.end_unix_ns = f.begin_unix_ns + 9 * S;
	assert_int_equal(commit_push_finding(commit, &f), 0);
	commit_stop(commit);
	commit_close(commit);
	assert_int_equal(stored().open_incidents, 1);
	assert_int_equal(commit_open(&commit, &c, fleet), 0);
	/* before anybody looks at what is silent */
	fleet_beat(fleet, &beat, (struct fleet_via){ .connection = 1 }, clock_monotonic_ns());
	for (int k = 0; k < 500 && stored().open_incidents; k++)
		nanosleep(&pause, NULL);
	assert_int_equal(fleet_job_ranks(fleet, "job", clock_monotonic_ns()), 1);
	assert_int_equal(stored().open_incidents, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(every_finding_of_a_burst_is_stored, setup, teardown),
		cmocka_unit_test_setup_teardown(what_has_no_room_is_closed_in_the_store_and_counted, setup,
						teardown),
		cmocka_unit_test_setup_teardown(what_was_told_before_a_restart_ends_unless_it_is_told_again,
						setup, teardown),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
