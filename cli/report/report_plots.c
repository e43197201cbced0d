/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/report.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/expect/roofline.h"
#include "analysis/robust/median.h"
#include "analysis/robust/regress.h"
#include "base/check.h"
#include "base/order.h"
#include "cli/diff/incident_diff.h"
#include "cli/plots/plot_axes.h"
#include "cli/plots/plots.h"
#include "cli/report/rank_grid.h"
#include "render/escape.h"
#include "render/term.h"

#define POINTS_MAX 2000u
/* One cell of twenty exceeds the full colour's value, so one odd step does not pale the rest. */
#define FULL_QUANTILE 0.95

/* ---- heat maps ---- */

struct heat {
	const struct rank_grid *g;
	bool late;   /* else self time */
	double full; /* the value of the full colour */
	double row;  /* height */
};

static double value_of(const struct heat *h, uint32_t r, uint32_t c)
{
	const struct rank_grid_cell *cell = rank_grid_at(h->g, r, c);

	return h->late ? cell->late_ns / 1e6 : cell->excess;
}

/* -ENODATA: no value. */
static int find_full(struct heat *h)
{
	size_t all = (size_t)h->g->rank_count * h->g->columns;
	uint32_t n = 0;
	double *v = calloc(all + 1, sizeof(*v));

	if (!v)
		return -ENOMEM;
	for (uint32_t r = 0; r < h->g->rank_count; r++)
		for (uint32_t c = 0; c < h->g->columns; c++)
			if (isfinite(value_of(h, r, c)))
				v[n++] = fabs(value_of(h, r, c));
	h->full = median_lower(v, n, FULL_QUANTILE);
	/* less than 1% or 0.1 ms stays pale */
	h->full = fmax(h->full, h->late ? 0.1 : 0.01);
	free(v);
	return n ? 0 : -ENODATA;
}

static const char *value_text(const struct heat *h, double v)
{
	return !isfinite(v) ? "not known" : h->late ? term_ms(v) : term_excess(v);
}

static double percent(const struct heat *h, uint32_t columns)
{
	return 100.0 * columns / h->g->columns;
}

static void put_cell(FILE *to, const struct heat *h, uint32_t r, uint32_t c)
{
	double v = value_of(h, r, c), strength = fabs(v) / h->full;

	strength = strength > 1 ? 1 : strength;
	if (!isfinite(v) || strength < 0.02)
		return;
	fprintf(to,
		"<rect class=\"%s\" x=\"%.3f%%\" y=\"%.1f\" width=\"%.3f%%\" height=\"%.1f\" "
		"fill-opacity=\"%.2f\"><title>%s, step %llu: %s</title></rect>\n",
		v > 0 ? "hot" : "cold", percent(h, c), r * h->row, percent(h, 1), h->row - 1.5,
		strength, term_rank(h->g->rank[r]->who.rank),
		(unsigned long long)h->g->first_step[c], value_text(h, v));
}

/* Unknown cells must not look like healthy ones. */
static void put_unknown(FILE *to, const struct heat *h, uint32_t r)
{
	for (uint32_t c = 0, end; c < h->g->columns; c = end + 1) {
		for (end = c; end < h->g->columns && !isfinite(value_of(h, r, end));)
			end++;
		if (end > c)
			fprintf(to,
				"<rect class=\"unknown\" x=\"%.3f%%\" y=\"%.1f\" width=\"%.3f%%\" "
				"height=\"%.1f\"/>\n",
				percent(h, c), r * h->row, percent(h, end - c), h->row - 1.5);
	}
}

static void put_heat_axis(FILE *to, const struct heat *h)
{
	const struct rank_grid *g = h->g;
	double y = g->rank_count * h->row;
	uint32_t stride = g->columns / 4 + 1;

	for (uint32_t c = 0; c < g->columns; c++)
		if (g->flagged[c])
			fprintf(to,
				"<rect class=\"pt\" x=\"%.3f%%\" y=\"%.1f\" width=\"%.3f%%\" "
				"height=\"3\"/>\n",
				percent(h, c), y, percent(h, 1));
	for (uint32_t c = 0; c < g->columns; c += stride)
		fprintf(to, "<text x=\"%.2f%%\" y=\"%.1f\">%llu</text>\n", percent(h, c), y + 16,
			(unsigned long long)g->first_step[c]);
	fprintf(to,
		"<text x=\"100%%\" y=\"%.1f\" text-anchor=\"end\">step; below: flagged%s</text>\n",
		y + 32, g->per_column > 1 ? "; several steps per column" : "");
}

