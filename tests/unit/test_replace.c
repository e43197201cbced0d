/* SPDX-License-Identifier: Apache-2.0 */
#include "base/replace.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/all_bytes.h"

static char dir[] = "/tmp/test_replace.XXXXXX";
static int dirfd_;

static int setup(void **state)
{
	strcpy(dir, "/tmp/test_replace.XXXXXX");
	dirfd_ = mkdtemp(dir) ? open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	return dirfd_ < 0;
}

static int teardown(void **state)
{
	close(dirfd_);
	unlinkat(AT_FDCWD, dir, AT_REMOVEDIR);
	return 0;
}

/* All that is there is one file of this text. */
static void expect_only(const char *name, const char *text)
{
	DIR *d = opendir(dir);
	char read_back[64] = "";
	struct dirent *e;
	int fd = openat(dirfd_, name, O_RDONLY | O_CLOEXEC);

	while ((e = readdir(d)))
		assert_true(e->d_name[0] == '.' || !strcmp(e->d_name, name));
	closedir(d);
	assert_int_equal(read(fd, read_back, sizeof(read_back) - 1), strlen(text));
	assert_string_equal(read_back, text);
	close(fd);
}

static int put(const char *text, int err)
{
	struct replace r;

	assert_int_equal(replace_begin(&r, dirfd_, "a", 0600), 0);
	assert_int_equal(all_bytes_write(r.fd, text, strlen(text)), 0);
	return replace_end(&r, err);
}

static void the_old_file_stays_until_the_new_one_is_complete(void **state)
{
	struct replace r;

	assert_int_equal(put("old", 0), 0);
	assert_int_equal(replace_begin(&r, dirfd_, "a", 0640), 0);
	assert_int_equal(all_bytes_write(r.fd, "ne", 2), 0);
	assert_int_equal(faccessat(dirfd_, r.temporary, F_OK, 0), 0);
	assert_string_equal(r.temporary + strlen(r.temporary) - 4, ".tmp");
	assert_int_equal(all_bytes_write(r.fd, "w", 1), 0);
	assert_int_equal(replace_end(&r, 0), 0);
	expect_only("a", "new");
	unlinkat(dirfd_, "a", 0);
}

static void a_writer_that_fails_leaves_the_old_file(void **state)
{
	assert_int_equal(put("old", 0), 0);
	assert_int_equal(put("new", -EIO), -EIO);
	expect_only("a", "old");
	unlinkat(dirfd_, "a", 0);
}

static void one_that_cannot_take_its_place_is_removed(void **state)
{
	assert_int_equal(mkdirat(dirfd_, "a", 0700), 0);
	assert_int_equal(put("new", 0), -EISDIR);
	assert_int_equal(unlinkat(dirfd_, "a", AT_REMOVEDIR), 0);
}

static void two_writers_do_not_meet(void **state)
{
	struct replace r[2];

	for (int i = 0; i < 2; i++) {
		assert_int_equal(replace_begin(&r[i], dirfd_, "a", 0600), 0);
		assert_int_equal(all_bytes_write(r[i].fd, i ? "second" : "first", i ? 6 : 5), 0);
	}
	assert_string_not_equal(r[0].temporary, r[1].temporary);
	assert_int_equal(replace_end(&r[1], 0), 0);
	assert_int_equal(replace_end(&r[0], 0), 0);
	expect_only("a", "first");
	unlinkat(dirfd_, "a", 0);
}

static void paths_that_are_too_long_are_refused(void **state)
{
	static char path[PATH_MAX + 8];
	struct replace r;

	memset(path, 'a', PATH_MAX);
	assert_int_equal(replace_begin(&r, AT_FDCWD, path, 0600), -ENAMETOOLONG);
	path[PATH_MAX - 4] = '\0';
	assert_int_equal(replace_begin(&r, AT_FDCWD, path, 0600), -ENAMETOOLONG);
}

int main(void)
{
#define WITH(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
	    WITH(the_old_file_stays_until_the_new_one_is_complete),
	    WITH(a_writer_that_fails_leaves_the_old_file),
	    WITH(one_that_cannot_take_its_place_is_removed),
	    WITH(two_writers_do_not_meet),
	    WITH(paths_that_are_too_long_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
