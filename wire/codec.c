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

void codec_rank_fill(struct codec_rank *c, const struct wire_rank *r)
{
	const char *const from[] = {r->job, r->node, r->role, r->pod, r->gpu_uuid, r->program};

	sysom__wire__rank__init(&c->pb);
	for (int i = 0; i < 6; i++)
		codec_text_clean(from[i], c->texts[i], sizeof(c->texts[i]));
	c->pb.job = c->texts[0];
	c->pb.node = c->texts[1];
	c->pb.role = c->texts[2];
	c->pb.pod = c->texts[3];
	c->pb.gpu_uuid = c->texts[4];
	c->pb.program = c->texts[5];
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
	const char *from[6];
	char *const to[] = {r->job, r->node, r->role, r->pod, r->gpu_uuid, r->program};

	if (!pb)
		return -EPROTO;
	from[0] = pb->job;
	from[1] = pb->node;
	from[2] = pb->role;
	from[3] = pb->pod;
	from[4] = pb->gpu_uuid;
	from[5] = pb->program;
	for (int i = 0; i < 6; i++)
		if (codec_text_read(from[i], to[i], WIRE_TEXT_BYTES))
			return -EPROTO;
	r->rank = pb->rank;
	r->world_size = pb->world_size;
	r->local_rank = pb->local_rank;
	r->pid = pb->pid;
	r->start_time_ticks = pb->start_time_ticks;
	r->owner = pb->owner;
	return owner_fits(r) ? 0 : -EPROTO;
}
