/* SPDX-License-Identifier: Apache-2.0
 * stack_store.c - see stack_store.h. Records lie one after the other. A sweep compacts the live
 * ones and rebuilds the index, which is cheaper than free lists because stacks live five
 * seconds. */
#include "sampler/stacks/stack_store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/idmap.h"
#include "base/keyed.h"
#include "base/limits.h"
#include "base/room.h"
#include "bpf/python_format.h"

#define PYTHON_HEAD_BYTES offsetof(struct python_state, frame)

struct record {
	uint32_t bytes; /* of the whole record, a multiple of 8 */
	uint32_t keep;
	struct sampler_stack stack; /* and its frames */
};

struct stack_store {
	uint8_t *arena;
	size_t used, room;
	struct idmap by_hash; /* to the offset in the arena / 8 */
};

static struct record *record_at(const struct stack_store *s, uint32_t at)
{
	return (struct record *)(void *)(s->arena + (size_t)at * 8);
}

static struct record *find(const struct stack_store *s, uint64_t hash)
{
	uint32_t at = idmap_get(&s->by_hash, hash);

	return at == IDMAP_NONE ? NULL : record_at(s, at);
}

static int frame_bytes(const struct sampler_stack *head, size_t *bytes)
{
	if (head->kind == SAMPLER_STACK_USER && head->count <= UNWIND_FRAME_MAX)
		*bytes = (size_t)head->count * 8;
	else if (head->kind == SAMPLER_STACK_KERNEL && head->count <= SAMPLER_KERNEL_FRAME_MAX)
		*bytes = (size_t)head->count * 8;
	else if (head->kind == SAMPLER_STACK_PYTHON && head->count <= PYTHON_FRAME_MAX)
		*bytes = PYTHON_HEAD_BYTES + (size_t)head->count * sizeof(struct python_frame);
	else
		return -EPROTO;
	return 0;
}

int stack_store_put(struct stack_store *s, const void *data, size_t bytes)
{
	struct sampler_stack head;
	struct record *r;
	size_t frames, whole;
	int err;

	if (bytes < sizeof(head))
		return -EPROTO;
	memcpy(&head, data, sizeof(head));
	if (frame_bytes(&head, &frames) || bytes < sizeof(head) + frames)
		return -EPROTO;
	r = find(s, head.hash);
	if (r) {
		r->stack.epoch = head.epoch;
		return 0;
	}
	whole = (sizeof(*r) + frames + 7) & ~(size_t)7;
	if (s->used + whole > LIMIT_SAMPLER_STACK_BYTES)
		return -ENOSPC;
	err = ROOM_FOR(s->arena, s->room, s->used + whole);
	if (!err)
		err = idmap_put(&s->by_hash, head.hash, (uint32_t)(s->used / 8));
	if (err)
		return err;
	r = (struct record *)(void *)(s->arena + s->used);
	r->bytes = (uint32_t)whole;
	r->keep = 0;
	memcpy(&r->stack, data, sizeof(head) + frames);
	s->used += whole;
	return 0;
}

const struct sampler_stack *stack_store_find(const struct stack_store *s, uint64_t hash)
{
	const struct record *r = find(s, hash);

	return r ? &r->stack : NULL;
}

void stack_store_keep(struct stack_store *s, uint64_t hash)
{
	struct record *r = find(s, hash);

	if (r)
		r->keep = 1;
}

void stack_store_sweep(struct stack_store *s, uint32_t epoch)
{
	size_t to = 0;

	idmap_clear(&s->by_hash);
	for (size_t at = 0; at < s->used;) {
		struct record *r = (struct record *)(void *)(s->arena + at);
		uint32_t bytes = r->bytes;

		if (r->keep || (int32_t)(r->stack.epoch - epoch) >= 0) {
			r->keep = 0;
			idmap_put(&s->by_hash, r->stack.hash, (uint32_t)(to / 8));
			memmove(s->arena + to, r, bytes);
			to += bytes;
		}
		at += bytes;
	}
	s->used = to;
}

int stack_store_open(struct stack_store **out)
{
	*out = calloc(1, sizeof(**out));
	return *out ? 0 : -ENOMEM;
}

void stack_store_close(struct stack_store *s)
{
	if (!s)
		return;
	free(s->arena);
	idmap_fini(&s->by_hash);
	free(s);
}

void stack_store_after(const struct stack_store *s, uint32_t epoch, stack_store_fn fn, void *arg)
{
	for (size_t at = 0; at < s->used; at += record_at(s, (uint32_t)(at / 8))->bytes) {
		const struct record *r = record_at(s, (uint32_t)(at / 8));

		if ((int32_t)(r->stack.epoch - epoch) > 0)
			fn(arg, &r->stack);
	}
}
