/* SPDX-License-Identifier: Apache-2.0
 * There is no template, so no text reaches the file unescaped: every string of a peer goes through
 * escape_html(). */
#include "render/report_page.h"

#include <math.h>
#include <string.h>

#include "analysis/cause/diagnosis.h"
#include "base/embed.h"
#include "base/text/jsonget.h"
#include "render/incident_ledger.h"
#include "render/incident_text.h"
#include "render/incident_verdict.h"
#include "render/escape.h"
#include "render/term.h"

#define SIGNALS_SHOWN  64
#define WINDOWS_SHOWN  200
#define REQUESTS_SHOWN 10

EMBED_TEXT(report_page_style, "render/report.css");

static void fact(FILE *to, const char *label, const char *value, const char *class)
{
	fprintf(to, "<div><span class=\"dim\">%s</span><b class=\"%s\">", label, class);
	escape_html(to, value);
	fputs("</b></div>\n", to);
}

static void put_slowness(FILE *to, const json_t *in)
{
	char text[256];

	if (!strcmp(jsonget_text(in, "kind"), "requests")) /* about no step */
		return;
	if (jsonget_number(in, "latency_ms") > 0 &&
	    !incident_ledger_is_known(incident_verdict_at(in, 0))) {
		fact(to, "median slow step", term_ms(jsonget_number(in, "latency_ms")), "bad");
		fact(to, "expected", term_ms(jsonget_number(in, "expected_ms")), "ok");
	}
	snprintf(text, sizeof(text), "%s to %s", term_count(jsonget_number(in, "first_step")),
		 term_count(jsonget_number(in, "last_step")));
	fact(to, "steps", text, "");
	fact(to, "flagged", term_count(jsonget_number(in, "flagged_steps")), "");
	fact(to, "slow steps until detected", term_count(jsonget_number(in, "steps_to_flag")), "");
}

/* An example of its slow steps. Texts are the job's. */
static void put_slow_step(FILE *to, const json_t *in)
{
	const json_t *step = json_object_get(in, "slow_step");
	const char *span = jsonget_text(step, "span"), *function = jsonget_text(step, "function");

	if (!json_is_object(step))
		return;
	fact(to, "a slow step", term_ms(jsonget_number(step, "latency_ms")), "bad");
	if (*span)
		fact(to, "its span", span, "");
	if (*function)
		fact(to, "where the host was", function, "");
}

