/* SPDX-License-Identifier: Apache-2.0
 * ledger_json.h - a verdict's subtraction as JSON: what each account of the slow steps took, and
 * what it usually takes (docs/INTERFACES.md, "ledger"). Threads: one caller. */
#pragma once

#include <jansson.h>

#include "aggregator/incident/incident_private.h"

/* For one rank of the incident. The reference is its own healthy steps; if too few are known, the
 * steps of ranks that are not culprits. JSON null if neither is known. */
json_t *ledger_json_make(const struct incident *i, const struct incident_judgement *j,
			 int32_t rank);
