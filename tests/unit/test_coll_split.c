/* SPDX-License-Identifier: Apache-2.0
 * Ranks enter collectives at times of their own: what their ledgers then say of waiting and transfer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/ledger/coll_split.h"
#include "base/limits.h"

#define MS    1000000ull
#define RANKS 4u
#define COLLS 20u
#define WORLD 77u

struct rank {
	bool usual; /* its steps take as long as expected */
	struct coll_parts parts;
	struct ledger ledger; /* undivided */
};

static uint64_t seed = 17;

static uint64_t below(uint64_t n)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (seed >> 33) % n;
}

static double ms(const struct ledger *l, enum ledger_what what)
{
	for (uint32_t k = 0; k < l->count; k++)
		if (l->account[k].kind == LEDGER_COLLECTIVE && l->account[k].what == what)
			return (double)l->account[k].ns / 1e6;
	return 0;
}

static void put(struct rank *r, uint64_t comm, uint32_t seq, uint64_t begin_ns, uint64_t end_ns,
		uint64_t exposed_ns)
{
	const struct record coll = {.kind = RECORD_COLL_KERNEL,
				    .func = RECORD_COLL_ALL_REDUCE,
				    .key = comm,
				    .seq = seq,
				    .begin_ns = begin_ns,
				    .end_ns = end_ns};

	assert_int_equal(coll_parts_add(&r->parts, &coll, exposed_ns, UINT64_MAX, (uint32_t)seq,
					!r->usual, 0, false),
			 0);
	ledger_charge(&r->ledger, LEDGER_COLLECTIVE, LEDGER_NONE, "AllReduce", exposed_ns, 1);
}

/* Of each rank what divides into *out; sources in the order of who. */
static void divide(struct rank *ranks, const uint32_t *who, uint32_t count, uint32_t job_ranks,
		   struct ledger *out)
{
	struct coll_source source[RANKS];
	struct coll_split *s;

	for (uint32_t i = 0; i < count; i++) {
		coll_parts_finish(&ranks[who[i]].parts);
		source[i] = (struct coll_source){who[i], &ranks[who[i]].parts};
	}
	s = coll_split_open(source, count, job_ranks);
	for (uint32_t i = 0; i < count; i++) {
		struct ledger *l = &out[who[i]];

		ledger_init(l);
		ledger_add(l, &ranks[who[i]].ledger, 1);
		coll_split_divide(s, &ranks[who[i]].parts, 0, false, 1, l);
		assert_int_equal(ledger_sum(l), ledger_sum(&ranks[who[i]].ledger));
	}
	coll_split_close(s);
}

static void done(struct rank *ranks, uint32_t count, struct ledger *l)
{
	for (uint32_t i = 0; i < count; i++) {
		coll_parts_fini(&ranks[i].parts);
		ledger_fini(&ranks[i].ledger);
		ledger_fini(&l[i]);
	}
}

static const uint32_t in_order[RANKS] = {0, 1, 2, 3};

/* Rank 2 enters 20 ms after the others; transfers take 5 ms, on each rank by a clock of its own. */
static void make(struct rank *ranks, uint64_t late_ns, uint64_t transfer_ns)
{
	static const uint64_t clock_ns[RANKS] = {0, 3600000 * MS, 5 * MS, 777};

	memset(ranks, 0, RANKS * sizeof(*ranks));
	for (uint32_t r = 0; r < RANKS; r++)
		for (uint32_t k = 0; k < COLLS; k++) {
			uint64_t last = clock_ns[r] + (k + 1) * 100 * MS;
			uint64_t begin = last - (r == 2 ? 0 : late_ns);

			put(&ranks[r], WORLD, k, begin, last + transfer_ns,
			    last + transfer_ns - begin);
		}
}

static void who_enters_first_waits_and_all_share_the_transfer(void **unused)
{
	struct rank ranks[RANKS];
	struct ledger l[RANKS];

	make(ranks, 20 * MS, 5 * MS);
	divide(ranks, in_order, RANKS, RANKS, l);
	for (uint32_t r = 0; r < RANKS; r++) {
		assert_float_equal(ms(&l[r], LEDGER_LAST_RANK), r == 2 ? 0 : COLLS * 20.0, 0.01);
		assert_float_equal(ms(&l[r], LEDGER_TRANSFER), COLLS * 5.0, 0.01);
		assert_float_equal(ms(&l[r], LEDGER_NONE), 0, 0.01);
	}
	done(ranks, RANKS, l);
}

