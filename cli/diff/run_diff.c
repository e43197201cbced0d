/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/diff/run_diff.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/robust/median.h"
#include "analysis/robust/spread.h"
#include "base/order.h"

#define SURE_ERRORS 4.0
#define EDGES	    (STEP_FLAG_EDGE | STEP_FLAG_GAP | STEP_FLAG_RESYNC)

/* ---- steps ---- */

#define NONE SIZE_MAX

static const struct {
	const char *name;
	size_t step, sketch, spread; /* offsets in struct step and struct sketch */
	bool time, sampled;
} fields[RUN_DIFF_METRICS] = {
#define TIME(name, f) name, offsetof(struct step, f), offsetof(struct sketch, f)
    {TIME("step", latency_ns), offsetof(struct sketch, latency_mad_ns), true, false},
    {TIME("self time", self_ns), offsetof(struct sketch, self_mad_ns), true, false},
    {TIME("compute", compute_ns), NONE, true, false},
    {TIME("communication", comm_ns), NONE, true, false},
    {TIME("exposed communication", exposed_comm_ns), NONE, true, false},
    {TIME("copies", copy_ns), NONE, true, false},
    {TIME("idle", idle_ns), NONE, true, false},
#undef TIME
    {"kernels", offsetof(struct step, kernels), NONE, NONE, false, false},
    {"launches", offsetof(struct step, launches), offsetof(struct sketch, launches), NONE, false,
     false},
    {"on the CPU", NONE, offsetof(struct sketch, cpu_ns), NONE, true, true},
    {"blocked", NONE, offsetof(struct sketch, off_ns), NONE, true, true},
    {"waiting for the GIL", NONE, offsetof(struct sketch, gil_wait_ns), NONE, true, true},
};

static double field(const struct step *s, unsigned m)
{
	const char *at = (const char *)s + fields[m].step;
	uint64_t wide;
	uint32_t narrow;

	if (fields[m].time) {
		memcpy(&wide, at, sizeof(wide));
		return (double)wide;
	}
	memcpy(&narrow, at, sizeof(narrow));
	return narrow;
}

static double of_sketch(const struct sketch *s, size_t at)
{
	double v = 0;

	if (at != NONE)
		memcpy(&v, (const char *)s + at, sizeof(v));
	return v;
}

static bool is_slow(const struct window_step *s)
{
	return !(s->step.flags & EDGES) && trace_step_is_slow(s);
}

static uint32_t values(const struct run_diff *d, int side, unsigned m, double *out)
{
	const struct trace_rank *r = d->side[side]->rank;
	uint32_t n = 0;

	for (size_t i = 0; i < r->step_count; i++)
		if (d->slow_steps[side] ? is_slow(&r->steps[i]) : !(r->steps[i].step.flags & EDGES))
			out[n++] = field(&r->steps[i].step, m);
	return n;
}

/* A count of 0 was not measured. */
static bool knows(const struct diff_source *s, unsigned m)
{
	if (!s->has_sketch)
		return fields[m].step != NONE;
	if (fields[m].sampled)
		return s->sketch.samples > 0;
	return fields[m].time || of_sketch(&s->sketch, fields[m].sketch) > 0;
}

static int measure(struct run_diff *d, int s, unsigned m, double *samples)
{
	const struct diff_source *side = d->side[s];
	struct run_diff_metric *x = &d->metric[m];
	double *v;
	uint32_t n;

	if (side->has_sketch) {
		x->median[s] = of_sketch(&side->sketch, fields[m].sketch);
		x->spread[s] = MEDIAN_MAD_SIGMA * of_sketch(&side->sketch, fields[m].spread);
		d->steps[s] = side->sketch.steps;
		*samples = side->baseline && !m ? 1 : (double)side->sketch.steps;
		return 0;
	}
	v = calloc(side->rank->step_count + 1, sizeof(*v));
	if (!v)
		return -ENOMEM;
	n = values(d, s, m, v);
	x->median[s] = median_of(v, n);
	x->spread[s] = MEDIAN_MAD_SIGMA * median_mad(v, n, x->median[s]);
	*samples = n;
	free(v);
	return 0;
}

