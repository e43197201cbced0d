/* SPDX-License-Identifier: Apache-2.0
 * HTTP on the loop's own thread: the server's descriptor is one more source of the loop. Handlers
 * therefore see a consistent node and need no lock. There are two listeners. Requests over TCP
 * change something only with an admin token. On the Unix control socket, each user may change the
 * user's own ranks. */
#include "sidecar/http.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/check.h"
#include "base/http/http_server.h"
#include "base/daemon/log.h"
#include "base/metrics/prometheus.h"
#include "base/daemon/service.h"
#include "base/text/text.h"
#include "sidecar/node.h"
#include "sidecar/process.h"
#include "sidecar/requests.h"
#include "sidecar/serving/request_node.h"
#include "sidecar/ship.h"
#include "sidecar/status.h"

#define HTTP_BODY_BYTES	  (4u << 20)
#define HTTP_WAITING	  16u
#define HTTP_WAITING_USER 4u /* for one user other than root */
/* Idle connections above HTTP_KEPT are closed. The difference leaves room for those still
 * closing. */
#define HTTP_CONNECTIONS 96u
#define HTTP_KEPT	 64u
#define HTTP_TRACE_NS	 900000000ull /* the answer is due within a second */
#define HTTP_CHANNELS_S	 3600

/* A POST trace that waits until its processes have switched. */
struct waiting {
	struct http_request *request; /* NULL: free */
	uint64_t until_ns;
	bool done;
	struct {
		uint64_t process; /* its serial; 0 ends the list */
		uint32_t serial;
		bool was; /* whether it was in the wanted state before the request */
	} of[LIMIT_NODE_PROCESSES];
	uint32_t count;
	uint32_t wanted; /* RING_TRACE_ON, RING_TRACE_OFF */
};

struct listener {
	struct node *node;
	struct http_server *server;
	struct loop_source *source;
	bool control;
};

struct http {
	struct listener tcp, control;
	struct http_hosts hosts;
	struct http_access *access;
	struct http_tls *tls; /* NULL: none */
	struct http_counts counts;
	struct waiting waiting[HTTP_WAITING];
	ino_t control_inode;
};

/* Parses rank=N: INT32_MIN if absent; false if it is not a number. */
static bool rank_argument(const struct http_query *q, int32_t *rank)
{
	const char *text = http_query_get(q, "rank");
	char *end;
	long v;

	*rank = INT32_MIN;
	if (!text)
		return true;
	errno = 0;
	v = strtol(text, &end, 10);
	if (!*text || *end || errno || v < -1 || v > INT32_MAX)
		return false;
	*rank = (int32_t)v;
	return true;
}

/* Whether the request is about this process, and its sender may see the process. */
static bool is_meant(const struct http_request *r, const struct process *p, const char *job,
		     int32_t rank)
{
	return http_user_sees(&r->user, p->uid) && process_matches(p, job, rank);
}

/* Refuses a job name that jobs of several users have; the answer lists them. attached: count only
 * attached processes. True: refused. */
static bool refuses_name(struct node *n, struct http_request *r, bool attached)
{
	const char *job = http_query_get(&r->query, "job"), *keys[LIMIT_NODE_PROCESSES];
	uint32_t count = 0, k;
	struct buf why;

	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++) {
		const struct process *p = n->processes[i];

		if (!p || (attached && p->state != PROCESS_ATTACHED) || !job || !*job ||
		    !is_meant(r, p, job, INT32_MIN))
			continue;
		for (k = 0; k < count && strcmp(keys[k], p->id.job); k++)
			;
		if (k == count)
			keys[count++] = p->id.job;
	}
	if (count < 2)
		return false;
	buf_init(&why, HTTP_BODY_BYTES);
	buf_puts(&why, "several users have a job of this name; use one of ");
	for (k = 0; k < count; k++)
		buf_printf(&why, "%s%s", k ? ", " : "", keys[k]);
	http_answer_error(&r->answer, 409, why.failed ? "" : (const char *)why.data);
	buf_fini(&why);
	return true;
}

/* ---- trace on and off ---- */

