/* SPDX-License-Identifier: Apache-2.0
 * Runs workers.h on the tables of jobsteps.h, and adds the checks that only traces allow. */
#include "analysis/trace/crossrank.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/robust/median.h"
#include "analysis/trace/crossrank_private.h"
#include "analysis/trace/workers.h"
#include "base/carve.h"
#include "model/thresholds.h"

/* The thresholds of self time have floors because of bursts on single nodes and because of varying
 * work. A transfer has neither, since all ranks wait for it together. Scaling by this unit lowers
 * the threshold to a quarter of the floors. */
#define TRANSFER_UNIT 4.0
/* Confidence of a finding about all steps. */
#define CONSTANT_SURE 0.7
/* Series in workers_table.more: the pace of all kernels, then the pace of each leading kernel. */
#define SERIES_LEAD 2u
#define SERIES_MAX  (1 + JOBSTEPS_LEADS_MAX)

double crossrank_median(const double *v, uint32_t first, uint32_t last, double *scratch)
{
	return median_known(v + first, last + 1 - first, scratch);
}

bool crossrank_slow_in(const struct crossrank *c, uint32_t r, uint32_t s)
{
	return c->slow && c->slow[(size_t)r * c->n + s];
}

/* ---- findings ---- */

/* Two simultaneous faults are two findings if their layers differ, or if they are of single kernels
 * whose slowness is too small to show in the step. */
static uint32_t kind_of(void *context, uint32_t worker, uint32_t series, uint64_t first,
			uint64_t last)
{
	struct crossrank *c = context;
	struct finding *f = series < SERIES_LEAD ? calloc(1, sizeof(*f)) : NULL;
	uint32_t kind = LAYER_COUNT + series;

	if (!f)
		return kind;
	f->kind = FINDING_SLOW_RANK;
	c->rc = crossrank_cause(c, f, &worker, 1, (uint32_t)first, (uint32_t)last);
	kind = finding_cause_layer(f->cause);
	free(f);
	return kind;
}

static void add_lead_evidence(const struct crossrank *c, struct finding *f,
			      const struct workers_finding *w)
{
	uint32_t lead = w->series - SERIES_LEAD;
	double ns = crossrank_median(c->steps->lead_pace[lead] + (size_t)w->worst * c->n,
				     (uint32_t)f->first_step, (uint32_t)f->last_step, c->scratch);

	f->cause = w->also >= thresholds.count.few ? CAUSE_GPU_SLOW : CAUSE_GPU_KERNEL;
	finding_say(f, LAYER_GPU, 0, "kernel %.160s takes %.2f times as long as usual",
		    c->job->name[c->steps->lead[lead]], ns);
	if (w->also)
		finding_say(f, LAYER_GPU, 0, "and so do %u other kernels", w->also);
}

static int report_finding(struct crossrank *c, struct crossrank_finding *out, const uint32_t *ranks,
			  uint32_t count)
{
	struct finding *f = &out->finding;
	int rc =
	    crossrank_cause(c, f, ranks, count, (uint32_t)f->first_step, (uint32_t)f->last_step);

	if (!rc)
		c->report(c->to, out);
	return rc;
}

static void report_found(void *context, const struct workers_finding *w)
{
	struct crossrank_finding out = {.finding = w->finding, .sure_step = w->sure_step};
	struct crossrank *c = context;
	struct finding *f = &out.finding;
	uint32_t count = 0;

	if (c->rc || (c->mode == PEERS_SYSOM && f->kind != FINDING_SLOW_RANK))
		return;
	if (f->kind == FINDING_IMBALANCE) {
		c->report(c->to, &out);
		return;
	}
	if (w->series >= SERIES_LEAD)
		add_lead_evidence(c, f, w);
	c->list[count++] = w->worst;
	for (uint32_t i = 0; i < f->rank_count; i++)
		for (uint32_t r = 0; r < c->ranks; r++)
			if (c->steps->rank[r].rank == f->ranks[i] && r != w->worst &&
			    count < c->ranks)
				c->list[count++] = r;
	c->rc = report_finding(c, &out, c->list, count);
}

