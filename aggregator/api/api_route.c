/* SPDX-License-Identifier: Apache-2.0
 * Answers are made from the store through a reader of its own and from the fleet's memory, so that no
 * request ever waits for the committer, nor the committer for a request. */
#include "aggregator/api/api_route.h"

#include <errno.h>
#include <jansson.h>
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json_text.h"
#include "base/limits.h"
#include "base/text.h"
#include "base/utf8.h"
#include "base/version.h"

#define LIMIT_DEFAULT 100

/* ---- answers ---- */

void api_answer_init(struct api_answer *a)
{
	*a = (struct api_answer){
	    .status = MHD_HTTP_OK, .type = "application/json", .allow = "GET, HEAD"};
	buf_init(&a->body, 2 * (size_t)LIMIT_WIRE_UNPACKED_BYTES);
}

static void answer_json(struct api_answer *a, json_t *j)
{
	if (!json_text_put(&a->body, j))
		a->status = MHD_HTTP_INTERNAL_SERVER_ERROR;
}

void api_answer_error(struct api_answer *a, unsigned status, const char *why)
{
	a->status = status;
	answer_json(a, json_pack("{s:s}", "error", why));
}

static void get_status(const struct api_sources *api, struct api_answer *a)
{
	struct fleet_totals f;
	struct commit_stats c;

	fleet_totals(api->fleet, clock_monotonic_ns(), &f);
	commit_stats(api->commit, &c);
	answer_json(a, json_pack("{s:s, s:i, s:i, s:i, s:i, s:I, s:I, s:I, s:I, s:b}", "version",
				 SYSOM_VERSION, "jobs", (int)f.jobs_alive, "hanging_jobs",
				 (int)f.jobs_hanging, "ranks", (int)f.ranks_alive, "nodes",
				 (int)f.nodes_alive, "windows", (json_int_t)c.store.windows,
				 "incidents", (json_int_t)c.store.incidents, "open_incidents",
				 (json_int_t)c.store.open_incidents, "store_bytes",
				 (json_int_t)c.store.bytes, "disk_full", c.disk_full));
}

static bool is_text(const char *v)
{
	return strlen(v) < WIRE_TEXT_BYTES && utf8_is_valid(v);
}

static void answer_known(struct api_answer *a, json_t *j, const char *unknown)
{
	if (j)
		answer_json(a, j);
	else
		api_answer_error(a, MHD_HTTP_NOT_FOUND, unknown);
}

/* False: answered, as several users have a job of that name. */
static bool resolve(const struct api_sources *api, const char *asked, char key[WIRE_TEXT_BYTES],
		    struct api_answer *a)
{
	if (fleet_resolve_job(api->fleet, asked, key) <= 1)
		return true;
	api_answer_error(
	    a, MHD_HTTP_CONFLICT,
	    "job: several users have a job of that name; ask for NAME@UID (/api/v1/jobs)");
	return false;
}

/* What is asked of one job. */
static void get_of_job(const struct api_sources *api, const struct http_query *q, const char *what,
		       struct api_answer *a)
{
	static const char unknown[] = "no such job or role";
	const char *job = http_query_get(q, "job"), *role = http_query_get(q, "role");
	char key[WIRE_TEXT_BYTES];

	if (!job || !is_text(job) || (role && !is_text(role)))
		api_answer_error(a, MHD_HTTP_BAD_REQUEST, "job: the name of one");
	else if (!resolve(api, job, key, a))
		return;
	else if (!strcmp(what, "roles"))
		answer_known(a, fleet_roles_json(api->fleet, key, clock_realtime_ns()), unknown);
	else if (!strcmp(what, "waterline"))
		answer_known(a, fleet_waterline_json(api->fleet, key, role, clock_monotonic_ns()),
			     unknown);
	else if (!strcmp(what, "kinds"))
		answer_known(a, fleet_kinds_json(api->fleet, key), "no such job");
	else
		answer_json(a, fleet_baselines_json(api->fleet, key, clock_monotonic_ns()));
}

