/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/http/http_hosts.h"
#include "base/http/http_query.h"

static void names_of_this_machine_and_addresses_are_good(void **unused)
{
	static const char *const good[] = {
	    "localhost",     "localhost:9472", "LocalHost.", "a.localhost:1",
	    "127.0.0.1",     "127.0.0.1:80",   "[::1]",	     "[::1]:9472",
	    "10.0.0.7:9472", "[fe80::1]:1",    "node7:9470", "NODE7",
	};
	struct http_hosts h;

	assert_int_equal(http_hosts_init(&h, "node7:9470", ""), 0);
	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++)
		assert_true(http_hosts_allows(&h, good[i]));
	assert_true(http_hosts_allows(&h, NULL));
}

static void other_names_are_refused(void **unused)
{
	static const char *const bad[] = {
	    "evil.example",
	    "evil.example:9472",
	    "localhost.evil.example",
	    "notlocalhost",
	    "",
	    ":9472",
	    "localhost:x",
	    "[::1",
	    "[::1]x",
	    "[]",
	    "127.0.0.1.evil",
	    "node7.evil",
	    "localhost@evil",
	    "a b",
	    "node70",
	    ".",
	};
	struct http_hosts h;
	char longest[600];

	assert_int_equal(http_hosts_init(&h, "node7:9470", "sysom.example, other"), 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_false(http_hosts_allows(&h, bad[i]));
	memset(longest, 'a', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	assert_false(http_hosts_allows(&h, longest));
}

static void further_names_are_settings(void **unused)
{
	struct http_hosts h;
	char many[2048] = "";

	assert_int_equal(http_hosts_init(&h, ":9470", "sysom.example, Other ,third"), 0);
	assert_true(http_hosts_allows(&h, "sysom.example:443"));
	assert_true(http_hosts_allows(&h, "other"));
	assert_true(http_hosts_allows(&h, "third."));
	assert_false(http_hosts_allows(&h, "fourth"));
	assert_int_equal(http_hosts_init(&h, "", "a/b"), -EINVAL);
	for (int i = 0; i < 100; i++)
		strcat(many, "some-name.example,");
	assert_int_equal(http_hosts_init(&h, "", many), -ENAMETOOLONG);
}

static void keeps_a_path_and_its_arguments(void **unused)
{
	struct http_query q;
	uint64_t n = 7;

	http_query_init(&q, "/a");
	http_query_add(&q, "job", "j");
	http_query_add(&q, "job", "other");
	http_query_add(&q, "empty", NULL);
	http_query_add(&q, "n", "1000");
	assert_string_equal(q.path, "/a");
	assert_string_equal(http_query_get(&q, "job"), "j");
	assert_string_equal(http_query_get(&q, "empty"), "");
	assert_null(http_query_get(&q, "x"));
	assert_true(http_query_number(&q, "x", 5, &n));
	assert_int_equal(n, 7);
	assert_true(http_query_number(&q, "n", 1000, &n));
	assert_int_equal(n, 1000);
	assert_false(http_query_number(&q, "n", 999, &n));
	assert_false(http_query_number(&q, "empty", 999, &n));
	assert_false(http_query_number(&q, "job", 999, &n));
	assert_false(q.cut);
}

static void numbers_do_not_wrap(void **unused)
{
	static const char *const bad[] = {"18446744073709551616",
					  "99999999999999999999999",
					  "-1",
					  "+1",
					  " 1",
					  "1 ",
					  "0x1",
					  "1e3"};
	struct http_query q;
	uint64_t n;

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		http_query_init(&q, "/");
		http_query_add(&q, "n", bad[i]);
		assert_false(http_query_number(&q, "n", UINT64_MAX, &n));
	}
	http_query_init(&q, "/");
	http_query_add(&q, "n", "18446744073709551615");
	assert_true(http_query_number(&q, "n", UINT64_MAX, &n));
	assert_true(n == UINT64_MAX);
}

static void what_is_too_much_is_cut_and_says_so(void **unused)
{
	struct http_query q;
	char value[4096];

	memset(value, 'x', sizeof(value) - 1);
	value[sizeof(value) - 1] = '\0';
	http_query_init(&q, "/");
	http_query_add(&q, "a", value);
	assert_true(q.cut);
	assert_string_equal(http_query_get(&q, "a"), "");
	http_query_init(&q, value);
	assert_true(q.cut);
	http_query_init(&q, "/");
	for (int i = 0; i < 20; i++)
		http_query_add(&q, "a", "b");
	assert_true(q.cut);
	assert_int_equal(q.count, HTTP_QUERY_ARGS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(names_of_this_machine_and_addresses_are_good),
	    cmocka_unit_test(other_names_are_refused),
	    cmocka_unit_test(further_names_are_settings),
	    cmocka_unit_test(keeps_a_path_and_its_arguments),
	    cmocka_unit_test(numbers_do_not_wrap),
	    cmocka_unit_test(what_is_too_much_is_cut_and_says_so),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
