/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "sidecar/os/os_cost.h"

#define SECOND 1000000000ull

struct node {
	struct os_cost cost;
	struct os_cost_sums sums;
	uint64_t now_ns;
	double share[OS_GROUP_COUNT]; /* what each group takes of one CPU while it is attached */
	bool attached[OS_GROUP_COUNT];
	bool suspect;
};

static void node_init(struct node *n, double budget, uint32_t cpus)
{
	memset(n, 0, sizeof(*n));
	n->now_ns = 100 * SECOND;
	for (unsigned g = 0; g < OS_GROUP_COUNT; g++)
		n->attached[g] = true;
	os_cost_init(&n->cost, budget, cpus, n->now_ns);
}

/* As os_signals_read does, once a second. */
static void node_second(struct node *n)
{
	enum os_group g;
	bool on;

	n->now_ns += SECOND;
	for (unsigned i = 0; i < OS_GROUP_COUNT; i++) {
		if (!n->attached[i] || !n->cost.measuring)
			continue; /* the kernel only counts while it is asked to */
		n->sums.run_ns[i] += (uint64_t)(n->share[i] * 1e9);
	}
	g = os_cost_again(&n->cost, n->now_ns);
	if (g < OS_GROUP_COUNT)
		n->attached[g] = true;
	while ((g = os_cost_look(&n->cost, n->suspect, n->now_ns, &on)) < OS_GROUP_COUNT)
		n->attached[g] = on;
	if (os_cost_end(&n->cost, &n->sums, n->now_ns, &g) && g < OS_GROUP_COUNT)
		n->attached[g] = false;
	if (os_cost_due(&n->cost, n->now_ns))
		os_cost_begin(&n->cost, &n->sums, n->now_ns);
}

static void run(struct node *n, unsigned seconds)
{
	while (seconds--)
		node_second(n);
}

static void measures_a_share_of_all_cpus(void **state)
{
	struct node n;

	node_init(&n, 0, 4);
	n.share[OS_GROUP_CPU] = 0.02;
	n.share[OS_GROUP_LOCKS] = 0.01;
	run(&n, 30);
	assert_true(n.cost.measurements >= 2);
	assert_true(n.cost.total > 0.00749 && n.cost.total < 0.00751);
	assert_true(n.cost.share[OS_GROUP_LOCKS] > 0.00249 &&
		    n.cost.share[OS_GROUP_LOCKS] < 0.00251);
}

static void without_a_budget_nothing_is_let_go(void **state)
{
	struct node n;

	node_init(&n, 0, 1);
	n.share[OS_GROUP_CPU] = 0.9;
	run(&n, 300);
	for (unsigned g = 0; g < OS_GROUP_COUNT; g++)
		assert_true(n.attached[g]);
}

static void within_the_budget_nothing_is_let_go(void **state)
{
	struct node n;
	char text[128];

	node_init(&n, 0.003, 2);
	n.share[OS_GROUP_CPU] = 0.0059;
	run(&n, 300);
	for (unsigned g = 0; g < OS_GROUP_COUNT; g++)
		assert_true(n.attached[g]);
	assert_string_equal(os_cost_text(&n.cost, text, sizeof(text)), "");
}

static void lets_the_costliest_group_go_and_says_so(void **state)
{
	struct node n;
	char text[128];

	node_init(&n, 0.003, 2);
	n.share[OS_GROUP_ALWAYS] = 0.0001;
	n.share[OS_GROUP_CPU] = 0.002;
	n.share[OS_GROUP_LOCKS] = 0.02;
	run(&n, 20);
	assert_false(n.attached[OS_GROUP_LOCKS]);
	assert_true(n.attached[OS_GROUP_CPU]);
	assert_string_equal(os_cost_text(&n.cost, text, sizeof(text)),
			    "locks (1% of the CPUs' time)");
}

static void one_measurement_over_the_budget_is_no_reason(void **state)
{
	struct node n;

	node_init(&n, 0.003, 2);
	n.share[OS_GROUP_LOCKS] = 0.02;
	while (!n.cost.over)
		node_second(&n);
	n.share[OS_GROUP_LOCKS] = 0.001;
	run(&n, 100);
	assert_true(n.attached[OS_GROUP_LOCKS]);
}