/* What self times are compared with. */
static const char *than(const struct rank_grid *g)
{
	return g->by_peers ? "the peers" : "the expected self time";
}

static void put_heat_table(FILE *to, const struct rank_grid *g)
{
	fputs("<details><summary>Medians of each rank as a table</summary>\n<div "
	      "class=\"scroll\"><table>"
	      "<tr><th scope=\"col\">rank</th><th class=\"t\" scope=\"col\">node</th>"
	      "<th scope=\"col\">self time, other steps</th><th scope=\"col\">flagged</th>"
	      "<th scope=\"col\">above ",
	      to);
	fputs(than(g), to);
	fputs(", other steps</th><th scope=\"col\">flagged</th>"
	      "<th scope=\"col\">late, other steps</th><th scope=\"col\">flagged</th></tr>\n",
	      to);
	for (uint32_t r = 0; r < g->rank_count; r++) {
		struct rank_grid_cell a = rank_grid_typical(g, r, false);
		struct rank_grid_cell b = rank_grid_typical(g, r, true);

		fprintf(to, "<tr><td>%d</td><td class=\"t\">", g->rank[r]->who.rank);
		escape_html(to, g->rank[r]->who.node);
		fprintf(to,
			"</td><td>%s</td><td>%s</td><td>%s</td><td>%s</td><td>%s</td><td>%s</td>"
			"</tr>\n",
			isfinite(a.self_ns) ? term_ms_cell(a.self_ns / 1e6) : "-",
			isfinite(b.self_ns) ? term_ms_cell(b.self_ns / 1e6) : "-",
			isfinite(a.excess) ? term_excess(a.excess) : "-",
			isfinite(b.excess) ? term_excess(b.excess) : "-",
			isfinite(a.late_ns) ? term_ms_cell(a.late_ns / 1e6) : "-",
			isfinite(b.late_ns) ? term_ms_cell(b.late_ns / 1e6) : "-");
	}
	fputs("</table></div></details>\n", to);
}

static int put_heat(FILE *to, const struct rank_grid *g, bool late)
{
	struct heat h = {.g = g, .late = late, .row = g->rank_count > 32 ? 10 : 20};
	struct rank_grid_cell own = rank_grid_typical(g, g->culprit, true);
	int err = find_full(&h);

	if (err)
		return err == -ENODATA ? 0 : err;
	fprintf(to,
		"<h3>%s%s</h3>\n<p class=\"dim\">%s Full red: %s and more; blue: %s; "
		"blank: not known.</p>\n",
		late ? "How late each rank enters collectives"
		     : "Self time of each rank, compared with ",
		late ? "" : than(g),
		late ? "Delay behind the median rank, in each step's latest collective."
		     : "Step time minus communication that no kernel or copy overlaps.",
		value_text(&h, h.full), late ? "before the others" : "faster");
	fprintf(to,
		"<svg class=\"heat\" data-kind=\"%s\" height=\"%.0f\" role=\"img\" "
		"aria-label=\"Heat map of %s by rank and step; %s in flagged steps: %s in the "
		"median\">\n",
		late ? "late" : "self", g->rank_count * h.row, late ? "lateness" : "self time",
		term_rank(g->rank[g->culprit]->who.rank),
		value_text(&h, late ? own.late_ns / 1e6 : own.excess));
	for (uint32_t r = 0; r < g->rank_count; r++) {
		fprintf(
		    to,
		    "<rect class=\"cellbg\" x=\"0\" y=\"%.1f\" width=\"100%%\" height=\"%.1f\"/>\n",
		    r * h.row, h.row - 1.5);
		if (h.row >= 20 || r % 4 == 0 || r == g->culprit)
			fprintf(to, "<text x=\"-8\" y=\"%.1f\" text-anchor=\"end\"%s>%s</text>\n",
				(r + 0.5) * h.row + 4,
				g->blamed && r == g->culprit ? " class=\"culprit\"" : "",
				g->rank[r]->who.rank < 0 ? "no rank"
							 : term_rank(g->rank[r]->who.rank));
		put_unknown(to, &h, r);
		for (uint32_t c = 0; c < g->columns; c++)
			put_cell(to, &h, r, c);
	}
	put_heat_axis(to, &h);
	fputs("</svg>\n", to);
	return 0;
}

