/* SPDX-License-Identifier: Apache-2.0
 * replace.h - writes a file so that it exists either completely or not at all: first under another
 * name beside it, then renamed. Threads: one per file. */
#pragma once

#include <limits.h>
#include <sys/types.h>

struct replace {
	int dirfd, fd; /* fd: the file to write to; -1 if the caller has closed it */
	char path[PATH_MAX], temporary[PATH_MAX];
};

/* path: below dirfd, or AT_FDCWD. The other name ends in ".tmp". 0, -ENAMETOOLONG, -errno. */
int replace_begin(struct replace *r, int dirfd, const char *path, mode_t mode);
/* Closes the file, and renames it into place if err is 0. If err is not 0, or if this fails, no
 * file is left. Returns err or -errno. Not durable by itself: the caller must sync fd before and
 * the directory after. */
int replace_end(struct replace *r, int err);
