/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/utf8.h"

static void reads_the_first_and_last_of_each_length(void **unused)
{
	static const struct {
		const char *text;
		uint32_t point;
		unsigned bytes;
	} good[] = {{"\x01", 1, 1},
		    {"\x7f", 0x7f, 1},
		    {"\xc2\x80", 0x80, 2},
		    {"\xdf\xbf", 0x7ff, 2},
		    {"\xe0\xa0\x80", 0x800, 3},
		    {"\xed\x9f\xbf", 0xd7ff, 3},
		    {"\xee\x80\x80", 0xe000, 3},
		    {"\xef\xbf\xbf", 0xffff, 3},
		    {"\xf0\x90\x80\x80", 0x10000, 4},
		    {"\xf4\x8f\xbf\xbf", 0x10ffff, 4}};
	uint32_t point;

	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		assert_int_equal(utf8_next(good[i].text, UTF8_BYTES, &point), good[i].bytes);
		assert_int_equal(point, good[i].point);
		assert_int_equal(utf8_next(good[i].text, good[i].bytes, &point), good[i].bytes);
	}
}

static void refuses_overlong_surrogate_stray_and_cut(void **unused)
{
	static const char *const bad[] = {
	    "\x80",	    "\xbf",	    "\xc0\x80",		"\xc1\xbf",	"\xe0\x9f\xbf",
	    "\xed\xa0\x80", "\xed\xbf\xbf", "\xf0\x8f\xbf\xbf", "\xf5",		"\xf4\x90\x80\x80",
	    "\xff",	    "\xc2",	    "\xe2\x82",		"\xf0\x9f\x98", "\xe2\x28\xa1"};
	uint32_t point;

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		assert_int_equal(utf8_next(bad[i], UTF8_BYTES, &point), 0);
		assert_false(utf8_is_valid(bad[i]));
	}
	assert_int_equal(utf8_next("\xe2\x82\xac", 2, &point), 0);
	assert_true(utf8_is_valid("a\xe2\x82\xac"));
	assert_true(utf8_is_valid(""));
}

static void repairs_what_is_malformed_and_keeps_the_length(void **unused)
{
	char text[] = "a\xff\xe2\x82\xac\n\xe2\x82";

	utf8_repair(text, strlen(text));
	assert_string_equal(text, "a?\xe2\x82\xac\n??");
}

static void cleans_controls_of_both_sets_too(void **unused)
{
	char text[] = "a\x1b[1m\x7f\xc2\x9b\xc3\xa9\xff";

	utf8_clean(text, strlen(text));
	assert_string_equal(text, "a?[1m???\xc3\xa9?");
}

static void direction_invisible_and_line_ends_are_not_harmless(void **unused)
{
	static const uint32_t bad[] = {0,      0x1f,   0x7f,   0x9f,   0x200b, 0x200f,
				       0x2028, 0x2029, 0x202e, 0x2066, 0x2069, 0xfeff};
	static const uint32_t good[] = {' ', '~', 0xa0, 0x200a, 0x2010, 0x2027, 0x202f, 0x1f600};

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_false(utf8_is_harmless(bad[i]));
	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++)
		assert_true(utf8_is_harmless(good[i]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(reads_the_first_and_last_of_each_length),
	    cmocka_unit_test(refuses_overlong_surrogate_stray_and_cut),
	    cmocka_unit_test(repairs_what_is_malformed_and_keeps_the_length),
	    cmocka_unit_test(cleans_controls_of_both_sets_too),
	    cmocka_unit_test(direction_invisible_and_line_ends_are_not_harmless),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
