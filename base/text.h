/* SPDX-License-Identifier: Apache-2.0
 * text.h - small conversions between numbers and what people read. Threads: any. */
#ifndef SYSOM_BASE_TEXT_H
#define SYSOM_BASE_TEXT_H

#include <stddef.h>
#include <stdint.h>

/* Copies, cut to fit; always ends in NUL. */
void text_copy(char *to, size_t room, const char *from);
/* Nanoseconds to milliseconds; 0 for what is not finite, since JSON has no word for it. */
double text_ms(double ns);
double text_finite(double v);
void text_hex(const uint8_t *data, size_t bytes, char *out /* 2 * bytes + 1 */);
/* Lower-case hex of exactly `bytes` bytes. 0, -EINVAL. */
int text_unhex(const char *text, uint8_t *out, size_t bytes);

#endif
