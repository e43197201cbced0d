/* SPDX-License-Identifier: Apache-2.0
 * outfile.h - writes an output file completely or not at all; "-" is standard output. */
#pragma once

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
/* result: of the writer; below 0 the file is discarded. 0 or -errno. */
int outfile_close(struct outfile *o, int result);
/* 0 or -errno of all earlier writes to f; flush first to include buffered ones. */
int outfile_error(FILE *f);
