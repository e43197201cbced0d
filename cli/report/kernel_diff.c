/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/kernel_diff.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/order.h"
#include "cli/report/report_kernels.h"
#include "render/kernel_name.h"

struct item {
	struct kernel_name name;
	double count, time_ns;
	int side;
};

static int by_base(const void *x, const void *y)
{
	const struct item *a = x, *b = y;

	return strcmp(a->name.base, b->name.base) ?: ORDER(a->side, b->side) ?:
	       ORDER(b->time_ns, a->time_ns) ?: strcmp(a->name.full, b->name.full);
}

static int by_difference(const void *x, const void *y)
{
	const struct kernel_diff_row *a = x, *b = y;
	double p = fabs(a->time_ns[1] - a->time_ns[0]), q = fabs(b->time_ns[1] - b->time_ns[0]);

	return ORDER(q, p) ?: strcmp(a->base, b->base);
}

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
	else if (d->count)
		qsort(d->rows, d->count, sizeof(*d->rows), by_difference);
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

struct kernel_time *kernel_diff_of_rank(const struct trace_model *m, const struct trace_rank *r,
					bool slow, size_t *count, size_t *steps)
{
	size_t slow_steps, normal_steps;
	struct report_kernel *k = report_kernels_make(m, r, count, &slow_steps, &normal_steps);
	bool only_slow = slow && slow_steps;
	struct kernel_time *out = k ? calloc(*count + 1, sizeof(*out)) : NULL;
	size_t n = 0;

	*steps = only_slow ? slow_steps : slow_steps + normal_steps;
	for (size_t i = 0; out && *steps && i < *count; i++) {
		double ns = k[i].slow_ns * (double)slow_steps, c = (double)k[i].slow_count;

		if (!only_slow) {
			ns += k[i].normal_ns * (double)normal_steps;
			c += (double)k[i].normal_count;
		}
		if (c > 0)
			out[n++] = (struct kernel_time){m->names.text[k[i].name],
							c / (double)*steps, ns / (double)*steps};
	}
	free(k);
	*count = n;
	if (!n) {
		free(out);
		return NULL;
	}
	return out;
}