static void slower_transfers_are_no_waiting(void **unused)
{
	struct rank ranks[RANKS];
	struct ledger l[RANKS];

	make(ranks, 0, 50 * MS);
	divide(ranks, in_order, RANKS, RANKS, l);
	for (uint32_t r = 0; r < RANKS; r++) {
		assert_float_equal(ms(&l[r], LEDGER_LAST_RANK), 0, 0.01);
		assert_float_equal(ms(&l[r], LEDGER_TRANSFER), COLLS * 50.0, 0.01);
	}
	done(ranks, RANKS, l);
}

/* Of a job of 4 three are known: who else may have been last is not guessed. */
static void what_nobody_can_know_without_the_last_rank_stays_undivided(void **unused)
{
	static const uint32_t without_last[] = {0, 1, 3}, without_first[] = {3, 1, 2};
	struct rank ranks[RANKS];
	struct ledger l[RANKS] = {{0}};

	make(ranks, 20 * MS, 5 * MS);
	divide(ranks, without_last, 3, RANKS, l);
	assert_float_equal(ms(&l[0], LEDGER_NONE), COLLS * 25.0, 0.01);
	assert_float_equal(ms(&l[0], LEDGER_LAST_RANK), 0, 0.01);
	for (uint32_t r = 0; r < RANKS; r++)
		ledger_fini(&l[r]);
	divide(ranks, without_first, 3, RANKS, l); /* that it waited for rank 2 is sure */
	assert_float_equal(ms(&l[1], LEDGER_LAST_RANK), COLLS * 20.0, 0.01);
	assert_float_equal(ms(&l[1], LEDGER_NONE), COLLS * 5.0, 0.01);
	assert_float_equal(ms(&l[2], LEDGER_NONE), COLLS * 5.0, 0.01);
	done(ranks, RANKS, l);
}

/* Two communicators of two ranks each: the whole job has shown its collectives, and so who is in which. */
static void communicators_of_some_ranks_are_known_once_all_ranks_are(void **unused)
{
	struct rank ranks[RANKS] = {{.parts = {0}}};
	struct ledger l[RANKS] = {{0}};

	for (uint32_t r = 0; r < RANKS; r++)
		for (uint32_t k = 0; k < COLLS; k++) {
			uint64_t ns = r % 2 ? 10 * MS : 30 * MS;

			put(&ranks[r], r / 2, k, 0, ns, ns); /* key 0 is none */
			put(&ranks[r], 10 + r / 2, k, 0, ns, ns);
		}
	divide(ranks, in_order, RANKS, RANKS, l);
	assert_float_equal(ms(&l[2], LEDGER_LAST_RANK), 2 * COLLS * 20.0, 0.01);
	assert_float_equal(ms(&l[2], LEDGER_TRANSFER), 2 * COLLS * 10.0, 0.01);
	assert_float_equal(ms(&l[0], LEDGER_TRANSFER), COLLS * 10.0, 0.01);
	assert_float_equal(ms(&l[0], LEDGER_NONE), COLLS * 30.0, 0.01);
	for (uint32_t r = 0; r < RANKS; r++)
		ledger_fini(&l[r]);
	divide(ranks, in_order, 2, RANKS, l);
	assert_float_equal(ms(&l[0], LEDGER_TRANSFER), 0, 0.01);
	assert_float_equal(ms(&l[0], LEDGER_LAST_RANK), COLLS * 20.0, 0.01);
	done(ranks, RANKS, l);
}

/* A rank of which one collective is missing: this one stays undivided, the others do not. */
static void a_collective_that_a_rank_did_not_show_stays_undivided(void **unused)
{
	struct rank ranks[RANKS];
	struct ledger l[RANKS];

	make(ranks, 20 * MS, 5 * MS);
	ranks[2].parts.count--;
	divide(ranks, in_order, RANKS, RANKS, l);
	assert_float_equal(ms(&l[0], LEDGER_LAST_RANK), (COLLS - 1) * 20.0, 0.01);
	assert_float_equal(ms(&l[0], LEDGER_NONE), 25, 0.01);
	done(ranks, RANKS, l);
}

