/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/median.h"
#include "analysis/skew.h"
#include "analysis/workers_private.h"

/* A role is worth a word from this part of a step on. */
#define IMBALANCE 0.10
/* A whole job: its work varies for good reasons too. */
#define UNIFORM	     0.10
#define UNIFORM_PAST 20u
#define UNIFORM_PAST_MOST 200u
#define UNIFORM_STEPS 20u
#define UNIFORM_SIGMAS 8.0
#define UNIFORM_SHARED 0.3 /* of the rise, below which a worker stayed as it was */

static double unit_ns(const struct workers *w, const struct workers_flag *f)
{
	if (f->flag.measure == PEERS_LATE || f->replica)
		return w->step_ns;
	return w->role_level[w->t->role[f->worker]];
}

static double effect_ns(const struct workers *w, const struct workers_flag *f)
{
	return f->flag.excess * unit_ns(w, f);
}

static int earlier(const void *a, const void *b)
{
	const struct workers_flag *x = a, *y = b;

	if (x->flag.first_step != y->flag.first_step)
		return x->flag.first_step < y->flag.first_step ? -1 : 1;
	if (x->flag.score != y->flag.score)
		return x->flag.score > y->flag.score ? -1 : 1;
	return x->worker < y->worker ? -1 : x->worker > y->worker;
}

static double overlap(const struct workers_flag *a, const struct workers_flag *b)
{
	double first = (double)(a->flag.first_step > b->flag.first_step ? a->flag.first_step :
									   b->flag.first_step);
	double last = (double)(a->flag.last_step < b->flag.last_step ? a->flag.last_step :
									b->flag.last_step);
	double begin = (double)(a->flag.first_step < b->flag.first_step ? a->flag.first_step :
									    b->flag.first_step);
	double end = (double)(a->flag.last_step > b->flag.last_step ? a->flag.last_step :
								       b->flag.last_step);

	return last < first ? 0 : (last - first + 1) / (end - begin + 1);
}

static double confidence_of(const struct workers_flag *f)
{
	double c = f->flag.score > 1 ? 1 - 0.35 / f->flag.score : 0.65;

	c = c > 0.99 ? 0.99 : c;
	return f->pair ? 0.85 * c : c;
}

static void say_flag(const struct workers *w, struct finding *f, const struct workers_flag *g)
{
	const char *who = g->replica ? "replica" : "rank";
	int32_t name = g->replica ? (int32_t)g->worker : w->t->rank[g->worker];

	finding_say(f, LAYER_UNKNOWN, effect_ns(w, g),
		    "%s %" PRId32 "%s %.2f%% (%.3f ms per step) above %s over steps %" PRIu64 " to %" PRIu64
		    "; a window of %" PRIu32 " steps was sure, at %.1f times its threshold",
		    who, name, g->flag.measure == PEERS_LATE ? " is late by" : ": own time",
		    100 * g->flag.excess, effect_ns(w, g) / 1e6,
		    g->pair ? "its only peer, as it was before," : "its peers", g->flag.first_step,
		    g->flag.last_step, g->flag.window, g->flag.score);
}

static void add_ranks(const struct workers *w, struct finding *f, const struct workers_flag *g)
{
	for (uint32_t i = 0; i < w->t->workers; i++) {
		bool of = g->replica ? w->t->replica[i] == g->worker : i == g->worker;

		for (uint32_t k = 0; k < f->rank_count && of; k++)
			of = f->ranks[k] != w->t->rank[i];
		if (of && f->rank_count < FINDING_RANKS_MAX)
			f->ranks[f->rank_count++] = w->t->rank[i];
	}
}

static int worse(const void *a, const void *b)
{
	const struct workers_flag *const *x = a, *const *y = b;

	if ((*x)->flag.excess != (*y)->flag.excess)
		return (*x)->flag.excess > (*y)->flag.excess ? -1 : 1;
	return (*x)->worker < (*y)->worker ? -1 : (*x)->worker > (*y)->worker;
}

/* Flags at the same time are one fault: the worst of them gives its steps. */
static void tell_group(struct workers *w, struct workers_flag **group, uint32_t n, workers_tell *tell,
		       void *context)
{
	static const struct workers_finding none;
	struct workers_finding out = none;
	struct finding *f = &out.finding;
	const struct workers_flag *worst;

	qsort(group, n, sizeof(*group), worse);
	worst = group[0];
	f->kind = worst->replica ? FINDING_IMBALANCE : FINDING_SLOW_RANK;
	f->cause = worst->replica ? CAUSE_IMBALANCE_INPUT : CAUSE_UNKNOWN;
	f->first_step = worst->flag.first_step;
	f->last_step = worst->flag.last_step;
	f->excess = worst->flag.excess;
	f->effect_ns = effect_ns(w, worst);
	out.sure_step = worst->flag.sure_step;
	out.window = worst->flag.window;
	out.measure = worst->flag.measure;
	for (uint32_t k = 0; k < n; k++) {
		f->confidence = fmax(f->confidence, confidence_of(group[k]));
		out.sure_step = group[k]->flag.sure_step < out.sure_step ? group[k]->flag.sure_step :
									    out.sure_step;
		add_ranks(w, f, group[k]);
		say_flag(w, f, group[k]);
		group[k]->told = true;
	}
	if (worst->replica)
		finding_say(f, LAYER_SOFTWARE, 0,
			    "all stages of the replica take longer together: its input, or what its "
			    "ranks share, not one of them");
	tell(context, &out);
}

