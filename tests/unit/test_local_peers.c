/* SPDX-License-Identifier: Apache-2.0
 * Synthetic ranks in step with one another: what each needs for itself is drawn, all leave the
 * collective when the last one has come. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/slow/local_peers.h"
#include "tests/wire_synth.h"

#define RANKS	8
#define STEP_NS 100e6

struct job {
	struct local_peers *l;
	uint64_t random, end_ns[RANKS], index;
	double extra_ns[RANKS]; /* per step, of the rank's self time */
	double noise;		/* relative, per step */
	double unlike;		/* share by which work and time of a step vary from rank to rank */
	uint64_t key[RANKS];
	bool gone[RANKS];
	/* times differ by so much (deviation), drawn anew every `turn` steps */
	double skew, input[RANKS];
	uint32_t turn;
	uint32_t more; /* launches that the last rank has above the others' */
	/* what was reported */
	uint32_t flags[RANKS], ended[RANKS];
	uint64_t first_step[RANKS];
	struct local_peers_flag last;
};

static void job_open_as(struct job *j, uint64_t seed, enum peers_mode mode)
{
	memset(j, 0, sizeof(*j));
	assert_int_equal(local_peers_open(&j->l, mode), 0);
	j->random = seed;
	j->noise = 0.01;
	for (int i = 0; i < RANKS; i++) {
		j->end_ns[i] = 1000000000000ull + (uint64_t)i * 3000000;
		j->key[i] = 77;
	}
}

static void job_open(struct job *j, uint64_t seed)
{
	job_open_as(j, seed, PEERS_ROBUST);
}

static void take_flags(struct job *j)
{
	struct local_peers_flag f;

	while (local_peers_next(j->l, &f)) {
		assert_true(f.slot < RANKS);
		if (f.ended) {
			j->ended[f.slot]++;
			continue;
		}
		if (!j->flags[f.slot]++)
			j->first_step[f.slot] = j->index;
		j->last = f;
	}
}

static void job_steps(struct job *j, uint32_t count)
{
	for (uint32_t k = 0; k < count; k++, j->index++) {
		double own[RANKS], longest = 0, work[RANKS];

		for (int i = 0; i < RANKS; i++) {
			if (j->turn && j->index % j->turn == 0)
				j->input[i] = exp(j->skew * synth_normal(&j->random));
			work[i] =
			    1 + j->unlike * ((double)(synth_random(&j->random) % 1000) / 500 - 1);
			own[i] =
			    0.8 * STEP_NS * work[i] * (1 + j->noise * synth_normal(&j->random)) +
			    j->extra_ns[i];
			own[i] *= j->turn ? j->input[i] : 1;
			longest = fmax(longest, j->gone[i] ? 0 : own[i]);
		}
		for (int i = 0; i < RANKS; i++) {
			struct step s = {.index = j->index,
					 .begin_ns = j->end_ns[i],
					 .kernels = 100,
					 .launches = 100,
					 .work_count = 2,
					 .work = {100, round(1e6 * work[i])}};

			s.launches += i == RANKS - 1 ? j->more : 0;

			if (j->gone[i])
				continue;
			s.latency_ns = (uint64_t)(longest + 0.1 * STEP_NS);
			s.self_ns = (uint64_t)own[i];
			s.end_ns = j->end_ns[i] += s.latency_ns;
			local_peers_step(j->l, (uint32_t)i, j->key[i], &s, true);
		}
		take_flags(j);
	}
}

static uint32_t flags_of_others(const struct job *j, int rank)
{
	uint32_t n = 0;

	for (int i = 0; i < RANKS; i++)
		n += i == rank ? 0 : j->flags[i];
	return n;
}

/* One rank launches more than the others, so they are no copies of one another: what another of
 * them always needed more is its work, what it needs more than before is not. */
