/* SPDX-License-Identifier: Apache-2.0
 * sysom preload DIR - puts the preload into a directory that another container mounts. glibc expands
 * $LIB in LD_PRELOAD; musl does not, finds no such file and runs the program without it. With a plain
 * path musl would load the library, miss glibc's symbols and end the program. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/daemon/dirs.h"
#include "base/write_all.h"
#include "cli/commands.h"
#include "cli/paths.h"

#define FILE_NAME "libsysom_preload.so"

/* What $LIB is: Debian's, others' for 64 bits, and where there is one directory only. */
static const char *const libs[] = {"lib/x86_64-linux-gnu", "lib64", "lib"};

static int copy_bytes(int from, int to)
{
	static char bytes[1 << 16];

	for (;;) {
		ssize_t n = read(from, bytes, sizeof(bytes));
		int err;

		if (n <= 0)
			return n ? -errno : 0;
		err = write_all(to, bytes, (size_t)n);
		if (err)
			return err;
	}
}

/* A job may be loading the old file: the new one takes its place at once. */
static int install(const char *from, const char *dir)
{
	char path[PATH_MAX], temporary[PATH_MAX];
	int in, out, err;

	err = dirs_make(dir, 0755);
	if (err)
		return err;
	if (snprintf(path, sizeof(path), "%s/" FILE_NAME, dir) >= (int)sizeof(path) ||
	    snprintf(temporary, sizeof(temporary), "%s/." FILE_NAME ".%d", dir, (int)getpid()) >=
		(int)sizeof(temporary))
		return -ENAMETOOLONG;
	in = open(from, O_RDONLY | O_CLOEXEC);
	if (in < 0)
		return -errno;
	out = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0755);
	err = out < 0 ? -errno : copy_bytes(in, out);
	close(in);
	if (out >= 0 && fchmod(out, 0755) && !err)
		err = -errno;
	if (out >= 0 && close(out) && !err)
		err = -errno;
	if (!err && rename(temporary, path))
		err = -errno;
	if (err && out >= 0)
		unlink(temporary);
	return err;
}

int cmd_preload_main(const struct options *o)
{
	char from[PATH_MAX], dir[PATH_MAX];

	if (paths_preload(from, sizeof(from))) {
		fprintf(stderr, "sysom preload: %s: no such file; SYSOM_PRELOAD names another\n",
			from);
		return EXIT_NOTHING;
	}
	for (size_t i = 0; i < sizeof(libs) / sizeof(libs[0]); i++) {
		int err = snprintf(dir, sizeof(dir), "%s/%s", o->argv[0], libs[i]) < PATH_MAX
			      ? install(from, dir)
			      : -ENAMETOOLONG;

		if (err) {
			fprintf(stderr, "sysom preload: %s: %s\n", dir, strerror(-err));
			return EXIT_NOTHING;
		}
	}
	printf("%s/$LIB/" FILE_NAME "\n", o->argv[0]);
	return EXIT_OK;
}