static void put_facts(FILE *to, const json_t *in)
{
	const json_t *ranks = json_object_get(in, "ranks"),
		     *victims = json_object_get(in, "victims");
	bool hang = incident_verdict_is_hang(in);
	uint64_t since, until;

	fputs("<div class=\"facts\">\n", to);
	if (!hang) {
		put_slowness(to, in);
		put_slow_step(to, in);
	} else if (incident_text_hung(in, &since, &until)) {
		fact(to, incident_verdict_goes_on(in) ? "hanging, so far" : "hung for",
		     term_span((double)(until - since) / 1e9), "bad");
	}
	fact(to, "uploaded",
	     term_sent(jsonget_number(in, "uploaded_bytes"), jsonget_number(in, "raw_bytes")), "");
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

/* Of an incident of requests: the incident of the step that made them late. */
static void put_step_incident(FILE *to, const json_t *in)
{
	const json_t *step = json_object_get(in, "step_incident");

	if (!json_is_object(step))
		return;
	fputs("<p>The slow step of the worst request is in incident ", to);
	escape_html(to, jsonget_text(step, "id"));
	escape_around(to, ": ", jsonget_text(step, "title"), ". <code>sysom show ");
	escape_around(to, "", jsonget_text(step, "id"), "</code> explains it.</p>\n");
}

/* Those that missed an objective, the newest first. */
static void put_requests(FILE *to, const json_t *in)
{
	const json_t *list = json_object_get(in, "requests"), *v;
	size_t i;

	if (!json_array_size(list))
		return;
	fprintf(
	    to,
	    "<section id=\"requests\">\n<h2>Late requests</h2>\n<div "
	    "class=\"scroll\"><table class=\"named\">"
	    "<tr><th "
	    "class=\"t\">request</th><th>missed</th><th>objective</th><th>took</th><th>phase</th>"
	    "<th>of it</th></tr>\n");
	json_array_foreach ((json_t *)list, i, v) {
		if (i == REQUESTS_SHOWN)
			break;
		escape_around(to, "<tr><td class=\"t\">", jsonget_text(v, "id"), "</td>");
		escape_cell(to, jsonget_text(v, "objective"));
		escape_cell(to, jsonget_number(v, "objective_ms") > 0
				    ? term_ms_cell(jsonget_number(v, "objective_ms"))
				    : "");
		escape_cell(to, term_ms_cell(jsonget_number(v, "ms")));
		escape_cell(to, jsonget_text(v, "phase"));
		escape_cell(to, term_ms_cell(jsonget_number(v, "phase_ms")));
		fputs("</tr>\n", to);
	}
	fputs("</table></div>\n<p class=\"dim\">", to);
	if (json_array_size(list) > REQUESTS_SHOWN)
		fprintf(to, "And %zu more. ", json_array_size(list) - REQUESTS_SHOWN);
	escape_around(
	    to, "<code>sysom requests ", jsonget_text(in, "job"),
	    "</code> lists all with their longest steps, <code>sysom requests</code> with "
	    "a request's id its phases.</p>\n</section>\n");
}

/* Up to the text below the title. */
static void put_head(FILE *to, const char *title)
{
	fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
	      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
	      "<meta name=\"color-scheme\" content=\"light dark\">\n<title>",
	      to);
	escape_html(to, title);
	fputs(" - sysom</title>\n<style>\n", to);
	fputs(report_page_style, to);
	escape_around(to, "</style></head><body>\n<h1>", title, "</h1>\n<p class=\"dim\">");
}

void report_page_begin(FILE *to, const json_t *in)
{
	const json_t *nodes = json_object_get(in, "nodes"), *v;
	size_t i;

	put_head(to, incident_text_title(in));
	fputs("Incident ", to);
	escape_html(to, jsonget_text(in, "id"));
	escape_around(to, ", ", jsonget_text(in, "state"), "; job ");
	escape_html(to, jsonget_text(in, "job"));
	json_array_foreach ((json_t *)nodes, i, v) {
		fputs(i ? ", " : json_array_size(nodes) == 1 ? "; node " : "; nodes ", to);
		escape_html(to, json_is_string(v) ? json_string_value(v) : "?");
	}
	json_array_foreach (json_object_get(in, "pods"), i, v)
		escape_around(to, i ? "; " : "; pod ", incident_text_pod(v), "");
	fprintf(to, "; %s%s</p>\n", term_time(jsonget_unsigned(in, "begin_unix_ns")),
		incident_text_lasted(in));
	report_verdict_put(to, in);
	put_step_incident(to, in);
	put_facts(to, in);
	put_requests(to, in);
}

static void put_number(FILE *to, const json_t *signal, const char *key)
{
	char text[64];

	if (json_is_number(json_object_get(signal, key)))
		snprintf(text, sizeof(text), "%.4g", jsonget_number(signal, key));
	escape_cell(to, json_is_number(json_object_get(signal, key)) ? text : "not known");
}

/* The ledger of the first verdict that blames this rank first, or blames no rank. NULL: none. */
static const json_t *ledger_of(const json_t *in, int64_t rank)
{
	const json_t *d;

	for (size_t k = 0; (d = incident_verdict_at(in, k)); k++) {
		const json_t *ranks = json_object_get(d, "ranks");

		if (incident_ledger_is_known(d) &&
		    (!json_array_size(ranks) ||
		     json_integer_value(json_array_get(ranks, 0)) == rank))
			return json_object_get(d, "ledger");
	}
	return NULL;
}

/* The time of a signal in a slow step; INFINITY: it is no time. */
static double own_ms(const json_t *in, const json_t *signal)
{
	double weight = jsonget_number(signal, "weight_ms"),
	       step = jsonget_number(in, "latency_ms");

	if (weight > 0)
		return weight;
	return step > 0 && !strcmp(jsonget_text(signal, "unit"), "ms/s")
		   ? jsonget_number(signal, "value") * 1e-3 * step
		   : INFINITY;
}

