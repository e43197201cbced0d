/* SPDX-License-Identifier: Apache-2.0
 * The first occurrence of a kind of step was an incident, since nothing had marked it as planned. The
 * account that grew most in its ledger describes the kind. */
#include <stdio.h>

#include "base/text/jsonget.h"
#include "cli/commands.h"
#include "render/incident_ledger.h"
#include "cli/report/job_text.h"

#define INCIDENTS_MAX 200

/* The incident of the kind's first occurrence; NULL: it was deleted. */
static const json_t *incident_of(const json_t *incidents, const json_t *kind)
{
	uint64_t first = jsonget_unsigned(kind, "first_step");
	const json_t *in;
	size_t i;

	json_array_foreach ((json_t *)incidents, i, in)
		if (jsonget_has(json_object_get(in, "ranks"), jsonget_integer(kind, "of_rank")) &&
		    jsonget_unsigned(in, "first_step") <= first &&
		    first <= jsonget_unsigned(in, "last_step"))
			return in;
	return NULL;
}

static void explain(const struct client *c, const json_t *incidents, json_t *kind)
{
	const json_t *in = incident_of(incidents, kind), *ledger, *row;
	struct client_error e;
	char path[80];
	json_t *whole;

	if (!in)
		return;
	json_object_set_new(kind, "incident", json_string(jsonget_text(in, "id")));
	snprintf(path, sizeof(path), "/api/v1/incidents/%s", jsonget_text(in, "id"));
	if (!commands_is_id(jsonget_text(in, "id")) || client_json(c, path, &whole, &e))
		return;
	ledger = json_object_get(json_object_get(whole, "diagnosis"), "ledger");
	row = json_array_get(json_object_get(ledger, "rows"), 0);
	if (row)
		json_object_set_new(kind, "cause", json_string(incident_ledger_account(row, 100)));
	json_decref(whole);
}

int commands_show_job(const struct options *o, const struct client *c, const char *job)
{
	char path[600] = "/api/v1/kinds";
	struct client_error e;
	json_t *j, *list, *kind;
	size_t i;

	client_add(path, sizeof(path), "job", job);
	if (client_json(c, path, &j, &e)) {
		if (e.status == 404) {
			snprintf(e.why, sizeof(e.why), "no job and no incident has that name");
			e.remedy = "see sysom top and sysom incidents";
		}
		return commands_complain("show", &e);
	}
	if (json_array_size(json_object_get(j, "kinds")) &&
	    !commands_list(c, "incidents", NULL, jsonget_text(j, "job"), INCIDENTS_MAX, &list,
			   &e)) {
		json_array_foreach (json_object_get(j, "kinds"), i, kind)
			explain(c, json_object_get(list, "incidents"), kind);
		json_decref(list);
	}
	if (o->json)
		commands_print_json(j);
	else
		job_text_print(stdout, j);
	json_decref(j);
	return EXIT_OK;
}
