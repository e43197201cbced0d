/* SPDX-License-Identifier: Apache-2.0 */
#include "base/daemon/dirs.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

int dirs_make(const char *path, mode_t mode)
{
	char part[PATH_MAX];

	if (snprintf(part, sizeof(part), "%s", path) >= (int)sizeof(part) - 32)
		return -ENAMETOOLONG;
	for (char *p = part + 1; *p; p++)
		if (*p == '/') {
			*p = '\0';
			if (mkdir(part, 0755) && errno != EEXIST)
				return -errno;
			*p = '/';
		}
	return mkdir(part, mode) && errno != EEXIST ? -errno : 0;
}

int dirs_sync(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), err;

	if (fd < 0)
		return -errno;
	err = fsync(fd) ? -errno : 0;
	close(fd);
	return err;
}
