/* SPDX-License-Identifier: Apache-2.0
 * order.h - for comparators of qsort: ORDER(a->x, b->x) ?: ORDER(a->y, b->y). Header only. */
#ifndef SYSOM_BASE_ORDER_H
#define SYSOM_BASE_ORDER_H

/* Ascending: below 0, 0 or above 0. */
#define ORDER(a, b) (((a) > (b)) - ((a) < (b)))

#endif
