/* SPDX-License-Identifier: Apache-2.0
 * Repeated messages of two bytes unpack to hundreds, so protobuf-c gets an allocator with a
 * maximum. */
#include "wire/codec_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/job_key.h"
#include "base/limits.h"
#include "base/text/utf8.h"

/* For the envelope's own structs: a beat with LIMIT_NODE_PROCESSES ranks needs 200 KiB, and the
 * packed fields of a window are copied once. */
#define ARENA_EXTRA_BYTES (1u << 20)
#define PREFIX_BYTES	  4

/* ---- envelope ---- */

static void *arena_alloc(void *data, size_t bytes)
{
	struct codec_arena *a = data;

	if (bytes > a->left)
		return NULL;
	a->left -= bytes;
	return malloc(bytes);
}

static void arena_free(void *data, void *p)
{
	(void)data;
	free(p);
}

int codec_kind(const void *data, size_t bytes)
{
	const uint8_t *p = data;

	/* fields 1 and 2, both one-byte varints */
	if (bytes < PREFIX_BYTES || p[0] != 0x08 || p[1] != WIRE_VERSION || p[2] != 0x10)
		return -EPROTO;
	if (p[3] < WIRE_WINDOW || p[3] > WIRE_SKETCH)
		return -EPROTO;
	return p[3];
}

bool codec_is_newer(const void *data, size_t bytes)
{
	const uint8_t *p = data;

	return bytes >= PREFIX_BYTES && p[0] == 0x08 && p[1] > WIRE_VERSION && p[1] < 0x80 &&
	       p[2] == 0x10;
}

Sysom__Wire__Envelope *codec_open(struct codec_arena *a, const void *data, size_t bytes,
				  enum wire_kind kind, int *err)
{
	Sysom__Wire__Envelope *e;

	*err = -EMSGSIZE;
	if (bytes > LIMIT_WIRE_MESSAGE_BYTES)
		return NULL;
	*err = -EPROTO;
	if (codec_kind(data, bytes) != (int)kind)
		return NULL;
	a->allocator = (ProtobufCAllocator){arena_alloc, arena_free, a};
	a->left = bytes + ARENA_EXTRA_BYTES;
	e = sysom__wire__envelope__unpack(&a->allocator, bytes, data);
	if (!e)
		return NULL;
	if (e->version != WIRE_VERSION || e->kind != (uint32_t)kind ||
	    !!e->window != (kind == WIRE_WINDOW) || !!e->beat != (kind == WIRE_BEAT) ||
	    !!e->reply != (kind == WIRE_REPLY) || !!e->sketch != (kind == WIRE_SKETCH)) {
		codec_close(a, e);
		return NULL;
	}
	return e;
}

void codec_close(struct codec_arena *a, Sysom__Wire__Envelope *e)
{
	sysom__wire__envelope__free_unpacked(e, &a->allocator);
}

int codec_emit(Sysom__Wire__Envelope *e, enum wire_kind kind, size_t max_bytes, struct buf *out)
{
	size_t bytes;
	uint8_t *p;

	e->version = WIRE_VERSION;
	e->kind = kind;
	bytes = sysom__wire__envelope__get_packed_size(e);
	if (bytes > max_bytes)
		return -EMSGSIZE;
	p = buf_reserve(out, bytes);
	if (!p)
		return bytes > out->max_bytes - out->bytes ? -EMSGSIZE : -ENOMEM;
	out->bytes += sysom__wire__envelope__pack(e, p);
	return 0;
}

/* ---- texts ---- */

int codec_text_read(const char *text, char *out, size_t room)
{
	size_t n = strlen(text);

	if (n >= room || !utf8_is_valid(text))
		return -EPROTO;
	memcpy(out, text, n + 1);
	return 0;
}

void codec_text_clean(const char *text, char *out, size_t room)
{
	size_t n = strnlen(text, room - 1);

	memcpy(out, text, n);
	out[n] = '\0';
	utf8_repair(out, n);
}

int codec_id_read(const ProtobufCBinaryData *b, uint8_t out[16])
{
	if (b->len != 16)
		return -EPROTO;
	memcpy(out, b->data, 16);
	return 0;
}

/* A rank's texts, and its fields in protobuf's form, in the same order. */
#define TEXTS_OF(r)                                                                                \
	(r)->job, (r)->node, (r)->role, (r)->pod.text[POD_NAME], (r)->gpu_uuid, (r)->program,      \
	    (r)->pod.text[POD_NAMESPACE], (r)->pod.text[POD_CONTAINER], (r)->pod.text[POD_HOST]
#define FIELDS_OF(ref)                                                                             \
	ref pb->job, ref pb->node, ref pb->role, ref pb->pod, ref pb->gpu_uuid, ref pb->program,   \
	    ref pb->pod_namespace, ref pb->pod_container, ref pb->pod_host

void codec_rank_fill(struct codec_rank *c, const struct wire_rank *r)
{
	Sysom__Wire__Rank *pb = &c->pb;
	const char *const from[] = {TEXTS_OF(r)};
	char **const to[] = {FIELDS_OF(&)};

	sysom__wire__rank__init(pb);
	for (int i = 0; i < CODEC_RANK_TEXTS; i++) {
		codec_text_clean(from[i], c->texts[i], sizeof(c->texts[i]));
		*to[i] = c->texts[i];
	}
	c->pb.rank = r->rank;
	c->pb.world_size = r->world_size;
	c->pb.local_rank = r->local_rank;
	c->pb.pid = r->pid;
	c->pb.start_time_ticks = r->start_time_ticks;
	c->pb.owner = r->owner;
}

/* Only a node that vouches for the uid sends a key that ends in a uid. */
static bool owner_fits(const struct wire_rank *r)
{
	uint32_t uid;
	bool owned = job_key_owner(r->job, &uid);

	return r->owner ? owned && uid == r->owner - 1 : !owned;
}

int codec_rank_read(const Sysom__Wire__Rank *pb, struct wire_rank *r)
{
	char *const to[] = {TEXTS_OF(r)};

	if (!pb)
		return -EPROTO;
	for (int i = 0; i < CODEC_RANK_TEXTS; i++) {
		const char *const from[] = {FIELDS_OF()};

		if (codec_text_read(from[i], to[i], WIRE_TEXT_BYTES))
			return -EPROTO;
	}
	r->rank = pb->rank;
	r->world_size = pb->world_size;
	r->local_rank = pb->local_rank;
	r->pid = pb->pid;
	r->start_time_ticks = pb->start_time_ticks;
	r->owner = pb->owner;
	return owner_fits(r) ? 0 : -EPROTO;
}

bool codec_has_job(const struct beat *b, const char *job)
{
	for (uint32_t i = 0; i < b->rank_count; i++)
		if (!strcmp(b->ranks[i].rank.job, job))
			return true;
	return false;
}
