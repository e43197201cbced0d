/* SPDX-License-Identifier: Apache-2.0
 * order.h - for qsort comparators: ORDER(a->x, b->x) ?: ORDER(a->y, b->y). Header only. */
#ifndef SYSOM_BASE_ORDER_H
#define SYSOM_BASE_ORDER_H

/* Negative, 0 or positive, for ascending order. */
#define ORDER(a, b) (((a) > (b)) - ((a) < (b)))

#endif
