/* SPDX-License-Identifier: Apache-2.0
 * Beats: small, plain protobuf, no compression. */
#include "wire/codec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/limits.h"
#include "model/request.h"
#include "wire/beat_columns.h"
#include "wire/beat_pieces.h"
#include "wire/beat_requests.h"
#include "wire/codec_internal.h"

/* Fields that have the same name and type on both sides. */
/* clang-format off */
#define BEAT_RANK_FIELDS(X) \
	X(trace_state) X(cupti_state) X(model_state) X(steps) X(flagged) \
	X(latency_median_ns) X(latency_mad_ns) X(self_median_ns) X(expected_ns) \
	X(compute_ns) X(comm_ns) X(exposed_comm_ns) X(copy_ns) X(idle_ns) X(events) X(lost) \
	X(kernels_joined) X(kernels_unmatched) X(flags) \
	X(coll_shift) X(stalled_since_ns)
#define BEAT_FIELDS(X) \
	X(sequence) X(now_ns) X(realtime_offset_ns) \
	X(uploaded_bytes) X(raw_bytes) X(windows_dropped)
/* clang-format on */

static size_t beat_bytes_max(size_t ranks)
{
	return LIMIT_BEAT_BYTES_PER_RANK * (ranks + 1);
}

/* The packed rows of a rank, in the order in which they must be read. */
static const struct part {
	size_t at; /* of the ProtobufCBinaryData */
	int (*rows)(struct fields *f, struct beat_rank *r);
} parts[] = {
    {offsetof(Sysom__Wire__BeatRank, groups), beat_columns_groups},
    {offsetof(Sysom__Wire__BeatRank, blocks), beat_columns_blocks},
    {offsetof(Sysom__Wire__BeatRank, comms), beat_columns_comms},
    {offsetof(Sysom__Wire__BeatRank, colls), beat_columns_colls},
    {offsetof(Sysom__Wire__BeatRank, opens), beat_columns_opens},
};
#define PARTS ARRAY_LEN(parts)

struct item {
	Sysom__Wire__BeatRank pb;
	struct codec_rank rank;
	char name[WIRE_TEXT_BYTES];
	struct buf part[PARTS];
};

/* Fills an empty item; release it whatever this returns. */
static int item_fill(struct item *it, const struct beat_rank *r)
{
	int err = 0;

	sysom__wire__beat_rank__init(&it->pb);
	codec_rank_fill(&it->rank, &r->rank);
	it->pb.rank = &it->rank.pb;
#define X(f) it->pb.f = r->f;
	BEAT_RANK_FIELDS(X)
#undef X
	if (r->unfinished.kind) {
		it->pb.unfinished_kind = r->unfinished.kind;
		it->pb.unfinished_stream = r->unfinished.stream;
		it->pb.unfinished_launch_ns = r->unfinished.launch_ns;
		codec_text_clean(r->unfinished.name, it->name, sizeof(it->name));
		it->pb.unfinished_name = it->name;
	}
	for (size_t i = 0; i < PARTS; i++) {
		ProtobufCBinaryData *to = (void *)((char *)&it->pb + parts[i].at);
		struct fields f = {.out = &it->part[i]};

		buf_init(&it->part[i], LIMIT_WIRE_MESSAGE_BYTES);
		err = err ? err : parts[i].rows(&f, (struct beat_rank *)(uintptr_t)r);
		*to = (ProtobufCBinaryData){it->part[i].bytes, it->part[i].data};
	}
	return err;
}

static void item_release(struct item *it)
{
	for (size_t i = 0; i < PARTS; i++)
		buf_fini(&it->part[i]);
}

static size_t item_bytes(const Sysom__Wire__BeatRank *pb)
{
	return sysom__wire__beat_rank__get_packed_size(pb);
}

int wire_beat_rank_bytes(const struct beat_rank *r)
{
	struct item it;
	int err = item_fill(&it, r);

	if (!err)
		err = (int)item_bytes(&it.pb);
	item_release(&it);
	return err;
}

size_t wire_beat_requests_fit(struct request_job *r, size_t bytes)
{
	return beat_requests_fit(r, bytes);
}

void wire_beat_pieces_fit(struct request_pieces *list, uint32_t jobs, size_t bytes)
{
	beat_pieces_fit(list, jobs, bytes);
}

