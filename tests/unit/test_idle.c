/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/http/idle.h"

#define ALICE	((struct peer_key){PEER_USER, 1000})
#define MALLORY ((struct peer_key){PEER_USER, 1001})

static struct idle t;
static int ours[8], theirs[8];

static int setup(void **state)
{
	idle_init(&t, 4);
	for (int i = 0; i < 8; i++) {
		int pair[2];

		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair))
			return -1;
		ours[i] = pair[0];
		theirs[i] = pair[1];
	}
	return 0;
}

static int teardown(void **state)
{
	for (int i = 0; i < 8; i++) {
		close(ours[i]);
		close(theirs[i]);
	}
	return 0;
}

static int is_open(int i)
{
	char byte;

	return read(theirs[i], &byte, 1) < 0; /* EAGAIN; 0 is the end */
}

static void a_newcomer_takes_the_place_of_the_oldest_idle_one(void **state)
{
	for (int i = 0; i < 6; i++)
		idle_add(&t, ours[i], ALICE);
	assert_false(is_open(0));
	assert_false(is_open(1));
	for (int i = 2; i < 6; i++)
		assert_true(is_open(i));
	assert_int_equal(t.evicted, 2);
}

static void one_with_a_request_is_kept(void **state)
{
	for (int i = 0; i < 4; i++)
		idle_add(&t, ours[i], ALICE);
	idle_set_busy(&t, ours[0], true);
	idle_add(&t, ours[4], ALICE);
	assert_true(is_open(0));
	assert_false(is_open(1));
	/* and is the youngest once it has its answer */
	idle_set_busy(&t, ours[0], false);
	for (int i = 5; i < 8; i++)
		idle_add(&t, ours[i], ALICE);
	assert_true(is_open(0));
	assert_false(is_open(4));
}

static void a_place_that_is_free_again_is_used(void **state)
{
	for (int i = 0; i < 4; i++)
		idle_add(&t, ours[i], ALICE);
	idle_remove(&t, ours[2]);
	idle_remove(&t, 12345);
	idle_add(&t, ours[5], ALICE);
	for (int i = 0; i < 6; i++)
		assert_true(is_open(i));
}

/* Mallory's are younger, and go first. */
static void who_has_most_connections_loses_one_first(void **state)
{
	idle_add(&t, ours[0], ALICE);
	for (int i = 1; i < 6; i++)
		idle_add(&t, ours[i], MALLORY);
	assert_true(is_open(0));
	assert_false(is_open(1));
	assert_false(is_open(2));
	idle_add(&t, ours[6], ALICE);
	assert_true(is_open(0));
	assert_false(is_open(3));
	/* as many of each: the oldest goes */
	idle_add(&t, ours[7], ALICE);
	assert_false(is_open(0));
	for (int i = 4; i < 8; i++)
		assert_true(is_open(i));
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
	    T(a_newcomer_takes_the_place_of_the_oldest_idle_one),
	    T(one_with_a_request_is_kept),
	    T(a_place_that_is_free_again_is_used),
	    T(who_has_most_connections_loses_one_first),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
