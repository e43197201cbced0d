/* SPDX-License-Identifier: Apache-2.0
 * fair.h - who comes next: of those who wait, the one who has cost least so far. Who was away gets no
 * credit for it (start-time fair queueing: Goyal, Vin and Cheng 1996).
 * Owns: nothing; a party is the caller's. Threads: one caller. O(log n) amortised, no allocation. */
#ifndef SYSOM_AGGREGATOR_FAIR_H
#define SYSOM_AGGREGATOR_FAIR_H

#include <stdbool.h>
#include <stdint.h>

struct fair_party { /* all zero at first */
	struct fair_party *left, *right, *up;
	uint64_t spent, order;
	bool waits;
};

struct fair { /* all zero: nobody waits */
	struct fair_party *first;
	uint64_t now; /* what the one who came last had spent */
	uint64_t orders;
};

/* p waits from now on; it must not wait already. */
void fair_join(struct fair *f, struct fair_party *p);
/* The next one, who waits no more; NULL: nobody waits. */
struct fair_party *fair_take(struct fair *f);
/* As if it had never joined; nothing happens where it does not wait. */
void fair_leave(struct fair *f, struct fair_party *p);
/* p has cost so much more, whether it waits or not. */
void fair_charge(struct fair *f, struct fair_party *p, uint64_t cost);
/* The same heap as a list of the least by any figure: p waits with just that. */
void fair_set(struct fair *f, struct fair_party *p, uint64_t figure);

#endif
