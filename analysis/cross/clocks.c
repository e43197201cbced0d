/* SPDX-License-Identifier: Apache-2.0
 * The reference of a collective is the median of the nodes' corrected ends, not one chosen node: a
 * node whose clock is far off does not move a median. Some jobs have communicators that overlap
 * only in a chain. Their offsets settle within minutes, and the reported error is large until
 * then. */
#include "analysis/cross/clocks.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/robust/median.h"
#include "analysis/robust/regress.h"
#include "analysis/robust/spread.h"
#include "base/limits.h"
#include "base/room.h"
#include "model/thresholds.h"

/* the most nodes that are used per collective; more would not improve the median */
#define ENDS_MAX 256u
/* Samples closer together than this give slopes of noise. */
#define SLOPE_APART_NS 1e8
#define SLOPES	       (CLOCKS_SAMPLES * CLOCKS_SAMPLES / 2)

struct node {
	int64_t at_ns[CLOCKS_SAMPLES];
	double residual_ns[CLOCKS_SAMPLES]; /* node's end less the reference */
	uint32_t pushed;
	int64_t zero_ns;
	double offset_ns, drift, error_ns;
};

struct clocks {
	struct node *nodes;
	size_t count;
};

int clocks_open(struct clocks **out)
{
	*out = calloc(1, sizeof(**out));
	return *out ? 0 : -ENOMEM;
}

void clocks_close(struct clocks *c)
{
	if (!c)
		return;
	free(c->nodes);
	free(c);
}

static uint32_t held(const struct node *n)
{
	return n->pushed < CLOCKS_SAMPLES ? n->pushed : CLOCKS_SAMPLES;
}

/* The median slope, or 0 if it is not larger than three of its standard errors. */
static double slope_of(const struct node *n, uint32_t count, double sigma)
{
	double slopes[SLOPES], t[CLOCKS_SAMPLES], slope, first = 0, last = 0;

	for (uint32_t i = 0; i < count; i++) {
		t[i] = (double)(n->at_ns[i] - n->zero_ns);
		first = fmin(first, t[i]);
		last = fmax(last, t[i]);
	}
	if (count < thresholds.count.some || last - first < 1e9)
		return 0;
	slope =
	    regress_median_slope(t, n->residual_ns, count, count, SLOPE_APART_NS, slopes, SLOPES);
	if (fabs(slope) > thresholds.clock.rate ||
	    fabs(slope) <= thresholds.sure.errors * spread_of_slope(sigma, count, last - first))
		return 0;
	return slope;
}

static void fit(struct node *n)
{
	uint32_t count = held(n);
	double v[CLOCKS_SAMPLES], dev[CLOCKS_SAMPLES], flat, sigma = 0;

	n->zero_ns = n->at_ns[(n->pushed - 1) % CLOCKS_SAMPLES];
	/* Two passes. The first measures the scatter without a drift, which decides whether there
	 * is a drift. The second measures the scatter about the drift, which is smaller. */
	n->drift = 0;
	for (int pass = 0; pass < 2; pass++) {
		for (uint32_t i = 0; i < count; i++)
			v[i] = n->residual_ns[i] - n->drift * (double)(n->at_ns[i] - n->zero_ns);
		memcpy(dev, v, sizeof(v[0]) * count);
		flat = median_of(dev, count);
		sigma = MEDIAN_MAD_SIGMA * median_mad(dev, count, flat);
		n->offset_ns = flat;
		if (!pass)
			n->drift = slope_of(n, count, sigma);
	}
	n->error_ns =
	    thresholds.sure.errors * spread_of_median(sigma, count) + thresholds.clock.end_ns;
}

static double predicted(const struct node *n, int64_t at_ns)
{
	double v = n->offset_ns + n->drift * (double)(at_ns - n->zero_ns);

	return fmax(-CLOCKS_REACH_NS, fmin(v, CLOCKS_REACH_NS));
}

static struct node *node_at(struct clocks *c, uint32_t number)
{
	if (number >= LIMIT_FLEET_NODES || ROOM_FOR_ZERO(c->nodes, c->count, number + 1))
		return NULL;
	return &c->nodes[number];
}

void clocks_push(struct clocks *c, const uint32_t *node, const int64_t *end_ns, uint32_t count)
{
	double corrected[ENDS_MAX];
	int64_t base = end_ns[0];
	double reference;
	uint32_t n = 0;

	if (count > ENDS_MAX)
		count = ENDS_MAX;
	for (uint32_t i = 0; i < count; i++)
		if (llabs(end_ns[i] - base) < CLOCKS_REACH_NS)
			corrected[n++] = (double)(end_ns[i] - base) -
					 (double)clocks_correction(c, node[i], end_ns[i]);
	if (n < 2)
		return;
	reference = median_of(corrected, n);
	for (uint32_t i = 0; i < count; i++) {
		struct node *at =
		    llabs(end_ns[i] - base) < CLOCKS_REACH_NS ? node_at(c, node[i]) : NULL;

		if (!at)
			continue;
		at->at_ns[at->pushed % CLOCKS_SAMPLES] = end_ns[i];
		at->residual_ns[at->pushed % CLOCKS_SAMPLES] =
		    (double)(end_ns[i] - base) - reference;
		at->pushed++;
		/* Fit after every sample at first, then once per 8 samples. */
		if (at->pushed >= thresholds.count.few && (at->pushed < 8 || at->pushed % 8 == 0))
			fit(at);
	}
}

static const struct node *known(const struct clocks *c, uint32_t number)
{
	return number < c->count && c->nodes[number].pushed >= thresholds.count.few
		   ? &c->nodes[number]
		   : NULL;
}

int64_t clocks_correction(const struct clocks *c, uint32_t node, int64_t at_ns)
{
	const struct node *n = known(c, node);

	return n ? (int64_t)predicted(n, at_ns) : 0;
}

void clocks_state(const struct clocks *c, uint32_t node, int64_t at_ns, struct clocks_state *out)
{
	const struct node *n = known(c, node);

	*out = (struct clocks_state){.known = n != NULL};
	if (!n)
		return;
	out->offset_ns = predicted(n, at_ns);
	out->drift = n->drift;
	out->error_ns = n->error_ns;
}

void clocks_forget(struct clocks *c, uint32_t node)
{
	if (node < c->count)
		c->nodes[node] = (struct node){0};
}
