/* SPDX-License-Identifier: Apache-2.0
 * test_links.c - a rank's transfers: a link's usual times, a change, whole collectives, bounds. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/hash.h"
#include "model/record.h"
#include "node/links.h"

#define S  1000000000ull
#define US 1000ull

static uint64_t seed;
static struct links_verdict seen[64];
static struct links_key seen_key[64];
static uint32_t seen_count;

static double uniform(void)
{
	seed += 0x9e3779b97f4a7c15ull;
	return (double)(hash_mix(seed) >> 11) / 9007199254740992.0;
}

static void on_verdict(void *arg, const struct links_verdict *v)
{
	assert_in_range(seen_count, 0, 63);
	seen_key[seen_count] = v->link->key;
	seen[seen_count++] = *v;
}

static void judge(struct links *l, uint64_t now_ns)
{
	seen_count = 0;
	links_judge(l, now_ns, on_verdict, NULL);
}

static int setup(void **state)
{
	seed = 20261127;
	return links_open((struct links **)state, NULL);
}

static int teardown(void **state)
{
	links_close(*state);
	return 0;
}

/* One input: 8 transfers of a size to a peer, two of them at a time. */
static struct transfer input(uint64_t begin_ns, uint32_t seq, int peer, uint8_t channel,
			     uint64_t bytes, double factor)
{
	double one = (10e3 + (double)bytes / 10) * factor * (0.9 + 0.2 * uniform());

	return (struct transfer){.begin_ns = begin_ns,
				 .end_ns = begin_ns + (uint64_t)(4 * one),
				 .comm = 0xc0ffee,
				 .bytes = 8 * bytes,
				 .wait_ns = (uint64_t)(8 * one),
				 .seq = seq,
				 .count = 8,
				 .peer = peer,
				 .rank = 2,
				 .func = RECORD_COLL_ALL_REDUCE,
				 .channel = channel};
}

/* A second of 100 collectives over two channels, to two peers; the second one is slower by a
 * factor. */
static void second(struct links *l, uint64_t at, uint32_t *seq, double factor)
{
	for (uint32_t i = 0; i < 100; i++, (*seq)++)
		for (uint32_t k = 0; k < 4; k++) {
			struct transfer t =
			    input(at + i * 10000 * US, *seq, 3 + (int)(k & 1), (uint8_t)(k >> 1),
				  1u << (14 + i % 4), k & 1 ? factor : 1);

			links_add(l, &t);
		}
	judge(l, at + S);
}

static void a_link_is_judged_by_its_own_past(void **state)
{
	struct links *l = *state;
	uint32_t seq = 0, worse = 0;

	for (uint32_t s = 1; s <= 20; s++) {
		second(l, s * S, &seq, 1);
		for (uint32_t i = 0; i < seen_count; i++) {
			assert_true(fabs(seen[i].change.ratio - 1) < 0.1);
			assert_true(seen[i].change.low < 1.1);
		}
	}
	assert_int_equal(seen_count, 2);
	for (uint32_t s = 21; s <= 30; s++) {
		second(l, s * S, &seq, 3);
		assert_int_equal(seen_count, 2);
		for (uint32_t i = 0; i < 2; i++) {
			bool slow = seen_key[i].peer == 4;

			assert_true(fabs(seen[i].change.ratio - (slow ? 3 : 1)) <
				    (slow ? 0.3 : 0.1));
			/* 100 inputs a channel, each of 4 transfers' time; two thirds are lost */
			if (slow)
				assert_true(seen[i].lost_ns > 8e6 && seen[i].lost_ns < 30e6);
			else
				assert_true(seen[i].lost_ns < 2e6);
			worse += slow;
		}
	}
	/* ten slow seconds are not what is usual now */
	assert_int_equal(worse, 10);
	second(l, 31 * S, &seq, 1);
	assert_true(fabs(seen[0].change.ratio - 1) < 0.1 && fabs(seen[1].change.ratio - 1) < 0.1);
}

