/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/link/link_samples.h"

#include <math.h>
#include <string.h>

/* The position of the highest bit, followed by the next `bits` bits. So classes have equal width
 * within an octave. Uses only integers, so that all machines agree. v > 0. */
static uint16_t class_of(uint64_t v, uint32_t bits)
{
	uint32_t octave = 63u - (uint32_t)__builtin_clzll(v);
	uint64_t part = octave >= bits ? v >> (octave - bits) : v << (bits - octave);

	return (uint16_t)(octave << bits | (part & ((1u << bits) - 1)));
}

void link_samples_class(double bytes, double *begin, double *end)
{
	int octave;
	double part = frexp(bytes, &octave) * (2 << LINK_SIZE_BITS);

	*begin = ldexp(floor(part), octave - (int)LINK_SIZE_BITS - 1);
	*end = ldexp(floor(part) + 1, octave - (int)LINK_SIZE_BITS - 1);
}

static bool before(const struct link_cell *a, uint16_t size, uint16_t time)
{
	return a->size != size ? a->size < size : a->time < time;
}

static void add_cell(struct link_samples *s, const struct link_cell *c)
{
	uint32_t lo = 0, hi = s->cells;
	struct link_cell *at;

	while (lo < hi) {
		uint32_t mid = (lo + hi) / 2;

		if (before(&s->cell[mid], c->size, c->time))
			lo = mid + 1;
		else
			hi = mid;
	}
	at = &s->cell[lo];
	if (lo == s->cells || at->size != c->size || at->time != c->time) {
		if (s->cells == LINK_CELLS_MAX) {
			s->refused += c->count;
			return;
		}
		memmove(at + 1, at, (s->cells++ - lo) * sizeof(*at));
		*at = *c;
		return;
	}
	if (c->count > LINK_COUNT_MAX - at->count) {
		s->refused += c->count;
		return;
	}
	at->count += c->count;
	at->bytes += c->bytes;
	at->time_ns += c->time_ns;
	at->least_ns = c->least_ns < at->least_ns ? c->least_ns : at->least_ns;
}

void link_samples_add_sum(struct link_samples *s, uint64_t bytes, uint64_t time_ns, uint32_t count)
{
	uint64_t size = bytes / count, time = time_ns / count;
	struct link_cell c = {.count = count, .bytes = bytes, .time_ns = time_ns, .least_ns = time};

	if (!size || !time || size >> LINK_BITS_MAX || time >> LINK_BITS_MAX ||
	    count > LINK_COUNT_MAX) {
		s->refused += count;
		return;
	}
	c.size = class_of(size, LINK_SIZE_BITS);
	c.time = class_of(time, LINK_TIME_BITS);
	add_cell(s, &c);
}

void link_samples_add(struct link_samples *s, uint64_t bytes, uint64_t time_ns)
{
	link_samples_add_sum(s, bytes, time_ns, 1);
}

void link_samples_merge(struct link_samples *into, const struct link_samples *from)
{
	for (uint32_t i = 0; i < from->cells && i < LINK_CELLS_MAX; i++)
		add_cell(into, &from->cell[i]);
	into->refused += from->refused;
}

/* The mean time of the class that holds the k-th shortest time. */
static double kth(const struct link_cell *c, uint32_t n, uint64_t k)
{
	uint32_t i = 0;

	for (uint64_t seen = c[0].count; seen <= k && i + 1 < n; seen += c[i].count)
		i++;
	return (double)c[i].time_ns / c[i].count;
}

uint32_t link_samples_sizes(const struct link_samples *s, enum link_centre centre,
			    struct link_size *to)
{
	uint32_t sizes = 0;

	for (uint32_t i = 0, n; i < s->cells && sizes < LINK_SIZES_MAX; i += n) {
		struct link_size *z = &to[sizes++];
		double bytes = 0, time_ns = 0;

		*z = (struct link_size){0};
		for (n = 0; i + n < s->cells && s->cell[i + n].size == s->cell[i].size; n++) {
			z->count += s->cell[i + n].count;
			bytes += (double)s->cell[i + n].bytes;
			time_ns += (double)s->cell[i + n].time_ns;
		}
		z->bytes = bytes / (double)z->count;
		if (centre == LINK_AVG)
			z->time_ns = time_ns / (double)z->count;
		else if (centre == LINK_MIN)
			z->time_ns = (double)s->cell[i].least_ns;
		else
			z->time_ns = (kth(&s->cell[i], n, (z->count - 1) / 2) +
				      kth(&s->cell[i], n, z->count / 2)) /
				     2;
	}
	return sizes;
}
