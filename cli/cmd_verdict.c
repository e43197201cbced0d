/* SPDX-License-Identifier: Apache-2.0
 * The end of a job's own output: what slowed it, in a few lines. A batch script or its scheduler runs it
 * when the job is over, so it waits for the last beats and windows of the job's nodes. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/job_key.h"
#include "base/limits.h"
#include "base/order.h"
#include "base/text/jsonget.h"
#include "cli/commands.h"
#include "render/incident_text.h"
#include "render/incident_verdict.h"
#include "render/term.h"
#include "ring/attach.h"

#define POLL_US 250000
/* The windows of a rank's last steps come with its end, and are diagnosed within this time. */
#define SETTLE_NS     2000000000u
#define INCIDENTS_MAX 50

#define EARLIER_MAX 5 /* lines about earlier runs */

struct look {
	json_t *ranks, *incidents; /* of the newest run; owned */
	json_t *earlier;	   /* incidents of its earlier runs; owned */
	size_t running;		   /* processes that have not ended */
	bool diagnosed;		   /* each incident is */
};

static void look_fini(struct look *l)
{
	json_decref(l->ranks);
	json_decref(l->incidents);
	json_decref(l->earlier);
	*l = (struct look){0};
}

/* ---- which of several runs of a name ---- */

/* The key without the step of a RUN: what all steps of one run have in common. */
static void run_of(char *out, size_t room, const char *key)
{
	size_t name = job_key_name_bytes(key), n = name;
	const char *run, *step;

	while (n && key[n] != '#')
		n--;
	run = n ? key + n : key + name;
	step = memchr(run, '.', (size_t)(key + name - run));
	snprintf(out, room, "%.*s%s", (int)((step ? step : key + name) - key), key, key + name);
}

static double age_s(const json_t *rank)
{
	return jsonget_number(rank, "beat_age_ms") / 1e3;
}

/* The run of the latest beat or incident. */
static void find_newest(const json_t *ranks, const json_t *incidents, char *run, size_t room)
{
	const json_t *one, *newest = json_array_get(incidents, 0);
	size_t i;

	json_array_foreach ((json_t *)ranks, i, one)
		if (!i || age_s(one) < age_s(newest))
			newest = one;
	run_of(run, room, jsonget_text(newest, "job"));
}

/* The list's entries of the run, or the others; owned. */
static json_t *of_run(const json_t *list, const char *run, double since_unix_ns, bool others)
{
	json_t *out = json_array();
	const json_t *one;
	size_t i;

	json_array_foreach ((json_t *)list, i, one) {
		char other[ATTACH_TEXT_BYTES + 16];
		const json_t *end = json_object_get(one, "end_unix_ns");
		bool ours;

		run_of(other, sizeof(other), jsonget_text(one, "job"));
		ours = !strcmp(run, other) &&
		       (!end || (double)jsonget_unsigned(one, "end_unix_ns") >= since_unix_ns);
		if (ours != others)
			json_array_append(out, (json_t *)one);
	}
	return out;
}

/* A run without an id (NAME@UID) is identified by its processes: what ended before the first of them began
 * belongs to an earlier run. 0: not known, or the run has an id. */
static double began_unix_ns(const json_t *ranks, const char *run)
{
	double longest_s = 0;
	const json_t *one;
	size_t i;

	if (memchr(run, '#', job_key_name_bytes(run)))
		return 0;
	json_array_foreach ((json_t *)ranks, i, one)
		if (jsonget_number(one, "known_s") > longest_s)
			longest_s = jsonget_number(one, "known_s");
	return longest_s > 0 ? (double)clock_realtime_ns() - longest_s * 1e9 : 0;
}

static void divide(const json_t *ranks, const json_t *incidents, struct look *l)
{
	char run[ATTACH_TEXT_BYTES + 16];
	double since;

	find_newest(ranks, incidents, run, sizeof(run));
	l->ranks = of_run(ranks, run, 0, false);
	since = began_unix_ns(l->ranks, run);
	l->incidents = of_run(incidents, run, since, false);
	l->earlier = of_run(incidents, run, since, true);
}

static int look_at(const struct client *c, const char *job, struct look *l, struct client_error *e)
{
	json_t *ranks = NULL, *incidents = NULL;
	const json_t *one;
	size_t i;
	int err = commands_list(c, "ranks", NULL, job, LIMIT_FLEET_RANKS, &ranks, e);

	*l = (struct look){.diagnosed = true};
	if (!err)
		err = commands_list(c, "incidents", NULL, job, INCIDENTS_MAX, &incidents, e);
	divide(json_object_get(ranks, "ranks"), json_object_get(incidents, "incidents"), l);
	json_decref(ranks);
	json_decref(incidents);
	json_array_foreach (l->ranks, i, one)
		l->running += json_is_true(json_object_get(one, "alive"));
	json_array_foreach (l->incidents, i, one)
		if (!incident_text_is_transient(one) &&
		    !json_is_object(json_object_get(one, "diagnosis")))
			l->diagnosed = false;
	return err;
}

