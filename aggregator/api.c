/* SPDX-License-Identifier: Apache-2.0
 * Answers are made from the store through a reader of its own and from the fleet's memory, so that no
 * request ever waits for the committer, nor the committer for a request. */
#include "aggregator/api.h"

#include <arpa/inet.h>
#include <errno.h>
#include <jansson.h>
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "aggregator/api_symbols.h"
#include "aggregator/text.h"
#include "base/clock.h"
#include "base/idle.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/version.h"

#define CONNECTIONS_MAX	       512
/* Idle ones go beyond this; between the two is room for those that are on their way out. */
#define CONNECTIONS_KEPT       384
#define CONNECTION_BYTES       (24u << 10)
#define TIMEOUT_S	       15
#define LIMIT_DEFAULT	       100

struct api {
	struct MHD_Daemon *daemon;
	struct store *store;
	struct commit *commit;
	struct fleet *fleet;
	struct ingest *ingest;
	struct alert *alert;
	struct api_symbols *symbols;
	struct idle idle;     /* of the one thread */
	uint64_t requests[6]; /* by hundreds of the status; of the one thread, read by itself */
};

struct answer {
	unsigned status;
	const char *type, *allow;
	struct buf body;
};

/* ---- answers ---- */

static void answer_json(struct answer *a, json_t *j)
{
	char *text = j ? json_dumps(j, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;

	if (text) {
		buf_puts(&a->body, text);
		buf_puts(&a->body, "\n");
	} else {
		a->status = MHD_HTTP_INTERNAL_SERVER_ERROR;
	}
	free(text);
	json_decref(j);
}

static void answer_error(struct answer *a, unsigned status, const char *why)
{
	a->status = status;
	answer_json(a, json_pack("{s:s}", "error", why));
}

static void get_status(struct api *api, struct answer *a)
{
	struct fleet_totals f;
	struct commit_stats c;

	fleet_totals(api->fleet, clock_monotonic_ns(), &f);
	commit_stats(api->commit, &c);
	answer_json(a, json_pack("{s:s, s:i, s:i, s:i, s:I, s:I, s:I, s:I, s:b}", "version", SYSOM_VERSION,
				 "jobs", (int)f.jobs, "ranks", (int)f.ranks, "nodes", (int)f.nodes,
				 "windows", (json_int_t)c.store.windows, "incidents",
				 (json_int_t)c.store.incidents, "open_incidents",
				 (json_int_t)c.store.open_incidents, "store_bytes",
				 (json_int_t)c.store.bytes, "disk_full", c.disk_full));
}

static bool is_text(const char *v)
{
	json_t *j = strlen(v) < WIRE_TEXT_BYTES ? json_string(v) : NULL;
	bool good = j != NULL;

	json_decref(j);
	return good;
}

static const char *argument(struct MHD_Connection *c, const char *name)
{
	return MHD_lookup_connection_value(c, MHD_GET_ARGUMENT_KIND, name);
}

static void get_ranks(struct api *api, struct MHD_Connection *c, struct answer *a)
{
	const char *job = argument(c, "job");

	if (job && !is_text(job))
		answer_error(a, MHD_HTTP_BAD_REQUEST, "job: not a job's name");
	else
		answer_json(a, fleet_json(api->fleet, job, clock_monotonic_ns()));
}

static void answer_known(struct answer *a, json_t *j, const char *unknown)
{
	if (j)
		answer_json(a, j);
	else
		answer_error(a, MHD_HTTP_NOT_FOUND, unknown);
}

/* What is asked of one job. */
static void get_of_job(struct api *api, struct MHD_Connection *c, const char *what, struct answer *a)
{
	static const char unknown[] = "no such job or role";
	const char *job = argument(c, "job"), *role = argument(c, "role");

	if (!job || !is_text(job) || (role && !is_text(role)))
		answer_error(a, MHD_HTTP_BAD_REQUEST, "job: the name of one");
	else if (!strcmp(what, "roles"))
		answer_known(a, fleet_roles_json(api->fleet, job, clock_realtime_ns()), unknown);
	else if (!strcmp(what, "waterline"))
		answer_known(a, fleet_waterline_json(api->fleet, job, role, clock_monotonic_ns()), unknown);
	else
		answer_json(a, fleet_baselines_json(api->fleet, job, clock_monotonic_ns()));
}

static void get_baseline(struct api *api, struct MHD_Connection *c, const char *run, struct answer *a)
{
	const char *job = argument(c, "job"), *role = argument(c, "role");
	uint8_t id[8];
	json_t *j = NULL;

	if (!job || !is_text(job) || !role || !is_text(role)) {
		answer_error(a, MHD_HTTP_BAD_REQUEST, "job, role: the names of both");
		return;
	}
	if (!text_unhex(run, id, sizeof(id)))
		j = fleet_baseline_json(api->fleet, job, role, strtoull(run, NULL, 16));
	answer_known(a, j, "no such baseline");
}

static void get_sketch(struct api *api, struct MHD_Connection *c, struct answer *a)
{
	const char *job = argument(c, "job"), *rank = argument(c, "rank");
	size_t digits = rank ? strspn(rank, "0123456789") : 0;

	if (!job || !is_text(job) || !digits || digits > 9 || rank[digits])
		answer_error(a, MHD_HTTP_BAD_REQUEST, "job, rank: the name of one and a number");
	else
		answer_known(a, fleet_sketch_json(api->fleet, job, atoi(rank)),
			     "no such rank, or no sketch of it");
}

static void get_incidents(struct api *api, struct MHD_Connection *c, struct answer *a)
{
	const char *job = argument(c, "job"), *state = argument(c, "state"),
		   *limit = argument(c, "limit");
	uint32_t n = LIMIT_DEFAULT;

	if (job && !is_text(job)) {
		answer_error(a, MHD_HTTP_BAD_REQUEST, "job: not a job's name");
		return;
	}
	if (state && strcmp(state, "open") && strcmp(state, "closed")) {
		answer_error(a, MHD_HTTP_BAD_REQUEST, "state: open or closed");
		return;
	}
	if (limit) {
		size_t digits = strspn(limit, "0123456789");

		n = digits && digits <= 5 && !limit[digits] ? (uint32_t)atoi(limit) : 0;
		if (!n || n > LIMIT_API_INCIDENTS) {
			answer_error(a, MHD_HTTP_BAD_REQUEST, "limit: 1 to 1000");
			return;
		}
	}
	answer_json(a, store_incidents_json(api->store, job, state, n));
}

/* Newline-delimited, so that a reader may take line by line and come back with the last one's time. */
static void get_feed(struct api *api, struct MHD_Connection *c, struct answer *a)
{
	const char *since = argument(c, "since"), *limit = argument(c, "limit");
	size_t digits = since ? strspn(since, "0123456789") : 1;
	uint32_t n = LIMIT_DEFAULT;

	if (!digits || digits > 19 || (since && since[digits])) {
		answer_error(a, MHD_HTTP_BAD_REQUEST, "since: the updated_unix_ns of the last line had");
		return;
	}
	if (limit) {
		digits = strspn(limit, "0123456789");
		n = digits && digits <= 5 && !limit[digits] ? (uint32_t)atoi(limit) : 0;
		if (!n || n > LIMIT_API_INCIDENTS) {
			answer_error(a, MHD_HTTP_BAD_REQUEST, "limit: 1 to 1000");
			return;
		}
	}
	a->type = "application/x-ndjson";
	if (store_feed(api->store, since ? strtoull(since, NULL, 10) : 0, n, &a->body))
		a->status = MHD_HTTP_INTERNAL_SERVER_ERROR;
}

static void get_incident(struct api *api, const char *id, struct answer *a)
{
	uint8_t bytes[4];
	json_t *j = text_unhex(id, bytes, sizeof(bytes)) ? NULL : store_incident_json(api->store, id);

	if (j)
		answer_json(a, j);
	else
		answer_error(a, MHD_HTTP_NOT_FOUND, "no such incident");
}

static void get_window(struct api *api, const char *text, struct answer *a)
{
	uint8_t id[16];
	int err = text_unhex(text, id, sizeof(id)) ? -ENOENT :
						     store_window_body(api->store, id, &a->body);

	if (!err)
		a->type = "application/octet-stream";
	else if (err == -ENOENT)
		answer_error(a, MHD_HTTP_NOT_FOUND, "no such window");
	else if (err == -ESTALE)
		answer_error(a, MHD_HTTP_GONE, "expired");
	else
		answer_error(a, MHD_HTTP_INTERNAL_SERVER_ERROR, "store failed");
}

/* ---- metrics ---- */

static void metric(struct buf *b, const char *name, const char *type, const char *help)
{
	buf_printf(b, "# HELP sysom_aggregator_%s %s\n# TYPE sysom_aggregator_%s %s\n", name, help, name,
		   type);
}

static void sample(struct buf *b, const char *name, const char *labels, uint64_t value)
{
	buf_printf(b, "sysom_aggregator_%s%s %llu\n", name, labels, (unsigned long long)value);
}

static void counter(struct buf *b, const char *name, const char *help, uint64_t value)
{
	metric(b, name, "counter", help);
	sample(b, name, "", value);
}

static void gauge(struct buf *b, const char *name, const char *help, uint64_t value)
{
	metric(b, name, "gauge", help);
	sample(b, name, "", value);
}

static void metrics_ingest(struct api *api, struct buf *b)
{
	struct ingest_stats s;

	ingest_stats(api->ingest, &s);
	metric(b, "windows_total", "counter", "Windows received, by reply.");
	sample(b, "windows_total", "{status=\"ok\"}", s.windows_ok);
	sample(b, "windows_total", "{status=\"duplicate\"}", s.windows_duplicate);
	sample(b, "windows_total", "{status=\"retry\"}", s.windows_retry);
	sample(b, "windows_total", "{status=\"reject\"}", s.windows_reject);
	counter(b, "windows_unsound_total", "Of the rejected windows: of impossible times or rank.",
		s.windows_unsound);
	metric(b, "beats_total", "counter", "Beats received, by reply.");
	sample(b, "beats_total", "{status=\"ok\"}", s.beats_ok);
	sample(b, "beats_total", "{status=\"reject\"}", s.beats_reject);
	metric(b, "sketches_total", "counter", "Sketches received, by reply.");
	sample(b, "sketches_total", "{status=\"ok\"}", s.sketches_ok);
	sample(b, "sketches_total", "{status=\"reject\"}", s.sketches_reject);
	counter(b, "unknown_messages_total", "Messages of no known kind or version.", s.other_reject);
	counter(b, "received_bytes_total", "Bytes of all messages.", s.received_bytes);
	gauge(b, "connections", "Peers connected now.", s.peers.connections);
	counter(b, "connections_total", "Connections accepted.", s.peers.accepted);
	metric(b, "connections_closed_total", "counter", "Connections that were hung up on, by reason.");
	sample(b, "connections_closed_total", "{reason=\"broken\"}", s.peers.broken);
	sample(b, "connections_closed_total", "{reason=\"overdue\"}", s.peers.overdue);
	sample(b, "connections_closed_total", "{reason=\"evicted\"}", s.peers.evicted);
}

static void metrics_store(struct api *api, struct buf *b)
{
	struct commit_stats s;

	commit_stats(api->commit, &s);
	counter(b, "transactions_total", "Transactions committed.", s.transactions);
	metric(b, "transaction_seconds_total", "counter", "Time spent in transactions.");
	buf_printf(b, "sysom_aggregator_transaction_seconds_total %.6f\n",
		   (double)s.transaction_ns / 1e9);
	counter(b, "expired_windows_total", "Window bodies removed by age or size.", s.expired);
	counter(b, "incidents_opened_total", "Incidents opened.", s.incidents_opened);
	counter(b, "incidents_evicted_total", "Open incidents closed for want of room.",
		s.incidents_evicted);
	counter(b, "incidents_renamed_total", "Open incidents built anew since names have come.",
		s.incidents_renamed);
	gauge(b, "store_bytes", "Bytes used in the store.", s.store.bytes);
	gauge(b, "store_windows", "Windows known to the store.", s.store.windows);
	gauge(b, "pending_bytes", "Bytes received and not yet committed.", s.pending_bytes);
	gauge(b, "disk_full", "1 while windows are refused for want of space.", s.disk_full);
	metric(b, "incidents", "gauge", "Incidents in the store, by state.");
	sample(b, "incidents", "{state=\"open\"}", s.store.open_incidents);
	sample(b, "incidents", "{state=\"closed\"}", s.store.incidents - s.store.open_incidents);
}

static void metrics_verdicts(struct api *api, struct buf *b)
{
	struct alert_stats alerts = { 0 };
	struct commit_stats s;

	commit_stats(api->commit, &s);
	if (api->alert)
		alert_stats(api->alert, &alerts);
	counter(b, "findings_total", "Findings without windows that were committed.", s.findings);
	counter(b, "findings_dropped_total", "Findings for which there was no room.", s.findings_dropped);
	gauge(b, "alerts_firing", "Alerts that fire.", alerts.firing);
	metric(b, "alert_posts_total", "counter", "POSTs to the webhook, by outcome.");
	sample(b, "alert_posts_total", "{outcome=\"ok\"}", alerts.sent);
	sample(b, "alert_posts_total", "{outcome=\"failed\"}", alerts.failed);
	counter(b, "alerts_dropped_total", "Alerts for which there was no room.", alerts.dropped);
}

static void metrics_refused(struct buf *b, const struct fleet_totals *f)
{
	metric(b, "refused_total", "counter", "What was said about ranks and not believed, by reason.");
	sample(b, "refused_total", "{reason=\"foreign\"}", f->refused_foreign);
	sample(b, "refused_total", "{reason=\"range\"}", f->refused_range);
	sample(b, "refused_total", "{reason=\"world\"}", f->refused_world);
	sample(b, "refused_total", "{reason=\"node\"}", f->refused_node);
	sample(b, "refused_total", "{reason=\"backwards\"}", f->refused_backwards);
	sample(b, "refused_total", "{reason=\"repeated\"}", f->refused_repeated);
	sample(b, "refused_total", "{reason=\"processes\"}", f->refused_processes);
	sample(b, "refused_total", "{reason=\"window\"}", f->refused_window);
	sample(b, "refused_total", "{reason=\"sketch\"}", f->refused_sketch);
	gauge(b, "quarantined_ranks", "Ranks that show no communicator of their job: compared with nobody.",
	      f->ranks_quarantined);
	metric(b, "detect_dropped", "gauge", "Of the known jobs, what was not compared, by reason.");
	sample(b, "detect_dropped", "{reason=\"bad\"}", f->bad);
	sample(b, "detect_dropped", "{reason=\"stale\"}", f->stale);
	sample(b, "detect_dropped", "{reason=\"ahead\"}", f->ahead);
	sample(b, "detect_dropped", "{reason=\"unplaced\"}", f->unplaced);
	sample(b, "detect_dropped", "{reason=\"no_room\"}", f->no_room);
}

static void metrics_detect(struct buf *b, const struct fleet_totals *f)
{
	gauge(b, "suspects", "Ranks that a finding names which has not ended.", f->suspects);
	gauge(b, "compared_rows", "Rows of steps compared in the known jobs.", f->rows);
	gauge(b, "detect_bytes", "Memory of the comparison and the waterlines.", f->bytes);
	metric(b, "detected_total", "counter", "What detection opened, by kind.");
	sample(b, "detected_total", "{kind=\"slow_rank\"}", f->findings);
	sample(b, "detected_total", "{kind=\"imbalance\"}", f->imbalances);
	sample(b, "detected_total", "{kind=\"hang\"}", f->hangs);
	sample(b, "detected_total", "{kind=\"uniform\"}", f->uniform);
	metric(b, "commands_total", "counter", "Commands for nodes, by kind.");
	sample(b, "commands_total", "{kind=\"window\"}", f->commands_window);
	sample(b, "commands_total", "{kind=\"hold\"}", f->commands_hold);
	sample(b, "commands_total", "{kind=\"suspect\"}", f->commands_suspect);
	counter(b, "commands_refused_total", "Commands beyond what a job or node may be asked.",
		f->commands_refused);
	gauge(b, "sketch_bytes", "Bytes of the ranks' last sketches.", f->sketch_bytes);
	counter(b, "sketches_dropped_total", "Sketches that were not kept for want of room.",
		f->sketches_dropped);
	counter(b, "baselines_saved_total", "Baselines written.", f->baselines_saved);
	counter(b, "baselines_failed_total", "Baselines that could not be read or written.",
		f->baselines_failed);
}

static void metrics_fleet(struct api *api, struct buf *b)
{
	struct fleet_totals f;

	fleet_totals(api->fleet, clock_monotonic_ns(), &f);
	gauge(b, "jobs", "Jobs with a known rank.", f.jobs);
	metric(b, "ranks", "gauge", "Known ranks, by liveness.");
	sample(b, "ranks", "{alive=\"yes\"}", f.ranks_alive);
	sample(b, "ranks", "{alive=\"no\"}", f.ranks - f.ranks_alive);
	metric(b, "nodes", "gauge", "Known nodes, by liveness.");
	sample(b, "nodes", "{alive=\"yes\"}", f.nodes_alive);
	sample(b, "nodes", "{alive=\"no\"}", f.nodes - f.nodes_alive);
	gauge(b, "lost_events", "Events lost on the known ranks, all causes.", f.lost);
	gauge(b, "node_windows_dropped", "Windows that the known nodes dropped unsent.",
	      f.windows_dropped);
	counter(b, "fleet_dropped_total", "Beat entries for which there was no room.", f.dropped);
	metrics_refused(b, &f);
	metrics_detect(b, &f);
}

static void get_metrics(struct api *api, struct answer *a)
{
	struct buf *b = &a->body;

	a->type = "text/plain; version=0.0.4; charset=utf-8";
	metrics_ingest(api, b);
	metrics_store(api, b);
	metrics_verdicts(api, b);
	metrics_fleet(api, b);
	api_symbols_metrics(api->symbols, b);
	metric(b, "http_requests_total", "counter", "Answers of this API, by status class.");
	for (int i = 2; i < 6; i++) {
		char labels[32];

		snprintf(labels, sizeof(labels), "{code=\"%dxx\"}", i);
		sample(b, "http_requests_total", labels, api->requests[i]);
	}
}

/* ---- requests ---- */

static void get_symbols(struct api *api, const char *url, struct answer *a)
{
	a->status = api_symbols_get(api->symbols, url, &a->body);
	if (!a->status)
		answer_error(a, MHD_HTTP_NOT_FOUND, "no such path");
}

static void route(struct api *api, struct MHD_Connection *c, const char *url, struct answer *a)
{
	if (!strcmp(url, "/healthz"))
		answer_json(a, json_pack("{s:s}", "status", "ok"));
	else if (!strcmp(url, "/metrics"))
		get_metrics(api, a);
	else if (!strcmp(url, "/api/v1/status"))
		get_status(api, a);
	else if (!strcmp(url, "/api/v1/ranks"))
		get_ranks(api, c, a);
	else if (!strcmp(url, "/api/v1/jobs"))
		answer_json(a, fleet_jobs_json(api->fleet, clock_monotonic_ns()));
	else if (!strcmp(url, "/api/v1/roles") || !strcmp(url, "/api/v1/waterline") ||
		 !strcmp(url, "/api/v1/baselines"))
		get_of_job(api, c, url + 8, a);
	else if (!strncmp(url, "/api/v1/baselines/", 18))
		get_baseline(api, c, url + 18, a);
	else if (!strcmp(url, "/api/v1/sketch"))
		get_sketch(api, c, a);
	else if (!strcmp(url, "/api/v1/feed") || !strcmp(url, "/api/feed"))
		get_feed(api, c, a);
	else if (!strcmp(url, "/api/v1/incidents"))
		get_incidents(api, c, a);
	else if (!strncmp(url, "/api/v1/incidents/", 18))
		get_incident(api, url + 18, a);
	else if (!strncmp(url, "/api/v1/windows/", 16))
		get_window(api, url + 16, a);
	else if (!strncmp(url, "/api/v1/symbols/", 16))
		get_symbols(api, url, a);
	else
		answer_error(a, MHD_HTTP_NOT_FOUND, "no such path");
}

static enum MHD_Result send_answer(struct api *api, struct MHD_Connection *c, struct answer *a)
{
	struct MHD_Response *r;
	enum MHD_Result ok;

	if (a->body.failed) {
		buf_fini(&a->body);
		a->status = MHD_HTTP_INTERNAL_SERVER_ERROR;
	}
	api->requests[a->status / 100 % 6]++;
	r = MHD_create_response_from_buffer(a->body.bytes, a->body.data ? a->body.data : (void *)"",
					    a->body.data ? MHD_RESPMEM_MUST_FREE : MHD_RESPMEM_PERSISTENT);
	if (!r) {
		buf_fini(&a->body);
		return MHD_NO;
	}
	MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, a->type);
	MHD_add_response_header(r, "X-Content-Type-Options", "nosniff");
	MHD_add_response_header(r, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
	if (a->status == MHD_HTTP_METHOD_NOT_ALLOWED)
		MHD_add_response_header(r, MHD_HTTP_HEADER_ALLOW, a->allow);
	ok = MHD_queue_response(c, a->status, r);
	MHD_destroy_response(r);
	return ok;
}

static int connection_fd(struct MHD_Connection *c)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);

	return info ? info->connect_fd : -1;
}

