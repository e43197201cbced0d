/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/kernel_diff.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/order.h"
#include "model/kernel_name.h"

struct item {
	struct kernel_name name;
	double count, time_ns;
	int side;
};

ORDER_BY(by_base, struct item,
	 ORDER_TEXT(name.base) ?: ORDER_UP(side) ?: ORDER_DOWN(time_ns) ?: ORDER_TEXT(name.full));

ORDER_BY(by_difference, struct kernel_diff_row,
	 ORDER(fabs(b->time_ns[1] - b->time_ns[0]), fabs(a->time_ns[1] - a->time_ns[0]))
	     ?: ORDER_TEXT(base));

static char *changed_arguments(const struct kernel_name *a, const struct kernel_name *b)
{
	uint32_t n = a->arg_count > b->arg_count ? a->arg_count : b->arg_count, differing = 0;
	char *text = NULL;
	size_t bytes;
	FILE *f;

	if (!strcmp(a->full, b->full))
		return NULL;
	f = open_memstream(&text, &bytes);
	if (!f)
		return NULL;
	for (uint32_t i = 0; i < n; i++) {
		const char *was = i < a->arg_count ? a->args[i] : "none";
		const char *is = i < b->arg_count ? b->args[i] : "none";

		if (strcmp(was, is))
			fprintf(f, "%sargument %u: %s, now %s", differing++ ? "; " : "", i + 1, was,
				is);
	}
	if (!differing)
		fprintf(f, "%s, now %s", a->full, b->full);
	fclose(f);
	return text;
}

/* Rows of one base name, those of side 0 first, each by time. */
static int put_row(struct kernel_diff_row *row, const struct item *v, size_t n)
{
	const struct item *lead[2] = {NULL, NULL};

	row->base = strdup(v->name.base);
	if (!row->base)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		row->count[v[i].side] += v[i].count;
		row->time_ns[v[i].side] += v[i].time_ns;
		if (!lead[v[i].side])
			lead[v[i].side] = &v[i];
	}
	for (int s = 0; s < 2; s++) {
		if (!lead[s])
			continue;
		row->main[s] = strdup(lead[s]->name.full);
		if (!row->main[s])
			return -ENOMEM;
	}
	if (lead[0] && lead[1])
		row->changed = changed_arguments(&lead[0]->name, &lead[1]->name);
	return 0;
}

int kernel_diff_make(struct kernel_diff *d, const struct kernel_time *a, size_t a_count,
		     const struct kernel_time *b, size_t b_count)
{
	size_t n = a_count + b_count, made = 0;
	struct item *v = calloc(n + 1, sizeof(*v));
	int err = 0;

	*d = (struct kernel_diff){.rows = calloc(n + 1, sizeof(*d->rows))};
	if (!v || !d->rows)
		err = -ENOMEM;
	for (; made < n && !err; made++) {
		const struct kernel_time *k = made < a_count ? &a[made] : &b[made - a_count];

		v[made] = (struct item){
		    .count = k->count, .time_ns = k->time_ns, .side = made >= a_count};
		err = kernel_name_parse(&v[made].name, *k->name ? k->name : "(name unknown)");
		if (err)
			break;
	}
	if (!err)
		qsort(v, n, sizeof(*v), by_base);
	for (size_t i = 0, k; i < n && !err; i = k) {
		for (k = i + 1; k < n && !strcmp(v[k].name.base, v[i].name.base);)
			k++;
		err = put_row(&d->rows[d->count++], &v[i], k - i);
	}
	for (size_t i = 0; v && i < made; i++)
		kernel_name_free(&v[i].name);
	free(v);
	if (err)
		kernel_diff_free(d);
	else
		ORDER_SORT(d->rows, d->count, by_difference);
	return err;
}

void kernel_diff_free(struct kernel_diff *d)
{
	for (size_t i = 0; i < d->count; i++) {
		free(d->rows[i].base);
		free(d->rows[i].main[0]);
		free(d->rows[i].main[1]);
		free(d->rows[i].changed);
	}
	free(d->rows);
	memset(d, 0, sizeof(*d));
}

ptrdiff_t kernel_diff_step(const struct trace_rank *r, const struct record *d)
{
	return trace_model_step_at(r, d->launch_ns ? d->launch_ns : d->begin_ns);
}

/* A window may cut its first or last step, and half a step would look like one with half the work. */
uint8_t *kernel_diff_whole(const struct trace_rank *r, size_t *slow, size_t *normal)
{
	uint32_t *found = calloc(r->step_count + 1, sizeof(*found));
	uint8_t *whole = calloc(r->step_count + 1, 1);

	for (size_t i = 0; found && i < r->device_count; i++) {
		ptrdiff_t s = kernel_diff_step(r, &r->device[i]);

		if (s >= 0)
			found[s]++;
	}
	for (size_t i = 0; found && whole && i < r->step_count; i++) {
		const struct window_step *s = &r->steps[i];

		whole[i] = found[i] && found[i] >= s->step.kernels - s->step.kernels / 20;
		*slow += whole[i] && trace_step_is_slow(s);
		*normal += whole[i] && trace_step_is_healthy(s);
	}
	if (!found) {
		free(whole);
		whole = NULL;
	}
	free(found);
	return whole;
}

struct kernel_time *kernel_diff_of_rank(const struct trace_model *m, const struct trace_rank *r,
					enum kernel_steps which, size_t *count, size_t *steps)
{
	struct kernel_time *k = calloc(m->names.count + 1, sizeof(*k));
	size_t slow = 0, other = 0, n = 0;
	uint8_t *whole = kernel_diff_whole(r, &slow, &other);

	*steps = (which & KERNEL_STEPS_SLOW ? slow : 0) + (which & KERNEL_STEPS_OTHER ? other : 0);
	for (size_t i = 0; k && whole && i < r->device_count; i++) {
		const struct record *d = &r->device[i];
		ptrdiff_t s = kernel_diff_step(r, d);

		if (s < 0 || !whole[s] ||
		    !((which & KERNEL_STEPS_SLOW && trace_step_is_slow(&r->steps[s])) ||
		      (which & KERNEL_STEPS_OTHER && trace_step_is_healthy(&r->steps[s]))))
			continue;
		k[d->name].name = m->names.text[d->name];
		k[d->name].count++;
		k[d->name].time_ns += (double)(d->end_ns - d->begin_ns);
	}
	for (uint32_t i = 0; k && i < m->names.count; i++)
		if (k[i].name)
			k[n++] = (struct kernel_time){k[i].name, k[i].count / (double)*steps,
						      k[i].time_ns / (double)*steps};
	free(whole);
	*count = n;
	if (!n) {
		free(k);
		return NULL;
	}
	return k;
}

struct kernel_time *kernel_diff_of_slow(const struct trace_model *m, const struct trace_rank *r,
					size_t *count, size_t *steps)
{
	struct kernel_time *k = kernel_diff_of_rank(m, r, KERNEL_STEPS_SLOW, count, steps);

	return k ? k : kernel_diff_of_rank(m, r, KERNEL_STEPS_ALL, count, steps);
}
