/* SPDX-License-Identifier: Apache-2.0
 * What is written comes back as it was; what no writer writes is refused. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "node/journal.h"

static struct journal_writer w;
static struct buf packed;

static int setup(void **unused)
{
	buf_init(&packed, LIMIT_JOURNAL_BLOCK_BYTES + JOURNAL_HEAD_BYTES);
	return journal_writer_init(&w);
}

static int teardown(void **unused)
{
	journal_writer_fini(&w);
	buf_fini(&packed);
	return 0;
}

static struct journal_event rank_event(uint32_t slot)
{
	struct journal_event e = {.kind = JOURNAL_RANK, .slot = slot};

	strcpy(e.as.rank.job, "llama");
	strcpy(e.as.rank.role, "pp1");
	strcpy(e.as.rank.node, "node-7");
	e.as.rank.rank = -1;
	e.as.rank.world_size = 2048;
	steps_config_default(&e.as.rank.steps);
	judge_config_default(&e.as.rank.judge);
	e.as.rank.judge.roofline.seed = UINT64_MAX;
	return e;
}

/* Every field another value. */
static struct journal_event step_event(uint32_t slot)
{
	struct journal_event e = {.kind = JOURNAL_STEP, .slot = slot};
	struct step *s = &e.as.step.step;

	*s = (struct step){.index = 1,
			   .begin_ns = 2,
			   .end_ns = UINT64_MAX,
			   .device_begin_ns = 4,
			   .device_end_ns = 5,
			   .latency_ns = 6,
			   .self_ns = 7,
			   .compute_ns = 8,
			   .comm_ns = 9,
			   .exposed_comm_ns = 10,
			   .copy_ns = 11,
			   .idle_ns = 12,
			   .launch_gap_max_ns = 13,
			   .kernels = 14,
			   .launches = 15,
			   .collectives = 16,
			   .copies = 17,
			   .unmatched = UINT32_MAX,
			   .phase = 19,
			   .key = 20,
			   .work = {0.1, -0.0, INFINITY, 5e-324},
			   .work_count = 4,
			   .source = STEP_SOURCE_AUTO,
			   .flags = 23,
			   .device_latency_ns = 24};
	e.as.step.stalled_ns = 25;
	e.as.step.verdict = (struct judge_verdict){.skip = JUDGE_GAP,
						   .state = ROOFLINE_REFUSED,
						   .expected_ns = 1.0 / 3,
						   .expected_self_ns = 2.0 / 3,
						   .excess = 1e-300,
						   .self_excess = -1e300,
						   .out = true,
						   .self = true};
	return e;
}

/* Opens what is packed; the events are read by the caller. */
static struct journal_block *reopen(void)
{
	struct journal_block *b = NULL;
	uint32_t bytes = 0;

	assert_int_equal(journal_writer_pack(&w, &packed), 0);
	assert_int_equal(journal_block_bytes(packed.data, &bytes), 0);
	assert_int_equal(bytes, packed.bytes - JOURNAL_HEAD_BYTES);
	assert_int_equal(
	    journal_block_open(&b, packed.data, packed.data + JOURNAL_HEAD_BYTES, bytes), 0);
	return b;
}

/* Every field, and no padding: the bytes that a writer makes of it. */
static void assert_same_event(const struct journal_event *a, const struct journal_event *b)
{
	struct journal_writer one, other;

	assert_int_equal(journal_writer_init(&one), 0);
	assert_int_equal(journal_writer_init(&other), 0);
	journal_writer_event(&one, a);
	journal_writer_event(&other, b);
	assert_int_equal(one.events.bytes, other.events.bytes);
	assert_memory_equal(one.events.data, other.events.data, one.events.bytes);
	journal_writer_fini(&one);
	journal_writer_fini(&other);
}