/* 100 ms of waiting and 10 ms of transfer, of which kernels hide the first 80 ms. */
static void what_is_hidden_is_neither(void **unused)
{
	struct rank ranks[RANKS] = {{.parts = {0}}};
	struct ledger l[RANKS];

	put(&ranks[0], WORLD, 1, 0, 110 * MS, 30 * MS);
	put(&ranks[1], WORLD, 1, 0, 10 * MS, 10 * MS);
	put(&ranks[0], WORLD, 2, 0, 110 * MS, 4 * MS);
	put(&ranks[1], WORLD, 2, 0, 10 * MS, 10 * MS);
	divide(ranks, in_order, 2, 2, l);
	assert_float_equal(ms(&l[0], LEDGER_LAST_RANK), 20, 0.01);
	assert_float_equal(ms(&l[0], LEDGER_TRANSFER), 14, 0.01);
	done(ranks, 2, l);
}

/* A kernel of 30 ms, of which 10 are in the next step: of its transfer of 15 ms, 5 are in the first one. */
static void a_collective_in_two_steps_transfers_at_its_end(void **unused)
{
	struct record coll = {.kind = RECORD_COLL_KERNEL,
			      .func = RECORD_COLL_ALL_REDUCE,
			      .key = WORLD,
			      .seq = 1,
			      .end_ns = 30 * MS};
	struct coll_parts two = {0}, last = {0};
	struct coll_source source[] = {{0, &two}, {1, &last}};
	struct coll_split *s;
	struct ledger l;

	assert_int_equal(coll_parts_add(&two, &coll, 20 * MS, 20 * MS, 0, true, 0, false), 0);
	assert_int_equal(coll_parts_add(&two, &coll, 10 * MS, 50 * MS, 0, false, 0, true), 0);
	coll.begin_ns = 15 * MS;
	assert_int_equal(coll_parts_add(&last, &coll, 15 * MS, 50 * MS, 0, true, 0, false), 0);
	s = coll_split_open(source, 2, 2);
	for (int healthy = 0; healthy < 2; healthy++) {
		ledger_init(&l);
		ledger_charge(&l, LEDGER_COLLECTIVE, LEDGER_NONE, "AllReduce",
			      healthy ? 10 * MS : 20 * MS, 1);
		coll_split_divide(s, &two, 0, healthy, 1, &l);
		assert_float_equal(ms(&l, LEDGER_LAST_RANK), healthy ? 0 : 15, 0.01);
		assert_float_equal(ms(&l, LEDGER_TRANSFER), healthy ? 10 : 5, 0.01);
		ledger_fini(&l);
	}
	coll_split_close(s);
	coll_parts_fini(&two);
	coll_parts_fini(&last);
}

static bool same(const struct ledger *a, const struct ledger *b)
{
	for (int what = 0; what < LEDGER_WHATS; what++)
		if (ms(a, what) < ms(b, what) || ms(a, what) > ms(b, what))
			return false;
	return true;
}

/* Random entries: in whatever order ranks come the ledgers are the same, they add up (divide() checks),
 * and a rank that is never the last changes none but its own. */
static void ranks_in_another_order_and_one_more_healthy_rank_change_nothing(void **unused)
{
	static const uint32_t other[] = {2, 0, 3, 1};

	for (int round = 0; round < 50; round++) {
		struct rank ranks[RANKS] = {{.parts = {0}}};
		struct ledger l[RANKS], m[RANKS], n[RANKS] = {{0}};

		for (uint32_t k = 0; k < COLLS; k++) {
			uint64_t transfer = 1 + below(10 * MS);

			for (uint32_t r = 0; r < RANKS; r++) {
				uint64_t wait = r == k % 3 ? 0 : 1 + below(50 * MS);
				uint64_t whole = wait + transfer;

				put(&ranks[r], WORLD, k, 5, 5 + whole, below(whole + 1));
			}
		}
		divide(ranks, in_order, RANKS, RANKS, l);
		divide(ranks, other, RANKS, RANKS, m);
		divide(ranks, in_order, 3, 3, n); /* rank 3 is never the last */
		for (uint32_t r = 0; r < RANKS; r++) {
			assert_true(same(&l[r], &m[r]));
			assert_true(r == 3 || same(&l[r], &n[r]));
			ledger_fini(&m[r]);
			ledger_fini(&n[r]);
		}
		done(ranks, RANKS, l);
	}
}

