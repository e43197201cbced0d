/* SPDX-License-Identifier: Apache-2.0
 * beat_requests.h - the requests of a beat's serving jobs (docs/wire-format.md, "Requests of a
 * beat"). Threads: any. Trust: unpack takes hostile bytes; what it returns is bounded: texts are
 * valid, objectives and phases known, and times in order. */
#pragma once

#include "wire/codec_internal.h"

struct beat_requests; /* what pb borrows */
/* Fills pb; release whatever this returns. 0, -ENOMEM, -EMSGSIZE. */
int beat_requests_pack(const struct beat *b, Sysom__Wire__Beat *pb, struct beat_requests **out);
void beat_requests_release(struct beat_requests *r); /* NULL is a no-op */
/* Implements wire_beat_requests_fit. */
size_t beat_requests_fit(struct request_job *r, size_t bytes);
/* Fills the beat's requests. Call after its ranks are set. 0, -ENOMEM, -EPROTO, -EMSGSIZE. */
int beat_requests_unpack(const Sysom__Wire__Beat *pb, struct beat *b);
