/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/json_text.h"

static const struct {
	const char *text, *json, *read;
} cases[] = {
    {"", "\"\"", ""},
    {"a\"b\\c/", "\"a\\\"b\\\\c/\"", "a\"b\\c/"},
    {"\x01\t\n\x1f\x7f", "\"\\u0001\\u0009\\u000a\\u001f\\u007f\"", "\x01\t\n\x1f\x7f"},
    {"\xc2\x85", "\"\\u0085\"", "\xc2\x85"},
    {"\xe2\x80\xa8\xe2\x80\xa9\xe2\x80\xae", "\"\\u2028\\u2029\\u202e\"",
     "\xe2\x80\xa8\xe2\x80\xa9\xe2\x80\xae"},
    {"</script>&", "\"\\u003c/script>&\"", "</script>&"},
    {"f<int><!--<", "\"f<int>\\u003c!--<\"", "f<int><!--<"},
    {"\xc3\xa9\xf0\x9f\x98\x80", "\"\xc3\xa9\xf0\x9f\x98\x80\"", "\xc3\xa9\xf0\x9f\x98\x80"},
    {"\xc3\xa9\xff\xe2\x82x", "\"\xc3\xa9\\ufffd\\ufffd\\ufffdx\"",
     "\xc3\xa9\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdx"},
};

#define CASES (sizeof(cases) / sizeof(*cases))

static void appends_and_prints_the_same_string(void **unused)
{
	for (size_t i = 0; i < CASES; i++) {
		char *printed;
		size_t bytes;
		FILE *to = open_memstream(&printed, &bytes);
		struct buf b;

		assert_non_null(to);
		json_text_print(to, "x:", cases[i].text);
		fclose(to);
		assert_memory_equal(printed, "x:", 2);
		assert_string_equal(printed + 2, cases[i].json);
		buf_init(&b, 256);
		json_text_append(&b, "x:", cases[i].text);
		assert_int_equal(b.bytes, bytes);
		assert_memory_equal(b.data, printed, bytes);
		buf_fini(&b);
		free(printed);
	}
}

static void a_reader_gets_the_text_back(void **unused)
{
	for (size_t i = 0; i < CASES; i++) {
		json_t *j = json_loads(cases[i].json, JSON_DECODE_ANY, NULL);

		assert_string_equal(json_string_value(j), cases[i].read);
		json_decref(j);
		j = json_text(cases[i].text);
		assert_string_equal(json_string_value(j), cases[i].read);
		json_decref(j);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(appends_and_prints_the_same_string),
	    cmocka_unit_test(a_reader_gets_the_text_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
