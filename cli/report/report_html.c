/* SPDX-License-Identifier: Apache-2.0
 * Not from a template, so that no text reaches the file unescaped: every string of a peer goes through
 * escape_html(). */
#include "cli/report/report.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/jsonget.h"
#include "cli/report/incident_text.h"
#include "cli/report/incident_verdict.h"
#include "cli/report/kernel_diff.h"
#include "cli/report/report_kernels.h"
#include "cli/text/escape.h"
#include "cli/text/kernel_name.h"
#include "cli/text/outfile.h"
#include "cli/text/term.h"
#include "cli/trace/trace_label.h"

#define KERNELS_SHOWN 25
#define STEPS_SHOWN   500
#define SIGNALS_SHOWN 64
#define CHART_STEPS   1500 /* points per line: more than the pixels it has */
#define CHART_RANKS   16
#define CHART_W	      960.0
#define CHART_H	      300.0
#define CHART_LEFT    64.0
#define CHART_RIGHT   12.0
#define CHART_TOP     34.0 /* the legend stands there */
#define CHART_BOTTOM  34.0
/* Points that the keyboard can reach, one by one; the table below the chart has them all. */
#define CHART_FOCUS 40

static const char style[] =
    ":root{--bg:#fff;--fg:#1b1f24;--dim:#667080;--line:#d9dee5;--bad:#c62828;--ok:#2e7d32;"
    "--bar:#e39b2d;--other:#8894a6;--cool:#1f6fd6}\n"
    "@media (prefers-color-scheme:dark){:root{--bg:#15181d;--fg:#e6e9ee;--dim:#98a2b3;"
    "--line:#313845;--bad:#ff7b72;--ok:#7ee787;--bar:#e3b341;--other:#5d6a7d;--cool:#6aa8ff}}\n"
    "body{background:var(--bg);color:var(--fg);font:15px/1.45 system-ui,sans-serif;margin:2em auto;"
    "max-width:1000px;padding:0 1em}\n"
    "h1{font-size:1.6em;margin:0 0 .2em}h2{font-size:1.1em;margin:1.8em 0 .5em}\n"
    ".dim{color:var(--dim)}.bad{color:var(--bad)}.ok{color:var(--ok)}\n"
    "table{border-collapse:collapse;width:100%}td,th{padding:.25em .6em;text-align:right;"
    "border-bottom:1px solid var(--line);white-space:nowrap}\n"
    "th{font-weight:600;color:var(--dim)}td.t,th.t{text-align:left;white-space:normal;"
    "overflow-wrap:anywhere;min-width:7em}\n"
    ".facts{display:flex;flex-wrap:wrap;gap:1em;margin:1.2em 0}.facts div{border:1px solid "
    "var(--line);border-radius:6px;padding:.5em .9em}.facts b{display:block;font-size:1.35em}\n"
    ".bar{display:inline-block;height:.7em;background:var(--bar);border-radius:2px}\n"
    "svg{width:100%;height:auto}svg text{fill:var(--dim);font-size:12px}\n"
    ".hit{fill:transparent;stroke:none}.tip{visibility:hidden}svg .tip text{fill:var(--fg)}"
    ".tip rect{fill:var(--bg);stroke:var(--line)}.p:hover .tip,.p:focus .tip{visibility:visible}"
    ".p:focus{outline:none}.p:focus .pt,.p:hover .pt{stroke:var(--fg);stroke-width:2}\n"
    "details{margin:.6em 0}summary{cursor:pointer;color:var(--dim)}"
    ".scroll{overflow-x:auto}\n"
    "h3{font-size:.98em;margin:1.2em 0 "
    ".3em}section{margin:0}code{font-size:.85em;color:var(--dim)}\n"
    ".verdict{border:1px solid var(--line);border-left:5px solid var(--bad);border-radius:6px;"
    "padding:.2em 1.2em .8em;margin:1.4em 0}.verdict h2{margin:.6em 0 0}\n"
    ".summary{font-size:1.15em;margin:.4em 0}.remedy{border-top:1px solid var(--line);"
    "padding-top:.6em}ul{margin:.2em 0;padding-left:1.3em}li{overflow-wrap:anywhere}\n"
    ".layer{display:inline-block;border:1px solid var(--line);border-radius:4px;padding:0 .4em;"
    "font-size:.85em;color:var(--dim)}.ruled-out{color:var(--dim)}\n"
    ".flame{width:100%;height:46em;border:1px solid var(--line);border-radius:6px}"
    ".cool{color:var(--cool)}\n"
    ".hot{fill:var(--bad)}.cold{fill:var(--cool)}.cellbg{fill:var(--line);fill-opacity:.35}"
    ".unknown{fill:var(--bg)}"
    ".dot{fill:var(--other)}svg text.culprit{fill:var(--bad);font-weight:600}\n"
    ".grid{stroke:var(--line)}.lat{stroke:var(--bad);stroke-width:1.6;fill:none}"
    ".exp{stroke:var(--ok);stroke-width:1.4;stroke-dasharray:5 4;fill:none}"
    ".oth{stroke:var(--other);stroke-width:1;fill:none}.pt{fill:var(--bad)}\n"
    "@media print{:root{--bg:#fff;--fg:#000;--dim:#444;--line:#bbb;--bad:#b00020;--ok:#1b6e20;"
    "--bar:#b9770e;--other:#999;--cool:#1a56a8}body{margin:0;max-width:none;font-size:11px}"
    "*{print-color-adjust:exact;-webkit-print-color-adjust:exact}"
    "h2{break-after:avoid}tr,svg,.facts div{break-inside:avoid}.tip{display:none}}\n";

