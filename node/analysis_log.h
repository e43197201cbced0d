/* SPDX-License-Identifier: Apache-2.0
 * analysis_log.h - record the input and output of analysis/ (`sysomd --record-analysis F`).
 * `sysom replay window` replays the file (node/journal.h). A recording starts with the run and
 * has no holes. It ends at its size limit, or when the disk falls four blocks behind. It then
 * records why it ended, and only counts later events.
 * Owns: the file, and a thread that packs and writes. Threads: the loop's. Only analysis_log_close
 * waits for the disk. Every call with NULL is a no-op. */
#pragma once

#include "node/journal.h"

struct analysis_log_stats {
	uint64_t bytes, events, lost; /* lost: events after the recording's end */
	bool ended;
	uint32_t why; /* enum journal_end, once it has ended */
};

struct analysis_log; /* opaque */
/* Overwrites the file; never follows a link. 0 or -errno. */
int analysis_log_open(struct analysis_log **out, const char *path, uint64_t bytes_max);
void analysis_log_close(struct analysis_log *l);
/* Must be the first call for the slot. */
void analysis_log_rank(struct analysis_log *l, uint32_t slot, const struct journal_rank *r);
void analysis_log_sample(struct analysis_log *l, uint32_t slot, const struct judge_sample *s);
/* mark: for RECORD_STEP_BEGIN, else NULL. */
void analysis_log_record(struct analysis_log *l, uint32_t slot, const struct record *r,
			 const struct step_mark *mark);
void analysis_log_run(struct analysis_log *l, uint32_t slot, uint64_t device_ns);
void analysis_log_finish(struct analysis_log *l, uint32_t slot);
void analysis_log_step(struct analysis_log *l, uint32_t slot, const struct step *s,
		       uint64_t stalled_ns, const struct judge_verdict *v);
/* Each records one call of local_peers_step, local_peers_forget or local_peers_next. */
void analysis_log_compare(struct analysis_log *l, uint32_t slot, uint64_t key, bool used);
void analysis_log_forget(struct analysis_log *l, uint32_t slot);
void analysis_log_flag(struct analysis_log *l, const struct local_peers_flag *f);
/* Call regularly: passes events that are a second old to the writing thread. */
void analysis_log_tend(struct analysis_log *l, uint64_t now_ns);
void analysis_log_stats(struct analysis_log *l, struct analysis_log_stats *out);