static void on_connection(void *arg, struct MHD_Connection *c, void **context,
			  enum MHD_ConnectionNotificationCode code)
{
	struct api *api = arg;

	if (code == MHD_CONNECTION_NOTIFY_STARTED)
		idle_add(&api->idle, connection_fd(c));
	else
		idle_remove(&api->idle, connection_fd(c));
}

static int seen; /* a request without a body of interest */

static void on_completed(void *arg, struct MHD_Connection *c, void **request,
			 enum MHD_RequestTerminationCode code)
{
	struct api *api = arg;

	if (*request && *request != &seen)
		api_symbols_forget(*request);
	*request = NULL;
	idle_set_busy(&api->idle, connection_fd(c), false);
}

/* POST, PUT and DELETE: headers, pieces of the body, its end, and once more when the answer is there. */
static enum MHD_Result on_body(struct api *api, struct MHD_Connection *c, const char *url,
			       const char *method, const char *data, size_t *data_bytes, void **request,
			       struct answer *a)
{
	if (!*request) {
		struct api_request *r;
		const char *why;
		unsigned status = api_symbols_begin(api->symbols, c, method, url, &r, &why);

		if (status) {
			if (!strncmp(url, "/api/v1/symbol", 14))
				a->allow = "GET, HEAD, POST, PUT, DELETE";
			answer_error(a, status, why);
			return send_answer(api, c, a);
		}
		*request = r;
		idle_set_busy(&api->idle, connection_fd(c), true);
		return MHD_YES;
	}
	if (*data_bytes) {
		bool go_on = api_symbols_data(*request, data, *data_bytes);

		*data_bytes = 0;
		return go_on ? MHD_YES : MHD_NO;
	}
	a->status = api_symbols_answer(*request, &a->body);
	return a->status ? send_answer(api, c, a) : MHD_YES;
}