static void cell(FILE *to, const char *text)
{
	escape_around(to, "<td>", text, "</td>");
}

static void fact(FILE *to, const char *label, const char *value, const char *class)
{
	fprintf(to, "<div><span class=\"dim\">%s</span><b class=\"%s\">", label, class);
	escape_html(to, value);
	fputs("</b></div>\n", to);
}

static void put_head(FILE *to, const json_t *in)
{
	uint64_t begin = jsonget_unsigned(in, "begin_unix_ns"),
		 end = jsonget_unsigned(in, "end_unix_ns");
	const json_t *nodes = json_object_get(in, "nodes"), *v;
	size_t i;

	fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
	      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
	      "<meta name=\"color-scheme\" content=\"light dark\">\n<title>",
	      to);
	escape_html(to, incident_text_title(in));
	fputs(" - sysom</title>\n<style>\n", to);
	fputs(style, to);
	escape_around(to, "</style></head><body>\n<h1>", incident_text_title(in),
		      "</h1>\n<p class=\"dim\">Incident ");
	escape_html(to, jsonget_text(in, "id"));
	escape_around(to, ", ", jsonget_text(in, "state"), "; job ");
	escape_html(to, jsonget_text(in, "job"));
	json_array_foreach ((json_t *)nodes, i, v) {
		fputs(i ? ", " : json_array_size(nodes) == 1 ? "; node " : "; nodes ", to);
		escape_html(to, json_is_string(v) ? json_string_value(v) : "?");
	}
	fprintf(to, "; %s", term_time(begin));
	if (end > begin)
		fprintf(to, ", for %s", term_span((double)(end - begin) / 1e9));
	fputs("</p>\n", to);
}

static void put_slowness(FILE *to, const json_t *in)
{
	char text[256];

	fact(to, "compared with expected", term_excess(jsonget_number(in, "excess")), "bad");
	fact(to, "step, observed", term_ms(jsonget_number(in, "latency_ms")), "bad");
	fact(to, "step, expected", term_ms(jsonget_number(in, "expected_ms")), "ok");
	fact(to, "self time compared with expected", term_excess(jsonget_number(in, "self_excess")),
	     "");
	snprintf(text, sizeof(text), "%s to %s", term_count(jsonget_number(in, "first_step")),
		 term_count(jsonget_number(in, "last_step")));
	fact(to, "steps", text, "");
	fact(to, "flagged", term_count(jsonget_number(in, "flagged_steps")), "");
	fact(to, "slow steps until detected", term_count(jsonget_number(in, "steps_to_flag")), "");
}

