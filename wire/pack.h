/* SPDX-License-Identifier: Apache-2.0
 * pack.h - one zstd frame (with checksum) around a block of columns.
 * Threads: any; each thread keeps its compression contexts. Trust: pack_read takes hostile bytes;
 * the frame must state its size, which is bounded before anything is allocated. */
#pragma once

#include "base/buf.h"

struct pack_part {
	const void *data;
	size_t bytes;
};

/* QUICK: for the recorder's blocks, most of which are never read. CLOSE: for what leaves the node;
 * small content is searched harder and split into more blocks. Readers accept both. */
enum pack_effort { PACK_QUICK, PACK_CLOSE };

/* Appends the concatenated parts as one frame. A part that is large enough gets its own blocks, and
 * so its own entropy tables. 0, -EMSGSIZE beyond out's maximum, -ENOMEM. */
int pack_write(const struct pack_part *parts, size_t count, enum pack_effort effort,
	       struct buf *out);
/* The content's size as stated in the frame; -EPROTO: not stated, -EMSGSIZE: above max_bytes. */
int pack_size(const void *data, size_t bytes, size_t max_bytes, size_t *out);
/* *out is malloc'ed and owned by the caller; a zero byte follows *out_bytes. */
int pack_read(const void *data, size_t bytes, size_t max_bytes, uint8_t **out, size_t *out_bytes);
