/* SPDX-License-Identifier: Apache-2.0
 * A rank's steps are numbered by the collectives that they share with the reference, not by
 * counting. A trace may lack steps or split one in two, and counting would then shift all later
 * steps. */
#include "analysis/trace/jobsteps.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/robust/median.h"
#include "base/carve.h"
#include "base/order.h"
#include "base/sorted.h"
#include "model/record.h"
#include "model/thresholds.h"

/* The most collectives per step that are counted exactly. */
#define COLLS_COUNTED 4096u

/* ---- numbering ---- */

/* Finds the end of each step on the device: the end of its last kernel, or, without kernels, the
 * end of the step before. */
static int ends_find(struct jobsteps_rank *x)
{
	uint64_t last = x->device_begin_ns;

	x->end_ns = malloc((x->step_count ? x->step_count : 1) * sizeof(*x->end_ns));
	if (!x->end_ns)
		return -ENOMEM;
	for (uint32_t k = 0; k < x->step_count; k++) {
		last = x->step[k].device_end_ns > last ? x->step[k].device_end_ns : last;
		x->end_ns[k] = last;
	}
	return 0;
}

/* The rank's first step that ends at ns or later; step_count: none. */
static uint32_t own_at(const struct jobsteps_rank *x, uint64_t ns)
{
	return (uint32_t)sorted_find(x->end_ns, x->step_count, sizeof(*x->end_ns), ns, false);
}

/* The share of the rank's steps that have the most frequent number of common collectives. */
static double regularity(const struct align_rank *a, const struct jobsteps_rank *x)
{
	uint32_t seen[COLLS_COUNTED] = {0}, most = 0, i = 0;

	for (uint32_t k = 0; k < x->step_count; k++) {
		uint32_t n = 0;

		for (; i < a->count && a->coll[i].end_ns <= x->end_ns[k]; i++)
			n += a->coll[i].instance != ALIGN_NONE;
		if (n && k && ++seen[n < COLLS_COUNTED ? n : 0] > most)
			most = seen[n < COLLS_COUNTED ? n : 0];
	}
	return x->step_count > 1 ? (double)most / (x->step_count - 1) : 0;
}

/* The rank whose steps number the job's steps: the most regular rank. Of equally regular ranks, the
 * one whose number of steps is nearest to the median. */
static uint32_t reference_of(const struct jobsteps *j)
{
	double *v = malloc(j->rank_count * sizeof(*v)), usual, best = -1, best_off = 0;
	uint32_t n = 0, out = 0;

	if (!v)
		return 0;
	for (uint32_t r = 0; r < j->rank_count; r++)
		if (j->rank[r].step_count)
			v[n++] = j->rank[r].step_count;
	usual = median_of(v, n);
	free(v);
	for (uint32_t r = 0; r < j->rank_count; r++) {
		double share = regularity(&j->align->rank[r], &j->rank[r]);
		double off = fabs(j->rank[r].step_count - usual);

		if (!j->rank[r].step_count || share < best - thresholds.same.work ||
		    (share <= best + thresholds.same.work && off >= best_off && best >= 0))
			continue;
		best = share;
		best_off = off;
		out = r;
	}
	return out;
}

/* The reference's step in which each instance ends; JOBSTEPS_NONE: none. NULL: no memory. */
static uint32_t *steps_of_instances(const struct jobsteps *j, uint32_t ref)
{
	uint32_t n = j->align->instances ? j->align->instances : 1;
	uint32_t *of = malloc(n * sizeof(*of));

	for (uint32_t i = 0; of && i < n; i++)
		of[i] = JOBSTEPS_NONE;
	for (uint32_t i = 0; of && i < j->align->rank[ref].count; i++) {
		const struct align_coll *c = &j->align->rank[ref].coll[i];
		uint32_t step = own_at(&j->rank[ref], c->end_ns);

		if (c->instance < j->align->instances && step < j->steps)
			of[c->instance] = step;
	}
	return of;
}

