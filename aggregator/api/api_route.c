/* SPDX-License-Identifier: Apache-2.0
 * Answers come from the store, through its own reader, and from the fleet's memory. So a request
 * never waits for the committer, nor the committer for a request. */
#include "aggregator/api/api_route.h"

#include <errno.h>
#include <jansson.h>
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/metrics/prometheus.h"
#include "base/text/json_text.h"
#include "base/limits.h"
#include "base/text/text.h"
#include "base/text/utf8.h"
#include "base/version.h"
#include "render/report_page.h"

#define LIMIT_DEFAULT 100

/* ---- answers ---- */

static void answer_json(struct http_answer *a, json_t *j)
{
	if (!json_text_put(&a->body, j))
		a->status = MHD_HTTP_INTERNAL_SERVER_ERROR;
}

static void get_metrics(const struct api_sources *api, const struct http_query *q, const char *name,
			struct http_answer *a)
{
	struct metrics page = prometheus_metrics(&a->body);

	a->type = PROMETHEUS_TYPE;
	api_metrics(api, &page);
}

static void get_status(const struct api_sources *api, const struct http_query *q, const char *name,
		       struct http_answer *a)
{
	struct otlp_export_stats o;
	struct fleet_totals f;
	struct commit_stats c;
	json_t *j;

	fleet_totals(api->fleet, clock_monotonic_ns(), &f);
	commit_stats(api->commit, &c);
	otlp_export_stats(api->otlp, &o);
	j = json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:I, s:I, s:I, s:I, s:b, s:I, s:I, "
		      "s:{s:o, s:I, s:I, s:I, s:I}}",
		      "version", SYSOM_VERSION, "jobs", (int)f.jobs_alive, "hanging_jobs",
		      (int)f.jobs_hanging, "ranks", (int)f.ranks_alive, "other_processes",
		      (int)f.others_alive, "nodes", (int)f.nodes_alive, "windows",
		      (json_int_t)c.store.windows, "incidents", (json_int_t)c.store.incidents,
		      "open_incidents", (json_int_t)c.store.open_incidents, "store_bytes",
		      (json_int_t)c.store.bytes, "disk_full", c.disk_full, "quota_windows",
		      (json_int_t)c.quota_windows, "quota_incidents", (json_int_t)c.quota_incidents,
		      "otlp", "fault", json_text(o.fault), "sent", (json_int_t)o.sent, "failed",
		      (json_int_t)o.failed, "dropped", (json_int_t)o.dropped, "rejected",
		      (json_int_t)o.rejected);
	json_object_set_new(j, "all_jobs", json_boolean(api->user->all));
	if (api->user->all) {
		json_object_set_new(j, "largest_job", json_text(c.largest_job));
		json_object_set_new(j, "largest_job_bytes",
				    json_integer((json_int_t)c.largest_bytes));
	}
	answer_json(a, j);
}

static bool is_text(const char *v)
{
	return strlen(v) < WIRE_TEXT_BYTES && utf8_is_valid(v);
}

static void answer_known(struct http_answer *a, json_t *j, const char *unknown)
{
	if (j)
		answer_json(a, j);
	else
		http_answer_error(a, MHD_HTTP_NOT_FOUND, unknown);
}

/* Finds a job's key. False: an error was answered, because several users have a job of that name, or
 * because the job is another user's. */
static bool resolve(const struct api_sources *api, const char *asked, char key[WIRE_TEXT_BYTES],
		    struct http_answer *a)
{
	char mine[WIRE_TEXT_BYTES];

	if (!http_user_job(api->user, asked, mine, sizeof(mine))) {
		http_answer_error(a, MHD_HTTP_NOT_FOUND, "no such job");
		return false;
	}
	if (fleet_resolve_job(api->fleet, mine, key) <= 1)
		return true;
	http_answer_error(
	    a, MHD_HTTP_CONFLICT,
	    "several users have a job of that name; use NAME@UID (/api/v1/jobs lists them)");
	return false;
}

/* Answers a request about one job. */
static void get_of_job(const struct api_sources *api, const struct http_query *q, const char *name,
		       struct http_answer *a)
{
	const char *what = q->path + strlen("/api/v1/");
	static const char unknown[] = "no such job";
	const char *job = http_query_get(q, "job"), *role = http_query_get(q, "role");
	char key[WIRE_TEXT_BYTES];

