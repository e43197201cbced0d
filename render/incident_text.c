/* SPDX-License-Identifier: Apache-2.0 */
#include "render/incident_text.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text/jsonget.h"
#include "base/order.h"
#include "model/kernel_name.h"
#include "render/incident_ledger.h"
#include "render/incident_verdict.h"
#include "render/term.h"

#define RANKS_SHOWN	1024
#define BAR_COLUMNS	30
#define SIGNALS_SHOWN	12
#define INDENT		12
#define AGAINST_COLUMNS 36 /* of "kernel NAME: 31.2 ms, usually 24.0 ms" without the name */

unsigned incident_text_columns(void)
{
	unsigned columns = term_columns();

	return columns < 100 ? columns : 100;
}

ORDER_BY(ascending, int, ORDER(*a, *b));

const char *incident_text_ranks(const json_t *ranks)
{
	int values[RANKS_SHOWN];
	size_t n = 0, i;
	json_t *v;

	json_array_foreach ((json_t *)ranks, i, v) {
		json_int_t rank = json_integer_value(v);

		if (n < RANKS_SHOWN && rank >= 0 && rank < INT32_MAX)
			values[n++] = (int)rank;
	}
	if (!n && json_array_size(ranks))
		return "-"; /* a process without a rank */
	qsort(values, n, sizeof(values[0]), ascending);
	return term_ranges(values, n);
}

bool incident_text_is_transient(const json_t *in)
{
	const char *symptom = jsonget_text(in, "symptom");

	/* older aggregators say "hiccup" */
	return strcmp(symptom, "transient") == 0 || strcmp(symptom, "hiccup") == 0;
}

static uint64_t length_of(const json_t *in)
{
	return jsonget_unsigned(in, "end_unix_ns") - jsonget_unsigned(in, "begin_unix_ns");
}

bool incident_text_holds(const json_t *in, const json_t *best, uint64_t begin_unix_ns,
			 uint64_t end_unix_ns)
{
	bool transient = incident_text_is_transient(in);

	if (!strcmp(jsonget_text(in, "kind"), "requests") ||
	    jsonget_unsigned(in, "begin_unix_ns") > end_unix_ns ||
	    jsonget_unsigned(in, "end_unix_ns") < begin_unix_ns)
		return false;
	if (!best || transient != incident_text_is_transient(best))
		return !best || !transient;
	return length_of(in) < length_of(best);
}

bool incident_text_hung(const json_t *in, uint64_t *since_unix_ns, uint64_t *until_unix_ns)
{
	const json_t *findings = json_object_get(in, "findings"), *f;
	size_t i;

	if (!incident_verdict_is_hang(in))
		return false;
	*since_unix_ns = jsonget_unsigned(in, "begin_unix_ns");
	*until_unix_ns = jsonget_unsigned(in, "end_unix_ns");
	/* the incident may begin with slow steps before the hang */
	json_array_foreach ((json_t *)findings, i, f) {
		if (strcmp(jsonget_text(f, "kind"), "hang") ||
		    !jsonget_unsigned(f, "begin_unix_ns"))
			continue;
		*since_unix_ns = jsonget_unsigned(f, "begin_unix_ns");
		*until_unix_ns = jsonget_unsigned(f, "end_unix_ns");
		break;
	}
	return *until_unix_ns > *since_unix_ns;
}

/* "had 5 spikes, one every 20 s" */
static const char *spikes_text(const json_t *in, char *out, size_t bytes)
{
	const json_t *spikes = json_object_get(in, "spikes");
	double count = jsonget_number(spikes, "count"), period = jsonget_number(spikes, "period_s");
	int n = snprintf(out, bytes, "had %s spike%s", count > 1 ? term_count(count) : "a",
			 count > 1 ? "s" : "");

	if (period > 0)
		snprintf(out + n, bytes - (size_t)n, ", one every %s", term_span(period));
	return out;
}

