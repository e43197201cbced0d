/* SPDX-License-Identifier: Apache-2.0
 * replay_live.h - `sysom replay events --live`: the traces of a job's ranks as the job would have been
 * seen while it ran: sysomd's code on every node (live_node.h), the aggregator's fleet, incidents and
 * verdicts (aggregator/), from records on, at the traces' time.
 * What a trace does not have is missing: CPU stacks, signals of the system, telemetry of the GPUs, and
 * earlier runs. Owns: the traces it was given, 96 bytes per row. Threads: one caller. */
#ifndef SYSOM_CLI_REPLAY_REPLAY_LIVE_H
#define SYSOM_CLI_REPLAY_REPLAY_LIVE_H

#include "analysis/slow/peers.h"
#include "analysis/trace/align.h"
#include "cli/replay/replay_load.h"

struct replay_live_config {
	bool json, marks;
	enum peers_mode mode;
	uint32_t ranks_per_node; /* from 1 to LIMIT_NODE_PROCESSES, in the order of their numbers */
};

struct replay_live_stats {
	uint64_t steps, flagged, windows, window_bytes, findings, incidents;
};

struct replay_live;								    /* opaque */
int replay_live_open(struct replay_live **out, const struct replay_live_config *c); /* 0, -ENOMEM */
void replay_live_close(struct replay_live *l); /* NULL is a no-op */
/* Takes what is behind the trace, which is empty afterwards; each rank once. -ENOMEM. */
int replay_live_add(struct replay_live *l, struct replay_trace *t);
/* align: of the same ranks, by number; borrowed for the call. Lines of what was told, when; then the
 * incidents with their findings. -ENOMEM. */
int replay_live_run(struct replay_live *l, const struct align_job *align,
		    struct replay_live_stats *out);

#endif