	if (!job || !is_text(job) || (role && !is_text(role)))
		http_answer_error(a, MHD_HTTP_BAD_REQUEST, "\"job\" must be a job name");
	else if (!resolve(api, job, key, a))
		return;
	else if (!strcmp(what, "roles"))
		answer_known(a, fleet_roles_json(api->fleet, key, clock_realtime_ns()), unknown);
	else if (!strcmp(what, "waterline"))
		answer_known(a, fleet_waterline_json(api->fleet, key, role, clock_monotonic_ns()),
			     unknown);
	else if (!strcmp(what, "kinds"))
		answer_known(a, fleet_kinds_json(api->fleet, key), unknown);
	else
		answer_json(a, fleet_baselines_json(api->fleet, key, clock_monotonic_ns()));
}

static void get_baseline(const struct api_sources *api, const struct http_query *q, const char *run,
			 struct http_answer *a)
{
	const char *job = http_query_get(q, "job"), *role = http_query_get(q, "role");
	char key[WIRE_TEXT_BYTES];
	uint8_t id[8];
	json_t *j = NULL;

	if (!job || !is_text(job) || !role || !is_text(role)) {
		http_answer_error(a, MHD_HTTP_BAD_REQUEST, "\"job\" and \"role\" must be names");
		return;
	}
	if (!resolve(api, job, key, a))
		return;
	if (!text_unhex(run, id, sizeof(id)))
		j = fleet_baseline_json(api->fleet, key, role, strtoull(run, NULL, 16));
	answer_known(a, j, "no such baseline");
}

static void get_sketch(const struct api_sources *api, const struct http_query *q, const char *name,
		       struct http_answer *a)
{
	const char *job = http_query_get(q, "job");
	char key[WIRE_TEXT_BYTES];
	uint64_t rank = UINT64_MAX;

	if (!job || !is_text(job) || !http_query_number(q, "rank", INT32_MAX, &rank) ||
	    rank > INT32_MAX)
		http_answer_error(a, MHD_HTTP_BAD_REQUEST,
				  "\"job\" must be a job name, and \"rank\" a number");
	else if (resolve(api, job, key, a))
		answer_known(a, fleet_sketch_json(api->fleet, key, (int32_t)rank),
			     "no such rank, or it has sent no sketch");
}

/* Reads the page's limit; false: an error was answered. */
static bool take_limit(const struct http_query *q, struct http_answer *a, uint64_t initial,
		       uint32_t *limit)
{
	uint64_t n = initial;

	if (!http_query_number(q, "limit", LIMIT_API_INCIDENTS, &n) || !n) {
		http_answer_error(a, MHD_HTTP_BAD_REQUEST, "\"limit\" must be 1 to 1000");
		return false;
	}
	*limit = (uint32_t)n;
	return true;
}

/* One request, as its nodes' pieces make it. */
static void get_request(const struct api_sources *api, const char *id, const char *job,
			struct http_answer *a)
{
	uint8_t digits[8];

	if (strlen(id) != 2 * sizeof(digits) || text_unhex(id, digits, sizeof(digits)))
		http_answer_error(a, MHD_HTTP_BAD_REQUEST, "\"id\" must be 16 hex digits");
	else
		answer_json(a,
			    fleet_request_json(api->fleet, api->user, job, strtoull(id, NULL, 16)));
}

/* All jobs, or one with its violations; or one request. */
static void get_requests(const struct api_sources *api, const struct http_query *q,
			 const char *name, struct http_answer *a)
{
	struct fleet_page page = {
	    .who = api->user, .job = http_query_get(q, "job"), .after = http_query_get(q, "after")};
	char key[WIRE_TEXT_BYTES];

	if (page.job && !is_text(page.job))
		http_answer_error(a, MHD_HTTP_BAD_REQUEST, "\"job\" must be a job name");
	else if (take_limit(q, a, LIMIT_API_RANKS, &page.limit) &&
		 (!page.job || resolve(api, page.job, key, a))) {
		page.job = page.job ? key : NULL;
		if (http_query_get(q, "id"))
			get_request(api, http_query_get(q, "id"), page.job, a);
		else
			answer_json(a,
				    fleet_requests_json(api->fleet, &page, clock_monotonic_ns()));
	}
}

typedef int page_fn(struct fleet *f, const struct fleet_page *q, uint64_t now_ns, struct buf *out);