int wire_beat_encode(const struct beat *b, struct buf *out)
{
	struct beat_requests *requests = NULL;
	struct beat_pieces *pieces = NULL;
	struct item *items;
	Sysom__Wire__BeatRank **list;
	Sysom__Wire__Envelope e = SYSOM__WIRE__ENVELOPE__INIT;
	Sysom__Wire__Beat pb = SYSOM__WIRE__BEAT__INIT;
	char node[WIRE_TEXT_BYTES], version[WIRE_VERSION_BYTES];
	int err = 0;

	if (b->rank_count > LIMIT_NODE_PROCESSES)
		return -EMSGSIZE;
	items = calloc(b->rank_count + 1, sizeof(*items));
	list = calloc(b->rank_count + 1, sizeof(*list));
	if (!items || !list)
		err = -ENOMEM;
	for (uint32_t i = 0; i < b->rank_count && !err; i++) {
		err = item_fill(&items[i], &b->ranks[i]);
		if (!err && item_bytes(&items[i].pb) > LIMIT_BEAT_BYTES_PER_RANK)
			err = -EMSGSIZE;
		list[i] = &items[i].pb;
	}
	codec_text_clean(b->node, node, sizeof(node));
	pb.node = node;
	codec_text_clean(b->version, version, sizeof(version));
	pb.version = version;
	pb.boot_id.data = (uint8_t *)(uintptr_t)b->boot_id;
	pb.boot_id.len = sizeof(b->boot_id);
#define X(f) pb.f = b->f;
	BEAT_FIELDS(X)
#undef X
	pb.ranks = list;
	pb.n_ranks = b->rank_count;
	if (!err)
		err = beat_requests_pack(b, &pb, &requests);
	if (!err)
		err = beat_pieces_pack(b, &pb, &pieces);
	e.beat = &pb;
	if (!err)
		err = codec_emit(&e, WIRE_BEAT, beat_bytes_max(b->rank_count), out);
	for (uint32_t i = 0; items && i < b->rank_count; i++)
		item_release(&items[i]);
	beat_requests_release(requests);
	beat_pieces_release(pieces);
	free(items);
	free(list);
	return err;
}

static int unfinished_read(const Sysom__Wire__BeatRank *from, struct beat_unfinished *u)
{
	/* a kind of a later version cannot be shown */
	if (!from->unfinished_kind || from->unfinished_kind > BEAT_UNFINISHED_MESSAGE)
		return 0;
	u->kind = from->unfinished_kind;
	u->stream = from->unfinished_stream;
	u->launch_ns = from->unfinished_launch_ns;
	return codec_text_read(from->unfinished_name, u->name, sizeof(u->name));
}

static int rank_fill(const Sysom__Wire__BeatRank *from, struct beat_rank *r)
{
	int err = codec_rank_read(from->rank, &r->rank);

	if (!err && item_bytes(from) > LIMIT_BEAT_BYTES_PER_RANK)
		err = -EMSGSIZE;
#define X(f) r->f = from->f;
	BEAT_RANK_FIELDS(X)
#undef X
	for (size_t i = 0; !err && i < PARTS; i++) {
		const ProtobufCBinaryData *at = (const void *)((const char *)from + parts[i].at);
		struct fields f = {.data = at->data, .bytes = at->len};

		err = parts[i].rows(&f, r);
	}
	if (!err)
		err = unfinished_read(from, &r->unfinished);
	return err;
}

static int beat_fill(const Sysom__Wire__Beat *pb, struct beat *b)
{
	int err;

	memset(b, 0, sizeof(*b));
	if (pb->n_ranks > LIMIT_NODE_PROCESSES)
		return -EMSGSIZE;
	err = codec_text_read(pb->node, b->node, sizeof(b->node));
	if (!err)
		err = codec_text_read(pb->version, b->version, sizeof(b->version));
	if (!err)
		err = codec_id_read(&pb->boot_id, b->boot_id);
	if (err)
		return err;
#define X(f) b->f = pb->f;
	BEAT_FIELDS(X)
#undef X
	b->ranks = calloc(pb->n_ranks + 1, sizeof(*b->ranks));
	if (!b->ranks)
		return -ENOMEM;
	for (size_t i = 0; i < pb->n_ranks && !err; i++)
		err = rank_fill(pb->ranks[i], &b->ranks[i]);
	b->rank_count = (uint32_t)pb->n_ranks;
	if (!err)
		err = beat_requests_unpack(pb, b);
	if (!err)
		err = beat_pieces_unpack(pb, b);
	if (err)
		wire_beat_free(b);
	return err;
}

int wire_beat_decode(const void *data, size_t bytes, struct beat *b)
{
	struct codec_arena a;
	Sysom__Wire__Envelope *e;
	int err = 0;

	if (bytes > beat_bytes_max(LIMIT_NODE_PROCESSES))
		return -EMSGSIZE;
	e = codec_open(&a, data, bytes, WIRE_BEAT, &err);
	if (!e)
		return err;
	err = beat_fill(e->beat, b);
	b->wire_version = e->version;
	if (!err && bytes > beat_bytes_max(b->rank_count)) {
		wire_beat_free(b);
		err = -EMSGSIZE;
	}
	codec_close(&a, e);
	return err;
}

void wire_beat_free(struct beat *b)
{
	free(b->ranks);
	free(b->requests);
	for (uint32_t i = 0; i < b->piece_jobs; i++)
		free(b->pieces[i].piece);
	free(b->pieces);
	b->ranks = NULL;
	b->requests = NULL;
	b->pieces = NULL;
	b->rank_count = b->request_count = b->piece_jobs = 0;
}
