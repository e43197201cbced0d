/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/text/intern.h"

#include <string.h>

#include "base/keyed.h"
#include "base/room.h"

/* Of the key, or the free one where it belongs; the table is at most half full. */
static uint32_t *slot_of(const struct intern *t, const void *key, size_t bytes)
{
	uint64_t at = keyed_bytes(keyed_process(), key, bytes);

	for (;; at++) {
		uint32_t *slot = &t->slot[at & (t->slots - 1)];

		if (!*slot || (t->bytes[*slot - 1] == bytes && !memcmp(t->text[*slot - 1], key, bytes)))
			return slot;
	}
}

static int grow(struct intern *t)
{
	struct intern next = *t;

	if (t->count * 2ull < t->slots)
		return 0;
	next.slots = t->slots ? 2 * t->slots : 1024;
	next.slot = calloc(next.slots, sizeof(*next.slot));
	if (!next.slot)
		return -ENOMEM;
	for (uint32_t i = 0; i < t->count; i++)
		*slot_of(&next, t->text[i], t->bytes[i]) = i + 1;
	free(t->slot);
	*t = next;
	return 0;
}

int64_t intern_bytes(struct intern *t, const void *key, size_t bytes, uint32_t most)
{
	uint32_t *slot;
	char *copy;

	if (grow(t) || ROOM_FOR(t->text, t->room, t->count + 1ull) ||
	    ROOM_FOR(t->bytes, t->bytes_room, t->count + 1ull))
		return -ENOMEM;
	slot = slot_of(t, key, bytes);
	if (*slot)
		return *slot - 1;
	if (t->count >= most)
		return -E2BIG;
	copy = malloc(bytes + 1);
	if (!copy)
		return -ENOMEM;
	memcpy(copy, key, bytes);
	copy[bytes] = '\0';
	t->text[t->count] = copy;
	t->bytes[t->count] = bytes;
	*slot = ++t->count;
	return *slot - 1;
}

int64_t intern_find(const struct intern *t, const void *key, size_t bytes)
{
	uint32_t number = t->slots ? *slot_of(t, key, bytes) : 0;

	return number ? (int64_t)number - 1 : -ENOENT;
}

int64_t intern_text(struct intern *t, const char *text, uint32_t most)
{
	return intern_bytes(t, text, strlen(text), most);
}

void intern_fini(struct intern *t)
{
	for (uint32_t i = 0; i < t->count; i++)
		free(t->text[i]);
	free(t->text);
	free(t->bytes);
	free(t->slot);
	*t = (struct intern){ 0 };
}
