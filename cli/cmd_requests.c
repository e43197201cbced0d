/* SPDX-License-Identifier: Apache-2.0
 * The aggregator knows the jobs, and the requests that missed an objective; each node knows all of
 * its open and latest requests. One request is looked for on this node first. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/text/jsonget.h"
#include "base/text/text.h"
#include "cli/commands.h"
#include "model/request.h"
#include "render/incident_text.h"
#include "render/term.h"

#define REFRESH_S 1u

/* ---- jobs ---- */

static void put_times(const json_t *job, const char *objective)
{
	const json_t *o = json_object_get(job, objective);

	printf(" %9s %9s %8s", commands_ms(jsonget_number(o, "median_ms")),
	       commands_ms(jsonget_number(o, "p99_ms")), term_count(jsonget_number(o, "violated")));
}

static void print_jobs(const struct client *c, const json_t *jobs)
{
	const json_t *job;
	size_t i;

	if (!json_array_size(jobs)) {
		printf("no requests: no job%s has spans that name them (docs/requests.md)\n",
		       commands_of_seen(c));
		return;
	}
	printf("%s%-20s %8s %8s %8s %9s %9s %9s %8s %9s %9s %8s%s\n", term_style(TERM_BOLD), "job",
	       "requests", "running", "waiting", "wait", "ttft", "p99", "missed", "tpot", "p99",
	       "missed", term_style(TERM_PLAIN));
	json_array_foreach ((json_t *)jobs, i, job) {
		bool missed = jsonget_number(json_object_get(job, "ttft"), "violated") +
				  jsonget_number(json_object_get(job, "tpot"), "violated") >
			      0;

		printf("%s%-20s %8s", term_style(missed ? TERM_RED : TERM_PLAIN),
		       term_safe(jsonget_text(job, "job"), 20),
		       term_count(jsonget_number(job, "arrived")));
		printf(" %8s %8s %9s", term_count(jsonget_number(job, "running")),
		       term_count(jsonget_number(job, "waiting")),
		       commands_ms(jsonget_number(job, "oldest_wait_ms")));
		put_times(job, "ttft");
		put_times(job, "tpot");
		printf("%s\n", term_style(TERM_PLAIN));
	}
}

/* ---- violations ---- */

/* The incident of the same group; NULL: not known. */
static const char *incident_of(const json_t *incidents, const char *anomaly_id)
{
	const json_t *in, *f;
	size_t i, k;

	json_array_foreach ((json_t *)incidents, i, in)
		json_array_foreach (json_object_get(in, "findings"), k, f)
			if (*anomaly_id && !strcmp(jsonget_text(f, "anomaly_id"), anomaly_id))
				return jsonget_text(in, "id");
	return NULL;
}

/* The incident during which the slow step ran. */
static const char *other_of(const json_t *incidents, const json_t *v)
{
	const json_t *step = json_object_get(v, "slow_step"), *in, *best = NULL;
	uint64_t begin = jsonget_unsigned(v, "begin_unix_ns") +
			 (uint64_t)(fmax(jsonget_number(step, "after_ms"), 0) * 1e6);
	uint64_t end = begin + (uint64_t)(fmax(jsonget_number(step, "ms"), 0) * 1e6);
	size_t i;

	json_array_foreach ((json_t *)incidents, i, in)
		if (json_is_object(step) && incident_text_holds(in, best, begin, end))
			best = in;
	return best ? jsonget_text(best, "id") : NULL;
}

/* Whether the incident counts the request, or covers the time of its slow step. */
static bool is_about(const json_t *in, const json_t *v)
{
	json_t *one = json_pack("[O]", (json_t *)in);
	bool about = incident_of(one, jsonget_text(v, "anomaly_id")) || other_of(one, v);

	json_decref(one);
	return about;
}

static void link_incidents(json_t *violations, const json_t *incidents)
{
	json_t *v;
	size_t i;

	json_array_foreach (violations, i, v) {
		const char *id = incident_of(incidents, jsonget_text(v, "anomaly_id"));
		const char *other = other_of(incidents, v);

		json_object_set_new(v, "incident", id ? json_string(id) : json_null());
		json_object_set_new(v, "step_incident", other ? json_string(other) : json_null());
	}
}