int report_plots_heat(FILE *to, const json_t *in, const struct trace_model *m)
{
	struct rank_grid g;
	int err = rank_grid_make(&g, in, m);

	if (err)
		return err == -ENODATA ? 0 : err;
	fputs("<section id=\"ranks\">\n<h2>Ranks</h2>\n", to);
	if (g.left_out)
		fprintf(to, "<p class=\"dim\">%u further ranks are not drawn.</p>\n", g.left_out);
	err = put_heat(to, &g, false);
	if (!err && rank_grid_has_lateness(&g))
		err = put_heat(to, &g, true);
	put_heat_table(to, &g);
	fputs("</section>\n", to);
	rank_grid_free(&g);
	return err;
}

/* ---- roofline ---- */

struct point {
	double x, expected_ms, ms;
	uint64_t step;
	bool flagged;
	bool by_peers; /* expected by the peers, not by the model: not on the line */
};

struct scatter {
	struct point *p;
	size_t count, on_line;
	double x_lo, x_hi, y_lo, y_hi;
	int work; /* the work that is x; -1: x is the expected time, which follows several */
	bool automatic;
};

static bool by_peers(const struct window_step *s)
{
	return s->flags & TRACE_STEP_BY_PEERS;
}

/* Only over steps that the model judged. The peers' expected latency is the step's own less an excess, so
 * it does not follow the work. */
static double correlation(const struct trace_rank *r, int work)
{
	struct regress_sums sums = {0};

	for (size_t i = 0; i < r->step_count; i++) {
		double x = r->steps[i].step.work[work], y = r->steps[i].expected_ns;

		if (!by_peers(&r->steps[i]) && y > 0 && isfinite(x) &&
		    (uint32_t)work < r->steps[i].step.work_count)
			regress_add(&sums, x, y);
	}
	return regress_correlation(&sums);
}

ORDER_BY(by_x, struct point, ORDER_UP(x) ?: ORDER_UP(step));

static bool scatter_make(struct scatter *s, const struct trace_rank *r)
{
	size_t stride = r->step_count / POINTS_MAX + 1;
	double best = 0.98, widen, most_ns = plots_most_ns(r);

	memset(s, 0, sizeof(*s));
	s->work = -1;
	for (int w = 0; w < STEP_WORK_MAX; w++)
		if (fabs(correlation(r, w)) > best) {
			best = fabs(correlation(r, w));
			s->work = w;
		}
	s->p = calloc(r->step_count + 1, sizeof(*s->p));
	for (size_t i = 0; s->p && i < r->step_count; i++) {
		const struct window_step *w = &r->steps[i];
		bool flagged = trace_step_is_flagged(w);
		double x = s->work < 0 ? w->expected_ns / 1e6 : w->step.work[s->work];

		if (!(w->expected_ns > 0) || w->expected_ns > most_ns || !isfinite(x) ||
		    (i % stride && !flagged) || (s->work < 0 && by_peers(w)))
			continue;
		s->automatic = w->step.source == STEP_SOURCE_AUTO;
		s->p[s->count++] = (struct point){
		    x,	     w->expected_ns / 1e6, (double)w->step.latency_ns / 1e6, w->step.index,
		    flagged, by_peers(w)};
		s->on_line += !by_peers(w);
	}
	if (s->on_line < 3)
		return false;
	qsort(s->p, s->count, sizeof(*s->p), by_x);
	s->x_lo = s->p[0].x;
	s->x_hi = s->p[s->count - 1].x;
	/* the range is at least 10%, so that equal work looks equal */
	widen = 0.05 * (s->x_lo + s->x_hi) / 2 - (s->x_hi - s->x_lo) / 2;
	if (widen > 0) {
		s->x_lo -= widen;
		s->x_hi += widen;
	}
	s->y_lo = INFINITY;
	for (size_t i = 0; i < s->count; i++) {
		s->y_lo = fmin(s->y_lo, fmin(s->p[i].ms, s->p[i].expected_ms));
		s->y_hi = fmax(s->y_hi, fmax(s->p[i].ms, s->p[i].expected_ms));
	}
	return s->y_hi > 0;
}

