/* SPDX-License-Identifier: Apache-2.0 */
#include "model/durations.h"

#include <math.h>

#define FIRST_BITS 10u /* the first class begins at 2^10 ns */
#define PART_BITS  4u  /* 16 classes per octave */

static uint32_t class_of(uint64_t ns)
{
	uint32_t octave, class;

	if (ns < 1ull << FIRST_BITS)
		return 0;
	octave = 63u - (uint32_t)__builtin_clzll(ns);
	class = (octave - FIRST_BITS) << PART_BITS |
		((uint32_t)(ns >> (octave - PART_BITS)) & ((1u << PART_BITS) - 1));
	return class < DURATIONS_CLASSES ? class : DURATIONS_CLASSES - 1;
}

static double begin_of(uint32_t class)
{
	double part = (class & ((1u << PART_BITS) - 1)) / (double)(1u << PART_BITS);

	return ldexp(1 + part, (int)(FIRST_BITS + (class >> PART_BITS)));
}

void durations_add_class(struct durations *d, uint32_t class, uint32_t count)
{
	uint32_t room = UINT32_MAX - d->count[class];

	d->count[class] += count < room ? count : room;
	d->total += count < room ? count : room;
}

void durations_add(struct durations *d, uint64_t ns)
{
	durations_add_class(d, class_of(ns), 1);
}

void durations_merge(struct durations *into, const struct durations *from)
{
	for (uint32_t i = 0; i < DURATIONS_CLASSES; i++)
		if (from->count[i])
			durations_add_class(into, i, from->count[i]);
}

double durations_quantile(const struct durations *d, double p)
{
	double want = p * (double)d->total, seen = 0;

	for (uint32_t i = 0; i < DURATIONS_CLASSES; i++) {
		seen += d->count[i];
		if (d->count[i] && seen >= want)
			return (begin_of(i) + begin_of(i + 1)) / 2;
	}
	return 0;
}
