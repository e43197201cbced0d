/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "preload/governor.h"

#define SECOND 1000000000ull

static struct governor_load load;
static bool with_graphs; /* most of the records are of nodes in graphs */

/* Runs for so many seconds at a share of a core, ten ticks a second; true if it was ever switched off. */
static bool run(struct governor *g, unsigned seconds, double share)
{
	bool off = false;

	for (unsigned i = 0; i < seconds * 10; i++) {
		load.now_ns += SECOND / 10;
		load.cpu_ns += (uint64_t)(share * (double)SECOND / 10);
		load.records += 100;
		load.nodes += with_graphs ? 90 : 10;
		off |= governor_step(g, &load) == GOVERNOR_NONE;
	}
	return off;
}

struct tally {
	unsigned ticks[3];
};

/* A load that costs `nodes` with a record per node, `coarse` without, nothing when off. */
static struct tally run_graphs(struct governor *g, unsigned seconds, double nodes, double coarse)
{
	const double cost[] = {
	    [GOVERNOR_ALL] = nodes, [GOVERNOR_COARSE] = coarse, [GOVERNOR_NONE] = 0};
	enum governor_records now = GOVERNOR_ALL;
	struct tally t = {{0}};

	for (unsigned i = 0; i < seconds * 10; i++) {
		load.now_ns += SECOND / 10;
		load.cpu_ns += (uint64_t)(cost[now] * (double)SECOND / 10);
		load.records += now == GOVERNOR_NONE ? 0 : 100;
		load.nodes += now == GOVERNOR_ALL ? 90 : 0;
		now = governor_step(g, &load);
		t.ticks[now]++;
	}
	return t;
}

static int start(void **state)
{
	load = (struct governor_load){.now_ns = 5 * SECOND, .can_coarsen = true};
	with_graphs = false;
	return 0;
}

static void lets_a_light_load_run(void **state)
{
	struct governor g = {0};

	assert_false(run(&g, 1000, GOVERNOR_SHARE * 0.9));
}

static void forgives_a_burst(void **state)
{
	struct governor g = {0};

	run(&g, 15, 0.01);
	assert_false(run(&g, 15, 0.9));
	assert_false(run(&g, 100, 0.01));
}

static void turns_a_lasting_load_off_and_on_again(void **state)
{
	struct governor g = {0};

	assert_true(run(&g, 45, 0.2));
	assert_int_equal(governor_step(&g, &load), GOVERNOR_NONE);
	run(&g, 60, 0.0);
	assert_int_equal(governor_step(&g, &load), GOVERNOR_ALL);
	assert_false(run(&g, 20, 0.2));
}

static void pauses_longer_when_it_happens_again(void **state)
{
	struct governor g = {0};

	run(&g, 45, 0.2);
	assert_int_equal(g.off_for_ns, (GOVERNOR_OFF_MIN * GOVERNOR_WINDOW_NS));
	run(&g, 120, 0.2);
	assert_int_equal(g.off_for_ns, 2 * (GOVERNOR_OFF_MIN * GOVERNOR_WINDOW_NS));
	run(&g, 20000, 0.2);
	assert_int_equal(g.off_for_ns, (GOVERNOR_OFF_MAX * GOVERNOR_WINDOW_NS));
	while (g.off_from_ns)
		run(&g, 1, 0.0);
	run(&g, 700, 0.0);
	run(&g, 45, 0.2);
	assert_int_equal(g.off_for_ns, (GOVERNOR_OFF_MIN * GOVERNOR_WINDOW_NS));
}

static void turns_graphs_to_a_duty_cycle_before_anything_goes_off(void **state)
{
	struct governor g = {0};
	struct tally t;

	t = run_graphs(&g, 600, 0.2, 0.01);
	assert_int_equal(t.ticks[GOVERNOR_NONE], 0);
	assert_true(g.graphs);
	/* half of the budget at a fifth of a core: an eighth of the time */
	assert_in_range(g.duty * 1000, 115, 135);
	t = run_graphs(&g, 1000, 0.2, 0.01);
	assert_in_range(t.ticks[GOVERNOR_ALL], 1000, 1600);
	assert_in_range(t.ticks[GOVERNOR_COARSE], 8400, 9000);
}

static void keeps_looking_into_graphs_however_dear(void **state)
{
	struct governor g = {0};
	struct tally t;

	run_graphs(&g, 100, 0.9, 0.001);
	t = run_graphs(&g, 1000, 0.9, 0.001);
	assert_int_equal(t.ticks[GOVERNOR_NONE], 0);
	assert_true(t.ticks[GOVERNOR_ALL] >= 10000 * GOVERNOR_DUTY_MIN);
}

static void records_every_node_again_when_the_load_has_gone(void **state)
{
	struct governor g = {0};
	struct tally t;

	run_graphs(&g, 100, 0.2, 0.01);
	assert_true(g.graphs);
	run_graphs(&g, 100, 0.02, 0.001);
	assert_false(g.graphs);
	t = run_graphs(&g, 100, 0.02, 0.001);
	assert_int_equal(t.ticks[GOVERNOR_ALL], 1000);
}

static void turns_off_where_coarse_graphs_are_no_help(void **state)
{
	struct governor g = {0};
	struct tally t;

	/* too dear even so */
	run_graphs(&g, 45, 0.5, 0.4);
	assert_true(g.graphs);
	t = run_graphs(&g, 60, 0.5, 0.4);
	assert_true(t.ticks[GOVERNOR_NONE] > 0);
	/* and afterwards the middle step again, not all at once */
	while (g.off_from_ns)
		run_graphs(&g, 1, 0.0, 0.0);
	assert_true(g.graphs);
	/* graphs are the lesser part of it */
	g = (struct governor){0};
	assert_true(run(&g, 45, 0.2));
	assert_false(g.graphs);
	/* not to be had */
	g = (struct governor){0};
	load.can_coarsen = false;
	with_graphs = true;
	assert_true(run(&g, 45, 0.2));
	assert_false(g.graphs);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup(lets_a_light_load_run, start),
	    cmocka_unit_test_setup(forgives_a_burst, start),
	    cmocka_unit_test_setup(turns_a_lasting_load_off_and_on_again, start),
	    cmocka_unit_test_setup(pauses_longer_when_it_happens_again, start),
	    cmocka_unit_test_setup(turns_graphs_to_a_duty_cycle_before_anything_goes_off, start),
	    cmocka_unit_test_setup(keeps_looking_into_graphs_however_dear, start),
	    cmocka_unit_test_setup(records_every_node_again_when_the_load_has_gone, start),
	    cmocka_unit_test_setup(turns_off_where_coarse_graphs_are_no_help, start),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