/* The number of a step without a numbered collective, by the time of the step's middle on the
 * reference's clock. */
static uint32_t number_by_time(const struct jobsteps *j, uint32_t r, uint32_t ref, uint32_t k)
{
	const struct align_rank *a = &j->align->rank[r];
	const struct jobsteps_rank *x = &j->rank[r];
	uint64_t middle = (k ? x->end_ns[k - 1] : x->device_begin_ns) / 2 + x->end_ns[k] / 2;
	uint32_t step = k;

	if (a->known && a->common)
		step =
		    own_at(&j->rank[ref],
			   align_to_local(j->align, ref, align_to_reference(j->align, r, middle)));
	return step < j->steps ? step : JOBSTEPS_NONE;
}

/* The number of the rank's step k. *at: index of the step's first collective; advanced past the
 * step. */
static uint32_t number_of(const struct jobsteps *j, const uint32_t *of, uint32_t r, uint32_t ref,
			  uint32_t k, uint32_t *at)
{
	const struct align_rank *a = &j->align->rank[r];
	uint32_t votes = 0, most = 0, run = 0, last = JOBSTEPS_NONE, number = JOBSTEPS_NONE;

	for (; *at < a->count && a->coll[*at].end_ns <= j->rank[r].end_ns[k]; (*at)++) {
		uint32_t i = a->coll[*at].instance,
			 step = i < j->align->instances ? of[i] : JOBSTEPS_NONE;

		if (step == JOBSTEPS_NONE)
			continue;
		run = step == last ? run + 1 : 1;
		last = step;
		votes++;
		if (run > most) {
			most = run;
			number = step;
		}
	}
	if (!votes)
		return number_by_time(j, r, ref, k);
	return most > thresholds.part.most * votes ? number : JOBSTEPS_NONE;
}

static int rank_number(struct jobsteps *j, const uint32_t *of, uint32_t r, uint32_t ref)
{
	struct jobsteps_rank *x = &j->rank[r];
	uint32_t at = 0, next = 0;

	x->number = malloc((x->step_count ? x->step_count : 1) * sizeof(*x->number));
	x->own = malloc((j->steps + 1) * sizeof(*x->own));
	if (!x->number || !x->own)
		return -ENOMEM;
	for (uint32_t k = 0; k < x->step_count; k++) {
		uint32_t s = r == ref ? k : number_of(j, of, r, ref, k, &at);

		/* numbers only rise; a step whose number would be lower than the last one gets
		 * none */
		x->number[k] = s != JOBSTEPS_NONE && s + 1 >= next ? s : JOBSTEPS_NONE;
		for (; x->number[k] != JOBSTEPS_NONE && next <= s; next++)
			x->own[next] = k;
	}
	for (; next <= j->steps; next++)
		x->own[next] = x->step_count;
	return 0;
}

static int number_all(struct jobsteps *j)
{
	uint32_t ref, *of;
	int rc = 0;

	for (uint32_t r = 0; r < j->rank_count && !rc; r++)
		rc = ends_find(&j->rank[r]);
	if (rc)
		return rc;
	ref = reference_of(j);
	j->steps = j->rank[ref].step_count;
	if (!j->steps)
		return -ENODATA;
	of = steps_of_instances(j, ref);
	if (!of)
		return -ENOMEM;
	for (uint32_t r = 0; r < j->rank_count && !rc; r++)
		rc = rank_number(j, of, r, ref);
	free(of);
	return rc;
}

uint32_t jobsteps_at(const struct jobsteps *j, uint32_t rank, uint64_t ns)
{
	const struct jobsteps_rank *x = &j->rank[rank];
	uint32_t k = own_at(x, ns);

	if (k == x->step_count)
		return j->steps;
	while (k && x->number[k] == JOBSTEPS_NONE)
		k--;
	return x->step_count && x->number[k] != JOBSTEPS_NONE ? x->number[k] : 0;
}

/* ---- the usual time of each kernel ---- */

