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
	/* reserves all memory at once, because a growing buffer would leave copies of the secret
	 * behind */
	if (!err)
		buf_reserve(out, (size_t)st.st_size);
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

void secret_file_forget(struct buf *read)
{
	if (read->data)
		explicit_bzero(read->data, read->capacity_bytes);
	buf_fini(read);
}

static bool same_time(struct timespec a, struct timespec b)
{
	return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

struct secret_file_state secret_file_state_of(const struct stat *st)
{
	return (struct secret_file_state){st->st_dev, st->st_ino, st->st_size, st->st_mtim,
					  st->st_ctim};
}

bool secret_file_is_same(const struct secret_file_state *a, const struct secret_file_state *b)
{
	return a->device == b->device && a->inode == b->inode && a->bytes == b->bytes &&
	       same_time(a->modified, b->modified) && same_time(a->changed, b->changed);
}

bool secret_file_changed(const char *path, struct secret_file_state *s)
{
	struct secret_file_state now;
	struct stat st;

	if (stat(path, &st))
		return false;
	now = secret_file_state_of(&st);
	if (secret_file_is_same(&now, s))
		return false;
	*s = now;
	return true;
}
