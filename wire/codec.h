/* SPDX-License-Identifier: Apache-2.0
 * codec.h - boundary 3, node to cluster: bytes for windows, beats and replies.
 * A message is a protobuf envelope (wire/sysom.proto). A window's records are columns of varint
 * differences, compressed by zstd. docs/wire-format.md is normative. Trust: decoders take hostile
 * bytes: base/limits.h bounds every count and size before anything is allocated. Threads: any; no
 * shared state. */
#pragma once

#include "base/buf.h"
#include "model/window.h"

#define WIRE_VERSION 1

enum wire_kind { WIRE_WINDOW = 1, WIRE_BEAT = 2, WIRE_REPLY = 3, WIRE_SKETCH = 4 };

/* Appends one message. 0; -EMSGSIZE: it would exceed LIMIT_WIRE_MESSAGE_BYTES, and the sender sends
 * it as summary_only or splits it; -ENOMEM. */
int wire_window_encode(const struct window *w, struct buf *out);
/* -EMSGSIZE also if one rank, or one job's requests, exceed LIMIT_BEAT_BYTES_PER_RANK, or if all of them
 * exceed (ranks + 1) times that limit. Check wire_beat_rank_bytes first, and call
 * wire_beat_requests_fit. -EINVAL: groups that model/window.h does not allow. */
int wire_beat_encode(const struct beat *b, struct buf *out);
/* Bytes that one rank takes in a beat, or -errno. */
int wire_beat_rank_bytes(const struct beat_rank *r);
/* Drops violations, from the last one on, and then durations, until the job's requests take at most
 * `bytes`. Counts in violations_dropped. Returns the bytes that they take; 0: they do not fit even
 * then. */
size_t wire_beat_requests_fit(struct request_job *r, size_t bytes);
/* -EMSGSIZE above LIMIT_SKETCH_BYTES_PER_RANK: the sender then shortens its lists. */
int wire_sketch_encode(const struct sketch *s, struct buf *out);
/* Encodes into an empty buffer and shortens the lists at their ends until it fits; gone: dropped
 * entries. Every name in the lists is a separate allocation. */
int wire_sketch_fit(struct sketch *s, struct buf *out, uint64_t *gone);

/* Whether one of the beat's ranks belongs to the job. If not, nothing shows whose job it is. */
bool codec_has_job(const struct beat *b, const char *job);
/* The tag and length before a rank or a job in a beat take at most this. */
#define WIRE_BEAT_TAG_BYTES 4u
/* Drops pieces of each job, from the last one on, until all of them take at most `bytes` in a beat.
 * Jobs have equal shares; what one job does not need, the others use. At most LIMIT_NODE_PROCESSES
 * jobs. */
void wire_beat_pieces_fit(struct request_pieces *list, uint32_t jobs, size_t bytes);

/* The kind of a message, without decoding it; -EPROTO. */
int codec_kind(const void *data, size_t bytes);
/* A message of a version later than WIRE_VERSION, of any kind. */
bool codec_is_newer(const void *data, size_t bytes);
/* Decodes everything. -EPROTO, -EMSGSIZE, -ENOMEM. On failure the caller owns nothing. */
int wire_window_decode(const void *data, size_t bytes, struct window *w);
/* Like wire_window_decode, for messages of a peer. records false: decodes only the head and the
 * names. The message's size bounds the work (LIMIT_WIRE_WORK_PER_BYTE); beyond it -EMSGSIZE, before
 * the work is done. */
int wire_window_decode_admitted(const void *data, size_t bytes, bool records, struct window *w);
int wire_beat_decode(const void *data, size_t bytes, struct beat *b);
/* Free with wire_sketch_free. Numbers are finite and not negative, shares at most 1. */
int wire_sketch_decode(const void *data, size_t bytes, struct sketch *s);

enum wire_status {
	WIRE_OK = 0,	    /* committed (windows) or seen (beats) */
	WIRE_DUPLICATE = 1, /* committed earlier */
	WIRE_RETRY = 2,	    /* not stored (disk full, shutting down): send again later */
	WIRE_REJECT = 3,    /* never acceptable: do not send again */
};
/* Commands travel in replies (INV-10). job "": every job; rank INT32_MIN: every rank. The receiver
 * ignores and counts unknown kinds. */
enum wire_command_kind {
	/* Send a window of the records from begin_ns to end_ns. sysomd's settings bound the number
	 * per minute; further ones are counted and not sent. If end_ns lies in the future, sysomd
	 * waits for it. Records that are no longer stored are missing from the window. */
	WIRE_COMMAND_WINDOW = 1,
	/* Keep the records from begin_ns to end_ns longer than the retention. */
	WIRE_COMMAND_HOLD = 2,
	/* The rank, or a peer of it, is a suspect until end_ns. sysomd sends beats at the suspect's
	 * rate, and samples every tick of the whole node, within its own bounds. */
	WIRE_COMMAND_SUSPECT = 3,
	/* Until end_ns, send pieces of the job's requests and do not judge these: other nodes may have
	 * seen parts of them. At most for LIMIT_PIECES_ASKED_NS. */
	WIRE_COMMAND_PIECES = 4,
};
struct wire_command {
	uint32_t kind; /* enum wire_command_kind, or an unknown one */
	int32_t rank;
	char job[WIRE_TEXT_BYTES];
	uint64_t begin_ns, end_ns; /* on the receiving node's clock */
	uint8_t anomaly_id[16];	   /* of the window that answers; zero: the node chooses one */
};
#define WIRE_COMMANDS_MAX 64
struct wire_reply {
	enum wire_status status;
	uint8_t id[16];		       /* of the window; zero for a beat */
	char message[WIRE_TEXT_BYTES]; /* the reason, for REJECT and RETRY */
	uint32_t command_count;
	struct wire_command commands[WIRE_COMMANDS_MAX];
};
int wire_reply_encode(const struct wire_reply *r, struct buf *out);
int wire_reply_decode(const void *data, size_t bytes, struct wire_reply *r);

/* Appends only the columnar block, compressed; the recorder keeps such blocks in memory and in
 * files. It has no names: the caller keeps them. Returns 0 or -errno. A device record takes one
 * byte less if the host record of its launch precedes it in the same call. */
int wire_records_encode(const struct record *records, uint32_t count, struct buf *out);
/* *records is malloc'ed, owned by the caller. */
int wire_records_decode(const void *data, size_t bytes, struct record **records, uint32_t *count);
