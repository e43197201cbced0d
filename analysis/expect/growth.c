/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/expect/growth.h"

#include <math.h>
#include <string.h>

#include "analysis/robust/median.h"
#include "model/thresholds.h"

_Static_assert(STEP_WORK_COPY_BYTES == STEP_WORK_COMM_BYTES + 1 && GROWTH_BYTES == 2,
	       "the kinds of bytes are neighbours in a step's work");

/* Fewer bytes take no noticeable time: 1 ms at 1 GB/s. */
#define LEAST_BYTES 1e6

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

/* Finds the level that most of the last steps share. Evaluation steps may lie between them. */
static void settle(struct growth_level *l)
{
	double launches = middle(l->launches);
	uint32_t alike = 0;

	for (uint32_t i = 0; i < GROWTH_STEPS; i++)
		alike += is_level(l->launches[i], launches);
	l->usual = alike >= thresholds.part.most * GROWTH_STEPS ? launches : 0;
	l->usual_blocks = middle(l->blocks);
	for (uint32_t k = 0; k < GROWTH_BYTES; k++)
		l->usual_bytes[k] = middle(l->bytes[k]);
	l->usual_ns = middle(l->latency_ns);
}

/* How much more work the blocks are, at least 1. */
static double more_blocks(const struct growth_level *of, double blocks)
{
	return of->usual_blocks > 0 ? fmax(blocks / of->usual_blocks, 1) : 1;
}

/* Whether the collectives or copies have more bytes than `usual`, and more than longer sequences
 * explain. */
static bool moves_more(const struct growth_level *of, const double *usual, const double *bytes,
		       double blocks)
{
	double more = more_blocks(of, blocks);
	bool moves = false;

	for (uint32_t k = 0; k < GROWTH_BYTES; k++)
		moves |= bytes[k] > usual[k] * more + LEAST_BYTES &&
			 !is_level(bytes[k], usual[k] * more);
	return moves;
}

/* Phases are few (STEPS_CLASSES_MAX). */
static uint32_t phase_bit(const struct step *s)
{
	return 1u << s->phase % 32;
}

/* A level changes slowly, so it is computed only once per quarter of GROWTH_STEPS. */
static void push(struct growth_level *l, const struct step *s, bool known)
{
	uint32_t at = l->pushed++ % GROWTH_STEPS;

	l->launches[at] = s->work[STEP_WORK_KERNELS];
	l->blocks[at] = s->work[STEP_WORK_BLOCKS];
	for (uint32_t k = 0; k < GROWTH_BYTES; k++)
		l->bytes[k][at] = s->work[STEP_WORK_COMM_BYTES + k];
	l->latency_ns[at] = (double)s->latency_ns;
	l->index[at] = s->index;
	l->unknown += !known;
	l->phases |= phase_bit(s);
	if (l->pushed >= GROWTH_STEPS && l->pushed % (GROWTH_STEPS / 4) == 0)
		settle(l);
}

static void empty(struct growth_level *l)
{
	l->pushed = l->unknown = l->phases = 0;
	l->usual = 0;
}

/* The latency that the next level's steps should have; 0: they are not the result of a change. */
static double before_ns(const struct growth *g)
{
	const struct growth_level *now = &g->now, *next = &g->next;

	if (next->usual > g->most && !is_level(next->usual, g->most))
		return now->usual_ns;
	if (next->unknown < thresholds.part.most * next->pushed &&
	    !moves_more(now, g->most_bytes, next->usual_bytes, next->usual_blocks))
		return 0;
	return now->usual_ns * more_blocks(now, next->usual_blocks);
}

static bool is_usual(const struct growth_level *now, const struct step *s)
{
	return is_level(s->work[STEP_WORK_KERNELS], now->usual) &&
	       !moves_more(now, now->usual_bytes, &s->work[STEP_WORK_COMM_BYTES],
			   s->work[STEP_WORK_BLOCKS]);
}

bool growth_push(struct growth *g, const struct step *s, struct growth_change *out)
{
	bool known = g->phases & phase_bit(s);
	double before;

	/* work that the job states explains its steps */
	if (s->source != STEP_SOURCE_AUTO || s->work_count <= STEP_WORK_COPY_BYTES)
		return false;
	if (!(g->now.usual > 0) || (known && is_usual(&g->now, s))) {
		push(&g->now, s, known);
		for (uint32_t k = 0; k < GROWTH_BYTES; k++)
			g->most_bytes[k] = fmax(g->most_bytes[k], g->now.usual_bytes[k]);
		g->phases |= phase_bit(s);
		empty(&g->next);
		return false;
	}
	push(&g->next, s, known);
	/* without a common level, nothing is reported */
	if (g->next.pushed < GROWTH_STEPS || !(g->next.usual > 0))
		return false;
	g->most = fmax(g->most, g->now.usual);
	before = before_ns(g);
	*out = (struct growth_change){g->next.index[g->next.pushed % GROWTH_STEPS], before};
	before *= 1 + thresholds.excess.slower;
	g->phases |= g->next.phases;
	g->now = g->next;
	empty(&g->next);
	return before > 0 && g->now.usual_ns > before;
}
