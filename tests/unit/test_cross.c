/* SPDX-License-Identifier: Apache-2.0
 * What beats can't be made to say at will: flags that come and go, clocks that stand anywhere. The rest
 * of cross is seen through test_fleet.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/cross/cross_private.h"

#define RANKS 4u
#define S     1000000000ull

static struct cross_slot slots[RANKS];
static struct cross_member members[RANKS];
static struct cross_role_part role_part;
static struct cross *cross;

static int setup(void **unused)
{
	cross = calloc(1, sizeof(*cross));
	if (!cross)
		return -1;
	memset(&role_part, 0, sizeof(role_part));
	memset(slots, 0, sizeof(slots));
	memset(members, 0, sizeof(members));
	for (uint32_t k = 0; k < RANKS; k++) {
		slots[k] = (struct cross_slot){.used = true,
					       .placed = true,
					       .rank = (int32_t)k,
					       .node = k,
					       .role_part = CROSS_NONE};
		members[k].slot = k;
	}
	role_part.used = true;
	role_part.members = members;
	role_part.count = RANKS;
	role_part.steps = 1;
	cross->slots = slots;
	cross->slot_room = cross->slot_count = RANKS;
	strcpy(cross->job, "job");
	return 0;
}

static int teardown(void **unused)
{
	for (uint32_t k = 0; k < LIMIT_CROSS_FINDINGS; k++)
		free(cross->findings[k].culprits);
	cross_colls_free(cross);
	free(cross);
	return 0;
}

static void flag_of(uint32_t member, uint64_t first_step, uint64_t last_step, bool ended)
{
	const struct peers_flag f = {.member = member,
				     .measure = PEERS_SELF,
				     .ended = ended,
				     .first_step = first_step,
				     .last_step = last_step,
				     .excess = 0.1,
				     .excess_ns = 1e6,
				     .score = 2,
				     .window = 8};

	cross_findings_flag(cross, &role_part, &f);
}

static void flag(uint32_t member, bool ended)
{
	flag_of(member, 10, 20, ended);
}

/* In the end the finding reaches to the last step that shows it, not to the newest one. */
static void a_finding_begins_with_its_first_rank(void **unused)
{
	struct finding_report *out = calloc(1, sizeof(*out));

	flag_of(3, 10, 20, false);
	flag_of(1, 14, 22, false);
	cross->findings[0].last_step = 40; /* as while it lasts */
	assert_true(cross_next(cross, out));
	assert_int_equal(out->finding.first_step, 10);
	assert_int_equal(out->finding.evidence_count, 2);
	flag_of(1, 14, 24, true);
	flag_of(3, 10, 20, true);
	assert_true(cross_next(cross, out));
	assert_true(out->ended);
	assert_int_equal(out->finding.first_step, 10);
	assert_int_equal(out->finding.last_step, 24);
	free(out);
}

static void a_rank_that_comes_and_goes_is_named_once(void **unused)
{
	struct finding_report *out = calloc(1, sizeof(*out));

	flag(3, false);
	flag(1, false);
	for (int k = 0; k < 5; k++) {
		flag(1, true);
		flag(1, false);
	}
	assert_int_equal(slots[1].findings, 1);
	assert_true(cross_next(cross, out));
	assert_int_equal(out->finding.rank_count, 2);
	assert_int_equal(out->finding.ranks[0] + out->finding.ranks[1], 4);
	assert_false(out->ended);
	flag(1, true);
	flag(3, true);
	assert_int_equal(slots[1].findings, 0);
	assert_true(cross_next(cross, out));
	assert_true(out->ended);
	assert_int_equal(out->finding.rank_count, 2);
	free(out);
}

static void take(uint32_t slot, int64_t offset_ns)
{
	struct beat_rank *b = calloc(1, sizeof(*b));

	b->coll_count = 1;
	b->colls[0] = (struct beat_coll){.comm = 7, .func = 1, .seq = 1, .step = 5, .call_ns = 1};
	cross_colls_push(cross, slot, b, offset_ns, 100 * S);
	free(b);
}

/* 2^63 apart: what the sum wraps to has no absolute value. */
static void clocks_that_stand_anywhere_are_not_compared(void **unused)
{
	const int64_t far = 1ll << 62;

	take(0, -far);
	take(1, far);
	assert_int_equal(cross->stats.bad, 1);
	take(2, -far + 1000);
	assert_int_equal(cross->stats.bad, 1);
	assert_int_equal(cross_colls_find(cross, 7, 1, 1)->count, 2);
}

