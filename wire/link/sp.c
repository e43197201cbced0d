/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/link/sp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const uint8_t greetings[][SP_GREETING_BYTES] = {
    [SP_ASKS] = {0, 'S', 'P', 0, 0, 0x30, 0, 0},
    [SP_REPLIES] = {0, 'S', 'P', 0, 0, 0x31, 0, 0},
};

static size_t frame_bytes(bool ipc)
{
	return ipc ? 9 : 8;
}

void sp_init(struct sp *s, enum sp_side peer, bool ipc, size_t max_bytes)
{
	*s = (struct sp){
	    .peer = peer, .ipc = ipc, .max_bytes = max_bytes, .want = SP_GREETING_BYTES};
}

static void drop_body(struct sp *s)
{
	free(s->body);
	s->body = NULL;
	s->capacity = 0;
}

void sp_fini(struct sp *s)
{
	drop_body(s);
}

void sp_next(struct sp *s)
{
	drop_body(s);
	s->phase = SP_HEAD;
	s->got = s->hops_bytes = 0;
	s->want = frame_bytes(s->ipc);
}

int sp_room(struct sp *s, uint8_t **at, size_t *bytes)
{
	if (s->phase != SP_BODY) {
		*at = s->head + s->got;
		*bytes = s->want - s->got;
		return 0;
	}
	if (s->got == s->capacity) {
		size_t capacity = s->capacity ? 2 * s->capacity : SP_FIRST_BYTES;
		uint8_t *body;

		if (capacity > s->want)
			capacity = s->want;
		body = realloc(s->body, capacity);
		if (!body)
			return -ENOMEM;
		s->body = body;
		s->capacity = capacity;
	}
	*at = s->body + s->got;
	*bytes = s->capacity - s->got;
	return 0;
}

static int take_greeting(struct sp *s)
{
	if (memcmp(s->head, greetings[s->peer], SP_GREETING_BYTES))
		return -EPROTO;
	sp_next(s);
	return 0;
}

static int take_head(struct sp *s)
{
	uint64_t bytes = 0;

	for (size_t i = frame_bytes(s->ipc) - 8; i < frame_bytes(s->ipc); i++)
		bytes = bytes << 8 | s->head[i];
	if ((s->ipc && s->head[0] != 1) || bytes < 4 || bytes > s->max_bytes + SP_HOPS_MAX * 4)
		return -EPROTO;
	s->phase = SP_BODY;
	s->got = 0;
	s->want = (size_t)bytes;
	return 0;
}

/* Reads the return path: words up to the one with the highest bit. */
static int take_body(struct sp *s)
{
	for (size_t at = 0; at + 4 <= s->got && at < SP_HOPS_MAX * 4 && !s->hops_bytes; at += 4)
		if (s->body[at] & 0x80)
			s->hops_bytes = at + 4;
	if (!s->hops_bytes || s->got - s->hops_bytes > s->max_bytes)
		return -EPROTO;
	s->phase = SP_MESSAGE;
	return 0;
}

int sp_take(struct sp *s, size_t bytes)
{
	s->got += bytes;
	if (s->got < s->want)
		return 0;
	return s->phase == SP_GREETING ? take_greeting(s)
	       : s->phase == SP_HEAD   ? take_head(s)
				       : take_body(s);
}

void sp_greeting(uint8_t out[SP_GREETING_BYTES], enum sp_side side)
{
	memcpy(out, greetings[side], SP_GREETING_BYTES);
}

size_t sp_frame(uint8_t out[SP_FRAME_BYTES], bool ipc, uint64_t bytes)
{
	size_t n = frame_bytes(ipc);

	out[0] = 1;
	for (size_t i = 0; i < 8; i++)
		out[n - 8 + i] = (uint8_t)(bytes >> (56 - 8 * i));
	return n;
}
