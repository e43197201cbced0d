/* SPDX-License-Identifier: Apache-2.0
 * The end of a job's own output: what slowed it, in a few lines. A batch script or its scheduler runs it
 * when the job is over, so it waits for the last beats and windows of the job's nodes. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/job_key.h"
#include "base/limits.h"
#include "base/text/jsonget.h"
#include "cli/commands.h"
#include "render/incident_text.h"
#include "render/term.h"
#include "ring/attach.h"

#define POLL_US 250000
/* The windows of a rank's last steps come with its end, and are diagnosed within this time. */
#define SETTLE_NS     2000000000u
#define INCIDENTS_MAX 50

struct look {
	json_t *ranks, *incidents; /* owned */
	size_t running;		   /* ranks that have not ended */
	bool diagnosed;		   /* each incident is */
};

static void look_fini(struct look *l)
{
	json_decref(l->ranks);
	json_decref(l->incidents);
	*l = (struct look){0};
}

static int look_at(const struct client *c, const char *job, struct look *l, struct client_error *e)
{
	char path[512];
	const json_t *one;
	size_t i;
	int err;

	*l = (struct look){.diagnosed = true};
	snprintf(path, sizeof(path), "/api/v1/ranks");
	client_add(path, sizeof(path), "job", job);
	err = commands_list(c, path, "ranks", LIMIT_FLEET_RANKS, &l->ranks, e);
	snprintf(path, sizeof(path), "/api/v1/incidents?limit=%d", INCIDENTS_MAX);
	client_add(path, sizeof(path), "job", job);
	if (!err)
		err = commands_list(c, path, "incidents", INCIDENTS_MAX, &l->incidents, e);
	json_array_foreach (json_object_get(l->ranks, "ranks"), i, one)
		l->running += json_is_true(json_object_get(one, "alive"));
	json_array_foreach (json_object_get(l->incidents, "incidents"), i, one)
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
		if (err || !json_array_size(json_object_get(l->ranks, "ranks")) ||
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
	printf("confidence %.0f%%, node", 100 * jsonget_number(d, "confidence"));
	json_array_foreach ((json_t *)nodes, i, v)
		printf(" %s", term_safe(json_string_value(v), 64));
	printf("\nsysom:   from step %llu on: %.4g ms instead of %.4g ms, %.2g GPU-hours lost\n",
	       (unsigned long long)jsonget_unsigned(in, "first_step"),
	       jsonget_number(in, "latency_ms"), jsonget_number(in, "expected_ms"),
	       jsonget_number(in, "gpu_hours_lost"));
	if (*jsonget_text(d, "remedy"))
		printf("sysom:   to do: %s\n", term_safe(jsonget_text(d, "remedy"), 400));
	printf("sysom:   more: sysom show %s\n", term_safe(jsonget_text(in, "id"), 32));
}

/* Nodes of the ranks. */
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

/* Slurm says which nodes the job has; on those that no rank was seen on sysomd may not run. */
static void print_unseen(size_t nodes)
{
	const char *count = getenv("SLURM_JOB_NUM_NODES"), *list = getenv("SLURM_JOB_NODELIST");
	double all;

	if (count && list && options_number(count, 1, 1e6, &all) && (double)nodes < all)
		printf("sysom: only %zu of %.0f nodes were seen (%s); does sysomd run on each?\n",
		       nodes, all, term_safe(list, 200));
}

static void print_verdict(const char *job, const struct look *l)
{
	const json_t *ranks = json_object_get(l->ranks, "ranks"),
		     *incidents = json_object_get(l->incidents, "incidents"), *one;
	size_t nodes = count_nodes(ranks), count = json_array_size(ranks), shown = 0, i;
	double steps = 0;

	json_array_foreach ((json_t *)ranks, i, one)
		if (jsonget_number(one, "steps") > steps)
			steps = jsonget_number(one, "steps");
	json_array_foreach ((json_t *)incidents, i, one)
		shown += !incident_text_is_transient(one);
	printf("sysom: job %s, %zu rank%s on %zu node%s, %s steps: ", term_safe(job, 127), count,
	       count == 1 ? "" : "s", nodes, nodes == 1 ? "" : "s", term_count(steps));
	if (shown)
		printf("%zu incident%s\n", shown, shown == 1 ? "" : "s");
	else
		puts("nothing was slow");
	print_unseen(nodes);
	json_array_foreach ((json_t *)incidents, i, one)
		if (!incident_text_is_transient(one))
			print_incident(one);
	if (l->running)
		printf("sysom: %zu ranks still run; this is the verdict so far\n", l->running);
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
		fputs("sysom verdict: which job? There is no SYSOM_JOB and no scheduler's job id\n",
		      stderr);
		return EXIT_USAGE;
	}
	if (wait_for_end(o, &c, key, &l, &e)) {
		look_fini(&l);
		return commands_complain("verdict", &e);
	}
	known = json_array_size(json_object_get(l.ranks, "ranks")) ||
		json_array_size(json_object_get(l.incidents, "incidents"));
	if (o->json)
		commands_print_new(json_pack("{s:s, s:O, s:O}", "job", key, "ranks",
					     json_object_get(l.ranks, "ranks"), "incidents",
					     json_object_get(l.incidents, "incidents")));
	else if (known)
		print_verdict(key, &l);
	if (!known)
		fprintf(stderr, "sysom verdict: no rank of %s was traced\n", term_safe(key, 127));
	look_fini(&l);
	return known ? EXIT_OK : EXIT_NOTHING;
}