/* Looks until the job is over and explained, or the time is up. */
static int wait_for_end(const struct options *o, const struct client *c, const char *job,
			struct look *l, struct client_error *e)
{
	uint64_t begin = clock_monotonic_ns(), ended = 0, now;
	int err;

	for (;;) {
		err = look_at(c, job, l, e);
		now = clock_monotonic_ns();
		if (err || !json_array_size(l->ranks) ||
		    (double)(now - begin) / 1e9 >= o->timeout_s)
			return err;
		if (l->running)
			ended = 0;
		else if (!ended)
			ended = now;
		if (ended && now - ended >= SETTLE_NS && l->diagnosed)
			return 0;
		look_fini(l);
		usleep(POLL_US);
	}
}

static bool is_of_requests(const json_t *in)
{
	return !strcmp(jsonget_text(in, "kind"), "requests");
}

static void print_cost(const json_t *in)
{
	double hours = jsonget_number(in, "gpu_hours_lost");
	uint64_t since, until;

	printf("sysom:   ");
	if (incident_text_hung(in, &since, &until))
		printf("hung for %s%s, ", term_span((double)(until - since) * 1e-9),
		       incident_verdict_goes_on(in) ? " so far" : "");
	else if (jsonget_number(in, "latency_ms") > 0 && !incident_verdict_is_hang(in))
		printf("steps %s to %s: %s instead of %s, ",
		       term_count(jsonget_number(in, "first_step")),
		       term_count(jsonget_number(in, "last_step")),
		       term_ms(jsonget_number(in, "latency_ms")),
		       term_ms(jsonget_number(in, "expected_ms")));
	if (hours > 0)
		printf("%s GPU-hours lost\n", incident_verdict_hours(hours));
	else /* of a job without a GPU */
		printf("%s of step time lost\n", term_span(jsonget_number(in, "lost_ms") / 1e3));
}

static void print_incident(const json_t *in)
{
	const json_t *d = json_object_get(in, "diagnosis"), *nodes = json_object_get(in, "nodes"),
		     *v;
	const char *summary = jsonget_text(d, "summary");
	size_t i;

	printf("sysom: %s\n", *summary ? term_safe(summary, 400) : incident_text_title(in));
	if (!json_is_object(d)) {
		printf("sysom:   no cause yet; see sysom show %s\n",
		       term_safe(jsonget_text(in, "id"), 32));
		return;
	}
	printf("sysom:   layer %s, ", term_safe(jsonget_text(d, "layer"), 20));
	printf("cause %s, ", term_safe(jsonget_text(d, "cause"), 40));
	printf("confidence %.0f%%", 100 * jsonget_number(d, "confidence"));
	json_array_foreach ((json_t *)nodes, i, v)
		printf("%s%s", i ? " " : ", node ", term_safe(json_string_value(v), 64));
	putchar('\n');
	if (!is_of_requests(in)) /* they lost no time of the GPUs */
		print_cost(in);
	if (*jsonget_text(d, "remedy"))
		printf("sysom:   to do: %s\n", term_safe(jsonget_text(d, "remedy"), 400));
	printf("sysom:   more: sysom show %s\n", term_safe(jsonget_text(in, "id"), 32));
}

static size_t count_nodes(const json_t *ranks)
{
	json_t *names = json_object();
	const json_t *r;
	size_t i, n;

	json_array_foreach ((json_t *)ranks, i, r)
		json_object_set_new(names, jsonget_text(r, "node"), json_true());
	n = json_object_size(names);
	json_decref(names);
	return n;
}

/* Slurm lists the job's nodes. On a node without a rank, sysomd may not run. */
static void print_unseen(size_t nodes)
{
	const char *count = getenv("SLURM_JOB_NUM_NODES"), *list = getenv("SLURM_JOB_NODELIST");
	double all;

	if (count && list && options_number(count, 1, 1e6, &all) && (double)nodes < all)
		printf("sysom: only %zu of %.0f nodes were seen (%s); does sysomd run on each?\n",
		       nodes, all, term_safe(list, 200));
}

