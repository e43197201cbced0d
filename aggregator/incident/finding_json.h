/* SPDX-License-Identifier: Apache-2.0
 * finding_json.h - a finding as JSON, for the store and for an incident's JSON. Threads: any. */
#pragma once

#include <jansson.h>

#include "model/finding.h"

/* Both return owned. A line about one rank has "rank". */
json_t *finding_json_lines(const struct finding_line *lines, uint32_t count);
json_t *finding_json_make(const struct finding_report *f);
/* Fills everything but job. 0, -EINVAL. */
int finding_json_parse(const json_t *j, struct finding_report *out);
