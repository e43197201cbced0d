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
#include "aggregator/store/store.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/limits.h"
#include "tests/fleet_synth.h"

#define S 1000000000ull

static char dir[64];
static struct fleet *fleet;
static struct commit *commit;

static int open_commit(void)
{
	struct commit_config c = {
	    .dir = dir,
	    .retention.rest.window_age_ns = 3600 * S,
	    .retention.rest.incident_age_ns = 24 * 3600 * S,
	    .max_bytes = 1ull << 30,
	    .incident = {.gap_ns = 5 * S, .silence_ns = 600 * S, .memory_ns = 3600 * S}};

	return commit_open(&commit, &c, fleet);
}

static int setup(void **unused)
{
	strcpy(dir, "/tmp/test_commit_XXXXXX");
	if (!mkdtemp(dir) || fs_open_fleet(&fleet, 60 * S, 3600 * S))
		return -1;
	return open_commit();
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
	struct store_totals t = {0};
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
	struct finding_report f = {.finding = {.kind = FINDING_SLOW_RANK, .rank_count = 1}};
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

/* The id of the incident that a window of this id opens. */
static void open_incident(char id[INCIDENT_ID_BYTES])
{
	struct commit_item item = {.digest = {.id = "chosen", .reason = WINDOW_SELF},
				   .done = on_done};
	struct store *s;
	uint32_t ok = 0;

	strcpy(item.digest.rank.job, "job@1");
	item.digest.end_unix_ns = clock_realtime_ns();
	item.digest.begin_unix_ns = item.digest.end_unix_ns - S;
	item.body = &ok;
	item.bytes = sizeof(ok);
	assert_int_equal(commit_push(commit, &item), 0);
	commit_stop(commit);
	assert_int_equal(ok, 1);
	assert_int_equal(store_open_reader(&s, dir), 0);
	for (char begin[2] = "0"; begin[0] <= 'f'; begin[0] += begin[0] == '9' ? 'a' - '9' : 1)
		if (!store_incident_id(s, NULL, begin, id))
			break;
	store_close(s);
}

/* An incident's id comes from the id of its first window, which the sender can choose. */
static void no_id_of_an_incident_in_the_store_is_given_again(void **unused)
{
	struct incident_row row = {.job = "job@2", .begin_unix_ns = 1, .end_unix_ns = 2};
	char command[128], second[INCIDENT_ID_BYTES];
	struct store *s;
	json_t *j;

	row.arrival_unix_ns = clock_realtime_ns() - 7200 * S; /* not restored */
	open_incident(row.id);
	commit_close(commit);
	snprintf(command, sizeof(command), "rm %s/store.db*", dir);
	assert_int_equal(system(command), 0);
	assert_int_equal(store_open(&s, dir), 0);
	assert_int_equal(store_begin(s), 0);
	assert_int_equal(store_put_incident(s, &row, "{\"whose\":\"of 2\"}"), 0);
	assert_int_equal(store_commit(s), 0);
	store_close(s);
	assert_int_equal(open_commit(), 0);
	open_incident(second);
	assert_int_equal(stored().incidents, 2);
	assert_int_equal(store_open_reader(&s, dir), 0);
	j = store_incident_json(s, row.id);
	assert_string_equal(json_string_value(json_object_get(j, "whose")), "of 2");
	json_decref(j);
	store_close(s);
}

/* The next one has half a second to report it again; it knows the job. */
static void report_before_a_restart(const struct finding_report *f)
{
	struct commit_config c = {
	    .dir = dir,
	    .retention.rest.window_age_ns = 3600 * S,
	    .retention.rest.incident_age_ns = 3600 * S,
	    .max_bytes = 1ull << 30,
	    .report_again_ns = S / 2,
	    .incident = {.gap_ns = 1, .silence_ns = S / 10, .memory_ns = 3600 * S}};
	struct beat_rank rank = {.rank = {.job = "job", .node = "n0", .world_size = 8}};
	struct beat beat = {
	    .node = "n0", .sequence = 1, .now_ns = S, .ranks = &rank, .rank_count = 1};

	assert_int_equal(commit_push_finding(commit, f), 0);
	commit_stop(commit);
	commit_close(commit);
	assert_int_equal(stored().open_incidents, 1);
	assert_int_equal(commit_open(&commit, &c, fleet), 0);
	/* before anybody looks at what is silent */
	fleet_beat(fleet, &beat, (struct fleet_via){.connection = 1}, clock_monotonic_ns());
}

/* Nobody would report its end: who reported it is gone. */
static void what_was_reported_before_a_restart_ends_unless_it_is_reported_again(void **unused)
{
	struct finding_report f = {.job = "job",
				   .finding = {.kind = FINDING_SLOW_RANK, .rank_count = 1}};
	const struct timespec pause = {.tv_nsec = 20000000};

	f.begin_unix_ns = clock_realtime_ns() - 9 * S;
	f.end_unix_ns = f.begin_unix_ns + 9 * S;
	report_before_a_restart(&f);
	for (int k = 0; k < 500 && stored().open_incidents; k++)
		nanosleep(&pause, NULL);
	assert_int_equal(fleet_job_ranks(fleet, "job", clock_monotonic_ns()), 1);
	commit_stop(commit);
	assert_int_equal(stored().open_incidents, 0);
}

/* The fault goes on, and whoever looks anew sees it begin when it began to look. */
static void what_is_reported_again_after_a_restart_is_the_same_incident(void **unused)
{
	struct finding_report f = {.job = "job",
				   .finding = {.kind = FINDING_SLOW_RANK,
					       .rank_count = 2,
					       .ranks = {5, 3},
					       .first_step = 100,
					       .last_step = 200}};
	const struct timespec pause = {.tv_nsec = 800000000};

	f.begin_unix_ns = clock_realtime_ns() - 60 * S;
	f.end_unix_ns = f.begin_unix_ns + 20 * S;
	report_before_a_restart(&f);
	f.begin_unix_ns += 50 * S;
	f.finding.first_step = 600;
	/* by now of the third rank alone, then with another one first */
	for (int n = 0; n < 3; n++) {
		f.finding.rank_count = n ? 2 : 1;
		f.finding.ranks[0] = n ? 4 : 3;
		f.finding.ranks[1] = 3;
		f.end_unix_ns = clock_realtime_ns();
		f.finding.last_step = 700 + (uint64_t)n;
		assert_int_equal(commit_push_finding(commit, &f), 0);
		nanosleep(&pause, NULL);
	}
	assert_int_equal(stored().incidents, 1);
	assert_int_equal(stored().open_incidents, 1);
	f.ended = true;
	assert_int_equal(commit_push_finding(commit, &f), 0);
	for (int k = 0; k < 10 && stored().open_incidents; k++)
		nanosleep(&pause, NULL);
	commit_stop(commit);
	assert_int_equal(stored().incidents, 1);
	assert_int_equal(stored().open_incidents, 0);
}

/* ---- names that come later ---- */

#define MS    1000000ull
#define STEPS 20u

static _Atomic uint32_t files_of_names;

static bool name_it(void *arg, const uint8_t *build_id, size_t build_id_bytes, uint64_t address,
		    char *out, size_t out_bytes)
{
	if (files_of_names)
		snprintf(out, out_bytes, "function_at_%u", (unsigned)(address / 1000));
	return files_of_names != 0;
}

static uint64_t files(void *arg)
{
	return files_of_names;
}

static void is_done(struct commit_item *item, enum wire_status status, const char *why)
{
}

/* 20 steps of 100 ms, of the slow rank 130, of which its launching thread runs so much in one function. */
static void stacked(struct commit_item *item, struct buf *b, int32_t rank, bool slow)
{
	static const uint8_t build_id[2] = {1, 2};
	static struct window_step steps[STEPS];
	struct stack_frame frame = {.kind = STACK_FRAME_NATIVE, .address = slow ? 1000 : 2000};
	struct record launch = {
	    .kind = RECORD_LAUNCH, .begin_ns = S + 1, .end_ns = S + 2, .thread = 7};
	uint64_t more = slow ? 30 * MS : 0, t = S, cpu = 10 * MS + more;
	struct window w = {
	    .begin_ns = t,
	    .reason = slow ? WINDOW_SELF : WINDOW_ASKED,
	    .steps = steps,
	    .step_count = STEPS,
	    .host = &launch,
	    .host_count = 1,
	    .raw_bytes = 5000,
	    .realtime_offset_ns = (int64_t)(clock_realtime_ns() - 4 * S),
	    .rank = {.job = "job", .node = "n0", .rank = rank, .world_size = 8, .pid = 7}};

	memcpy(w.id, &rank, sizeof(rank));
	memset(w.anomaly_id, 1, sizeof(w.anomaly_id));
	for (uint32_t k = 0; k < STEPS; k++, t += 100 * MS + more) {
		steps[k] = (struct window_step){
		    .step = {.index = k,
			     .begin_ns = t,
			     .end_ns = t + 100 * MS + more,
			     .kernels = 3,
			     .latency_ns = 100 * MS + more,
			     .self_ns = 90 * MS + more,
			     .compute_ns = 50 * MS,
			     .idle_ns = 40 * MS + more},
		    .expected_ns = 100 * MS,
		    .expected_self_ns = 90 * MS,
		    .flags = slow ? WINDOW_STEP_OUT | WINDOW_STEP_FLAGGED : WINDOW_STEP_MARGIN};
	}
	w.end_ns = t;
	stack_batch_init(&w.stacks, keyed_process());
	w.stacks.begin_ns = w.begin_ns;
	w.stacks.end_ns = w.end_ns;
	assert_int_equal(stack_batch_object(&w.stacks, build_id, 2, "/lib/libx.so", &frame.object),
			 0);
	for (uint32_t k = 0; k < 100; k++) {
		struct stack_sample s = {.weight_ns = cpu * STEPS / 100,
					 .pid = 7,
					 .tid = 7,
					 .count = 1,
					 .kind = STACK_ON_CPU,
					 .time_ns = w.begin_ns + k};

		assert_int_equal(
		    stack_batch_stack(&w.stacks, &frame, 1, 0, STACK_END_ROOT, &s.stack), 0);
		assert_int_equal(stack_batch_sample(&w.stacks, &s), 0);
	}
	buf_init(b, 1 << 20);
	assert_int_equal(wire_window_encode(&w, b), 0);
	*item = (struct commit_item){.body = b->data, .bytes = b->bytes, .done = is_done};
	digest_make(&w, b->bytes, &item->digest);
	item->digest.excerpt = excerpt_make(&w, name_it, NULL);
	stack_batch_fini(&w.stacks);
}

static bool incident_says(const char *word)
{
	struct store *s;
	struct buf list;
	bool says;

	assert_int_equal(store_open_reader(&s, dir), 0);
	buf_init(&list, 1 << 20);
	assert_int_equal(store_list(s, &(struct store_list){.job = "job", .limit = 10}, &list), 0);
	buf_append(&list, "", 1);
	says = strstr((char *)list.data, word);
	buf_fini(&list);
	store_close(s);
	return says;
}

static void wait_for(const char *word)
{
	const struct timespec pause = {.tv_nsec = 20000000};

	for (int k = 0; k < 500 && !incident_says(word); k++)
		nanosleep(&pause, NULL);
	assert_true(incident_says(word));
}

static void windows_that_came_before_the_symbols_get_names(void **unused)
{
	struct commit_config c = {
	    .dir = dir,
	    .retention.rest.window_age_ns = 3600 * S,
	    .retention.rest.incident_age_ns = 3600 * S,
	    .max_bytes = 1ull << 30,
	    .name = name_it,
	    .named = files,
	    .incident = {.gap_ns = 5 * S, .silence_ns = 600 * S, .memory_ns = 3600 * S}};
	struct commit_item item[6];
	struct commit_stats stats;
	struct buf b[6];

	commit_stop(commit);
	commit_close(commit);
	assert_int_equal(commit_open(&commit, &c, fleet), 0);
	for (int32_t k = 0; k < 6; k++) { /* the slow rank's first: it opens the incident */
		if (k == 5) {
			wait_for("\"window_count\":5");
			assert_false(incident_says("function_at_1"));
			files_of_names = 1; /* the last one's are known when it comes */
		}
		stacked(&item[k], &b[k], k, !k);
		assert_int_equal(commit_push(commit, &item[k]), 0);
	}
	wait_for("function_at_1");
	commit_stop(commit);
	commit_stats(commit, &stats);
	assert_int_equal(stats.committed, 6);
	assert_true(stats.incidents_renamed >= 1);
	/* and is the same otherwise */
	assert_true(incident_says("\"window_count\":6") && incident_says("\"flagged_steps\":20"));
	assert_int_equal(stored().incidents, 1);
	for (int32_t k = 0; k < 6; k++) {
		excerpt_drop(item[k].digest.excerpt);
		buf_fini(&b[k]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(every_finding_of_a_burst_is_stored, setup, teardown),
	    cmocka_unit_test_setup_teardown(what_has_no_room_is_closed_in_the_store_and_counted,
					    setup, teardown),
	    cmocka_unit_test_setup_teardown(no_id_of_an_incident_in_the_store_is_given_again, setup,
					    teardown),
	    cmocka_unit_test_setup_teardown(windows_that_came_before_the_symbols_get_names, setup,
					    teardown),
	    cmocka_unit_test_setup_teardown(
		what_is_reported_again_after_a_restart_is_the_same_incident, setup, teardown),
	    cmocka_unit_test_setup_teardown(
		what_was_reported_before_a_restart_ends_unless_it_is_reported_again, setup,
		teardown),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
