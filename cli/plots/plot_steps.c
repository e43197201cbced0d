/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "cli/plots/plot_axes.h"
#include "cli/plots/plots.h"
#include "model/thresholds.h"
#include "render/escape.h"
#include "render/incident_verdict.h"
#include "render/term.h"

#define STEPS_SHOWN 500
#define LINE_POINTS 1500 /* more than the pixels it has */
#define RANKS_DRAWN 16
#define HEIGHT	    230.0
/* Points that the keyboard can reach, one by one; the table below the chart has them all. */
#define FOCUS_MAX 40

/* The culprits, or all ranks if nobody is to blame. */
static bool is_shown(const json_t *in, const struct trace_rank *r)
{
	return plots_is_culprit(in, r) || !json_array_size(json_object_get(in, "ranks"));
}

static double latency_ms(const struct window_step *s)
{
	return (double)s->step.latency_ns / 1e6;
}

/* A line with gaps where steps are missing between windows. */
static void put_line(const struct plot_axes *p, const struct trace_rank *r, const char *class,
		     bool expected)
{
	size_t stride = r->step_count / LINE_POINTS + 1;
	uint64_t before = 0;
	bool open = false;

	for (size_t i = 0; i < r->step_count; i += stride) {
		const struct window_step *s = &r->steps[i];
		double ms = expected ? s->expected_ns / 1e6 : latency_ms(s);
		bool gap = !open || s->step.index > before + stride || s->step.index <= before;

		if (expected && !(ms > 0))
			continue;
		if (gap && open)
			plot_axes_line_end(p);
		if (gap)
			plot_axes_line(p, class);
		plot_axes_point(p, (double)s->step.index, ms);
		before = s->step.index;
		open = true;
	}
	if (open)
		plot_axes_line_end(p);
}

static size_t count_flagged(const struct trace_rank *r)
{
	size_t n = 0;

	for (size_t i = 0; i < r->step_count; i++)
		n += trace_step_is_flagged(&r->steps[i]);
	return n;
}

/* A point's tooltip is at the top right. */
static void put_points(const struct plot_axes *p, const struct trace_rank *r)
{
	bool focus = count_flagged(r) <= FOCUS_MAX;
	size_t left = LINE_POINTS;

	for (size_t i = 0; i < r->step_count && left; i++) {
		const struct window_step *s = &r->steps[i];
		double x = plot_axes_x(p, (double)s->step.index), y = plot_axes_y(p, latency_ms(s));
		char text[160];

		if (!trace_step_is_flagged(s))
			continue;
		left--;
		snprintf(text, sizeof(text), "%s, step %llu: %s, expected %s",
			 term_rank(r->who.rank), (unsigned long long)s->step.index,
			 term_ms(latency_ms(s)), term_ms(s->expected_ns / 1e6));
		fprintf(p->to,
			"<g class=\"p\"%s role=\"img\" aria-label=\"%s\"><circle class=\"hit\" "
			"cx=\"%.2f%%\" cy=\"%.1f\" r=\"8\"/><circle class=\"pt\" cx=\"%.2f%%\" "
			"cy=\"%.1f\" r=\"2.6\"/><text class=\"tip\" x=\"100%%\" y=\"-8\" "
			"text-anchor=\"end\">%s</text></g>\n",
			focus ? " tabindex=\"0\"" : "", text, x, y, x, y, text);
	}
}

double plots_most_ns(const struct trace_rank *r)
{
	double most_ns = 0;

	for (size_t i = 0; i < r->step_count; i++)
		most_ns = fmax(most_ns, (double)r->steps[i].step.latency_ns);
	return thresholds.time.times * most_ns;
}

static bool fit(struct plot_axes *p, const json_t *in, const struct trace_model *m)
{
	double lo_ms = INFINITY, hi_ms = 0, first = INFINITY, last = 0;

	for (size_t i = 0; i < m->rank_count; i++) {
		const struct trace_rank *r = &m->ranks[i];
		double most_ns = plots_most_ns(r);

		for (size_t k = 0; is_shown(in, r) && k < r->step_count; k++) {
			const struct window_step *s = &r->steps[k];
			double e = s->expected_ns > 0 ? s->expected_ns / 1e6 : latency_ms(s);

			first = fmin(first, (double)s->step.index);
			last = fmax(last, (double)s->step.index);
			lo_ms = fmin(lo_ms, fmin(latency_ms(s), e));
			hi_ms = fmax(hi_ms, latency_ms(s));
			if (s->expected_ns <= most_ns)
				hi_ms = fmax(hi_ms, e);
		}
	}
	if (!(hi_ms > 0))
		return false;
	plot_axes_fit_ms(p, lo_ms, hi_ms);
	last = fmax(last, first + 1);
	plot_axes_span(&p->x, first, last, fmin(last - first, 5));
	return true;
}

