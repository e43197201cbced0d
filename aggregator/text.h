/* SPDX-License-Identifier: Apache-2.0
 * text.h - small conversions between the aggregator's structs and what people read. Threads: any. */
#ifndef SYSOM_AGGREGATOR_TEXT_H
#define SYSOM_AGGREGATOR_TEXT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/* Copies, cut to fit; always ends in NUL. */
void text_copy(char *to, size_t room, const char *from);
/* Nanoseconds to milliseconds; 0 for what is not finite, since JSON has no word for it. */
double text_ms(double ns);
double text_finite(double v);
void text_hex(const uint8_t *data, size_t bytes, char *out /* 2 * bytes + 1 */);
/* Lower-case hex of exactly `bytes` bytes; false otherwise. */
int text_unhex(const char *text, uint8_t *out, size_t bytes);
/* A JSON string of any bytes: what is not UTF-8 becomes '?'. Returns owned. */
json_t *text_json(const char *text);
/* Appends it and a line's end; takes j. False: no memory, or j is NULL. */
bool text_put_json(struct buf *out, json_t *j);

#endif
