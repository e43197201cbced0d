/* SPDX-License-Identifier: Apache-2.0
 * fair.h - fair queueing: the next party is the waiting one that has cost least so far. A party
 * earns no credit while it does not wait (start-time fair queueing: Goyal, Vin and Cheng 1996).
 * Owns: nothing; a party is the caller's. Threads: one caller. O(log n) amortised, no
 * allocation. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct fair_party { /* all zero at first */
	struct fair_party *left, *right, *up;
	uint64_t spent, order;
	bool waits;
};

struct fair { /* all zero: none waits */
	struct fair_party *first;
	uint64_t now; /* what the last party taken had spent */
	uint64_t orders;
};

/* p starts to wait; it must not wait already. */
void fair_join(struct fair *f, struct fair_party *p);
/* Takes the next party out of the queue; NULL: none waits. */
struct fair_party *fair_take(struct fair *f);
/* As if p had never joined; no effect unless it waits. */
void fair_leave(struct fair *f, struct fair_party *p);
/* Adds to p's cost, whether it waits or not. */
void fair_charge(struct fair *f, struct fair_party *p, uint64_t cost);
/* Sets p's key, for queues that are not ordered by cost; p then waits. */
void fair_set(struct fair *f, struct fair_party *p, uint64_t figure);
