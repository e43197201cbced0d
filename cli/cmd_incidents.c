/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/text/jsonget.h"
#include "cli/commands.h"
#include "cli/profile/incident_stacks.h"
#include "cli/report/incident_load.h"
#include "render/incident_text.h"
#include "cli/report/show_plots.h"

int cmd_incidents_list(const struct options *o)
{
	const json_t *list, *in;
	struct client_error e;
	struct client c;
	json_t *j;
	size_t i, count, shown = 0;

	if (commands_aggregator(o, &c))
		return EXIT_USAGE;
	if (commands_list(&c, "incidents", o->state, o->job, o->limit, &j, &e))
		return commands_complain("incidents", &e);
	list = json_object_get(j, "incidents");
	count = json_array_size(list);
	if (o->json) {
		commands_print_json(j);
	} else {
		json_array_foreach ((json_t *)list, i, in) {
			if (!o->all && incident_text_is_transient(in))
				continue;
			if (!shown++)
				incident_text_head(stdout);
			incident_text_row(stdout, in);
		}
		if (!shown)
			printf("no incidents%s\n", commands_of_seen(&c));
		if (shown < count)
			printf("%zu transient%s of a few slow steps not shown (--all)\n",
			       count - shown, count - shown == 1 ? "" : "s");
		count = shown;
	}
	json_decref(j);
	return count ? EXIT_OK : EXIT_NOTHING;
}

/* If all windows have more bytes than this, only the culprit's are downloaded. */
#define SHOW_BYTES_MAX (96e6)

static int rank_to_load(const json_t *in)
{
	const json_t *ranks = json_object_get(in, "ranks"),
		     *windows = json_object_get(in, "windows"), *w;
	double bytes = 0;
	size_t i;

	json_array_foreach ((json_t *)windows, i, w)
		bytes += jsonget_number(w, "bytes");
	if (bytes <= SHOW_BYTES_MAX || json_array_size(ranks) != 1)
		return -1;
	return (int)json_integer_value(json_array_get(ranks, 0));
}

/* Plots and the culprit's stacks as texts, owned by the caller; NULL: the windows have none. */
struct shown {
	char *plots, *stacks;
};

static char *shown_plots(const json_t *in, const struct trace_model *m)
{
	char *text = NULL;
	size_t bytes;
	FILE *to = open_memstream(&text, &bytes);

	if (!to)
		return NULL;
	show_plots_print(to, in, m, incident_text_columns());
	fclose(to);
	return text;
}

/* Also adds the stacks to the incident's JSON. */
static char *shown_stacks(const struct options *o, json_t *in, const struct trace_model *m)
{
	struct profile_names *names = NULL;
	const struct trace_rank *r = incident_stacks_rank(in, m, -1);
	struct profile_summary s;
	char *text = NULL;
	size_t bytes;
	FILE *to;

	if (r && !incident_stacks_names(r, &names) &&
	    !profile_summary_make(&s, &r->stacks, names, r->who.pid)) {
		if (o->json)
			json_object_set_new(in, "stacks", incident_stacks_json(r, &s));
		to = open_memstream(&text, &bytes);
		if (to) {
			incident_stacks_print(to, r, &s);
			fclose(to);
		}
	}
	profile_names_close(names);
	return text;
}

static struct shown look(const struct options *o, const struct client *c, json_t *in)
{
	struct shown out = {NULL, NULL};
	struct trace_model m;

	if (trace_model_init(&m))
		return out;
	m.only_collectives = true;
	if (incident_load_windows(c, in, rank_to_load(in), &m) > 0) {
		out.stacks = shown_stacks(o, in, &m);
		out.plots = o->json ? NULL : shown_plots(in, &m);
	}
	trace_model_fini(&m);
	return out;
}

int cmd_incidents_show(const struct options *o)
{
	struct shown shown;
	struct client c;
	json_t *j;
	int r;

	if (commands_aggregator(o, &c))
		return EXIT_USAGE;
	if (strcmp(o->argv[0], "last") && !commands_is_id(o->argv[0]))
		return commands_show_job(o, &c, o->argv[0]);
	r = commands_incident(o, &c, o->argv[0], &j);
	if (r)
		return r;
	commands_add_requests(&c, j);
	shown = look(o, &c, j);
	if (o->json)
		commands_print_json(j);
	else
		incident_text_print(stdout, j, shown.plots, shown.stacks);
	free(shown.plots);
	free(shown.stacks);
	json_decref(j);
	return EXIT_OK;
}