/* Why a raised signal is or is not a cause: how much longer its accounts are. */
static void put_weight(FILE *to, const json_t *in, const json_t *signal)
{
	const json_t *l = ledger_of(in, jsonget_integer(signal, "rank")), *row;
	uint64_t causes =
	    diagnosis_signal_causes(jsonget_text(signal, "name"), jsonget_text(signal, "subject"));
	double whole = jsonget_number(l, "excess_ms"), sum = 0, own = own_ms(in, signal);
	size_t i;

	if (!l || !causes) {
		fputs("<br><span class=\"dim\">Not compared: no account of the ledger belongs to "
		      "it.</span>",
		      to);
		return;
	}
	json_array_foreach (json_object_get(l, "rows"), i, row)
		if (jsonget_number(row, "excess_ms") > 0 &&
		    diagnosis_causes_lengthen(causes, jsonget_text(row, "account"),
					      jsonget_text(row, "what")))
			sum += jsonget_number(row, "excess_ms");
	if (sum > 0 && whole > 0)
		fprintf(to,
			"<br><span class=\"dim\">It explains at most %s of the excess (%s): %s "
			"this much.</span>",
			term_ms(own < sum ? own : sum),
			term_percent((own < sum ? own : sum) / whole),
			own < sum ? "it took" : "its accounts grew by");
	else
		fputs("<br><span class=\"dim\">It explains nothing: none of its accounts "
		      "grew.</span>",
		      to);
}

static void put_signal(FILE *to, const json_t *in, const json_t *s)
{
	bool raised = jsonget_true(s, "raised");
	double weight_ms = jsonget_number(s, "weight_ms");

	fprintf(to, "<tr><td>%s</td><td class=\"t%s\">", term_rank_cell(jsonget_integer(s, "rank")),
		raised ? " bad" : "");
	escape_html(to, jsonget_text(s, raised ? "text" : "name"));
	if (raised)
		put_weight(to, in, s);
	else if (*jsonget_text(s, "subject"))
		escape_around(to, ": ", jsonget_text(s, "subject"), "");
	fputs("</td>", to);
	put_number(to, s, "value");
	put_number(to, s, "usual");
	escape_cell(to, jsonget_text(s, "unit"));
	escape_cell(to, weight_ms > 0 ? term_ms_cell(weight_ms) : "-");
	fputs("</tr>\n", to);
}

void report_page_signals(FILE *to, const json_t *in)
{
	const json_t *signals = json_object_get(in, "signals"), *s;
	unsigned raised = 0;
	size_t i;

	if (!json_array_size(signals))
		return;
	json_array_foreach ((json_t *)signals, i, s)
		raised += jsonget_true(s, "raised");
	fprintf(to, "<section id=\"signals\">\n<h2>OS and GPU signals</h2>\n%s",
		raised ? "" : "<p class=\"dim\">None is unusual.</p>\n");
	for (int pass = raised ? 0 : 1; pass < 2;
	     pass++) { /* what stands out, and what is as usual */
		unsigned shown = 0;

		json_array_foreach ((json_t *)signals, i, s) {
			if (jsonget_true(s, "raised") == pass || shown == SIGNALS_SHOWN)
				continue;
			if (!shown++)
				fprintf(
				    to,
				    "%s<div class=\"scroll\"><table class=\"named signals\"><tr>"
				    "<th>rank</th><th class=\"t\">signal</th><th>observed</th>"
				    "<th>usual</th><th>unit</th><th>per step</th></tr>\n",
				    pass ? "<details><summary>Signals as usual</summary>\n" : "");
			put_signal(to, in, s);
		}
		if (shown)
			fprintf(to, "</table></div>\n%s", pass ? "</details>\n" : "");
	}
	fputs("<p class=\"dim\">Red: far above its usual value. Per step: of all its threads, also "
	      "while the GPU works.</p>\n</section>\n",
	      to);
}

