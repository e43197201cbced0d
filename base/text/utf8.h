/* SPDX-License-Identifier: Apache-2.0
 * utf8.h - reads UTF-8 (RFC 3629), and makes a peer's text harmless in place. Header-only and
 * libc-free. Threads: any. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A character has at most this many bytes. For a NUL-terminated text, pass this as `bytes`: a NUL
 * ends even a malformed character. */
#define UTF8_BYTES 4u

/* The length of the first character (1 to 4), and its code point. 0: no well-formed character
 * begins here. bytes: at least 1. */
static inline unsigned utf8_next(const char *text, size_t bytes, uint32_t *point)
{
	const unsigned char *p = (const unsigned char *)text;
	unsigned n = p[0] < 0x80		   ? 1
		     : p[0] >= 0xc2 && p[0] < 0xe0 ? 2
		     : (p[0] & 0xf0) == 0xe0	   ? 3
		     : p[0] >= 0xf0 && p[0] < 0xf5 ? 4
						   : 0;
	uint32_t c = n == 1 ? p[0] : p[0] & (0xffu >> (n + 1));

	if (n > bytes)
		return 0;
	for (unsigned i = 1; i < n; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (p[i] & 0x3fu);
	}
	if ((n == 3 && (c < 0x800 || (c >= 0xd800 && c < 0xe000))) ||
	    (n == 4 && (c < 0x10000 || c > 0x10ffff)))
		return 0;
	*point = c;
	return n;
}

static inline bool utf8_is_control(uint32_t c)
{
	return c < 0x20 || (c >= 0x7f && c < 0xa0);
}

/* False for control characters, line ends, invisible characters and changes of direction. */
static inline bool utf8_is_harmless(uint32_t c)
{
	return !utf8_is_control(c) && !(c >= 0x200b && c <= 0x200f) &&
	       !(c >= 0x2028 && c <= 0x202e) && !(c >= 0x2066 && c <= 0x2069) && c != 0xfeff;
}

/* Whether a NUL-terminated text is well-formed. */
static inline bool utf8_is_valid(const char *text)
{
	uint32_t c;
	unsigned n;

	for (; *text; text += n) {
		n = utf8_next(text, UTF8_BYTES, &c);
		if (!n)
			return false;
	}
	return true;
}

static inline void utf8_replace(char *text, size_t bytes, bool controls)
{
	for (size_t i = 0; i < bytes;) {
		uint32_t c = 0;
		unsigned n = utf8_next(text + i, bytes - i, &c);

		if (!n || (controls && utf8_is_control(c))) {
			for (unsigned k = 0; k < (n ? n : 1); k++)
				text[i + k] = '?';
		}
		i += n ? n : 1;
	}
}

/* Every byte that is not part of a well-formed character becomes '?'. */
static inline void utf8_repair(char *text, size_t bytes)
{
	utf8_replace(text, bytes, false);
}

/* Like utf8_repair, and every control character becomes '?' too. The result is safe in logs, JSON
 * and protobuf strings. */
static inline void utf8_clean(char *text, size_t bytes)
{
	utf8_replace(text, bytes, true);
}
