/* SPDX-License-Identifier: Apache-2.0
 * The job as a whole is reported first, because a common rise explains smaller rises of single
 * ranks. Slow ranks follow, then roles and skew. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "analysis/robust/median.h"
#include "analysis/slow/skew.h"
#include "analysis/trace/workers_private.h"
#include "base/carve.h"
#include "base/order.h"
#include "model/thresholds.h"

/* The largest share of wrong flags at the threshold, measured with injected faults
 * (bench-diagnosis). */
#define UNSURE 0.1

static double unit_ns(const struct workers *w, const struct workers_flag *f)
{
	if (f->flag.measure == PEERS_LATE || f->replica)
		return w->step_ns;
	return w->usual[f->worker];
}

static double effect_ns(const struct workers *w, const struct workers_flag *f)
{
	return f->self_excess * unit_ns(w, f);
}

ORDER_BY(earlier, struct workers_flag,
	 ORDER_UP(flag.first_step) ?: ORDER_DOWN(flag.score) ?: ORDER_UP(worker));

static double overlap(const struct workers_flag *a, const struct workers_flag *b)
{
	double first = (double)(a->flag.first_step > b->flag.first_step ? a->flag.first_step
									: b->flag.first_step);
	double last =
	    (double)(a->flag.last_step < b->flag.last_step ? a->flag.last_step : b->flag.last_step);
	double begin = (double)(a->flag.first_step < b->flag.first_step ? a->flag.first_step
									: b->flag.first_step);
	double end =
	    (double)(a->flag.last_step > b->flag.last_step ? a->flag.last_step : b->flag.last_step);

	return last < first ? 0 : (last - first + 1) / (end - begin + 1);
}

static double confidence_of(const struct workers_flag *f)
{
	double c = 1 - UNSURE / fmax(f->flag.score, 1);

	c = c > 0.99 ? 0.99 : c;
	return f->pair ? 0.85 * c : c;
}

