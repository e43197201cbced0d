/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/commands.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "cli/jsonget.h"
#include "cli/paths.h"
#include "cli/term.h"

#define NODE_URL "http://127.0.0.1:9470" /* sysomd's http.listen by default */

int commands_aggregator(const struct options *o, struct client *c)
{
	if (!client_init_url(c, o->url))
		return 0;
	fprintf(stderr, "sysom: --url %s: http://HOST:PORT or https://HOST:PORT is wanted\n", o->url);
	return EXIT_USAGE;
}

int commands_control(const struct options *o, struct client *c)
{
	char path[PATHS_BYTES];

	if (!o->control)
		paths_socket(path, "SYSOM_CONTROL_PATH", "control.sock");
	if (!client_init_socket(c, o->control ? o->control : path))
		return 0;
	fprintf(stderr, "sysom: --control: the path is too long for a socket\n");
	return EXIT_USAGE;
}

json_t *commands_node_status(const struct options *o, const struct client *control,
			     struct client_error *e)
{
	const char *named = getenv("SYSOM_CONTROL_PATH");
	struct client_error again;
	struct client tcp;
	json_t *n;

	if (!client_json(control, "GET", "/api/v1/status", &n, e) || !e->denied || o->control ||
	    (named && *named) || client_init_url(&tcp, NODE_URL))
		return n;
	client_json(&tcp, "GET", "/api/v1/status", &n, &again);
	return n;
}

void commands_complain(const char *what, const struct client_error *e)
{
	fprintf(stderr, "sysom%s%s: %s%s%s\n", *what ? " " : "", what,
		term_safe(e->why, TERM_COLUMNS_MAX), *e->remedy ? "; " : "", e->remedy);
}

void commands_print_json(const json_t *j)
{
	json_dumpf(j, stdout, JSON_COMPACT | JSON_REAL_PRECISION(9));
	putchar('\n');
}

static json_t *newest(const struct options *o, const struct client *c, char id[33])
{
	char path[512] = "/api/v1/incidents?limit=1", job[384];
	struct client_error e;
	const char *found;
	json_t *j;

	if (o->job) {
		client_escape(job, sizeof(job), o->job);
		snprintf(path, sizeof(path), "/api/v1/incidents?limit=1&job=%s", job);
	}
	if (client_json(c, "GET", path, &j, &e)) {
		commands_complain("", &e);
		return NULL;
	}
	found = jsonget_text(json_array_get(json_object_get(j, "incidents"), 0), "id");
	snprintf(id, 33, "%s", found);
	if (!*found)
		fprintf(stderr, "sysom: no incidents\n");
	return j;
}

json_t *commands_incident(const struct options *o, const struct client *c, const char *id)
{
	char path[128], last[33] = "";
	struct client_error e;
	json_t *j;
	size_t n;

	if (strcmp(id, "last") == 0) {
		json_decref(newest(o, c, last));
		if (!*last)
			return NULL;
		id = last;
	}
	for (n = 0; isxdigit((unsigned char)id[n]);)
		n++;
	if (!n || n > 32 || id[n]) {
		fprintf(stderr, "sysom: %s is not an incident's id (see sysom incidents)\n",
			term_safe(id, 40));
		return NULL;
	}
	snprintf(path, sizeof(path), "/api/v1/incidents/%s", id);
	if (client_json(c, "GET", path, &j, &e)) {
		if (e.status == 404)
			snprintf(e.why, sizeof(e.why), "no incident %s", id);
		commands_complain("", &e);
		return NULL;
	}
	return j;
}
