/* SPDX-License-Identifier: Apache-2.0
 * A skew heap (Sleator and Tarjan 1986) with parent pointers: any party leaves without a search,
 * and no peer makes us allocate. */
#include "aggregator/fair.h"

#include <stddef.h>

static bool is_before(const struct fair_party *a, const struct fair_party *b)
{
	return a->spent != b->spent ? a->spent < b->spent : a->order < b->order;
}

static struct fair_party *merge(struct fair_party *a, struct fair_party *b)
{
	struct fair_party *root = NULL, **at = &root, *up = NULL;

	while (a && b) {
		struct fair_party *least = is_before(a, b) ? a : b, *other = least == a ? b : a;

		*at = least;
		least->up = up;
		a = least->right;
		least->right = least->left;
		at = &least->left;
		up = least;
		b = other;
	}
	a = a ? a : b;
	*at = a;
	if (a)
		a->up = up;
	return root;
}

static void insert(struct fair *f, struct fair_party *p)
{
	p->left = p->right = p->up = NULL;
	p->order = f->orders++;
	p->waits = true;
	f->first = merge(f->first, p);
}

void fair_join(struct fair *f, struct fair_party *p)
{
	if (p->spent < f->now)
		p->spent = f->now;
	insert(f, p);
}

void fair_leave(struct fair *f, struct fair_party *p)
{
	struct fair_party *rest, *up = p->up;

	if (!p->waits)
		return;
	rest = merge(p->left, p->right);
	if (rest)
		rest->up = up;
	if (!up)
		f->first = rest;
	else if (up->left == p)
		up->left = rest;
	else
		up->right = rest;
	p->waits = false;
}

struct fair_party *fair_take(struct fair *f)
{
	struct fair_party *p = f->first;

	if (!p)
		return NULL;
	f->now = p->spent;
	fair_leave(f, p);
	return p;
}

void fair_set(struct fair *f, struct fair_party *p, uint64_t figure)
{
	fair_leave(f, p);
	p->spent = figure;
	insert(f, p);
}

void fair_charge(struct fair *f, struct fair_party *p, uint64_t cost)
{
	if (p->waits)
		fair_set(f, p, p->spent + cost);
	else
		p->spent += cost;
}
