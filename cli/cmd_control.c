/* SPDX-License-Identifier: Apache-2.0 */

#include "base/text/jsonget.h"
#include "cli/commands.h"
#include "render/term.h"

static int post(const struct options *o, const char *what, const char *path, json_t **out)
{
	struct client_error e;
	struct client c;

	if (commands_control(o, &c))
		return EXIT_USAGE;
	if (client_post(&c, path, NULL, out, &e)) {
		if (e.status == 404)
			snprintf(e.why, sizeof(e.why), "%s",
				 o->rank >= 0 || o->job
				     ? "no such rank or job on this node (sysom status)"
				     : "no processes attached (sysom run -- COMMAND)");
		return commands_complain(what, &e);
	}
	return 0;
}

/* The processes that changed: "2 ranks and 1 other process". */
static const char *changed_text(const json_t *answer)
{
	double others = 0;
	const json_t *rank;
	size_t i;

	json_array_foreach (json_object_get(answer, "ranks"), i, rank)
		others += json_integer_value(rank) < 0;
	return term_ranks(jsonget_number(answer, "changed") - others, others);
}

/* "tracing on: 2 ranks changed, 5 were on already, 1 can't: ..." */
static void print_trace_state(const struct options *o, const char *state, const json_t *answer)
{
	double already = jsonget_number(answer, "already");
	double cannot =
	    jsonget_number(answer, "asked") - jsonget_number(answer, "changed") - already;

	if (o->channels >= 0)
		printf("channels of NCCL's kernels for %g s: %s", o->channels,
		       changed_text(answer));
	else
		printf("tracing %s: %s changed", state, changed_text(answer));
	if (already > 0)
		printf(", %s %s %s already", term_count(already), already == 1 ? "was" : "were",
		       state);
	if (cannot > 0)
		printf(", %s cannot: tracing failed there and stays off (latched in sysom status)",
		       term_count(cannot));
	putchar('\n');
}

static int trace_state(const struct options *o, const char *state)
{
	char path[600];
	int n, r;
	double changed, already;
	json_t *j;

	n = snprintf(path, sizeof(path), "/api/v1/trace?state=%s", state);
	if (o->channels >= 0)
		n += snprintf(path + n, sizeof(path) - (size_t)n, "&channels=%g", o->channels);
	if (o->rank >= 0)
		snprintf(path + n, sizeof(path) - (size_t)n, "&rank=%d", o->rank);
	client_add(path, sizeof(path), "job", o->job);
	r = post(o, state, path, &j);
	if (r)
		return r;
	changed = jsonget_number(j, "changed");
	already = jsonget_number(j, "already");
	if (o->json)
		commands_print_json(j);
	else
		print_trace_state(o, state, j);
	json_decref(j);
	return changed + already > 0 ? EXIT_OK : EXIT_NOTHING;
}

int cmd_control_off(const struct options *o)
{
	return trace_state(o, "off");
}

int cmd_control_on(const struct options *o)
{
	return trace_state(o, "on");
}

static void print_captured(const struct options *o, const json_t *j)
{
	const json_t *id;
	size_t i;

	printf("rank %d: sending what the recorder holds to the aggregator\n", o->rank);
	json_array_foreach (json_object_get(j, "ids"), i, id)
		printf("look at it: sysom trace %s -o rank%d.pftrace, and open that in "
		       "ui.perfetto.dev\n",
		       term_safe(json_string_value(id), 32), o->rank);
}

int cmd_control_capture(const struct options *o)
{
	char path[600];
	json_t *j;
	int n, r;

	if (o->rank < 0) {
		fprintf(stderr, "sysom capture: --rank is missing; give the rank to capture\n");
		return EXIT_USAGE;
	}
	n = snprintf(path, sizeof(path), "/api/v1/capture?rank=%d", o->rank);
	if (o->seconds > 0)
		snprintf(path + n, sizeof(path) - (size_t)n, "&seconds=%.0f", o->seconds);
	client_add(path, sizeof(path), "job", o->job);
	r = post(o, "capture", path, &j);
	if (r)
		return r;
	if (o->json)
		commands_print_json(j);
	else
		print_captured(o, j);
	json_decref(j);
	return EXIT_OK;
}