static void lets_go_of_as_many_as_it_takes_but_never_of_who_is_watched(void **state)
{
	struct node n;

	node_init(&n, 0.0001, 1);
	for (unsigned g = 0; g < OS_GROUP_COUNT; g++)
		n.share[g] = 0.01 + 0.001 * g;
	run(&n, 50);
	assert_true(n.attached[OS_GROUP_ALWAYS]);
	for (unsigned g = OS_GROUP_ALWAYS + 1; g < OS_GROUP_COUNT; g++)
		assert_false(n.attached[g]);
}

static void takes_a_group_back_and_waits_longer_each_time(void **state)
{
	unsigned off[4] = {0}, times = 0;
	bool before = true;
	struct node n;

	node_init(&n, 0.003, 1);
	n.share[OS_GROUP_STORAGE] = 0.5;
	for (unsigned i = 0; i < 2000 && times < 4; i++) {
		node_second(&n);
		if (!n.attached[OS_GROUP_STORAGE])
			off[times]++;
		else if (!before)
			times++;
		before = n.attached[OS_GROUP_STORAGE];
	}
	assert_int_equal(times, 4);
	assert_int_equal(off[0], 60);
	for (unsigned i = 1; i < 4; i++)
		assert_int_equal(off[i], 2 * off[i - 1]);
}

static void a_group_that_costs_little_again_stays(void **state)
{
	struct node n;

	node_init(&n, 0.003, 1);
	n.share[OS_GROUP_PACKETS] = 0.5;
	run(&n, 20);
	assert_false(n.attached[OS_GROUP_PACKETS]);
	n.share[OS_GROUP_PACKETS] = 0.0001;
	run(&n, 200);
	assert_true(n.attached[OS_GROUP_PACKETS]);
}

static void a_suspect_is_looked_at_within_the_budget_of_half_a_minute(void **state)
{
	unsigned seen = 0, first = 0;
	struct node n;

	node_init(&n, 0.003, 1);
	n.share[OS_GROUP_LOCKS] = 0.02;
	n.share[OS_GROUP_CPU] = 0.002;
	n.share[OS_GROUP_STORAGE] = 0.5;
	run(&n, 30);
	assert_false(n.attached[OS_GROUP_LOCKS]);
	n.suspect = true;
	for (unsigned i = 0; i < 30; i++) {
		node_second(&n);
		seen += n.attached[OS_GROUP_LOCKS];
		first += i == 0 && n.attached[OS_GROUP_LOCKS];
		assert_int_equal(n.attached[OS_GROUP_LOCKS],
				 os_cost_is_attached(&n.cost, OS_GROUP_LOCKS));
		assert_true(n.attached[OS_GROUP_CPU]); /* it is no reason to let others go */
		assert_false(
		    n.attached[OS_GROUP_STORAGE]); /* two looks a minute would be too much */
	}
	assert_int_equal(first, 1);
	assert_true(seen == 4 || seen == 5); /* 30 s of 0.3% in seconds of 2% */
	n.suspect = false;
	run(&n, 5);
	assert_false(n.attached[OS_GROUP_LOCKS]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(measures_a_share_of_all_cpus),
	    cmocka_unit_test(without_a_budget_nothing_is_let_go),
	    cmocka_unit_test(within_the_budget_nothing_is_let_go),
	    cmocka_unit_test(lets_the_costliest_group_go_and_says_so),
	    cmocka_unit_test(one_measurement_over_the_budget_is_no_reason),
	    cmocka_unit_test(lets_go_of_as_many_as_it_takes_but_never_of_who_is_watched),
	    cmocka_unit_test(takes_a_group_back_and_waits_longer_each_time),
	    cmocka_unit_test(a_group_that_costs_little_again_stays),
	    cmocka_unit_test(a_suspect_is_looked_at_within_the_budget_of_half_a_minute),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
