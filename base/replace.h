/* SPDX-License-Identifier: Apache-2.0
 * replace.h - writes a file that is there complete or not at all: beside it under another name, then
 * renamed. Threads: one a file. */
#pragma once

#include <limits.h>
#include <sys/types.h>

struct replace {
	int dirfd, fd; /* fd: to write to; -1 where its owner has closed it */
	char path[PATH_MAX], temporary[PATH_MAX];
};

/* path: below dirfd, or AT_FDCWD. The other name ends in ".tmp". 0, -ENAMETOOLONG, -errno. */
int replace_begin(struct replace *r, int dirfd, const char *path, mode_t mode);
/* Closes the file, and puts it in place if err is 0. Otherwise, and where that fails, nothing is
 * left. err or -errno. Not durable: its owner syncs fd before, and the directory after. */
int replace_end(struct replace *r, int err);
