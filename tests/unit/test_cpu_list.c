/* SPDX-License-Identifier: Apache-2.0 */
#include "sampler/cpu_list.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* The ranges, one behind the other. */
static const char *ranges(const char *list)
{
	static char text[64];
	unsigned first, last;
	size_t n = 0;

	text[0] = '\0';
	while ((list = cpu_list_next(list, &first, &last)))
		n += (size_t)snprintf(text + n, sizeof(text) - n, "[%u %u]", first, last);
	return text;
}

static void reads_single_cpus_and_ranges(void **state)
{
	assert_string_equal(ranges("0-3,8,10-11\n"), "[0 3][8 8][10 11]");
	assert_string_equal(ranges("5"), "[5 5]");
}

static void ends_where_it_is_no_list(void **state)
{
	assert_string_equal(ranges(""), "");
	assert_string_equal(ranges("\n"), "");
	assert_string_equal(ranges("x"), "");
	assert_string_equal(ranges("1,"), "[1 1]");
	assert_string_equal(ranges("1;2"), "[1 1]");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(reads_single_cpus_and_ranges),
	    cmocka_unit_test(ends_where_it_is_no_list),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
