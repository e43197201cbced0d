/* SPDX-License-Identifier: Apache-2.0
 * fleet.h - what the last beats said: jobs, ranks, nodes and who is alive. Soft state: in memory
 * only, rebuilt from beats within seconds of a start.
 * Owns its table. Threads: any; one mutex inside. Trust: beats are decoded and bounded, their numbers
 * are only shown. */
#ifndef SYSOM_AGGREGATOR_FLEET_H
#define SYSOM_AGGREGATOR_FLEET_H

#include <jansson.h>

#include "wire/window.h"

struct fleet;

struct fleet_totals {
	uint32_t jobs, ranks, ranks_alive, nodes, nodes_alive;
	uint64_t events, lost, dropped; /* of the known ranks; entries that found no room */
	uint64_t uploaded_bytes, raw_bytes, windows_dropped; /* of the known nodes */
};

/* A rank counts as alive for alive_ns after the beat that named it, and is forgotten after
 * forget_ns. 0, -ENOMEM. */
int fleet_open(struct fleet **out, uint64_t alive_ns, uint64_t forget_ns);
void fleet_close(struct fleet *f);
/* now_ns: CLOCK_MONOTONIC of this machine. */
void fleet_beat(struct fleet *f, const struct beat *b, uint64_t now_ns);
/* Ranks of a job that are alive. */
uint32_t fleet_job_ranks(struct fleet *f, const char *job, uint64_t now_ns);
void fleet_totals(struct fleet *f, uint64_t now_ns, struct fleet_totals *out);
/* {"ranks":[...]} by job and rank; job NULL: all. Returns owned; NULL without memory. */
json_t *fleet_json(struct fleet *f, const char *job, uint64_t now_ns);

#endif
