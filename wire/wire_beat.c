/* SPDX-License-Identifier: Apache-2.0
 * Beats: small, plain protobuf, no compression. */
#include "wire/codec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "wire/codec_internal.h"

/* Fields that have the same name and type on both sides. */
#define BEAT_RANK_FIELDS(X)                                                                        \
	X(trace_state) X(cupti_state) X(model_state) X(phase_count) X(steps) X(flagged)            \
	X(incomplete) X(latency_median_ns) X(latency_mad_ns) X(self_median_ns) X(expected_ns)      \
	X(compute_ns) X(comm_ns) X(exposed_comm_ns) X(copy_ns) X(idle_ns) X(events) X(lost)        \
	X(ring_bytes) X(last_step_end_ns) X(kernels_joined) X(kernels_unmatched)
#define BEAT_FIELDS(X)                                                                             \
	X(sequence) X(now_ns) X(realtime_offset_ns) X(cpu_share) X(rss_bytes) X(recorder_bytes)    \
	X(spool_bytes) X(retention_ns) X(uploaded_bytes) X(raw_bytes) X(windows_sent)              \
	X(windows_dropped)

static size_t beat_bytes_max(size_t ranks)
{
	return LIMIT_BEAT_BYTES_PER_RANK * (ranks + 1);
}

int wire_beat_encode(const struct beat *b, struct buf *out)
{
	struct item {
		Sysom__Wire__BeatRank pb;
		struct codec_rank rank;
	} *items;
	Sysom__Wire__BeatRank **list;
	Sysom__Wire__Envelope e = SYSOM__WIRE__ENVELOPE__INIT;
	Sysom__Wire__Beat pb = SYSOM__WIRE__BEAT__INIT;
	char node[WIRE_TEXT_BYTES];
	int err = -ENOMEM;

	if (b->rank_count > LIMIT_NODE_PROCESSES)
		return -EMSGSIZE;
	items = calloc(b->rank_count + 1, sizeof(*items));
	list = calloc(b->rank_count + 1, sizeof(*list));
	if (!items || !list)
		goto out;
	for (uint32_t i = 0; i < b->rank_count; i++) {
		const struct beat_rank *r = &b->ranks[i];

		sysom__wire__beat_rank__init(&items[i].pb);
		codec_rank_fill(&items[i].rank, &r->rank);
		items[i].pb.rank = &items[i].rank.pb;
#define X(f) items[i].pb.f = r->f;
		BEAT_RANK_FIELDS(X)
#undef X
		list[i] = &items[i].pb;
	}
	codec_text_clean(b->node, node, sizeof(node));
	pb.node = node;
	pb.boot_id.data = (uint8_t *)b->boot_id;
	pb.boot_id.len = sizeof(b->boot_id);
#define X(f) pb.f = b->f;
	BEAT_FIELDS(X)
#undef X
	pb.ranks = list;
	pb.n_ranks = b->rank_count;
	e.beat = &pb;
	err = codec_emit(&e, WIRE_BEAT, beat_bytes_max(b->rank_count), out);
out:
	free(items);
	free(list);
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
		err = codec_id_read(&pb->boot_id, b->boot_id);
	if (err)
		return err;
#define X(f) b->f = pb->f;
	BEAT_FIELDS(X)
#undef X
	b->ranks = calloc(pb->n_ranks + 1, sizeof(*b->ranks));
	if (!b->ranks)
		return -ENOMEM;
	for (size_t i = 0; i < pb->n_ranks && !err; i++) {
		const Sysom__Wire__BeatRank *from = pb->ranks[i];
		struct beat_rank *r = &b->ranks[i];

		err = codec_rank_read(from->rank, &r->rank);
#define X(f) r->f = from->f;
		BEAT_RANK_FIELDS(X)
#undef X
	}
	b->rank_count = (uint32_t)pb->n_ranks;
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
	b->ranks = NULL;
	b->rank_count = 0;
}
