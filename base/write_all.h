/* SPDX-License-Identifier: Apache-2.0
 * write_all.h - a whole buffer to a file. Header only. Threads: any. */
#ifndef SYSOM_BASE_WRITE_ALL_H
#define SYSOM_BASE_WRITE_ALL_H

#include <errno.h>
#include <stddef.h>
#include <unistd.h>

/* 0; -errno, -ENOSPC where nothing is taken: a part may be written then. */
static inline int write_all(int fd, const void *data, size_t bytes)
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

#endif
