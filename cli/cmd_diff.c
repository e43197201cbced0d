/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/json_text.h"
#include "cli/commands.h"
#include "cli/diff/run_diff.h"
#include "render/term.h"

static const char *colour(double change, bool sure)
{
	return term_style(!sure || change == 0 ? TERM_PLAIN : change > 0 ? TERM_RED : TERM_GREEN);
}

static const char *figure(const struct run_diff_metric *m, double v)
{
	char text[32];

	if (m->time)
		return term_ms(v / 1e6);
	snprintf(text, sizeof(text), "%.4g", v);
	return term_safe(text, 30);
}

/* change: a difference of shares. */
static const char *points(double change)
{
	static char text[32];

	snprintf(text, sizeof(text), "%+.1f points", change * 100);
	return text;
}

static void print_steps(const struct run_diff *d)
{
	double rate[2];
	char name[64];

	printf("\n%s%-24s %10s %10s %11s  !: significant difference%s\n", term_style(TERM_BOLD),
	       "per step, medians", "A", "B", "change", term_style(TERM_PLAIN));
	for (unsigned i = 0; i < RUN_DIFF_METRICS; i++) {
		const struct run_diff_metric *m = &d->metric[i];
		double change = m->median[1] - m->median[0];

		if (!m->known)
			continue;
		snprintf(name, sizeof(name), "%s%s", m->name, m->mean ? ", mean" : "");
		printf("%-24s %10s %10s %s%11s%s %c %s\n", name, figure(m, m->median[0]),
		       figure(m, m->median[1]), colour(change, m->differs), figure(m, change),
		       term_style(TERM_PLAIN), m->differs ? '!' : ' ',
		       m->median[0] > 0 ? term_excess(m->median[1] / m->median[0] - 1) : "");
	}
	for (int s = 0; s < 2; s++)
		rate[s] = d->steps[s] ? (double)d->flagged[s] / (double)d->steps[s] : 0;
	printf("%-24s %10s %10s %11s %c\n", "steps", term_count((double)d->steps[0]),
	       term_count((double)d->steps[1]), "", ' ');
	if (d->slow_steps[0] || d->slow_steps[1])
		printf("%-24s %10s %10s\n", "slow steps, compared",
		       d->slow_steps[0] ? term_count((double)d->slow_steps[0]) : "all",
		       d->slow_steps[1] ? term_count((double)d->slow_steps[1]) : "all");
	if (!d->has_rates)
		return;
	printf("%-24s %10s %10s %s%11s%s %c\n", "flagged steps", term_percent(rate[0]),
	       term_percent(rate[1]), colour(rate[1] - rate[0], d->rate_differs),
	       points(rate[1] - rate[0]), term_style(TERM_PLAIN), d->rate_differs ? '!' : ' ');
}

/* The name comes last, since it may be long; note stands before it. */
static void row(const double ns[2], const char *note, const char *name, const char *more)
{
	double change = ns[1] - ns[0];
	unsigned columns = term_columns(), taken = 36 + (unsigned)strlen(note);

	printf("%10s %10s %s%11s%s  %s%s\n", term_ms(ns[0] / 1e6), term_ms(ns[1] / 1e6),
	       colour(change, true), term_ms(change / 1e6), term_style(TERM_PLAIN), note,
	       term_safe(name, columns > taken + 20 ? columns - taken : 30));
	if (more)
		printf("%37s%s%s%s\n", "", term_style(TERM_YELLOW),
		       term_safe(more, columns > 60 ? columns - 38 : 40), term_style(TERM_PLAIN));
}

static void print_spans(const char *what, const struct run_diff_span *s, size_t count,
			unsigned limit)
{
	if (!count)
		return;
	printf("\n%s%10s %10s %11s  %s%s\n", term_style(TERM_BOLD), "A", "B", "change", what,
	       term_style(TERM_PLAIN));
	for (size_t i = 0; i < count && i < limit; i++)
		row(s[i].time_ns, "", s[i].name, NULL);
}

/* If the other side's list ends above this kernel's time, the kernel may run there too. */
static const char *only_in(const struct run_diff *d, const struct kernel_diff_row *k)
{
	int has = k->main[1] != NULL;

	if (k->main[0] && k->main[1])
		return "";
	if (k->time_ns[has] <= d->kernels_from_ns[!has])
		return has ? "listed in B only: " : "listed in A only: ";
	return has ? "only in B: " : "only in A: ";
}

