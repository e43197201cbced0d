/* SPDX-License-Identifier: Apache-2.0
 * Steps are built from known kernel times; the truth of every case is how they were built. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/explain.h"

#define NAMES 40
#define KEYS 4

struct made {
	struct step s;
	struct step_kernel k[STEP_KERNELS_MAX];
	uint32_t n;
};

static uint32_t random_state;

static double jitter(void)
{
	random_state = random_state * 1664525u + 1013904223u;
	return 1 + 0.004 * ((random_state >> 8) / 16777216.0 - 0.5);
}

/* 40 kernels, name i taking i * 10 us in two instances; 1 ms idle, 0.5 ms exposed, 0.2 ms copy. */
static void make(struct made *m, uint64_t key, double work)
{
	memset(m, 0, sizeof(*m));
	m->s.key = key;
	m->n = NAMES;
	for (uint32_t i = 0; i < NAMES; i++)
		m->k[i] = (struct step_kernel){ .name = i + 1, .count = 2, .kind = RECORD_KERNEL,
						.total_ns = (uint64_t)(work * (i + 1) * 10000 * jitter()) };
	m->s.idle_ns = 1000000;
	m->s.exposed_comm_ns = 500000;
	m->s.copy_ns = 200000;
	m->s.work[0] = work * 1000;
	m->s.work_count = 1;
}

static void total(struct made *m)
{
	m->s.compute_ns = 0;
	for (uint32_t i = 0; i < m->n; i++)
		m->s.compute_ns += m->k[i].total_ns;
	m->s.latency_ns = m->s.compute_ns + m->s.idle_ns + m->s.exposed_comm_ns + m->s.copy_ns;
}

static struct explain *learned(uint64_t key, uint32_t steps)
{
	struct explain *e = explain_init(malloc(explain_memory_bytes(KEYS)), KEYS);
	struct made m;

	random_state = 7;
	for (uint32_t i = 0; i < steps; i++) {
		make(&m, key, 1);
		total(&m);
		explain_learn(e, &m.s, m.k, m.n);
	}
	explain_begin(e);
	return e;
}

static void one_slow_kernel_is_named_with_its_times(void **state)
{
	struct explain *e = learned(9, 100);
	struct explain_part p[EXPLAIN_PARTS_MAX];
	struct made m;

	for (uint32_t i = 0; i < 5; i++) {
		make(&m, 9, 1);
		m.k[29].total_ns *= 4;
		total(&m);
		explain_add(e, &m.s, m.k, m.n);
	}
	assert_int_equal(explain_parts(e, p, EXPLAIN_PARTS_MAX), 1);
	assert_int_equal(p[0].kind, EXPLAIN_KERNEL);
	assert_int_equal(p[0].name, 30);
	assert_float_equal(p[0].expected_ns, 300000, 1000);
	assert_float_equal(p[0].observed_ns, 1200000, 4000);
	assert_true(p[0].share > 0.95);
	free(e);
}

static void slower_clocks_are_one_part_not_forty(void **state)
{
	struct explain *e = learned(9, 100);
	struct explain_part p[EXPLAIN_PARTS_MAX];
	struct made m;

	for (uint32_t i = 0; i < 5; i++) {
		make(&m, 9, 1);
		for (uint32_t k = 0; k < m.n; k++)
			/* a few are bound by something else */
			m.k[k].total_ns = (uint64_t)(m.k[k].total_ns * (k % 10 == 0 ? 1.02 : 1.3));
		total(&m);
		explain_add(e, &m.s, m.k, m.n);
	}
	assert_int_equal(explain_parts(e, p, EXPLAIN_PARTS_MAX), 1);
	assert_int_equal(p[0].kind, EXPLAIN_ALL_KERNELS);
	assert_in_range((uint64_t)(1000 * p[0].observed_ns / p[0].expected_ns), 1250, 1310);
	assert_true(p[0].share > 0.95);
	free(e);
}

static void idle_growth_is_a_gap(void **state)
{
	struct explain *e = learned(9, 100);
	struct explain_part p[EXPLAIN_PARTS_MAX];
	struct made m;

	make(&m, 9, 1);
	m.s.idle_ns += 5000000;
	total(&m);
	explain_add(e, &m.s, m.k, m.n);
	assert_int_equal(explain_parts(e, p, EXPLAIN_PARTS_MAX), 1);
	assert_int_equal(p[0].kind, EXPLAIN_GAP);
	assert_true(p[0].share > 0.95);
	/* between two steps the device span does not show it */
	make(&m, 9, 1);
	total(&m);
	m.s.latency_ns += 5000000;
	explain_begin(e);
	explain_add(e, &m.s, m.k, m.n);
	assert_int_equal(explain_parts(e, p, EXPLAIN_PARTS_MAX), 1);
	assert_int_equal(p[0].kind, EXPLAIN_GAP);
	assert_float_equal(p[0].observed_ns - p[0].expected_ns, 5000000, 50000);
	free(e);
}

static void waiting_for_others_is_comm_wait_and_parts_are_sorted(void **state)
{
	struct explain *e = learned(9, 100);
	struct explain_part p[EXPLAIN_PARTS_MAX];
	struct made m;

	make(&m, 9, 1);
	m.s.exposed_comm_ns += 3000000;
	m.s.copy_ns += 1000000;
	total(&m);
	explain_add(e, &m.s, m.k, m.n);
	assert_int_equal(explain_parts(e, p, EXPLAIN_PARTS_MAX), 2);
	assert_int_equal(p[0].kind, EXPLAIN_COMM_WAIT);
	assert_int_equal(p[1].kind, EXPLAIN_COPY);
	assert_float_equal(p[0].share, 0.75, 0.02);
	assert_float_equal(p[1].share, 0.25, 0.02);
	assert_int_equal(explain_parts(e, p, 1), 1);
	assert_int_equal(p[0].kind, EXPLAIN_COMM_WAIT);
	assert_int_equal(explain_parts(e, p, 0), 0);
	free(e);
}