static void get_baseline(const struct api_sources *api, const struct http_query *q, const char *run,
			 struct api_answer *a)
{
	const char *job = http_query_get(q, "job"), *role = http_query_get(q, "role");
	char key[WIRE_TEXT_BYTES];
	uint8_t id[8];
	json_t *j = NULL;

	if (!job || !is_text(job) || !role || !is_text(role)) {
		api_answer_error(a, MHD_HTTP_BAD_REQUEST, "job, role: the names of both");
		return;
	}
	if (!resolve(api, job, key, a))
		return;
	if (!text_unhex(run, id, sizeof(id)))
		j = fleet_baseline_json(api->fleet, key, role, strtoull(run, NULL, 16));
	answer_known(a, j, "no such baseline");
}

static void get_sketch(const struct api_sources *api, const struct http_query *q,
		       struct api_answer *a)
{
	const char *job = http_query_get(q, "job");
	char key[WIRE_TEXT_BYTES];
	uint64_t rank = UINT64_MAX;

	if (!job || !is_text(job) || !http_query_number(q, "rank", INT32_MAX, &rank) ||
	    rank > INT32_MAX)
		api_answer_error(a, MHD_HTTP_BAD_REQUEST,
				 "job, rank: the name of one and a number");
	else if (resolve(api, job, key, a))
		answer_known(a, fleet_sketch_json(api->fleet, key, (int32_t)rank),
			     "no such rank, or no sketch of it");
}

/* Entries of a page; false: refused. */
static bool take_limit(const struct http_query *q, struct api_answer *a, uint64_t initial,
		       uint32_t *limit)
{
	uint64_t n = initial;

	if (!http_query_number(q, "limit", LIMIT_API_INCIDENTS, &n) || !n) {
		api_answer_error(a, MHD_HTTP_BAD_REQUEST, "limit: 1 to 1000");
		return false;
	}
	*limit = (uint32_t)n;
	return true;
}

static void get_fleet(const struct api_sources *api, const struct http_query *q, bool ranks,
		      struct api_answer *a)
{
	struct fleet_page page = {.job = http_query_get(q, "job"),
				  .after = http_query_get(q, "after")};
	int err;

	if (page.job && !is_text(page.job)) {
		api_answer_error(a, MHD_HTTP_BAD_REQUEST, "job: not a job's name");
		return;
	}
	if (!take_limit(q, a, LIMIT_API_RANKS, &page.limit))
		return;
	err = (ranks ? fleet_ranks_page : fleet_jobs_page)(api->fleet, &page, clock_monotonic_ns(),
							   &a->body);
	if (err == -EINVAL)
		api_answer_error(a, MHD_HTTP_BAD_REQUEST, "after: the \"next\" of the page before");
	else if (err)
		a->status = MHD_HTTP_INTERNAL_SERVER_ERROR;
}

static void get_incidents(const struct api_sources *api, const struct http_query *q,
			  struct api_answer *a)
{
	struct store_list list = {.job = http_query_get(q, "job"),
				  .state = http_query_get(q, "state")};
	const char *after = http_query_get(q, "after");

	if (list.job && !is_text(list.job))
		api_answer_error(a, MHD_HTTP_BAD_REQUEST, "job: not a job's name");
	else if (list.state && strcmp(list.state, "open") && strcmp(list.state, "closed"))
		api_answer_error(a, MHD_HTTP_BAD_REQUEST, "state: open or closed");
	else if (after && store_list_after(&list, after))
		api_answer_error(a, MHD_HTTP_BAD_REQUEST, "after: the \"next\" of the page before");
	else if (take_limit(q, a, LIMIT_DEFAULT, &list.limit) &&
		 store_list(api->store, &list, &a->body))
		a->status = MHD_HTTP_INTERNAL_SERVER_ERROR;
}