static void print_kernels(const struct run_diff *d, unsigned limit)
{
	for (int side = 0; d->has_steps && side < 2; side++)
		if (!d->kernel_steps[side])
			printf("\nno kernels to compare: %c has %s\n", 'A' + side,
			       d->side[side]->has_sketch ? "none"
							 : "no step with all of its records");
	if (!d->kernels.count)
		return;
	printf("\n%s%10s %10s %11s  kernels and copies, mean per step, variants merged%s\n",
	       term_style(TERM_BOLD), "A", "B", "change", term_style(TERM_PLAIN));
	for (size_t i = 0; i < d->kernels.count && i < limit; i++) {
		const struct kernel_diff_row *k = &d->kernels.rows[i];

		row(k->time_ns, only_in(d, k), k->base, k->changed);
	}
	if (d->kernels.count > limit)
		printf("%34s  and %zu more\n", "", d->kernels.count - limit);
}

static const char *samples_text(double samples)
{
	return isinf(samples) ? "not known" : term_count(samples);
}

static void print_functions(const struct run_diff *d, unsigned limit)
{
	unsigned columns = term_columns(), shown = 0;

	if (!d->function_count)
		return;
	printf("\n%s%10s %10s %11s  functions, share of the CPU with callees; !: significant "
	       "difference%s\n",
	       term_style(TERM_BOLD), "A", "B", "change", term_style(TERM_PLAIN));
	for (uint32_t i = 0; i < d->function_count && shown < limit; i++) {
		const struct profile_delta *f = &d->functions[i];

		if (fabs(f->delta) <= PROFILE_DELTA)
			break;
		shown++;
		printf("%9.2f%% %9.2f%% %s%+10.2f%%%s %c%s\n", 100 * f->base, 100 * f->other,
		       colour(f->delta, f->flagged), 100 * f->delta, term_style(TERM_PLAIN),
		       f->flagged ? '!' : ' ',
		       term_safe(f->name, columns > 60 ? columns - 36 : 30));
	}
	if (!shown)
		printf("%34s  no function's share differs by more than 0.5 points\n", "");
	printf("%34s  samples: A %s, B %s%s\n", "", samples_text(d->samples[0]),
	       samples_text(d->samples[1]), d->few_samples ? "; too few to compare" : "");
}

static void print_settings(const struct run_diff *d, unsigned limit)
{
	unsigned columns = term_columns();

	for (size_t i = 0; i < d->setting_count && i < limit; i++) {
		const struct run_diff_setting *v = &d->settings[i];

		if (!i)
			printf("\n%ssettings and versions that differ%s\n", term_style(TERM_BOLD),
			       term_style(TERM_PLAIN));
		printf("%s\n", term_safe(v->name, columns - 1));
		for (int s = 0; s < 2; s++)
			printf("  %c  %s\n", 'A' + s,
			       v->value[s]	      ? term_safe(v->value[s], columns - 6)
			       : d->side[s]->baseline ? "(none that all ranks have)"
						      : "(none)");
	}
	if (d->setting_count > limit)
		printf("  and %zu more\n", d->setting_count - limit);
}

static json_t *pair(double a, double b)
{
	return json_pack("[f, f]", a, b);
}

static json_t *side_json(const struct run_diff *d, int s)
{
	return json_pack(
	    "{s:o, s:s, s:I, s:o*, s:o*, s:I, s:o*}", "label", json_text(d->side[s]->label), "kind",
	    d->side[s]->kind, "steps", (json_int_t)d->steps[s], "slow_steps",
	    d->slow_steps[s] ? json_integer((json_int_t)d->slow_steps[s]) : NULL, "flagged",
	    d->side[s]->has_sketch ? NULL : json_integer((json_int_t)d->flagged[s]), "skipped",
	    (json_int_t)d->side[s]->skipped, "samples",
	    d->function_count && isfinite(d->samples[s])
		? json_integer((json_int_t)fmin(d->samples[s], 1e18))
		: NULL);
}

static json_t *kernels_json(const struct run_diff *d)
{
	json_t *list = json_array();

	for (size_t i = 0; i < d->kernels.count; i++) {
		const struct kernel_diff_row *k = &d->kernels.rows[i];
		json_t *j = json_pack("{s:o, s:o, s:o}", "kernel", json_text(k->base), "ns",
				      pair(k->time_ns[0], k->time_ns[1]), "count",
				      pair(k->count[0], k->count[1]));

		for (int s = 0; s < 2; s++)
			if (k->main[s])
				json_object_set_new(j, s ? "variant_b" : "variant_a",
						    json_text(k->main[s]));
		if (k->changed)
			json_object_set_new(j, "changed", json_text(k->changed));
		json_array_append_new(list, j);
	}
	return list;
}

