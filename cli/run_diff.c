/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run_diff.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/median.h"

#define SURE_ERRORS 4.0
#define EDGES	    (STEP_FLAG_FIRST | STEP_FLAG_GAP | STEP_FLAG_RESYNC)

/* ---- steps ---- */

static const struct {
	const char *name;
	size_t at;
	bool time;
} fields[RUN_DIFF_METRICS] = {
	{ "step", offsetof(struct step, latency_ns), true },
	{ "own", offsetof(struct step, self_ns), true },
	{ "compute", offsetof(struct step, compute_ns), true },
	{ "communication", offsetof(struct step, comm_ns), true },
	{ "exposed communication", offsetof(struct step, exposed_comm_ns), true },
	{ "copies", offsetof(struct step, copy_ns), true },
	{ "idle", offsetof(struct step, idle_ns), true },
	{ "kernels", offsetof(struct step, kernels), false },
};

static double field(const struct step *s, unsigned m)
{
	const char *at = (const char *)s + fields[m].at;
	uint64_t wide;
	uint32_t narrow;

	if (fields[m].time) {
		memcpy(&wide, at, sizeof(wide));
		return (double)wide;
	}
	memcpy(&narrow, at, sizeof(narrow));
	return narrow;
}

static uint32_t values(const struct trace_rank *r, unsigned m, double *out)
{
	uint32_t n = 0;

	for (size_t i = 0; i < r->step_count; i++)
		if (!(r->steps[i].step.flags & EDGES))
			out[n++] = field(&r->steps[i].step, m);
	return n;
}

static int compare_steps(struct run_diff *d)
{
	for (unsigned m = 0; m < RUN_DIFF_METRICS; m++) {
		struct run_diff_metric *x = &d->metric[m];
		double variance = 0, apart, floor;

		x->name = fields[m].name;
		x->time = fields[m].time;
		for (int s = 0; s < 2; s++) {
			const struct trace_rank *r = d->side[s]->rank;
			double *v = calloc(r->step_count + 1, sizeof(*v)), error;
			uint32_t n;

			if (!v)
				return -ENOMEM;
			n = values(r, m, v);
			x->median[s] = median_of(v, n);
			for (uint32_t i = 0; i < n; i++)
				v[i] = fabs(v[i] - x->median[s]);
			x->spread[s] = 1.4826 * median_of(v, n);
			error = 1.2533 * x->spread[s] / sqrt(n ? n : 1);
			variance += error * error;
			d->steps[s] = n;
			free(v);
		}
		apart = fabs(x->median[1] - x->median[0]);
		floor = RUN_DIFF_SHARE * d->metric[x->time ? 0 : m].median[0];
		x->differs = d->steps[0] && d->steps[1] && apart > floor &&
			     apart > SURE_ERRORS * sqrt(variance);
	}
	return 0;
}

static void compare_rates(struct run_diff *d)
{
	double p[2], pooled, error;

	for (int s = 0; s < 2; s++) {
		const struct trace_rank *r = d->side[s]->rank;

		d->flagged[s] = 0;
		for (size_t i = 0; i < r->step_count; i++)
			d->flagged[s] += !(r->steps[i].step.flags & EDGES) &&
					 (r->steps[i].flags & WINDOW_STEP_FLAGGED);
	}
	if (!d->steps[0] || !d->steps[1])
		return;
	for (int s = 0; s < 2; s++)
		p[s] = (double)d->flagged[s] / (double)d->steps[s];
	pooled = (double)(d->flagged[0] + d->flagged[1]) / (double)(d->steps[0] + d->steps[1]);
	error = sqrt(pooled * (1 - pooled) *
		     (1.0 / (double)d->steps[0] + 1.0 / (double)d->steps[1]));
	d->rate_differs = p[0] != p[1] && fabs(p[1] - p[0]) > SURE_ERRORS * error;
}

/* ---- spans ---- */

static int by_name(const void *x, const void *y)
{
	const struct run_diff_span *a = x, *b = y;

	return strcmp(a->name, b->name);
}