static int tell_flags(struct workers *w, workers_tell *tell, void *context)
{
	struct workers_flag **group = calloc(w->flags + 1, sizeof(struct workers_flag *));

	if (!group)
		return -ENOMEM;
	if (w->flags)
		qsort(w->flag, w->flags, sizeof(*w->flag), earlier);
	for (uint32_t i = 0; i < w->flags; i++) {
		uint32_t n = 0;

		for (uint32_t j = i; j < w->flags && !w->flag[i].told; j++) {
			struct workers_flag *f = &w->flag[j];
			double common = overlap(&w->flag[i], f);
			bool same = f->worker == w->flag[i].worker && common > 0;

			if (f->told || f->replica != w->flag[i].replica || (common < 0.5 && !same))
				continue;
			group[n++] = f;
		}
		if (n)
			tell_group(w, group, n, tell, context);
	}
	free(group);
	return 0;
}

/* ---- roles ---- */

static void tell_stage(struct workers *w, uint32_t role, double excess, double others, workers_tell *tell,
		       void *context)
{
	static const struct workers_finding none;
	struct workers_finding out = none;
	struct finding *f = &out.finding;

	f->kind = FINDING_IMBALANCE;
	f->cause = CAUSE_IMBALANCE_STAGE;
	f->first_step = w->t->step[0];
	f->last_step = w->t->step[w->t->steps - 1];
	out.sure_step = f->last_step;
	f->excess = excess;
	f->effect_ns = excess * others;
	f->confidence = 0.9;
	for (uint32_t i = 0; i < w->t->workers && f->rank_count < FINDING_RANKS_MAX; i++)
		if (w->t->role[i] == role)
			f->ranks[f->rank_count++] = w->t->rank[i];
	finding_say(f, LAYER_SOFTWARE, f->effect_ns,
		    "stage %" PRIu32 " computes %.3f ms per step, the others a median of %.3f ms", role,
		    w->role_level[role] / 1e6, others / 1e6);
	tell(context, &out);
}

static void tell_stages(struct workers *w, workers_tell *tell, void *context)
{
	for (uint32_t r = 0; r < w->t->roles && w->t->roles > 1; r++) {
		uint32_t n = 0;
		double others;

		for (uint32_t k = 0; k < w->t->roles && n < w->t->workers; k++)
			if (k != r && w->role_level[k] > 0)
				w->scratch[n++] = w->role_level[k];
		others = median_of(w->scratch, n);
		if (n && w->role_level[r] > others * (1 + IMBALANCE))
			tell_stage(w, r, w->role_level[r] / others - 1, others, tell, context);
	}
}

/* Which cells lie in a told stretch of their worker. Owned; NULL without memory. */
static bool *flagged_cells(const struct workers *w)
{
	const struct workers_table *t = w->t;
	bool *in = calloc((size_t)t->steps * t->workers, sizeof(*in));

	for (uint32_t k = 0; in && k < w->flags; k++) {
		const struct workers_flag *f = &w->flag[k];

		for (uint32_t s = 0; s < t->steps && !f->replica; s++)
			if (t->step[s] >= f->flag.first_step && t->step[s] <= f->flag.last_step)
				in[(size_t)s * t->workers + f->worker] = true;
	}
	return in;
}

struct role_skew {
	struct skew k;
	uint32_t folded; /* flags that are a part of it */
};

struct skew_scratch {
	struct skew_step *step; /* [steps] */
	uint32_t *times;	/* [workers] */
	double *loss, *row;	/* [steps], [workers] */
};

/* How uneven a role's steps are, and whether the heaviest worker changes. value: [steps][workers]. */
static struct skew role_skew(struct workers *w, const double *value, uint32_t role, const bool *slow,
			     struct skew_scratch *x)
{
	const struct workers_table *t = w->t;

	for (uint32_t s = 0; s < t->steps; s++) {
		for (uint32_t i = 0; i < t->workers; i++) {
			size_t at = (size_t)s * t->workers + i;

			x->row[i] = t->role[i] != role || slow[at] ? NAN : value[at];
		}
		x->step[s] = skew_of_step(x->row, t->workers, w->scratch);
	}
	return skew_of(x->step, t->steps, x->times, t->workers, x->loss);
}