static void more_instances_are_extra_kernels(void **state)
{
	struct explain *e = learned(9, 100);
	struct explain_part p[EXPLAIN_PARTS_MAX];
	struct made m;

	make(&m, 9, 1);
	m.k[19].count = 10;
	m.k[19].total_ns *= 5;
	total(&m);
	explain_add(e, &m.s, m.k, m.n);
	assert_int_equal(explain_parts(e, p, EXPLAIN_PARTS_MAX), 1);
	assert_int_equal(p[0].kind, EXPLAIN_EXTRA_KERNELS);
	assert_int_equal(p[0].name, 20);
	/* one never seen before */
	make(&m, 9, 1);
	m.k[m.n++] = (struct step_kernel){ .name = 777, .count = 3, .kind = RECORD_KERNEL,
					   .total_ns = 2000000 };
	total(&m);
	explain_begin(e);
	explain_add(e, &m.s, m.k, m.n);
	assert_int_equal(explain_parts(e, p, EXPLAIN_PARTS_MAX), 1);
	assert_int_equal(p[0].kind, EXPLAIN_EXTRA_KERNELS);
	assert_int_equal(p[0].name, 777);
	assert_float_equal(p[0].share, 1, 0.05);
	free(e);
}

static void compares_with_healthy_steps_of_like_work(void **state)
{
	struct explain *e = explain_init(malloc(explain_memory_bytes(KEYS)), KEYS);
	struct explain_part p[EXPLAIN_PARTS_MAX];
	struct made m;

	/* half of the steps carry four times the work; a slow small one is still far below those */
	for (uint32_t i = 0; i < 200; i++) {
		make(&m, 9, i % 2 ? 4 : 1);
		total(&m);
		explain_learn(e, &m.s, m.k, m.n);
	}
	explain_begin(e);
	make(&m, 9, 1);
	m.k[39].total_ns *= 3;
	total(&m);
	explain_add(e, &m.s, m.k, m.n);
	assert_int_equal(explain_parts(e, p, EXPLAIN_PARTS_MAX), 1);
	assert_int_equal(p[0].kind, EXPLAIN_KERNEL);
	assert_int_equal(p[0].name, 40);
	assert_float_equal(p[0].expected_ns, 400000, 2000);
	free(e);
}

static void says_nothing_without_a_baseline_and_forgets_the_oldest_key(void **state)
{
	struct explain *e = learned(1, 100);
	struct explain_part p[EXPLAIN_PARTS_MAX];
	struct made m;

	assert_int_equal(explain_parts(e, p, EXPLAIN_PARTS_MAX), 0);
	make(&m, 55, 1);
	m.s.idle_ns *= 9;
	total(&m);
	explain_add(e, &m.s, m.k, m.n);
	assert_int_equal(explain_parts(e, p, EXPLAIN_PARTS_MAX), 0);
	for (uint64_t key = 2; key < 2 + KEYS; key++)
		for (uint32_t i = 0; i < 5; i++) {
			make(&m, key, 1);
			total(&m);
			explain_learn(e, &m.s, m.k, m.n);
		}
	explain_begin(e);
	make(&m, 1, 1);
	m.s.idle_ns *= 9;
	total(&m);
	explain_add(e, &m.s, m.k, m.n);
	assert_int_equal(explain_parts(e, p, EXPLAIN_PARTS_MAX), 0);
	m.s.key = 3;
	explain_begin(e);
	explain_add(e, &m.s, m.k, m.n);
	assert_int_equal(explain_parts(e, p, EXPLAIN_PARTS_MAX), 1);
	free(e);
}

static void stays_in_bounds_with_more_names_and_steps_than_it_keeps(void **state)
{
	struct explain *e = learned(9, 100);
	struct explain_part p[EXPLAIN_PARTS_MAX];
	struct made m;
	uint32_t n;

	for (uint32_t i = 0; i < 100; i++) {
		make(&m, 9, 1);
		m.n = STEP_KERNELS_MAX;
		for (uint32_t k = 0; k < m.n; k++)
			m.k[k] = (struct step_kernel){ .name = i * 1000 + k, .count = 1,
						       .kind = RECORD_KERNEL, .total_ns = 100000 };
		total(&m);
		explain_add(e, &m.s, m.k, m.n);
	}
	n = explain_parts(e, p, EXPLAIN_PARTS_MAX);
	assert_true(n <= EXPLAIN_PARTS_MAX);
	for (uint32_t i = 1; i < n; i++)
		assert_true(p[i].share <= p[i - 1].share);
	assert_string_equal(explain_kind_name(EXPLAIN_ALL_KERNELS), "all-kernels");
	assert_string_equal(explain_kind_name(99), "unknown");
	free(e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_slow_kernel_is_named_with_its_times),
		cmocka_unit_test(slower_clocks_are_one_part_not_forty),
		cmocka_unit_test(idle_growth_is_a_gap),
		cmocka_unit_test(waiting_for_others_is_comm_wait_and_parts_are_sorted),
		cmocka_unit_test(more_instances_are_extra_kernels),
		cmocka_unit_test(compares_with_healthy_steps_of_like_work),
		cmocka_unit_test(says_nothing_without_a_baseline_and_forgets_the_oldest_key),
		cmocka_unit_test(stays_in_bounds_with_more_names_and_steps_than_it_keeps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