struct usual {
	double *ns;    /* [names]: median over a rank's steps of the kernel's mean time; 0: none */
	double *total; /* [names] */
	double *share; /* [names]: largest share of a rank's compute time */
	uint64_t *count;
	/* [names]: 1 + its index among the leading kernels; 0: it is not a leading kernel */
	uint8_t *lead;
	uint32_t names;
	double *sample; /* one rank's mean times of all names in all steps */
	void *memory;	/* holds all of these arrays */
};

static bool is_compute(const struct step_kernel *k)
{
	return k->kind == RECORD_KERNEL || k->kind == RECORD_GRAPH_EXEC;
}

/* Name 0 collects the kernels without a name. */
static bool is_named(const struct usual *u, const struct step_kernel *k)
{
	return is_compute(k) && k->name && k->name < u->names && k->count;
}

static uint32_t kernels_of(const struct jobsteps_rank *x)
{
	return x->step_count ? x->kernel_at[x->step_count] : 0;
}

static size_t usual_lay_out(struct usual *u, uint32_t samples)
{
	struct carve at = {.memory = u->memory};

	u->ns = carve_take(&at, u->names, sizeof(*u->ns));
	u->total = carve_take(&at, u->names, sizeof(*u->total));
	u->share = carve_take(&at, u->names, sizeof(*u->share));
	u->count = carve_take(&at, u->names + 1, sizeof(*u->count));
	u->lead = carve_take(&at, u->names, sizeof(*u->lead));
	u->sample = carve_take(&at, samples, sizeof(*u->sample));
	return at.bytes;
}

static int usual_new(struct usual *u, const struct jobsteps *j)
{
	uint32_t most = 1;

	for (uint32_t r = 0; r < j->rank_count; r++)
		most = kernels_of(&j->rank[r]) > most ? kernels_of(&j->rank[r]) : most;
	u->names = j->name_count ? j->name_count : 1;
	u->memory = calloc(1, usual_lay_out(u, most));
	usual_lay_out(u, most);
	return u->memory ? 0 : -ENOMEM;
}

/* Sums a rank's compute kernels by name. Returns their total time. */
static double totals_of(struct usual *u, const struct jobsteps_rank *x)
{
	double all = 0;

	memset(u->total, 0, u->names * sizeof(*u->total));
	memset(u->count, 0, u->names * sizeof(*u->count));
	for (uint32_t i = 0; i < kernels_of(x); i++) {
		const struct step_kernel *k = &x->kernel[i];

		all += is_compute(k) ? (double)k->total_ns : 0;
		if (!is_named(u, k))
			continue;
		u->total[k->name] += (double)k->total_ns;
		u->count[k->name] += k->count;
	}
	return all;
}

/* Selects the leading kernels: those with the largest share of any rank's time. */
static void leads_find(struct jobsteps *j, struct usual *u)
{
	for (uint32_t r = 0; r < j->rank_count; r++) {
		double all = totals_of(u, &j->rank[r]);

		for (uint32_t name = 0; name < u->names && all > 0; name++)
			u->share[name] = fmax(u->share[name], u->total[name] / all);
	}
	for (j->leads = 0; j->leads < JOBSTEPS_LEADS_MAX; j->leads++) {
		uint32_t best = 0;

		for (uint32_t name = 1; name < u->names; name++)
			if (!u->lead[name] && u->share[name] > (best ? u->share[best] : 0))
				best = name;
		if (!best || u->share[best] < thresholds.part.named)
			break;
		j->lead[j->leads] = best;
		u->lead[best] = (uint8_t)(j->leads + 1);
	}
}

/* Computes one rank's usual time per kernel: groups the means of all steps by name, and takes the
 * medians. */
