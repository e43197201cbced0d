/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text/text.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void a_number_is_digits_and_nothing_else(void **state)
{
	static const char *const bad[] = {"", " 1", "1 ", "+1", "-1", "1.0", "0x1", "101"};
	uint64_t v = 7;

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_false(text_number(bad[i], 100, &v));
	assert_int_equal(v, 7);
	assert_true(text_number("00100", 100, &v));
	assert_int_equal(v, 100);
}

static void a_number_may_fill_its_bound(void **state)
{
	uint64_t v = 7;

	assert_true(text_number("18446744073709551615", UINT64_MAX, &v));
	assert_true(v == UINT64_MAX);
	assert_false(text_number("18446744073709551616", UINT64_MAX, &v));
	assert_false(text_number("99999999999999999999", UINT64_MAX, &v));
	assert_true(text_number("0", 0, &v));
	assert_int_equal(v, 0);
}

static void hex_goes_there_and_back(void **state)
{
	const uint8_t bytes[] = {0x00, 0x9f, 0xff};
	uint8_t back[3];
	char text[7];

	text_hex(bytes, 0, text);
	assert_string_equal(text, "");
	text_hex(bytes, 3, text);
	assert_string_equal(text, "009fff");
	assert_int_equal(text_unhex(text, back, 3), 0);
	assert_memory_equal(back, bytes, 3);
}

static void other_hex_is_refused(void **state)
{
	static const char *const bad[] = {"", "00", "0000", "00000", "0000000", "00000g", "00000F"};
	uint8_t back[3];

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_int_equal(text_unhex(bad[i], back, 3), -EINVAL);
}

static void a_duration_has_no_exponent(void **state)
{
	char out[TEXT_DURATION_BYTES];

	assert_string_equal(text_duration(120000, out), "0.12 ms");
	assert_string_equal(text_duration(27.46e6, out), "27.5 ms");
	assert_string_equal(text_duration(9999e6, out), "9999 ms");
	assert_string_equal(text_duration(29764e6, out), "29.8 s");
	assert_string_equal(text_duration(-12e9, out), "-12.0 s");
	assert_string_equal(text_duration(1.0 / 0.0, out), "? ms");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_number_is_digits_and_nothing_else),
	    cmocka_unit_test(a_number_may_fill_its_bound),
	    cmocka_unit_test(hex_goes_there_and_back),
	    cmocka_unit_test(other_hex_is_refused),
	    cmocka_unit_test(a_duration_has_no_exponent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