void report_page_windows(FILE *to, const json_t *in)
{
	const json_t *windows = json_object_get(in, "windows"), *w;
	size_t i;

	fputs("<h2>Windows</h2>\n<div class=\"scroll\">"
	      "<table class=\"windows\"><tr><th>rank</th><th class=\"t\">node</th><th class=\"t\">"
	      "reason</th><th "
	      "class=\"t\">from</th><th>steps</th><th>records</th><th>size</th></tr>\n",
	      to);
	json_array_foreach ((json_t *)windows, i, w) {
		if (i == WINDOWS_SHOWN) {
			fprintf(to,
				"<tr><td class=\"t\" colspan=\"7\" style=\"grid-column:1/-1\">and "
				"%zu more</td></tr>\n",
				json_array_size(windows) - i);
			break;
		}
		fprintf(to, "<tr><td>%s</td><td class=\"t\">",
			term_rank_cell(jsonget_integer(w, "rank")));
		escape_html(to, jsonget_text(w, "node"));
		fputs("</td><td class=\"t\">", to);
		escape_html(to, window_reason_title(jsonget_text(w, "reason")));
		fputs(jsonget_true(w, "summary_only") ? " (summary)</td><td class=\"t\">"
						      : "</td><td class=\"t\">",
		      to);
		escape_html(to, term_time(jsonget_unsigned(w, "begin_unix_ns")));
		fputs("</td>", to);
		escape_cell(to, term_count(jsonget_number(w, "steps")));
		escape_cell(to, term_count(jsonget_number(w, "records")));
		escape_cell(to, term_bytes(jsonget_number(w, "bytes")));
		fputs("</tr>\n", to);
	}
	fputs("</table></div>\n", to);
	json_array_foreach (json_object_get(in, "missing"), i, w) {
		escape_around(to, "<p class=\"bad\">Missing: ",
			      json_is_string(w) ? json_string_value(w) : "?", "</p>\n");
	}
}

void report_page_end(FILE *to)
{
	fputs("</body></html>\n", to);
}

void report_page_write(FILE *to, const json_t *in)
{
	report_page_begin(to, in);
	report_page_signals(to, in);
	report_page_windows(to, in);
	escape_around(to, "<p class=\"dim\">sysom report ", jsonget_text(in, "id"),
		      " writes this page with its pictures. <a href=\"../incidents\">All "
		      "incidents</a></p>\n");
	report_page_end(to);
}

static void put_hidden(FILE *to, const char *name, const char *value)
{
	if (!*value)
		return;
	escape_around(to, "<input type=\"hidden\" name=\"", name, "\" value=\"");
	escape_around(to, "", value, "\">\n");
}

void report_page_list(FILE *to, const json_t *answer)
{
	const char *next = jsonget_text(answer, "next"), *name;
	const json_t *in, *query = json_object_get(answer, "query");
	unsigned shown = 0;
	json_t *value;
	size_t i;

	put_head(to, "Incidents");
	fputs("The newest first, without transients.</p>\n", to);
	json_array_foreach (json_object_get(answer, "incidents"), i, in) {
		const char *summary = jsonget_text(json_object_get(in, "diagnosis"), "summary");

		if (incident_text_is_transient(in))
			continue;
		shown++;
		escape_around(to, "<p><a href=\"incidents/", jsonget_text(in, "id"), "\"><b>");
		escape_around(to, "", *summary ? summary : incident_text_title(in),
			      "</b></a><br>\n<span class=\"dim\">");
		escape_around(to, "", jsonget_text(in, "state"), "; job ");
		escape_around(to, "", jsonget_text(in, "job"), "; ");
		fprintf(to, "%s%s</span></p>\n", term_time(jsonget_unsigned(in, "begin_unix_ns")),
			incident_text_lasted(in));
	}
	if (!shown && !*next)
		fputs("<p>No incidents. <code>sysom incidents --all</code> also lists "
		      "transients.</p>\n",
		      to);
	if (*next) {
		fputs("<form action=\"incidents\">\n", to);
		put_hidden(to, "after", next);
		json_object_foreach ((json_t *)query, name, value)
			put_hidden(to, name, jsonget_text(query, name));
		fputs("<p><button>Older ones</button></p></form>\n", to);
	}
	report_page_end(to);
}