static void put_facts(FILE *to, const json_t *in)
{
	double sent = jsonget_number(in, "uploaded_bytes"), raw = jsonget_number(in, "raw_bytes");
	const json_t *ranks = json_object_get(in, "ranks"),
		     *victims = json_object_get(in, "victims");
	bool hang = incident_verdict_is_hang(in);
	uint64_t since, until;

	fputs("<div class=\"facts\">\n", to);
	if (!hang)
		put_slowness(to, in);
	else if (incident_text_hung(in, &since, &until))
		fact(to, incident_verdict_is_open(in) ? "hanging, so far" : "hung for",
		     term_span((double)(until - since) / 1e9), "bad");
	if (raw > 0)
		fact(to, "uploaded share of the events", term_percent(sent / raw), "");
	fputs("</div>\n", to);
	if (json_array_size(victims) && json_array_size(ranks)) {
		fprintf(to, "<p>%s only because %s for %s %s: %s ", hang ? "Hanging" : "Slow",
			json_array_size(victims) == 1 ? "it waits" : "they wait",
			json_array_size(ranks) == 1 ? "rank" : "ranks", incident_text_ranks(ranks),
			json_array_size(victims) == 1 ? "rank" : "ranks");
		escape_html(to, incident_text_ranks(victims));
		fputs(".</p>\n", to);
	}
}

/* ---- chart ---- */

struct chart {
	uint64_t first, last; /* step indices */
	double top_ms;
};

static double chart_x(const struct chart *c, uint64_t index)
{
	double span = c->last > c->first ? (double)(c->last - c->first) : 1;

	return CHART_LEFT +
	       (double)(index - c->first) / span * (CHART_W - CHART_LEFT - CHART_RIGHT);
}

static double chart_y(const struct chart *c, double ms)
{
	double share = ms / c->top_ms;

	share = share > 1 ? 1 : share < 0 ? 0 : share;
	return CHART_TOP + (1 - share) * (CHART_H - CHART_TOP - CHART_BOTTOM);
}

static bool is_culprit(const json_t *in, const struct trace_rank *r)
{
	return jsonget_has(json_object_get(in, "ranks"), r->who.rank);
}

/* A line with gaps where steps are missing between windows. */
static void put_line(FILE *to, const struct chart *c, const struct trace_rank *r, const char *class,
		     bool expected)
{
	size_t stride = r->step_count / CHART_STEPS + 1;
	uint64_t before = 0;
	bool open = false;

	for (size_t i = 0; i < r->step_count; i += stride) {
		const struct window_step *s = &r->steps[i];
		double ms = expected ? s->expected_ns / 1e6 : (double)s->step.latency_ns / 1e6;
		bool gap = !open || s->step.index > before + stride || s->step.index <= before;

		if (expected && !(ms > 0))
			continue;
		if (gap)
			fprintf(to, "%s<polyline class=\"%s\" points=\"", open ? "\"/>\n" : "",
				class);
		fprintf(to, "%.1f,%.1f ", chart_x(c, s->step.index), chart_y(c, ms));
		before = s->step.index;
		open = true;
	}
	if (open)
		fputs("\"/>\n", to);
}

/* The tip of a step's point, kept inside the chart. */
static void put_tip(FILE *to, double x, double y, const char *text)
{
	double width = 7.0 * (double)strlen(text) + 16, left = x - width / 2;

	left = left < CHART_LEFT ? CHART_LEFT : left;
	if (left + width > CHART_W - CHART_RIGHT)
		left = CHART_W - CHART_RIGHT - width;
	y = y < CHART_TOP + 36 ? y + 12 : y - 34;
	fprintf(
	    to,
	    "<g class=\"tip\"><rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"22\" rx=\"4\"/>"
	    "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text></g>",
	    left, y, width, left + width / 2, y + 15, text);
}

static size_t count_flagged(const struct trace_rank *r)
{
	size_t n = 0;

	for (size_t i = 0; i < r->step_count; i++)
		n += (r->steps[i].flags & WINDOW_STEP_FLAGGED) != 0;
	return n;
}

static void put_points(FILE *to, const struct chart *c, const struct trace_rank *r)
{
	bool focus = count_flagged(r) <= CHART_FOCUS;
	size_t left = CHART_STEPS;

	for (size_t i = 0; i < r->step_count && left; i++) {
		const struct window_step *s = &r->steps[i];
		double ms = (double)s->step.latency_ns / 1e6, x = chart_x(c, s->step.index),
		       y = chart_y(c, ms);
		char text[160];

		if (!(s->flags & WINDOW_STEP_FLAGGED))
			continue;
		left--;
		snprintf(text, sizeof(text), "rank %d, step %llu: %s, expected %s", r->who.rank,
			 (unsigned long long)s->step.index, term_ms(ms),
			 term_ms(s->expected_ns / 1e6));
		fprintf(
		    to,
		    "<g class=\"p\"%s role=\"img\" aria-label=\"%s\"><circle class=\"hit\" "
		    "cx=\"%.1f\" "
		    "cy=\"%.1f\" r=\"8\"/><circle class=\"pt\" cx=\"%.1f\" cy=\"%.1f\" r=\"2.6\"/>",
		    focus ? " tabindex=\"0\"" : "", text, x, y, x, y);
		put_tip(to, x, y, text);
		fputs("</g>\n", to);
	}
}

