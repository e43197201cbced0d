/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/commands.h"

#include <stdlib.h>
#include <string.h>

#include "base/text/jsonget.h"
#include "base/order.h"
#include "cli/client/access.h"
#include "cli/paths.h"
#include "render/incident_text.h"
#include "render/term.h"

#define NEWEST_MAX 1000			   /* the most that the aggregator lists at once */
#define NODE_URL   "http://127.0.0.1:9470" /* sysomd's http.listen by default */

int commands_aggregator(const struct options *o, struct client *c)
{
	char why[1024] = "";

	if (!access_client(c, o->url, why, sizeof(why)))
		return 0;
	if (*why)
		fprintf(stderr, "sysom: %s\n", why);
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

json_t *commands_node_get(const struct options *o, const struct client *control, const char *path,
			  struct client_error *e)
{
	const char *named = getenv("SYSOM_CONTROL_PATH");
	struct client_error again;
	struct client tcp;
	json_t *n;

	if (!client_json(control, path, &n, e) || !e->denied || o->control || (named && *named) ||
	    client_init_url(&tcp, NODE_URL))
		return n;
	client_json(&tcp, path, &n, &again);
	return n;
}

json_t *commands_node_status(const struct options *o, const struct client *control,
			     struct client_error *e)
{
	return commands_node_get(o, control, "/api/v1/status", e);
}

int commands_complain(const char *what, const struct client_error *e)
{
	fprintf(stderr, "sysom%s%s: %s%s%s\n", *what ? " " : "", what,
		term_safe(e->why, TERM_COLUMNS_MAX), *e->remedy ? "; " : "", e->remedy);
	return e->status / 100 == 4 && e->status != 401 && e->status != 403 ? EXIT_NOTHING
									    : EXIT_FAILED;
}

const char *commands_word(const json_t *o, const char *key)
{
	const json_t *v = json_object_get(o, key);

	if (json_is_integer(v))
		return term_count((double)json_integer_value(v));
	return term_safe(json_string_value(v), 9);
}

const char *commands_rank(const json_t *r)
{
	return term_rank_cell(jsonget_integer(r, "rank"));
}

const char *commands_ms(double ms)
{
	return ms > 0 ? term_ms(ms) : "-";
}

int commands_by_rank(const void *a, const void *b)
{
	const json_t *x = *(json_t *const *)a, *y = *(json_t *const *)b;
	/* unsigned: processes without a rank (-1) come last */
	uint64_t of_x = (uint64_t)jsonget_integer(x, "rank"),
		 of_y = (uint64_t)jsonget_integer(y, "rank");

	return strcmp(jsonget_text(x, "job"), jsonget_text(y, "job")) ?: ORDER(of_x, of_y);
}

json_t **commands_sorted_ranks(const json_t *ranks, size_t *count)
{
	json_t **sorted;

	*count = json_array_size(ranks);
	sorted = calloc(*count + 1, sizeof(*sorted));
	if (!sorted)
		return NULL;
	for (size_t i = 0; i < *count; i++)
		sorted[i] = json_array_get(ranks, i);
	qsort(sorted, *count, sizeof(*sorted), commands_by_rank);
	return sorted;
}

void commands_print_json(const json_t *j)
{
	json_dumpf(j, stdout, JSON_COMPACT | JSON_REAL_PRECISION(9));
	putchar('\n');
}

void commands_print_new(json_t *j)
{
	commands_print_json(j);
	json_decref(j);
}

int commands_list(const struct client *c, const char *what, const char *state, const char *job,
		  size_t most, json_t **out, struct client_error *e)
{
	char path[800], next[800];
	json_t *page;
	int err, n = snprintf(path, sizeof(path), "/api/v1/%s", what);

	if (!strcmp(what, "incidents"))
		snprintf(path + n, sizeof(path) - (size_t)n, "?limit=%zu", most);
	client_add(path, sizeof(path), "state", state);
	client_add(path, sizeof(path), "job", job);
	err = client_json(c, path, out, e);
	while (!err && json_array_size(json_object_get(*out, what)) < most) {
		snprintf(next, sizeof(next), "%s", path);
		client_add(next, sizeof(next), "after", jsonget_text(*out, "next"));
		if (!*next || !*jsonget_text(*out, "next"))
			break;
		err = client_json(c, next, &page, e);
		if (err) {
			json_decref(*out);
			*out = NULL;
			break;
		}
		/* an empty page is the last one: a hostile server could continue forever */
		if (!json_array_size(json_object_get(page, what)))
			json_object_del(page, "next");
		json_array_extend(json_object_get(*out, what), json_object_get(page, what));
		json_object_del(*out, "next");
		if (json_object_get(page, "next"))
			json_object_set(*out, "next", json_object_get(page, "next"));
		json_decref(page);
	}
	return err;
}

const char *commands_of_seen(const struct client *c)
{
	struct client_error e;
	json_t *status;
	bool hides;

	if (client_json(c, "/api/v1/status", &status, &e))
		return "";
	hides = json_is_false(json_object_get(status, "all_jobs"));
	json_decref(status);
	return hides ? " that you may see (other users' jobs are hidden)" : "";
}

/* Of those that `sysom incidents` lists without --all. */
static int newest(const struct options *o, const struct client *c, char id[33])
{
	struct client_error e;
	const json_t *list;
	json_t *j, *in;
	size_t i, transients = 0;

	if (commands_list(c, "incidents", NULL, o->job, NEWEST_MAX, &j, &e))
		return commands_complain("", &e);
	list = json_object_get(j, "incidents");
	json_array_foreach ((json_t *)list, i, in) {
		if (!incident_text_is_transient(in)) {
			snprintf(id, 33, "%s", jsonget_text(in, "id"));
			break;
		}
		transients++;
	}
	if (!*id && transients)
		fprintf(stderr,
			"sysom: no incidents, only %zu transient%s (sysom incidents --all)\n",
			transients, transients == 1 ? "" : "s");
	else if (!*id)
		fprintf(stderr, "sysom: no incidents%s%s%s\n", o->job ? " of job " : "",
			o->job ? term_safe(o->job, 60) : "", commands_of_seen(c));
	json_decref(j);
	return *id ? EXIT_OK : EXIT_NOTHING;
}

bool commands_html_name(const char *what, const char *path)
{
	const char *name = path ? strrchr(path, '/') : NULL, *end;

	name = name ? name + 1 : path;
	end = name && *name ? strrchr(name + 1, '.') : NULL;
	if (!end || !strcmp(end, ".html") || !strcmp(end, ".htm"))
		return true;
	fprintf(stderr, "sysom %s: %s: the output is HTML; use -o %.*s.html\n", what, path,
		(int)(end - path), path);
	return false;
}

ORDER_BY(by_value, int, ORDER(*a, *b));

const char *commands_window_ranks(const json_t *incident)
{
	const json_t *windows = json_object_get(incident, "windows"), *w;
	int *ranks = calloc(json_array_size(windows) + 1, sizeof(*ranks));
	size_t i, n = 0, kept = 0;
	const char *text;

	if (!ranks)
		return "not known";
	json_array_foreach ((json_t *)windows, i, w)
		ranks[n++] = (int)jsonget_integer(w, "rank");
	qsort(ranks, n, sizeof(*ranks), by_value);
	for (i = 0; i < n; i++)
		if (!kept || ranks[kept - 1] != ranks[i])
			ranks[kept++] = ranks[i];
	text = kept ? term_ranges(ranks, kept) : "none";
	free(ranks);
	return text;
}

bool commands_is_id(const char *text)
{
	size_t n = strspn(text, "0123456789abcdef");

	return n && n <= 32 && !text[n];
}

int commands_incident(const struct options *o, const struct client *c, const char *id, json_t **out)
{
	char path[128], last[33] = "";
	struct client_error e;

	if (strcmp(id, "last") == 0) {
		int status = newest(o, c, last);

		if (status)
			return status;
		id = last;
	}
	if (!commands_is_id(id)) {
		fprintf(
		    stderr,
		    "sysom: %s is not an incident's id; give its first digits, or last (see sysom "
		    "incidents)\n",
		    term_safe(id, 40));
		return EXIT_USAGE;
	}
	snprintf(path, sizeof(path), "/api/v1/incidents/%s", id);
	if (client_json(c, path, out, &e)) {
		if (e.status == 404) {
			snprintf(e.why, sizeof(e.why), "no incident %s", id);
			e.remedy = "see sysom incidents";
		} else if (e.status == 409) {
			snprintf(e.why, sizeof(e.why), "several incidents' ids begin with %s", id);
			e.remedy = "give more digits (see sysom incidents)";
		}
		return commands_complain("", &e);
	}
	return EXIT_OK;
}
