/* SPDX-License-Identifier: Apache-2.0
 * idmap.h - maps 64-bit keys to 32-bit numbers; open addressing, grows up to a bound. Threads: one
 * caller. Trust: a peer may choose the keys, so they are hashed with the process's secret key. A
 * chain longer than IDMAP_PROBE_MAX makes the table grow or, at the bound, refuse. */
#ifndef SYSOM_BASE_IDMAP_H
#define SYSOM_BASE_IDMAP_H

#include <stdbool.h>
#include <stdint.h>

#define IDMAP_NONE	UINT32_MAX
#define IDMAP_PROBE_MAX 64u

struct idmap { /* zero-initialised: empty, with the default bound */
	uint64_t *keys;
	uint32_t *values;	   /* IDMAP_NONE: free; IDMAP_NONE - 1: removed */
	uint32_t room, count, max; /* max 0: 2^20 */
};

void idmap_fini(struct idmap *m);
void idmap_clear(struct idmap *m); /* keeps the memory */
/* IDMAP_NONE: not present. */
uint32_t idmap_get(const struct idmap *m, uint64_t key);
/* Inserts or replaces. 0, -ENOMEM, -ENOSPC. value: below IDMAP_NONE - 1. */
int idmap_put(struct idmap *m, uint64_t key, uint32_t value);
void idmap_remove(struct idmap *m, uint64_t key);

#endif
