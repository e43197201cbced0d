/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "aggregator/store/retention.h"

#define DAY 86400000000000ull

static struct retention r;
static char why[256];

static int read_rules(const char *text)
{
	r = (struct retention){.rest = {.window_age_ns = 7 * DAY,
					.incident_age_ns = 30 * DAY,
					.bytes = 1000,
					.incidents = 10}};
	*why = '\0';
	return retention_read(&r, text, why, sizeof(why));
}

static void the_first_rule_that_fits_decides_and_inherits_the_rest(void **unused)
{
	const struct retention_limits *l;

	assert_int_equal(read_rules("nightly-* windows=1d max_bytes=5KB;\n *@1000  incidents=90d "
				    "windows=60d max_incidents=0 ; * max_incidents=3;"),
			 0);
	assert_int_equal(r.rule_count, 3);
	l = retention_of(&r, "nightly-7#12@1000");
	assert_int_equal(l->window_age_ns, DAY);
	assert_int_equal(l->incident_age_ns, 30 * DAY);
	assert_int_equal(l->bytes, 5000);
	assert_int_equal(l->incidents, 10);
	l = retention_of(&r, "train@1000");
	assert_int_equal(l->window_age_ns, 60 * DAY);
	assert_int_equal(l->incident_age_ns, 90 * DAY);
	assert_int_equal(l->bytes, 1000);
	assert_int_equal(l->incidents, 0);
	assert_int_equal(retention_of(&r, "train@10001")->incidents, 3);
	assert_int_equal(retention_longest_ns(&r), 90 * DAY);
	assert_int_equal(retention_shortest_ns(&r), 30 * DAY);
}

static void without_a_rule_the_general_limits_hold(void **unused)
{
	assert_int_equal(read_rules("  "), 0);
	assert_ptr_equal(retention_of(&r, "train@1"), &r.rest);
	assert_int_equal(read_rules("other@1 windows=1d"), 0);
	assert_ptr_equal(retention_of(&r, "train@1"), &r.rest);
	assert_int_equal(retention_longest_ns(&r), 30 * DAY);
}

static void patterns_fit_as_in_a_shell(void **unused)
{
	static const struct {
		const char *pattern, *job;
		bool fits;
	} cases[] = {
	    {"*", "", true},	    {"a", "a", true},	      {"a", "ab", false},
	    {"a*", "a", true},	    {"*b*", "abc", true},     {"*b", "abc", false},
	    {"a?c", "abc", true},   {"a?c", "ac", false},     {"*ab*ab", "abxab", true},
	    {"*a*b", "ab@", false}, {"a*c*e", "abcde", true},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(read_rules(cases[i].pattern), 0);
		assert_int_equal(retention_of(&r, cases[i].job) != &r.rest, cases[i].fits);
	}
}

static void mistakes_are_named(void **unused)
{
	static const char *const cases[][2] = {
	    {"x windows=1y", "rule \"x\": windows: \"y\" is not a unit"},
	    {"x windows=1s", "rule \"x\": windows: 1s is out of range"},
	    {"a; x window=1d", "rule \"x\": \"window\" is not windows=AGE"},
	    {"x 1d", "\"1d\" is not windows=AGE"},
	    {"x windows=40d", "rule \"x\": windows is longer than incidents"},
	    {"x incidents=1d", "rule \"x\": windows is longer than incidents"},
	};
	char many[3 * (LIMIT_RETENTION_RULES + 1) + 1] = "", long_name[WIRE_TEXT_BYTES + 1];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(read_rules(cases[i][0]), -EINVAL);
		assert_non_null(strstr(why, cases[i][1]));
	}
	for (int i = 0; i <= LIMIT_RETENTION_RULES; i++)
		strcat(many, "x; ");
	assert_int_equal(read_rules(many), -EINVAL);
	assert_string_equal(why, "more than 64 rules");
	memset(long_name, 'x', WIRE_TEXT_BYTES);
	long_name[WIRE_TEXT_BYTES] = '\0';
	assert_int_equal(read_rules(long_name), -EINVAL);
	assert_non_null(strstr(why, "longer than a job's name"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_first_rule_that_fits_decides_and_inherits_the_rest),
	    cmocka_unit_test(without_a_rule_the_general_limits_hold),
	    cmocka_unit_test(patterns_fit_as_in_a_shell),
	    cmocka_unit_test(mistakes_are_named),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