static void get_fleet(const struct api_sources *api, const struct http_query *q, page_fn *fn,
		      struct http_answer *a)
{
	struct fleet_page page = {
	    .who = api->user, .job = http_query_get(q, "job"), .after = http_query_get(q, "after")};
	char key[WIRE_TEXT_BYTES];
	int err;

	if (page.job && !is_text(page.job)) {
		http_answer_error(a, MHD_HTTP_BAD_REQUEST, "\"job\" must be a job name");
		return;
	}
	if (!take_limit(q, a, LIMIT_API_RANKS, &page.limit))
		return;
	if (page.job && http_user_job(api->user, page.job, key, sizeof(key)))
		page.job = key;
	err = fn(api->fleet, &page, clock_monotonic_ns(), &a->body);
	if (err == -EINVAL)
		http_answer_error(a, MHD_HTTP_BAD_REQUEST,
				  "\"after\" must be the \"next\" of the page before");
	else if (err)
		a->status = MHD_HTTP_INTERNAL_SERVER_ERROR;
}

static void get_ranks(const struct api_sources *api, const struct http_query *q, const char *name,
		      struct http_answer *a)
{
	get_fleet(api, q, fleet_ranks_page, a);
}

static void get_jobs(const struct api_sources *api, const struct http_query *q, const char *name,
		     struct http_answer *a)
{
	get_fleet(api, q, fleet_jobs_page, a);
}

static void get_nodes(const struct api_sources *api, const struct http_query *q, const char *name,
		      struct http_answer *a)
{
	if (api->user->all)
		get_fleet(api, q, fleet_nodes_page, a);
	else
		http_answer_error(a, MHD_HTTP_FORBIDDEN,
				  "the nodes are shown to those who see the jobs of all users");
}

static void get_incidents(const struct api_sources *api, const struct http_query *q,
			  const char *name, struct http_answer *a)
{
	struct store_list list = {
	    .who = api->user, .job = http_query_get(q, "job"), .state = http_query_get(q, "state")};
	const char *after = http_query_get(q, "after");
	char key[WIRE_TEXT_BYTES];

	if (list.job && !is_text(list.job))
		http_answer_error(a, MHD_HTTP_BAD_REQUEST, "\"job\" must be a job name");
	else if (list.state && strcmp(list.state, "open") && strcmp(list.state, "closed"))
		http_answer_error(a, MHD_HTTP_BAD_REQUEST, "\"state\" must be open or closed");
	else if (after && store_list_after(&list, after))
		http_answer_error(a, MHD_HTTP_BAD_REQUEST,
				  "\"after\" must be the \"next\" of the page before");
	if (a->status != MHD_HTTP_OK || !take_limit(q, a, LIMIT_DEFAULT, &list.limit))
		return;
	if (list.job && http_user_job(api->user, list.job, key, sizeof(key)))
		list.job = key;
	if (store_list(api->store, &list, &a->body))
		a->status = MHD_HTTP_INTERNAL_SERVER_ERROR;
}

/* One JSON object per line, so that a client can read line by line and continue after the last
 * line's time. */
static void get_feed(const struct api_sources *api, const struct http_query *q, const char *name,
		     struct http_answer *a)
{
	uint64_t since = 0;
	uint32_t limit;

	if (!http_query_number(q, "since", UINT64_MAX, &since)) {
		http_answer_error(a, MHD_HTTP_BAD_REQUEST,
				  "\"since\" must be the updated_unix_ns of the last line read");
		return;
	}
	if (!take_limit(q, a, LIMIT_DEFAULT, &limit))
		return;
	a->type = "application/x-ndjson";
	if (store_feed(api->store, api->user, since, limit, &a->body))
		a->status = MHD_HTTP_INTERNAL_SERVER_ERROR;
}

/* NULL: answered, as there is none. */
static json_t *find_incident(const struct api_sources *api, const char *id, struct http_answer *a)
{
	char whole[INCIDENT_ID_BYTES];
	int err = store_incident_id(api->store, api->user, id, whole);
	json_t *j = err ? NULL : store_incident_json(api->store, whole);

	if (j)
		return j;
	if (err == -ENOTUNIQ)
		http_answer_error(a, MHD_HTTP_CONFLICT,
				  "several incidents' ids begin with these digits; give more");
	else
		http_answer_error(a, MHD_HTTP_NOT_FOUND, "no such incident");
	return NULL;
}

static void get_incident(const struct api_sources *api, const struct http_query *q, const char *id,
			 struct http_answer *a)
{
	json_t *j = find_incident(api, id, a);

