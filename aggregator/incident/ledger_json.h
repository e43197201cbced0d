/* SPDX-License-Identifier: Apache-2.0
 * ledger_json.h - write a verdict's ledger as JSON: the time of each account in the slow steps and in
 * the reference (docs/INTERFACES.md, "ledger"). Threads: one caller. */
#pragma once

#include <jansson.h>

#include "aggregator/incident/incident_private.h"

/* Makes the ledger of one rank of the incident. The reference is its own healthy steps; if too few
 * are known, the steps of ranks that are not culprits. Returns owned; JSON null if neither is
 * known. */
json_t *ledger_json_make(const struct incident *i, const struct incident_judgement *j,
			 int32_t rank);