const char *incident_text_title(const json_t *in)
{
	static _Thread_local char out[512];
	const json_t *ranks = json_object_get(in, "ranks");
	bool many = json_array_size(ranks) != 1;
	const char *symptom = jsonget_text(in, "symptom"), *what;
	double flagged = jsonget_number(in, "flagged_steps");
	char brief[64], spikes[96];

	snprintf(brief, sizeof(brief), "%s slow for %s step%s",
		 json_array_size(ranks) > 1 ? "were" : "was",
		 flagged > 0 ? term_count(flagged) : "a", flagged > 1 ? "s" : "");
	if (strcmp(symptom, "slow_job") == 0)
		what = many ? "are slow together" : "is slow, and so is the whole job";
	else if (incident_text_is_transient(in))
		what = brief;
	else if (strcmp(symptom, "spike") == 0)
		what = spikes_text(in, spikes, sizeof(spikes));
	else if (strcmp(symptom, "stall") == 0)
		what = many ? "hang" : "hangs";
	else if (strcmp(symptom, "drift") == 0)
		what = many ? "have become slower" : "has become slower";
	else
		what = many ? "are slow" : "is slow";
	if (!json_array_size(ranks))
		snprintf(out, sizeof(out), "the job %s",
			 strcmp(symptom, "slow_requests") == 0
			     ? "answers requests later than its objective"
			 : incident_text_is_transient(in) || strcmp(symptom, "spike") == 0 ? what
			 : strcmp(symptom, "stall") == 0				   ? "hangs"
							 : "is slow; no rank is to blame");
	else if (many)
		snprintf(out, sizeof(out), "ranks %s %s", incident_text_ranks(ranks), what);
	else
		snprintf(out, sizeof(out), "%s %s",
			 term_rank(json_integer_value(json_array_get(ranks, 0))), what);
	return out;
}

const char *incident_text_lasted(const json_t *in)
{
	static _Thread_local char out[96];
	uint64_t begin = jsonget_unsigned(in, "begin_unix_ns"),
		 end = jsonget_unsigned(in, "end_unix_ns");
	bool goes_on = incident_verdict_goes_on(in),
	     open = !strcmp(jsonget_text(in, "state"), "open");
	int n;

	*out = '\0';
	if (end <= begin)
		return out;
	n = snprintf(out, sizeof(out), ", for %s%s", term_span((double)(end - begin) / 1e9),
		     goes_on ? " so far" : "");
	if (open && !goes_on)
		snprintf(out + n, sizeof(out) - (size_t)n, "; nothing slow since %.8s",
			 term_time(end) + strlen("2026-11-21 "));
	return out;
}

static void print_when(FILE *to, const json_t *in)
{
	uint64_t begin = jsonget_unsigned(in, "begin_unix_ns"),
		 end = jsonget_unsigned(in, "end_unix_ns");
	bool open = incident_verdict_goes_on(in);
	double to_flag = jsonget_number(in, "steps_to_flag");
	uint64_t since, until;

	if (incident_verdict_is_hang(in)) {
		if (!incident_text_hung(in, &since, &until))
			since = begin, until = end;
		fprintf(to, "  when      %s since %s", open ? "hangs" : "hung", term_time(since));
		if (until > since)
			fprintf(to, ", for %s%s", term_span((double)(until - since) / 1e9),
				open ? " so far" : "");
		fputc('\n', to);
		return;
	}
	fprintf(to, "  when      %s%s", term_time(begin), incident_text_lasted(in));
	if (!strcmp(jsonget_text(in, "kind"), "requests")) {
		fputc('\n', to);
		return;
	}
	fprintf(to, "\n            steps %s to %s, %s flagged",
		term_count(jsonget_number(in, "first_step")),
		term_count(jsonget_number(in, "last_step")),
		term_count(jsonget_number(in, "flagged_steps")));
	if (to_flag == 1)
		fputs("; detected on the first slow step", to);
	else if (to_flag > 1)
		fprintf(to, "; detected on slow step %s", term_count(to_flag));
	fputc('\n', to);
}

