/* SPDX-License-Identifier: Apache-2.0
 * json_text.h - JSON strings from arbitrary bytes. Threads: any. */
#ifndef SYSOM_BASE_JSON_TEXT_H
#define SYSOM_BASE_JSON_TEXT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

/* Makes a JSON string; bytes that are not UTF-8 become '?'. Returns owned. */
json_t *json_text(const char *text);
/* Makes a string of the digits of a number that may pass 2^53: JavaScript and jq keep a number as a
 * double, which holds no more. Returns owned. */
json_t *json_exact(uint64_t number);
/* Appends j and a newline; takes j. False: no memory, or j is NULL. */
bool json_text_put(struct buf *out, json_t *j);

#endif
