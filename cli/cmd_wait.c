/* SPDX-License-Identifier: Apache-2.0
 * Waits for an incident of a job, for scripts and for people who want to watch. Progress goes to standard
 * error: on a terminal one line that is rewritten, else a new line every 5 s. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/job_key.h"
#include "base/text/jsonget.h"
#include "base/limits.h"
#include "cli/commands.h"
#include "render/incident_text.h"
#include "render/term.h"

#define POLL_US	 500000
#define LINE_NS	 5000000000u /* between two lines, if not on a terminal */
#define QUIET_NS 9000000000u /* the longest time without a line */
/* Steps arrive with beats, 5 s apart by default. So the rate is that between two beats, and without a new
 * beat no line is printed. */
#define RATE_NS 3000000000u
#define OLD_MAX 1000 /* the most that the aggregator lists */
#define LISTED	50

struct progress {
	double steps, rate; /* as of the beat before last; rate < 0: not known */
	double shown_steps;
	uint64_t at_ns, printed_ns;
	bool live;
};

/* Incidents that were closed before the wait began: they do not count. */
struct old {
	char (*ids)[33];
	size_t count;
	bool known;
};

static void count_rate(struct progress *p, double steps, uint64_t now)
{
	if (p->at_ns && steps == p->steps)
		return;
	if (p->at_ns && steps > p->steps && now - p->at_ns < RATE_NS)
		return;
	p->rate = p->at_ns && steps > p->steps
		      ? (steps - p->steps) / ((double)(now - p->at_ns) / 1e9)
		      : -1;
	p->steps = steps;
	p->at_ns = now;
}

static void print_line(struct progress *p, const char *line, double steps, uint64_t now)
{
	if (p->live) {
		/* cut to the terminal: a wrapped line can't be rewritten */
		fprintf(stderr, "\r\033[K%.*s", (int)term_error_columns() - 1, line);
		return;
	}
	if (now - p->printed_ns < LINE_NS ||
	    (steps == p->shown_steps && now - p->printed_ns < QUIET_NS))
		return;
	fprintf(stderr, "%s\n", line);
	p->printed_ns = now;
	p->shown_steps = steps;
}

static void show_progress(struct progress *p, const struct client *c, const char *job,
			  double left_s, const char *open_id)
{
	double steps = 0, flagged = 0, alive = 0;
	uint64_t now = clock_monotonic_ns();
	char line[512], rate[64] = "", processes[64] = "the job has ended";
	struct client_error e;
	json_t *j, *r;
	size_t i;

	commands_list(c, "ranks", NULL, job, LIMIT_FLEET_RANKS, &j, &e);
	json_array_foreach (json_object_get(j, "ranks"), i, r) {
		steps += jsonget_number(r, "steps");
		flagged += jsonget_number(r, "flagged");
		alive += !json_is_false(json_object_get(r, "alive"));
	}
	/* a serving engine and its API process have no rank */
	if (alive)
		snprintf(processes, sizeof(processes), "%s",
			 term_counted(alive, "process", "processes"));
	count_rate(p, steps, now);
	if (p->rate >= 0 && alive)
		snprintf(rate, sizeof(rate), "  %.0f steps/s", p->rate);
	if (!j)
		snprintf(line, sizeof(line), "no aggregator yet: %s", term_safe(e.why, 60));
	else if (!steps)
		snprintf(line, sizeof(line), "waiting for the first steps  %.0f s left", left_s);
	else
		snprintf(line, sizeof(line), "%s  %s steps in all%s  %s flagged  %s%s  %.0f s left",
			 processes, term_count(steps), rate, term_count(flagged),
			 *open_id ? "incident " : "no incident", term_safe(open_id, 16), left_s);
	json_decref(j);
	print_line(p, line, steps, now);
}

/* The index of the id; old->count: not found. */
static size_t place_of(const struct old *old, const char *id)
{
	size_t i = 0;

	while (i < old->count && strcmp(old->ids[i], id))
		i++;
	return i;
}

static void forget(struct old *old, const char *id)
{
	size_t i = place_of(old, id);

	if (i < old->count)
		memcpy(old->ids[i], old->ids[--old->count], sizeof(old->ids[i]));
}

static bool is_open(const json_t *in)
{
	return strcmp(jsonget_text(in, "state"), "closed") != 0;
}

/* The first answer has the old incidents. One that opens again counts as new. */
static void learn_old(struct old *old, const json_t *list)
{
	const json_t *in;
	size_t i;

	if (!old->known)
		old->ids = calloc(json_array_size(list) + 1, sizeof(*old->ids));
	json_array_foreach ((json_t *)list, i, in) {
		const char *id = jsonget_text(in, "id");

		if (is_open(in))
			forget(old, id);
		else if (!old->known && old->ids && strlen(id) < sizeof(*old->ids))
			strcpy(old->ids[old->count++], id);
	}
	old->known = true;
}

