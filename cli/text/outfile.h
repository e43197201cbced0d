/* SPDX-License-Identifier: Apache-2.0
 * outfile.h - an output file that is there complete or not at all; "-" is standard output. */
#ifndef SYSOM_CLI_TEXT_OUTFILE_H
#define SYSOM_CLI_TEXT_OUTFILE_H

#include <stdbool.h>
#include <stdio.h>

#include "base/replace.h"

struct outfile {
	FILE *f;
	bool whole; /* replaces its file when it is closed */
	struct replace to;
};

/* 0 or -errno. */
int outfile_open(struct outfile *o, const char *path);
/* result: what the writer returned; below 0 the file is thrown away. 0 or -errno. */
int outfile_close(struct outfile *o, int result);
/* Whether all that was written to f went through, after a flush where that matters: 0 or -errno. */
int outfile_error(FILE *f);

#endif
