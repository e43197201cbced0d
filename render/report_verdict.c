/* SPDX-License-Identifier: Apache-2.0 */
#include "render/report_page.h"

#include <string.h>

#include "base/text/jsonget.h"
#include "render/incident_ledger.h"
#include "render/incident_verdict.h"
#include "render/escape.h"
#include "render/term.h"

static void put_lines(FILE *to, const char *title, const char *class, const json_t *lines)
{
	const json_t *v;
	size_t i;

	if (!json_array_size(lines))
		return;
	fprintf(to, "<h3>%s</h3>\n<ul class=\"%s\">\n", title, class);
	json_array_foreach ((json_t *)lines, i, v) {
		const char *layer = incident_verdict_layer(v);

		fputs("<li>", to);
		if (*layer)
			escape_around(to, "<span class=\"layer\">", layer, "</span> ");
		escape_html(to, incident_verdict_line(v));
		fputs("</li>\n", to);
	}
	fputs("</ul>\n", to);
}

static void put_figure(FILE *to, const char *label, const char *value)
{
	fprintf(to, "<div><span class=\"dim\">%s</span><b>", label);
	escape_html(to, value);
	fputs("</b></div>\n", to);
}

struct table {
	FILE *to;
	double whole;
};

static void put_account(void *arg, const char *name, struct incident_ledger_figures f)
{
	const struct table *t = arg;
	double share = t->whole > 0 ? f.excess / t->whole : 0;
	double width = share > 1 ? 1 : share > 0 ? share : 0;
	int digits = t->whole >= 1000 ? 0 : 2;

	escape_around(t->to, "<tr><td class=\"t\">", name, "</td>");
	fprintf(t->to,
		"<td>%.*f</td><td>%.*f</td><td>%+.*f</td><td>%s"
		"<span class=\"bar\" style=\"width:%.1f%%\"></span></td></tr>\n",
		digits, f.usual, digits, f.slow, digits, f.excess, term_share(f.excess, t->whole),
		width * 100);
}

static void put_means(FILE *to, const json_t *l, bool own, bool hang)
{
	if (hang)
		fprintf(to, "Hang: since its last step; usual: the mean of %s steps before.",
			term_count(jsonget_number(l, "reference_steps")));
	else
		fprintf(to, "Means of %s slow steps and %s healthy ones of %s.",
			term_count(jsonget_number(l, "slow_steps")),
			term_count(jsonget_number(l, "reference_steps")),
			own ? "the same rank" : "its peers");
}

/* The ledger. */
static void put_ledger(FILE *to, const json_t *d, bool hang)
{
	const json_t *l = json_object_get(d, "ledger");
	struct table t = {to, jsonget_number(l, "excess_ms")};
	bool own = !strcmp(jsonget_text(l, "reference"), "own");

	if (!incident_ledger_is_known(d))
		return;
	fprintf(
	    to,
	    "<h3>Where the time went</h3>\n<div class=\"scroll\"><table class=\"ledger named\"><tr>"
	    "<th class=\"t\">%s</th><th>%s</th><th>%s</th><th>excess</th><th>share</th></tr>\n",
	    hang ? "ms" : "ms per step",
	    hang  ? "usual"
	    : own ? "healthy"
		  : "peers",
	    hang ? "hang" : "slow");
	incident_ledger_each(l, TERM_COLUMNS_MAX, put_account, &t);
	put_account(&t, "total",
		    (struct incident_ledger_figures){jsonget_number(l, "reference_ms"),
						     jsonget_number(l, "slow_ms"), t.whole});
	fputs("</table></div>\n<p class=\"dim\">", to);
	put_means(to, l, own, hang);
	if (!hang)
		fprintf(to,
			" %s The ledger counts a wait of the host only while the GPU idles. "
			"Signals and flame graphs count all threads all the time, so their figures "
			"can be larger.",
			*incident_ledger_note(d) ? incident_ledger_note(d)
						 : "The cause may explain a part of several rows.");
	fputs("</p>\n", to);
}

static void put_one(FILE *to, const json_t *d, bool open, bool hang)
{
	double lost = jsonget_number(d, "gpu_hours_lost"),
	       per_day = jsonget_number(d, "gpu_hours_per_day");
	bool empty = incident_verdict_is_empty(d);
	char text[64];

	fputs("<p class=\"summary\">", to);
	escape_html(to, empty			      ? "None: no evidence shows the cause"
			: *jsonget_text(d, "summary") ? jsonget_text(d, "summary")
						      : jsonget_text(d, "title"));
	fputs("</p>\n", to);
	if (!empty) {
		escape_around(to, "<p>", jsonget_text(d, "title"), " <code>");
		escape_html(to, jsonget_text(d, "cause"));
		fputs("</code></p>\n", to);
	}
	if (!empty && *jsonget_text(d, "remedy"))
		escape_around(to, "<p class=\"remedy\"><b>What to do:</b> ",
			      jsonget_text(d, "remedy"), "</p>\n");
	fputs("<div class=\"facts\">\n", to);
	if (!empty) {
		put_figure(to, "layer", jsonget_text(d, "layer"));
		put_figure(to, "confidence", term_percent(jsonget_number(d, "confidence")));
	}
	if (jsonget_number(d, "lost_ms") > 0 && !hang)
		put_figure(to, "step time lost", term_span(jsonget_number(d, "lost_ms") / 1e3));
	if (lost > 0)
		put_figure(to, open ? "GPU-hours lost so far" : "GPU-hours lost",
			   incident_verdict_hours(lost));
	if (per_day > 0) {
		snprintf(text, sizeof(text), "%s GPU-hours", incident_verdict_hours(per_day));
		put_figure(to, "a day of it costs", text);
	}
	fputs("</div>\n", to);
	put_ledger(to, d, hang);
	put_lines(to, "Evidence", "evidence", json_object_get(d, "evidence"));
	put_lines(to, "Ruled out", "ruled-out", json_object_get(d, "ruled_out"));
	put_lines(to, "Missing", "missing", json_object_get(d, "missing"));
}

void report_verdict_put(FILE *to, const json_t *in)
{
	const json_t *d;
	size_t k;

	for (k = 0; (d = incident_verdict_at(in, k)); k++) {
		fprintf(to, "<section class=\"verdict\"%s>\n<h2>%s</h2>\n",
			k ? "" : " id=\"verdict\"", k ? "Another fault" : "Verdict");
		put_one(to, d, incident_verdict_goes_on(in), incident_verdict_is_hang(in));
		fputs("</section>\n", to);
	}
	if (!k)
		fputs("<p class=\"dim\">No diagnosis: the aggregator has not made one of this "
		      "incident."
		      "</p>\n",
		      to);
}
