/* SPDX-License-Identifier: Apache-2.0
 * recorder.h - keep the last minutes of every rank's records, compressed in columnar blocks. Two
 * tiers: a ring of memory, then a ring of files for blocks that leave memory. Blocks that leave
 * both are gone; the statistics report how far back the recorder reaches.
 * Owns: its memory, allocated at open; the files rec-*.seg of its directory; a thread that packs
 * blocks and writes files, so the caller only copies records. Files of an earlier run are removed,
 * because the texts of their name ids are lost. Threads: one caller. */
#pragma once

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
	uint64_t memory_bytes, file_bytes;	/* stored now */
	uint64_t lost_records;			/* in blocks that neither tier could store */
	uint64_t oldest_ns;			/* start of the oldest stored block; 0: none */
};

/* The most full blocks that may wait for the thread. With more, a push waits. */
#define RECORDER_QUEUE 8u
/* The most blocks whose memory is kept for reuse. The ranks of a job fill their blocks at the same
 * time. */
#define RECORDER_SPARES RECORDER_QUEUE

struct recorder; /* opaque */
/* 0; -ENOMEM, also if the thread cannot start. */
int recorder_open(struct recorder **out, const struct recorder_config *c);
void recorder_close(struct recorder *r); /* NULL is a no-op; removes the files */
/* Adds a rank in a slot. owner distinguishes its records from those of the slot's earlier rank.
 * 0 or -ENOMEM. */
int recorder_add_rank(struct recorder *r, uint32_t slot, uint64_t owner);
void recorder_drop_rank(struct recorder *r, uint32_t slot);
void recorder_push(struct recorder *r, uint32_t slot, const struct record *rec);

struct recorder_extract {
	struct record *host, *device; /* malloc'ed, canonical order; free both */
	uint32_t host_count, device_count;
	uint64_t from_ns, until_ns; /* no record that began in [from, until) is missing */
};
/* Returns records that began in [begin_ns, end_ns]: the oldest, at most max host and max device
 * records. Waits until the full blocks are packed. 0 or -ENOMEM. */
int recorder_extract(struct recorder *r, uint32_t slot, uint64_t begin_ns, uint64_t end_ns,
		     uint32_t max, struct recorder_extract *out);
void recorder_extract_free(struct recorder_extract *x);
/* Covers packed blocks only. */
void recorder_stats(const struct recorder *r, struct recorder_stats *out);
