/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report_kernels.h"

#include <math.h>
#include <stdlib.h>

/* The step on whose launch timeline t lies, or -1. Steps tile the timeline. */
static ptrdiff_t step_at(const struct trace_rank *r, uint64_t t)
{
	size_t lo = 0, hi = r->step_count;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (r->steps[mid].step.begin_ns <= t)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo && t < r->steps[lo - 1].step.end_ns ? (ptrdiff_t)lo - 1 : -1;
}

static int by_difference(const void *x, const void *y)
{
	const struct report_kernel *a = x, *b = y;
	double p = fabs(a->slow_ns - a->normal_ns), q = fabs(b->slow_ns - b->normal_ns);

	if (p != q)
		return p > q ? -1 : 1;
	return a->name < b->name ? -1 : a->name > b->name;
}

struct report_kernel *report_kernels_make(const struct trace_model *m, const struct trace_rank *r,
					  size_t *count, size_t *slow_steps, size_t *normal_steps)
{
	struct report_kernel *k = calloc(m->name_count + 1, sizeof(*k));
	uint8_t *used = calloc(r->step_count + 1, 1);
	size_t n = 0;

	*count = *slow_steps = *normal_steps = 0;
	for (size_t i = 0; k && used && i < r->device_count; i++) {
		const struct record *d = &r->device[i];
		ptrdiff_t s = step_at(r, d->launch_ns ? d->launch_ns : d->begin_ns);
		struct report_kernel *e = &k[d->name];

		if (s < 0)
			continue;
		used[s] = 1;
		if (r->steps[s].flags & (WINDOW_STEP_OUT | WINDOW_STEP_FLAGGED)) {
			e->slow_count++;
			e->slow_ns += (double)(d->end_ns - d->begin_ns);
		} else {
			e->normal_count++;
			e->normal_ns += (double)(d->end_ns - d->begin_ns);
		}
	}
	for (size_t i = 0; used && i < r->step_count; i++)
		if (used[i])
			++*(r->steps[i].flags & (WINDOW_STEP_OUT | WINDOW_STEP_FLAGGED) ? slow_steps :
											  normal_steps);
	for (uint32_t i = 0; k && i < m->name_count; i++) {
		if (!k[i].slow_count && !k[i].normal_count)
			continue;
		k[n] = k[i];
		k[n].name = i;
		k[n].slow_ns /= *slow_steps ? (double)*slow_steps : 1;
		k[n].normal_ns /= *normal_steps ? (double)*normal_steps : 1;
		n++;
	}
	free(used);
	if (!n) {
		free(k);
		return NULL;
	}
	qsort(k, n, sizeof(*k), by_difference);
	*count = n;
	return k;
}