	if (j)
		answer_json(a, j);
}

/* For people. */
static void answer_page(struct http_answer *a, void (*write)(FILE *to, const json_t *j), json_t *j)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *to = open_memstream(&text, &bytes);

	if (to)
		write(to, j);
	if (to && !fclose(to))
		buf_append(&a->body, text, bytes);
	else
		a->status = MHD_HTTP_INTERNAL_SERVER_ERROR;
	a->type = "text/html; charset=utf-8";
	free(text);
	json_decref(j);
}

static void get_list_page(const struct api_sources *api, const struct http_query *q,
			  const char *name, struct http_answer *a)
{
	static const char *const kept[] = {"job", "state", "limit"};
	json_t *j, *query;

	get_incidents(api, q, name, a);
	if (a->status != MHD_HTTP_OK)
		return;
	j = json_loadb((const char *)a->body.data, a->body.bytes, 0, NULL);
	buf_clear(&a->body);
	query = json_object();
	for (size_t i = 0; i < ARRAY_LEN(kept); i++)
		if (http_query_get(q, kept[i]))
			json_object_set_new(query, kept[i],
					    json_string(http_query_get(q, kept[i])));
	json_object_set_new(j, "query", query);
	answer_page(a, report_page_list, j);
}

/* What alerts link to. */
static void get_page(const struct api_sources *api, const struct http_query *q, const char *id,
		     struct http_answer *a)
{
	json_t *j = find_incident(api, id, a);

	if (j)
		answer_page(a, report_page_write, j);
}

static void get_window(const struct api_sources *api, const struct http_query *q, const char *text,
		       struct http_answer *a)
{
	uint8_t id[16];
	int err = text_unhex(text, id, sizeof(id))
		      ? -ENOENT
		      : store_window_body(api->store, api->user, id, &a->body);

	if (!err)
		a->type = "application/octet-stream";
	else if (err == -ENOENT)
		http_answer_error(a, MHD_HTTP_NOT_FOUND, "no such window");
	else if (err == -ESTALE)
		http_answer_error(a, MHD_HTTP_GONE, "expired");
	else
		http_answer_error(a, MHD_HTTP_INTERNAL_SERVER_ERROR, "store failed");
}

/* ---- paths ---- */

static void get_symbols(const struct api_sources *api, const struct http_query *q, const char *name,
			struct http_answer *a)
{
	a->status = api_symbols_get(api->symbols, q->path, &a->body);
	if (!a->status)
		http_answer_error(a, MHD_HTTP_NOT_FOUND, "no such path");
}

/* What each path answers. A path that ends in '/' has a name behind it. */
static const struct {
	const char *path;
	void (*get)(const struct api_sources *api, const struct http_query *q, const char *name,
		    struct http_answer *a);
} routes[] = {
    {"/metrics", get_metrics},
    {"/api/v1/status", get_status},
    {"/api/v1/ranks", get_ranks},
    {"/api/v1/jobs", get_jobs},
    {"/api/v1/nodes", get_nodes},
    {"/api/v1/requests", get_requests},
    {"/api/v1/kinds", get_of_job},
    {"/api/v1/roles", get_of_job},
    {"/api/v1/waterline", get_of_job},
    {"/api/v1/baselines", get_of_job},
    {"/api/v1/baselines/", get_baseline},
    {"/api/v1/sketch", get_sketch},
    {"/api/v1/feed", get_feed},
    {"/api/feed", get_feed},
    {"/api/v1/incidents", get_incidents},
    {"/api/v1/incidents/", get_incident},
    {"/incidents", get_list_page},
    {"/incidents/", get_page},
    {"/api/v1/windows/", get_window},
    {"/api/v1/symbols/", get_symbols},
};

void api_route(const struct api_sources *api, const struct http_query *q, struct http_answer *a)
{
	if (q->cut) {
		http_answer_error(a, MHD_HTTP_BAD_REQUEST, "too many arguments, or too long");
		return;
	}
	for (size_t i = 0; i < ARRAY_LEN(routes); i++) {
		size_t n = strlen(routes[i].path);
		bool prefix = routes[i].path[n - 1] == '/';

		if (prefix ? !strncmp(q->path, routes[i].path, n)
			   : !strcmp(q->path, routes[i].path)) {
			routes[i].get(api, q, q->path + n, a);
			return;
		}
	}
	http_answer_error(a, MHD_HTTP_NOT_FOUND, "no such path");
}
