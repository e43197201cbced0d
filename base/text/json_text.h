/* SPDX-License-Identifier: Apache-2.0
 * json_text.h - JSON strings from arbitrary bytes. Invalid UTF-8 becomes U+FFFD. Threads: any. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/buf.h"

/* Makes a JSON string. Returns owned; NULL: no memory. */
json_t *json_text(const char *text);
/* Makes a string with the digits of a number that may exceed 2^53, because JavaScript and jq store
 * numbers as doubles, which are exact only up to 2^53. Returns owned. */
json_t *json_exact(uint64_t number);
/* Appends j and a newline; takes j. False: no memory, or j is NULL. */
bool json_text_put(struct buf *out, json_t *j);
/* Append or print `before`, then text as a JSON string with its quotes. Characters that
 * utf8_is_harmless() refuses are written as \uXXXX, and so is the '<' of "</" and "<!": the string
 * may be part of a page's script element. */
void json_text_append(struct buf *out, const char *before, const char *text);
void json_text_print(FILE *to, const char *before, const char *text);
