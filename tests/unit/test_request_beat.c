/* SPDX-License-Identifier: Apache-2.0
 * test_request_beat.c - the requests' part of beats: its room, turns, and beats that do not arrive. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/requests/request_table.h"
#include "model/record.h"
#include "model/window.h"
#include "sidecar/serving/request_beat.h"
#include "wire/codec.h"

#define T0   1000000000000ull
#define JOBS 40u
#define ROOM 600u /* for some jobs */

struct fixture {
	struct request_table *t;
	struct request_beat q;
	struct beat b;
	struct beat_rank ranks[JOBS];
	uint64_t reported[JOBS]; /* arrivals in beats */
};

static void on_violation(void *arg, const char *job, uint32_t process, struct request_violation *v)
{
}

/* A request of that job arrives. */
static void arrives(struct fixture *f, uint32_t job, uint64_t id)
{
	struct record r = {.kind = RECORD_SPAN,
			   .flags = RECORD_FLAG_PYTHON,
			   .name = 1,
			   .key = id,
			   .func = 1, /* an API process */
			   .begin_ns = T0,
			   .end_ns = T0 + 1};

	request_table_record(f->t, job, &r);
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct request_config c;

	request_config_default(&c);
	assert_int_equal(request_table_open(&f->t, &c, on_violation, NULL), 0);
	request_table_tend(f->t, T0);
	f->b = (struct beat){.ranks = f->ranks, .rank_count = JOBS};
	for (uint32_t i = 0; i < JOBS; i++) {
		snprintf(f->ranks[i].rank.job, sizeof(f->ranks[i].rank.job), "serve-%u@1", i);
		assert_int_equal(request_table_begin(f->t, i, f->ranks[i].rank.job), 0);
		arrives(f, i, 7);
	}
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	request_table_close(f->t);
	free(f);
	return 0;
}

static void beat(struct fixture *f, bool arrived)
{
	size_t left = request_beat_fill(&f->q, f->t, &f->b, arrived, ROOM, T0);

	assert_true(left <= ROOM);
	for (uint32_t i = 0; i < f->q.count; i++)
		f->reported[strtoul(f->q.sent[i].job + strlen("serve-"), NULL, 10)] +=
		    f->q.sent[i].counts.arrived;
}

static void each_job_has_its_turn(void **state)
{
	struct fixture *f = *state;
	uint32_t beats = 0, done = 0;

	while (done < JOBS) {
		beat(f, true);
		assert_in_range(f->q.count, 1, JOBS / 2);
		assert_true(f->q.waits);
		/* what the first jobs have meanwhile keeps nobody from the room */
		arrives(f, 0, 100 + beats);
		arrives(f, 1, 100 + beats);
		done += f->q.count;
		beats++;
	}
	for (uint32_t i = 2; i < JOBS; i++)
		assert_int_equal(f->reported[i], 1);
	/* and nothing is said twice, or lost */
	for (uint32_t i = 0; i < beats; i++)
		beat(f, true);
	for (uint32_t i = 0; i < JOBS; i++)
		assert_int_equal(f->reported[i], i < 2 ? 1 + beats : 1);
}

static void what_did_not_arrive_is_said_again_when_there_is_room(void **state)
{
	struct fixture *f = *state;

	for (uint32_t i = 0; i < 8; i++)
		beat(f, false);
	memset(f->reported, 0, sizeof(f->reported));
	/* the last beat of these was lost, too */
	beat(f, false);
	for (uint32_t i = 0; i < 2 * JOBS; i++)
		beat(f, true);
	for (uint32_t i = 0; i < JOBS; i++)
		assert_int_equal(f->reported[i], 1);
}

static void jobs_without_a_rank_in_the_beat_wait(void **state)
{
	struct fixture *f = *state;

	f->b.rank_count = 1;
	beat(f, true);
	assert_int_equal(f->q.count, 1);
	assert_string_equal(f->q.sent[0].job, "serve-0@1");
	assert_false(f->q.waits);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
	    T(each_job_has_its_turn),
	    T(what_did_not_arrive_is_said_again_when_there_is_room),
	    T(jobs_without_a_rank_in_the_beat_wait),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