static void every_kind_comes_back_in_its_order(void **unused)
{
	struct journal_event rank = rank_event(63), step = step_event(63), e, one;
	struct record r[5];
	struct step_mark mark = {.work = {1, 2.5}, .work_count = 2, .phase = 7};
	struct journal_block *b;

	memset(r, 0, sizeof(r));
	for (int i = 0; i < 5; i++)
		r[i] = (struct record){.begin_ns = 1000u + (uint64_t)i,
				       .end_ns = 2000,
				       .peer = -1,
				       .kind = i % 2 ? RECORD_KERNEL : RECORD_LAUNCH,
				       .name = 3};
	r[4].kind = RECORD_STEP_BEGIN;
	journal_writer_event(&w, &rank);
	journal_writer_record(&w, 63, &r[0], NULL);
	journal_writer_record(&w, 63, &r[1], NULL);
	journal_writer_record(&w, 2, &r[2], NULL);
	journal_writer_record(&w, 63, &r[3], NULL);
	journal_writer_record(&w, 63, &r[4], &mark);
	one = (struct journal_event){.kind = JOURNAL_RUN, .slot = 63, .as.device_ns = UINT64_MAX};
	journal_writer_event(&w, &one);
	journal_writer_event(&w, &step);
	one = (struct journal_event){.kind = JOURNAL_FLAG, .slot = 5};
	one.as.flag = (struct local_peers_flag){5, true, 10, 20, 0.1, 1e6};
	journal_writer_event(&w, &one);
	b = reopen();
	assert_int_equal(journal_block_next(b, &e), 1);
	assert_int_equal(e.kind, JOURNAL_RANK);
	assert_string_equal(e.as.rank.job, "llama");
	assert_string_equal(e.as.rank.node, "node-7");
	assert_int_equal(e.as.rank.rank, -1);
	assert_true(e.as.rank.judge.roofline.seed == UINT64_MAX && e.as.rank.world_size == 2048);
	assert_same_event(&e, &rank);
	/* what no setting changes is not recorded */
	assert_true(e.as.rank.judge.kinds.alike_ratio == rank.as.rank.judge.kinds.alike_ratio &&
		    e.as.rank.judge.kinds.miss_max == rank.as.rank.judge.kinds.miss_max);
	assert_int_equal(journal_block_next(b, &e), 1);
	assert_int_equal(e.kind, JOURNAL_RECORDS);
	assert_int_equal(e.as.records.count, 2);
	assert_memory_equal(e.as.records.first, r, 2 * sizeof(r[0]));
	assert_int_equal(journal_block_next(b, &e), 1);
	assert_int_equal(e.slot, 2);
	assert_memory_equal(e.as.records.first, &r[2], sizeof(r[0]));
	assert_int_equal(journal_block_next(b, &e), 1);
	assert_memory_equal(e.as.records.first, &r[3], sizeof(r[0]));
	assert_int_equal(journal_block_next(b, &e), 1);
	assert_int_equal(e.kind, JOURNAL_MARK);
	assert_true(e.as.mark.work[1] == 2.5 && e.as.mark.work_count == 2 && e.as.mark.phase == 7);
	assert_int_equal(journal_block_next(b, &e), 1);
	assert_memory_equal(e.as.records.first, &r[4], sizeof(r[0]));
	assert_int_equal(journal_block_next(b, &e), 1);
	assert_true(e.kind == JOURNAL_RUN && e.as.device_ns == UINT64_MAX);
	assert_int_equal(journal_block_next(b, &e), 1);
	assert_true(e.as.step.step.end_ns == UINT64_MAX && e.as.step.step.unmatched == UINT32_MAX);
	assert_true(signbit(e.as.step.step.work[1]) && isinf(e.as.step.step.work[2]));
	assert_true(e.as.step.verdict.expected_ns == 1.0 / 3 && e.as.step.verdict.self);
	assert_same_event(&e, &step);
	assert_int_equal(journal_block_next(b, &e), 1);
	assert_true(e.as.flag.ended && e.as.flag.slot == 5 && e.as.flag.end_ns == 20);
	assert_int_equal(journal_block_next(b, &e), 0);
	journal_block_close(b);
}

