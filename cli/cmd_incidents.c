/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "cli/commands.h"
#include "cli/incident_text.h"
#include "cli/jsonget.h"

int cmd_incidents_list(const struct options *o)
{
	char path[600], job[384];
	const json_t *list, *in;
	struct client_error e;
	struct client c;
	json_t *j;
	size_t i, count, shown = 0;
	int n;

	if (commands_aggregator(o, &c))
		return EXIT_USAGE;
	n = snprintf(path, sizeof(path), "/api/v1/incidents?limit=%u", o->limit);
	if (o->state)
		n += snprintf(path + n, sizeof(path) - (size_t)n, "&state=%s", o->state);
	if (o->job) {
		client_escape(job, sizeof(job), o->job);
		snprintf(path + n, sizeof(path) - (size_t)n, "&job=%s", job);
	}
	if (client_json(&c, "GET", path, &j, &e)) {
		commands_complain("incidents", &e);
		return EXIT_NOTHING;
	}
	list = json_object_get(j, "incidents");
	count = json_array_size(list);
	if (o->json) {
		commands_print_json(j);
	} else {
		json_array_foreach((json_t *)list, i, in) {
			if (!o->all && incident_text_is_hiccup(in))
				continue;
			if (!shown++)
				incident_text_head(stdout);
			incident_text_row(stdout, in);
		}
		if (!shown)
			puts("no incidents");
		if (shown < count)
			printf("%zu hiccup%s of a few single steps not shown (--all)\n", count - shown,
			       count - shown == 1 ? "" : "s");
		count = shown;
	}
	json_decref(j);
	return count ? EXIT_OK : EXIT_NOTHING;
}

int cmd_incidents_show(const struct options *o)
{
	struct client c;
	json_t *j;

	if (commands_aggregator(o, &c))
		return EXIT_USAGE;
	j = commands_incident(o, &c, o->argv[0]);
	if (!j)
		return EXIT_NOTHING;
	if (o->json)
		commands_print_json(j);
	else
		incident_text_print(stdout, j);
	json_decref(j);
	return EXIT_OK;
}