static void where_ranks_differ_by_nature_only_changes_are_reported(void **unused)
{
	static struct job j;

	job_open(&j, 5);
	j.extra_ns[2] = 0.1 * STEP_NS;
	job_steps(&j, 1000);
	assert_true(j.flags[2] >= 1);
	local_peers_close(j.l);
	job_open(&j, 5);
	j.more = 30;
	j.extra_ns[2] = 0.1 * STEP_NS;
	job_steps(&j, 1000);
	assert_int_equal(j.flags[2] + flags_of_others(&j, 2), 0);
	j.extra_ns[2] = 0.2 * STEP_NS;
	job_steps(&j, 300);
	assert_true(j.flags[2] >= 1);
	assert_int_equal(flags_of_others(&j, 2), 0);
	local_peers_close(j.l);
	/* and the one whose work is like no other's */
	job_open(&j, 6);
	j.more = 30;
	job_steps(&j, 600);
	assert_int_equal(flags_of_others(&j, -1), 0);
	j.extra_ns[RANKS - 1] = 0.1 * STEP_NS;
	job_steps(&j, 300);
	assert_true(j.flags[RANKS - 1] >= 1);
	assert_int_equal(flags_of_others(&j, RANKS - 1), 0);
	local_peers_close(j.l);
}

/* Where ranks differ by nature: while one is slow the others, who wait for it, do now more and now
 * less. That is no unevenness of the work, which would explain what another one shows afterwards. */
static void what_is_done_while_one_is_waited_for_is_no_skew(void **unused)
{
	static struct job j;

	job_open(&j, 15);
	j.more = 30;
	job_steps(&j, 100);
	j.extra_ns[2] = 0.8 * STEP_NS;
	job_steps(&j, 20);
	assert_true(j.flags[2] >= 1);
	j.turn = 1;
	j.skew = 0.1;
	job_steps(&j, 230);
	j.turn = 0;
	j.extra_ns[2] = 0;
	job_steps(&j, 40);
	assert_int_equal(j.ended[2], j.flags[2]);
	memset(j.flags, 0, sizeof(j.flags));
	j.extra_ns[4] = 0.24 * STEP_NS;
	job_steps(&j, 60);
	assert_true(j.flags[4] >= 1);
	assert_int_equal(flags_of_others(&j, 4), 0);
	local_peers_close(j.l);
}

/* Mean + 2 sigma over 100 steps: of eight it finds one and none of two, whose own rise is what
 * sigma is. */
static void the_papers_mode_finds_one_and_is_blind_to_two(void **unused)
{
	static struct job j;

	for (int slow = 1; slow <= 2; slow++)
		for (int mode = PEERS_ROBUST; mode <= PEERS_SYSOM; mode++) {
			bool blind = slow == 2 && mode == PEERS_SYSOM;

			job_open_as(&j, 9, (enum peers_mode)mode);
			for (int i = 0; i < slow; i++)
				j.extra_ns[i + 1] = 0.3 * STEP_NS;
			job_steps(&j, 400);
			assert_int_equal(j.flags[1] > 0, !blind);
			assert_int_equal(j.flags[2] > 0, slow == 2 && !blind);
			local_peers_close(j.l);
		}
}

/* Experts or sequence lengths: the same launches, other times, for some steps in a row. What is
 * slow above that is slow. */
static void uneven_work_accuses_nobody(void **unused)
{
	static const uint32_t turns[] = {1, 2, 4, 8};
	struct local_peers_stats st;
	static struct job j;
	uint64_t explained = 0;

	for (size_t k = 0; k < sizeof(turns) / sizeof(turns[0]); k++) {
		job_open(&j, 40 + k);
		j.turn = turns[k];
		j.skew = 0.15;
		job_steps(&j, 6000);
		local_peers_stats_get(j.l, &st);
		print_message("# turns of %u: %u reported, %u explained\n", turns[k],
			      (uint32_t)st.flags, (uint32_t)st.skewed);
		/* the rarest draws of all are beyond what the latest rows show */
		assert_true(10 * st.flags <= st.skewed);
		explained += st.skewed;
		memset(j.flags, 0, sizeof(j.flags));
		j.extra_ns[3] = 1.2 * STEP_NS;
		job_steps(&j, 400);
		assert_true(j.flags[3] >= 1);
		assert_int_equal(flags_of_others(&j, 3), 0);
		local_peers_close(j.l);
	}
	assert_true(explained > 0);
}

