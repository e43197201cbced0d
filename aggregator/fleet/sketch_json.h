/* SPDX-License-Identifier: Apache-2.0
 * sketch_json.h - a sketch as the HTTP API gives it (docs/INTERFACES.md). Threads: any. */
#ifndef SYSOM_AGGREGATOR_FLEET_SKETCH_JSON_H
#define SYSOM_AGGREGATOR_FLEET_SKETCH_JSON_H

#include <jansson.h>

#include "model/window.h"

/* Returns owned; NULL without memory. */
json_t *sketch_json(const struct sketch *s);

#endif
