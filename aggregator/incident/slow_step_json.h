/* SPDX-License-Identifier: Apache-2.0
 * slow_step_json.h - a slow step as JSON (docs/INTERFACES.md, "Incidents"). Threads: any. */
#pragma once

#include <jansson.h>

#include "analysis/cause/slow_step.h"

/* New reference; null if s is NULL or not known. */
json_t *slow_step_json_make(const struct slow_step *s);