static void a_writer_is_full_before_anything_is_lost(void **unused)
{
	struct journal_event step = step_event(1), e;
	struct record r = {.kind = RECORD_LAUNCH, .peer = -1};
	struct journal_block *b;
	uint32_t steps = 0, records = 0;

	while (!journal_writer_full(&w)) {
		if (steps % 3)
			journal_writer_event(&w, &step);
		else
			journal_writer_record(&w, steps % 64, &r, NULL);
		steps++;
	}
	b = reopen();
	while (journal_block_next(b, &e) > 0) {
		records += e.kind == JOURNAL_RECORDS ? e.as.records.count : 0;
		steps -= e.kind == JOURNAL_STEP;
	}
	assert_int_equal(steps, records);
	assert_true(records > 1000);
	journal_block_close(b);
}

static void a_full_load_of_records_fits(void **unused)
{
	struct journal_block *b;
	struct journal_event e;
	uint32_t n = 0;
	uint64_t state = 1;
	struct record r;

	memset(&r, 0, sizeof(r));
	while (!journal_writer_full(&w)) {
		uint64_t *p = &r.begin_ns;

		for (int i = 0; i < 5; i++)
			p[i] = state = state * 6364136223846793005ull + 1442695040888963407ull;
		r.kind = RECORD_KERNEL;
		journal_writer_record(&w, n++ % 64, &r, NULL);
	}
	assert_int_equal(n, LIMIT_JOURNAL_RECORDS);
	b = reopen();
	while (journal_block_next(b, &e) > 0)
		n -= e.as.records.count;
	assert_int_equal(n, 0);
	journal_block_close(b);
}

static void settings_that_no_sysomd_has_are_refused(void **unused)
{
	for (int which = 0; which < 6; which++) {
		struct journal_event e = rank_event(0), out;
		struct roofline_config *c = &e.as.rank.judge.roofline;
		struct journal_block *b;

		if (which == 0)
			e.as.rank.steps.launch_max = UINT32_MAX;
		else if (which == 1)
			c->learn_max = LIMIT_JOURNAL_LEARN + 1;
		else if (which == 2)
			c->persist_m = 65;
		else if (which == 3)
			c->mode = (enum roofline_mode)2;
		else if (which == 4)
			c->tail_mads = NAN;
		else
			c->p99_retrain = 0;
		journal_writer_clear(&w);
		buf_clear(&packed);
		journal_writer_event(&w, &e);
		b = reopen();
		assert_int_equal(journal_block_next(b, &out), -EPROTO);
		journal_block_close(b);
	}
}

static void bent_bytes_are_reported(void **unused)
{
	struct journal_event step = step_event(1), e = {.kind = JOURNAL_FINISH, .slot = 64};
	struct journal_block *b;
	uint32_t bytes;

	journal_writer_event(&w, &step);
	assert_int_equal(journal_writer_pack(&w, &packed), 0);
	bytes = (uint32_t)(packed.bytes - JOURNAL_HEAD_BYTES);
	packed.data[JOURNAL_HEAD_BYTES + bytes / 2] ^= 1;
	assert_int_equal(
	    journal_block_open(&b, packed.data, packed.data + JOURNAL_HEAD_BYTES, bytes), -EBADMSG);
	packed.data[0] ^= 1;
	assert_int_equal(journal_block_bytes(packed.data, &bytes), -EPROTO);
	/* a slot beyond the last one */
	journal_writer_clear(&w);
	buf_clear(&packed);
	journal_writer_event(&w, &e);
	b = reopen();
	assert_int_equal(journal_block_next(b, &e), -EPROTO);
	journal_block_close(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(every_kind_comes_back_in_its_order, setup, teardown),
	    cmocka_unit_test_setup_teardown(a_writer_is_full_before_anything_is_lost, setup,
					    teardown),
	    cmocka_unit_test_setup_teardown(a_full_load_of_records_fits, setup, teardown),
	    cmocka_unit_test_setup_teardown(settings_that_no_sysomd_has_are_refused, setup,
					    teardown),
	    cmocka_unit_test_setup_teardown(bent_bytes_are_reported, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