/* The distance of grid lines: 1, 2 or 5 times a power of ten, at least span / most. */
static double nice_stride(double span, double most)
{
	double least = span / most, unit = pow(10, floor(log10(least)));

	for (int k = 0; k < 3; k++) {
		static const double factors[] = {1, 2, 5};

		if (unit * factors[k] >= least * (1 - 1e-9))
			return unit * factors[k];
	}
	return 10 * unit;
}

static void put_y_axis(FILE *to, const struct chart *c)
{
	double stride = nice_stride(c->top_ms, 6);
	bool seconds = c->top_ms >= 1000, micro = c->top_ms < 1;
	double unit_ms = seconds ? 1000 : micro ? 1e-3 : 1;

	for (int k = 0; k * stride <= c->top_ms && k < 20; k++) {
		double y = chart_y(c, k * stride);

		fprintf(to,
			"<line class=\"grid\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>"
			"<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%.6g %s</text>\n",
			CHART_LEFT, CHART_W - CHART_RIGHT, y, y, CHART_LEFT - 6, y + 4,
			k * stride / unit_ms,
			seconds ? "s"
			: micro ? "us"
				: "ms");
	}
}

/* Round step numbers, none twice. Indices come from a peer, so sums may overflow. */
static void put_x_axis(FILE *to, const struct chart *c)
{
	uint64_t span = c->last - c->first,
		 stride = (uint64_t)nice_stride(span ? (double)span : 1, 8), at;

	stride = stride ? stride : 1;
	at = (stride - c->first % stride) % stride;
	for (; at <= span; at += stride) {
		double x = chart_x(c, c->first + at);

		fprintf(to,
			"<line class=\"grid\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>"
			"<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%llu</text>\n",
			x, x, CHART_H - CHART_BOTTOM, CHART_H - CHART_BOTTOM + 4, x, CHART_H - 16,
			(unsigned long long)(c->first + at));
		if (span - at < stride)
			break;
	}
	fprintf(to, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">step</text>\n", CHART_W / 2,
		CHART_H - 2);
}

static void put_legend(FILE *to, bool others)
{
	static const struct {
		const char *class, *text;
		double x;
	} lines[] = {
	    {"lat", "observed; dots: flagged steps", 0},
	    {"exp", "expected", 240},
	    {"oth", "other ranks", 350},
	};

	for (size_t i = 0; i < ARRAY_LEN(lines) - !others; i++)
		fprintf(to,
			"<line class=\"%s\" x1=\"%.0f\" x2=\"%.0f\" y1=\"14\" y2=\"14\"/>"
			"<text x=\"%.0f\" y=\"18\">%s</text>\n",
			lines[i].class, CHART_LEFT + lines[i].x, CHART_LEFT + lines[i].x + 26,
			CHART_LEFT + lines[i].x + 34, lines[i].text);
}

static bool chart_range(struct chart *c, const json_t *in, const struct trace_model *m)
{
	*c = (struct chart){.first = UINT64_MAX};
	for (size_t i = 0; i < m->rank_count; i++) {
		const struct trace_rank *r = &m->ranks[i];

		if (!is_culprit(in, r))
			continue;
		for (size_t k = 0; k < r->step_count; k++) {
			const struct window_step *s = &r->steps[k];
			double ms = (double)s->step.latency_ns / 1e6, e = s->expected_ns / 1e6;

			c->first = s->step.index < c->first ? s->step.index : c->first;
			c->last = s->step.index > c->last ? s->step.index : c->last;
			c->top_ms = ms > c->top_ms ? ms : c->top_ms;
			c->top_ms = e > c->top_ms ? e : c->top_ms;
		}
	}
	c->top_ms *= 1.1;
	return c->first <= c->last && c->top_ms > 0;
}

