/* SPDX-License-Identifier: Apache-2.0
 * An open piece takes some 13 bytes, a whole one some 120: its times are differences from each other. */
#include "wire/beat_pieces.h"

#include <errno.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/limits.h"
#include "model/request.h"
#include "wire/fields.h"

#define ROW_BYTES_MIN 10u /* id, serial and flags */
#define FLAGS_MAX     255u

struct item {
	Sysom__Wire__BeatPieces pb;
	char job[WIRE_TEXT_BYTES];
	struct buf rows;
};
struct beat_pieces {
	uint32_t count;
	Sysom__Wire__BeatPieces **list;
	struct item item[];
};

/* ---- rows: v pieces; then each ---- */

static void step_row(struct fields *f, struct request_step *s, uint64_t *last)
{
	uint64_t length = s->end_ns - s->begin_ns;

	fields_change(f, &s->begin_ns, *last);
	fields_u64(f, &length, REQUEST_PIECE_NS_MAX);
	fields_demand(f, s->begin_ns > 0 && s->begin_ns <= UINT64_MAX - length);
	fields_u32(f, &s->tokens, UINT32_MAX);
	fields_u32(f, &s->step_tokens, UINT32_MAX);
	fields_u32(f, &s->batch, UINT32_MAX);
	s->end_ns = s->begin_ns + length;
	*last = s->begin_ns;
}

/* Times, then the longest steps: only those that are set, each as the difference from the one before. */
static void times_rows(struct fields *f, struct request_piece *p)
{
#define X(t) &p->t,
	uint64_t *const times[] = {REQUEST_PIECE_TIMES(X)};
#undef X
	uint32_t present = 0, steps = 0;
	uint64_t last = 0;

	for (uint32_t i = 0; i < ARRAY_LEN(times); i++)
		present |= (uint32_t)(*times[i] != 0) << i;
	fields_u32(f, &present, (1u << ARRAY_LEN(times)) - 1);
	for (uint32_t i = 0; i < ARRAY_LEN(times); i++) {
		if (!(present >> i & 1))
			continue;
		fields_change(f, times[i], last);
		fields_demand(f, *times[i] > 0);
		last = *times[i];
	}
	for (uint32_t i = 0; i < REQUEST_PIECE_STEPS; i++)
		steps |= (uint32_t)(p->longest[i].begin_ns != 0) << i;
	fields_u32(f, &steps, (1u << REQUEST_PIECE_STEPS) - 1);
	for (uint32_t i = 0; i < REQUEST_PIECE_STEPS; i++)
		if (steps >> i & 1)
			step_row(f, &p->longest[i], &last);
}

static void piece_row(struct fields *f, struct request_piece *p, uint64_t serial_before)
{
	fields_fixed64(f, &p->id);
	fields_demand(f, p->id > 0);
	fields_change(f, &p->serial, serial_before);
	fields_u32(f, &p->flags, FLAGS_MAX);
	if (p->flags & REQUEST_PIECE_OPEN)
		return;
	times_rows(f, p);
#define X(v) fields_u64(f, &p->v, REQUEST_PIECE_NS_MAX);
	REQUEST_PIECE_SUMS(X)
#undef X
#define X(v) fields_u32(f, &p->v, REQUEST_TOKENS_MAX);
	REQUEST_PIECE_COUNTS(X)
#undef X
}

static int rows(struct fields *f, struct request_pieces *p)
{
	uint64_t before = 0;

	fields_u32(f, &p->count, REQUEST_PIECES_MAX);
	fields_demand(f, p->count > 0);
	if (!f->out && !f->err) {
		fields_demand(f, p->count <= f->bytes / ROW_BYTES_MIN);
		p->piece = f->err ? NULL : calloc(p->count, sizeof(*p->piece));
		if (!f->err && !p->piece)
			f->err = -ENOMEM;
	}
	for (uint32_t i = 0; i < p->count && !f->err; i++) {
		/* reading begins with zeros; writing changes nothing */
		struct request_piece piece = f->out ? p->piece[i] : (struct request_piece){0};

		piece_row(f, &piece, before);
		before = piece.serial;
		if (!f->out)
			p->piece[i] = piece;
	}
	return fields_end(f);
}

/* ---- to protobuf ---- */

