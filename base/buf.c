/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void buf_init(struct buf *b, size_t max_bytes)
{
	*b = (struct buf){.max_bytes = max_bytes};
}

void buf_fini(struct buf *b)
{
	free(b->data);
	*b = (struct buf){.max_bytes = b->max_bytes};
}

void buf_clear(struct buf *b)
{
	b->bytes = 0;
	b->failed = false;
}

void *buf_reserve(struct buf *b, size_t bytes)
{
	size_t need, cap;
	uint8_t *p;

	if (b->failed || bytes > b->max_bytes || b->bytes > b->max_bytes - bytes) {
		b->failed = true;
		return NULL;
	}
	need = b->bytes + bytes;
	if (need > b->capacity_bytes) {
		cap = b->capacity_bytes ? b->capacity_bytes : 256;
		while (cap < need)
			cap *= 2;
		if (cap > b->max_bytes)
			cap = b->max_bytes;
		p = realloc(b->data, cap);
		if (!p) {
			b->failed = true;
			return NULL;
		}
		b->data = p;
		b->capacity_bytes = cap;
	}
	return b->data + b->bytes;
}

void buf_append(struct buf *b, const void *data, size_t bytes)
{
	void *p;

	if (!bytes)
		return;
	p = buf_reserve(b, bytes);
	if (p) {
		memcpy(p, data, bytes);
		b->bytes += bytes;
	}
}

void buf_puts(struct buf *b, const char *text)
{
	buf_append(b, text, strlen(text));
}

void buf_printf(struct buf *b, const char *fmt, ...)
{
	va_list ap, again;
	int n;
	char *p;

	va_start(ap, fmt);
	va_copy(again, ap);
	n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	p = n < 0 ? NULL : buf_reserve(b, (size_t)n + 1);
	if (p) {
		vsnprintf(p, (size_t)n + 1, fmt, again);
		b->bytes += (size_t)n;
	}
	va_end(again);
}

void buf_varint(struct buf *b, uint64_t v)
{
	uint8_t tmp[10];
	size_t n = 0;

	do {
		tmp[n] = (uint8_t)(v & 0x7f);
		v >>= 7;
		if (v)
			tmp[n] |= 0x80;
		n++;
	} while (v);
	buf_append(b, tmp, n);
}

void buf_svarint(struct buf *b, int64_t v)
{
	buf_varint(b, (uint64_t)v << 1 ^ (uint64_t)(v >> 63));
}

int buf_read_varint(const uint8_t *data, size_t bytes, size_t *pos, uint64_t *out)
{
	uint64_t v = 0;
	size_t p = *pos;

	for (unsigned shift = 0; shift < 70; shift += 7) {
		if (p >= bytes)
			return -EPROTO;
		if (shift == 63 && data[p] > 1)
			return -EPROTO;
		v |= (uint64_t)(data[p] & 0x7f) << shift;
		if (!(data[p++] & 0x80)) {
			*pos = p;
			*out = v;
			return 0;
		}
	}
	return -EPROTO;
}

int buf_read_svarint(const uint8_t *data, size_t bytes, size_t *pos, int64_t *out)
{
	uint64_t v;
	int err = buf_read_varint(data, bytes, pos, &v);

	if (!err)
		*out = (int64_t)(v >> 1) ^ -(int64_t)(v & 1);
	return err;
}
