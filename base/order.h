/* SPDX-License-Identifier: Apache-2.0
 * order.h - comparators for qsort() and bsearch(), and a sort of an array. Header only.
 *
 *   ORDER_BY(by_rank, struct place, ORDER_UP(rank) ?: ORDER_UP(slot)); */
#pragma once

#include <stdlib.h>

/* Negative, 0 or positive, for ascending order. */
#define ORDER(a, b) (((a) > (b)) - ((a) < (b)))

/* The comparator `name` of arrays of `type`. order: compares the elements *a and *b. */
#define ORDER_BY(name, type, order)                                                                \
	static int name(const void *pa, const void *pb)                                            \
	{                                                                                          \
		type const *a = pa;                                                                \
		type const *b = pb;                                                                \
                                                                                                   \
		return order;                                                                      \
	}                                                                                          \
	static int name(const void *, const void *)

/* In `order`: by a number, ascending or descending; by a text. */
#define ORDER_UP(field)	  ORDER(a->field, b->field)
#define ORDER_DOWN(field) ORDER(b->field, a->field)
#define ORDER_TEXT(field) strcmp(a->field, b->field)

/* Sorts `count` elements. qsort() must not get NULL, not even with no element. */
#define ORDER_SORT(list, count, order)                                                             \
	do {                                                                                       \
		if (count)                                                                         \
			qsort(list, count, sizeof(*(list)), order);                                \
	} while (0)