static int compare_steps(struct run_diff *d)
{
	double share = d->has_rates ? RUN_DIFF_SHARE : RUN_DIFF_SHARE_RUNS;

	for (unsigned m = 0; m < RUN_DIFF_METRICS; m++) {
		struct run_diff_metric *x = &d->metric[m];
		double variance = 0, samples = 0, apart, floor, error;
		int err = 0;

		x->name = fields[m].name;
		x->time = fields[m].time;
		x->mean = fields[m].sampled;
		x->known = knows(d->side[0], m) && knows(d->side[1], m);
		for (int s = 0; s < 2 && x->known && !err; s++) {
			err = measure(d, s, m, &samples);
			error = spread_of_median(x->spread[s], samples > 1 ? samples : 1);
			variance += error * error;
		}
		if (err)
			return err;
		apart = fabs(x->median[1] - x->median[0]);
		floor = share * d->metric[x->time ? 0 : m].median[0];
		x->differs = x->known && d->steps[0] && d->steps[1] && apart > floor &&
			     apart > SURE_ERRORS * sqrt(variance);
	}
	return 0;
}

static void count_steps(struct run_diff *d, int s)
{
	const struct trace_rank *r = d->side[s]->rank;

	for (size_t i = 0; i < r->step_count; i++) {
		bool edge = r->steps[i].step.flags & EDGES;

		d->steps[s] += !edge;
		d->flagged[s] += !edge && (r->steps[i].flags & WINDOW_STEP_FLAGGED);
		d->slow_steps[s] += is_slow(&r->steps[i]);
	}
	if (d->slow_steps[s] < RUN_DIFF_SLOW_MIN)
		d->slow_steps[s] = 0;
}

static void compare_rates(struct run_diff *d)
{
	double p[2], pooled, error;

	if (!d->steps[0] || !d->steps[1])
		return;
	for (int s = 0; s < 2; s++)
		p[s] = (double)d->flagged[s] / (double)d->steps[s];
	pooled = (double)(d->flagged[0] + d->flagged[1]) / (double)(d->steps[0] + d->steps[1]);
	error = sqrt(spread_of_shares(pooled, (double)d->steps[0], (double)d->steps[1]));
	d->rate_differs = p[0] != p[1] && fabs(p[1] - p[0]) > SURE_ERRORS * error;
}

/* ---- spans ---- */

ORDER_BY(by_name, struct run_diff_span, ORDER_TEXT(name));

ORDER_BY(by_time, struct run_diff_span,
	 ORDER(fabs(b->time_ns[1] - b->time_ns[0]), fabs(a->time_ns[1] - a->time_ns[0]))
	     ?: ORDER_TEXT(name));

/* Appends one row for each name in the side's model that a span has. */
static int add_spans(struct run_diff *d, int side)
{
	const struct trace_model *m = &d->side[side]->model;
	const struct trace_rank *r = d->side[side]->rank;
	double steps = fmax(1, (double)(d->slow_steps[side] ? d->slow_steps[side] : r->step_count));
	uint32_t *row = calloc(m->names.count + 1ull, sizeof(*row)); /* + 1 */
	struct run_diff_span *p =
	    realloc(d->spans, (d->span_count + m->names.count + 1) * sizeof(*p));

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
		if (d->slow_steps[side]) {
			ptrdiff_t s = trace_model_step_at(r, h->begin_ns);

			if (s < 0 || !is_slow(&r->steps[s]))
				continue;
		}
		if (!row[h->name]) {
			p[d->span_count] = (struct run_diff_span){.name = m->names.text[h->name]};
			row[h->name] = (uint32_t)++d->span_count;
		}
		p[row[h->name] - 1].count[side] += 1 / steps;
		p[row[h->name] - 1].time_ns[side] += (double)(h->end_ns - h->begin_ns) / steps;
	}
	free(row);
	return 0;
}

