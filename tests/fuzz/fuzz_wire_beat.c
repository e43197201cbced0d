/* SPDX-License-Identifier: Apache-2.0
 * fuzz_wire_beat - any bytes into the beat decoder; what decodes must encode, and decode to the
 * same. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/limits.h"
#include "model/request.h"
#include "wire/codec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* All but the groups' rounded times comes back as it was. */
static void check_rows(const struct beat_rank *a, const struct beat_rank *b)
{
	CHECK(a->group_count <= BEAT_GROUPS_MAX && a->group_count == b->group_count);
	CHECK(a->comm_count <= BEAT_COMMS_MAX && a->comm_count == b->comm_count);
	CHECK(a->coll_count <= BEAT_COLLS_MAX && a->coll_count == b->coll_count);
	for (uint32_t i = 0; i < a->group_count; i++) {
		CHECK(a->groups[i].first_step == b->groups[i].first_step);
		CHECK(a->groups[i].count == b->groups[i].count &&
		      a->groups[i].used <= a->groups[i].count);
	}
	CHECK(!memcmp(a->comms, b->comms, a->comm_count * sizeof(a->comms[0])));
	CHECK(!memcmp(a->colls, b->colls, a->coll_count * sizeof(a->colls[0])));
}

static void check_pieces(const struct request_pieces *a, const struct request_pieces *b)
{
	CHECK(a->count == b->count && a->count <= REQUEST_PIECES_MAX);
	for (uint32_t i = 0; i < a->count; i++) {
		const struct request_piece *p = &a->piece[i], *q = &b->piece[i];

		CHECK(p->id && p->id == q->id && p->serial == q->serial);
#define X(f) CHECK(p->f == q->f);
		REQUEST_PIECE_TIMES(X)
		REQUEST_PIECE_SUMS(X)
		REQUEST_PIECE_COUNTS(X)
#undef X
		for (int k = 0; k < REQUEST_PIECE_STEPS; k++) {
			CHECK(p->longest[k].begin_ns == q->longest[k].begin_ns);
			CHECK(p->longest[k].end_ns == q->longest[k].end_ns);
			CHECK(p->longest[k].end_ns >= p->longest[k].begin_ns);
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static struct wire_reply r, r2;
	struct beat beat, again;
	struct buf b;

	buf_init(&b, LIMIT_WIRE_MESSAGE_BYTES);
	if (!wire_beat_decode(data, bytes, &beat)) {
		if (!wire_beat_encode(&beat, &b)) {
			CHECK(!wire_beat_decode(b.data, b.bytes, &again));
			CHECK(again.rank_count == beat.rank_count);
			CHECK(again.request_count == beat.request_count);
			for (uint32_t i = 0; i < beat.request_count; i++)
				CHECK(!memcmp(&again.requests[i], &beat.requests[i],
					      sizeof(beat.requests[i])));
			CHECK(again.piece_jobs == beat.piece_jobs);
			for (uint32_t i = 0; i < beat.piece_jobs; i++)
				check_pieces(&again.pieces[i], &beat.pieces[i]);
			for (uint32_t i = 0; i < beat.rank_count; i++)
				check_rows(&beat.ranks[i], &again.ranks[i]);
			wire_beat_free(&again);
		}
		wire_beat_free(&beat);
	}
	buf_clear(&b);
	if (!wire_reply_decode(data, bytes, &r)) {
		CHECK(!wire_reply_encode(&r, &b));
		CHECK(!wire_reply_decode(b.data, b.bytes, &r2));
		CHECK(r2.command_count == r.command_count && r2.status == r.status);
	}
	buf_fini(&b);
	return 0;
}