static void print_how_slow(FILE *to, const json_t *in)
{
	double latency = jsonget_number(in, "latency_ms"),
	       expected = jsonget_number(in, "expected_ms");
	double most = latency > expected ? latency : expected;

	/* the ledger's total says it, too */
	if (!(most > 0) || incident_verdict_is_hang(in) ||
	    incident_ledger_is_known(incident_verdict_at(in, 0)))
		return;
	fprintf(to, "\n  how slow  %s%s%s compared with the expected latency\n",
		term_style(TERM_RED), term_excess(jsonget_number(in, "excess")),
		term_style(TERM_PLAIN));
	if (expected > 0)
		fprintf(to, "            expected %9s  %s%s%s\n", term_ms(expected),
			term_style(TERM_GREEN), term_bar(expected / most, BAR_COLUMNS),
			term_style(TERM_PLAIN));
	fprintf(to, "            observed %9s  %s%s%s\n", term_ms(latency), term_style(TERM_RED),
		term_bar(latency / most, BAR_COLUMNS), term_style(TERM_PLAIN));
}

/* A further line about something, below the first. */
static void print_more(FILE *to, const char *text)
{
	term_wrap(to, 12, "", text, incident_text_columns());
}

/* usual_ms 0: none in the healthy steps, or there are none. */
static void print_against(FILE *to, const char *what, const char *name, double ms, double usual_ms)
{
	unsigned room = incident_text_columns() - INDENT - AGAINST_COLUMNS;
	char text[400];

	snprintf(text, sizeof(text), "%s %s: %s%s%s", what, term_safe(name, room < 24 ? 24 : room),
		 term_ms(ms), usual_ms > 0 ? ", usually " : "",
		 usual_ms > 0 ? term_ms(usual_ms) : "");
	print_more(to, text);
}

static void print_span(FILE *to, const json_t *step)
{
	const char *span = jsonget_text(step, "span"), *function = jsonget_text(step, "function");
	double samples = jsonget_number(step, "samples"),
	       blocked = jsonget_number(step, "blocked_ms");
	char text[400], off[64] = "", sampled[64] = "";

	if (*span)
		print_against(to, "span", span, jsonget_number(step, "span_ms"),
			      jsonget_number(step, "span_usual_ms"));
	if (!*function)
		return;
	if (blocked > 0)
		snprintf(off, sizeof(off), ", blocked for %s of it", term_ms(blocked));
	if (samples > 0)
		snprintf(sampled, sizeof(sampled), " (%s)",
			 term_counted(samples, "sample", "samples"));
	snprintf(text, sizeof(text), "the host was in %s for %s%s%s", term_safe(function, 80),
		 term_ms(jsonget_number(step, "function_ms")), off, sampled);
	print_more(to, text);
}

static void print_gap(FILE *to, const json_t *gap)
{
	const char *holder = jsonget_text(gap, "gil_holder");
	double wait = jsonget_number(gap, "gil_wait_ms");
	char text[400], waits[64] = "";

	if (wait > 0)
		snprintf(waits, sizeof(waits), "; waiting for the GIL %s", term_ms(wait));
	snprintf(text, sizeof(text), "the GPU idled for %s, from %s into the step%s%s%s",
		 term_ms(jsonget_number(gap, "ms")), term_ms(jsonget_number(gap, "offset_ms")),
		 waits, *holder ? "; GIL held by " : "", term_safe(holder, 100));
	print_more(to, text);
}

/* One slow step of many: other windows may have a slower one. */
static void print_slow_step(FILE *to, const json_t *in)
{
	const json_t *step = json_object_get(in, "slow_step"), *list, *b;
	const char *bound = jsonget_text(step, "bound");
	char text[200];
	size_t i;

	if (!json_is_object(step) || incident_verdict_is_hang(in))
		return;
	if (!strcmp(jsonget_text(in, "kind"),
		    "requests")) { /* of a process without numbered steps */
		fprintf(to, "\n  slowest   step of the engine: %s\n",
			term_ms(jsonget_number(step, "latency_ms")));
		print_span(to, step);
		return;
	}
	snprintf(text, sizeof(text), "step %s: %s, expected %s%s",
		 term_count(jsonget_number(step, "step")),
		 term_ms(jsonget_number(step, "latency_ms")),
		 term_ms(jsonget_number(step, "expected_ms")),
		 strcmp(bound, "cpu") == 0   ? "; the GPU waited for the CPU"
		 : strcmp(bound, "gpu") == 0 ? "; the GPU was busy"
					     : "");
	fputc('\n', to);
	term_wrap(to, 12, "example", text, incident_text_columns());
	print_span(to, step);
	list = json_object_get(step, "kernels");
	json_array_foreach ((json_t *)list, i, b)
		print_against(to, "kernel",
			      kernel_name_text(jsonget_text(b, "name"), text, sizeof(text)),
			      jsonget_number(b, "ms"), jsonget_number(b, "usual_ms"));
	list = json_object_get(step, "gpu_idle");
	json_array_foreach ((json_t *)list, i, b)
		print_gap(to, b);
}

