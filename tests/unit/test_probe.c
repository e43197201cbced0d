/* SPDX-License-Identifier: Apache-2.0 */
#include "base/probe.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/idmap.h"

static uint32_t find(const struct probe *t, const uint64_t *key, uint64_t hash, uint64_t wanted)
{
	PROBE_EACH (i, t, hash)
		if (key[i.number] == wanted)
			return i.number;
	return UINT32_MAX;
}

static void numbers_of_one_hash_are_distinguished_by_the_caller(void **state)
{
	uint64_t key[1000] = {0};
	struct probe t = {0};

	(void)state;
	assert_int_equal(find(&t, key, 7, 7), UINT32_MAX);
	for (uint32_t i = 0; i < 1000; i++) {
		key[i] = i;
		assert_int_equal(probe_add(&t, i % 10, i), 0);
	}
	for (uint32_t i = 0; i < 1000; i++)
		assert_int_equal(find(&t, key, i % 10, i), i);
	assert_int_equal(find(&t, key, 3, 1003), UINT32_MAX);
	assert_true(t.room >= 2 * t.count);
	probe_fini(&t);
}

static void what_stays_is_found_after_others_are_taken_out(void **state)
{
	enum { N = 400 };
	uint64_t key[N];
	struct probe t = {0};

	(void)state;
	/* few hashes, so that chains run into each other and over the table's end */
	for (uint32_t i = 0; i < N; i++) {
		key[i] = i;
		assert_int_equal(probe_add(&t, (i % 37) * 31, i), 0);
	}
	for (uint32_t gone = 0; gone < N; gone++) {
		uint32_t g = gone * 7 % N;

		probe_remove(&t, (g % 37) * 31, g);
		probe_remove(&t, (g % 37) * 31, g); /* not there: a no-op */
		assert_int_equal(t.count, N - 1 - gone);
		key[g] = UINT64_MAX;
		for (uint32_t i = 0; i < N; i++)
			assert_int_equal(find(&t, key, (i % 37) * 31, i),
					 key[i] == i ? i : UINT32_MAX);
	}
	for (uint32_t i = 0; i < t.room; i++)
		assert_true(!t.slot[i]);
	probe_fini(&t);
}

static void memory_of_the_caller_serves_up_to_half_of_it(void **state)
{
	uint64_t slot[16] = {0};
	struct probe t = {.slot = slot, .room = 16};

	(void)state;
	for (uint32_t i = 0; i < 8; i++)
		assert_int_equal(probe_add(&t, i, i), 0);
	assert_ptr_equal(t.slot, slot);
	probe_clear(&t);
	assert_int_equal(t.count, 0);
	assert_ptr_equal(t.slot, slot);
}

static void a_map_keeps_its_bound_and_what_is_left(void **state)
{
	struct idmap m = {.max = 1000};

	(void)state;
	for (uint32_t i = 0; i < 1000; i++)
		assert_int_equal(idmap_put(&m, i * 1000003ull, i), 0);
	assert_int_equal(idmap_put(&m, 1, 1), -ENOSPC);
	assert_int_equal(idmap_put(&m, 0, 5), 0); /* there already */
	assert_int_equal(idmap_get(&m, 0), 5);
	for (uint32_t i = 0; i < 1000; i += 2)
		idmap_remove(&m, i * 1000003ull);
	assert_int_equal(m.count, 500);
	for (uint32_t i = 0; i < 1000; i++)
		assert_int_equal(idmap_get(&m, i * 1000003ull), i % 2 ? i : IDMAP_NONE);
	/* one that comes and goes costs no room */
	for (uint32_t i = 0; i < 100000; i++) {
		assert_int_equal(idmap_put(&m, ~(uint64_t)i, i), 0);
		idmap_remove(&m, ~(uint64_t)i);
	}
	assert_int_equal(m.count, 500);
	assert_true(m.by_key.room <= 2048);
	idmap_fini(&m);
	assert_int_equal(m.max, 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(numbers_of_one_hash_are_distinguished_by_the_caller),
	    cmocka_unit_test(what_stays_is_found_after_others_are_taken_out),
	    cmocka_unit_test(memory_of_the_caller_serves_up_to_half_of_it),
	    cmocka_unit_test(a_map_keeps_its_bound_and_what_is_left),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
