/* SPDX-License-Identifier: Apache-2.0
 * text.h - small conversions between numbers and readable text. Threads: any. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

/* Copies, and cuts to fit. The result is always NUL-terminated. */
void text_copy(char *to, size_t room, const char *from);
/* The part after the last slash, or the whole path if it ends there. */
static inline const char *text_base(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}
static inline bool text_ends(const char *text, const char *with)
{
	size_t n = strlen(text), k = strlen(with);

	return n >= k && !strcmp(text + n - k, with);
}
/* Nanoseconds to milliseconds; 0 for values that are not finite, because JSON cannot express
 * them. */
double text_ms(double ns);
double text_finite(double v);
#define TEXT_DURATION_BYTES 32
/* "3.21 ms", "12.3 s", for people; returns out. */
const char *text_duration(double ns, char out[TEXT_DURATION_BYTES]);
void text_hex(const uint8_t *data, size_t bytes, char *out /* 2 * bytes + 1 */);
/* Reads a text that consists only of decimal digits. False: any other text, or more than max; *out
 * is unchanged. */
bool text_number(const char *text, uint64_t max, uint64_t *out);
/* Reads lower-case hex for exactly `bytes` bytes. 0, -EINVAL. */
int text_unhex(const char *text, uint8_t *out, size_t bytes);
/* The edit distance: how many letters to insert, drop or replace. Only the first 63 letters of each
 * text count. */
unsigned text_distance(const char *a, const char *b);
/* The time in UTC, in the format of RFC 3339; "?" if it has no date. Returns out. */
#define TEXT_UTC_BYTES 32
const char *text_utc(time_t t, char out[TEXT_UTC_BYTES]);