static void print_earlier(const json_t *earlier)
{
	size_t i, shown = 0;
	const json_t *in;

	json_array_foreach ((json_t *)earlier, i, in) {
		const char *summary = jsonget_text(json_object_get(in, "diagnosis"), "summary");

		if (incident_text_is_transient(in) || shown++ >= EARLIER_MAX)
			continue;
		printf("sysom: in an earlier run (%s): ", term_safe(jsonget_text(in, "job"), 127));
		printf("%s; ", *summary ? term_safe(summary, 200) : incident_text_title(in));
		printf("sysom show %s\n", term_safe(jsonget_text(in, "id"), 32));
	}
	if (shown > EARLIER_MAX)
		printf("sysom: and %zu more incidents of earlier runs (sysom incidents)\n",
		       shown - EARLIER_MAX);
}

/* "4 ranks and 2 other processes"; running: of those that have not ended. */
static const char *ranks_text(const json_t *ranks, bool running)
{
	double of[2] = {0};
	const json_t *one;
	size_t i;

	json_array_foreach ((json_t *)ranks, i, one)
		of[jsonget_integer(one, "rank") < 0] += !running || jsonget_true(one, "alive");
	return term_ranks(of[0], of[1]);
}

struct listed {
	const json_t *in;
	bool late; /* late requests are mostly the effect of the others */
	double lost_ms;
	size_t at;
};

ORDER_BY(by_cost, struct listed, ORDER_UP(late) ?: ORDER_DOWN(lost_ms) ?: ORDER_UP(at));

/* The costliest incidents come first. */
static void print_incidents(const json_t *incidents)
{
	struct listed *list = calloc(json_array_size(incidents) + 1, sizeof(*list));
	size_t n = 0, i;
	json_t *in;

	json_array_foreach ((json_t *)incidents, i, in)
		if (list && !incident_text_is_transient(in))
			list[n++] = (struct listed){in, is_of_requests(in),
						    jsonget_number(in, "lost_ms"), i};
	ORDER_SORT(list, n, by_cost);
	for (i = 0; i < n; i++)
		print_incident(list[i].in);
	free(list);
}

static void print_verdict(const char *job, const struct look *l)
{
	const json_t *ranks = l->ranks, *incidents = l->incidents, *one;
	size_t nodes = count_nodes(ranks), count = json_array_size(ranks), shown = 0, i;
	double steps = 0;

	json_array_foreach ((json_t *)ranks, i, one)
		if (jsonget_number(one, "steps") > steps)
			steps = jsonget_number(one, "steps");
	json_array_foreach ((json_t *)incidents, i, one)
		shown += !incident_text_is_transient(one);
	printf("sysom: job %s, ", term_safe(job, 127));
	if (count)
		printf("%s on %zu node%s, %s steps: ", ranks_text(ranks, false), nodes,
		       nodes == 1 ? "" : "s", term_count(steps));
	else /* the store keeps incidents longer than the aggregator keeps ranks */
		printf("whose ranks are no longer known: ");
	if (shown)
		printf("%zu incident%s\n", shown, shown == 1 ? "" : "s");
	else
		puts("nothing was slow");
	print_unseen(nodes);
	print_incidents(incidents);
	print_earlier(l->earlier);
	if (l->running)
		printf("sysom: %s still run%s; this is the verdict so far\n",
		       ranks_text(ranks, true), l->running == 1 ? "s" : "");
}

/* The job that a process with this environment belongs to, as the preload names it. */
static void name_of_environment(char *key, size_t room)
{
	struct attach_hello h;

	attach_hello_fill(&h);
	*key = '\0';
	if (*h.job)
		job_key_make(key, room, h.job, getuid());
}

int cmd_verdict_main(const struct options *o)
{
	char key[ATTACH_TEXT_BYTES];
	struct client_error e;
	struct client c;
	struct look l;
	bool known;

	if (commands_aggregator(o, &c))
		return EXIT_USAGE;
	if (o->argc)
		snprintf(key, sizeof(key), "%s", o->argv[0]);
	else
		name_of_environment(key, sizeof(key));
	if (!*key) {
		fputs("sysom verdict: which job? Neither SYSOM_JOB nor a scheduler names one. Give "
		      "its "
		      "name; sysom top and sysom incidents list jobs\n",
		      stderr);
		return EXIT_USAGE;
	}
	if (wait_for_end(o, &c, key, &l, &e)) {
		look_fini(&l);
		return commands_complain("verdict", &e);
	}
	known = json_array_size(l.ranks) || json_array_size(l.incidents);
	if (o->json)
		commands_print_new(json_pack("{s:s, s:O, s:O, s:O}", "job", key, "ranks", l.ranks,
					     "incidents", l.incidents, "earlier", l.earlier));
	else if (known)
		print_verdict(key, &l);
	if (!known)
		fprintf(stderr,
			"sysom verdict: no rank of %s was traced; sysom top lists the jobs, and "
			"sysom doctor says why one is not traced\n",
			term_safe(key, 127));
	look_fini(&l);
	return known ? EXIT_OK : EXIT_NOTHING;
}