static bool has_acked(struct node *n, const struct waiting *w, uint32_t i, bool *gone)
{
	struct process *p = process_by_serial(n, w->of[i].process);

	*gone = !p || p->state != PROCESS_ATTACHED;
	return !*gone && (int32_t)(p->link.acked_serial - w->of[i].serial) >= 0;
}

static bool is_settled(struct node *n, const struct waiting *w)
{
	bool gone;

	for (uint32_t i = 0; i < w->count; i++)
		if (!has_acked(n, w, i, &gone) && !gone)
			return false;
	return true;
}

/* Whether the process is in the wanted state. A latched process stays off permanently. */
static bool is_state(const struct process *p, uint32_t wanted)
{
	return p->link.trace_state == wanted ||
	       (wanted == RING_TRACE_OFF && p->link.trace_state == RING_TRACE_LATCHED);
}

/* changed: processes that switched to the wanted state. already: processes that were in it before.
 * Processes in neither list did not answer in time, or cannot switch, because an internal fault
 * latched them off. */
static void answer_trace(struct node *n, struct waiting *w, struct http_answer *a)
{
	uint32_t changed = 0, already = 0, done = 0;
	struct buf *b = &a->body, ranks;
	bool gone;

	buf_init(&ranks, HTTP_BODY_BYTES);
	for (uint32_t i = 0; i < w->count; i++) {
		struct process *p = process_by_serial(n, w->of[i].process);

		if (!has_acked(n, w, i, &gone))
			continue;
		done++;
		if (p->link.trace_state != w->wanted)
			continue;
		already += w->of[i].was;
		if (!w->of[i].was)
			buf_printf(&ranks, "%s%d", changed++ ? "," : "", p->id.rank);
	}
	buf_printf(b, "{\"changed\":%u,\"already\":%u,\"asked\":%u,\"ranks\":[", changed, already,
		   w->count);
	buf_append(b, ranks.data, ranks.bytes);
	buf_puts(b, "]");
	if (done < w->count) {
		a->status = 504;
		buf_printf(b,
			   ",\"error\":\"%u of %u processes did not answer in time; the others "
			   "switched\"",
			   w->count - done, w->count);
	}
	buf_puts(b, "}\n");
	buf_fini(&ranks);
}

/* Logs what is done, and to which processes. */
static void tell(struct http_request *r, const char *what)
{
	const char *job = http_query_get(&r->query, "job"),
		   *rank = http_query_get(&r->query, "rank");

	snprintf(r->answer.change, sizeof(r->answer.change), "%s: job %.100s, rank %.12s", what,
		 job ? job : "any", rank ? rank : "any");
}

/* The waiting entry of the request; NULL: it does not wait. */
static struct waiting *waiting_of(struct node *n, const struct http_request *r)
{
	for (uint32_t i = 0; i < HTTP_WAITING; i++)
		if (n->http->waiting[i].request == r)
			return &n->http->waiting[i];
	return NULL;
}

/* Whether the user already has too many waiting requests. This keeps room for root's requests. */
static bool waits_too_often(struct node *n, const struct http_request *r)
{
	uint32_t own = 0;

	for (uint32_t i = 0; i < HTTP_WAITING; i++) {
		const struct http_request *other = n->http->waiting[i].request;

		own += other && other->user.has_uid && other->user.uid == r->user.uid;
	}
	return !r->user.all && own >= HTTP_WAITING_USER;
}

/* Parses channels=S. Returns milliseconds; -1: not given; -2: not a time. */
static int32_t channels_argument(const struct http_query *q)
{
	const char *text = http_query_get(q, "channels");
	char *end;
	double s;

	if (!text)
		return -1;
	s = strtod(text, &end);
	return *text && !*end && s >= 0 && s <= HTTP_CHANNELS_S ? (int32_t)(s * 1000) : -2;
}