static void say_flag(const struct workers *w, struct finding *f, const struct workers_flag *g)
{
	const char *who = g->replica ? "replica" : "rank";
	int32_t name = g->replica ? (int32_t)g->worker : w->t->rank[g->worker];

	finding_say(f, LAYER_UNKNOWN, effect_ns(w, g),
		    "%s %" PRId32 "%s %.2f%% (%.3f ms per step) above %s over steps %" PRIu64
		    " to %" PRIu64 "; confirmed over %" PRIu32 " steps, %.1fx the threshold",
		    who, name, g->flag.measure == PEERS_LATE ? " is late by" : ": self time",
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

ORDER_BY(worse, const struct workers_flag *,
	 ORDER((*b)->self_excess, (*a)->self_excess) ?: ORDER((*a)->worker, (*b)->worker));

/* Flags at the same time are one fault. The worst flag decides the steps of the finding. */
static void report_group(struct workers *w, struct workers_flag **group, uint32_t n,
			 workers_report *report, void *context)
{
	struct workers_finding out = {.sure_step = 0};
	struct finding *f = &out.finding;
	const struct workers_flag *worst;

	qsort(group, n, sizeof(*group), worse);
	worst = group[0];
	f->kind = worst->replica ? FINDING_IMBALANCE : FINDING_SLOW_RANK;
	f->cause = worst->replica ? CAUSE_IMBALANCE_INPUT : CAUSE_UNKNOWN;
	f->first_step = worst->flag.first_step;
	f->last_step = worst->flag.last_step;
	f->excess = worst->self_excess;
	f->effect_ns = effect_ns(w, worst);
	out.worst = worst->worker;
	out.series = worst->series;
	out.also = worst->also;
	out.sure_step = worst->flag.sure_step;
	out.window = worst->flag.window;
	out.measure = worst->flag.measure;
	for (uint32_t k = 0; k < n; k++) {
		f->confidence = fmax(f->confidence, confidence_of(group[k]));
		out.sure_step = group[k]->flag.sure_step < out.sure_step ? group[k]->flag.sure_step
									 : out.sure_step;
		add_ranks(w, f, group[k]);
		if (!group[k]->series) /* the caller adds evidence for other series */
			say_flag(w, f, group[k]);
		group[k]->reported = true;
	}
	if (worst->replica)
		finding_say(
		    f, LAYER_SOFTWARE, 0,
		    "all stages of the replica take longer together: look at its input or at "
		    "what its ranks share");
	report(context, &out);
}

/* Joins overlapping stretches of one rank in several series into the first of them. The most
 * significant series sets the begin and end. */
static void join_series(struct workers *w)
{
	for (uint32_t i = 0; i < w->flags; i++)
		for (uint32_t k = 0; k < w->flags; k++) {
			struct workers_flag *a = &w->flag[i], *b = &w->flag[k];

			if (a->reported || b->reported || a->worker != b->worker ||
			    a->series >= b->series || overlap(a, b) <= 0)
				continue;
			b->reported = true;
			a->also += 1 + b->also;
			if (b->flag.score > a->flag.score) {
				a->flag.first_step = b->flag.first_step;
				a->flag.last_step = b->flag.last_step;
				a->flag.score = b->flag.score;
				a->flag.window = b->flag.window;
			}
			if (b->flag.sure_step < a->flag.sure_step)
				a->flag.sure_step = b->flag.sure_step;
		}
}

static int report_flags(struct workers *w, workers_report *report, void *context)
{
	struct workers_flag **group = calloc(w->flags + 1, sizeof(struct workers_flag *));

	if (!group)
		return -ENOMEM;
	join_series(w);
	ORDER_SORT(w->flag, w->flags, earlier);
	for (uint32_t i = 0; i < w->flags && w->t->kind; i++) {
		struct workers_flag *f = &w->flag[i];

		if (!f->reported)
			f->kind = w->t->kind(w->t->context, f->worker, f->series,
					     f->flag.first_step, f->flag.last_step);
	}
	for (uint32_t i = 0; i < w->flags; i++) {
		uint32_t n = 0;

		for (uint32_t j = i; j < w->flags && !w->flag[i].reported; j++) {
			struct workers_flag *f = &w->flag[j];
			double common = overlap(&w->flag[i], f);
			bool same = f->worker == w->flag[i].worker && common > 0;

			if (f->reported || f->replica != w->flag[i].replica ||
			    f->kind != w->flag[i].kind || (common < thresholds.part.half && !same))
				continue;
			group[n++] = f;
		}
		if (n)
			report_group(w, group, n, report, context);
	}
	free(group);
	return 0;
}

/* ---- roles ---- */

static void report_stage(struct workers *w, uint32_t role, double excess, double others,
			 workers_report *report, void *context)
{
	struct workers_finding out = {.sure_step = 0};
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
		    "stage %" PRIu32 " computes %.3f ms per step, the others a median of %.3f ms",
		    role, w->role_level[role] / 1e6, others / 1e6);
	report(context, &out);
}

static void report_stages(struct workers *w, workers_report *report, void *context)
{
	for (uint32_t r = 0; r < w->t->roles && w->t->roles > 1; r++) {
		uint32_t n = 0;
		double others;

		for (uint32_t k = 0; k < w->t->roles && n < w->t->workers; k++)
			if (k != r && w->role_level[k] > 0)
				w->scratch[n++] = w->role_level[k];
		others = median_of(w->scratch, n);
		if (n && w->role_level[r] > others * (1 + thresholds.excess.work))
			report_stage(w, r, w->role_level[r] / others - 1, others, report, context);
	}
}

/* A rank's excess self time over the stretch of another series. */
static double self_excess_of(struct workers *w, const struct workers_flag *f)
{
	const struct workers_table *t = w->t;
	uint32_t n = 0;

	for (uint32_t s = 0; s < t->steps; s++)
		if (workers_is_in(t, s, &f->flag))
			w->scratch[n++] = w->self[workers_cell(t, f->worker, s)];
	return fmax(0, median_known(w->scratch, n, w->scratch) - 1);
}

/* Marks the cells in a flagged stretch of their rank. */
static void flagged_cells(const struct workers *w, bool *in)
{
	const struct workers_table *t = w->t;

	for (uint32_t k = 0; k < w->flags; k++) {
		const struct workers_flag *f = &w->flag[k];

		for (uint32_t s = 0; s < t->steps && !f->replica; s++)
			if (workers_is_in(t, s, &f->flag))
				in[workers_cell(t, f->worker, s)] = true;
	}
}

struct role_skew {
	struct skew k;
	uint32_t folded; /* flags that the skew explains */
};

struct skew_scratch {
	struct skew_step *step; /* [steps] */
	uint32_t *times;	/* [workers] */
	double *loss, *row;	/* [steps], [workers] */
	struct skew *rest;	/* [roles] */
};

static size_t lay_out(const struct workers_table *t, void *memory, struct skew_scratch *x)
{
	struct carve at = {.memory = memory};

	x->step = carve_take(&at, t->steps, sizeof(*x->step));
	x->times = carve_take(&at, t->workers, sizeof(*x->times));
	x->loss = carve_take(&at, t->steps, sizeof(*x->loss));
	x->row = carve_take(&at, t->workers, sizeof(*x->row));
	x->rest = carve_take(&at, t->roles, sizeof(*x->rest));
	return at.bytes;
}

/* The skew of a role: whether the heaviest rank changes, and what this costs. value:
 * [workers][steps]. */
static struct skew role_skew(struct workers *w, const double *value, uint32_t role,
			     const bool *slow, struct skew_scratch *x)
{
	const struct workers_table *t = w->t;

	for (uint32_t s = 0; s < t->steps; s++) {
		for (uint32_t i = 0; i < t->workers; i++) {
			size_t at = workers_cell(t, i, s);

			x->row[i] = t->role[i] != role || slow[at] ? NAN : value[at];
		}
		x->step[s] = skew_of_step(x->row, NULL, t->workers, w->scratch);
	}
	return skew_of(x->step, t->steps, x->times, t->workers, x->loss);
}

/* Computes the skew of every role. A flag that the role's unequal input explains is not
 * reported. This uses the skew without the input of whole replicas, because that input has its
 * own finding. */
static int find_skews(struct workers *w, const bool *slow, struct role_skew *skew)
{
	struct skew_scratch x;
	void *memory = malloc(lay_out(w->t, NULL, &x));

	if (!memory)
		return -ENOMEM;
	lay_out(w->t, memory, &x);
	for (uint32_t r = 0; r < w->t->roles; r++) {
		skew[r].k = role_skew(w, w->t->uneven ? w->self : w->t->self_ns, r, slow, &x);
		x.rest[r] = role_skew(w, w->self, r, slow, &x);
	}
	for (uint32_t i = 0; i < w->flags; i++) {
		struct workers_flag *f = &w->flag[i];
		uint32_t role = f->replica ? 0 : w->t->role[f->worker];

		if (f->replica || f->flag.measure != PEERS_SELF || !skew_is_uneven(&skew[role].k) ||
		    !skew_covers(&x.rest[role], f->self_excess))
			continue;
		f->reported = true;
		skew[role].folded++;
	}
	free(memory);
	return 0;
}

static void report_skew(struct workers *w, const struct role_skew *skew, workers_report *report,
			void *context)
{
	for (uint32_t r = 0; r < w->t->roles; r++) {
		struct workers_finding out = {.sure_step = 0};
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
		report(context, &out);
	}
}

/* ---- the job as a whole ---- */

/* The length of each step relative to the usual length, over the ranks that are not slow by
 * themselves. NAN: most ranks are slow; they have a finding of their own. */
static void commons(struct workers *w, const bool *slow)
{
	const struct workers_table *t = w->t;
	uint32_t known = 0;
	double usual;

	for (uint32_t s = 0; s < t->steps; s++) {
		uint32_t n = 0, away = 0;

		for (uint32_t i = 0; i < t->workers; i++) {
			size_t at = workers_cell(t, i, s);
			double v = t->uneven ? w->self[at] : t->self_ns[at] / w->usual[i];

			if (!(v > 0))
				continue;
			if (slow[at])
				away++;
			else
				w->scratch[n++] = v;
		}
		w->common[s] = !n || away > n || (t->other_work && t->other_work[s])
				   ? NAN
				   : median_of(w->scratch, n);
	}
	/* While a rank is slow, waiting may hide a part of the others' self times. */
	for (uint32_t s = 0; s < t->steps; s++) {
		w->away[s] = false;
		for (uint32_t i = 0; i < t->workers; i++)
			w->away[s] |= slow[workers_cell(t, i, s)];
		if (w->common[s] > 0 && !w->away[s])
			w->scratch[known++] = w->common[s];
	}
	for (uint32_t s = 0; s < t->steps && known < thresholds.count.many; s++)
		if (w->common[s] > 0 && w->away[s])
			w->scratch[known++] = w->common[s];
	usual = median_lower(w->scratch, known, WORKERS_MOST_STEPS);
	for (uint32_t s = 0; s < t->steps; s++)
		w->common[s] /= usual;
}

/* How much longer than usual a rank takes over the stretch, as a share; NAN: not known. */
static double rise_of(struct workers *w, uint32_t worker, const struct peers_flag *c)
{
	const struct workers_table *t = w->t;
	const double *v = (t->uneven ? w->self : t->self_ns) + workers_cell(t, worker, 0);
	uint32_t in = 0, out = 0;
	double now, usual = 1;

	for (uint32_t s = 0; s < t->steps; s++)
		if (v[s] > 0 && workers_is_in(t, s, c))
			w->scratch[in++] = v[s];
	now = in ? median_of(w->scratch, in) : NAN;
	for (uint32_t s = 0; s < t->steps && !t->uneven; s++)
		if (v[s] > 0 && !workers_is_in(t, s, c))
			w->scratch[out++] = v[s];
	if (!t->uneven)
		usual = median_lower(w->scratch, out, WORKERS_MOST_STEPS);
	return now / usual - 1;
}

/* Adds the ranks whose time rose. If the time of some did not rise, most ranks are slow, not the
 * whole job. The paper's rule does not make this distinction. */
static void add_risen(struct workers *w, struct finding *f, const struct peers_flag *c)
{
	uint32_t stayed = 0;

	for (uint32_t i = 0; i < w->t->workers; i++) {
		bool stays = w->t->config.mode == PEERS_ROBUST &&
			     rise_of(w, i, c) < thresholds.part.shows * f->excess;

		stayed += stays;
		if (!stays && f->rank_count < FINDING_RANKS_MAX)
			f->ranks[f->rank_count++] = w->t->rank[i];
	}
	f->kind = stayed ? FINDING_SLOW_RANK : FINDING_UNIFORM;
	finding_say(f, LAYER_UNKNOWN, f->effect_ns,
		    "the median rank takes %.1f%% longer than usual; %" PRIu32 " of %" PRIu32
		    " ranks do not",
		    100 * f->excess, stayed, w->t->workers);
}

struct rising {
	struct workers *w;
	double uneven_input; /* the largest skew of any role; a smaller rise is not reported */
	workers_report *report;
	void *context;
};

static void report_rise(void *context, const struct peers_flag *c)
{
	struct rising *r = context;
	struct workers *w = r->w;
	struct workers_finding out = {.sure_step = 0};
	struct finding *f = &out.finding;
	uint32_t before = 0;

	for (uint32_t s = 0; s < w->t->steps && w->t->step[s] < c->first_step; s++)
		before += w->common[s] > 0;
	if (before < (w->t->other_work ? thresholds.count.few : thresholds.count.many) ||
	    c->excess < r->uneven_input)
		return;
	f->cause = CAUSE_UNKNOWN;
	f->first_step = c->first_step;
	f->last_step = c->last_step;
	out.sure_step = c->sure_step;
	out.window = c->window;
	f->excess = c->excess;
	f->effect_ns = f->excess * w->step_ns;
	f->confidence = confidence_of(&(struct workers_flag){.flag = *c});
	add_risen(w, f, c);
	/* a rank whose excess is less than the common rise needs no finding of its own */
	for (uint32_t i = 0; i < w->flags && f->kind == FINDING_UNIFORM; i++)
		w->flag[i].reported |= w->flag[i].self_excess < c->excess &&
				       overlap(&w->flag[i], &(struct workers_flag){.flag = *c}) >=
					   thresholds.part.half;
	for (uint32_t i = 0; i < w->t->workers && f->rank_count; i++)
		if (w->t->rank[i] == f->ranks[0])
			out.worst = i;
	r->report(r->context, &out);
}

static int report_uniform(struct workers *w, const bool *slow, double uneven_input,
			  workers_report *report, void *context)
{
	struct rising r = {w, uneven_input, report, context};
	struct peers_config c = w->t->config;

	c.mode = PEERS_ROBUST;
	c.least[PEERS_SELF] = w->t->other_work ? 0 : thresholds.excess.work;
	for (uint32_t i = 0, k = 0; i < PEERS_WINDOWS && !w->t->other_work; i++) {
		uint32_t window = c.windows[i];

		c.windows[i] = 0;
		if (window >= thresholds.count.many)
			c.windows[k++] = window;
	}
	commons(w, slow);
	return workers_alone(&c, w->t->step, w->t->steps, w->common, w->step_ns, report_rise, &r);
}

int workers_findings(struct workers *w, workers_report *report, void *context)
{
	bool *slow =
	    w->t->slow ? w->t->slow : calloc((size_t)w->t->steps * w->t->workers, sizeof(*slow));
	struct role_skew *skew = calloc(w->t->roles, sizeof(*skew));
	double input = 0;
	int err = -ENOMEM;

	for (uint32_t i = 0; i < w->flags; i++)
		w->flag[i].self_excess =
		    w->flag[i].series ? self_excess_of(w, &w->flag[i]) : w->flag[i].flag.excess;
	if (slow && skew) {
		flagged_cells(w, slow);
		err = find_skews(w, slow, skew);
	}
	if (!err) {
		for (uint32_t r = 0; r < w->t->roles; r++)
			if (skew_is_uneven(&skew[r].k))
				input = fmax(input, skew[r].k.loss);
		err = report_uniform(w, slow, input, report, context);
	}
	if (!err)
		err = report_flags(w, report, context);
	if (!err) {
		report_stages(w, report, context);
		report_skew(w, skew, report, context);
	}
	if (slow != w->t->slow)
		free(slow);
	free(skew);
	return err;
}
