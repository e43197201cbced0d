/* SPDX-License-Identifier: Apache-2.0 */
#include "base/daemon/secret_file.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/skip.h"

static char dir[64], path[96], why[512];
static struct buf text;

static int setup(void **unused)
{
	strcpy(dir, "/tmp/test_secret_XXXXXX");
	buf_init(&text, 100);
	if (!mkdtemp(dir))
		return -1;
	snprintf(path, sizeof(path), "%s/secret", dir);
	return 0;
}

static int teardown(void **unused)
{
	char command[96];

	secret_file_forget(&text);
	snprintf(command, sizeof(command), "rm -rf '%s'", dir);
	return system(command);
}

static void write_file(const char *content, mode_t mode)
{
	FILE *f = fopen(path, "w");

	fputs(content, f);
	fclose(f);
	assert_int_equal(chmod(path, mode), 0);
}

static void reads_what_only_its_owner_and_group_may_read(void **unused)
{
	static const mode_t modes[] = {0600, 0400, 0640, 0440};

	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		write_file("s3cret", modes[i]);
		buf_clear(&text);
		assert_int_equal(secret_file_read(path, &text, why, sizeof(why)), 0);
		assert_int_equal(text.bytes, 6);
		assert_memory_equal(text.data, "s3cret", 6);
	}
}

static void refuses_what_others_may_read_or_a_group_may_write(void **unused)
{
	static const mode_t modes[] = {0644, 0604, 0602, 0601, 0660, 0666, 0777};

	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		write_file("s3cret", modes[i]);
		assert_int_equal(secret_file_read(path, &text, why, sizeof(why)), -EPERM);
		assert_int_equal(text.bytes, 0);
		assert_non_null(strstr(why, path));
		assert_non_null(strstr(why, "chmod 640"));
		assert_null(strstr(why, "s3cret"));
		assert_int_equal(secret_file_read_public(path, &text, why, sizeof(why)), 0);
		buf_clear(&text);
	}
}

static void refuses_the_file_of_another_user(void **unused)
{
	if (geteuid())
		skip_needs("root");
	write_file("s3cret", 0600);
	assert_int_equal(chown(path, 12345, 0), 0);
	assert_int_equal(secret_file_read(path, &text, why, sizeof(why)), -EPERM);
	assert_non_null(strstr(why, "belongs to uid 12345"));
	assert_int_equal(secret_file_read_public(path, &text, why, sizeof(why)), 0);
}

static void follows_a_link_as_kubernetes_makes_them(void **unused)
{
	char link[96];

	snprintf(link, sizeof(link), "%s/link", dir);
	write_file("s3cret", 0400);
	assert_int_equal(symlink("secret", link), 0);
	assert_int_equal(secret_file_read(link, &text, why, sizeof(why)), 0);
	buf_clear(&text);
	assert_int_equal(chmod(path, 0444), 0); /* the file's rights count, not the link's */
	assert_int_equal(secret_file_read(link, &text, why, sizeof(why)), -EPERM);
}

static void refuses_what_is_no_file_or_too_large_without_waiting(void **unused)
{
	char large[102];

	assert_int_equal(secret_file_read(path, &text, why, sizeof(why)), -ENOENT);
	assert_int_equal(secret_file_read(dir, &text, why, sizeof(why)), -EINVAL);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(secret_file_read(path, &text, why, sizeof(why)), -EINVAL);
	assert_non_null(strstr(why, "not a regular file"));
	unlink(path);
	memset(large, 'x', 101);
	large[101] = '\0';
	write_file(large, 0600);
	assert_int_equal(secret_file_read(path, &text, why, sizeof(why)), -EFBIG);
	assert_non_null(strstr(why, "larger than 100 bytes"));
}

static void sees_a_change_once(void **unused)
{
	struct secret_file_state state = {0};

	assert_false(secret_file_changed(path, &state)); /* there is none */
	write_file("one", 0600);
	assert_true(secret_file_changed(path, &state));
	assert_false(secret_file_changed(path, &state));
	write_file("other", 0600);
	assert_true(secret_file_changed(path, &state));
	unlink(path);
	assert_false(secret_file_changed(path, &state));
	write_file("other", 0600);
	assert_true(secret_file_changed(path, &state));
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
	    CASE(reads_what_only_its_owner_and_group_may_read),
	    CASE(refuses_what_others_may_read_or_a_group_may_write),
	    CASE(refuses_the_file_of_another_user),
	    CASE(follows_a_link_as_kubernetes_makes_them),
	    CASE(refuses_what_is_no_file_or_too_large_without_waiting),
	    CASE(sees_a_change_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
