/* SPDX-License-Identifier: Apache-2.0
 * sketch_json.h - a sketch as JSON for the HTTP API (docs/INTERFACES.md). Threads: any. */
#pragma once

#include <jansson.h>

#include "model/window.h"

/* Returns owned; NULL if out of memory. */
json_t *sketch_json(const struct sketch *s);
