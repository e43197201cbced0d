/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/text/outfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int outfile_open(struct outfile *o, const char *path)
{
	struct stat st;
	mode_t mask;
	int fd;

	memset(o, 0, sizeof(*o));
	if (strcmp(path, "-") == 0) {
		o->f = stdout;
		return 0;
	}
	if (strlen(path) >= sizeof(o->path))
		return -ENAMETOOLONG;
	strcpy(o->path, path);
	/* a device or pipe is written directly */
	if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) {
		o->f = fopen(path, "we");
		return o->f ? 0 : -errno;
	}
	snprintf(o->temporary, sizeof(o->temporary), "%s.XXXXXX", path);
	fd = mkostemp(o->temporary, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	mask = umask(0);
	umask(mask);
	fchmod(fd, 0666 & ~mask);
	o->f = fdopen(fd, "w");
	if (o->f)
		return 0;
	close(fd);
	unlink(o->temporary);
	return -ENOMEM;
}

static int last_error(void)
{
	return errno ? -errno : -EIO;
}

/* errno may belong to a later call, so the write is repeated to get its error. */
int outfile_error(FILE *f)
{
	if (!ferror(f))
		return 0;
	errno = 0;
	return fputc('\n', f) == EOF || fflush(f) ? last_error() : -EIO;
}

int outfile_close(struct outfile *o, int result)
{
	if (o->f == stdout)
		return fflush(stdout) || ferror(stdout) ? outfile_error(stdout) : result;
	errno = 0;
	if (fclose(o->f) && !result)
		result = last_error();
	if (!*o->temporary)
		return result;
	if (!result && rename(o->temporary, o->path))
		result = -errno;
	if (result)
		unlink(o->temporary);
	return result;
}