static json_t *functions_json(const struct run_diff *d)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < d->function_count; i++) {
		const struct profile_delta *f = &d->functions[i];

		json_array_append_new(list, json_pack("{s:o, s:f, s:f, s:f, s:f, s:f, s:b}",
						      "function", json_text(f->name), "base",
						      f->base, "other", f->other, "base_self",
						      f->base_self, "other_self", f->other_self,
						      "delta", f->delta, "flagged", f->flagged));
	}
	return list;
}

static json_t *spans_json(const struct run_diff *d)
{
	json_t *spans = json_array();

	for (size_t i = 0; i < d->span_count; i++)
		json_array_append_new(
		    spans, json_pack("{s:o, s:o, s:o}", "span", json_text(d->spans[i].name), "ns",
				     pair(d->spans[i].time_ns[0], d->spans[i].time_ns[1]), "count",
				     pair(d->spans[i].count[0], d->spans[i].count[1])));
	return spans;
}

static json_t *blocked_json(const struct run_diff *d)
{
	json_t *list = json_array();

	for (size_t i = 0; i < d->blocked_count; i++)
		json_array_append_new(
		    list, json_pack("{s:o, s:o}", "function", json_text(d->blocked[i].name), "ns",
				    pair(d->blocked[i].time_ns[0], d->blocked[i].time_ns[1])));
	return list;
}

static json_t *settings_json(const struct run_diff *d)
{
	json_t *list = json_array();

	for (size_t i = 0; i < d->setting_count; i++) {
		const struct run_diff_setting *v = &d->settings[i];

		json_array_append_new(
		    list, json_pack("{s:o, s:o, s:o}", "setting", json_text(v->name), "a",
				    v->value[0] ? json_text(v->value[0]) : json_null(), "b",
				    v->value[1] ? json_text(v->value[1]) : json_null()));
	}
	return list;
}

static void print_json(const struct run_diff *d)
{
	json_t *steps = json_object(), *j;

	for (unsigned i = 0; d->has_steps && i < RUN_DIFF_METRICS; i++) {
		const struct run_diff_metric *m = &d->metric[i];

		if (!m->known)
			continue;
		json_object_set_new(steps, m->name,
				    json_pack("{s:o, s:o, s:b}", m->mean ? "mean" : "median",
					      pair(m->median[0], m->median[1]), "spread",
					      pair(m->spread[0], m->spread[1]), "differs",
					      m->differs));
	}
	j = json_pack("{s:o, s:o, s:o, s:b, s:o, s:o, s:o, s:o, s:o}", "a", side_json(d, 0), "b",
		      side_json(d, 1), "steps", steps, "rate_differs", d->rate_differs, "spans",
		      spans_json(d), "kernels", kernels_json(d), "functions", functions_json(d),
		      "blocked", blocked_json(d), "settings", settings_json(d));
	commands_print_new(j);
}

static int compare(const struct options *o, const struct diff_source *side)
{
	struct run_diff d;
	int err = run_diff_make(&d, &side[0], &side[1]);

	if (err) {
		fprintf(stderr, "sysom diff: %s\n",
			err == -ENODATA ? "A and B have neither steps nor stacks in common"
					: strerror(-err));
		return err == -ENODATA ? EXIT_NOTHING : EXIT_FAILED;
	}
	if (o->json) {
		print_json(&d);
	} else {
		for (int s = 0; s < 2; s++)
			printf("%s%c%s  %s\n", term_style(TERM_BOLD), 'A' + s,
			       term_style(TERM_PLAIN), side[s].label);
		if (d.has_steps)
			print_steps(&d);
		print_spans("spans, mean per step", d.spans, d.span_count, o->limit);
		print_kernels(&d, o->limit);
		print_functions(&d, o->limit);
		print_spans("functions that a thread was blocked in, mean per step", d.blocked,
			    d.blocked_count, o->limit);
		print_settings(&d, o->limit);
	}
	run_diff_free(&d);
	return EXIT_OK;
}

int cmd_diff_main(const struct options *o)
{
	struct diff_source *side = calloc(2, sizeof(*side));
	int rc = side ? EXIT_OK : EXIT_FAILED, opened = 0;

	for (; side && opened < 2 && rc == EXIT_OK; opened++)
		rc = diff_source_open(&side[opened], o, o->argv[opened], o->argv[1 - opened]);
	if (rc == EXIT_OK)
		rc = compare(o, side);
	for (int s = 0; s < opened; s++)
		diff_source_close(&side[s]);
	free(side);
	return rc;
}
