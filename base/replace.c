/* SPDX-License-Identifier: Apache-2.0 */
#include "base/replace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

int replace_begin(struct replace *r, int dirfd, const char *path, mode_t mode)
{
	static atomic_uint number;

	r->dirfd = dirfd;
	if ((size_t)snprintf(r->path, sizeof(r->path), "%s", path) >= sizeof(r->path))
		return -ENAMETOOLONG;
	/* an earlier process with this pid may have left such a file behind */
	do {
		if ((size_t)snprintf(r->temporary, sizeof(r->temporary), "%s.%d-%u.tmp", path,
				     (int)getpid(),
				     atomic_fetch_add(&number, 1)) >= sizeof(r->temporary))
			return -ENAMETOOLONG;
		r->fd = openat(dirfd, r->temporary, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, mode);
	} while (r->fd < 0 && errno == EEXIST);
	return r->fd < 0 ? -errno : 0;
}

int replace_end(struct replace *r, int err)
{
	if (r->fd >= 0 && close(r->fd) && !err)
		err = -errno;
	if (!err && renameat(r->dirfd, r->temporary, r->dirfd, r->path))
		err = -errno;
	if (err)
		unlinkat(r->dirfd, r->temporary, 0);
	return err;
}