static enum MHD_Result on_request(void *arg, struct MHD_Connection *c, const char *url,
				  const char *method, const char *version, const char *data,
				  size_t *data_bytes, void **request)
{
	struct api *api = arg;
	struct answer a = { .status = MHD_HTTP_OK, .type = "application/json",
			    .allow = "GET, HEAD" };
	enum MHD_Result ok;

	(void)version;
	buf_init(&a.body, 2 * (size_t)LIMIT_WIRE_UNPACKED_BYTES);
	if (strcmp(method, "GET") && strcmp(method, "HEAD")) {
		ok = on_body(api, c, url, method, data, data_bytes, request, &a);
		if (!a.status)
			buf_fini(&a.body);
		return ok;
	}
	if (!*request) { /* the first call comes with the headers, the next after them */
		*request = &seen;
		idle_set_busy(&api->idle, connection_fd(c), true);
		return MHD_YES;
	}
	if (*data_bytes) { /* a GET with a body: not read */
		buf_fini(&a.body);
		return MHD_NO;
	}
	route(api, c, url, &a);
	return send_answer(api, c, &a);
}

/* ---- listening ---- */

static int parse_listen(const char *text, struct sockaddr_storage *out)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)out;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)out;
	const char *colon = strrchr(text, ':');
	char host[64];
	long port;
	char *end;

	if (!colon || colon == text || (size_t)(colon - text) >= sizeof(host))
		return -EINVAL;
	port = strtol(colon + 1, &end, 10);
	if (*end || end == colon + 1 || port < 0 || port > 65535)
		return -EINVAL;
	memset(out, 0, sizeof(*out));
	if (text[0] == '[' && colon[-1] == ']') {
		text_copy(host, (size_t)(colon - text) - 1, text + 1);
		v6->sin6_family = AF_INET6;
		v6->sin6_port = htons((uint16_t)port);
		return inet_pton(AF_INET6, host, &v6->sin6_addr) == 1 ? 0 : -EINVAL;
	}
	text_copy(host, (size_t)(colon - text) + 1, text);
	v4->sin_family = AF_INET;
	v4->sin_port = htons((uint16_t)port);
	return inet_pton(AF_INET, host, &v4->sin_addr) == 1 ? 0 : -EINVAL;
}

