/* SPDX-License-Identifier: Apache-2.0
 * buf.h - a growable byte buffer with a ceiling. Threads: one caller. After a failed append the
 * buffer is marked and later appends are no-ops, so that a caller checks once, at the end. */
#ifndef SYSOM_BASE_BUF_H
#define SYSOM_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf {
	uint8_t *data;
	size_t bytes, capacity_bytes, max_bytes;
	bool failed;
};

void buf_init(struct buf *b, size_t max_bytes);
void buf_fini(struct buf *b);
void buf_clear(struct buf *b); /* keeps the memory */
/* A pointer to `bytes` writable bytes at the end, not yet counted; NULL past the ceiling. */
void *buf_reserve(struct buf *b, size_t bytes);
void buf_append(struct buf *b, const void *data, size_t bytes);
void buf_puts(struct buf *b, const char *text);
void buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The inside of a JSON string; control characters become '?'. text: UTF-8. */
void buf_json_text(struct buf *b, const char *text);
/* Unsigned LEB128, as in protobuf; and its zigzag form. */
void buf_varint(struct buf *b, uint64_t v);
void buf_svarint(struct buf *b, int64_t v);
/* 0 and the new position in *pos, -EPROTO past the end or longer than 10 bytes. */
int buf_read_varint(const uint8_t *data, size_t bytes, size_t *pos, uint64_t *out);
int buf_read_svarint(const uint8_t *data, size_t bytes, size_t *pos, int64_t *out);

#endif
