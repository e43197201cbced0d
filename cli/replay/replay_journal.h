/* SPDX-License-Identifier: Apache-2.0
 * replay_journal.h - repeats the analysis of a recording of `sysomd --record-analysis` (node/journal.h):
 * finds, judges and compares each step again, and compares the result with the live one.
 * Owns: its models. Threads: one caller. Trust: the file is hostile; its bounds are in base/limits.h. */
#pragma once

#include <stdio.h>

#include "node/journal.h"

struct replay_journal_stats {
	uint64_t blocks, events, records, ranks, steps, judged, flagged, findings;
	uint64_t differ; /* lines that differ from the live ones */
	bool ended;	 /* the recording has an end */
	uint32_t why;	 /* enum journal_end */
};

struct replay_journal; /* opaque */
/* Writes lines to `to`, as JSON or text. live: the live run's lines instead of ours. */
int replay_journal_open(struct replay_journal **out, FILE *to, bool json, bool live);
void replay_journal_close(struct replay_journal *j); /* NULL is a no-op */
/* Takes the next block's body. 0; -EPROTO, -EBADMSG, -E2BIG (its models need too much memory), -ENOMEM. */
int replay_journal_block(struct replay_journal *j, const uint8_t head[JOURNAL_HEAD_BYTES],
			 const void *body, uint32_t body_bytes);
/* After the last block. */
void replay_journal_finish(struct replay_journal *j);
void replay_journal_stats_get(const struct replay_journal *j, struct replay_journal_stats *out);