static void healthy_ranks_are_left_alone(void **unused)
{
	struct local_peers_stats st;
	static struct job j;

	for (uint64_t seed = 1; seed <= 4; seed++) {
		job_open(&j, seed);
		j.noise = seed % 2 ? 0.01 : 0.03;
		job_steps(&j, 18000); /* half an hour of each rank */
		local_peers_stats_get(j.l, &st);
		assert_int_equal(st.flags, 0);
		assert_true(st.rounds > 17900);
		assert_true(st.missing < 200);
		assert_int_equal(st.groups, 1);
		local_peers_close(j.l);
	}
}

/* A rank that is late by so much in every step from the first on: its own model calls it normal. */
static void a_small_constant_lateness_is_found(void **unused)
{
	static const double late_ms[] = {0.4, 0.6, 2, 10};
	static struct job j;

	for (size_t k = 0; k < sizeof(late_ms) / sizeof(late_ms[0]); k++) {
		job_open(&j, 100 + k);
		j.noise = 0.005;
		j.extra_ns[5] = late_ms[k] * 1e6;
		job_steps(&j, 3000);
		print_message("# %.1f ms of 100 ms: found after %u steps, %.2f ms\n", late_ms[k],
			      (unsigned)j.first_step[5], j.last.excess_ns * 1e-6);
		assert_true(j.flags[5] > 0);
		assert_int_equal(flags_of_others(&j, 5), 0);
		assert_int_equal(j.last.slot, 5);
		assert_true(fabs(j.last.excess_ns - late_ms[k] * 1e6) <
			    0.3 * late_ms[k] * 1e6 + 1e5);
		assert_true(j.last.begin_ns < j.last.end_ns);
		local_peers_close(j.l);
	}
}

static void a_fault_opens_and_ends_a_flag(void **unused)
{
	static struct job j;
	uint64_t begin_ns;

	job_open(&j, 7);
	job_steps(&j, 400);
	begin_ns = j.end_ns[2];
	j.extra_ns[2] = 0.1 * 0.8 * STEP_NS;
	job_steps(&j, 60);
	assert_int_equal(j.flags[2], 1);
	assert_int_equal(flags_of_others(&j, 2), 0);
	assert_in_range(j.first_step[2], 400, 412);
	assert_true(fabs((double)j.last.begin_ns - (double)begin_ns) < 5 * STEP_NS);
	assert_true(fabs(j.last.excess - 0.1) < 0.03);
	j.extra_ns[2] = 0;
	job_steps(&j, 300);
	assert_int_equal(j.ended[2], 1);
	assert_int_equal(flags_of_others(&j, 2), 0);
	local_peers_close(j.l);
}

static void two_of_eight_are_found(void **unused)
{
	static struct job j;

	job_open(&j, 8);
	job_steps(&j, 300);
	j.extra_ns[1] = j.extra_ns[6] = 0.1 * STEP_NS;
	job_steps(&j, 100);
	assert_true(j.flags[1] && j.flags[6]);
	assert_int_equal(flags_of_others(&j, 1) - j.flags[6], 0);
	local_peers_close(j.l);
}

/* Batches that differ from rank to rank by a third: their steps are no comparison. */
static void differing_work_is_no_fault(void **unused)
{
	struct local_peers_stats st;
	static struct job j;

	job_open(&j, 9);
	j.unlike = 0.3;
	job_steps(&j, 3000);
	local_peers_stats_get(j.l, &st);
	assert_int_equal(st.flags, 0);
	assert_true(st.unlike > 3000);
	local_peers_close(j.l);
	job_open(&j, 10);
	j.more = 30;
	j.unlike = 0.3;
	job_steps(&j, 3000);
	local_peers_stats_get(j.l, &st);
	assert_int_equal(st.flags, 0);
	assert_true(st.unlike > 3000);
	local_peers_close(j.l);
}