static const char *work_name(const struct scatter *s, char *out, size_t bytes)
{
	static const char *const automatic[] = {"kernels launched", "thread blocks launched",
						"bytes in collectives", "bytes copied"};

	snprintf(out, bytes, "work[%d] of the step", s->work);
	return s->work < 0    ? "expected time of the step, ms"
	       : s->automatic ? automatic[s->work]
			      : out;
}

static void put_scatter(FILE *to, const struct scatter *s, const struct trace_rank *r)
{
	struct plot_axes p = {.to = to, .height = 230};
	char label[160], work[40];
	size_t flagged = 0;

	for (size_t i = 0; i < s->count; i++)
		flagged += s->p[i].flagged;
	snprintf(label, sizeof(label),
		 "Step time against work of %s: %zu steps, %zu flagged, and the expected line",
		 term_rank(r->who.rank), s->count, flagged);
	plot_axes_fit_ms(&p, s->y_lo, s->y_hi);
	plot_axes_fit(&p.x, s->x_lo, s->x_hi, 4);
	plot_axes_begin(&p, "roofline", label, work_name(s, work, sizeof(work)));
	plot_axes_line(&p, "exp");
	for (size_t i = 0; i < s->count; i++)
		if (!s->p[i].by_peers)
			plot_axes_point(&p, s->p[i].x, s->p[i].expected_ms);
	plot_axes_line_end(&p);
	for (int pass = 0; pass < 2; pass++) /* flagged ones on top */
		for (size_t i = 0; i < s->count; i++) {
			const struct point *q = &s->p[i];

			if (q->flagged != pass)
				continue;
			fprintf(
			    to,
			    "<circle class=\"%s\" cx=\"%.2f%%\" cy=\"%.1f\" r=\"3.2\"><title>step "
			    "%llu: %s",
			    pass ? "pt" : "dot", plot_axes_x(&p, q->x), plot_axes_y(&p, q->ms),
			    (unsigned long long)q->step, term_ms(q->ms));
			fprintf(to, ", expected %s%s%s</title></circle>\n", term_ms(q->expected_ms),
				q->by_peers ? " by its peers" : "", pass ? ", flagged" : "");
		}
	plot_axes_end(&p);
}

static bool any_by_peers(const struct trace_rank *r)
{
	for (size_t i = 0; i < r->step_count; i++)
		if (by_peers(&r->steps[i]))
			return true;
	return false;
}

void report_plots_roofline(FILE *to, const json_t *in, const struct trace_model *m)
{
	const struct trace_rank *r = incident_diff_culprit(in, m);
	struct scatter s = {0};

	if (r && scatter_make(&s, r)) {
		const struct trace_window *w = r->window_count ? &r->windows[0] : NULL;

		fprintf(to,
			"<section id=\"roofline\">\n<h2>Roofline of %s</h2>\n<p class=\"dim\">"
			"Each dot is a step: its latency by its work. The line is the expected "
			"latency; red steps are flagged.%s",
			term_rank(r->who.rank),
			any_by_peers(r)
			    ? " Steps that are slow only compared with the node's other "
			      "ranks are not part of the line: the model has learned "
			      "them."
			    : "");
		if (w && w->model_state)
			fprintf(to, " The model was %s%s", roofline_state_name(w->model_state),
				w->model_r2 > 0 ? "" : ".");
		if (w && w->model_state && w->model_r2 > 0)
			fprintf(to, ", R&#178; %.3f.", w->model_r2);
		fputs("</p>\n", to);
		put_scatter(to, &s, r);
		fputs("</section>\n", to);
	}
	free(s.p);
}
