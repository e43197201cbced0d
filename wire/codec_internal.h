/* SPDX-License-Identifier: Apache-2.0
 * codec_internal.h - shared by the codec's files: the envelope, texts, and an allocator with a
 * maximum for protobuf-c, so that a small hostile message cannot unpack to a large one. */
#pragma once

#include "wire/codec.h"
#include "wire/sysom.pb-c.h"

struct codec_arena {
	ProtobufCAllocator allocator;
	size_t left;
};

/* Unpacks an envelope of the expected kind; NULL with *err set (-EPROTO, -EMSGSIZE). Free it with
 * codec_close. */
Sysom__Wire__Envelope *codec_open(struct codec_arena *a, const void *data, size_t bytes,
				  enum wire_kind kind, int *err);
void codec_close(struct codec_arena *a, Sysom__Wire__Envelope *e);
/* Appends the envelope with version and kind; -EMSGSIZE above max_bytes, -ENOMEM. */
int codec_emit(Sysom__Wire__Envelope *e, enum wire_kind kind, size_t max_bytes, struct buf *out);

#define CODEC_RANK_TEXTS 9
/* A rank in protobuf's form: texts are borrowed from cleaned copies inside. */
struct codec_rank {
	Sysom__Wire__Rank pb;
	char texts[CODEC_RANK_TEXTS][WIRE_TEXT_BYTES];
};
void codec_rank_fill(struct codec_rank *c, const struct wire_rank *r);
int codec_rank_read(const Sysom__Wire__Rank *pb, struct wire_rank *r);
/* Valid UTF-8 of fewer than `room` bytes into out; -EPROTO otherwise. */
int codec_text_read(const char *text, char *out, size_t room);
/* A copy of at most room - 1 bytes in which every invalid byte is '?'. */
void codec_text_clean(const char *text, char *out, size_t room);
int codec_id_read(const ProtobufCBinaryData *b, uint8_t out[16]);