/* Other ranks may number steps differently; only steps in the culprit's range are drawn. */
static bool within(const struct chart *c, const struct trace_rank *r)
{
	for (size_t i = 0; i < r->step_count; i++)
		if (r->steps[i].step.index < c->first || r->steps[i].step.index > c->last)
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

		for (size_t k = 0; is_culprit(in, r) && k < r->step_count; k++) {
			const struct window_step *s = &r->steps[k];
			double ms = (double)s->step.latency_ns / 1e6,
			       expected_ms = s->expected_ns / 1e6;

			if (!(s->flags & WINDOW_STEP_FLAGGED))
				continue;
			if (!left) {
				more++;
				continue;
			}
			left--;
			fprintf(to, "<tr><td>%d</td><td>%llu</td>", r->who.rank,
				(unsigned long long)s->step.index);
			cell(to, expected_ms > 0 ? term_ms(expected_ms) : "-");
			cell(to, term_ms(ms));
			cell(to, expected_ms > 0 ? term_excess(ms / expected_ms - 1) : "-");
			cell(to, term_ms((double)s->step.self_ns / 1e6));
			cell(to, term_ms((double)s->step.compute_ns / 1e6));
			cell(to, term_ms((double)s->step.exposed_comm_ns / 1e6));
			cell(to, term_ms((double)s->step.idle_ns / 1e6));
			fputs("</tr>\n", to);
		}
	}
	if (more)
		fprintf(to, "<tr><td class=\"t\" colspan=\"9\">and %zu more</td></tr>\n", more);
	fputs("</table></div></details>\n", to);
}

static void put_chart(FILE *to, const json_t *in, const struct trace_model *m)
{
	const struct trace_rank *first = NULL;
	unsigned drawn = 0, others;
	struct chart c;

	fputs("<h2>Steps</h2>\n", to);
	if (!chart_range(&c, in, m)) {
		fputs(
		    "<p class=\"dim\">No steps of this rank: its windows are gone or could not be "
		    "read.</p>\n",
		    to);
		return;
	}
	fprintf(to, "<svg viewBox=\"0 0 %.0f %.0f\" role=\"img\" aria-label=\"step latency\">\n",
		CHART_W, CHART_H);
	put_y_axis(to, &c);
	put_x_axis(to, &c);
	for (size_t i = 0; i < m->rank_count && drawn < CHART_RANKS; i++) {
		if (is_culprit(in, &m->ranks[i]) || !within(&c, &m->ranks[i]))
			continue;
		put_line(to, &c, &m->ranks[i], "oth", false);
		drawn++;
	}
	others = drawn;
	drawn = 0;
	for (size_t i = 0; i < m->rank_count && drawn < CHART_RANKS; i++) {
		if (!is_culprit(in, &m->ranks[i]))
			continue;
		first = first ? first : &m->ranks[i];
		put_line(to, &c, &m->ranks[i], "lat", false);
		drawn++;
	}
	if (first)
		put_line(to, &c, first, "exp", true);
	for (size_t i = 0, k = 0; i < m->rank_count && k < CHART_RANKS; i++) {
		if (!is_culprit(in, &m->ranks[i]))
			continue;
		put_points(to, &c, &m->ranks[i]);
		k++;
	}
	put_legend(to, others > 0);
	fputs("</svg>\n", to);
	put_steps(to, in, m);
}

/* ---- tables ---- */

static void put_number(FILE *to, const json_t *signal, const char *key)
{
	char text[64];

	if (json_is_number(json_object_get(signal, key)))
		snprintf(text, sizeof(text), "%.4g", jsonget_number(signal, key));
	cell(to, json_is_number(json_object_get(signal, key)) ? text : "not known");
}

static void put_signals(FILE *to, const json_t *in)
{
	const json_t *signals = json_object_get(in, "signals"), *s;
	size_t i;

	if (!json_array_size(signals))
		return;
	fputs("<h2>OS signals</h2>\n<div class=\"scroll\"><table><tr><th>rank</th>"
	      "<th class=\"t\">signal</th><th>observed</th><th>usual</th><th class=\"t\">unit</th>"
	      "<th>per step</th></tr>\n",
	      to);
	json_array_foreach ((json_t *)signals, i, s) {
		bool raised = jsonget_true(s, "raised");
		double weight_ms = jsonget_number(s, "weight_ms");

		if (i == SIGNALS_SHOWN)
			break;
		fprintf(to, "<tr><td>%lld</td><td class=\"t%s\">",
			(long long)jsonget_integer(s, "rank"), raised ? " bad" : "");
		escape_html(to, jsonget_text(s, raised ? "text" : "name"));
		if (!raised && *jsonget_text(s, "subject")) {
			fputs(": ", to);
			escape_html(to, jsonget_text(s, "subject"));
		}
		fputs("</td>", to);
		put_number(to, s, "value");
		put_number(to, s, "usual");
		escape_around(to, "<td class=\"t\">", jsonget_text(s, "unit"), "</td>");
		cell(to, weight_ms > 0 ? term_ms(weight_ms) : "-");
		fputs("</tr>\n", to);
	}
	fputs("</table></div>\n", to);
}

