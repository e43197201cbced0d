/* SPDX-License-Identifier: Apache-2.0
 * idmap.h - maps 64-bit keys to 32-bit numbers; grows up to a bound. Threads: one caller.
 * Trust: keys may be chosen by a peer; they are hashed with the process's key. */
#pragma once

#include "base/probe.h"

#define IDMAP_NONE UINT32_MAX

struct idmap_pair {
	uint64_t key;
	uint32_t value;
};

struct idmap { /* zero-initialised: empty, with the default bound */
	struct idmap_pair *pair;
	size_t room;
	struct probe by_key;
	uint32_t count, max; /* max 0: 2^20 */
};

void idmap_fini(struct idmap *m);
void idmap_clear(struct idmap *m); /* keeps the memory */
/* IDMAP_NONE: not present. */
uint32_t idmap_get(const struct idmap *m, uint64_t key);
/* Inserts or replaces. 0, -ENOMEM, -ENOSPC. */
int idmap_put(struct idmap *m, uint64_t key, uint32_t value);
void idmap_remove(struct idmap *m, uint64_t key);
