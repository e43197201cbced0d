/* SPDX-License-Identifier: Apache-2.0
 * all_bytes.h - writes a whole buffer to a file, or reads one. Header only. Threads: any. */
#pragma once

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

/* 0; -errno; -ENOSPC if write() takes nothing. After an error a part may be written. */
static inline int all_bytes_write(int fd, const void *data, size_t bytes)
{
	const char *p = data;

	while (bytes) {
		ssize_t n = write(fd, p, bytes);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -ENOSPC;
		p += n;
		bytes -= (size_t)n;
	}
	return 0;
}

/* Reads from this offset on. 0; -EBADMSG: the file ends too early; -errno. */
static inline int all_bytes_read(int fd, void *to, size_t bytes, uint64_t offset)
{
	char *p = to;

	if (offset > INT64_MAX || bytes > INT64_MAX - offset)
		return -EBADMSG;
	while (bytes) {
		ssize_t n = pread(fd, p, bytes, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -EBADMSG;
		p += n;
		offset += (uint64_t)n;
		bytes -= (size_t)n;
	}
	return 0;
}