/* Fills an empty item; release it whatever this returns. */
static int item_fill(struct item *it, const struct request_pieces *p)
{
	struct fields f = {.out = &it->rows};
	struct request_pieces some = *p;
	int err;

	sysom__wire__beat_pieces__init(&it->pb);
	buf_init(&it->rows, LIMIT_WIRE_MESSAGE_BYTES);
	err = rows(&f, &some);
	codec_text_clean(p->job, it->job, sizeof(it->job));
	it->pb.job = it->job;
	it->pb.ttft_ns = p->ttft_ns;
	it->pb.tpot_ns = p->tpot_ns;
	it->pb.pieces = (ProtobufCBinaryData){it->rows.bytes, it->rows.data};
	return err;
}

/* Keeps as many pieces, from the first, as fit. Returns the bytes that they take. */
static size_t fit_job(struct request_pieces *p, size_t bytes)
{
	struct item it;

	if (p->count > REQUEST_PIECES_MAX)
		p->count = REQUEST_PIECES_MAX;
	while (p->count) {
		size_t is = item_fill(&it, p) ? SIZE_MAX
					      : sysom__wire__beat_pieces__get_packed_size(&it.pb);

		buf_fini(&it.rows);
		if (is <= bytes)
			return is;
		/* a guess from the excess, always below the count */
		p->count = is < SIZE_MAX
			       ? (uint32_t)((uint64_t)p->count * bytes / (is + ROW_BYTES_MIN))
			       : p->count - 1;
	}
	return 0;
}

/* The job with the fewest pieces first: it leaves the most of its share. */
void beat_pieces_fit(struct request_pieces *list, uint32_t jobs, size_t bytes)
{
	bool done[LIMIT_NODE_PROCESSES] = {false};

	for (uint32_t left = jobs; left; left--) {
		size_t share = bytes / left, used;
		uint32_t at = jobs;

		for (uint32_t i = 0; i < jobs; i++)
			if (!done[i] && (at == jobs || list[i].count < list[at].count))
				at = i;
		done[at] = true;
		used = fit_job(&list[at],
			       share > WIRE_BEAT_TAG_BYTES ? share - WIRE_BEAT_TAG_BYTES : 0);
		bytes -= used ? used + WIRE_BEAT_TAG_BYTES : 0;
	}
}

int beat_pieces_pack(const struct beat *b, Sysom__Wire__Beat *pb, struct beat_pieces **out)
{
	struct beat_pieces *p;
	int err = 0;

	if (!b->piece_jobs)
		return 0;
	if (b->piece_jobs > LIMIT_NODE_PROCESSES)
		return -EMSGSIZE;
	p = calloc(1, sizeof(*p) + b->piece_jobs * sizeof(p->item[0]));
	if (!p)
		return -ENOMEM;
	*out = p;
	p->list = calloc(b->piece_jobs, sizeof(*p->list));
	if (!p->list)
		return -ENOMEM;
	for (uint32_t i = 0; i < b->piece_jobs && !err; i++) {
		p->count++;
		err = item_fill(&p->item[i], &b->pieces[i]);
		p->list[i] = &p->item[i].pb;
	}
	pb->pieces = p->list;
	pb->n_pieces = p->count;
	return err;
}

void beat_pieces_release(struct beat_pieces *p)
{
	for (uint32_t i = 0; p && i < p->count; i++)
		buf_fini(&p->item[i].rows);
	if (p)
		free(p->list);
	free(p);
}

/* ---- from protobuf ---- */

static int read_job(const Sysom__Wire__BeatPieces *pb, const struct beat *b,
		    struct request_pieces *p)
{
	struct fields f = {.data = pb->pieces.data, .bytes = pb->pieces.len};
	int err = codec_text_read(pb->job, p->job, sizeof(p->job));

	if (!err && !codec_has_job(b, p->job))
		err = -EPROTO;
	p->ttft_ns = pb->ttft_ns;
	p->tpot_ns = pb->tpot_ns;
	return err ? err : rows(&f, p);
}

int beat_pieces_unpack(const Sysom__Wire__Beat *pb, struct beat *b)
{
	int err = 0;

	if (!pb->n_pieces)
		return 0;
	if (pb->n_pieces > LIMIT_NODE_PROCESSES)
		return -EMSGSIZE;
	b->pieces = calloc(pb->n_pieces, sizeof(*b->pieces));
	if (!b->pieces)
		return -ENOMEM;
	b->piece_jobs = (uint32_t)pb->n_pieces;
	for (size_t i = 0; i < pb->n_pieces && !err; i++)
		err = read_job(pb->pieces[i], b, &b->pieces[i]);
	return err;
}
