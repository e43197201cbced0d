/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/text/intern.h"

#include <string.h>

#include "base/keyed.h"
#include "base/room.h"

static uint64_t hash(const void *key, size_t bytes)
{
	return keyed_bytes(keyed_process(), key, bytes);
}

int64_t intern_find(const struct intern *t, const void *key, size_t bytes)
{
	PROBE_EACH (i, &t->by_key, hash(key, bytes))
		if (t->bytes[i.number] == bytes && !memcmp(t->text[i.number], key, bytes))
			return i.number;
	return -ENOENT;
}

int64_t intern_bytes(struct intern *t, const void *key, size_t bytes, uint32_t most)
{
	int64_t have = intern_find(t, key, bytes);
	char *copy;

	if (have >= 0)
		return have;
	if (t->count >= most)
		return -E2BIG;
	if (ROOM_FOR(t->text, t->room, t->count + 1ull) ||
	    ROOM_FOR(t->bytes, t->bytes_room, t->count + 1ull))
		return -ENOMEM;
	copy = malloc(bytes + 1);
	if (!copy || probe_add(&t->by_key, hash(key, bytes), t->count)) {
		free(copy);
		return -ENOMEM;
	}
	memcpy(copy, key, bytes);
	copy[bytes] = '\0';
	t->text[t->count] = copy;
	t->bytes[t->count] = bytes;
	return t->count++;
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
	probe_fini(&t->by_key);
	*t = (struct intern){0};
}
