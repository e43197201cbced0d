/* SPDX-License-Identifier: Apache-2.0 */
#include "base/daemon/secret_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* O_NONBLOCK: a FIFO must not make us wait. */
#define OPEN_FLAGS (O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)

static int check(const char *path, const struct stat *st, bool secret, char *why, size_t why_bytes)
{
	if (!S_ISREG(st->st_mode)) {
		snprintf(why, why_bytes, "%s is not a regular file", path);
		return -EINVAL;
	}
	if (!secret)
		return 0;
	if (st->st_uid && st->st_uid != geteuid()) {
		snprintf(why, why_bytes, "%s belongs to uid %u; chown it to root or to uid %u",
			 path, (unsigned)st->st_uid, (unsigned)geteuid());
		return -EPERM;
	}
	if (st->st_mode & (S_IWGRP | S_IRWXO)) {
		snprintf(why, why_bytes, "%s has mode %04o, so that others may %s it; chmod 640 %s",
			 path, (unsigned)st->st_mode & 07777,
			 st->st_mode & (S_IWGRP | S_IWOTH) ? "write" : "read", path);
		return -EPERM;
	}
	return 0;
}

static int read_all(const char *path, int fd, struct buf *out, char *why, size_t why_bytes)
{
	char piece[4096];
	ssize_t n;

	while ((n = read(fd, piece, sizeof(piece))) > 0)
		buf_append(out, piece, (size_t)n);
	explicit_bzero(piece, sizeof(piece));
	if (n < 0) {
		n = -errno;
		snprintf(why, why_bytes, "%s: %s", path, strerror((int)-n));
		return (int)n;
	}
	if (!out->failed)
		return 0;
	snprintf(why, why_bytes, "%s is larger than %zu bytes", path, out->max_bytes);
	return -EFBIG;
}

static int read_file(const char *path, bool secret, struct buf *out, char *why, size_t why_bytes)
{
	int fd = open(path, OPEN_FLAGS), err;
	struct stat st;

	err = fd < 0 || fstat(fd, &st) ? -errno : 0;
	if (err)
		snprintf(why, why_bytes, "%s: %s", path, strerror(-err));
	if (!err)
		err = check(path, &st, secret, why, why_bytes);
	if (!err)
		err = read_all(path, fd, out, why, why_bytes);
	if (fd >= 0)
		close(fd);
	return err;
}

int secret_file_read(const char *path, struct buf *out, char *why, size_t why_bytes)
{
	return read_file(path, true, out, why, why_bytes);
}

int secret_file_read_public(const char *path, struct buf *out, char *why, size_t why_bytes)
{
	return read_file(path, false, out, why, why_bytes);
}

static bool same_time(struct timespec a, struct timespec b)
{
	return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

bool secret_file_changed(const char *path, struct secret_file_state *s)
{
	struct secret_file_state now;
	struct stat st;

	if (stat(path, &st))
		return false;
	now = (struct secret_file_state){st.st_dev, st.st_ino, st.st_size, st.st_mtim, st.st_ctim};
	if (now.device == s->device && now.inode == s->inode && now.bytes == s->bytes &&
	    same_time(now.modified, s->modified) && same_time(now.changed, s->changed))
		return false;
	*s = now;
	return true;
}
