/* SPDX-License-Identifier: Apache-2.0
 * replay_live.h - `sysom replay events --live`: repeats a live run from the traces of a job's ranks: with
 * sysomd's code for every node (live_node.h) and the aggregator's for fleet, incidents and verdicts, at the
 * traces' time. A trace lacks CPU stacks, OS signals, GPU telemetry and earlier runs.
 * Owns: its traces, 96 bytes per row. Threads: one caller. */
#pragma once

#include "analysis/slow/peers.h"
#include "analysis/trace/align.h"
#include "cli/replay/replay_load.h"

struct replay_live_config {
	bool json, marks;
	enum peers_mode mode;
	uint32_t ranks_per_node; /* 1 to LIMIT_NODE_PROCESSES; ranks fill nodes in order */
};

struct replay_live_stats {
	uint64_t steps, flagged, windows, window_bytes, findings, incidents;
};

struct replay_live;								    /* opaque */
int replay_live_open(struct replay_live **out, const struct replay_live_config *c); /* 0, -ENOMEM */
void replay_live_close(struct replay_live *l); /* NULL is a no-op */
/* Takes the trace's memory, leaving it empty; each rank once. 0, -ENOMEM. */
int replay_live_add(struct replay_live *l, struct replay_trace *t);
/* align: of the same ranks, by number; borrowed for the call. Prints each report at its time, then the
 * incidents with their findings. 0, -ENOMEM. */
int replay_live_run(struct replay_live *l, const struct align_job *align,
		    struct replay_live_stats *out);