/* ---- tables ---- */

struct tables {
	struct workers_table t;
	uint64_t *step;
	int32_t *rank;
	uint32_t *role;
	bool *other_work;
	const double *more[SERIES_MAX];
	void *memory;
};

static size_t lay_out(const struct crossrank *c, struct tables *x)
{
	struct carve at = {.memory = x->memory};

	x->step = carve_take(&at, c->n, sizeof(*x->step));
	x->rank = carve_take(&at, c->ranks, sizeof(*x->rank));
	x->role = carve_take(&at, c->ranks, sizeof(*x->role));
	x->other_work = carve_take(&at, c->n, sizeof(*x->other_work));
	return at.bytes;
}

/* Steps with other work on most ranks say nothing about the job as a whole. */
static void other_work(const struct crossrank *c, bool *out)
{
	const double *work = c->steps->value[JOBSTEPS_WORK];
	double *usual = c->scratch, *other = usual + c->ranks, *mine = other + c->ranks;

	for (uint32_t r = 0; r < c->ranks; r++)
		usual[r] = crossrank_median(work + (size_t)r * c->n, 0, c->n - 1, mine);
	for (uint32_t s = 0; s < c->n; s++) {
		uint32_t works = 0;

		for (uint32_t r = 0; r < c->ranks; r++) {
			double w = work[(size_t)r * c->n + s];

			if (!isnan(w) && usual[r] > 0)
				other[works++] = fabs(w / usual[r] - 1);
		}
		out[s] = works && median_of(other, works) > thresholds.same.other_work;
	}
}

static int tables_make(struct crossrank *c, struct tables *x)
{
	bool robust = c->mode == PEERS_ROBUST;

	x->memory = calloc(1, lay_out(c, x));
	c->slow = calloc((size_t)c->ranks * c->n, sizeof(*c->slow));
	if (!x->memory || !c->slow)
		return -ENOMEM;
	lay_out(c, x);
	for (uint32_t s = 0; s < c->n; s++)
		x->step[s] = s;
	for (uint32_t r = 0; r < c->ranks; r++)
		x->rank[r] = c->steps->rank[r].rank;
	other_work(c, x->other_work);
	x->more[0] = c->steps->value[JOBSTEPS_PACE];
	for (uint32_t i = 0; i < c->steps->leads; i++)
		x->more[1 + i] = c->steps->lead_pace[i];
	x->t = (struct workers_table){.workers = c->ranks,
				      .steps = c->n,
				      .step = x->step,
				      .rank = x->rank,
				      .role = x->role,
				      .roles = 1,
				      .self_ns = c->steps->value[JOBSTEPS_SELF],
				      .step_ns = c->typical_ns,
				      .uneven = robust,
				      .more = x->more,
				      .more_count = robust ? 1 + c->steps->leads : 0,
				      .other_work = x->other_work,
				      .kind = robust ? kind_of : NULL,
				      .context = c,
				      .slow = c->slow};
	peers_config_default(&x->t.config);
	x->t.config.mode = c->mode;
	if (c->n < x->t.config.w)
		x->t.config.w = c->n;
	return 0;
}

static int find_in_tables(struct crossrank *c)
{
	struct tables x = {.memory = NULL};
	int rc = tables_make(c, &x);

	if (!rc)
		rc = workers_find(&x.t, report_found, c);
	free(x.memory);
	return rc ? rc : c->rc;
}

static bool is_reported(const struct crossrank *c, uint32_t r)
{
	for (uint32_t s = 0; s < c->n; s++)
		if (crossrank_slow_in(c, r, s))
			return true;
	return false;
}

/* ---- slow in all steps ---- */

/* The typical ratio of rank r's kernels to those of the other ranks. *agree: share of the kernels
 * that show at least half of the excess. 0: too few kernels. */