static void print_slow_step(const json_t *v)
{
	const json_t *s = json_object_get(v, "slow_step");
	const char *span = jsonget_text(s, "span");

	if (!json_is_object(s))
		return;
	if (jsonget_number(s, "batch") == 0) {
		printf("   no step ended in %s\n", term_ms(jsonget_number(s, "ms")));
		return;
	}
	printf("   longest step %s", term_ms(jsonget_number(s, "ms")));
	printf(", %s of", term_counted(jsonget_number(s, "step_tokens"), "token", "tokens"));
	printf(" %s%s%s\n", term_counted(jsonget_number(s, "batch"), "request", "requests"),
	       *span ? ", in " : "", term_safe(span, 64));
}

static void print_violations(const json_t *violations)
{
	const json_t *v;
	size_t i;

	if (json_array_size(violations))
		printf("\n%s%-16s %-23s %-6s %9s  %-8s %9s  %-8s %s%s\n", term_style(TERM_BOLD),
		       "request", "at", "missed", "took", "phase", "of it", "incident",
		       "step's incident", term_style(TERM_PLAIN));
	json_array_foreach ((json_t *)violations, i, v) {
		printf("%-16s %-23s %-6s %9s  %-8s", term_safe(jsonget_text(v, "id"), 16),
		       term_time(jsonget_unsigned(v, "end_unix_ns")),
		       term_safe(jsonget_text(v, "objective"), 4), term_ms(jsonget_number(v, "ms")),
		       term_safe(jsonget_text(v, "phase"), 8));
		printf(" %9s  %-8s %s\n", term_ms(jsonget_number(v, "phase_ms")),
		       term_safe(jsonget_text(v, "incident"), 8),
		       term_safe(jsonget_text(v, "step_incident"), 8));
		print_slow_step(v);
	}
}

/* The answer about one job, with its incidents; NULL: no such job, or none with requests. */
static json_t *ask(const struct client *c, const char *job, struct client_error *e)
{
	struct client_error missing;
	json_t *j, *incidents, *first;

	if (commands_list(c, "requests", NULL, job, SIZE_MAX, &j, e))
		return NULL;
	first = json_array_get(json_object_get(j, "requests"), 0);
	if (job && first) {
		commands_list(c, "incidents", NULL, jsonget_text(first, "job"), 200, &incidents,
			      &missing);
		link_incidents(json_object_get(first, "violations"),
			       json_object_get(incidents, "incidents"));
		json_decref(incidents);
	}
	return j;
}

static void print_answer(const struct options *o, const struct client *c, const json_t *j)
{
	const json_t *jobs = json_object_get(j, "requests");

	if (o->json) {
		commands_print_json(j);
		return;
	}
	print_jobs(c, jobs);
	print_violations(json_object_get(json_array_get(jobs, 0), "violations"));
}

static int live(const struct options *o, const struct client *c, const char *job)
{
	struct client_error e;
	json_t *j;

	while ((j = ask(c, job, &e))) {
		fputs("\033[H\033[J", stdout);
		print_answer(o, c, j);
		fflush(stdout);
		json_decref(j);
		sleep(REFRESH_S);
	}
	return commands_complain("requests", &e);
}

void commands_add_requests(const struct client *c, json_t *in)
{
	json_t *list = json_array(), *j, *v;
	struct client_error e;
	size_t i;

	j = ask(c, jsonget_text(in, "job"), &e);
	json_array_foreach (
	    json_object_get(json_array_get(json_object_get(j, "requests"), 0), "violations"), i, v)
		if (is_about(in, v))
			json_array_append(list, v);
	json_decref(j);
	json_object_set_new(in, "requests", list);
}

/* ---- one request ---- */

static void put_slowest(const json_t *list)
{
	const json_t *s;
	size_t i;

	json_array_foreach ((json_t *)list, i, s) {
		printf("%s%s", i ? ", " : "; longest ", term_ms(jsonget_number(s, "ms")));
		printf(" at +%s (%s of", term_ms(jsonget_number(s, "begin_ms")),
		       term_count(jsonget_number(s, "tokens")));
		printf(" %s, %s)",
		       term_counted(jsonget_number(s, "step_tokens"), "token", "tokens"),
		       term_counted(jsonget_number(s, "batch"), "request", "requests"));
	}
}

