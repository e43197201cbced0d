/* SPDX-License-Identifier: Apache-2.0
 * beat_pieces.h - what a node saw of requests that other nodes may have seen too, in a beat
 * (docs/wire-format.md, "Pieces of requests"). Threads: any. Trust: unpack takes hostile bytes; what it
 * returns is bounded: counts and lengths are possible, times are not checked. */
#pragma once

#include "wire/codec_internal.h"

struct beat_pieces; /* what pb borrows */
/* Fills pb; release whatever this returns. 0, -ENOMEM, -EMSGSIZE. */
int beat_pieces_pack(const struct beat *b, Sysom__Wire__Beat *pb, struct beat_pieces **out);
void beat_pieces_release(struct beat_pieces *p); /* NULL is a no-op */
/* Implements wire_beat_pieces_fit. */
void beat_pieces_fit(struct request_pieces *list, uint32_t jobs, size_t bytes);
/* Fills the beat's pieces. Call after its ranks are set. 0, -ENOMEM, -EPROTO, -EMSGSIZE. */
int beat_pieces_unpack(const Sysom__Wire__Beat *pb, struct beat *b);
