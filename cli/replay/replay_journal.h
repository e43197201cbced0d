/* SPDX-License-Identifier: Apache-2.0
 * replay_journal.h - what `sysomd --record-analysis` wrote, run through the same analysis again
 * (node/journal.h): each step is found, judged and compared anew and laid beside what was said live.
 * Owns: its models. Threads: one caller. Trust: the file is hostile; its bounds are in base/limits.h. */
#ifndef SYSOM_CLI_REPLAY_REPLAY_JOURNAL_H
#define SYSOM_CLI_REPLAY_REPLAY_JOURNAL_H

#include <stdio.h>

#include "node/journal.h"

struct replay_journal_stats {
	uint64_t blocks, events, records, ranks, steps, judged, flagged, findings;
	uint64_t differ; /* lines that are not the same live and here */
	bool ended;	 /* its end was written */
	uint32_t why;	 /* enum journal_end */
};

struct replay_journal; /* opaque */
/* Lines go to `to` as they come: JSON or text. live: what the live run said, not what is found here. */
int replay_journal_open(struct replay_journal **out, FILE *to, bool json, bool live);
void replay_journal_close(struct replay_journal *j); /* NULL is a no-op */
/* The next block's body. 0; -EPROTO, -EBADMSG, -E2BIG (its models need too much memory), -ENOMEM. */
int replay_journal_block(struct replay_journal *j, const uint8_t head[JOURNAL_HEAD_BYTES],
			 const void *body, uint32_t body_bytes);
/* No more blocks. */
void replay_journal_finish(struct replay_journal *j);
void replay_journal_stats_get(const struct replay_journal *j, struct replay_journal_stats *out);

#endif