/* The request's nodes, if several, and how their clocks were aligned. */
static void put_nodes(const json_t *r)
{
	const json_t *nodes = json_object_get(r, "nodes"), *node;
	const char *clock = jsonget_text(r, "clock");
	size_t i;

	if (json_array_size(nodes) < 2)
		return;
	json_array_foreach ((json_t *)nodes, i, node)
		printf("%s%s", i ? ", " : "  nodes                ",
		       term_safe(json_string_value(node), 60));
	printf("  (%s)\n", !strcmp(clock, "unknown")
			       ? "their clocks differ: the time between them is not known"
			   : !strcmp(clock, "aligned") ? "clocks aligned by collectives"
						       : "by their system clocks");
}

/* The parts of an objective's time, which add up to it; parts: their key. */
static void put_parts(const json_t *r, const char *parts)
{
	static const struct {
		const char *name, *steps, *slowest, *what; /* steps, slowest: keys */
	} phases[] = {{"api", NULL, NULL, ""},
		      {"queue", NULL, NULL, ""},
		      {"prefill", "prefill_steps", "slowest_prefill", ""},
		      {"decode", "decode_steps", "slowest_decode", ""},
		      {"pause", NULL, NULL, "  between its steps"},
		      {"transfer", NULL, NULL, "  from one engine to the next"},
		      {"output", NULL, NULL, ""},
		      {"none", NULL, NULL, "  not known in which phase"}};

	for (size_t i = 0; i < ARRAY_LEN(phases); i++) {
		const json_t *v = json_object_get(json_object_get(r, parts), phases[i].name);

		if (!json_is_number(v))
			continue;
		printf("    %-8s %9s%s", phases[i].name, term_ms(json_number_value(v)),
		       phases[i].what);
		if (phases[i].steps)
			printf("  %s",
			       term_counted(jsonget_number(r, phases[i].steps), "step", "steps"));
		if (phases[i].slowest)
			put_slowest(json_object_get(r, phases[i].slowest));
		putchar('\n');
	}
}

static void put_objective(const json_t *r, const json_t *objectives, const char *what,
			  const char *ms, const char *missed)
{
	bool out = jsonget_true(r, missed);

	printf("  %s%-20s %s", term_style(out ? TERM_RED : TERM_PLAIN), what,
	       commands_ms(jsonget_number(r, ms)));
	printf("%s%s  (objective %s)\n", out ? ", missed" : "", term_style(TERM_PLAIN),
	       commands_ms(jsonget_number(objectives, ms)));
}

static void print_request(const json_t *r, const json_t *objectives)
{
	printf("%srequest %s%s  %s  job %s\n\n", term_style(TERM_BOLD),
	       term_safe(jsonget_text(r, "id"), 16), term_style(TERM_PLAIN),
	       term_safe(jsonget_text(r, "state"), 16), term_safe(jsonget_text(r, "job"), 60));
	printf("  arrived              %s\n", term_time(jsonget_unsigned(r, "arrival_unix_ns")));
	put_nodes(r);
	if (jsonget_true(r, "shared"))
		puts("  not judged           two engines had a request with this id at once");
	printf("  tokens               %s of the prompt,",
	       term_count(jsonget_number(r, "prompt_tokens")));
	printf(" %s new\n", term_count(jsonget_number(r, "output_tokens")));
	put_objective(r, objectives, "time to first token", "ttft_ms", "ttft_violated");
	put_parts(r, "ttft_parts_ms");
	put_objective(r, objectives, "time per token", "tpot_ms", "tpot_violated");
	put_parts(r, "tpot_parts_ms");
}

