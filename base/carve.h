/* SPDX-License-Identifier: Apache-2.0
 * carve.h - several arrays in one block of memory, laid out by one function: called without memory it
 * says how large the block has to be, with it where the arrays lie. Header-only, nothing is allocated. */
#ifndef SYSOM_BASE_CARVE_H
#define SYSOM_BASE_CARVE_H

#include <stddef.h>

struct carve {
	void *memory; /* NULL: only counted; else aligned as its arrays need, to 16 at most */
	size_t bytes; /* taken so far, a multiple of 16 */
};

/* Room for so many elements; NULL where there is no memory. */
static inline void *carve_take(struct carve *c, size_t count, size_t element_bytes)
{
	void *out = c->memory ? (char *)c->memory + c->bytes : NULL;

	c->bytes += (count * element_bytes + 15) & ~(size_t)15;
	return out;
}

#endif