/* 24 collectives of one communicator, reported by all ranks of a job in turn, as a beat holds them. */
static void each_rank_of_a_large_job_keeps_some_collectives(void **unused)
{
	enum { MANY = 80000, COLLS = 24, BEATS = 10 };
	struct cross_slot *many = calloc(MANY, sizeof(*many));
	uint32_t *kept = calloc(MANY, sizeof(*kept)), none = 0, settled = 0;
	struct beat_rank *b = calloc(1, sizeof(*b));

	assert_int_equal(clocks_open(&cross->clocks), 0);
	cross->slots = many;
	cross->slot_room = cross->slot_count = MANY;
	b->coll_count = COLLS;
	b->comm_count = 1;
	b->comms[0] = (struct beat_comm){.comm = 7, .ranks = MANY};
	for (uint32_t k = 0; k < MANY; k++)
		many[k] = (struct cross_slot){.used = true,
					      .placed = true,
					      .rank = (int32_t)k,
					      .role_part = CROSS_NONE}; /* all on one node */
	for (uint32_t beat = 0; beat < BEATS; beat++) {
		for (uint32_t i = 0; i < COLLS; i++)
			b->colls[i] = (struct beat_coll){.comm = 7,
							 .func = 1,
							 .seq = beat * 2048 + i * 16,
							 .step = 5,
							 .call_ns = 1000};
		for (uint32_t k = 0; k < MANY; k++)
			cross_colls_push(cross, k, b, 0, 100 * S);
		for (uint32_t i = 0; i < COLLS; i++) {
			struct cross_instance *in =
			    cross_colls_find(cross, 7, 1, beat * 2048 + i * 16);

			assert_in_range(in->count, LIMIT_CROSS_ENTRIES / 2, LIMIT_CROSS_ENTRIES);
			for (uint32_t e = 0; e < in->count; e++)
				kept[in->entries[e].slot]++;
		}
		cross_colls_tick(cross, 100 * S); /* all have reported: nobody is waited for */
		for (uint32_t i = 0; i < COLLS; i++)
			settled += cross_colls_find(cross, 7, 1, beat * 2048 + i * 16)->settled;
	}
	assert_int_equal(settled, BEATS * COLLS);
	assert_int_equal(cross->stats.no_room, 0);
	assert_true(cross->stats.thinned > 0);
	for (uint32_t k = 0; k < MANY; k++)
		none += !kept[k];
	/* 240 draws of one in 23: by chance one rank in 40,000 has none */
	assert_true(none < 16);
	clocks_close(cross->clocks);
	free(many);
	free(kept);
	free(b);
}

/* A communicator of more ranks than there are is a peer's word: it thins nobody out. */
static void a_communicator_is_no_larger_than_its_job(void **unused)
{
	struct beat_rank *b = calloc(1, sizeof(*b));

	b->coll_count = b->comm_count = 1;
	b->comms[0] = (struct beat_comm){.comm = 7, .ranks = UINT32_MAX};
	b->colls[0] = (struct beat_coll){.comm = 7, .func = 1, .seq = 1, .step = 5, .call_ns = 1};
	for (uint32_t k = 0; k < RANKS; k++)
		cross_colls_push(cross, k, b, 0, 100 * S);
	assert_int_equal(cross_colls_find(cross, 7, 1, 1)->count, RANKS);
	free(b);
}

#define SKEW_ROWS_PUSHED 40u

static bool takes(uint32_t member, bool ended, uint64_t first, uint64_t last, double excess)
{
	const struct peers_flag f = {.member = member,
				     .measure = PEERS_SELF,
				     .ended = ended,
				     .first_step = first,
				     .last_step = last,
				     .excess = excess};

	return cross_skew_explains(&role_part, &f);
}

/* Ranks that differ by nature: from row 10 to 29 member 3 is slow, and the others, who wait for it, do now
 * this and now that. Alone it would be work that differs from step to step, which explains what member 1
 * shows later. */
static void what_is_done_while_one_is_waited_for_is_no_skew(void **unused)
{
	static float self_ns[LIMIT_CROSS_ROWS * RANKS];
	static uint16_t cover[LIMIT_CROSS_ROWS * RANKS];
	static float blocks[LIMIT_CROSS_ROWS * RANKS];
	static double row[3 * RANKS];

	for (int uneven = 0; uneven < 2; uneven++) {
		role_part.self_ns = self_ns;
		role_part.cover = cover;
		role_part.blocks = blocks;
		role_part.row = row;
		role_part.uneven = uneven;
		cross_skew_reset(&role_part);
		for (uint32_t k = 0; k < SKEW_ROWS_PUSHED; k++) {
			bool slow = k >= 10 && k < 30;

			role_part.rows[k] = (struct cross_row){.index = k, .live = true};
			for (uint32_t i = 0; i < RANKS; i++) {
				size_t at = cross_rows_cell(&role_part, k, i);

				cover[at] = 1;
				self_ns[at] = slow && i == k % 3 ? 1.3e8f : 1e8f + (float)i * 1e5f;
				blocks[at] = self_ns[at] / 1e4f;
				if (i == 3 && slow)
					self_ns[at] = 3e8f;
			}
			if (k == 12)
				assert_false(takes(3, false, 10, 12, 2));
			cross_skew_push(&role_part, k);
		}
		assert_false(takes(3, true, 10, 29, 2));
		assert_int_equal(takes(1, false, 35, 39, 0.2), !uneven);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(a_rank_that_comes_and_goes_is_named_once, setup,
					    teardown),
	    cmocka_unit_test_setup_teardown(a_finding_begins_with_its_first_rank, setup, teardown),
	    cmocka_unit_test_setup_teardown(clocks_that_stand_anywhere_are_not_compared, setup,
					    teardown),
	    cmocka_unit_test_setup_teardown(each_rank_of_a_large_job_keeps_some_collectives, setup,
					    teardown),
	    cmocka_unit_test_setup_teardown(a_communicator_is_no_larger_than_its_job, setup,
					    teardown),
	    cmocka_unit_test_setup_teardown(what_is_done_while_one_is_waited_for_is_no_skew, setup,
					    teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