/* Newline-delimited, so that a reader may take line by line and come back with the last one's time. */
static void get_feed(const struct api_sources *api, const struct http_query *q,
		     struct api_answer *a)
{
	uint64_t since = 0;
	uint32_t limit;

	if (!http_query_number(q, "since", UINT64_MAX, &since)) {
		api_answer_error(a, MHD_HTTP_BAD_REQUEST,
				 "since: the updated_unix_ns of the last line had");
		return;
	}
	if (!take_limit(q, a, LIMIT_DEFAULT, &limit))
		return;
	a->type = "application/x-ndjson";
	if (store_feed(api->store, since, limit, &a->body))
		a->status = MHD_HTTP_INTERNAL_SERVER_ERROR;
}

static void get_incident(const struct api_sources *api, const char *id, struct api_answer *a)
{
	char whole[INCIDENT_ID_BYTES];
	int err = store_incident_id(api->store, id, whole);
	json_t *j = err ? NULL : store_incident_json(api->store, whole);

	if (j)
		answer_json(a, j);
	else if (err == -ENOTUNIQ)
		api_answer_error(a, MHD_HTTP_CONFLICT, "more than one incident's id begins so");
	else
		api_answer_error(a, MHD_HTTP_NOT_FOUND, "no such incident");
}

static void get_window(const struct api_sources *api, const char *text, struct api_answer *a)
{
	uint8_t id[16];
	int err = text_unhex(text, id, sizeof(id)) ? -ENOENT
						   : store_window_body(api->store, id, &a->body);

	if (!err)
		a->type = "application/octet-stream";
	else if (err == -ENOENT)
		api_answer_error(a, MHD_HTTP_NOT_FOUND, "no such window");
	else if (err == -ESTALE)
		api_answer_error(a, MHD_HTTP_GONE, "expired");
	else
		api_answer_error(a, MHD_HTTP_INTERNAL_SERVER_ERROR, "store failed");
}

/* ---- paths ---- */

static void get_symbols(const struct api_sources *api, const char *url, struct api_answer *a)
{
	a->status = api_symbols_get(api->symbols, url, &a->body);
	if (!a->status)
		api_answer_error(a, MHD_HTTP_NOT_FOUND, "no such path");
}

void api_route(const struct api_sources *api, const struct http_query *q, struct api_answer *a)
{
	const char *url = q->path;

	if (q->cut)
		api_answer_error(a, MHD_HTTP_BAD_REQUEST,
				 "more arguments, or longer ones, than any path takes");
	else if (!strcmp(url, "/metrics"))
		api_metrics(api, a);
	else if (!strcmp(url, "/api/v1/status"))
		get_status(api, a);
	else if (!strcmp(url, "/api/v1/ranks"))
		get_fleet(api, q, true, a);
	else if (!strcmp(url, "/api/v1/jobs"))
		get_fleet(api, q, false, a);
	else if (!strcmp(url, "/api/v1/kinds") || !strcmp(url, "/api/v1/roles") ||
		 !strcmp(url, "/api/v1/waterline") || !strcmp(url, "/api/v1/baselines"))
		get_of_job(api, q, url + 8, a);
	else if (!strncmp(url, "/api/v1/baselines/", 18))
		get_baseline(api, q, url + 18, a);
	else if (!strcmp(url, "/api/v1/sketch"))
		get_sketch(api, q, a);
	else if (!strcmp(url, "/api/v1/feed") || !strcmp(url, "/api/feed"))
		get_feed(api, q, a);
	else if (!strcmp(url, "/api/v1/incidents"))
		get_incidents(api, q, a);
	else if (!strncmp(url, "/api/v1/incidents/", 18))
		get_incident(api, url + 18, a);
	else if (!strncmp(url, "/api/v1/windows/", 16))
		get_window(api, url + 16, a);
	else if (!strncmp(url, "/api/v1/symbols/", 16))
		get_symbols(api, url, a);
	else
		api_answer_error(a, MHD_HTTP_NOT_FOUND, "no such path");
}