static size_t join_spans(struct run_diff_span *v, size_t count)
{
	size_t kept = 0;

	if (!count)
		return 0;
	qsort(v, count, sizeof(*v), by_name);
	for (size_t i = 0; i < count; i++) {
		struct run_diff_span *last = kept ? &v[kept - 1] : NULL;

		if (last && !strcmp(last->name, v[i].name)) {
			for (int s = 0; s < 2; s++) {
				last->count[s] += v[i].count[s];
				last->time_ns[s] += v[i].time_ns[s];
			}
		} else {
			v[kept++] = v[i];
		}
	}
	qsort(v, kept, sizeof(*v), by_time);
	return kept;
}

static int compare_spans(struct run_diff *d)
{
	int err = add_spans(d, 0);

	if (!err)
		err = add_spans(d, 1);
	if (!err)
		d->span_count = join_spans(d->spans, d->span_count);
	return err;
}

/* ---- kernels ---- */

/* Copies have no name, and a sketch does not have them. */
static size_t drop_nameless(struct kernel_time *k, size_t count)
{
	size_t n = 0;

	for (size_t i = 0; i < count; i++)
		if (*k[i].name)
			k[n++] = k[i];
	return n;
}

static struct kernel_time *kernels_of(struct run_diff *d, int s, size_t *count)
{
	const struct diff_source *side = d->side[s];
	const struct sketch *k = &side->sketch;
	struct kernel_time *out;

	if (!side->has_sketch) {
		out =
		    d->slow_steps[s]
			? kernel_diff_of_slow(&side->model, side->rank, count, &d->kernel_steps[s])
			: kernel_diff_of_rank(&side->model, side->rank, KERNEL_STEPS_ALL, count,
					      &d->kernel_steps[s]);
		if (out && d->side[!s]->has_sketch)
			*count = drop_nameless(out, *count);
		return out;
	}
	*count = k->kernel_count;
	out = *count ? calloc(*count, sizeof(*out)) : NULL;
	d->kernel_steps[s] = *count ? k->steps : 0;
	for (size_t i = 0; out && i < *count; i++) {
		out[i] = (struct kernel_time){k->kernels[i].name, k->kernels[i].per_step,
					      k->kernels[i].ns_per_step};
		if (!i || out[i].time_ns < d->kernels_from_ns[s])
			d->kernels_from_ns[s] = out[i].time_ns;
	}
	return out;
}

static int compare_kernels(struct run_diff *d)
{
	struct kernel_time *k[2];
	size_t n[2];
	int err = 0;

	for (int s = 0; s < 2; s++)
		k[s] = kernels_of(d, s, &n[s]);
	if (k[0] && k[1])
		err = kernel_diff_make(&d->kernels, k[0], n[0], k[1], n[1]);
	free(k[0]);
	free(k[1]);
	return err;
}

/* ---- functions ---- */

static double least_share(const struct diff_source *s)
{
	double least = 1;

	for (uint32_t i = 0; i < s->sketch.function_count; i++)
		if (s->sketch.functions[i].total_share > 0)
			least = fmin(least, s->sketch.functions[i].total_share);
	return s->has_sketch ? least : 0;
}

/* Code without a symbol has its page's name in a sketch and its file's in stacks: no comparison. */
static bool is_nameless(const char *name)
{
	return *name == '[' || strstr(name, "+0x");
}

/* Python functions without a file can be compared with our own stacks, but not with a profile's file. */
static bool has_functions(const struct diff_source *a, const struct diff_source *b)
{
	return a->functions && b->functions && (!a->has_sketch || b->has_sketch || b->rank) &&
	       (!b->has_sketch || a->has_sketch || a->rank);
}

static int compare_functions(struct run_diff *d)
{
	const struct diff_source *a = d->side[0], *b = d->side[1];
	double least[2] = {least_share(a), least_share(b)};
	uint32_t n = 0;
	int err = profile_compare(a->functions, b->functions, PROFILE_DELTA, &d->functions,
				  &d->function_count);

	for (int i = 0; i < 2; i++) {
		d->samples[i] = profile_samples(d->side[i]->functions);
		d->few_samples |= d->samples[i] < PROFILE_SAMPLES_MIN;
	}
	for (uint32_t i = 0; !err && i < d->function_count; i++) {
		struct profile_delta *f = &d->functions[i];

		if (a->has_sketch != b->has_sketch && is_nameless(f->name))
			continue;
		if ((!(f->base > 0) && f->other - least[0] <= PROFILE_DELTA) ||
		    (!(f->other > 0) && f->base - least[1] <= PROFILE_DELTA))
			f->flagged = false;
		d->functions[n++] = *f;
	}
	d->function_count = n;
	return err;
}

