/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "preload/governor.h"

#define SECOND 1000000000ull

static uint64_t now_ns, cpu_ns;

/* Runs for so many seconds at a share of a core, a tick a second; true if it was ever told off. */
static bool run(struct governor *g, unsigned seconds, double share)
{
	bool off = false;

	while (seconds--) {
		now_ns += SECOND;
		cpu_ns += (uint64_t)(share * (double)SECOND);
		off |= governor_step(g, now_ns, cpu_ns);
	}
	return off;
}

static int start(void **state)
{
	now_ns = 5 * SECOND;
	cpu_ns = 0;
	return 0;
}

static void lets_a_light_load_run(void **state)
{
	struct governor g = { 0 };

	assert_false(run(&g, 1000, GOVERNOR_SHARE * 0.9));
}

static void forgives_a_burst(void **state)
{
	struct governor g = { 0 };

	run(&g, 15, 0.01);
	assert_false(run(&g, 15, 0.9));
	assert_false(run(&g, 100, 0.01));
}

static void turns_a_lasting_load_off_and_on_again(void **state)
{
	struct governor g = { 0 };

	assert_true(run(&g, 45, 0.2));
	assert_true(governor_step(&g, now_ns, cpu_ns));
	run(&g, 60, 0.0);
	assert_false(governor_step(&g, now_ns, cpu_ns));
	assert_false(run(&g, 20, 0.2));
}

static void pauses_longer_when_it_happens_again(void **state)
{
	struct governor g = { 0 };

	run(&g, 45, 0.2);
	assert_int_equal(g.off_for_ns, GOVERNOR_OFF_MIN_NS);
	run(&g, 120, 0.2);
	assert_int_equal(g.off_for_ns, 2 * GOVERNOR_OFF_MIN_NS);
	run(&g, 20000, 0.2);
	assert_int_equal(g.off_for_ns, GOVERNOR_OFF_MAX_NS);
	while (g.off_from_ns)
		run(&g, 1, 0.0);
	run(&g, 700, 0.0);
	run(&g, 45, 0.2);
	assert_int_equal(g.off_for_ns, GOVERNOR_OFF_MIN_NS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(lets_a_light_load_run, start),
		cmocka_unit_test_setup(forgives_a_burst, start),
		cmocka_unit_test_setup(turns_a_lasting_load_off_and_on_again, start),
		cmocka_unit_test_setup(pauses_longer_when_it_happens_again, start),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
