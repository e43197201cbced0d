/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/plots/plot_axes.h"

#include <math.h>

#define TICKS_MAX  20	  /* also of an axis without an end */
#define LINE_WIDTH 1000.0 /* units of a line's own frame */

/* The distance of grid lines: 1, 2 or 5 times a power of ten, at least span / most. */
static double nice_stride(double span, double most)
{
	static const double factors[] = {1, 2, 5};
	double least = span / most, unit = pow(10, floor(log10(least)));

	for (int k = 0; k < 3; k++)
		if (unit * factors[k] >= least * (1 - 1e-9))
			return unit * factors[k];
	return 10 * unit;
}

void plot_axes_fit(struct plot_axis *a, double lo, double hi, double most)
{
	double span = hi > lo ? hi - lo : fabs(hi) > 0 ? fabs(hi) / 10 : 1;

	a->stride = nice_stride(span, most);
	a->lo = floor(lo / a->stride + 1e-9) * a->stride;
	a->hi = ceil(hi / a->stride - 1e-9) * a->stride;
	if (a->hi <= a->lo)
		a->hi = a->lo + a->stride;
}

void plot_axes_span(struct plot_axis *a, double lo, double hi, double most)
{
	*a = (struct plot_axis){lo, hi, nice_stride(hi - lo, most)};
}

void plot_axes_fit_ms(struct plot_axes *p, double lo_ms, double hi_ms)
{
	p->scale = hi_ms >= 1000 ? 1000 : hi_ms < 1 ? 1e-3 : 1;
	p->unit = hi_ms >= 1000 ? " s" : hi_ms < 1 ? " us" : " ms";
	plot_axes_fit(&p->y, lo_ms, hi_ms, 5);
}

static double share(const struct plot_axis *a, double v)
{
	double s = (v - a->lo) / (a->hi - a->lo);

	return s > 1 ? 1 : s > 0 ? s : 0;
}

double plot_axes_x(const struct plot_axes *p, double x)
{
	return 100 * share(&p->x, x);
}

double plot_axes_y(const struct plot_axes *p, double y)
{
	return (1 - share(&p->y, y)) * p->height;
}

static void put_y(const struct plot_axes *p)
{
	const struct plot_axis *a = &p->y;

	for (int k = 0;
	     a->stride > 0 && a->lo + k * a->stride <= a->hi + 1e-9 * a->stride && k < TICKS_MAX;
	     k++) {
		double v = a->lo + k * a->stride, y = plot_axes_y(p, v);

		fprintf(p->to,
			"<line class=\"grid\" x1=\"0\" x2=\"100%%\" y1=\"%.1f\" y2=\"%.1f\"/>"
			"<text x=\"-6\" y=\"%.1f\" text-anchor=\"end\">%.6g%s</text>\n",
			y, y, y + 4, v / p->scale, p->unit);
	}
}

/* Only labels within the data: indices of steps are whole. */
static void put_x(const struct plot_axes *p, const char *name)
{
	const struct plot_axis *a = &p->x;
	double first = ceil(a->lo / a->stride - 1e-9) * a->stride;

	for (int k = 0; first + k * a->stride <= a->hi + 1e-9 * a->stride && k < TICKS_MAX; k++) {
		double v = first + k * a->stride, x = plot_axes_x(p, v);

		fprintf(p->to,
			"<line class=\"grid\" x1=\"%.2f%%\" x2=\"%.2f%%\" y1=\"%.1f\" y2=\"%.1f\"/>"
			"<text x=\"%.2f%%\" y=\"%.1f\" text-anchor=\"%s\">%.12g</text>\n",
			x, x, p->height, p->height + 4, x, p->height + 17,
			x > 96 ? "end" : "middle", v);
	}
	fprintf(p->to, "<text x=\"50%%\" y=\"%.1f\" text-anchor=\"middle\">%s</text>\n",
		p->height + 33, name);
}

void plot_axes_begin(const struct plot_axes *p, const char *class, const char *label,
		     const char *x_name)
{
	fprintf(p->to, "<svg class=\"%s\" height=\"%.0f\" role=\"img\" aria-label=\"%s\">\n", class,
		p->height, label);
	put_y(p);
	put_x(p, x_name);
}

void plot_axes_end(const struct plot_axes *p)
{
	fputs("</svg>\n", p->to);
}

void plot_axes_line(const struct plot_axes *p, const char *class)
{
	fprintf(p->to,
		"<svg viewBox=\"0 0 %.0f %.0f\" height=\"%.0f\" preserveAspectRatio=\"none\">"
		"<polyline class=\"%s\" points=\"",
		LINE_WIDTH, p->height, p->height, class);
}

void plot_axes_point(const struct plot_axes *p, double x, double y)
{
	fprintf(p->to, "%.1f,%.1f ", plot_axes_x(p, x) * LINE_WIDTH / 100, plot_axes_y(p, y));
}

void plot_axes_line_end(const struct plot_axes *p)
{
	fputs("\"/></svg>\n", p->to);
}

void plot_axes_key(FILE *to, const char *class, const char *text)
{
	fprintf(to,
		"<span class=\"key\"><svg height=\"10\"><rect class=\"%s\" width=\"100%%\" "
		"height=\"10\"/></svg>%s</span> ",
		class, text);
}