static int compare_blocked(struct run_diff *d)
{
	const struct sketch *s[2] = {&d->side[0]->sketch, &d->side[1]->sketch};

	if (!(s[0]->samples > 0) || !(s[1]->samples > 0))
		return 0;
	d->blocked =
	    calloc(s[0]->function_count + s[1]->function_count + 1ull, sizeof(*d->blocked));
	if (!d->blocked)
		return -ENOMEM;
	for (int i = 0; i < 2; i++)
		for (uint32_t k = 0; k < s[i]->function_count; k++) {
			struct run_diff_span *row = &d->blocked[d->blocked_count];

			row->name = s[i]->functions[k].name;
			row->time_ns[i] = s[i]->functions[k].off_ns;
			d->blocked_count += row->time_ns[i] > 0;
		}
	d->blocked_count = join_spans(d->blocked, d->blocked_count);
	return 0;
}

/* ---- settings ---- */

ORDER_BY(by_setting, struct run_diff_setting, ORDER_TEXT(name));

static int compare_settings(struct run_diff *d)
{
	const struct sketch *s[2] = {&d->side[0]->sketch, &d->side[1]->sketch};
	size_t n = 0, kept = 0;
	struct run_diff_setting *v = d->settings =
	    calloc(s[0]->setting_count + s[1]->setting_count + 1ull, sizeof(*v));

	if (!v)
		return -ENOMEM;
	for (int i = 0; i < 2; i++)
		for (uint32_t k = 0; s[!i]->setting_count && k < s[i]->setting_count; k++) {
			v[n].name = s[i]->settings[k].name;
			v[n++].value[i] = s[i]->settings[k].value;
		}
	qsort(v, n, sizeof(*v), by_setting);
	for (size_t i = 0; i < n; i++) {
		bool pair = i + 1 < n && !strcmp(v[i].name, v[i + 1].name);
		struct run_diff_setting row = v[i];

		for (int k = 0; k < 2 && pair; k++)
			row.value[k] = row.value[k] ? row.value[k] : v[i + 1].value[k];
		/* a missing version is not known yet (analysis/cause/diagnosis_software.c) */
		if (pair
			? strcmp(row.value[0] ? row.value[0] : "", row.value[1] ? row.value[1] : "")
			: !strncmp(row.name, "env:", 4))
			v[kept++] = row;
		i += pair;
	}
	d->setting_count = kept;
	return 0;
}

static bool has_steps(const struct diff_source *s)
{
	return s->has_sketch ? s->sketch.latency_ns > 0 : s->rank && s->rank->step_count;
}

int run_diff_make(struct run_diff *d, const struct diff_source *a, const struct diff_source *b)
{
	int err = 0;

	memset(d, 0, sizeof(*d));
	d->side[0] = a;
	d->side[1] = b;
	d->has_steps = has_steps(a) && has_steps(b);
	d->has_rates = d->has_steps && !a->has_sketch && !b->has_sketch;
	if (!d->has_steps && !has_functions(a, b))
		return -ENODATA;
	for (int s = 0; s < 2; s++)
		if (d->has_steps && !d->side[s]->has_sketch)
			count_steps(d, s);
	if (d->has_steps)
		err = compare_steps(d);
	if (d->has_rates) {
		compare_rates(d);
		if (!err)
			err = compare_spans(d);
	}
	if (!err && d->has_steps)
		err = compare_kernels(d);
	if (!err && has_functions(a, b))
		err = compare_functions(d);
	if (!err && a->has_sketch && b->has_sketch) {
		err = compare_blocked(d);
		if (!err)
			err = compare_settings(d);
	}
	if (err)
		run_diff_free(d);
	return err;
}

void run_diff_free(struct run_diff *d)
{
	free(d->spans);
	kernel_diff_free(&d->kernels);
	free(d->functions);
	free(d->blocked);
	free(d->settings);
	memset(d, 0, sizeof(*d));
}