/* The aggregator's answer, if several nodes saw the request, else this node's; owned. NULL: neither. */
static json_t *whole_or_node(const struct options *o, const struct client *c,
			     const struct client *control, const char *id)
{
	char path[512];
	struct client_error e;
	json_t *j = NULL;

	snprintf(path, sizeof(path), "/api/v1/requests?id=%s", id);
	client_add(path, sizeof(path), "job", o->job);
	/* an earlier aggregator answers with its jobs */
	if (!client_json(c, path, &j, &e) &&
	    json_object_get(json_array_get(json_object_get(j, "requests"), 0), "id"))
		return j;
	json_decref(j);
	return commands_node_get(o, control, path, &e);
}

/* The request's violations that the aggregator has; owned. */
static json_t *violations_of(const struct client *c, const char *id)
{
	json_t *found = json_array(), *jobs, *job, *v, *one;
	struct client_error e;
	size_t i, k;

	jobs = ask(c, NULL, &e);
	json_array_foreach (json_object_get(jobs, "requests"), i, job) {
		one = ask(c, jsonget_text(job, "job"), &e);
		job = json_array_get(json_object_get(one, "requests"), 0);
		json_array_foreach (json_object_get(job, "violations"), k, v)
			if (!strcmp(jsonget_text(v, "id"), id))
				json_array_append(found, v);
		json_decref(one);
	}
	json_decref(jobs);
	return found;
}

/* Looks at the aggregator and on this node; both results are owned. Returns how many were found. */
static size_t find_request(const struct options *o, const struct client *c,
			   const struct client *control, uint64_t hash, json_t **node,
			   json_t **violations, char id[17])
{
	snprintf(id, 17, "%016" PRIx64, hash);
	*node = whole_or_node(o, c, control, id);
	*violations = violations_of(c, id);
	return json_array_size(json_object_get(*node, "requests")) + json_array_size(*violations);
}

/* without: why the aggregator did not answer; NULL: it did. */
static int show_request(const struct options *o, const struct client *c, const char *text,
			const struct client_error *without)
{
	char id[17];
	struct client control;
	uint8_t digits[8];
	json_t *node = NULL, *violations = NULL;
	const json_t *list, *r;
	size_t i, n = 0;

	if (commands_control(o, &control))
		return EXIT_USAGE;
	if (strlen(text) == 16 && !text_unhex(text, digits, sizeof(digits)))
		n = find_request(o, c, &control, strtoull(text, NULL, 16), &node, &violations, id);
	/* the id itself, which may have 16 digits; then without the engine's suffix */
	for (int base = 0; base < 2 && !n; base++) {
		json_decref(node);
		json_decref(violations);
		n = find_request(o, c, &control, request_hash(text, base), &node, &violations, id);
	}
	list = json_object_get(node, "requests");
	if (!node && without) {
		json_decref(violations);
		return commands_complain("requests", without);
	}
	if (o->json) {
		commands_print_new(json_pack("{s:s, s:O, s:O}", "id", id, "requests",
					     list ? (json_t *)list : violations, "violations",
					     violations));
	} else if (!n) {
		fprintf(
		    stderr,
		    "sysom requests: no serving job and no request %s is known here; a "
		    "node knows its own open requests and the latest 4,096 that ended, so ask on "
		    "the request's node\n",
		    term_safe(text, 60));
	} else {
		json_array_foreach ((json_t *)list, i, r)
			print_request(r, json_object_get(node, "objectives"));
		print_violations(violations);
	}
	json_decref(node);
	json_decref(violations);
	return n ? EXIT_OK : EXIT_NOTHING;
}

int cmd_requests_main(const struct options *o)
{
	const char *job = o->job ? o->job : o->argc ? o->argv[0] : NULL;
	struct client_error e;
	struct client c;
	json_t *j;
	bool known;

	if (commands_aggregator(o, &c))
		return EXIT_USAGE;
	j = ask(&c, job, &e);
	known = json_array_size(json_object_get(j, "requests")) > 0;
	if (o->argc && !known) {
		int status = show_request(o, &c, o->argv[0], j ? NULL : &e);

		json_decref(j);
		return status;
	}
	if (!j)
		return commands_complain("requests", &e);
	if (term_is_live() && isatty(STDIN_FILENO) && !o->once && !o->json) {
		json_decref(j);
		return live(o, &c, job);
	}
	print_answer(o, &c, j);
	json_decref(j);
	return known ? EXIT_OK : EXIT_NOTHING;
}