static bool on_trace(struct node *n, struct http_request *r)
{
	const char *want = http_query_get(&r->query, "state"), *job;
	int32_t channels = channels_argument(&r->query);
	struct waiting *w = waiting_of(n, r);
	char what[64];
	int32_t rank;
	uint32_t kind;

	if (w) {
		answer_trace(n, w, &r->answer);
		*w = (struct waiting){0};
		return true;
	}
	if (!want || (strcmp(want, "on") && strcmp(want, "off")) ||
	    !rank_argument(&r->query, &rank) || channels < -1 ||
	    (channels >= 0 && strcmp(want, "on"))) {
		http_answer_error(&r->answer, 400,
				  "bad arguments; use state=on|off[&rank=N][&job=J], or "
				  "state=on&channels=S, S up to 3600");
		return true;
	}
	if (refuses_name(n, r, true))
		return true;
	kind = channels >= 0 ? ATTACH_CHANNELS : strcmp(want, "on") ? ATTACH_OFF : ATTACH_ON;
	w = waits_too_often(n, r) ? NULL : waiting_of(n, NULL);
	if (!w) {
		http_answer_error(&r->answer, 503, "too many requests are waiting; try again");
		return true;
	}
	*w = (struct waiting){.until_ns = clock_monotonic_ns() + HTTP_TRACE_NS,
			      .wanted = kind == ATTACH_OFF ? RING_TRACE_OFF : RING_TRACE_ON};
	job = http_query_get(&r->query, "job");
	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++) {
		struct process *p = n->processes[i];
		int64_t serial;

		if (!p || p->state != PROCESS_ATTACHED || !is_meant(r, p, job, rank))
			continue;
		serial = process_command(p, kind, channels);
		if (serial < 0)
			continue;
		w->of[w->count].process = p->serial;
		w->of[w->count].was = kind != ATTACH_CHANNELS && is_state(p, w->wanted);
		w->of[w->count++].serial = (uint32_t)serial;
	}
	snprintf(what, sizeof(what), "%s %s in %u processes",
		 kind == ATTACH_CHANNELS ? "channels" : "trace", want, w->count);
	tell(r, what);
	if (!w->count) {
		answer_trace(n, w, &r->answer);
		r->answer.status = 404;
		return true;
	}
	w->request = r;
	http_server_suspend(r);
	return false;
}

/* ---- capture ---- */

static bool on_capture(struct node *n, struct http_request *r)
{
	const char *text = http_query_get(&r->query, "seconds"),
		   *job = http_query_get(&r->query, "job");
	double seconds = text ? strtod(text, NULL) : 10;
	uint64_t now_ns = clock_monotonic_ns(), back_ns;
	uint32_t count = 0, failed = 0, bounded = 0;
	char ids[LIMIT_NODE_PROCESSES * 35 + 1] = "";
	char what[64];
	size_t used = 0;
	int32_t rank;

	if (!rank_argument(&r->query, &rank) || !(seconds > 0) || seconds > 3600) {
		http_answer_error(&r->answer, 400,
				  "bad arguments; use rank=N[&seconds=S][&job=J], S up to 3600");
		return true;
	}
	if (refuses_name(n, r, false))
		return true;
	back_ns = (uint64_t)(seconds * 1e9);
	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++) {
		struct process *p = n->processes[i];
		char hex[33];
		uint8_t id[16];

		if (!p || !is_meant(r, p, job, rank))
			continue;
		/* the spool is shared, so users are limited like the aggregator's requests */
		if (!r->user.all && !requests_allowed(p, now_ns)) {
			bounded++;
			continue;
		}
		if (ship_range(p, WINDOW_MANUAL, now_ns > back_ns ? now_ns - back_ns : 0, now_ns,
			       NULL, id)) {
			failed++;
			continue;
		}
		text_hex(id, sizeof(id), hex);
		used += (size_t)snprintf(ids + used, sizeof(ids) - used, "%s\"%s\"",
					 count ? "," : "", hex);
		count++;
	}
	if (!count && bounded) {
		http_answer_error(&r->answer, 429,
				  "too many windows of this rank within a minute; try again later");
		return true;
	}
	r->answer.status = count ? 200 : failed ? 500 : 404;
	snprintf(what, sizeof(what), "capture of %g s in %u windows", seconds, count);
	tell(r, what);
	buf_printf(&r->answer.body, "{\"windows\":%u,\"failed\":%u,\"ids\":[%s]}\n", count, failed,
		   ids);
	return true;
}

