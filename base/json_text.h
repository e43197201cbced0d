/* SPDX-License-Identifier: Apache-2.0
 * json_text.h - texts of any bytes in JSON. Threads: any. */
#ifndef SYSOM_BASE_JSON_TEXT_H
#define SYSOM_BASE_JSON_TEXT_H

#include <jansson.h>
#include <stdbool.h>

#include "base/buf.h"

/* A JSON string of any bytes: what is not UTF-8 becomes '?'. Returns owned. */
json_t *json_text(const char *text);
/* Appends it and a line's end; takes j. False: no memory, or j is NULL. */
bool json_text_put(struct buf *out, json_t *j);

#endif
