/* SPDX-License-Identifier: Apache-2.0 */
#include "base/idmap.h"

#include "base/keyed.h"
#include "base/room.h"

static uint64_t hash(uint64_t key)
{
	return keyed_word(keyed_process(), key);
}

void idmap_fini(struct idmap *m)
{
	free(m->pair);
	probe_fini(&m->by_key);
	*m = (struct idmap){.max = m->max};
}

void idmap_clear(struct idmap *m)
{
	probe_clear(&m->by_key);
	m->count = 0;
}

/* NULL: not present. */
static struct idmap_pair *find(const struct idmap *m, uint64_t key)
{
	PROBE_EACH (i, &m->by_key, hash(key))
		if (m->pair[i.number].key == key)
			return &m->pair[i.number];
	return NULL;
}

uint32_t idmap_get(const struct idmap *m, uint64_t key)
{
	const struct idmap_pair *p = find(m, key);

	return p ? p->value : IDMAP_NONE;
}

int idmap_put(struct idmap *m, uint64_t key, uint32_t value)
{
	struct idmap_pair *have = find(m, key);

	if (have) {
		have->value = value;
		return 0;
	}
	if (m->count >= (m->max ? m->max : 1u << 20))
		return -ENOSPC;
	if (ROOM_FOR(m->pair, m->room, m->count + 1ull) ||
	    probe_add(&m->by_key, hash(key), m->count))
		return -ENOMEM;
	m->pair[m->count++] = (struct idmap_pair){.key = key, .value = value};
	return 0;
}

void idmap_remove(struct idmap *m, uint64_t key)
{
	struct idmap_pair *have = find(m, key), *last;

	if (!have)
		return;
	probe_remove(&m->by_key, hash(key), (uint32_t)(have - m->pair));
	last = &m->pair[--m->count];
	if (have == last)
		return;
	probe_remove(&m->by_key, hash(last->key), m->count);
	*have = *last;
	probe_add(&m->by_key, hash(have->key), (uint32_t)(have - m->pair));
}
