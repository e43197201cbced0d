/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/report_kernels.h"

#include <math.h>
#include <stdlib.h>

#include "base/order.h"

static int by_difference(const void *x, const void *y)
{
	const struct report_kernel *a = x, *b = y;
	double p = fabs(a->slow_ns - a->normal_ns), q = fabs(b->slow_ns - b->normal_ns);

	return ORDER(q, p) ?: ORDER(a->name, b->name);
}

ptrdiff_t report_kernels_step(const struct trace_rank *r, const struct record *d)
{
	return trace_model_step_at(r, d->launch_ns ? d->launch_ns : d->begin_ns);
}

/* A window may cut its first or last step, and half a step would look like one with half the work. */
uint8_t *report_kernels_whole(const struct trace_rank *r, size_t *slow, size_t *normal)
{
	uint32_t *found = calloc(r->step_count + 1, sizeof(*found));
	uint8_t *whole = calloc(r->step_count + 1, 1);

	for (size_t i = 0; found && i < r->device_count; i++) {
		ptrdiff_t s = report_kernels_step(r, &r->device[i]);

		if (s >= 0)
			found[s]++;
	}
	for (size_t i = 0; found && whole && i < r->step_count; i++) {
		const struct window_step *s = &r->steps[i];

		whole[i] = found[i] && found[i] >= s->step.kernels - s->step.kernels / 20;
		*slow += whole[i] && (s->flags & TRACE_STEP_SLOW);
		*normal += whole[i] && !(s->flags & TRACE_STEP_SLOW);
	}
	if (!found) {
		free(whole);
		whole = NULL;
	}
	free(found);
	return whole;
}

struct report_kernel *report_kernels_make(const struct trace_model *m, const struct trace_rank *r,
					  size_t *count, size_t *slow_steps, size_t *normal_steps)
{
	struct report_kernel *k = calloc(m->names.count + 1, sizeof(*k));
	uint8_t *whole;
	size_t n = 0;

	*count = *slow_steps = *normal_steps = 0;
	whole = report_kernels_whole(r, slow_steps, normal_steps);
	for (size_t i = 0; k && whole && i < r->device_count; i++) {
		const struct record *d = &r->device[i];
		ptrdiff_t s = report_kernels_step(r, d);
		struct report_kernel *e = &k[d->name];

		if (s < 0 || !whole[s])
			continue;
		if (r->steps[s].flags & TRACE_STEP_SLOW) {
			e->slow_count++;
			e->slow_ns += (double)(d->end_ns - d->begin_ns);
		} else {
			e->normal_count++;
			e->normal_ns += (double)(d->end_ns - d->begin_ns);
		}
	}
	for (uint32_t i = 0; k && i < m->names.count; i++) {
		if (!k[i].slow_count && !k[i].normal_count)
			continue;
		k[n] = k[i];
		k[n].name = i;
		k[n].slow_ns /= *slow_steps ? (double)*slow_steps : 1;
		k[n].normal_ns /= *normal_steps ? (double)*normal_steps : 1;
		n++;
	}
	free(whole);
	if (!n) {
		free(k);
		return NULL;
	}
	qsort(k, n, sizeof(*k), by_difference);
	*count = n;
	return k;
}
