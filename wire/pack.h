/* SPDX-License-Identifier: Apache-2.0
 * pack.h - one zstd frame (with checksum) around a block of columns.
 * Threads: any; compression contexts are kept per thread. Trust: pack_read takes hostile bytes; the
 * frame must state its size, which is bounded before anything is allocated. */
#ifndef SYSOM_WIRE_PACK_H
#define SYSOM_WIRE_PACK_H

#include "base/buf.h"

struct pack_part {
	const void *data;
	size_t bytes;
};

/* QUICK: the recorder's blocks, of which most are never looked at. CLOSE: what leaves the node; small
 * content is searched harder and cut into more blocks. A reader takes either. */
enum pack_effort { PACK_QUICK, PACK_CLOSE };

/* Appends the parts, concatenated, as one frame. Every part gets blocks, and so entropy tables, of
 * its own where it is large enough. 0, -EMSGSIZE past out's ceiling, -ENOMEM. */
int pack_write(const struct pack_part *parts, size_t count, enum pack_effort effort,
	       struct buf *out);
/* The content's size as the frame states it; -EPROTO where it doesn't, -EMSGSIZE above max_bytes. */
int pack_size(const void *data, size_t bytes, size_t max_bytes, size_t *out);
/* *out is malloc'ed, owned by the caller (one byte more than *out_bytes, zero). */
int pack_read(const void *data, size_t bytes, size_t max_bytes, uint8_t **out, size_t *out_bytes);

#endif