/* A lost packet costs one transfer of many a timeout. */
static void a_few_long_transfers_show_in_the_mean(void **state)
{
	struct links *l = *state;
	uint32_t seq = 0;

	for (uint32_t s = 1; s <= 10; s++)
		second(l, s * S, &seq, 1);
	for (uint32_t i = 0; i < 100; i++) {
		struct transfer t =
		    input(11 * S + i * 10000 * US, seq++, 4, 0, 1u << 14, i % 20 ? 1 : 500);

		links_add(l, &t);
	}
	judge(l, 12 * S);
	assert_int_equal(seen_count, 1);
	assert_true(fabs(seen[0].change.ratio - 1) < 0.1);
	assert_true(fabs(seen[0].change.mean - 26) < 3);
	/* 5 of them took 4 times 5.8 ms too long */
	assert_true(fabs(seen[0].lost_ns / 1e6 - 117) < 15);
}

static void nothing_is_judged_before_the_usual_times_are_known(void **state)
{
	struct links *l = *state;

	for (uint32_t i = 0; i < LINKS_LEARN_MIN / 8; i++) {
		struct transfer t = input(S + i * 1000 * US, i, 3, 0, 1 << 20, 1);

		links_add(l, &t);
		judge(l, 2 * S);
		assert_int_equal(seen_count, 0);
	}
	assert_true(links_at(l, 0)->usual.fit[LINK_MEDIAN].regimes == 1 && !links_at(l, 1));
	judge(l, 3 * S); /* a period in which nothing was sent */
	assert_int_equal(seen_count, 0);
}

/* Collectives that overlap, of many inputs each, over periods of any length. */
static void a_collective_is_counted_once_and_whole(void **state)
{
	struct links *l = *state;
	const struct links_coll *c;
	uint64_t at = S, next = S;
	uint32_t colls = 400, inputs = 6;

	for (uint32_t i = 0; i < colls + 2; i++)
		for (uint32_t k = 0; k < inputs; k++) {
			/* the first inputs of a collective come with the last ones of those before */
			uint32_t which = i - (k & 1 ? 0 : i < 2 ? i : 2);
			struct transfer t;

			if ((k & 1 && i >= colls) || (!(k & 1) && i < 2))
				continue;
			t = input(at + which * 1000 * US, which, 3, (uint8_t)k, 1000, 1);
			t.begin_ns = at + which * 1000 * US + k * US;
			t.end_ns = t.begin_ns + 2500 * US;
			links_add(l, &t);
			if (uniform() < 0.3) {
				next += 700 * US;
				judge(l, next);
			}
		}
	judge(l, at + 100 * S);
	c = links_coll_at(l, 0);
	assert_non_null(c);
	assert_null(links_coll_at(l, 1));
	assert_int_equal(links_stats(l)->collectives, colls);
	assert_int_equal(links_stats(l)->late, 0);
	assert_int_equal(c->sum.collectives, colls);
	assert_int_equal(c->sum.transfers, colls * inputs * 8);
	assert_int_equal(c->sum.bytes, (uint64_t)colls * inputs * 8000);
	/* each had the size of all its inputs, and lasted from the first to the last */
	assert_int_equal(c->pool->usual.samples.cells, 1);
	assert_int_equal(c->pool->usual.samples.cell[0].bytes /
			     c->pool->usual.samples.cell[0].count,
			 inputs * 8000);
	assert_int_equal(c->pool->usual.samples.cell[0].time_ns /
			     c->pool->usual.samples.cell[0].count,
			 2505 * US);
}

static void a_call_without_transfers_holds_nothing_open(void **state)
{
	struct links *l = *state;

	/* within a node no input comes; what another collective sent is complete by itself */
	for (uint32_t i = 0; i < 10; i++) {
		struct transfer t = input(S + i * 3 * S, 2 * i, 3, 0, 4096, 1);

		links_add(l, &t);
		judge(l, t.end_ns + LINKS_COMPLETE_NS + 1);
		assert_int_equal(links_stats(l)->collectives, i + 1);
	}
}

