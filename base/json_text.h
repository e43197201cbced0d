/* SPDX-License-Identifier: Apache-2.0
 * json_text.h - JSON strings from arbitrary bytes. What is not UTF-8 becomes U+FFFD. Threads: any. */
#ifndef SYSOM_BASE_JSON_TEXT_H
#define SYSOM_BASE_JSON_TEXT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/buf.h"

/* Makes a JSON string. Returns owned; NULL: no memory. */
json_t *json_text(const char *text);
/* Appends j and a newline; takes j. False: no memory, or j is NULL. */
bool json_text_put(struct buf *out, json_t *j);
/* Append or print `before`, then text as a JSON string with its quotes. Characters that
 * utf8_is_harmless() refuses stand by their numbers, and so does the '<' of "</" and "<!": the
 * string may stand in a page's script element. */
void json_text_append(struct buf *out, const char *before, const char *text);
void json_text_print(FILE *to, const char *before, const char *text);

#endif
