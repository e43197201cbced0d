/* SPDX-License-Identifier: Apache-2.0
 * recorder.h - keeps every record of every rank for a while, compressed in columnar blocks.
 * Two tiers: a ring of memory, and a ring of files that takes what falls out of memory. What falls
 * out of both is forgotten; how far back it still goes is told.
 * Owns: its memory, made at open, the files rec-*.seg of its directory (those of an earlier run are
 * removed: their names went with it), and a thread that packs blocks and writes files, so that the caller
 * only copies. Threads: one caller. */
#ifndef SYSOM_NODE_RECORDER_H
#define SYSOM_NODE_RECORDER_H

#include <stddef.h>

#include "model/record.h"

/* Records per block: small enough to be encoded in a millisecond, large enough to compress. */
#define RECORDER_BLOCK_RECORDS 4096u

struct recorder_config {
	uint64_t memory_bytes;
	uint64_t file_bytes; /* 0: no files */
	const char *dir;     /* borrowed during open */
	uint32_t ranks_max;
};

struct recorder_stats {
	uint64_t records, blocks, stored_bytes; /* since open */
	uint64_t memory_bytes, file_bytes;	/* held now */
	uint64_t lost_records; /* blocks that neither tier took */
	uint64_t oldest_ns;    /* begin of the oldest block still held; 0 none */
};

/* Full blocks that wait for the thread; with more of them a push waits. */
#define RECORDER_QUEUE 8u
/* Memory of packed blocks is kept for the next ones: ranks of one job fill theirs at the same time. */
#define RECORDER_SPARES RECORDER_QUEUE

struct recorder; /* opaque */
int recorder_open(struct recorder **out, const struct recorder_config *c);
void recorder_close(struct recorder *r); /* NULL is a no-op; removes the files */
/* A place for a rank's records; owner tells them from those of whoever had the place before.
 * 0 or -ENOMEM. */
int recorder_add_rank(struct recorder *r, uint32_t slot, uint64_t owner);
void recorder_drop_rank(struct recorder *r, uint32_t slot);
void recorder_push(struct recorder *r, uint32_t slot, const struct record *rec);

struct recorder_extract {
	struct record *host, *device; /* malloc'ed, canonical order; free both */
	uint32_t host_count, device_count;
	uint64_t from_ns, until_ns; /* no record that began in [from, until) is missing */
};
/* Records that began in [begin_ns, end_ns], the oldest max of host and device each; waits until the full
 * blocks are packed. 0 or -ENOMEM. */
int recorder_extract(struct recorder *r, uint32_t slot, uint64_t begin_ns, uint64_t end_ns,
		     uint32_t max, struct recorder_extract *out);
void recorder_extract_free(struct recorder_extract *x);
/* Of the blocks that are packed. */
void recorder_stats(const struct recorder *r, struct recorder_stats *out);

#endif