/* Spikes in other functions than the example's. */
static void print_other_spikes(FILE *to, const json_t *in)
{
	const json_t *list = json_object_get(in, "other_spikes"), *s;
	size_t i;

	json_array_foreach ((json_t *)list, i, s) {
		const char *span = jsonget_text(s, "span");
		double count = jsonget_number(s, "count");
		char text[400], in_span[96] = "", of[48] = "";

		if (*span)
			snprintf(in_span, sizeof(in_span), " (%s)", term_safe(span, 80));
		if (count > 1)
			snprintf(of, sizeof(of), "; the longest of %s", term_count(count));
		snprintf(text, sizeof(text), "%s: %s, expected %s, in %s%s%s",
			 term_rank(jsonget_integer(s, "rank")),
			 term_ms(jsonget_number(s, "latency_ms")),
			 term_ms(jsonget_number(s, "expected_ms")),
			 term_safe(jsonget_text(s, "function"), 80), in_span, of);
		fputs(i ? "" : "\n", to);
		term_wrap(to, 12, i ? "" : "spikes", text, incident_text_columns());
	}
}

/* Prints the raised signals; --json has all. */
static void print_signals(FILE *to, const json_t *in)
{
	const json_t *signals = json_object_get(in, "signals"), *s;
	bool many = json_array_size(json_object_get(in, "ranks")) != 1;
	unsigned shown = 0;
	size_t i;

	json_array_foreach ((json_t *)signals, i, s) {
		char text[400], weight[40] = "";

		if (!jsonget_true(s, "raised") || shown == SIGNALS_SHOWN)
			continue;
		if (!shown++)
			fprintf(to, "\n  OS signals:\n");
		if (jsonget_number(s, "weight_ms") >= 0.01)
			snprintf(weight, sizeof(weight), ", %s per step",
				 term_ms(jsonget_number(s, "weight_ms")));
		snprintf(text, sizeof(text), "%s%s%s%s",
			 many ? term_rank(jsonget_integer(s, "rank")) : "", many ? ": " : "",
			 term_safe(jsonget_text(s, "text"), 160), weight);
		term_wrap(to, 12, "", text, incident_text_columns());
	}
	if (!shown && json_array_size(signals))
		fprintf(to, "\n  OS signals: none is unusual\n");
}

#define REQUESTS_SHOWN 5

/* Requests that missed an objective, the newest first, each with its incident if that is another one. */
static void print_requests(FILE *to, const json_t *in)
{
	const json_t *requests = json_object_get(in, "requests"), *v;
	size_t i;

	json_array_foreach ((json_t *)requests, i, v) {
		if (i == REQUESTS_SHOWN) {
			fprintf(to, "            and %s more (sysom requests %s)\n",
				term_count((double)(json_array_size(requests) - i)),
				term_safe(jsonget_text(in, "job"), 127));
			return;
		}
		fprintf(to, "  %-9s %s missed %s", i ? "" : "requests",
			term_safe(jsonget_text(v, "id"), 16),
			term_safe(jsonget_text(v, "objective"), 8));
		if (jsonget_number(v, "objective_ms") > 0)
			fprintf(to, " of %s", term_ms(jsonget_number(v, "objective_ms")));
		fputc(':', to);
		fprintf(to, " %s, of which %s", term_ms(jsonget_number(v, "ms")),
			term_ms(jsonget_number(v, "phase_ms")));
		fprintf(to, " %s", term_safe(jsonget_text(v, "phase"), 12));
		if (*jsonget_text(v, "incident") &&
		    strcmp(jsonget_text(v, "incident"), jsonget_text(in, "id")) != 0)
			fprintf(to, " (incident %s)", term_safe(jsonget_text(v, "incident"), 8));
		fputc('\n', to);
	}
}