/* ---- requests ---- */

void http_metrics(struct node *n, const struct http_user *user, struct metrics *m)
{
	status_metrics(n, user, m);
	request_node_metrics(n, user, m);
	otlp_export_metrics(n->otlp, m);
	METRICS(
	    m,
	    {"sysom_http_foreign_host_total", "HTTP requests refused because of their Host header.",
	     atomic_load(&n->http->counts.foreign_host)},
	    {"sysom_http_no_token_total", "HTTP requests refused because they had no valid token.",
	     atomic_load(&n->http->counts.no_token)},
	    {"sysom_http_no_role_total",
	     "HTTP requests refused because the sender's role is another.",
	     atomic_load(&n->http->counts.no_role)});
	if (n->http->tls)
		METRICS(m, {"sysom_http_certificate_expires_seconds",
			    "When the HTTP server's certificate expires, since 1970.",
			    http_tls_expires_unix_s(n->http->tls)});
	METRICS(m, {"sysom_http_evicted_total", "HTTP connections closed to make room for others.",
		    atomic_load(&n->http->counts.evicted)});
}

static bool on_health(struct node *n, struct http_request *r)
{
	http_answer_text(&r->answer, "text/plain", "ok\n");
	return true;
}

static bool on_metrics(struct node *n, struct http_request *r)
{
	struct metrics page = prometheus_metrics(&r->answer.body);

	r->answer.type = PROMETHEUS_TYPE;
	http_metrics(n, &r->user, &page);
	return true;
}

static bool on_status(struct node *n, struct http_request *r)
{
	status_json(n, &r->user, &r->answer.body);
	return true;
}

static bool on_requests(struct node *n, struct http_request *r)
{
	if (!request_node_json(n, &r->user, &r->query, &r->answer.body))
		http_answer_error(&r->answer, 400, "\"id\" must be 16 hex digits");
	return true;
}

static const struct route {
	const char *path;
	bool control; /* a POST, on the control socket only; otherwise a GET */
	bool (*finish)(struct node *n, struct http_request *r); /* as in struct http_handlers */
} routes[] = {
    {"/healthz", false, on_health},	  {"/metrics", false, on_metrics},
    {"/api/v1/status", false, on_status}, {"/api/v1/requests", false, on_requests},
    {"/api/v1/trace", true, on_trace},	  {"/api/v1/capture", true, on_capture},
};

/* The rights that a request needs. On the control socket each user may change the user's own ranks.
 * Over TCP a POST needs a token, because a web page can make a browser POST to a TCP port. */
static unsigned needs(void *arg, const struct http_request *r)
{
	const struct listener *l = arg;

	return r->get || l->control ? HTTP_ROLE_READ : HTTP_ROLE_ADMIN;
}

static bool on_begin(void *arg, struct http_request *r)
{
	const struct listener *l = arg;

	r->answer.allow = "GET, HEAD, POST";
	if (r->get)
		return true;
	if (strcmp(r->method, "POST"))
		http_answer_error(&r->answer, 405, "the method is neither GET nor POST");
	else if (!l->control && !r->user.bearer)
		http_answer_error(&r->answer, 403,
				  "POST works on the control socket, or with a token");
	else
		return true;
	return false;
}

static bool on_body(void *arg, struct http_request *r, const void *data, size_t bytes)
{
	return true; /* bodies are not used */
}

static bool on_finish(void *arg, struct http_request *r)
{
	const struct listener *l = arg;

	for (size_t i = 0; i < ARRAY_LEN(routes); i++)
		if (routes[i].control != r->get && !strcmp(routes[i].path, r->query.path))
			return routes[i].finish(l->node, r);
	http_answer_error(&r->answer, 404, "not found");
	return true;
}