/* More than a excerpt keeps, on ranks that keep different parts: what is kept stands for the rest. */
static void many_collectives_are_thinned_alike(void **unused)
{
	static struct rank ranks[2];
	struct ledger l[2];
	uint32_t many = 5 * LIMIT_EXCERPT_COLLECTIVES;

	memset(ranks, 0, sizeof(ranks));
	for (uint32_t k = 0; k < many; k++) {
		put(&ranks[0], WORLD, k, 0, 3 * MS, 3 * MS);
		if (k < many / 3)
			put(&ranks[1], WORLD, k, 0, 1 * MS, 1 * MS);
	}
	assert_true(ranks[0].parts.count <= LIMIT_EXCERPT_COLLECTIVES);
	assert_true(ranks[0].parts.shift > ranks[1].parts.shift);
	divide(ranks, in_order, 2, 2, l);
	assert_in_range(ms(&l[0], LEDGER_LAST_RANK), many / 3 * 2 * 0.85, many / 3 * 2 * 1.15);
	assert_in_range(ms(&l[0], LEDGER_TRANSFER), many / 3 * 0.85, many / 3 * 1.15);
	done(ranks, 2, l);
}

static void caused(struct rank *ranks, uint32_t count, double *ms_of, double *waited_ms)
{
	struct coll_source source[RANKS];
	struct coll_split *s;

	for (uint32_t i = 0; i < count; i++) {
		coll_parts_finish(&ranks[i].parts);
		source[i] = (struct coll_source){i, &ranks[i].parts};
	}
	s = coll_split_open(source, count, RANKS);
	coll_split_caused(s, source, count, ms_of, waited_ms, count);
	coll_split_close(s);
	for (uint32_t i = 0; i < count; i++) {
		ms_of[i] /= 1e6;
		waited_ms[i] /= 1e6;
		coll_parts_fini(&ranks[i].parts);
		ledger_fini(&ranks[i].ledger);
	}
}

static void the_rank_that_enters_last_is_waited_for(void **unused)
{
	struct rank ranks[3];
	double ms_of[3], waited_ms[3];

	memset(ranks, 0, sizeof(ranks));
	for (uint32_t k = 0; k < COLLS; k++) {
		bool late = k % 10 == 9; /* rank 2, at times */

		put(&ranks[0], WORLD, k, 0, (late ? 41 : 1) * MS, (late ? 41 : 1) * MS);
		put(&ranks[1], WORLD, k, 0, (late ? 31 : 1) * MS, (late ? 31 : 1) * MS);
		put(&ranks[2], WORLD, k, 0, 1 * MS, 1 * MS);
	}
	caused(ranks, 3, ms_of, waited_ms);
	assert_float_equal(ms_of[2], 2 * (40 - 1), 0.01);
	assert_float_equal(ms_of[0] + ms_of[1] + waited_ms[2], 0, 0.01);
	assert_float_equal(waited_ms[0], 2 * 40, 0.01);
	assert_float_equal(waited_ms[1], 2 * 30, 0.01);
}

/* Its partner is late as well, since it waited for it in their own communicator. */
static void who_waited_itself_is_not_charged_with_it(void **unused)
{
	struct rank ranks[3];
	double ms_of[3], waited_ms[3];

	memset(ranks, 0, sizeof(ranks));
	for (uint32_t k = 0; k < COLLS; k++) {
		put(&ranks[0], WORLD, k, 0, 41 * MS, 41 * MS);
		put(&ranks[1], WORLD, k, 0, 1 * MS, 1 * MS);
		put(&ranks[1], 5, k, 0, 40 * MS, 40 * MS);
		put(&ranks[2], 5, k, 0, 1 * MS, 1 * MS);
	}
	caused(ranks, 3, ms_of, waited_ms);
	assert_float_equal(ms_of[1], 0, 0.01);
	assert_float_equal(waited_ms[1], COLLS * 39, 0.01);
	assert_float_equal(ms_of[2], COLLS * (39 - 1), 0.01);
	assert_float_equal(waited_ms[2], 0, 0.01);
}