static void put_kernels(FILE *to, const struct trace_model *m, const struct trace_rank *r)
{
	size_t count, slow, normal;
	struct report_kernel *k = report_kernels_make(m, r, &count, &slow, &normal);

	fprintf(to, "<h2>Kernels and copies of rank %d</h2>\n", r->who.rank);
	if (!k) {
		fputs("<p class=\"dim\">Its windows are summaries without records.</p>\n", to);
		return;
	}
	fprintf(to,
		"<p class=\"dim\">GPU time per step: %zu slow %s compared with %zu %s of the same "
		"windows",
		slow, slow == 1 ? "step" : "steps", normal, normal == 1 ? "other" : "others");
	if (count > KERNELS_SHOWN)
		fprintf(to, "; the %zu largest differences of %zu", (size_t)KERNELS_SHOWN, count);
	fputs(".</p>\n", to);
	fputs("<div class=\"scroll\"><table>"
	      "<tr><th class=\"t\">name</th><th>others</th><th>slow</th><th>difference</th>"
	      "<th>per slow step</th></tr>\n",
	      to);
	for (size_t i = 0; i < count && i < KERNELS_SHOWN; i++) {
		const char *name = m->names.text[k[i].name];
		struct kernel_name parsed;
		double difference = (k[i].slow_ns - k[i].normal_ns) / 1e6;
		char text[64];

		fputs("<tr><td class=\"t\">", to);
		if (*name && !kernel_name_parse(&parsed, name)) {
			escape_html(to, parsed.full);
			kernel_name_free(&parsed);
		} else {
			escape_html(to, *name ? name : "(name unknown, copies)");
		}
		fputs("</td>", to);
		cell(to, normal ? term_ms(k[i].normal_ns / 1e6) : "-");
		cell(to, slow ? term_ms(k[i].slow_ns / 1e6) : "-");
		cell(to, slow && normal ? term_ms(difference) : "-");
		snprintf(text, sizeof(text), "%.1f",
			 slow ? (double)k[i].slow_count / (double)slow : 0);
		cell(to, text);
		fputs("</tr>\n", to);
	}
	fputs("</table></div>\n", to);
	free(k);
}

static void put_windows(FILE *to, const json_t *in)
{
	const json_t *windows = json_object_get(in, "windows"), *w;
	size_t i;

	fputs("<h2>Evidence</h2>\n<div class=\"scroll\">"
	      "<table><tr><th>rank</th><th class=\"t\">node</th><th class=\"t\">"
	      "reason</th><th "
	      "class=\"t\">from</th><th>steps</th><th>records</th><th>size</th></tr>\n",
	      to);
	json_array_foreach ((json_t *)windows, i, w) {
		if (i == 200) {
			fprintf(to, "<tr><td class=\"t\" colspan=\"7\">and %zu more</td></tr>\n",
				json_array_size(windows) - i);
			break;
		}
		fprintf(to, "<tr><td>%lld</td><td class=\"t\">",
			(long long)jsonget_integer(w, "rank"));
		escape_html(to, jsonget_text(w, "node"));
		fputs("</td><td class=\"t\">", to);
		escape_html(to, jsonget_text(w, "reason"));
		fputs(jsonget_true(w, "summary_only") ? " (summary)</td><td class=\"t\">"
						      : "</td><td class=\"t\">",
		      to);
		escape_html(to, term_time(jsonget_unsigned(w, "begin_unix_ns")));
		fputs("</td>", to);
		cell(to, term_count(jsonget_number(w, "steps")));
		cell(to, term_count(jsonget_number(w, "records")));
		cell(to, term_bytes(jsonget_number(w, "bytes")));
		fputs("</tr>\n", to);
	}
	fputs("</table></div>\n", to);
	json_array_foreach (json_object_get(in, "missing"), i, w) {
		escape_around(to, "<p class=\"bad\">Missing: ",
			      json_is_string(w) ? json_string_value(w) : "?", "</p>\n");
	}
}