bool api_is_address(const char *listen)
{
	struct sockaddr_storage address;

	return !parse_listen(listen, &address);
}

__attribute__((format(printf, 2, 0)))
static void on_mhd_log(void *arg, const char *fmt, va_list ap)
{
	char line[256];
	size_t n;

	(void)arg;
	vsnprintf(line, sizeof(line), fmt, ap);
	n = strcspn(line, "\n");
	log_debug("http", "message=\"%.*s\"", (int)n, line);
}

int api_open(struct api **out, const char *listen, const char *store_dir, struct commit *commit,
	     struct fleet *fleet, struct ingest *ingest, struct symbols *symbols, struct alert *alert)
{
	struct api *a = calloc(1, sizeof(*a));
	unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_ERROR_LOG |
			 MHD_ALLOW_SUSPEND_RESUME;
	struct sockaddr_storage address;
	int err;

	if (!a)
		return -ENOMEM;
	a->commit = commit;
	a->fleet = fleet;
	a->ingest = ingest;
	a->alert = alert;
	idle_init(&a->idle, CONNECTIONS_KEPT);
	err = parse_listen(listen, &address);
	if (!err)
		err = store_open_reader(&a->store, store_dir);
	if (!err)
		err = api_symbols_open(&a->symbols, symbols);
	if (!err) {
		if (address.ss_family == AF_INET6)
			flags |= MHD_USE_IPv6;
		errno = 0;
		a->daemon = MHD_start_daemon(
			flags, 0, NULL, NULL, on_request, a, MHD_OPTION_EXTERNAL_LOGGER, on_mhd_log, NULL,
			MHD_OPTION_SOCK_ADDR, (struct sockaddr *)&address,
			MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS_MAX,
			MHD_OPTION_NOTIFY_CONNECTION, on_connection, a,
			MHD_OPTION_NOTIFY_COMPLETED, on_completed, a,
			MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_BYTES,
			MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)TIMEOUT_S, MHD_OPTION_END);
		if (!a->daemon)
			err = errno ? -errno : -EIO;
	}
	if (err) {
		log_error("listen", "http=%s why=\"%s\"", listen, strerror(-err));
		api_close(a);
		return err;
	}
	*out = a;
	return 0;
}

void api_close(struct api *a)
{
	if (!a)
		return;
	api_symbols_stop(a->symbols);
	if (a->daemon)
		MHD_stop_daemon(a->daemon);
	api_symbols_close(a->symbols);
	store_close(a->store);
	free(a);
}
