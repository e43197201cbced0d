/* SPDX-License-Identifier: Apache-2.0
 * buf.h - a growable byte buffer with a maximum size. Threads: one caller. A failed append sets
 * `failed`, and later appends are no-ops. So the caller needs to check only once, at the end. */
#pragma once

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
/* Reserves `bytes` writable bytes at the end without counting them; NULL beyond the maximum. */
void *buf_reserve(struct buf *b, size_t bytes);
void buf_append(struct buf *b, const void *data, size_t bytes);
void buf_puts(struct buf *b, const char *text);
void buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Append an unsigned LEB128 integer, as in protobuf, or a signed one in zigzag encoding. */
void buf_varint(struct buf *b, uint64_t v);
void buf_svarint(struct buf *b, int64_t v);
/* Both return 0 and advance *pos; -EPROTO: past the end, or longer than 10 bytes. */
int buf_read_varint(const uint8_t *data, size_t bytes, size_t *pos, uint64_t *out);
int buf_read_svarint(const uint8_t *data, size_t bytes, size_t *pos, int64_t *out);