/* All wait for a checkpoint, as in every 50th step. */
static void nobody_is_waited_for_in_usual_steps(void **unused)
{
	struct rank ranks[2] = {{.usual = true}, {.usual = true}};
	double ms_of[2], waited_ms[2];

	for (uint32_t k = 0; k < COLLS; k++) {
		put(&ranks[0], WORLD, k, 0, 700 * MS, 700 * MS);
		put(&ranks[1], WORLD, k, 0, 1 * MS, 1 * MS);
	}
	caused(ranks, 2, ms_of, waited_ms);
	assert_true(ms_of[0] == 0 && ms_of[1] == 0 && waited_ms[0] == 0);
}

static void nobody_is_waited_for_where_transfers_are_slow(void **unused)
{
	struct rank ranks[2];
	double ms_of[2], waited_ms[2];

	memset(ranks, 0, sizeof(ranks));
	for (uint32_t k = 0; k < COLLS; k++) {
		put(&ranks[0], WORLD, k, 0, 42 * MS, 42 * MS);
		put(&ranks[1], WORLD, k, 0, 40 * MS, 40 * MS);
	}
	caused(ranks, 2, ms_of, waited_ms);
	assert_true(ms_of[0] == 0 && ms_of[1] == 0);
}

static void what_is_no_collective_of_several_ranks_is_left_out(void **unused)
{
	struct record r = {
	    .kind = RECORD_COLL_KERNEL, .func = RECORD_COLL_SEND, .key = 1, .end_ns = 5};
	struct coll_parts c = {0};

	assert_int_equal(coll_parts_add(&c, &r, 5, 5, 0, true, 0, false), 0);
	r.func = RECORD_COLL_ALL_REDUCE;
	r.key = 0;
	assert_int_equal(coll_parts_add(&c, &r, 5, 5, 0, true, 0, false), 0);
	r.key = 1;
	r.flags = RECORD_FLAG_UNMATCHED;
	assert_int_equal(coll_parts_add(&c, &r, 5, 5, 0, true, 0, false), 0);
	r.flags = 0;
	r.func = 255;
	assert_int_equal(coll_parts_add(&c, &r, 5, 5, 0, true, 0, false), 0);
	r.func = RECORD_COLL_ALL_REDUCE;
	r.begin_ns = 9;
	assert_int_equal(coll_parts_add(&c, &r, 5, 5, 0, true, 0, false), 0);
	assert_int_equal(c.count, 0);
	r.begin_ns = 0;
	for (uint32_t k = 0; k < 3 * LIMIT_EXCERPT_COLLECTIVES; k++) /* all the same one */
		assert_int_equal(coll_parts_add(&c, &r, 5, 5, 0, true, 0, false), 0);
	assert_true(c.count <= LIMIT_EXCERPT_COLLECTIVES);
	coll_parts_fini(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(who_enters_first_waits_and_all_share_the_transfer),
	    cmocka_unit_test(slower_transfers_are_no_waiting),
	    cmocka_unit_test(what_nobody_can_know_without_the_last_rank_stays_undivided),
	    cmocka_unit_test(communicators_of_some_ranks_are_known_once_all_ranks_are),
	    cmocka_unit_test(a_collective_that_a_rank_did_not_show_stays_undivided),
	    cmocka_unit_test(what_is_hidden_is_neither),
	    cmocka_unit_test(a_collective_in_two_steps_transfers_at_its_end),
	    cmocka_unit_test(ranks_in_another_order_and_one_more_healthy_rank_change_nothing),
	    cmocka_unit_test(many_collectives_are_thinned_alike),
	    cmocka_unit_test(the_rank_that_enters_last_is_waited_for),
	    cmocka_unit_test(who_waited_itself_is_not_charged_with_it),
	    cmocka_unit_test(nobody_is_waited_for_in_usual_steps),
	    cmocka_unit_test(nobody_is_waited_for_where_transfers_are_slow),
	    cmocka_unit_test(what_is_no_collective_of_several_ranks_is_left_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
