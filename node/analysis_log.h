/* SPDX-License-Identifier: Apache-2.0
 * analysis_log.h - `sysomd --record-analysis F`: what goes into analysis/ and what it says, into a file
 * that `sysom replay window` runs again (node/journal.h).
 * A recording is the beginning of a run, without holes: at its size, or when the disk does not keep up
 * with four blocks in memory, it ends, says why, and what came later is counted.
 * Owns: a thread that packs and writes; the file. Threads: the loop's; no call waits for the disk, but
 * analysis_log_close. Every call with NULL is a no-op: nothing is recorded. */
#ifndef SYSOM_NODE_ANALYSIS_LOG_H
#define SYSOM_NODE_ANALYSIS_LOG_H

#include "node/journal.h"

struct analysis_log_stats {
	uint64_t bytes, events, lost; /* events: written; lost: came after the recording's end */
	bool ended;
	uint32_t why; /* enum journal_end, once it has ended */
};

struct analysis_log; /* opaque */
/* Overwrites the file (never through a link). 0 or -errno. */
int analysis_log_open(struct analysis_log **out, const char *path, uint64_t bytes_max);
void analysis_log_close(struct analysis_log *l);
/* Before anything else of the slot. */
void analysis_log_rank(struct analysis_log *l, uint32_t slot, const struct journal_rank *r);
void analysis_log_sample(struct analysis_log *l, uint32_t slot, const struct judge_sample *s);
/* mark: for RECORD_STEP_BEGIN, else NULL. */
void analysis_log_record(struct analysis_log *l, uint32_t slot, const struct record *r,
			 const struct step_mark *mark);
void analysis_log_run(struct analysis_log *l, uint32_t slot, uint64_t device_ns);
void analysis_log_finish(struct analysis_log *l, uint32_t slot);
void analysis_log_step(struct analysis_log *l, uint32_t slot, const struct step *s,
		       uint64_t stalled_ns, const struct judge_verdict *v);
/* The slot's latest step goes to the comparison of the node's ranks; the slot leaves it; what it says. */
void analysis_log_compare(struct analysis_log *l, uint32_t slot, uint64_t key, bool used);
void analysis_log_forget(struct analysis_log *l, uint32_t slot);
void analysis_log_flag(struct analysis_log *l, const struct local_peers_flag *f);
/* Now and then: what has waited for a second goes to the file. */
void analysis_log_tend(struct analysis_log *l, uint64_t now_ns);
void analysis_log_stats(struct analysis_log *l, struct analysis_log_stats *out);

#endif