static double constant_ratio(struct crossrank *c, uint32_t r, double *agree)
{
	double ratio[JOBSTEPS_LEADS_MAX], sorted[JOBSTEPS_LEADS_MAX], typical;
	uint32_t n = 0, same = 0;

	for (uint32_t i = 0; i < c->steps->leads; i++) {
		uint32_t others = 0;
		double mine = jobsteps_lead_ns(c->steps, r, i);

		for (uint32_t q = 0; q < c->ranks; q++)
			if (q != r && jobsteps_lead_ns(c->steps, q, i) > 0)
				c->scratch[others++] = jobsteps_lead_ns(c->steps, q, i);
		if (mine > 0 && others >= 2)
			ratio[n++] = mine / median_of(c->scratch, others);
	}
	*agree = 0;
	if (n < thresholds.count.few)
		return 0;
	memcpy(sorted, ratio, n * sizeof(*sorted));
	typical = median_of(sorted, n);
	for (uint32_t i = 0; i < n; i++)
		same += ratio[i] > 1 + (typical - 1) / 2;
	*agree = (double)same / n;
	return typical;
}

/* Reports ranks most of whose leading kernels take longer than their peers', by a typical ratio
 * that is an outlier. */
static int report_constant(struct crossrank *c)
{
	double *ratio = malloc(3 * c->ranks * sizeof(*ratio)),
	       *agree = ratio ? ratio + c->ranks : NULL;
	double usual, spread;
	int rc = 0;

	if (!ratio)
		return -ENOMEM;
	for (uint32_t r = 0; r < c->ranks; r++)
		ratio[r] = constant_ratio(c, r, &agree[r]);
	memcpy(agree + c->ranks, ratio, c->ranks * sizeof(*ratio));
	usual = median_of(agree + c->ranks, c->ranks);
	spread = MEDIAN_MAD_SIGMA * median_mad(agree + c->ranks, c->ranks, usual);
	for (uint32_t r = 0; r < c->ranks && !rc; r++) {
		struct crossrank_finding out = {.sure_step = thresholds.count.few};
		struct finding *f = &out.finding;

		if (!(ratio[r] >
		      usual + fmax(thresholds.excess.work, thresholds.sure.far_errors * spread)) ||
		    agree[r] < thresholds.part.most || is_reported(c, r))
			continue;
		f->kind = FINDING_SLOW_RANK;
		f->cause = CAUSE_GPU_SLOW;
		f->last_step = c->n - 1;
		f->excess = ratio[r] - 1;
		f->confidence = CONSTANT_SURE;
		finding_say(f, LAYER_GPU, 0,
			    "its kernels take %.2f times as long as on its peers in all steps; "
			    "%.0f%% of the kernels show at least half of the excess",
			    ratio[r], 100 * agree[r]);
		f->ranks[f->rank_count++] = c->steps->rank[r].rank;
		rc = report_finding(c, &out, &r, 1);
	}
	free(ratio);
	return rc;
}

/* ---- transfers ---- */

static void report_transfer_flag(void *context, const struct peers_flag *flag)
{
	struct crossrank_finding out = {.sure_step = flag->sure_step};
	struct crossrank *c = context;
	struct finding *f = &out.finding;

	if (c->rc || flag->first_step < thresholds.count.few)
		return;
	f->kind = FINDING_UNIFORM;
	f->cause = CAUSE_NET_TRANSFER;
	f->first_step = flag->first_step;
	f->last_step = flag->last_step;
	f->excess = flag->excess / TRANSFER_UNIT;
	f->effect_ns = f->excess * c->typical_ns;
	f->confidence = 1 - 0.4 / (flag->score * flag->score);
	finding_say(f, LAYER_NETWORK, f->effect_ns,
		    "collectives take %.3f ms per step longer after the last rank has entered",
		    f->effect_ns / 1e6);
	for (uint32_t r = 0; r < c->ranks; r++) {
		if (r < FINDING_RANKS_MAX)
			f->ranks[f->rank_count++] = c->steps->rank[r].rank;
		c->list[r] = r;
	}
	c->rc = report_finding(c, &out, c->list, c->ranks);
}

/* Whether all ranks with data have data in step s. Otherwise the last rank to enter may be
 * missing. */