/* The skew of every role; flags that a role's uneven input explains are not told: what is left of it
 * where the stages of a replica have told most of it already. */
static int find_skews(struct workers *w, const bool *slow, struct role_skew *skew)
{
	struct skew *rest = calloc(w->t->roles, sizeof(*rest));
	struct skew_scratch x = { calloc(w->t->steps, sizeof(*x.step)),
				  calloc(w->t->workers, sizeof(*x.times)),
				  calloc(w->t->steps, sizeof(*x.loss)),
				  calloc(w->t->workers, sizeof(*x.row)) };
	bool ok = rest && x.step && x.times && x.loss && x.row;

	for (uint32_t r = 0; ok && r < w->t->roles; r++) {
		skew[r].k = role_skew(w, w->t->self_ns, r, slow, &x);
		rest[r] = role_skew(w, w->self, r, slow, &x);
	}
	for (uint32_t i = 0; ok && i < w->flags; i++) {
		struct workers_flag *f = &w->flag[i];
		uint32_t role = f->replica ? 0 : w->t->role[f->worker];

		if (f->replica || f->flag.measure != PEERS_SELF || !skew_is_uneven(&skew[role].k) ||
		    !skew_covers(&rest[role], f->flag.excess))
			continue;
		f->told = true;
		skew[role].folded++;
	}
	free(rest);
	free(x.step);
	free(x.times);
	free(x.loss);
	free(x.row);
	return ok ? 0 : -ENOMEM;
}

static void tell_skew(struct workers *w, const struct role_skew *skew, workers_tell *tell,
		      void *context)
{
	static const struct workers_finding none;

	for (uint32_t r = 0; r < w->t->roles; r++) {
		struct workers_finding out = none;
		struct finding *f = &out.finding;
		const struct skew *k = &skew[r].k;

		if (!skew_is_uneven(k))
			continue;
		f->first_step = w->t->step[0];
		f->last_step = w->t->step[w->t->steps - 1];
		out.sure_step = f->last_step;
		for (uint32_t i = 0; i < w->t->workers && f->rank_count < FINDING_RANKS_MAX; i++)
			if (w->t->role[i] == r)
				f->ranks[f->rank_count++] = w->t->rank[i];
		skew_say(f, k, k->loss * w->role_level[r], skew[r].folded);
		tell(context, &out);
	}
}

/* ---- the job as a whole ---- */

struct level_change {
	uint32_t first, last, sure; /* indices of steps */
	double excess;
};

static double median_between(struct workers *w, uint32_t begin, uint32_t end)
{
	uint32_t n = 0;

	for (uint32_t s = begin; s < end; s++)
		if (isfinite(w->common[s]))
			w->scratch[n++] = w->common[s];
	return n ? median_of(w->scratch, n) : NAN;
}

/* The highest median of so many steps on end among those before. */
static double highest_before(struct workers *w, uint32_t begin, uint32_t end)
{
	double most = 0;

	for (uint32_t s = begin; s + UNIFORM_STEPS <= end; s += UNIFORM_STEPS / 4)
		most = fmax(most, median_between(w, s, s + UNIFORM_STEPS));
	return most;
}

/* Steps [at, at + UNIFORM_STEPS) lie above those before by more than their noise, and above all stretches
 * of this length: work that wanders did so before. */
static bool rises(struct workers *w, uint32_t at, uint32_t past, double *before, double *excess)
{
	uint32_t n = 0, above = 0;
	double now = median_between(w, at, at + UNIFORM_STEPS), spread;

	*before = median_between(w, at - past, at);
	for (uint32_t s = at - past; s < at; s++)
		if (isfinite(w->common[s]))
			w->scratch[n++] = fabs(w->common[s] - *before);
	spread = n ? 1.4826 * median_of(w->scratch, n) / *before : INFINITY;
	*excess = now / *before - 1;
	for (uint32_t s = at; s < at + UNIFORM_STEPS; s++)
		above += w->common[s] > *before * (1 + *excess / 2);
	return *excess > UNIFORM && above >= 0.8 * UNIFORM_STEPS &&
	       now > (1 + UNIFORM / 2) * highest_before(w, at - past, at) &&
	       *excess > UNIFORM_SIGMAS * spread * 1.2533 * sqrt(1.0 / UNIFORM_STEPS + 1.0 / past);
}

/* From a rise at `at`: where exactly it begins, and where the level comes back. */
static struct level_change follow_level(struct workers *w, uint32_t at, double before, double excess)
{
	struct level_change c = { .first = at, .sure = at + UNIFORM_STEPS - 1, .excess = excess };
	double half = before * (1 + excess / 2);
	uint32_t low = 0;