/* The newest incident in the given state; open_id gets the newest one of any state. old NULL: old ones
 * count too. */
static json_t *find(const struct client *c, const char *job, const char *state, struct old *old,
		    char open_id[33], struct client_error *e)
{
	const json_t *list, *in;
	json_t *j, *found = NULL;
	int most = old && !old->known ? OLD_MAX : LISTED;
	size_t i;

	if (commands_list(c, "incidents", NULL, job, (size_t)most, &j, e))
		return NULL;
	list = json_object_get(j, "incidents");
	if (old)
		learn_old(old, list);
	open_id[0] = '\0';
	json_array_foreach ((json_t *)list, i, in) {
		if (incident_text_is_transient(in) ||
		    (old && place_of(old, jsonget_text(in, "id")) < old->count))
			continue;
		if (!*open_id)
			snprintf(open_id, 33, "%s", jsonget_text(in, "id"));
		if (strcmp(state, "open") && strcmp(jsonget_text(in, "state"), state))
			continue;
		found = json_incref((json_t *)in);
		break;
	}
	json_decref(j);
	return found;
}

static int finish(const struct options *o, const struct client *c, const struct progress *p,
		  json_t *in, double waited_s, const struct client_error *e)
{
	bool closed = in && strcmp(jsonget_text(in, "state"), "closed") == 0;

	if (p->live)
		fputs("\r\033[K", stderr);
	if (!in && *e->why)
		return commands_complain("wait-incident", e);
	if (!in) {
		fprintf(stderr, "sysom wait-incident: none%s within %s\n", commands_of_seen(c),
			term_span(waited_s));
		return EXIT_NOTHING;
	}
	fprintf(stderr, "incident %s, %s, after %s: %s\n", term_safe(jsonget_text(in, "id"), 32),
		closed ? "closed" : "still open", term_span(waited_s), incident_text_title(in));
	if (o->json)
		commands_print_json(in);
	else
		printf("%s\n", term_safe(jsonget_text(in, "id"), 32));
	json_decref(in);
	return EXIT_OK;
}

/* "@UID", or "" */
static const char *owner_of(const json_t *job)
{
	const char *key = jsonget_text(job, "job");

	return key + job_key_name_bytes(key);
}

/* If jobs of several users have the name, prints them and fails. */
static bool is_ambiguous(const struct client *c, const char *job)
{
	struct client_error e;
	const json_t *jobs, *one;
	char path[512] = "/api/v1/jobs";
	json_t *j;
	bool many;
	size_t i;

	if (!job)
		return false;
	client_add(path, sizeof(path), "job", job);
	if (client_json(c, path, &j, &e)) /* no aggregator yet */
		return false;
	jobs = json_object_get(j, "jobs");
	many = false;
	json_array_foreach ((json_t *)jobs, i, one)
		many |= strcmp(owner_of(one), owner_of(json_array_get(jobs, 0))) != 0;
	if (many)
		fputs("sysom wait-incident: several users have a job of that name; name one of",
		      stderr);
	json_array_foreach ((json_t *)jobs, i, one)
		if (many)
			fprintf(stderr, "%s %s", i ? "," : "",
				term_safe(jsonget_text(one, "job"), 127));
	if (many)
		fputc('\n', stderr);
	json_decref(j);
	return many;
}

int cmd_wait_main(const struct options *o)
{
	const char *state = o->state ? o->state : "closed";
	struct progress p = {.live = term_error_is_live(), .rate = -1};
	struct old old = {0}, *but = o->any ? NULL : &old;
	uint64_t begin = clock_monotonic_ns();
	char open_id[33] = "";
	struct client_error e;
	struct client c;
	json_t *in;
	double waited;

	if (commands_aggregator(o, &c))
		return EXIT_USAGE;
	for (;;) {
		if (is_ambiguous(&c, o->job)) {
			free(old.ids);
			return EXIT_NOTHING;
		}
		in = find(&c, o->job, state, but, open_id, &e);
		waited = (double)(clock_monotonic_ns() - begin) / 1e9;
		if (in || waited >= o->timeout_s)
			break;
		show_progress(&p, &c, o->job, o->timeout_s - waited, open_id);
		usleep(POLL_US);
	}
	/* time is up: an open incident is an answer too */
	if (!in)
		in = find(&c, o->job, "open", but, open_id, &e);
	free(old.ids);
	return finish(o, &c, &p, in, waited, &e);
}
