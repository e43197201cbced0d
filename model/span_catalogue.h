/* SPDX-License-Identifier: Apache-2.0
 * span_catalogue.h - catalogues of Python functions whose calls are spans: YAML, as people write
 * it, into the lines that libsysom_preload.so reads (docs/spans.md).
 * Owns nothing between calls. Trust: the text is a stranger's; sizes are bounded. */
#pragma once

#include <stddef.h>
#include <stdio.h>

#include "base/buf.h"

struct span_catalogue_count {
	unsigned spans, functions, nvtx;
};

/* Appends the first line of the compiled form. */
void span_catalogue_head(struct buf *out);
/* Appends one catalogue. Returns 0, or the number of errors, each a line "path:line: reason" on
 * `errors`. *count is increased; it bounds all catalogues of one compiled form together. */
unsigned span_catalogue_compile(struct buf *out, const char *path, const char *text, size_t bytes,
				struct span_catalogue_count *count, FILE *errors);
