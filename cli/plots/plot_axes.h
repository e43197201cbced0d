/* SPDX-License-Identifier: Apache-2.0
 * plot_axes.h - the frame of a picture in a report: SVG whose texts keep their size. Widths are
 * percentages of the picture and heights are pixels, so a narrow window gets a narrow picture with
 * readable labels. Lines lie in a frame that stretches (plot_axes_line). Threads: one caller. */
#pragma once

#include <stdio.h>

struct plot_axis {
	double lo, hi, stride;
};

struct plot_axes {
	FILE *to;
	struct plot_axis x, y; /* y of stride 0: none */
	double height;	       /* pixels */
	const char *unit;      /* of y, behind each label; with scale: y / scale is shown */
	double scale;
};

/* Round numbers around lo and hi, about `most` strides apart. */
void plot_axes_fit(struct plot_axis *a, double lo, double hi, double most);
/* From lo to hi exactly; hi is above lo. */
void plot_axes_span(struct plot_axis *a, double lo, double hi, double most);
/* y becomes an axis of milliseconds, with the unit that fits. */
void plot_axes_fit_ms(struct plot_axes *p, double lo_ms, double hi_ms);
double plot_axes_x(const struct plot_axes *p, double x); /* percent of the width, 0 to 100 */
double plot_axes_y(const struct plot_axes *p, double y); /* pixels from the top, in the picture */
/* Opens the picture with its grid and the labels of both axes; x_name stands below. label: for those who
 * can't see it; class: of the element. plot_axes_end closes it. */
void plot_axes_begin(const struct plot_axes *p, const char *class, const char *label,
		     const char *x_name);
void plot_axes_end(const struct plot_axes *p);
/* Opens and closes a line of that class; plot_axes_point adds a point to it. */
void plot_axes_line(const struct plot_axes *p, const char *class);
void plot_axes_point(const struct plot_axes *p, double x, double y);
void plot_axes_line_end(const struct plot_axes *p);
/* One entry of a legend, as HTML before the picture. */
void plot_axes_key(FILE *to, const char *class, const char *text);