/* GPU time per step of the culprit and its peer, variants of a kernel merged. */
static int put_beside(FILE *to, const struct trace_model *m, const struct trace_rank *culprit,
		      const struct trace_rank *peer)
{
	struct kernel_diff d = {0};
	size_t n[2], steps[2];
	struct kernel_time *a = kernel_diff_of_rank(m, peer, false, &n[0], &steps[0]);
	struct kernel_time *b = kernel_diff_of_rank(m, culprit, true, &n[1], &steps[1]);
	int err = a && b ? kernel_diff_make(&d, a, n[0], b, n[1]) : 0;

	if (!err && d.count) {
		fprintf(
		    to,
		    "<h2>Kernels of rank %d beside rank %d</h2>\n<p class=\"dim\">GPU time per "
		    "step, means of %zu and %zu steps; the %zu largest differences of %zu.</p>\n"
		    "<div class=\"scroll\"><table id=\"beside\"><tr><th class=\"t\" "
		    "scope=\"col\">kernel</th>",
		    culprit->who.rank, peer->who.rank, steps[1], steps[0],
		    d.count < KERNELS_SHOWN ? d.count : (size_t)KERNELS_SHOWN, d.count);
		fprintf(to,
			"<th scope=\"col\">rank %d</th><th scope=\"col\">rank %d</th>"
			"<th scope=\"col\">difference</th><th scope=\"col\">per step</th></tr>\n",
			peer->who.rank, culprit->who.rank);
	}
	for (size_t i = 0; i < d.count && i < KERNELS_SHOWN; i++) {
		const struct kernel_diff_row *r = &d.rows[i];
		char text[64];

		fputs("<tr><td class=\"t\">", to);
		escape_html(to, r->base);
		if (r->changed)
			escape_around(to, "<br><span class=\"bad\">another variant: ", r->changed,
				      "</span>");
		fputs("</td>", to);
		cell(to, r->main[0] ? term_ms(r->time_ns[0] / 1e6) : "-");
		cell(to, r->main[1] ? term_ms(r->time_ns[1] / 1e6) : "-");
		cell(to, term_ms((r->time_ns[1] - r->time_ns[0]) / 1e6));
		snprintf(text, sizeof(text), "%.1f to %.1f", r->count[0], r->count[1]);
		cell(to, text);
		fputs("</tr>\n", to);
	}
	if (d.count)
		fputs("</table></div>\n", to);
	kernel_diff_free(&d);
	free(a);
	free(b);
	return err;
}

/* The culprit beside its peer, if there are windows of both; *cpu: with stacks. */
static int put_difference(FILE *to, const json_t *in, const struct trace_model *m, bool *cpu)
{
	const struct trace_rank *culprit = incident_diff_culprit(in, m);
	const struct trace_rank *peer = incident_diff_peer(in, m, culprit);
	struct incident_diff d;
	int err;

	*cpu = false;
	if (!peer)
		return 0;
	err = incident_diff_make(&d, m, peer, culprit);
	if (err)
		return err == -ENODATA ? 0 : err;
	*cpu = d.has_cpu;
	err = report_stacks_diff(to, &d);
	if (!err)
		err = put_beside(to, m, culprit, peer);
	incident_diff_free(&d);
	return err;
}

int report_html_write(FILE *to, const json_t *in, const struct trace_model *m)
{
	unsigned shown = 0;
	bool cpu = false;
	int err;

	put_head(to, in);
	report_verdict_put(to, in);
	put_facts(to, in);
	put_chart(to, in, m);
	err = report_plots_heat(to, in, m);
	report_plots_roofline(to, in, m);
	if (!err)
		err = put_difference(to, in, m, &cpu);
	put_signals(to, in);
	for (size_t i = 0; i < m->rank_count && shown < 4; i++) {
		if (!is_culprit(in, &m->ranks[i]))
			continue;
		put_kernels(to, m, &m->ranks[i]);
		shown++;
	}
	if (!err)
		err = report_stacks_put(to, in, m, !cpu);
	put_windows(to, in);
	escape_around(to, "<p class=\"dim\">sysom trace ", jsonget_text(in, "id"),
		      " writes the same windows for ui.perfetto.dev.</p>\n</body></html>\n");
	return ferror(to) ? outfile_error(to) : err;
}