static void usual_of(struct usual *u, const struct jobsteps_rank *x)
{
	uint64_t *from = u->count;

	memset(from, 0, (u->names + 1) * sizeof(*from));
	for (uint32_t i = 0; i < kernels_of(x); i++)
		if (is_named(u, &x->kernel[i]))
			from[x->kernel[i].name + 1]++;
	for (uint32_t name = 0; name < u->names; name++)
		from[name + 1] += from[name];
	for (uint32_t i = 0; i < kernels_of(x); i++) {
		const struct step_kernel *k = &x->kernel[i];

		if (is_named(u, k))
			u->sample[from[k->name]++] = (double)k->total_ns / k->count;
	}
	/* now each name begins where the one before ends */
	for (uint32_t name = 0; name < u->names; name++) {
		uint64_t begin = name ? from[name - 1] : 0, n = from[name] - begin;

		u->ns[name] = n ? median_of(u->sample + begin, (uint32_t)n) : 0;
	}
}

/* ---- accounting ---- */

/* The length of step k on the device, from the end of the step before to its own. NAN: not
 * known. */
static double span_of(const struct jobsteps_rank *x, uint32_t k)
{
	const struct step *s = &x->step[k];

	return s->device_latency_ns && !(s->flags & (STEP_FLAG_FIRST | STEP_FLAG_GAP))
		   ? (double)s->device_latency_ns
		   : NAN;
}

static void kernels_add(struct jobsteps *j, const struct usual *u, uint32_t r, uint32_t k,
			double *lead_work)
{
	const struct jobsteps_rank *x = &j->rank[r];
	size_t at = (size_t)r * j->steps + x->number[k];

	for (uint32_t i = x->kernel_at[k]; i < x->kernel_at[k + 1]; i++) {
		const struct step_kernel *one = &x->kernel[i];
		double work = is_named(u, one) ? one->count * u->ns[one->name] : 0;
		uint32_t lead;

		j->value[JOBSTEPS_KERNELS][at] += is_compute(one) ? one->count : 0;
		if (!(work > 0))
			continue;
		j->value[JOBSTEPS_WORK][at] += work;
		j->value[JOBSTEPS_BUSY][at] += (double)one->total_ns;
		lead = u->lead[one->name];
		if (!lead)
			continue;
		j->lead_pace[lead - 1][at] += (double)one->total_ns;
		lead_work[lead - 1] += work;
	}
}

static void row_forget(struct jobsteps *j, size_t at)
{
	for (int m = 0; m < JOBSTEPS_MEASURES; m++)
		j->value[m][at] = NAN;
	for (uint32_t i = 0; i < j->leads; i++)
		j->lead_pace[i][at] = NAN;
}

/* Adds the rank's step k, which is a step of the job or a part of one. False: the step has a gap,
 * so the sums are unknown. */
static bool part_add(struct jobsteps *j, const struct usual *u, uint32_t r, uint32_t k,
		     double *lead_work)
{
	const struct jobsteps_rank *x = &j->rank[r];
	const struct step *own = &x->step[k];
	size_t at = (size_t)r * j->steps + x->number[k];
	double span = span_of(x, k);

	j->value[JOBSTEPS_LATENCY][at] += span;
	j->value[JOBSTEPS_COMPUTE][at] += (double)own->compute_ns;
	j->value[JOBSTEPS_COPY][at] += (double)own->copy_ns;
	j->value[JOBSTEPS_IDLE][at] += isnan(span) ? span : (double)own->idle_ns;
	j->value[JOBSTEPS_SELF][at] += span - (double)own->exposed_comm_ns;
	kernels_add(j, u, r, k, lead_work);
	return !(own->flags & STEP_FLAG_GAP);
}

static void row_set(struct jobsteps *j, const struct usual *u, uint32_t r, uint32_t s)
{
	const struct jobsteps_rank *x = &j->rank[r];
	double **v = j->value, lead_work[JOBSTEPS_LEADS_MAX] = {0};
	size_t at = (size_t)r * j->steps + s;
	bool known = true;

	for (uint32_t k = x->own[s]; k < x->own[s + 1]; k++)
		if (x->number[k] == s)
			known &= part_add(j, u, r, k, lead_work);
	if (!known || !(v[JOBSTEPS_KERNELS][at] > 0)) {
		row_forget(j, at);
		return;
	}
	v[JOBSTEPS_PACE][at] =
	    v[JOBSTEPS_WORK][at] > 0 ? v[JOBSTEPS_BUSY][at] / v[JOBSTEPS_WORK][at] : NAN;
	for (uint32_t i = 0; i < j->leads; i++)
		j->lead_pace[i][at] = lead_work[i] > 0 ? j->lead_pace[i][at] / lead_work[i] : NAN;
}

