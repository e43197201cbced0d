/* SPDX-License-Identifier: Apache-2.0
 * A single rate for all time would be off by NTP's slewing (up to 500 ppm). A rate per second would
 * carry the noise of its readings into the next second. So the rate comes from several seconds of
 * anchors, and its prediction is compared with each new anchor. */
#include "node/join/clockmap.h"

#include <string.h>
#include <time.h>

#define CLOCKMAP_TRIES	      5
#define CLOCKMAP_RATE_ANCHORS 8

void clockmap_read(struct clockmap_anchor *out)
{
	out->spread_ns = UINT64_MAX;
	for (int i = 0; i < CLOCKMAP_TRIES; i++) {
		uint64_t before = clock_monotonic_ns();
		uint64_t ticks = clock_ticks();
		uint64_t real = clock_realtime_ns();
		uint64_t after = clock_monotonic_ns();

		if (after - before < out->spread_ns) {
			out->spread_ns = after - before;
			out->monotonic_ns = before + (after - before) / 2;
			out->ticks = ticks;
			out->realtime_ns = real;
		}
	}
}

static double anchors_rate(const struct clockmap_anchor *a, const struct clockmap_anchor *b)
{
	return b->ticks > a->ticks
		   ? (double)(b->monotonic_ns - a->monotonic_ns) / (double)(b->ticks - a->ticks)
		   : 1.0;
}

void clockmap_add(struct clockmap *m, const struct clockmap_anchor *a)
{
	const struct clockmap_anchor *from;

	if (m->count) {
		const struct clockmap_anchor *last = &m->anchors[m->count - 1];

		if (a->ticks <= last->ticks || a->monotonic_ns <= last->monotonic_ns)
			return;
		if (m->count > 1) {
			uint64_t guess = clockmap_ns(m, CLOCK_SOURCE_TSC, a->ticks);
			uint64_t off = guess > a->monotonic_ns ? guess - a->monotonic_ns
							       : a->monotonic_ns - guess;

			m->error_ns -= m->error_ns / 8;
			if (off + a->spread_ns > m->error_ns)
				m->error_ns = off + a->spread_ns;
		}
	}
	if (m->count == CLOCKMAP_ANCHORS)
		memmove(m->anchors, m->anchors + 1, sizeof(m->anchors[0]) * --m->count);
	m->anchors[m->count++] = *a;
	if (m->count < 2)
		return;
	from = &m->anchors[m->count > CLOCKMAP_RATE_ANCHORS ? m->count - CLOCKMAP_RATE_ANCHORS : 0];
	m->ns_per_tick = anchors_rate(from, &m->anchors[m->count - 1]);
}

void clockmap_init(struct clockmap *m)
{
	struct timespec pause = {0, 10000000};
	struct clockmap_anchor a;

	*m = (struct clockmap){.ns_per_tick = 1.0};
	clockmap_read(&a);
	clockmap_add(m, &a);
	nanosleep(&pause, NULL);
	clockmap_read(&a);
	clockmap_add(m, &a);
	/* Ten milliseconds give the rate only to some ppm, so the error is large until the first
	 * second is over. */
	m->error_ns = 10000;
}

static uint64_t convert_realtime(const struct clockmap *m, uint64_t stamp)
{
	uint32_t i = m->count - 1;

	/* Use the offset at that time, because the clock may have been set since. */
	while (i > 0 && m->anchors[i].realtime_ns > stamp)
		i--;
	return stamp - (m->anchors[i].realtime_ns - m->anchors[i].monotonic_ns);
}

uint64_t clockmap_convert(const struct clockmap *m, uint8_t source, uint64_t stamp)
{
	const struct clockmap_anchor *a;
	uint32_t i = m->count - 1;
	double rate = m->ns_per_tick, back;

	if (source == CLOCK_SOURCE_MONOTONIC)
		return stamp;
	if (source == CLOCK_SOURCE_REALTIME)
		return convert_realtime(m, stamp);
	if (source != CLOCK_SOURCE_TSC)
		return 0;
	while (i > 0 && m->anchors[i].ticks > stamp)
		i--;
	a = &m->anchors[i];
	if (stamp < a->ticks) {
		back = (double)(a->ticks - stamp) * rate;
		return back >= (double)a->monotonic_ns ? 0 : a->monotonic_ns - (uint64_t)back;
	}
	if (i + 1 < m->count)
		rate = anchors_rate(a, a + 1);
	return a->monotonic_ns + (uint64_t)((double)((stamp - a->ticks) & INT64_MAX) * rate);
}