static void print_texts(FILE *to, const char *label, const json_t *array)
{
	size_t i;
	json_t *v;

	json_array_foreach ((json_t *)array, i, v)
		fprintf(to, "  %-9s %s\n", i ? "" : label, term_safe(json_string_value(v), 100));
}

const char *incident_text_pod(const json_t *place)
{
	static char text[4 * 128];
	const char *space = jsonget_text(place, "namespace"),
		   *host = jsonget_text(place, "hostname"),
		   *container = jsonget_text(place, "container");

	snprintf(text, sizeof(text), "%s%s%s%s%s%s%s", space, *space ? "/" : "",
		 jsonget_text(place, "pod"), *container ? ", container " : "", container,
		 *host ? ", host " : "", host);
	return text;
}

static void print_pods(FILE *to, const json_t *pods)
{
	size_t i;
	json_t *v;

	json_array_foreach ((json_t *)pods, i, v)
		fprintf(to, "  %-9s %s\n",
			i			     ? ""
			: json_array_size(pods) == 1 ? "pod"
						     : "pods",
			term_safe(incident_text_pod(v), 200));
}

/* Of an incident of requests: the incident of the step that made them late. */
static void print_step_incident(FILE *to, const json_t *in)
{
	const json_t *step = json_object_get(in, "step_incident");
	char text[400];

	if (!json_is_object(step))
		return;
	snprintf(text, sizeof(text),
		 "incident %s: %s, in the slow step of the worst request (sysom show %s)",
		 term_safe(jsonget_text(step, "id"), 32),
		 term_safe(jsonget_text(step, "title"), 100),
		 term_safe(jsonget_text(step, "id"), 32));
	term_wrap(to, INDENT, "see also", text, incident_text_columns());
}

void incident_text_print(FILE *to, const json_t *in, const char *plots, const char *stacks)
{
	const char *state = jsonget_text(in, "state");
	const json_t *nodes = json_object_get(in, "nodes"), *ranks = json_object_get(in, "ranks"),
		     *victims = json_object_get(in, "victims");
	bool hang = incident_verdict_is_hang(in);
	char id[33]; /* a copy: term.h reuses its buffers */

	snprintf(id, sizeof(id), "%s", term_safe(jsonget_text(in, "id"), 32));
	fprintf(to, "%sincident %s%s  %s%s%s  job %s\n\n", term_style(TERM_BOLD), id,
		term_style(TERM_PLAIN), term_style(strcmp(state, "open") ? TERM_GREEN : TERM_RED),
		term_safe(state, 16), term_style(TERM_PLAIN),
		term_safe(jsonget_text(in, "job"), 60));
	fprintf(to, "  %s%s%s\n\n", term_style(TERM_BOLD), incident_text_title(in),
		term_style(TERM_PLAIN));
	incident_verdict_print(to, in, incident_text_columns());
	print_step_incident(to, in);
	print_when(to, in);
	print_texts(to, json_array_size(nodes) == 1 ? "node" : "nodes", nodes);
	print_pods(to, json_object_get(in, "pods"));
	print_how_slow(to, in);
	print_slow_step(to, in);
	print_other_spikes(to, in);
	if (plots && !incident_verdict_is_hang(in))
		fputs(plots, to);
	if (stacks)
		fputs(stacks, to);
	print_signals(to, in);
	fputc('\n', to);
	if (json_array_size(victims) && json_array_size(ranks))
		fprintf(to, "  victims   %s %s: %s only because %s for %s %s\n",
			json_array_size(victims) == 1 ? "rank" : "ranks",
			incident_text_ranks(victims), hang ? "hanging" : "slow",
			json_array_size(victims) == 1 ? "it waits" : "they wait",
			json_array_size(ranks) == 1 ? "rank" : "ranks", incident_text_ranks(ranks));
	print_requests(to, in);
	fprintf(to, "  evidence  %s window%s\n  uploaded  %s in these windows\n",
		term_count(jsonget_number(in, "window_count")),
		jsonget_number(in, "window_count") == 1 ? "" : "s",
		term_sent(jsonget_number(in, "uploaded_bytes"), jsonget_number(in, "raw_bytes")));
	print_texts(to, "missing", json_object_get(in, "missing"));
	fprintf(to, "  trace     sysom trace %s -o %s.pftrace  (ui.perfetto.dev)\n", id, id);
	fprintf(to, "  report    sysom report %s -o %s.html\n", id, id);
	if (stacks)
		fprintf(to, "  flame     sysom flame %s -o %s.flame.html  (flame graph)\n", id, id);
}