/* Frees the place of a client that hung up while it waited. */
static void on_end(void *arg, struct http_request *r)
{
	const struct listener *l = arg;
	struct waiting *w = waiting_of(l->node, r);

	if (w)
		*w = (struct waiting){0};
}

static const struct http_handlers handlers = {.needs = needs,
					      .begin = on_begin,
					      .body = on_body,
					      .finish = on_finish,
					      .end = on_end,
					      .answer_max_bytes = HTTP_BODY_BYTES};

static void on_ready(void *arg, uint32_t events)
{
	const struct listener *l = arg;

	http_server_run(l->server);
}

static void tend(struct listener *l, bool resumed)
{
	if (l->server && (resumed || http_server_is_due(l->server)))
		http_server_run(l->server);
}

void http_tend(struct node *n, uint64_t now_ns)
{
	bool resumed = false;

	for (uint32_t i = 0; i < HTTP_WAITING; i++) {
		struct waiting *w = &n->http->waiting[i];

		if (!w->request || w->done || (!is_settled(n, w) && now_ns < w->until_ns))
			continue;
		w->done = true;
		http_server_resume(w->request);
		resumed = true;
	}
	tend(&n->http->tcp, resumed);
	tend(&n->http->control, resumed);
}

/* ---- listeners ---- */

/* Takes fd. */
static int start(struct node *n, struct listener *l, int fd, bool control)
{
	const struct http_server_config c = {.program = "sysomd",
					     .hosts = control ? NULL : &n->http->hosts,
					     .counts = &n->http->counts,
					     .access = n->http->access,
					     .tls = control ? NULL : n->http->tls,
					     .connections_max = HTTP_CONNECTIONS,
					     .connections_kept = HTTP_KEPT,
					     .connection_bytes = 16384,
					     .timeout_s = 10};
	int err;

	l->node = n;
	l->control = control;
	err = http_server_open(&l->server, fd, &c, &handlers, l);
	return err ? err
		   : loop_add_fd(n->loop, http_server_fd(l->server), EPOLLIN, on_ready, l,
				 &l->source);
}

int http_open(struct node *n)
{
	const struct http_settings *s = &n->settings.http;
	char why[512] = "";
	int fd, err;

	n->http = calloc(1, sizeof(*n->http));
	if (!n->http)
		return -ENOMEM;
	err = http_hosts_init(&n->http->hosts, s->listen, s->hosts);
	if (!err)
		err = http_access_open(&n->http->access, s, why, sizeof(why));
	if (!err && *s->certificate)
		err = http_tls_open(&n->http->tls, s->certificate, s->key, why, sizeof(why));
	if (err) {
		log_error("http", "why=\"%s\"", *why ? why : strerror(-err));
		return err;
	}
	if (s->listen[0]) {
		fd = http_server_listen(s->listen);
		err = fd < 0 ? fd : start(n, &n->http->tcp, fd, false);
		if (err) {
			log_error("http", "%s: %s%s", s->listen, strerror(-err),
				  err == -EADDRINUSE ? "; use --http-listen for another address"
						     : "");
			return err;
		}
	}
	fd = service_listen(n->settings.control_path, SOCK_STREAM, 0, &n->http->control_inode);
	err = fd < 0 ? fd : start(n, &n->http->control, fd, true);
	if (err)
		log_error("control", "%s: %s%s", n->settings.control_path, strerror(-err),
			  err == -EADDRINUSE
			      ? "; if another sysomd runs here, use --control-path for "
				"another path"
			      : "");
	return err;
}

void http_close(struct node *n)
{
	if (!n->http)
		return;
	for (uint32_t i = 0; i < HTTP_WAITING; i++)
		if (n->http->waiting[i].request && !n->http->waiting[i].done)
			http_server_resume(n->http->waiting[i].request);
	loop_source_close(n->http->tcp.source);
	loop_source_close(n->http->control.source);
	http_server_close(n->http->tcp.server);
	http_server_close(n->http->control.server);
	http_tls_close(n->http->tls);
	http_access_close(n->http->access);
	service_unlisten(n->settings.control_path, n->http->control_inode);
	free(n->http);
	n->http = NULL;
}
