/* SPDX-License-Identifier: Apache-2.0
 * test_quota.c - nobody is kept out who has less than the fair share, and the whole is bounded. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/daemon/quota.h"

static void one_user_may_have_all_while_nobody_else_asks(void **state)
{
	struct quota q;

	quota_init(&q, 64, 0);
	for (int i = 0; i < 64; i++) {
		assert_true(quota_may(&q, 1000, 1, 0));
		quota_take(&q, 1000, 1, 0);
	}
	assert_true(quota_is_full(&q, 1));
	assert_false(quota_may(&q, 1000, 1, 0));
	assert_int_equal(q.refused, 1);
}

static void who_has_most_gives_way_down_to_the_fair_share(void **state)
{
	struct quota q;
	uid_t heaviest = 0;
	int given = 0;

	quota_init(&q, 64, 0);
	quota_take(&q, 1000, 64, 0);
	while (quota_may(&q, 1001, 1, 0)) {
		assert_true(quota_heaviest(&q, &heaviest));
		assert_int_equal(heaviest, 1000);
		quota_give(&q, heaviest, 1);
		quota_take(&q, 1001, 1, 0);
		given++;
	}
	assert_int_equal(given, 32);
	assert_int_equal(quota_of(&q, 1000), 32);
	assert_false(quota_may(&q, 1000, 1, 0)); /* and does not take them back */
	assert_int_equal(q.total, 64);
}

/* Whatever the order of takes and gives: below capacity / users nobody is refused. */
static void nobody_below_the_share_is_refused_in_any_order(void **state)
{
	unsigned seed = 20261123, refused = 0;
	struct quota q;

	printf("seed %u\n", seed);
	srand(seed);
	quota_init(&q, 64, 0);
	for (int i = 0; i < 20000; i++) {
		uid_t uid = (uid_t)(rand() % 7), heaviest;
		uint32_t users = q.user_count + !quota_of(&q, uid);

		if (rand() % 4 == 0 && quota_of(&q, uid)) {
			quota_give(&q, uid, 1);
			continue;
		}
		if (!quota_may(&q, uid, 1, 0)) {
			assert_true(quota_of(&q, uid) + 1 > q.capacity / users);
			refused++;
			continue;
		}
		if (quota_is_full(&q, 1)) {
			assert_true(quota_heaviest(&q, &heaviest));
			assert_int_not_equal(heaviest, uid);
			assert_true(quota_of(&q, heaviest) > quota_of(&q, uid) + 1 ||
				    quota_of(&q, heaviest) == quota_of(&q, uid) + 1);
			quota_give(&q, heaviest, 1);
		}
		quota_take(&q, uid, 1, 0);
		assert_true(q.total <= q.capacity);
	}
	assert_true(refused > 100);
}

static void more_users_than_are_remembered_are_refused_or_the_least_forgotten(void **state)
{
	struct quota held, work;

	quota_init(&held, 1000, 0);
	quota_init(&work, 1000, 1000000000);
	for (uint32_t i = 0; i < QUOTA_USERS; i++) {
		assert_true(quota_may(&held, i, 1, 0));
		quota_take(&held, i, 1, 0);
		quota_take(&work, i, i + 1, 1);
	}
	assert_false(quota_may(&held, QUOTA_USERS, 1, 0));
	quota_take(&work, QUOTA_USERS, 5, 1);
	assert_int_equal(work.user_count, QUOTA_USERS);
	assert_int_equal(quota_of(&work, 0), 0);
	assert_int_equal(quota_of(&work, QUOTA_USERS), 5);
}

/* One user who works without end is stopped; the others go on, and so does that one after a while. */
static void work_fades_and_its_sum_is_bounded(void **state)
{
	const uint64_t second = 1000000000, capacity = 100000000;
	uint64_t now = 5 * second, most = 0;
	unsigned done[4] = {0};
	struct quota q;

	quota_init(&q, capacity, second);
	for (int i = 0; i < 40000; i++) {
		uid_t uid = i % 10 ? 0 : (uid_t)(1 + i / 10 % 3);

		now += second / 2000; /* 20 s */
		if (!quota_may(&q, uid, 1000000, now))
			continue;
		quota_take(&q, uid, 1000000, now);
		done[uid]++;
		if (q.total > most)
			most = q.total;
	}
	assert_true(most <= 2 * capacity);
	assert_true(q.refused > 0);
	for (int u = 1; u < 4; u++) /* a quarter of the whole is each one's */
		assert_true(done[u] * 4 >= done[0]);
	assert_true(quota_may(&q, 0, 1000000, now + 3 * second));
}

static void a_clock_that_steps_back_and_a_huge_amount_do_no_harm(void **state)
{
	struct quota q;

	quota_init(&q, 100, 10);
	quota_take(&q, 1, UINT64_MAX, 1000);
	quota_take(&q, 1, UINT64_MAX, 500);
	assert_false(quota_may(&q, 1, 1, 505));
	assert_true(quota_may(&q, 2, 50, 505));
	assert_true(quota_may(&q, 1, 1, 500 + 64 * 10));
	assert_int_equal(q.total, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(one_user_may_have_all_while_nobody_else_asks),
	    cmocka_unit_test(who_has_most_gives_way_down_to_the_fair_share),
	    cmocka_unit_test(nobody_below_the_share_is_refused_in_any_order),
	    cmocka_unit_test(more_users_than_are_remembered_are_refused_or_the_least_forgotten),
	    cmocka_unit_test(work_fades_and_its_sum_is_bounded),
	    cmocka_unit_test(a_clock_that_steps_back_and_a_huge_amount_do_no_harm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
