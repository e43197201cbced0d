/* SPDX-License-Identifier: Apache-2.0 */
#include "base/http/http_tokens.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define A "aaaaaaaaaaaaaaaaaaaaaaaa"
#define B "bbbbbbbbbbbbbbbbbbbbbbbb"
#define C "cccccccccccccccccccccccc"

static struct http_tokens *tokens;
static char why[512];

static int parse(const char *text)
{
	http_tokens_free(tokens);
	tokens = NULL;
	*why = '\0';
	return http_tokens_parse(&tokens, text, strlen(text), why, sizeof(why));
}

static int teardown(void **unused)
{
	http_tokens_free(tokens);
	tokens = NULL;
	return 0;
}

static void a_line_gives_its_token_role_name_and_user(void **unused)
{
	const struct http_user *u;

	assert_int_equal(parse("# comment\n\nread ann " A " uid=1000 # hers\n"
			       "\tread\tgrafana\t" B "\tuid=*\r\nadmin ops " C),
			 0);
	u = http_tokens_find(tokens, A);
	assert_int_equal(u->roles, HTTP_ROLE_READ);
	assert_true(u->has_uid && !u->all && u->uid == 1000);
	assert_string_equal(u->name, "token ann");
	u = http_tokens_find(tokens, B);
	assert_true(u->roles == HTTP_ROLE_READ && u->all && !u->has_uid);
	u = http_tokens_find(tokens, C);
	assert_true(u->roles == HTTP_ROLES_ALL && u->all);
}

/* The digest is that of sha256sum. */
static void a_digest_stands_for_its_token(void **unused)
{
	char command[128], digest[65] = "", line[200];
	FILE *f;

	snprintf(command, sizeof(command), "printf %%s %s | sha256sum", A);
	f = popen(command, "r");
	assert_int_equal(fread(digest, 1, 64, f), 64);
	pclose(f);
	snprintf(line, sizeof(line), "upload nodes sha256:%s", digest);
	assert_int_equal(parse(line), 0);
	assert_int_equal(http_tokens_find(tokens, A)->roles, HTTP_ROLE_UPLOAD);
	assert_false(http_tokens_find(tokens, A)->all);
	assert_null(http_tokens_find(tokens, digest)); /* knowing it is of no use */
	snprintf(line, sizeof(line), "upload nodes sha256:%.63s", digest);
	assert_int_equal(parse(line), -EINVAL);
}

static void only_the_whole_token_is_known(void **unused)
{
	assert_int_equal(parse("admin ops " A), 0);
	assert_non_null(http_tokens_find(tokens, A));
	assert_null(http_tokens_find(tokens, A "a"));
	assert_null(http_tokens_find(tokens, "aaaaaaaaaaaaaaaaaaaaaaa"));
	assert_null(http_tokens_find(tokens, ""));
	assert_int_equal(parse(""), 0);
	assert_null(http_tokens_find(tokens, A));
}

static void a_bad_line_is_named_and_its_token_is_not(void **unused)
{
	static const struct {
		const char *line, *reason;
	} bad[] = {
	    {"reed ann " A " uid=1", "must be read, upload or admin"},
	    {"read ann " A, "uid=1000, or uid=* for all"},
	    {"read ann " A " uid=x", "uid= needs a number"},
	    {"read ann " A " uid=-1", "uid= needs a number"},
	    {"read ann " A " uid=4294967295", "uid= needs a number"},
	    {"read ann " A " gid=1", "uid=1000"},
	    {"admin ops " A " uid=1", "uid= is for read tokens"},
	    {"upload nodes " A " uid=*", "uid= is for read tokens"},
	    {"admin ops aaaaaaaaaaaaaaaaaaaaaaa", "24 to 512"},
	    {"admin ops aaaaaaaaaaaaaaaaaaaaaaaa\xc3\xa4", "24 to 512"},
	    {"admin o/ps " A, "a name has"},
	    {"admin 0123456789012345678901234567890123456789012345678901234567 " A, "a name has"},
	    {"admin ops", "a line is ROLE NAME TOKEN"},
	    {"admin ops " A " uid=* more", "a line is ROLE NAME TOKEN"},
	    {"admin ops " B, "the same token is on an earlier line"},
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		char text[512];

		snprintf(text, sizeof(text), "read all " B " uid=*\n%s\n", bad[i].line);
		assert_int_equal(parse(text), -EINVAL);
		assert_int_equal(strncmp(why, "line 2: ", 8), 0);
		assert_non_null(strstr(why, bad[i].reason));
		assert_null(strstr(why, "aaaaaaaa"));
	}
	assert_int_equal(http_tokens_parse(&tokens, "admin\0", 6, why, sizeof(why)), -EINVAL);
	assert_non_null(strstr(why, "zero byte"));
}

static void there_is_room_for_1024(void **unused)
{
	char *text = malloc(HTTP_TOKENS_FILE_BYTES), token[32];
	size_t n = 0;

	for (unsigned i = 0; i < HTTP_TOKENS_MAX; i++)
		n += (size_t)sprintf(text + n, "admin t%u token-%020u\n", i, i);
	assert_int_equal(parse(text), 0);
	for (unsigned i = 0; i < HTTP_TOKENS_MAX; i += 341) {
		snprintf(token, sizeof(token), "token-%020u", i);
		assert_non_null(http_tokens_find(tokens, token));
	}
	strcpy(text + n, "admin more " A "\n");
	assert_int_equal(parse(text), -EINVAL);
	assert_non_null(strstr(why, "line 1025: more than 1024 tokens"));
	free(text);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_teardown(f, teardown)
	const struct CMUnitTest tests[] = {
	    CASE(a_line_gives_its_token_role_name_and_user),
	    CASE(a_digest_stands_for_its_token),
	    CASE(only_the_whole_token_is_known),
	    CASE(a_bad_line_is_named_and_its_token_is_not),
	    CASE(there_is_room_for_1024),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
