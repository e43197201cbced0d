/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/expect/growth.h"

#include <math.h>
#include <string.h>

#include "analysis/robust/median.h"
#include "model/thresholds.h"

static bool is_level(double launches, double of)
{
	return fabs(launches - of) <= thresholds.same.other_work * of;
}

static double middle(const double *ring)
{
	double v[GROWTH_STEPS];

	memcpy(v, ring, sizeof(v));
	return median_of(v, GROWTH_STEPS);
}

/* Finds the level that most of the last steps share: evaluation may lie between. */
static void settle(struct growth_level *l)
{
	double launches = middle(l->launches);
	uint32_t alike = 0;

	for (uint32_t i = 0; i < GROWTH_STEPS; i++)
		alike += is_level(l->launches[i], launches);
	l->usual = alike >= thresholds.part.most * GROWTH_STEPS ? launches : 0;
	l->usual_ns = middle(l->latency_ns);
}

/* A level changes slowly, so it is looked at once for a quarter of its steps. */
static void push(struct growth_level *l, const struct step *s)
{
	uint32_t at = l->pushed++ % GROWTH_STEPS;

	l->launches[at] = s->work[STEP_WORK_KERNELS];
	l->latency_ns[at] = (double)s->latency_ns;
	if (l->pushed >= GROWTH_STEPS && l->pushed % (GROWTH_STEPS / 4) == 0)
		settle(l);
}

bool growth_push(struct growth *g, const struct step *s, struct growth_change *out)
{
	bool grown;

	/* work that the job states explains its steps */
	if (s->source != STEP_SOURCE_AUTO || s->work_count <= STEP_WORK_KERNELS)
		return false;
	if (!(g->now.usual > 0) || is_level(s->work[STEP_WORK_KERNELS], g->now.usual)) {
		push(&g->now, s);
		g->next.pushed = 0;
		g->next.usual = 0;
		return false;
	}
	if (!g->next.pushed)
		g->next_first = s->index;
	push(&g->next, s);
	/* steps that share no level are passed over */
	if (g->next.pushed < GROWTH_STEPS || !(g->next.usual > 0))
		return false;
	g->most = fmax(g->most, g->now.usual);
	grown = g->next.usual > g->most && !is_level(g->next.usual, g->most) &&
		g->next.usual_ns > (1 + thresholds.part.matters) * g->now.usual_ns;
	if (s->index + 1 - g->next_first > GROWTH_STEPS)
		g->next_first = s->index + 1 - GROWTH_STEPS;
	*out = (struct growth_change){g->next_first, g->now.usual_ns};
	g->now = g->next;
	g->next.pushed = 0;
	g->next.usual = 0;
	return grown;
}
