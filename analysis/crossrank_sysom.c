/* SPDX-License-Identifier: Apache-2.0
 * The paper's rule on the same steps, for comparison: analysis/peers in its mode, on own times as
 * they are, with a window of 100 steps or of the whole series where that is shorter. */
#include "analysis/crossrank_private.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

static int tell_flag(struct crossrank *c, const struct peers_flag *flag)
{
	struct crossrank_finding out = {.sure_step = flag->sure_step};
	struct finding *f = &out.finding;
	uint32_t rank = flag->member;
	int rc;

	f->kind = FINDING_SLOW_RANK;
	f->first_step = flag->first_step;
	f->last_step = flag->last_step < c->n ? flag->last_step : c->n - 1;
	f->excess = flag->excess;
	f->effect_ns = flag->excess_ns;
	f->confidence = flag->score > 1 ? 1 - 0.4 / (flag->score * flag->score) : 0.6;
	f->ranks[f->rank_count++] = c->steps->rank[rank].rank;
	rc = crossrank_cause(c, f, &rank, 1, (uint32_t)f->first_step, (uint32_t)f->last_step);
	if (!rc)
		c->take(c->to, &out);
	return rc;
}

static int take_flags(struct crossrank *c, struct peers *p)
{
	struct peers_flag flag;
	int rc = 0;

	while (!rc && peers_next(p, &flag))
		if (flag.ended && flag.measure == PEERS_SELF)
			rc = tell_flag(c, &flag);
	return rc;
}

int crossrank_sysom(struct crossrank *c)
{
	struct peers_config config;
	struct peers *p;
	double *self = calloc(c->ranks, sizeof(*self));
	void *memory;
	int rc = 0;

	peers_config_default(&config);
	config.mode = PEERS_SYSOM;
	if (c->n < config.w)
		config.w = c->n;
	if (c->ranks < 2 || c->ranks > PEERS_MEMBERS_MAX) {
		free(self);
		return 0;
	}
	memory = aligned_alloc(16, (peers_memory_bytes(&config, c->ranks) + 15) & ~(size_t)15);
	if (!memory || !self) {
		free(memory);
		free(self);
		return -ENOMEM;
	}
	p = peers_init(memory, &config, c->ranks);
	for (uint32_t s = 0; s < c->n && !rc; s++) {
		for (uint32_t r = 0; r < c->ranks; r++)
			self[r] = jobsteps_value(c->steps, JOBSTEPS_SELF, r, s);
		peers_push(p, s, self, NULL, c->typical_ns, 1);
		rc = take_flags(c, p);
	}
	peers_finish(p);
	if (!rc)
		rc = take_flags(c, p);
	free(memory);
	free(self);
	return rc;
}