	while (c.first + 1 < w->t->steps && !(w->common[c.first] > half))
		c.first++;
	c.last = c.first;
	for (uint32_t s = c.first; s < w->t->steps && low < UNIFORM_STEPS; s++) {
		low = w->common[s] > half ? 0 : low + 1;
		c.last = low ? c.last : s;
	}
	return c;
}

/* Enough ranks were told as slow that the median worker is one of them, or nearly. */
static bool told_already(const struct workers *w, const bool *slow, const struct level_change *c)
{
	uint32_t n = w->t->workers, count = 0;

	for (uint32_t i = 0; i < n; i++)
		count += slow[(size_t)(c->first + (c->last - c->first) / 2) * n + i];
	return 4 * count > n;
}

/* How much longer a worker takes over the change than in the `past` steps before it; NAN: not known. */
static double rise_of(struct workers *w, uint32_t worker, const struct level_change *c, uint32_t past)
{
	const double *v = w->t->self_ns + worker;
	uint32_t n = 0, stride = w->t->workers;
	double before;

	for (uint32_t s = c->first > past ? c->first - past : 0; s < c->first; s++)
		if (v[(size_t)s * stride] > 0)
			w->scratch[n++] = v[(size_t)s * stride];
	before = n ? median_of(w->scratch, n) : NAN;
	n = 0;
	for (uint32_t s = c->first; s <= c->last; s++)
		if (v[(size_t)s * stride] > 0)
			w->scratch[n++] = v[(size_t)s * stride];
	return n ? median_of(w->scratch, n) / before - 1 : NAN;
}

/* Those who rose. Where some did not, it is not the job that became slower, but most of it; the paper's
 * rule knows no such thing. */
static void add_risen(struct workers *w, struct finding *f, const struct level_change *c, uint32_t past)
{
	uint32_t stayed = 0;

	for (uint32_t i = 0; i < w->t->workers; i++) {
		bool stays = w->t->config.mode == PEERS_ROBUST &&
			     rise_of(w, i, c, past) < UNIFORM_SHARED * f->excess;

		stayed += stays;
		if (!stays && f->rank_count < FINDING_RANKS_MAX)
			f->ranks[f->rank_count++] = w->t->rank[i];
	}
	f->kind = stayed ? FINDING_SLOW_RANK : FINDING_UNIFORM;
	finding_say(f, LAYER_UNKNOWN, f->effect_ns,
		    "the median worker takes %.1f%% longer than in the %" PRIu32 " steps before; %" PRIu32
		    " of %" PRIu32 " workers do not", 100 * f->excess, past, stayed, w->t->workers);
}

/* uneven_input: what that of any role makes of a step; no less is told. */
static void tell_uniform(struct workers *w, const bool *slow, double uneven_input, workers_tell *tell,
			 void *context)
{
	static const struct workers_finding none;
	const struct workers_table *t = w->t;

	for (uint32_t at = UNIFORM_PAST, from = 0; at + UNIFORM_STEPS <= t->steps; at++) {
		uint32_t past = at - from < UNIFORM_PAST_MOST ? at - from : UNIFORM_PAST_MOST;
		struct workers_finding out = none;
		struct finding *f = &out.finding;
		struct level_change c;
		double before, excess;

		if (past < UNIFORM_PAST || !rises(w, at, past, &before, &excess))
			continue;
		c = follow_level(w, at, before, excess);
		from = c.last + 1;
		at = c.last;
		if (told_already(w, slow, &c) || excess < uneven_input)
			continue;
		f->cause = CAUSE_UNKNOWN;
		f->first_step = t->step[c.first];
		f->last_step = t->step[c.last];
		out.sure_step = t->step[c.sure];
		out.window = UNIFORM_STEPS;
		f->excess = median_between(w, c.first, c.last + 1) / before - 1;
		f->effect_ns = f->excess * before * w->step_ns;
		f->confidence = 0.7;
		add_risen(w, f, &c, past);
		tell(context, &out);
	}
}

int workers_findings(struct workers *w, workers_tell *tell, void *context)
{
	bool *slow = flagged_cells(w);
	struct role_skew *skew = calloc(w->t->roles, sizeof(*skew));
	double input = 0;
	int err = -ENOMEM;

	if (slow && skew)
		err = find_skews(w, slow, skew);
	if (!err)
		err = tell_flags(w, tell, context);
	if (!err) {
		tell_stages(w, tell, context);
		tell_skew(w, skew, tell, context);
		for (uint32_t r = 0; r < w->t->roles; r++)
			if (skew_is_uneven(&skew[r].k))
				input = fmax(input, skew[r].k.loss);
		tell_uniform(w, slow, input, tell, context);
	}
	free(slow);
	free(skew);
	return err;
}
