/* SPDX-License-Identifier: Apache-2.0
 * sorted.h - binary search in an array sorted by a uint64_t field. Header only. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* first: address of the field in the first of `count` elements, which lie `stride` bytes apart. */
static inline size_t sorted_find(const uint64_t *first, size_t count, size_t stride, uint64_t than,
				 bool above)
{
	size_t low = 0, high = count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		uint64_t v =
		    *(const uint64_t *)(const void *)((const char *)first + middle * stride);

		if (above ? v <= than : v < than)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Index of the first element whose `field` is `than` or more; count: none. array must not be
 * NULL. */
#define SORTED_FROM(array, count, field, than)                                                     \
	sorted_find(&(array)->field, (count), sizeof(*(array)), (than), false)
/* Index of the first element whose field is more than `than`. */
#define SORTED_ABOVE(array, count, field, than)                                                    \
	sorted_find(&(array)->field, (count), sizeof(*(array)), (than), true)