/* Whether the step touches an edge of the rank's trace. Such a step counts only if it is whole. */
static bool is_outer(const struct jobsteps_rank *x, uint32_t s)
{
	bool outer = false;

	for (uint32_t k = x->own[s]; k < x->own[s + 1]; k++)
		outer |= x->number[k] == s && x->step[k].flags & STEP_FLAG_EDGE;
	return outer;
}

static void outer_steps(struct jobsteps *j, uint32_t r, double *scratch)
{
	const struct jobsteps_rank *x = &j->rank[r];
	const double *kernels = j->value[JOBSTEPS_KERNELS] + (size_t)r * j->steps;
	double usual;
	uint32_t n = 0;

	for (uint32_t s = 0; s < j->steps; s++)
		if (!isnan(kernels[s]) && !is_outer(x, s))
			scratch[n++] = kernels[s];
	usual = n ? median_of(scratch, n) : 0;
	for (uint32_t s = 0; s < j->steps; s++)
		if (!isnan(kernels[s]) && is_outer(x, s) &&
		    !(fabs(kernels[s] - usual) <= (1 - thresholds.part.nearly_all) * usual))
			row_forget(j, (size_t)r * j->steps + s);
}

/* ---- transfers ---- */

/* All ranks leave a collective together, and the last rank to enter waits for nobody. So the
 * shortest time that a rank spends in a collective is the transfer. */
static int transfers_find(struct jobsteps *j)
{
	const struct align_job *a = j->align;
	struct {
		double least_ns;
		uint32_t step; /* the step of the first rank that has the instance */
	} *v = malloc((a->instances + 1ull) * sizeof(*v));

	if (!v)
		return -ENOMEM;
	for (uint32_t i = 0; i < a->instances; i++)
		v[i].least_ns = INFINITY;
	for (uint32_t r = 0; r < a->rank_count; r++)
		for (uint32_t i = 0; i < a->rank[r].count; i++) {
			const struct align_coll *c = &a->rank[r].coll[i];

			if (c->instance >= a->instances)
				continue;
			if (isinf(v[c->instance].least_ns))
				v[c->instance].step = jobsteps_at(j, r, c->end_ns);
			v[c->instance].least_ns =
			    fmin(v[c->instance].least_ns, (double)(c->end_ns - c->begin_ns));
		}
	for (uint32_t i = 0; i < a->instances; i++)
		if (!isinf(v[i].least_ns) && v[i].step < j->steps) {
			j->transfer_ns[v[i].step] += v[i].least_ns;
			j->transfers[v[i].step]++;
		}
	free(v);
	return 0;
}

static size_t lay_out(struct jobsteps *j)
{
	struct carve at = {.memory = j->memory};
	size_t cells = (size_t)j->rank_count * j->steps;

	for (int m = 0; m < JOBSTEPS_MEASURES; m++)
		j->value[m] = carve_take(&at, cells, sizeof(*j->value[m]));
	for (uint32_t i = 0; i < j->leads; i++)
		j->lead_pace[i] = carve_take(&at, cells, sizeof(*j->lead_pace[i]));
	j->lead_ns =
	    carve_take(&at, (size_t)j->rank_count * JOBSTEPS_LEADS_MAX, sizeof(*j->lead_ns));
	j->transfer_ns = carve_take(&at, j->steps, sizeof(*j->transfer_ns));
	j->transfers = carve_take(&at, j->steps, sizeof(*j->transfers));
	return at.bytes;
}

