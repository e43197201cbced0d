/* SPDX-License-Identifier: Apache-2.0
 * ring_text.h - makes text from a peer harmless in place. Header-only and libc-free.
 * Every control character, and every byte that is not part of well-formed UTF-8, becomes '?'. The
 * length stays the same. The result is safe in logs, JSON and protobuf strings. */
#ifndef SYSOM_RING_RING_TEXT_H
#define SYSOM_RING_RING_TEXT_H

#include <stddef.h>
#include <stdint.h>

/* Length of the well-formed UTF-8 sequence at p (1 to 4); 0: not well-formed. */
static inline size_t ring_text_sequence(const unsigned char *p, size_t left)
{
	uint32_t point;
	size_t bytes;

	if (p[0] < 0x80)
		return p[0] >= 0x20 && p[0] != 0x7f;
	if (p[0] >= 0xc2 && p[0] <= 0xdf) {
		bytes = 2;
		point = p[0] & 0x1fu;
	} else if ((p[0] & 0xf0) == 0xe0) {
		bytes = 3;
		point = p[0] & 0x0fu;
	} else if (p[0] >= 0xf0 && p[0] <= 0xf4) {
		bytes = 4;
		point = p[0] & 0x07u;
	} else {
		return 0;
	}
	if (bytes > left)
		return 0;
	for (size_t i = 1; i < bytes; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		point = point << 6 | (p[i] & 0x3fu);
	}
	if (bytes == 2)
		return point < 0xa0 ? 0 : 2; /* C1 controls */
	if (bytes == 3)
		return point < 0x800 || (point >= 0xd800 && point <= 0xdfff) ? 0 : 3;
	return point < 0x10000 || point > 0x10ffff ? 0 : 4;
}

static inline void ring_text_clean(char *text, size_t bytes)
{
	size_t i = 0;

	while (i < bytes) {
		size_t n = ring_text_sequence((const unsigned char *)text + i, bytes - i);

		if (!n) {
			text[i] = '?';
			n = 1;
		}
		i += n;
	}
}

#endif
