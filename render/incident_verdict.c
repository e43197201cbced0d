/* SPDX-License-Identifier: Apache-2.0 */
#include "render/incident_verdict.h"

#include <string.h>

#include "analysis/ledger/ledger.h"
#include "base/text/jsonget.h"
#include "render/incident_ledger.h"
#include "render/term.h"

#define LABEL_COLUMNS  12u
#define CONFIDENCE_BAR 10u
#define VERDICTS_SHOWN 8u

const char *incident_verdict_line(const json_t *line)
{
	return json_is_string(line) ? json_string_value(line) : jsonget_text(line, "text");
}

const char *incident_verdict_layer(const json_t *line)
{
	const char *layer = jsonget_text(line, "layer");

	return strcmp(layer, "unknown") ? layer : "";
}

bool incident_verdict_is_hang(const json_t *incident)
{
	return !strcmp(jsonget_text(incident, "symptom"), "stall");
}

bool incident_verdict_is_empty(const json_t *d)
{
	return !strcmp(jsonget_text(d, "cause"), "unknown") &&
	       !json_array_size(json_object_get(d, "evidence"));
}

bool incident_verdict_goes_on(const json_t *incident)
{
	const json_t *findings = json_object_get(incident, "findings"), *f;
	size_t i, ended = 0;

	json_array_foreach ((json_t *)findings, i, f)
		ended += jsonget_true(f, "ended");
	return !strcmp(jsonget_text(incident, "state"), "open") &&
	       (!ended || ended < json_array_size(findings));
}

const json_t *incident_verdict_at(const json_t *in, size_t k)
{
	const json_t *list = json_object_get(in, "diagnoses"), *d;

	d = json_array_size(list) ? json_array_get(list, k)
	    : k			  ? NULL
				  : json_object_get(in, "diagnosis");
	return json_is_object(d) && k < VERDICTS_SHOWN ? d : NULL;
}

const char *incident_verdict_metric(const json_t *in)
{
	static const char *const metric[LEDGER_KINDS] = {
	    [LEDGER_COMPUTE] = "gpu", [LEDGER_COPY] = "gpu",	   [LEDGER_COLLECTIVE] = "gpu",
	    [LEDGER_RUNNING] = "on",  [LEDGER_KERNEL_CODE] = "on", [LEDGER_BLOCKED] = "off",
	};
	const json_t *ledger = json_object_get(incident_verdict_at(in, 0), "ledger"), *row;
	size_t i;

	json_array_foreach (json_object_get(ledger, "explained_by"), i, row)
		for (unsigned k = 0; k < LEDGER_KINDS; k++)
			if (metric[k] && !strcmp(jsonget_text(row, "account"),
						 ledger_kind_name((enum ledger_kind)k)))
				return metric[k];
	return NULL;
}

const char *incident_verdict_hours(double hours)
{
	char text[32];

	if (!(hours >= 0) || hours > 1e12)
		return "?";
	if (hours > 0 && hours < 1e-3)
		return "less than 0.001";
	snprintf(text, sizeof(text), hours >= 100 ? "%.0f" : hours >= 1 ? "%.1f" : "%.2g", hours);
	return term_safe(text, 30);
}

static void print_lines(FILE *to, const char *label, const json_t *lines, unsigned columns)
{
	const json_t *v;
	size_t i;

	json_array_foreach ((json_t *)lines, i, v) {
		const char *layer = incident_verdict_layer(v);
		char text[600];

		snprintf(text, sizeof(text), "%s%s%s", *layer ? term_safe(layer, 12) : "",
			 *layer ? ": " : "", incident_verdict_line(v));
		term_wrap(to, LABEL_COLUMNS, i ? "" : label, text, columns);
	}
}

static void print_cost(FILE *to, const json_t *d, bool open, bool hang)
{
	double lost = jsonget_number(d, "gpu_hours_lost"),
	       lost_ms = hang ? 0 : jsonget_number(d, "lost_ms"),
	       per_day = jsonget_number(d, "gpu_hours_per_day");

	if (lost <= 0 && lost_ms <= 0)
		return;
	fprintf(to, "  %-10s", "cost");
	if (lost_ms > 0)
		fprintf(to, "%s of step time%s", term_span(lost_ms / 1e3), lost > 0 ? ", " : "");
	if (lost > 0)
		fprintf(to, "%s GPU-hours lost%s", incident_verdict_hours(lost),
			open ? " so far" : "");
	if (per_day > 0)
		fprintf(to, "; a day of it costs %s GPU-hours", incident_verdict_hours(per_day));
	fputc('\n', to);
}

static void print_cause(FILE *to, const json_t *d, unsigned columns)
{
	double confidence = jsonget_number(d, "confidence");
	char text[256];

	snprintf(text, sizeof(text), "%s: %s (%s)", term_safe(jsonget_text(d, "layer"), 12),
		 term_safe(jsonget_text(d, "title"), 120), term_safe(jsonget_text(d, "cause"), 40));
	term_wrap(to, LABEL_COLUMNS, "layer", text, columns);
	fprintf(to, "  confidence %s %s%s%s\n", term_percent(confidence), term_style(TERM_GREEN),
		term_bar(confidence, CONFIDENCE_BAR), term_style(TERM_PLAIN));
}

static void print_one(FILE *to, const json_t *d, bool open, bool hang, unsigned columns)
{
	bool empty = incident_verdict_is_empty(d);

	if (empty) {
		term_wrap(to, LABEL_COLUMNS, "verdict", "none: no evidence shows the cause",
			  columns);
	} else if (*jsonget_text(d, "summary")) {
		fputs(term_style(TERM_BOLD), to);
		term_wrap(to, LABEL_COLUMNS, "verdict", jsonget_text(d, "summary"), columns);
		fputs(term_style(TERM_PLAIN), to);
	}
	incident_ledger_print(to, d, hang, columns);
	if (!empty)
		print_cause(to, d, columns);
	print_cost(to, d, open, hang);
	if (!empty && *jsonget_text(d, "remedy")) {
		fputs(term_style(TERM_CYAN), to);
		term_wrap(to, LABEL_COLUMNS, "do", jsonget_text(d, "remedy"), columns);
		fputs(term_style(TERM_PLAIN), to);
	}
	print_lines(to, "shown by", json_object_get(d, "evidence"), columns);
	print_lines(to, "ruled out", json_object_get(d, "ruled_out"), columns);
	print_lines(to, "not known", json_object_get(d, "missing"), columns);
	fputc('\n', to);
}

void incident_verdict_print(FILE *to, const json_t *in, unsigned columns)
{
	const json_t *d;

	for (size_t k = 0; (d = incident_verdict_at(in, k)); k++)
		print_one(to, d, incident_verdict_goes_on(in), incident_verdict_is_hang(in),
			  columns);
}
