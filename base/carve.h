/* SPDX-License-Identifier: Apache-2.0
 * carve.h - several arrays in one block of memory. One function does the layout and runs twice:
 * without memory it computes the size of the block, with memory it places the arrays. Header-only. */
#pragma once

#include <stddef.h>
#include <stdlib.h>

struct carve {
	/* NULL: only count. Otherwise aligned as the arrays need, at most to 16 bytes */
	void *memory;
	size_t bytes; /* used so far, a multiple of 16 */
};

/* Reserves `count` elements; NULL if memory is NULL. */
static inline void *carve_take(struct carve *c, size_t count, size_t element_bytes)
{
	void *out = c->memory ? (char *)c->memory + c->bytes : NULL;

	c->bytes += (count * element_bytes + 15) & ~(size_t)15;
	return out;
}

/* Memory for the block that starts at a cache line; free() it. NULL: no memory. */
static inline void *carve_memory(size_t bytes)
{
	return aligned_alloc(64, (bytes + 63) & ~(size_t)63);
}
