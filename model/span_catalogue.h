/* SPDX-License-Identifier: Apache-2.0
 * span_catalogue.h - compiles catalogues of Python functions whose calls are spans, from the YAML
 * that people write to the lines that libsysom_preload.so reads (docs/spans.md).
 * Owns nothing between calls. Trust: the text is untrusted; sizes are bounded. */
#pragma once

#include <stddef.h>
#include <stdio.h>

#include "base/buf.h"

struct span_catalogue_count {
	unsigned spans, functions, nvtx;
};

/* Appends the first line of the compiled form. */
void span_catalogue_head(struct buf *out);
/* Appends one catalogue. Returns the number of errors; each is a line "path:line: reason" on
 * `errors`. Adds to *count, which bounds all catalogues of one compiled form together. */
unsigned span_catalogue_compile(struct buf *out, const char *path, const char *text, size_t bytes,
				struct span_catalogue_count *count, FILE *errors);
