/* SPDX-License-Identifier: Apache-2.0
 * A recording gives the same results again. A difference from the live ones is reported. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cli/replay/replay_journal.h"
#include "tests/journal_synth.h"

#define STEPS	  300u
#define SLOW_FROM 150u

struct outcome {
	int err;
	struct replay_journal_stats stats;
	char *text;
	uint32_t taken, flagged, flags;
};

/* Live as `bend` would have it, then again. */
static struct outcome run(void (*bend)(struct journal_event *, uint32_t), bool live)
{
	struct outcome o = {0};
	struct replay_journal *r;
	struct journal_synth j;
	struct buf b;
	size_t bytes;
	FILE *to = open_memstream(&o.text, &bytes);

	buf_init(&b, LIMIT_JOURNAL_BLOCK_BYTES);
	journal_synth_open(&j, bend);
	for (uint32_t i = 0; i < STEPS; i++)
		journal_synth_step(&j, i, i < SLOW_FROM ? 0 : 0.3);
	journal_synth_end(&j);
	assert_false(journal_writer_full(&j.w));
	assert_int_equal(journal_writer_pack(&j.w, &b), 0);
	assert_int_equal(replay_journal_open(&r, to, true, live), 0);
	o.err = replay_journal_block(r, b.data, b.data + JOURNAL_HEAD_BYTES,
				     (uint32_t)(b.bytes - JOURNAL_HEAD_BYTES));
	replay_journal_finish(r);
	replay_journal_stats_get(r, &o.stats);
	o.taken = j.taken;
	o.flagged = j.flagged;
	o.flags = j.flags;
	replay_journal_close(r);
	journal_synth_close(&j);
	buf_fini(&b);
	fclose(to);
	return o;
}

static void the_same_input_gives_the_same_lines(void **unused)
{
	struct outcome here = run(NULL, false), live = run(NULL, true);

	assert_int_equal(here.err, 0);
	assert_int_equal(here.stats.differ, 0);
	assert_true(here.stats.ended);
	assert_int_equal(here.stats.ranks, JOURNAL_SYNTH_RANKS);
	assert_int_equal(here.stats.steps, here.taken);
	assert_true(here.taken > JOURNAL_SYNTH_RANKS * (STEPS - 5));
	assert_int_equal(here.stats.flagged, here.flagged);
	assert_true(here.flagged > 100); /* of the slow rank */
	assert_true(here.flags > 0 && here.stats.findings > 0);
	assert_non_null(strstr(here.text, "\"ranks\":[1]"));
	assert_null(strstr(here.text, "\"ranks\":[0]"));
	assert_string_equal(here.text, live.text);
	free(here.text);
	free(live.text);
}

static void bend_one_bit(struct journal_event *e, uint32_t nth)
{
	if (e->kind == JOURNAL_STEP && nth == 300)
		e->as.step.verdict.excess = nextafter(e->as.step.verdict.excess, 1);
}

static void bend_flag(struct journal_event *e, uint32_t nth)
{
	if (e->kind == JOURNAL_STEP && nth == 300)
		e->as.step.verdict.flagged = !e->as.step.verdict.flagged;
}

static void bend_step(struct journal_event *e, uint32_t nth)
{
	if (e->kind == JOURNAL_STEP && nth == 300)
		e->as.step.step.exposed_comm_ns++;
}

static void bend_peer(struct journal_event *e, uint32_t nth)
{
	if (e->kind == JOURNAL_FLAG && !e->as.flag.ended)
		e->as.flag.excess_ns = nextafter(e->as.flag.excess_ns, 1e18);
}

static void a_last_bit_is_a_difference(void **unused)
{
	void (*const bends[])(struct journal_event *, uint32_t) = {bend_one_bit, bend_flag,
								   bend_step};

	for (size_t i = 0; i < sizeof(bends) / sizeof(bends[0]); i++) {
		struct outcome o = run(bends[i], false);

		assert_int_equal(o.err, 0);
		assert_int_equal(o.stats.differ, 1);
		free(o.text);
	}
}

static void so_is_what_the_peers_said(void **unused)
{
	struct outcome o = run(bend_peer, false);

	assert_int_equal(o.err, 0);
	assert_true(o.stats.differ >= 1);
	free(o.text);
}

static void lose_step(struct journal_event *e, uint32_t nth)
{
	if ((e->kind == JOURNAL_STEP || e->kind == JOURNAL_COMPARE) && nth == 300)
		e->kind = 0;
}

static void a_step_that_nobody_saw_live_is_reported(void **unused)
{
	struct outcome o = run(lose_step, false);

	assert_int_equal(o.err, 0);
	assert_true(o.stats.differ >= 1);
	free(o.text);
}

static void lose_rank(struct journal_event *e, uint32_t nth)
{
	if (e->kind == JOURNAL_RUN)
		e->slot = 9;
}

static void a_rank_without_its_settings_is_refused(void **unused)
{
	struct outcome o = run(lose_rank, false);

	assert_int_equal(o.err, -EPROTO);
	free(o.text);
}

/* Each of them 100 bytes and 120 MB. */
static void ranks_that_come_and_go_without_end_are_refused(void **unused)
{
	struct journal_event e = {.kind = JOURNAL_RANK};
	struct replay_journal *r;
	struct journal_writer w;
	FILE *to = fopen("/dev/null", "w");
	struct buf b;

	assert_int_equal(journal_writer_init(&w), 0);
	steps_config_default(&e.as.rank.steps);
	e.as.rank.steps.launch_max = 256;
	judge_config_default(&e.as.rank.judge);
	e.as.rank.judge.roofline.learn_max = LIMIT_JOURNAL_LEARN;
	for (int i = 0; i < 16; i++)
		journal_writer_event(&w, &e);
	buf_init(&b, LIMIT_JOURNAL_BLOCK_BYTES);
	assert_int_equal(journal_writer_pack(&w, &b), 0);
	assert_int_equal(replay_journal_open(&r, to, true, false), 0);
	assert_int_equal(replay_journal_block(r, b.data, b.data + JOURNAL_HEAD_BYTES,
					      (uint32_t)(b.bytes - JOURNAL_HEAD_BYTES)),
			 -E2BIG);
	replay_journal_close(r);
	journal_writer_fini(&w);
	buf_fini(&b);
	fclose(to);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_same_input_gives_the_same_lines),
	    cmocka_unit_test(a_last_bit_is_a_difference),
	    cmocka_unit_test(so_is_what_the_peers_said),
	    cmocka_unit_test(a_step_that_nobody_saw_live_is_reported),
	    cmocka_unit_test(a_rank_without_its_settings_is_refused),
	    cmocka_unit_test(ranks_that_come_and_go_without_end_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
