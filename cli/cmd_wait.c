/* SPDX-License-Identifier: Apache-2.0
 * Waits for an incident of a job, for scripts (the demo, acceptance tests) and for people who want
 * to watch. Progress goes to standard error: one line rewritten on a terminal, else a line in 5 s. */
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/commands.h"
#include "cli/incident_text.h"
#include "cli/jsonget.h"
#include "cli/term.h"

#define POLL_US 500000

struct progress {
	double steps;
	uint64_t at_ns, printed_ns;
	bool live;
};

static void show_progress(struct progress *p, const struct client *c, const char *job,
			  double left_s, const char *open_id)
{
	double steps = 0, flagged = 0, alive = 0, rate;
	uint64_t now = clock_monotonic_ns();
	char path[512];
	struct client_error e;
	json_t *j, *r;
	size_t i;

	snprintf(path, sizeof(path), "/api/v1/ranks%s%s", *job ? "?job=" : "", job);
	client_json(c, "GET", path, &j, &e);
	json_array_foreach(json_object_get(j, "ranks"), i, r) {
		steps += jsonget_number(r, "steps");
		flagged += jsonget_number(r, "flagged");
		alive += !json_is_false(json_object_get(r, "alive"));
	}
	rate = p->at_ns && steps >= p->steps ? (steps - p->steps) / ((double)(now - p->at_ns) / 1e9) : 0;
	if (!j)
		snprintf(path, sizeof(path), "no aggregator yet: %s", term_safe(e.why, 60));
	else
		snprintf(path, sizeof(path),
			 "%.0f ranks  %s steps  %.0f steps/s  %s flagged  %s%s  %.0f s left", alive,
			 term_count(steps), rate, term_count(flagged),
			 *open_id ? "incident " : "no incident", term_safe(open_id, 16), left_s);
	json_decref(j);
	if (p->live)
		fprintf(stderr, "\r\033[K%s", path);
	else if (now - p->printed_ns >= 5000000000u)
		fprintf(stderr, "%s\n", path);
	else
		return;
	p->printed_ns = now;
	/* the rate is over a second at least: sysomd's beats do not come more often */
	if (now - p->at_ns >= 3000000000u || !p->at_ns) {
		p->steps = steps;
		p->at_ns = now;
	}
}

/* The newest incident in the wanted state; open_id gets the newest one of any state. */
static json_t *find(const struct client *c, const char *job, const char *state, char open_id[33])
{
	const json_t *list, *in;
	json_t *j, *found = NULL;
	struct client_error e;
	char path[512];
	size_t i;

	snprintf(path, sizeof(path), "/api/v1/incidents?limit=50%s%s", *job ? "&job=" : "", job);
	if (client_json(c, "GET", path, &j, &e))
		return NULL;
	list = json_object_get(j, "incidents");
	open_id[0] = '\0';
	json_array_foreach((json_t *)list, i, in) {
		if (incident_text_is_hiccup(in))
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

static int finish(const struct options *o, const struct progress *p, json_t *in, double waited_s)
{
	bool closed = in && strcmp(jsonget_text(in, "state"), "closed") == 0;

	if (p->live)
		fputs("\r\033[K", stderr);
	if (!in) {
		fprintf(stderr, "sysom wait-incident: none within %s\n", term_span(waited_s));
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

int cmd_wait_main(const struct options *o)
{
	const char *state = o->state ? o->state : "closed";
	struct progress p = { .live = isatty(STDERR_FILENO) };
	uint64_t begin = clock_monotonic_ns();
	char open_id[33] = "", job[384] = "";
	struct client c;
	json_t *in;
	double waited;

	if (commands_aggregator(o, &c))
		return EXIT_USAGE;
	if (o->job)
		client_escape(job, sizeof(job), o->job);
	for (;;) {
		in = find(&c, job, state, open_id);
		waited = (double)(clock_monotonic_ns() - begin) / 1e9;
		if (in || waited >= o->timeout_s)
			break;
		show_progress(&p, &c, job, o->timeout_s - waited, open_id);
		usleep(POLL_US);
	}
	/* time is up: one that is still open is an answer too */
	if (!in)
		in = find(&c, job, "open", open_id);
	return finish(o, &p, in, waited);
}
