/* SPDX-License-Identifier: Apache-2.0
 * request_json.h - a request of a serving job as JSON (docs/INTERFACES.md), for both daemons.
 * Threads: any. */
#pragma once

#include "analysis/requests/request_table.h"
#include "base/buf.h"

struct request_json_place {
	const char *job;
	uint64_t realtime_offset_ns; /* CLOCK_REALTIME less the request's clock; modulo 2^64 */
	const char *const *nodes;    /* that saw it */
	uint32_t node_count;
	const char *clock; /* of several nodes: "aligned" or "system" */
};
/* Appends one object. "clock" says how the times of several nodes came onto one clock; "unknown": they
 * contradict each other. */
void request_json(const struct request *r, const struct request_json_place *p, struct buf *out);