static void hostile_figures_and_full_tables_are_counted(void **state)
{
	struct links *l = *state;
	struct transfer t, good = input(S, 0, 3, 0, 4096, 1);

#define BAD(change)                                                                                \
	do {                                                                                       \
		t = good;                                                                          \
		change;                                                                            \
		links_add(l, &t);                                                                  \
	} while (0)
	BAD(t.end_ns = t.begin_ns - 1);
	BAD(t.end_ns = UINT64_MAX);
	BAD(t.count = 0);
	BAD(t.count = UINT32_MAX);
	BAD(t.bytes = 0);
	BAD(t.bytes = UINT64_MAX);
	BAD(t.wait_ns = UINT64_MAX);
	BAD(t.peer = -1);
	assert_int_equal(links_stats(l)->bad, 8);
	assert_null(links_at(l, 0));
	for (uint32_t i = 0; i < 2 * LINKS_MAX; i++)
		BAD(t.peer = (int32_t)i);
	assert_int_equal(links_stats(l)->no_room, LINKS_MAX);
	/* more collectives at once than there is room for: the oldest ends early, none is lost */
	for (uint32_t i = 0; i < 4 * LINKS_OPEN_MAX; i++)
		BAD((t.seq = 100 + i, t.func = (uint8_t)(1 + i % 3)));
	judge(l, 100 * S);
	assert_int_equal(links_stats(l)->collectives, 4 * LINKS_OPEN_MAX + 1);
	assert_int_equal(links_stats(l)->inputs, 8 + 2 * LINKS_MAX + 4 * LINKS_OPEN_MAX);
	/* an input of a collective that was complete long ago */
	BAD((t.begin_ns = t.begin_ns + 50 * S, t.end_ns = t.end_ns + 50 * S, t.seq = 9000));
	links_add(l, &good);
	assert_int_equal(links_stats(l)->late, 1);
}

static void adds_up_channels_and_collectives(void **state)
{
	struct links *l = *state;
	struct transfer t = {.begin_ns = S,
			     .end_ns = S + 1000,
			     .comm = 0xc0ffee,
			     .bytes = 8000,
			     .wait_ns = 1600,
			     .seq = 1,
			     .count = 8,
			     .peer = 3,
			     .rank = 2,
			     .func = RECORD_COLL_ALL_REDUCE};
	const struct links_channel *c;

	links_add(l, &t);
	t.channel = 1; /* at the same time, and longer */
	t.end_ns += 1000;
	links_add(l, &t);
	t.channel = 200;
	t.peer = 4;
	links_add(l, &t);
	judge(l, 10 * S);
	assert_true(fabs(links_rate(l, 0) - 12e9) < 1); /* 8 and 4 bytes a nanosecond */
	c = links_channel_at(l, 0, 1);
	assert_int_equal(c->transfers, 8);
	assert_int_equal(c->time_ns, 2000);
	assert_int_equal(c->wait_ns, 1600);
	assert_null(links_channel_at(l, 0, 2));
	assert_null(links_channel_at(l, 0, LINKS_CHANNELS));
	assert_null(links_channel_at(l, 9, 0));
	assert_non_null(links_channel_at(l, 1, LINKS_CHANNELS - 1));
	/* one collective: from the first to the last transfer */
	assert_int_equal(links_coll_at(l, 0)->sum.collectives, 1);
	assert_int_equal(links_coll_at(l, 0)->sum.transfers, 24);
	assert_int_equal(links_coll_at(l, 0)->sum.time_ns, 2000);
	assert_int_equal(links_coll_at(l, 0)->sum.bytes, 24000);
}

static void send_100(struct links *l, uint32_t seq)
{
	for (uint32_t i = 0; i < 100; i++) {
		struct transfer t = input(S + i * 1000 * US, seq + i, 3, 0, 4096, 1);

		links_add(l, &t);
	}
	judge(l, 100 * S);
}

static void ranks_of_a_job_share_the_times_of_their_collectives(void **state)
{
	struct links *first = *state, *second, *other, *alone = NULL;
	const struct links_pool *pool;

	assert_int_equal(links_open(&second, first), 0);
	assert_int_equal(links_open(&other, first), 0);
	assert_int_equal(links_open(&alone, NULL), 0);
	send_100(first, 0);
	send_100(second, 0);
	send_100(alone, 0);
	pool = links_coll_at(first, 0)->pool;
	assert_ptr_equal(links_coll_at(second, 0)->pool, pool);
	assert_null(links_coll_at(other, 0));
	assert_int_equal(links_coll_at(alone, 0)->pool->ranks, 1);
	assert_int_equal(pool->ranks, 2);
	assert_ptr_equal(pool->first, first);
	assert_int_equal(pool->sum.collectives, 200);
	assert_int_equal(pool->sum.bytes, 2 * links_coll_at(second, 0)->sum.bytes);
	assert_int_equal(links_coll_at(second, 0)->sum.collectives, 100);
	/* together they are enough to learn from */
	judge(first, 100 * S);
	assert_int_equal(pool->usual.fit[LINK_MEDIAN].samples, 200);
	/* what a rank that ends has sent remains */
	links_close(first);
	assert_int_equal(pool->ranks, 1);
	assert_ptr_equal(pool->first, second);
	send_100(other, 0);
	assert_ptr_equal(links_coll_at(other, 0)->pool, pool);
	links_close(second);
	assert_ptr_equal(pool->first, other);
	assert_int_equal(pool->sum.collectives, 300);
	links_close(other);
	*state = alone;
}