static void ranks_of_another_role_are_not_compared(void **unused)
{
	struct local_peers_stats st;
	static struct job j;

	job_open(&j, 10);
	for (int i = 4; i < RANKS; i++) {
		j.key[i] = 78;
		j.extra_ns[i] = 0.15 * STEP_NS;
	}
	job_steps(&j, 2000);
	local_peers_stats_get(j.l, &st);
	assert_int_equal(st.groups, 2);
	assert_int_equal(st.flags, 0);
	j.extra_ns[6] += 0.1 * STEP_NS;
	job_steps(&j, 100);
	assert_int_equal(j.flags[6], 1);
	assert_int_equal(flags_of_others(&j, 6), 0);
	local_peers_close(j.l);
}

static void the_others_go_on_without_one_that_is_gone(void **unused)
{
	static struct job j;

	job_open(&j, 11);
	job_steps(&j, 200);
	j.gone[0] = true; /* whose steps the rounds followed */
	local_peers_forget(j.l, 0);
	job_steps(&j, 300);
	j.extra_ns[4] = 0.1 * STEP_NS;
	job_steps(&j, 100);
	assert_int_equal(j.flags[4], 1);
	local_peers_close(j.l);
}

/* One that hangs without anybody saying so holds the others up for some seconds, not for ever. */
static void one_that_stands_still_is_not_waited_for(void **unused)
{
	static struct job j;

	job_open(&j, 12);
	job_steps(&j, 200);
	j.gone[7] = true;
	job_steps(&j, 300);
	j.extra_ns[4] = 0.1 * STEP_NS;
	job_steps(&j, 200);
	assert_int_equal(j.flags[4], 1);
	assert_int_equal(flags_of_others(&j, 4), 0);
	local_peers_close(j.l);
}

static void fast_steps_make_rows_of_many(void **unused)
{
	struct local_peers *l;
	struct local_peers_stats st;
	struct local_peers_flag f;
	uint64_t state = 5, t = 1000000000000ull;
	uint32_t found = 0, wrong = 0;

	assert_int_equal(local_peers_open(&l, PEERS_ROBUST), 0);
	for (uint32_t k = 0; k < 60000; k++) {
		t += 5000000;
		for (uint32_t i = 0; i < 4; i++) {
			struct step s = {.index = k,
					 .begin_ns = t - 5000000,
					 .end_ns = t + i * 40000,
					 .latency_ns = 5000000,
					 .launches = 10,
					 .kernels = 10};

			s.self_ns = (uint64_t)(4e6 * (1 + 0.02 * synth_normal(&state)) +
					       (i == 3 && k > 30000 ? 400000 : 0));
			local_peers_step(l, i, 1, &s, true);
		}
		while (local_peers_next(l, &f)) {
			found += !f.ended && f.slot == 3 && k > 30000;
			wrong += f.slot != 3 || k <= 30000;
		}
	}
	local_peers_stats_get(l, &st);
	assert_true(found > 0);
	assert_int_equal(wrong, 0);
	local_peers_close(l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(uneven_work_accuses_nobody),
	    cmocka_unit_test(healthy_ranks_are_left_alone),
	    cmocka_unit_test(where_ranks_differ_by_nature_only_changes_are_reported),
	    cmocka_unit_test(what_is_done_while_one_is_waited_for_is_no_skew),
	    cmocka_unit_test(the_papers_mode_finds_one_and_is_blind_to_two),
	    cmocka_unit_test(a_small_constant_lateness_is_found),
	    cmocka_unit_test(a_fault_opens_and_ends_a_flag),
	    cmocka_unit_test(two_of_eight_are_found),
	    cmocka_unit_test(differing_work_is_no_fault),
	    cmocka_unit_test(ranks_of_another_role_are_not_compared),
	    cmocka_unit_test(the_others_go_on_without_one_that_is_gone),
	    cmocka_unit_test(one_that_stands_still_is_not_waited_for),
	    cmocka_unit_test(fast_steps_make_rows_of_many),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