/* Other ranks may number steps differently; only steps in the culprit's range are drawn. */
static bool within(const struct plot_axes *p, const struct trace_rank *r)
{
	for (size_t i = 0; i < r->step_count; i++)
		if ((double)r->steps[i].step.index < p->x.lo ||
		    (double)r->steps[i].step.index > p->x.hi)
			return false;
	return r->step_count > 0;
}

/* The chart's flagged steps as a table, for readers who can't see or point. */
static void put_steps(FILE *to, const json_t *in, const struct trace_model *m)
{
	size_t left = STEPS_SHOWN, more = 0;

	fputs(
	    "<details><summary>Flagged steps as a table</summary>\n<div "
	    "class=\"scroll\"><table><tr>"
	    "<th>rank</th><th>step</th><th>expected</th><th>observed</th><th>excess</th>"
	    "<th>self time</th><th>in kernels</th><th>waiting in collectives</th><th>GPU idle</th>"
	    "</tr>\n",
	    to);
	for (size_t i = 0; i < m->rank_count; i++) {
		const struct trace_rank *r = &m->ranks[i];

		for (size_t k = 0; is_shown(in, r) && k < r->step_count; k++) {
			const struct window_step *s = &r->steps[k];
			double ms = latency_ms(s), expected_ms = s->expected_ns / 1e6;

			if (!trace_step_is_flagged(s))
				continue;
			if (!left) {
				more++;
				continue;
			}
			left--;
			fprintf(to, "<tr><td>%s</td><td>%llu</td>", term_rank_cell(r->who.rank),
				(unsigned long long)s->step.index);
			escape_cell(to, expected_ms > 0 ? term_ms_cell(expected_ms) : "-");
			escape_cell(to, term_ms_cell(ms));
			escape_cell(to, expected_ms > 0 ? term_excess(ms / expected_ms - 1) : "-");
			escape_cell(to, term_ms_cell((double)s->step.self_ns / 1e6));
			escape_cell(to, term_ms_cell((double)s->step.compute_ns / 1e6));
			escape_cell(to, term_ms_cell((double)s->step.exposed_comm_ns / 1e6));
			escape_cell(to, term_ms_cell((double)s->step.idle_ns / 1e6));
			fputs("</tr>\n", to);
		}
	}
	if (more)
		fprintf(to, "<tr><td class=\"t\" colspan=\"9\">and %zu more</td></tr>\n", more);
	fputs("</table></div></details>\n", to);
}

void plots_steps(FILE *to, const json_t *in, const struct trace_model *m)
{
	struct plot_axes p = {.to = to, .height = HEIGHT};
	const struct trace_rank *first = NULL;
	unsigned others = 0, drawn = 0;

	fprintf(to, "<section id=\"steps\">\n<h2>Steps%s</h2>\n",
		incident_verdict_is_hang(in) ? " before the hang" : "");
	if (!fit(&p, in, m)) {
		fputs("<p class=\"dim\">No steps: their windows are gone or could not be "
		      "read.</p>\n</section>\n",
		      to);
		return;
	}
	fputs("<p class=\"dim\">", to);
	plot_axes_key(to, "pt", "observed; dots: flagged steps");
	plot_axes_key(to, "ok", "expected");
	for (size_t i = 0; i < m->rank_count; i++)
		if (!is_shown(in, &m->ranks[i]) && within(&p, &m->ranks[i])) {
			plot_axes_key(to, "dot", "other ranks");
			break;
		}
	fputs("</p>\n", to);
	plot_axes_begin(&p, "steps", "step latency", "step");
	for (size_t i = 0; i < m->rank_count && others < RANKS_DRAWN; i++)
		if (!is_shown(in, &m->ranks[i]) && within(&p, &m->ranks[i])) {
			put_line(&p, &m->ranks[i], "oth", false);
			others++;
		}
	for (size_t i = 0; i < m->rank_count && drawn < RANKS_DRAWN; i++) {
		if (!is_shown(in, &m->ranks[i]))
			continue;
		first = first ? first : &m->ranks[i];
		put_line(&p, &m->ranks[i], "lat", false);
		drawn++;
	}
	put_line(&p, first, "exp", true);
	for (size_t i = 0, k = 0; i < m->rank_count && k < RANKS_DRAWN; i++)
		if (is_shown(in, &m->ranks[i])) {
			put_points(&p, &m->ranks[i]);
			k++;
		}
	plot_axes_end(&p);
	put_steps(to, in, m);
	fputs("</section>\n", to);
}
