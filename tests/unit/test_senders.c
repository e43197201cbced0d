/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/senders.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define BULK 1

static struct senders *senders;
static struct sender_connection connections[512];

static struct peer_key address(uint64_t value)
{
	return (struct peer_key){1, value};
}

static void add(uint32_t i, uint64_t from)
{
	memset(&connections[i], 0, sizeof(connections[i]));
	assert_int_equal(senders_add(senders, &connections[i], address(from)), 0);
}

static int setup(void **state)
{
	(void)state;
	return senders_open(&senders);
}

static int teardown(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 512; i++)
		if (connections[i].sender)
			senders_remove(senders, &connections[i]);
	senders_close(senders);
	return 0;
}

/* Takes the next one, who costs so much and waits again at once. */
static uint32_t serve(int lane, uint64_t cost_ns)
{
	struct sender_connection *s = senders_next(senders, lane);

	assert_non_null(s);
	senders_charge(senders, s, lane, cost_ns);
	senders_wait(senders, s, lane);
	return (uint32_t)(s - connections);
}

static void a_sender_with_many_connections_gets_no_more_than_one_with_one(void **state)
{
	uint64_t spent[2] = {0};

	(void)state;
	for (uint32_t i = 0; i < 100; i++) {
		add(i, i < 99 ? 1 : 2);
		senders_wait(senders, &connections[i], BULK);
	}
	for (int turn = 0; turn < 4000; turn++) {
		struct sender_connection *next = senders_next(senders, BULK);
		int many = next - connections < 99;

		/* theirs cost a hundred times as much */
		spent[many] += many ? 100 : 1;
		senders_charge(senders, next, BULK, many ? 100 : 1);
		senders_wait(senders, next, BULK);
	}
	assert_in_range(spent[1], spent[0] - 100, spent[0] + 100);
}

static void connections_of_one_sender_take_turns(void **state)
{
	uint32_t turns[4] = {0};

	(void)state;
	for (uint32_t i = 0; i < 4; i++) {
		add(i, 1);
		senders_wait(senders, &connections[i], BULK);
	}
	for (int turn = 0; turn < 400; turn++)
		turns[serve(BULK, 5)]++;
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(turns[i], 100);
}

static void who_comes_late_has_no_credit_and_is_next(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 50; i++) {
		add(i, 1);
		senders_wait(senders, &connections[i], BULK);
	}
	for (int turn = 0; turn < 100; turn++)
		serve(BULK, 1000);
	add(50, 2);
	senders_wait(senders, &connections[50], BULK);
	assert_int_equal(serve(BULK, 1000), 50);
	/* not a second time: what it did not use before is gone */
	assert_true(serve(BULK, 1000) < 50);
}

static void hanging_up_pays_no_debt(void **state)
{
	(void)state;
	add(0, 1);
	add(1, 2);
	senders_wait(senders, &connections[0], BULK);
	assert_int_equal(serve(BULK, 1000000), 0);
	senders_remove(senders, &connections[0]);
	add(2, 3); /* a new connection makes senders look at those that owe */
	add(0, 1);
	senders_wait(senders, &connections[0], BULK);
	senders_wait(senders, &connections[1], BULK);
	for (int turn = 0; turn < 999; turn++)
		assert_int_equal(serve(BULK, 1000), 1);
}

static void one_lane_waits_for_no_other(void **state)
{
	(void)state;
	add(0, 1);
	add(1, 2);
	senders_wait(senders, &connections[0], BULK);
	assert_null(senders_next(senders, 0));
	senders_wait(senders, &connections[1], 0);
	assert_ptr_equal(senders_next(senders, 0), &connections[1]);
	assert_null(senders_next(senders, 0));
}

static void who_has_most_is_known_whatever_comes_and_goes(void **state)
{
	uint64_t random = 1, bytes[8] = {0};
	uint32_t count[8] = {0};

	(void)state;
	for (int turn = 0; turn < 20000; turn++) {
		uint32_t i, from, most_connections = 0;
		uint64_t most_bytes = 0;

		random = random * 6364136223846793005ull + 1442695040888963407ull;
		i = (uint32_t)(random >> 33) % 512;
		from = i % 8;
		if (!connections[i].sender) {
			add(i, from);
			count[from]++;
		} else if (random >> 62) {
			bytes[from] += (random >> 40 & 0xffff) - connections[i].bytes;
			senders_hold(senders, &connections[i], random >> 40 & 0xffff);
			senders_touch(&connections[i]);
			assert_null(TAILQ_NEXT(&connections[i], next));
		} else {
			bytes[from] -= connections[i].bytes;
			count[from]--;
			if (connections[i].lane < 0)
				senders_wait(senders, &connections[i], BULK);
			senders_remove(senders, &connections[i]);
		}
		for (int k = 0; k < 8; k++) {
			most_connections =
			    count[k] > most_connections ? count[k] : most_connections;
			most_bytes = bytes[k] > most_bytes ? bytes[k] : most_bytes;
		}
		if (!most_connections)
			continue;
		assert_int_equal(senders_most_connections(senders)->connections, most_connections);
		assert_int_equal(senders_most_bytes(senders)->bytes, most_bytes);
	}
	assert_null(senders_next(senders, BULK));
}

int main(void)
{
#define CASE(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
	const struct CMUnitTest tests[] = {
	    CASE(a_sender_with_many_connections_gets_no_more_than_one_with_one),
	    CASE(connections_of_one_sender_take_turns),
	    CASE(who_comes_late_has_no_credit_and_is_next),
	    CASE(hanging_up_pays_no_debt),
	    CASE(one_lane_waits_for_no_other),
	    CASE(who_has_most_is_known_whatever_comes_and_goes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
