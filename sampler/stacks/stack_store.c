/* SPDX-License-Identifier: Apache-2.0
 * stack_store.c - see stack_store.h. Records lie one after the other. A sweep compacts the live
 * ones and rebuilds the index, which is cheaper than free lists because stacks live five
 * seconds. */
#include "sampler/stacks/stack_store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/keyed.h"
#include "base/limits.h"
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
	uint32_t *slot; /* offset in the arena / 8 + 1; 0: free */
	uint32_t slots, count;
};

static struct record *record_at(const struct stack_store *s, uint32_t slot)
{
	return (struct record *)(void *)(s->arena + (size_t)(slot - 1) * 8);
}

static uint32_t slot_find(const struct stack_store *s, uint64_t hash)
{
	uint32_t i = (uint32_t)keyed_word(keyed_process(), hash) & (s->slots - 1);

	while (s->slot[i] && record_at(s, s->slot[i])->stack.hash != hash)
		i = (i + 1) & (s->slots - 1);
	return i;
}

static void index_build(struct stack_store *s)
{
	memset(s->slot, 0, s->slots * sizeof(*s->slot));
	for (size_t at = 0; at < s->used;) {
		struct record *r = (struct record *)(void *)(s->arena + at);

		s->slot[slot_find(s, r->stack.hash)] = (uint32_t)(at / 8) + 1;
		at += r->bytes;
	}
}

/* Makes room for one more record of this size. */
static int make_room(struct stack_store *s, size_t bytes)
{
	uint32_t *slot;
	uint8_t *arena;

	if (s->used + bytes > s->room) {
		size_t room = s->room ? s->room * 2 : 256u << 10;

		if (room > LIMIT_SAMPLER_STACK_BYTES)
			return -ENOSPC;
		arena = realloc(s->arena, room);
		if (!arena)
			return -ENOMEM;
		s->arena = arena;
		s->room = room;
	}
	if (s->count * 2 >= s->slots) {
		slot = realloc(s->slot, s->slots * 2 * sizeof(*slot));
		if (!slot)
			return -ENOMEM;
		s->slot = slot;
		s->slots *= 2;
		index_build(s);
	}
	return 0;
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
	uint32_t slot;
	int err;

	if (bytes < sizeof(head))
		return -EPROTO;
	memcpy(&head, data, sizeof(head));
	if (frame_bytes(&head, &frames) || bytes < sizeof(head) + frames)
		return -EPROTO;
	slot = slot_find(s, head.hash);
	if (s->slot[slot]) {
		record_at(s, s->slot[slot])->stack.epoch = head.epoch;
		return 0;
	}
	whole = (sizeof(*r) + frames + 7) & ~(size_t)7;
	err = make_room(s, whole);
	if (err)
		return err;
	r = (struct record *)(void *)(s->arena + s->used);
	r->bytes = (uint32_t)whole;
	r->keep = 0;
	memcpy(&r->stack, data, sizeof(head) + frames);
	s->slot[slot_find(s, head.hash)] = (uint32_t)(s->used / 8) + 1;
	s->used += whole;
	s->count++;
	return 0;
}

const struct sampler_stack *stack_store_find(const struct stack_store *s, uint64_t hash)
{
	uint32_t slot = s->slot[slot_find(s, hash)];

	return slot ? &record_at(s, slot)->stack : NULL;
}

void stack_store_keep(struct stack_store *s, uint64_t hash)
{
	uint32_t slot = s->slot[slot_find(s, hash)];

	if (slot)
		record_at(s, slot)->keep = 1;
}

void stack_store_sweep(struct stack_store *s, uint32_t epoch)
{
	size_t to = 0;

	s->count = 0;
	for (size_t at = 0; at < s->used;) {
		struct record *r = (struct record *)(void *)(s->arena + at);
		uint32_t bytes = r->bytes;

		if (r->keep || (int32_t)(r->stack.epoch - epoch) >= 0) {
			r->keep = 0;
			memmove(s->arena + to, r, bytes);
			to += bytes;
			s->count++;
		}
		at += bytes;
	}
	s->used = to;
	index_build(s);
}

size_t stack_store_bytes(const struct stack_store *s)
{
	return s->room + s->slots * sizeof(*s->slot);
}

int stack_store_open(struct stack_store **out)
{
	struct stack_store *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->slots = 4096;
	s->slot = calloc(s->slots, sizeof(*s->slot));
	if (!s->slot) {
		free(s);
		return -ENOMEM;
	}
	*out = s;
	return 0;
}

void stack_store_close(struct stack_store *s)
{
	if (!s)
		return;
	free(s->arena);
	free(s->slot);
	free(s);
}
