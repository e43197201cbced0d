/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "sidecar/node.h"

#define MS 1000000ull

/* Turns of one fill for so long; the time after them. */
static uint64_t turns(struct node *n, double fill, uint64_t from_ns, uint64_t length_ns)
{
	uint64_t t = from_ns;

	for (; t < from_ns + length_ns; t += n->drain_ms * MS)
		drain_pace(n, fill, t);
	return t;
}

static void turns_get_rarer_while_lanes_stay_empty(void **state)
{
	struct node *n = calloc(1, sizeof(*n));
	uint64_t t = turns(n, 0.1, 1, 4000 * MS);

	assert_int_equal(n->drain_ms, NODE_DRAIN_MS);
	t = turns(n, 0.1, t, 3000 * MS);
	assert_int_equal(n->drain_ms, 2 * NODE_DRAIN_MS);
	turns(n, 0.1, t, 60000 * MS);
	assert_int_equal(n->drain_ms, NODE_DRAIN_MAX_MS);
	free(n);
}

static void one_full_lane_makes_them_frequent_at_once(void **state)
{
	struct node *n = calloc(1, sizeof(*n));
	uint64_t t = turns(n, 0, 1, 60000 * MS);

	drain_pace(n, 0.6, t);
	assert_int_equal(n->drain_ms, NODE_DRAIN_MS);
	free(n);
}

static void a_burst_every_second_keeps_them_frequent(void **state)
{
	struct node *n = calloc(1, sizeof(*n));
	uint64_t t = 1;

	for (int i = 0; i < 60; i++) {
		t = turns(n, 0.05, t, 1000 * MS);
		drain_pace(n, 0.3, t);
		assert_int_equal(n->drain_ms, NODE_DRAIN_MS);
	}
	free(n);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(turns_get_rarer_while_lanes_stay_empty),
		cmocka_unit_test(one_full_lane_makes_them_frequent_at_once),
		cmocka_unit_test(a_burst_every_second_keeps_them_frequent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