/* A narrow terminal gets no year, of the latency only the excess, and the cause's id. */
#define ROW_WIDE	116
#define ROW_BEFORE_PART 67 /* columns of the narrow form */

void incident_text_head(FILE *to)
{
	bool wide = term_columns() >= ROW_WIDE;

	fprintf(to, "%s%-8s %-6s %-*s %-14s %-12s", term_style(TERM_BOLD), "id", "state",
		wide ? 23 : 14, wide ? "began" : "began (UTC)", "job", "ranks");
	if (wide)
		fprintf(to, " %9s %9s", "observed", "expected");
	fprintf(to, " %6s  %s%s\n", "excess", "cause", term_style(TERM_PLAIN));
}

void incident_text_row(FILE *to, const json_t *in)
{
	const char *state = jsonget_text(in, "state");
	const char *began = term_time(jsonget_unsigned(in, "begin_unix_ns"));
	const json_t *d = json_object_get(in, "diagnosis");
	const char *title = jsonget_text(d, "title"), *cause = jsonget_text(d, "cause");
	unsigned columns = term_columns(), room = 40;
	bool hang = incident_verdict_is_hang(in);
	bool steps = !hang && jsonget_number(in, "latency_ms") > 0;
	bool wide = columns >= ROW_WIDE;
	const json_t *spikes = json_object_get(in, "other_spikes"), *s;
	size_t i;

	if (!wide)
		room = columns > ROW_BEFORE_PART ? columns - ROW_BEFORE_PART : 0;
	fprintf(to, "%-8s %s%-6s%s ", term_safe(jsonget_text(in, "id"), 32),
		term_style(strcmp(state, "open") ? TERM_GREEN : TERM_RED), term_safe(state, 6),
		term_style(TERM_PLAIN));
	if (wide)
		fprintf(to, "%-23s", began);
	else
		fprintf(to, "%-14.14s", strlen(began) > 5 ? began + 5 : began);
	fprintf(to, " %-14s %-12s", term_safe(jsonget_text(in, "job"), 14),
		term_safe(incident_text_ranks(json_object_get(in, "ranks")), 12));
	if (wide)
		fprintf(to, " %9s %9s",
			steps ? term_ms_cell(jsonget_number(in, "latency_ms")) : "-",
			steps ? term_ms_cell(jsonget_number(in, "expected_ms")) : "-");
	fprintf(to, " %6s  %s\n", steps ? term_excess(jsonget_number(in, "excess")) : "-",
		room <= 3 ? ""
		: *title  ? term_safe(wide ? title : cause, room)
			  : "not known");
	json_array_foreach ((json_t *)spikes, i, s)
		fprintf(to, "%-8s %-6s %s in %s%s%s%s\n", "", "",
			jsonget_number(s, "count") > 1 ? "spikes" : "a spike",
			term_safe(jsonget_text(s, "function"), 80),
			*jsonget_text(s, "span") ? " (" : "",
			term_safe(jsonget_text(s, "span"), 80),
			*jsonget_text(s, "span") ? ")" : "");
	/* many such incidents differ only in this */
	if (!strcmp(jsonget_text(in, "kind"), "requests"))
		fprintf(to, "%-8s %-6s %s\n", "", "",
			term_safe(jsonget_text(d, "summary"), columns > 40 ? columns - 16 : 24));
}