static bool all_known(const struct crossrank *c, uint32_t s)
{
	const double *kernels = c->steps->value[JOBSTEPS_KERNELS];

	for (uint32_t r = 0; r < c->ranks; r++) {
		const double *mine = kernels + (size_t)r * c->n;

		if (isnan(mine[s]) && !isnan(crossrank_median(mine, 0, c->n - 1, c->scratch)))
			return false;
	}
	return true;
}

/* Reports slower transfers: from the last entry to the end of a collective. */
static int report_transfer(struct crossrank *c)
{
	double *v = malloc(2 * (size_t)c->n * sizeof(*v)), *scratch = v ? v + c->n : NULL, count,
	       usual;
	uint64_t *step = malloc(c->n * sizeof(*step));
	struct peers_config config;
	uint32_t n = 0, known = 0;
	int rc = v && step ? 0 : -ENOMEM;

	peers_config_default(&config);
	for (uint32_t s = 0; s < c->n && !rc; s++)
		if (c->steps->transfers[s])
			scratch[n++] = c->steps->transfers[s];
	count = rc ? 0 : median_of(scratch, n);
	/* A step whose number of collectives differs is not comparable. */
	for (uint32_t s = 0; s < c->n && !rc; s++) {
		v[s] = c->steps->transfers[s] && fabs(c->steps->transfers[s] - count) < 0.5 &&
			       all_known(c, s)
			   ? c->steps->transfer_ns[s]
			   : NAN;
		step[s] = s;
		if (!isnan(v[s]))
			scratch[known++] = v[s];
	}
	usual = rc || !known ? NAN : median_nth(scratch, known, known * 2 / 5);
	for (uint32_t s = 0; s < c->n && !rc; s++)
		v[s] = 1 + TRANSFER_UNIT * (v[s] - usual) / c->typical_ns;
	if (!rc)
		rc = workers_alone(&config, step, c->n, v, c->typical_ns, report_transfer_flag, c);
	free(v);
	free(step);
	return rc ? rc : c->rc;
}

/* ---- entry point ---- */

/* The median of a measure over all steps and ranks. */
static double usual_of(struct crossrank *c, enum jobsteps_measure m)
{
	return crossrank_median(c->steps->value[m], 0, c->ranks * c->n - 1, c->scratch);
}

static int report_hang(struct crossrank *c)
{
	uint32_t *members = calloc(c->steps->align->instances + 1u, sizeof(*members));

	if (!members)
		return -ENOMEM;
	crossrank_hang(c, usual_of(c, JOBSTEPS_LATENCY), members, c->list);
	free(members);
	return 0;
}

static int report_all(struct crossrank *c)
{
	int rc = c->typical_ns > 0 ? find_in_tables(c) : 0;

	if (c->mode == PEERS_SYSOM)
		return rc;
	if (!rc && c->ranks > 2)
		rc = report_constant(c);
	if (!rc && c->ranks > 1 && c->typical_ns > 0)
		rc = report_transfer(c);
	if (!rc && c->ranks > 1)
		rc = report_hang(c);
	return rc;
}

int crossrank_find(const struct crossrank_job *job, enum peers_mode mode,
		   void (*report)(void *to, const struct crossrank_finding *f), void *to)
{
	struct crossrank c = {.job = job,
			      .steps = job->steps,
			      .mode = mode,
			      .ranks = job->steps->rank_count,
			      .n = job->steps->steps,
			      .report = report,
			      .to = to};
	int rc = -ENOMEM;

	if (!c.ranks || !c.n)
		return 0;
	c.scratch =
	    malloc(((size_t)c.ranks * c.n + 3 * (size_t)c.n + 3 * c.ranks) * sizeof(*c.scratch));
	c.list = malloc(c.ranks * sizeof(*c.list));
	if (c.scratch && c.list) {
		c.typical_ns = usual_of(&c, JOBSTEPS_SELF);
		rc = report_all(&c);
	}
	free(c.scratch);
	free(c.list);
	free(c.slow);
	return rc;
}
