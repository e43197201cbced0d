/* SPDX-License-Identifier: Apache-2.0
 * fields.h - the fields of packed rows, for both directions: one function per row lists its fields
 * in the order of the format. The fields are appended to a buffer, or set from bytes. So writer and
 * reader cannot differ. Writing changes no field.
 * Threads: one caller. Trust: the bytes are hostile. After the first error nothing is written and
 * what is read is 0, so the caller needs to check only once, at the end. */
#pragma once

#include "base/buf.h"

struct fields {
	struct buf *out; /* NULL: reads data */
	const uint8_t *data;
	size_t bytes, pos;
	int err; /* the first */
};

/* Unless `allowed`, sets the error: -EINVAL, or -EPROTO when reading. */
void fields_demand(struct fields *f, bool allowed);
/* A varint of at most max. */
void fields_u64(struct fields *f, uint64_t *v, uint64_t max);
void fields_u32(struct fields *f, uint32_t *v, uint32_t max);
/* The difference from an earlier value, modulo 2^64 and 2^32. */
void fields_change(struct fields *f, uint64_t *v, uint64_t before);
void fields_change32(struct fields *f, uint32_t *v, uint32_t before);
/* Eight bytes, the lowest first. */
void fields_fixed64(struct fields *f, uint64_t *v);
/* A length of at most max, then that many bytes; what is read stays in data. */
void fields_bytes(struct fields *f, const void **p, size_t *bytes, size_t max);
/* The same; a zero byte is an error. */
void fields_text(struct fields *f, const char **p, size_t *bytes, size_t max);
/* The first error; -ENOMEM: the buffer is full; -EPROTO: not all was read. */
int fields_end(const struct fields *f);
