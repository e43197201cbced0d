/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "cli/plots/plot_axes.h"
#include "cli/plots/plots.h"
#include "render/escape.h"
#include "render/term.h"

#define NODES_SHOWN 16u
#define RANKS_SHOWN 64u /* of a node */
#define HEIGHT	    90.0
#define RANKS_DRAWN 16

/* ---- where ---- */

static const char *gpu_of(const struct trace_rank *r, char *out, size_t bytes)
{
	snprintf(out, bytes, "%s%s%.40s", r->gpu, *r->gpu && *r->who.gpu_uuid ? ", " : "",
		 r->who.gpu_uuid);
	if (!*out && r->who.local_rank >= 0)
		snprintf(out, bytes, "local rank %d", r->who.local_rank);
	return *out ? out : "GPU not known";
}

static bool is_of(const struct trace_rank *r, const char *node)
{
	return !strcmp(r->who.node, node);
}

static void put_rank(FILE *to, const struct trace_rank *r, bool culprit)
{
	char gpu[160];

	fprintf(to, "<span class=\"rank%s\"><b>%s</b> ", culprit ? " culprit" : "",
		term_rank(r->who.rank));
	if (culprit)
		escape_html(to, gpu_of(r, gpu, sizeof(gpu)));
	if (*r->nic)
		escape_around(to, ", NIC ", r->nic, "");
	fputs("</span>\n", to);
}

static void put_node(FILE *to, const json_t *in, const struct trace_model *m, const char *node)
{
	unsigned left = RANKS_SHOWN;

	escape_around(to, "<div class=\"node\"><b>node ", node, "</b>\n");
	for (int pass = 0; pass < 2; pass++) /* culprits first */
		for (size_t i = 0; i < m->rank_count && left; i++) {
			const struct trace_rank *r = &m->ranks[i];
			bool culprit = plots_is_culprit(in, r);

			if (is_of(r, node) && culprit == !pass) {
				put_rank(to, r, culprit);
				left--;
			}
		}
	fputs("</div>\n", to);
}

static bool seen_before(const json_t *in, const struct trace_model *m, size_t at)
{
	for (size_t i = 0; i < at; i++)
		if (plots_is_culprit(in, &m->ranks[i]) &&
		    is_of(&m->ranks[i], m->ranks[at].who.node))
			return true;
	return false;
}

void plots_where(FILE *to, const json_t *in, const struct trace_model *m)
{
	unsigned nodes = 0;

	for (size_t i = 0; i < m->rank_count && nodes < NODES_SHOWN; i++) {
		if (!plots_is_culprit(in, &m->ranks[i]) || seen_before(in, m, i))
			continue;
		if (!nodes++)
			fputs("<section id=\"where\">\n<h2>Where</h2>\n<div class=\"facts\">\n",
			      to);
		put_node(to, in, m, m->ranks[i].who.node);
	}
	if (nodes)
		fputs("</div>\n<p class=\"dim\">Red: to blame. Grey: other ranks with windows. "
		      "A NIC is shown if the job chose one for NCCL.</p>\n</section>\n",
		      to);
}

/* ---- clocks and power ---- */

struct gpu_plot {
	enum trace_gpu_reading what;
	const char *title, *unit;
};

static double reading(const struct trace_window *w, enum trace_gpu_reading what)
{
	return w->gpu[what];
}

static bool fit(struct plot_axes *p, const struct gpu_plot *g, const json_t *in,
		const struct trace_model *m)
{
	double lo = INFINITY, hi = -INFINITY;
	bool known = false;

	for (size_t i = 0; i < m->rank_count; i++)
		for (size_t k = 0; k < m->ranks[i].window_count; k++) {
			double v = reading(&m->ranks[i].windows[k], g->what);

			if (!isfinite(v))
				continue;
			lo = fmin(lo, v);
			hi = fmax(hi, v);
			known |= plots_is_culprit(in, &m->ranks[i]);
		}
	if (known)
		plot_axes_fit(&p->y, lo, hi, 3);
	return known;
}

/* A reading is the mean over its window. */
static void put_rank_line(const struct plot_axes *p, const struct gpu_plot *g,
			  const struct trace_rank *r, uint64_t begin_ns, const char *class)
{
	bool open = false;

	for (size_t k = 0; k < r->window_count; k++) {
		const struct trace_window *w = &r->windows[k];
		double v = reading(w, g->what);

		if (!isfinite(v))
			continue;
		if (!open)
			plot_axes_line(p, class);
		open = true;
		plot_axes_point(p, (double)(w->begin_ns - begin_ns) / 1e9, v);
		plot_axes_point(p, (double)(w->end_ns - begin_ns) / 1e9, v);
	}
	if (open)
		plot_axes_line_end(p);
}

static void put_plot(FILE *to, const struct gpu_plot *g, const json_t *in,
		     const struct trace_model *m, uint64_t begin_ns, double seconds)
{
	struct plot_axes p = {.to = to, .height = HEIGHT, .unit = g->unit, .scale = 1};

	if (!fit(&p, g, in, m))
		return;
	plot_axes_span(&p.x, 0, seconds, 5);
	fprintf(to, "<h3>%s</h3>\n", g->title);
	plot_axes_begin(&p, "gpu", g->title, "s since the first window began");
	for (int pass = 0; pass < 2; pass++) /* culprits above the others */
		for (size_t i = 0, k = 0; i < m->rank_count && k < RANKS_DRAWN; i++)
			if (plots_is_culprit(in, &m->ranks[i]) == pass && ++k)
				put_rank_line(&p, g, &m->ranks[i], begin_ns, pass ? "lat" : "oth");
	plot_axes_end(&p);
}

void plots_gpu(FILE *to, const json_t *in, const struct trace_model *m)
{
	static const struct gpu_plot plots[] = {
	    {TRACE_GPU_SM_CLOCK, "SM clock", " MHz"},
	    {TRACE_GPU_POWER, "Power", " W"},
	    {TRACE_GPU_TEMPERATURE, "Temperature", " C"},
	};
	uint64_t begin_ns = UINT64_MAX, end_ns = 0;
	bool known = false;

	for (size_t i = 0; i < m->rank_count; i++)
		for (size_t k = 0; k < m->ranks[i].window_count; k++) {
			const struct trace_window *w = &m->ranks[i].windows[k];

			begin_ns = w->begin_ns < begin_ns ? w->begin_ns : begin_ns;
			end_ns = w->end_ns > end_ns ? w->end_ns : end_ns;
			for (int q = 0; q < TRACE_GPU_READINGS; q++)
				known |= plots_is_culprit(in, &m->ranks[i]) && isfinite(w->gpu[q]);
		}
	if (!known || end_ns <= begin_ns)
		return;
	fputs("<section id=\"gpu\">\n<h2>GPU clock, power and temperature</h2>\n<p class=\"dim\">",
	      to);
	plot_axes_key(to, "pt", "to blame");
	plot_axes_key(to, "dot", "other ranks");
	fputs("Each reading is the mean of a window.</p>\n", to);
	for (size_t i = 0; i < sizeof(plots) / sizeof(plots[0]); i++)
		put_plot(to, &plots[i], in, m, begin_ns, (double)(end_ns - begin_ns) / 1e9);
	fputs("</section>\n", to);
}
