/* SPDX-License-Identifier: Apache-2.0
 * codec.h - boundary 3, node to cluster: bytes for windows, beats and replies.
 * A message is a protobuf envelope (wire/sysom.proto); a window's records are columnar
 * varint-delta blocks inside, the whole compressed by zstd. docs/wire-format.md is
 * normative. Trust: decoders take hostile bytes: every count and size is bounded by base/limits.h
 * before anything is allocated. Threads: any; no shared state. */
#ifndef SYSOM_WIRE_CODEC_H
#define SYSOM_WIRE_CODEC_H

#include "base/buf.h"
#include "model/window.h"

#define WIRE_VERSION 1

enum wire_kind { WIRE_WINDOW = 1, WIRE_BEAT = 2, WIRE_REPLY = 3, WIRE_SKETCH = 4 };

/* Appends one message. 0; -EMSGSIZE when it would exceed LIMIT_WIRE_MESSAGE_BYTES (the sender then
 * sends it as summary_only or splits it); -ENOMEM. */
int wire_window_encode(const struct window *w, struct buf *out);
/* -EMSGSIZE too when a rank exceeds LIMIT_BEAT_BYTES_PER_RANK (ask wire_beat_rank_bytes first), -EINVAL
 * for groups that model/window.h does not allow. */
int wire_beat_encode(const struct beat *b, struct buf *out);
/* What one rank takes of a beat, or -errno. */
int wire_beat_rank_bytes(const struct beat_rank *r);
/* -EMSGSIZE above LIMIT_SKETCH_BYTES_PER_RANK: the sender then cuts its lists. */
int wire_sketch_encode(const struct sketch *s, struct buf *out);
/* The same into an empty buffer, with the ends of the lists cut off until it fits; gone: entries. Every
 * name of the lists is an allocation of its own. */
int wire_sketch_fit(struct sketch *s, struct buf *out, uint64_t *gone);

/* What a message is, without decoding it; -EPROTO. */
int wire_peek_kind(const void *data, size_t bytes);
/* Cheap: the envelope's fields without the columns, for dedupe and the index. Fills all of *w but
 * the records and names (NULL, counts as stated in the message). Free with wire_window_free. */
int wire_window_decode_head(const void *data, size_t bytes, struct window *w);
/* Everything. -EPROTO, -EMSGSIZE, -ENOMEM. On failure nothing is owned. */
int wire_window_decode(const void *data, size_t bytes, struct window *w);
/* From a peer: as wire_window_decode, or without records the head and the names. The work is bounded by
 * the message's own size (LIMIT_WIRE_WORK_PER_BYTE); more is -EMSGSIZE, before it is done. */
int wire_window_decode_admitted(const void *data, size_t bytes, bool records, struct window *w);
int wire_beat_decode(const void *data, size_t bytes, struct beat *b);
/* Free with wire_sketch_free. Numbers are finite and not negative, shares at most 1. */
int wire_sketch_decode(const void *data, size_t bytes, struct sketch *s);

enum wire_status {
	WIRE_OK = 0,	  /* committed (windows) or seen (beats) */
	WIRE_DUPLICATE = 1, /* committed earlier */
	WIRE_RETRY = 2,	  /* not stored: disk full, shutting down: send again later */
	WIRE_REJECT = 3,  /* never acceptable: do not send again */
};
/* Commands ride in replies (INV-10). job "": every job; rank INT32_MIN: every rank. A kind that the
 * receiver does not know is ignored and counted. */
enum wire_command_kind {
	/* Send the window of what is recorded from begin_ns to end_ns. At most so many a minute as the
	 * sidecar's settings say; the others are counted and not sent. One that ends in the future is sent
	 * when that time has come. Records that are gone are not in it. */
	WIRE_COMMAND_WINDOW = 1,
	/* Keep what is recorded from begin_ns to end_ns for longer than the retention would. */
	WIRE_COMMAND_HOLD = 2,
	/* The rank, or a peer of it, is under suspicion until end_ns: beats come at the suspect's pace and
	 * the sampler takes all ticks, of the whole node, within the sidecar's own bounds. */
	WIRE_COMMAND_SUSPECT = 3,
};
struct wire_command {
	uint32_t kind; /* enum wire_command_kind, or one that is not known */
	int32_t rank;
	char job[WIRE_TEXT_BYTES];
	uint64_t begin_ns, end_ns; /* of the receiving node's clock */
	uint8_t anomaly_id[16];	   /* of the window that answers; zero: one of its own */
};
#define WIRE_COMMANDS_MAX 64
struct wire_reply {
	enum wire_status status;
	uint8_t id[16]; /* of the window; zero for a beat */
	char message[WIRE_TEXT_BYTES]; /* why, for REJECT and RETRY */
	uint32_t command_count;
	struct wire_command commands[WIRE_COMMANDS_MAX];
};
int wire_reply_encode(const struct wire_reply *r, struct buf *out);
int wire_reply_decode(const void *data, size_t bytes, struct wire_reply *r);

/* The columnar block alone: what the recorder keeps in memory and in files. Records only; names are
 * the caller's. Appends to out; compressed. Returns 0 or -errno. Device records cost a byte less each
 * when the host records of their launches come before them in the same call. */
int wire_records_encode(const struct record *records, uint32_t count, struct buf *out);
/* *records is malloc'ed, owned by the caller. */
int wire_records_decode(const void *data, size_t bytes, struct record **records, uint32_t *count);

#endif