static int by_time(const void *x, const void *y)
{
	const struct run_diff_span *a = x, *b = y;
	double p = fabs(a->time_ns[1] - a->time_ns[0]), q = fabs(b->time_ns[1] - b->time_ns[0]);

	if (p != q)
		return p > q ? -1 : 1;
	return strcmp(a->name, b->name);
}

/* One row per name of the side's model that a span has, behind those that are there. */
static int add_spans(struct run_diff *d, int side)
{
	const struct trace_model *m = &d->side[side]->model;
	const struct trace_rank *r = d->side[side]->rank;
	double steps = r->step_count ? (double)r->step_count : 1;
	uint32_t *row = calloc(m->name_count + 1ull, sizeof(*row)); /* + 1 */
	struct run_diff_span *p = realloc(d->spans, (d->span_count + m->name_count + 1) *
						    sizeof(*p));

	if (p)
		d->spans = p;
	if (!p || !row) {
		free(row);
		return -ENOMEM;
	}
	for (size_t i = 0; i < r->host_count; i++) {
		const struct record *h = &r->host[i];

		if (h->kind != RECORD_SPAN || !h->name)
			continue;
		if (!row[h->name]) {
			p[d->span_count] = (struct run_diff_span){ .name = m->names[h->name] };
			row[h->name] = (uint32_t)++d->span_count;
		}
		p[row[h->name] - 1].count[side] += 1 / steps;
		p[row[h->name] - 1].time_ns[side] += (double)(h->end_ns - h->begin_ns) / steps;
	}
	free(row);
	return 0;
}

static int compare_spans(struct run_diff *d)
{
	size_t kept = 0;
	int err = add_spans(d, 0);

	if (!err)
		err = add_spans(d, 1);
	if (err || !d->span_count)
		return err;
	qsort(d->spans, d->span_count, sizeof(*d->spans), by_name);
	for (size_t i = 0; i < d->span_count; i++) {
		struct run_diff_span *last = kept ? &d->spans[kept - 1] : NULL;

		if (last && !strcmp(last->name, d->spans[i].name)) {
			for (int s = 0; s < 2; s++) {
				last->count[s] += d->spans[i].count[s];
				last->time_ns[s] += d->spans[i].time_ns[s];
			}
		} else {
			d->spans[kept++] = d->spans[i];
		}
	}
	d->span_count = kept;
	qsort(d->spans, kept, sizeof(*d->spans), by_time);
	return 0;
}

static int compare_kernels(struct run_diff *d)
{
	struct kernel_time *k[2];
	size_t n[2];
	int err = 0;

	for (int s = 0; s < 2; s++)
		k[s] = kernel_diff_of_rank(&d->side[s]->model, d->side[s]->rank, false, &n[s],
					   &d->kernel_steps[s]);
	if (k[0] && k[1])
		err = kernel_diff_make(&d->kernels, k[0], n[0], k[1], n[1]);
	free(k[0]);
	free(k[1]);
	return err;
}

int run_diff_make(struct run_diff *d, const struct diff_source *a, const struct diff_source *b)
{
	int err = 0;

	memset(d, 0, sizeof(*d));
	d->side[0] = a;
	d->side[1] = b;
	d->has_steps = a->rank && b->rank && a->rank->step_count && b->rank->step_count;
	if (!d->has_steps && (!a->functions || !b->functions))
		return -ENODATA;
	if (d->has_steps) {
		err = compare_steps(d);
		compare_rates(d);
		if (!err)
			err = compare_spans(d);
		if (!err)
			err = compare_kernels(d);
	}
	if (!err && a->functions && b->functions)
		err = profile_compare(a->functions, b->functions, PROFILE_DELTA, &d->functions,
				      &d->function_count);
	if (err)
		run_diff_free(d);
	return err;
}

void run_diff_free(struct run_diff *d)
{
	free(d->spans);
	kernel_diff_free(&d->kernels);
	free(d->functions);
	memset(d, 0, sizeof(*d));
}
