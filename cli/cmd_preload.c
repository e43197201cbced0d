/* SPDX-License-Identifier: Apache-2.0
 * sysom preload DIR - puts the preload into a directory that another container mounts. glibc expands
 * $LIB in LD_PRELOAD; musl does not, finds no such file and runs the program without it. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/daemon/dirs.h"
#include "base/replace.h"
#include "base/all_bytes.h"
#include "cli/commands.h"
#include "cli/paths.h"

#define FILE_NAME "libsysom_preload.so"

/* The values of $LIB: Debian's, other 64-bit systems', and of those with a single directory. */
static const char *const libs[] = {"lib/x86_64-linux-gnu", "lib64", "lib"};

static int copy_bytes(int from, int to)
{
	static char bytes[1 << 16];

	for (;;) {
		ssize_t n = read(from, bytes, sizeof(bytes));
		int err;

		if (n <= 0)
			return n ? -errno : 0;
		err = all_bytes_write(to, bytes, (size_t)n);
		if (err)
			return err;
	}
}

/* Replaces the file atomically, since a job may be loading the old one. */
static int install(const char *from, const char *dir)
{
	struct replace to;
	char path[PATH_MAX];
	int in, err;

	err = dirs_make(dir, 0755);
	if (err)
		return err;
	if (snprintf(path, sizeof(path), "%s/" FILE_NAME, dir) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	in = open(from, O_RDONLY | O_CLOEXEC);
	if (in < 0)
		return -errno;
	err = replace_begin(&to, AT_FDCWD, path, 0755);
	if (!err) {
		err = copy_bytes(in, to.fd);
		if (!err && fchmod(to.fd, 0755))
			err = -errno;
		err = replace_end(&to, err);
	}
	close(in);
	return err;
}

static int fail(const struct options *o, const char *path, const char *why)
{
	fprintf(stderr, "sysom preload: %s: %s%s\n", path, why,
		o->optional ? "; programs that don't find " FILE_NAME " run untraced" : "");
	return o->optional ? EXIT_OK : EXIT_FAILED;
}

int cmd_preload_main(const struct options *o)
{
	char from[PATH_MAX], dir[PATH_MAX];

	if (paths_preload(from, sizeof(from)))
		return fail(o, from,
			    "no such file; set SYSOM_PRELOAD to the path of libsysom_preload.so");
	for (size_t i = 0; i < sizeof(libs) / sizeof(libs[0]); i++) {
		int err = snprintf(dir, sizeof(dir), "%s/%s", o->argv[0], libs[i]) < PATH_MAX
			      ? install(from, dir)
			      : -ENAMETOOLONG;

		if (err)
			return fail(o, dir, strerror(-err));
	}
	printf("%s/$LIB/" FILE_NAME "\n", o->argv[0]);
	return EXIT_OK;
}
