/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/text/outfile.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

int outfile_open(struct outfile *o, const char *path)
{
	struct stat st;
	int err;

	memset(o, 0, sizeof(*o));
	if (strcmp(path, "-") == 0) {
		o->f = stdout;
		return 0;
	}
	/* a device or pipe is written as it is */
	if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) {
		o->f = fopen(path, "we");
		return o->f ? 0 : -errno;
	}
	err = replace_begin(&o->to, AT_FDCWD, path, 0666);
	if (err)
		return err;
	o->f = fdopen(o->to.fd, "w");
	if (!o->f)
		return replace_end(&o->to, -ENOMEM);
	o->to.fd = -1; /* f closes it */
	o->whole = true;
	return 0;
}

static int why(void)
{
	return errno ? -errno : -EIO;
}

/* What failed may lie back, and errno be another call's: it fails again. */
int outfile_error(FILE *f)
{
	if (!ferror(f))
		return 0;
	errno = 0;
	return fputc('\n', f) == EOF || fflush(f) ? why() : -EIO;
}

int outfile_close(struct outfile *o, int result)
{
	if (o->f == stdout)
		return fflush(stdout) || ferror(stdout) ? outfile_error(stdout) : result;
	errno = 0;
	if (fclose(o->f) && !result)
		result = why();
	return o->whole ? replace_end(&o->to, result) : result;
}
