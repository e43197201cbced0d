/* SPDX-License-Identifier: Apache-2.0
 * journal.h - file format of `sysomd --record-analysis`: the input and output of analysis/ on a
 * node, in order. `sysom replay window` reads it; docs/analysis-recording.md is normative. A file
 * is JOURNAL_MAGIC followed by self-contained blocks. A block holds events, and for each rank the
 * records that the events refer to, packed by wire/codec.h. Trust: the bytes read may be hostile;
 * every count is bounded by base/limits.h before anything is allocated. Threads: any; no shared
 * state. */
#pragma once

#include "analysis/expect/judge.h"
#include "analysis/slow/local_peers.h"
#include "base/buf.h"
#include "base/limits.h"

#define JOURNAL_MAGIC	    "SYSOMJ\r\n" /* a transfer in text mode damages it */
#define JOURNAL_MAGIC_BYTES 8u
#define JOURNAL_VERSION	    1u
/* The size of a block's head; see journal_block_bytes. */
#define JOURNAL_HEAD_BYTES 16u
#define JOURNAL_TEXT_BYTES 128u

enum journal_kind {
	JOURNAL_RANK = 1,    /* a rank starts in the slot, with these settings */
	JOURNAL_SAMPLE = 2,  /* judge_restore */
	JOURNAL_RECORDS = 3, /* the slot's next records: steps_push_host, steps_push_device */
	JOURNAL_MARK = 4,    /* the mark of the slot's next host record */
	JOURNAL_RUN = 5,     /* steps_advance */
	JOURNAL_FINISH = 6,  /* steps_finish */
	JOURNAL_STEP = 7,    /* a step from steps_next, with judge_push's verdict */
	JOURNAL_COMPARE = 8, /* local_peers_step with the slot's latest step */
	JOURNAL_FORGET = 9,  /* local_peers_forget */
	JOURNAL_FLAG = 10,   /* a flag from local_peers_next */
	JOURNAL_END = 11,    /* nothing follows */
};

enum journal_end {
	JOURNAL_END_CLEAN = 0, /* sysomd ended */
	JOURNAL_END_FULL = 1,  /* the size limit was reached */
	JOURNAL_END_BUSY = 2,  /* the disk did not keep up */
};
const char *journal_end_name(unsigned why); /* "clean", "full", "busy"; static */

struct journal_rank {
	char job[JOURNAL_TEXT_BYTES], role[JOURNAL_TEXT_BYTES], node[JOURNAL_TEXT_BYTES];
	int32_t rank, world_size;
	struct steps_config steps;
	struct judge_config judge;
};

struct journal_step {
	struct step step;
	uint64_t stalled_ns;
	struct judge_verdict verdict;
};

struct journal_event {
	enum journal_kind kind;
	uint32_t slot; /* below LIMIT_NODE_PROCESSES. FLAG: equal to flag.slot. END: not used */
	union {
		struct journal_rank rank;
		struct judge_sample sample;
		struct {
			const struct record *first; /* borrowed until the block is freed */
			uint32_t count;
		} records;
		struct step_mark mark;
		uint64_t device_ns; /* of RUN */
		struct journal_step step;
		struct {
			uint64_t key;
			bool used;
		} compare;
		struct local_peers_flag flag;
		uint32_t end; /* enum journal_end */
	} as;
};

/* ---- writing: a block under construction ---- */

struct journal_writer {
	struct buf events;
	struct record *records; /* records of all slots, in order */
	uint8_t *slots;		/* slot of each record */
	uint32_t count;
	/* the slot of the latest records, and how many of them no event covers yet */
	uint32_t open_slot, open_count;
};
int journal_writer_init(struct journal_writer *w); /* 0 or -ENOMEM */
void journal_writer_fini(struct journal_writer *w);
void journal_writer_clear(struct journal_writer *w);
/* True if the next event may not fit. */
bool journal_writer_full(const struct journal_writer *w);
/* Adds a record. The writer must not be full. mark: for RECORD_STEP_BEGIN, else NULL. */
void journal_writer_record(struct journal_writer *w, uint32_t slot, const struct record *r,
			   const struct step_mark *mark);
/* Adds an event of any kind except RECORDS and MARK. */
void journal_writer_event(struct journal_writer *w, const struct journal_event *e);
/* Appends the block, head and body, to out. 0, -EMSGSIZE (beyond out's limit), -ENOMEM. */
int journal_writer_pack(struct journal_writer *w, struct buf *out);

/* ---- reading ---- */

struct journal_block; /* opaque */
/* The size of the body. -EPROTO: not the head of a block. */
int journal_block_bytes(const uint8_t head[JOURNAL_HEAD_BYTES], uint32_t *body_bytes);
/* 0; -EPROTO, -EBADMSG (damaged), -ENOMEM. */
int journal_block_open(struct journal_block **out, const uint8_t head[JOURNAL_HEAD_BYTES],
		       const void *body, uint32_t body_bytes);
void journal_block_close(struct journal_block *b); /* NULL is a no-op */
/* Reads the next event. 1; 0 at the end; -EPROTO. */
int journal_block_next(struct journal_block *b, struct journal_event *e);