static void a_collective_has_a_line_for_each_regime_of_sizes(void **state)
{
	struct links *l = *state;
	const struct links_coll *c;

	for (uint32_t i = 0; i < 400; i++) {
		uint64_t bytes = 4096ull << i % 12, small = 20 * US + bytes,
			 large = 100 * US + bytes / 10;
		struct transfer t = input(S + i * S / 10, i, 3, 0, bytes, 1);

		t.bytes = bytes;
		t.func = RECORD_COLL_ALL_REDUCE;
		t.end_ns = t.begin_ns + (bytes <= 65536 ? small : large);
		links_add(l, &t);
		if (i == LINKS_LEARN_MIN / 2) {
			judge(l, t.end_ns);
			assert_int_equal(links_coll_at(l, 0)->pool->usual.fit[LINK_MEDIAN].regimes,
					 0);
		}
	}
	judge(l, 100 * S);
	c = links_coll_at(l, 0);
	assert_int_equal(c->pool->usual.fit[LINK_MEDIAN].regimes, 2);
	assert_float_equal(c->pool->usual.fit[LINK_MEDIAN].regime[0].latency_ns, 20e3, 2e3);
	assert_float_equal(c->pool->usual.fit[LINK_MEDIAN].regime[0].ns_per_byte, 1, 0.05);
	assert_float_equal(c->pool->usual.fit[LINK_MEDIAN].regime[1].latency_ns, 100e3, 10e3);
	assert_float_equal(c->pool->usual.fit[LINK_MEDIAN].regime[1].ns_per_byte, 0.1, 0.005);
	assert_in_range(c->pool->usual.fit[LINK_MEDIAN].regime[0].max_bytes, 65536, 131071);
	assert_true(c->pool->usual.fit[LINK_MEDIAN].r2 > 0.99);
	assert_true(c->pool->usual.fit[LINK_MEDIAN].mape < 0.01);
}

/* A third of the transfers meets congestion and takes four times as long. */
static void the_mean_and_the_shortest_times_have_lines_of_their_own(void **state)
{
	struct links *l = *state;
	const double usual = 10e3 + 16384 / 10.0;
	const struct link_fit *fit;

	for (uint32_t i = 0; i < 600; i++) {
		struct transfer t =
		    input(S + i * S / 10, i, 3, 0, 4096ull << i % 4, i / 4 % 3 ? 1 : 4);

		links_add(l, &t);
	}
	judge(l, 100 * S);
	fit = links_at(l, 0)->usual.fit;
	assert_float_equal(link_fit_predict(&fit[LINK_MEDIAN], 16384), usual, 0.1 * usual);
	assert_float_equal(link_fit_predict(&fit[LINK_MIN], 16384), 0.9 * usual, 0.05 * usual);
	assert_float_equal(link_fit_predict(&fit[LINK_AVG], 16384), 2 * usual, 0.1 * usual);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	    TEST(a_link_is_judged_by_its_own_past),
	    TEST(a_few_long_transfers_show_in_the_mean),
	    TEST(nothing_is_judged_before_the_usual_times_are_known),
	    TEST(a_collective_is_counted_once_and_whole),
	    TEST(a_call_without_transfers_holds_nothing_open),
	    TEST(hostile_figures_and_full_tables_are_counted),
	    TEST(adds_up_channels_and_collectives),
	    TEST(ranks_of_a_job_share_the_times_of_their_collectives),
	    TEST(a_collective_has_a_line_for_each_regime_of_sizes),
	    TEST(the_mean_and_the_shortest_times_have_lines_of_their_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
