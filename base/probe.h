/* SPDX-License-Identifier: Apache-2.0
 * probe.h - hash tables with open addressing; all tables of this tree use it. Header only. An index
 * holds the numbers of things in the caller's array; the caller decides which are alike:
 * PROBE_EACH(i, &t, hash) if (alike(&thing[i.number], key)) return i.number; err = probe_add(&t,
 * hash, count); The hash is stored with each number. So the index can grow without computing hashes
 * again, and things with other hashes are not compared. Trust: the hash of a key that a peer
 * chooses is keyed (base/keyed.h). Threads: one caller. */
#pragma once

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define PROBE_FIRST 16u

/* The places of a hash in a table with room (a power of two) for things that are stored in the
 * table itself. At least one place must be free, or the caller must count its steps. */
#define PROBE_PLACES(at, hash, room)                                                               \
	for (uint32_t at = (uint32_t)(hash) & ((uint32_t)(room)-1u);;                              \
	     at = (at + 1) & ((uint32_t)(room)-1u))

struct probe {		/* all zero: an empty table */
	uint64_t *slot; /* hash << 32 | number + 1; 0: free */
	uint32_t room;	/* a power of two, at least twice count */
	uint32_t count;
};

static inline void probe_fini(struct probe *t)
{
	free(t->slot);
	*t = (struct probe){0};
}

/* Keeps the memory. */
static inline void probe_clear(struct probe *t)
{
	if (t->room)
		memset(t->slot, 0, t->room * sizeof(*t->slot));
	t->count = 0;
}

struct probe_walk {
	uint32_t hash, seen; /* places */
	uint32_t number;
};

/* Advances to the next number under this hash. False: no more. */
static inline bool probe_next(const struct probe *t, struct probe_walk *w)
{
	while (w->seen < t->room) {
		uint64_t slot = t->slot[(w->hash + w->seen++) & (t->room - 1)];

		w->number = (uint32_t)slot - 1;
		if (!slot || slot >> 32 == w->hash)
			return slot;
	}
	return false;
}

#define PROBE_EACH(i, t, h) for (struct probe_walk i = {.hash = (uint32_t)(h)}; probe_next(t, &i);)

static inline void probe_put(struct probe *t, uint64_t slot)
{
	PROBE_PLACES (at, slot >> 32, t->room)
		if (!t->slot[at]) {
			t->slot[at] = slot;
			t->count++;
			return;
		}
}

/* Allocates memory for this many numbers in advance. 0, -ENOMEM. */
static inline int probe_room(struct probe *t, uint32_t count)
{
	uint32_t room = t->room ? t->room : PROBE_FIRST;
	struct probe more;

	while (room / 2 < count)
		room *= 2;
	if (room == t->room)
		return 0;
	more = (struct probe){.slot = calloc(room, sizeof(*more.slot)), .room = room};
	if (!more.slot)
		return -ENOMEM;
	for (uint32_t i = 0; i < t->room; i++)
		if (t->slot[i])
			probe_put(&more, t->slot[i]);
	probe_fini(t);
	*t = more;
	return 0;
}

/* 0; -ENOMEM: nothing changed. number: below UINT32_MAX. count: below 2^30. */
static inline int probe_add(struct probe *t, uint64_t hash, uint32_t number)
{
	int err = probe_room(t, t->count + 1);

	if (!err)
		probe_put(t, hash << 32 | (number + 1u));
	return err;
}

/* Removes a number. The numbers behind it move up, so no tombstone is left. */
static inline void probe_remove(struct probe *t, uint64_t hash, uint32_t number)
{
	uint64_t gone = hash << 32 | (number + 1u);
	uint32_t mask = t->room - 1, hole = (uint32_t)hash;

	if (!t->room)
		return;
	for (hole &= mask; t->slot[hole] != gone; hole = (hole + 1) & mask)
		if (!t->slot[hole])
			return;
	PROBE_PLACES (at, hole + 1, t->room) {
		uint32_t home = (uint32_t)(t->slot[at] >> 32);

		if (!t->slot[at])
			break;
		if (((at - home) & mask) < ((at - hole) & mask))
			continue; /* its own place lies behind the hole */
		t->slot[hole] = t->slot[at];
		hole = at;
	}
	t->slot[hole] = 0;
	t->count--;
}
