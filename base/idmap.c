/* SPDX-License-Identifier: Apache-2.0 */
#include "base/idmap.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/keyed.h"

#define REMOVED (IDMAP_NONE - 1)

static uint64_t place(uint64_t key)
{
	return keyed_word(keyed_process(), key);
}

void idmap_fini(struct idmap *m)
{
	free(m->keys);
	free(m->values);
	*m = (struct idmap){.max = m->max};
}

void idmap_clear(struct idmap *m)
{
	if (m->room)
		memset(m->values, 0xff, m->room * sizeof(*m->values));
	m->count = 0;
}

/* Points to the key's value; NULL: not present. */
static uint32_t *find(const struct idmap *m, uint64_t key)
{
	uint64_t at = place(key);

	for (uint32_t i = 0; i < IDMAP_PROBE_MAX && i < m->room; i++) {
		uint32_t k = (uint32_t)(at + i) & (m->room - 1);

		if (m->values[k] == IDMAP_NONE)
			return NULL;
		if (m->values[k] != REMOVED && m->keys[k] == key)
			return &m->values[k];
	}
	return NULL;
}

uint32_t idmap_get(const struct idmap *m, uint64_t key)
{
	const uint32_t *value = find(m, key);

	return value ? *value : IDMAP_NONE;
}

static bool insert(struct idmap *m, uint64_t key, uint32_t value)
{
	uint64_t at = place(key);

	for (uint32_t i = 0; i < IDMAP_PROBE_MAX && i < m->room; i++) {
		uint32_t k = (uint32_t)(at + i) & (m->room - 1);

		if (m->values[k] < REMOVED)
			continue;
		m->keys[k] = key;
		m->values[k] = value;
		m->count++;
		return true;
	}
	return false;
}

static int grow(struct idmap *m)
{
	uint32_t max = m->max ? m->max : 1u << 20;
	struct idmap old = *m;

	for (uint32_t room = old.room ? 2 * old.room : 16; room / 4 < max; room *= 2) {
		struct idmap more = {.max = old.max, .room = room};
		bool all = true;

		more.keys = malloc(room * sizeof(*more.keys));
		more.values = malloc(room * sizeof(*more.values));
		if (!more.keys || !more.values) {
			idmap_fini(&more);
			return -ENOMEM;
		}
		idmap_clear(&more);
		for (uint32_t i = 0; i < old.room && all; i++)
			if (old.values[i] < REMOVED)
				all = insert(&more, old.keys[i], old.values[i]);
		if (all) {
			idmap_fini(&old);
			*m = more;
			return 0;
		}
		idmap_fini(&more);
	}
	return -ENOSPC;
}

int idmap_put(struct idmap *m, uint64_t key, uint32_t value)
{
	uint32_t *have = find(m, key);

	if (have) {
		*have = value;
		return 0;
	}
	if (m->count >= (m->max ? m->max : 1u << 20))
		return -ENOSPC;
	while (m->count >= m->room / 2 || !insert(m, key, value)) {
		int err = grow(m);

		if (err)
			return err;
	}
	return 0;
}

void idmap_remove(struct idmap *m, uint64_t key)
{
	uint32_t *have = find(m, key);

	if (!have)
		return;
	*have = REMOVED;
	m->count--;
}