static int tables_new(struct jobsteps *j)
{
	j->memory = calloc(1, lay_out(j));
	lay_out(j);
	return j->memory ? 0 : -ENOMEM;
}

int jobsteps_make(struct jobsteps *j)
{
	struct usual u = {0};
	double *scratch = NULL;
	int rc;

	j->memory = NULL;
	j->steps = j->leads = 0;
	for (uint32_t r = 0; r < j->rank_count; r++) {
		j->rank[r].number = j->rank[r].own = NULL;
		j->rank[r].end_ns = NULL;
	}
	rc = j->rank_count ? number_all(j) : -ENODATA;
	if (rc)
		return rc;
	rc = usual_new(&u, j);
	if (!rc)
		leads_find(j, &u);
	if (!rc)
		rc = tables_new(j);
	if (!rc)
		rc = transfers_find(j);
	scratch = malloc(j->steps * sizeof(*scratch));
	if (!scratch)
		rc = -ENOMEM;
	for (uint32_t r = 0; r < j->rank_count && !rc; r++) {
		totals_of(&u, &j->rank[r]);
		for (uint32_t i = 0; i < j->leads; i++)
			if (u.count[j->lead[i]])
				j->lead_ns[(size_t)r * JOBSTEPS_LEADS_MAX + i] =
				    u.total[j->lead[i]] / (double)u.count[j->lead[i]];
		usual_of(&u, &j->rank[r]);
		for (uint32_t s = 0; s < j->steps; s++)
			row_set(j, &u, r, s);
		outer_steps(j, r, scratch);
	}
	free(u.memory);
	free(scratch);
	return rc;
}

void jobsteps_fini(struct jobsteps *j)
{
	for (uint32_t r = 0; r < j->rank_count; r++) {
		free(j->rank[r].end_ns);
		free(j->rank[r].number);
		free(j->rank[r].own);
		j->rank[r].end_ns = NULL;
		j->rank[r].number = j->rank[r].own = NULL;
	}
	free(j->memory);
	j->memory = NULL;
}

/* ---- kernels of a stretch ---- */

ORDER_BY(kernel_order, struct jobsteps_kernel, ORDER_UP(name) ?: ORDER_UP(kind));

static void count_kernels(const struct jobsteps_rank *x, uint32_t k, uint32_t names,
			  struct jobsteps_kernel *v)
{
	for (uint32_t i = x->kernel_at[k]; i < x->kernel_at[k + 1]; i++) {
		const struct step_kernel *e = &x->kernel[i];
		struct jobsteps_kernel *at =
		    &v[2 * (size_t)(e->name < names ? e->name : 0) + !is_compute(e)];

		at->name = e->name;
		at->kind = (uint8_t)e->kind;
		at->count += e->count;
		at->total_ns += (double)e->total_ns;
	}
}

int jobsteps_kernels(const struct jobsteps *j, uint32_t rank, uint32_t first, uint32_t last,
		     struct jobsteps_kernel **out)
{
	const struct jobsteps_rank *x = &j->rank[rank];
	uint32_t names = j->name_count ? j->name_count : 1, steps = 0;
	struct jobsteps_kernel *v = calloc((size_t)names * 2, sizeof(*v));
	int n = 0;

	*out = NULL;
	if (!v)
		return -ENOMEM;
	for (uint32_t s = first; s <= last && s < j->steps; s++) {
		if (isnan(jobsteps_value(j, JOBSTEPS_KERNELS, rank, s)))
			continue;
		steps++;
		for (uint32_t k = x->own[s]; k < x->own[s + 1]; k++)
			if (x->number[k] == s)
				count_kernels(x, k, names, v);
	}
	for (size_t i = 0; i < (size_t)names * 2; i++) {
		if (v[i].count <= 0)
			continue;
		v[i].count /= steps;
		v[i].total_ns /= steps;
		v[n++] = v[i];
	}
	qsort(v, (size_t)n, sizeof(*v), kernel_order);
	*out = v;
	return n;
}
