/* SPDX-License-Identifier: Apache-2.0
 * One thread reads from all connections and answers /healthz. Workers make all other answers: those
 * of api_pool.h, or, for requests with a body, that of api_symbols.h. A long answer or a slow disk
 * therefore never delays /healthz. */
#include "aggregator/api/api.h"

#include <errno.h>
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>

#include "aggregator/api/api_pool.h"
#include "base/daemon/log.h"
#include "base/limits.h"

#define CONNECTIONS_MAX 512
/* Idle connections above this are closed. The difference leaves room for those still closing. */
#define CONNECTIONS_KEPT 384
#define CONNECTION_BYTES (24u << 10)
#define TIMEOUT_S	 15
#define SEND_BYTES	 (64u << 10)

struct api {
	struct http_server *server;
	struct http_hosts hosts;
	struct http_access *access;
	struct http_tls *tls;
	struct api_sources sources;
	struct store *readers[LIMIT_API_WORKERS]; /* of the pool's threads */
	struct api_pool *pool;
	struct api_counts counts;
};

/* Of one request, in http_request.own. */
struct question {
	struct api_job job;	     /* first member; GET and HEAD */
	struct api_request *symbols; /* a request with a body */
};

/* Symbol files are for nodes; what else has a body asks only. */
static unsigned needs(void *arg, const struct http_request *r)
{
	(void)arg;
	return strncmp(r->query.path, "/api/v1/symbols/", 16) ? HTTP_ROLE_READ : HTTP_ROLE_UPLOAD;
}

static bool asks(void *arg, const struct http_request *r)
{
	(void)arg;
	return api_symbols_asks(r->query.path);
}

static bool on_begin(void *arg, struct http_request *r)
{
	struct question *q = (struct question *)r->own;
	struct api *api = arg;
	const char *why;
	unsigned status;

	if (r->get)
		return true;
	status = api_symbols_begin(api->sources.symbols, r, &q->symbols, &why);
	if (!strncmp(r->query.path, "/api/v1/symbol", 14))
		r->answer.allow = "GET, HEAD, POST, PUT, DELETE";
	if (status)
		http_answer_error(&r->answer, status, why);
	return !status;
}

static bool on_body(void *arg, struct http_request *r, const void *data, size_t bytes)
{
	struct question *q = (struct question *)r->own;

	return q->symbols && api_symbols_data(q->symbols, data, bytes);
}

static bool on_get(struct api *api, struct http_request *r)
{
	struct question *q = (struct question *)r->own;

	if (q->job.request)
		return api_pool_is_done(api->pool, &q->job);
	if (!strcmp(r->query.path, "/healthz")) {
		buf_puts(&r->answer.body, "{\"status\":\"ok\"}\n");
		return true;
	}
	q->job.request = r;
	if (api_pool_push(api->pool, &q->job))
		return false;
	atomic_fetch_add(&api->counts.busy, 1);
	http_answer_error(&r->answer, MHD_HTTP_SERVICE_UNAVAILABLE,
			  "too many requests are waiting; try again");
	return true;
}

static bool on_finish(void *arg, struct http_request *r)
{
	struct question *q = (struct question *)r->own;

	if (r->get)
		return on_get(arg, r);
	r->answer.status = api_symbols_answer(q->symbols, &r->answer.body);
	return r->answer.status;
}

static void on_end(void *arg, struct http_request *r)
{
	struct question *q = (struct question *)r->own;

	if (q->symbols)
		api_symbols_forget(q->symbols);
}

static const struct http_handlers handlers = {.needs = needs,
					      .asks = asks,
					      .begin = on_begin,
					      .body = on_body,
					      .finish = on_finish,
					      .end = on_end,
					      .own_bytes = sizeof(struct question),
					      .answer_max_bytes = API_ANSWER_BYTES};

static void answer(void *arg, uint32_t thread, struct api_job *job, bool stopping)
{
	const struct api *a = arg;
	struct http_request *r = job->request;
	struct api_sources sources = a->sources;

	sources.store = a->readers[thread];
	sources.user = &r->user;
	if (stopping)
		http_answer_error(&r->answer, MHD_HTTP_SERVICE_UNAVAILABLE, "stopping");
	else
		api_route(&sources, &r->query, &r->answer);
}

static int open_pool(struct api *a, const char *store_dir)
{
	const struct api_pool_config pool = {.threads = LIMIT_API_WORKERS,
					     .waiting_max = LIMIT_API_WAITING,
					     .work = answer,
					     .arg = a};
	int err = 0;

	for (uint32_t i = 0; i < LIMIT_API_WORKERS && !err; i++)
		err = store_open_reader(&a->readers[i], store_dir);
	return err ? err : api_pool_open(&a->pool, &pool);
}

static int open_server(struct api *a, const char *listen)
{
	const struct http_server_config c = {.program = "sysom-aggregator",
					     .hosts = &a->hosts,
					     .counts = &a->counts.server,
					     .access = a->access,
					     .tls = a->tls,
					     .own_thread = true,
					     .connections_max = CONNECTIONS_MAX,
					     .connections_kept = CONNECTIONS_KEPT,
					     .connection_bytes = CONNECTION_BYTES,
					     .timeout_s = TIMEOUT_S,
					     .send_bytes = SEND_BYTES};
	int fd = http_server_listen(listen);

	return fd < 0 ? fd : http_server_open(&a->server, fd, &c, &handlers, a);
}

int api_open(struct api **out, const struct api_config *config, const struct api_sources *sources)
{
	struct api *a = calloc(1, sizeof(*a));
	const struct http_settings *s = config->http;
	char why[512] = "";
	int err;

	if (!a)
		return -ENOMEM;
	a->sources = *sources;
	a->sources.http = &a->counts;
	err = http_hosts_init(&a->hosts, s->listen, s->hosts);
	if (!err)
		err = http_access_open(&a->access, s, why, sizeof(why));
	if (!err && *s->certificate)
		err = http_tls_open(&a->tls, s->certificate, s->key, why, sizeof(why));
	if (!err)
		err = api_symbols_open(&a->sources.symbols, config->symbols);
	if (!err)
		err = open_pool(a, config->store_dir);
	if (!err)
		err = open_server(a, s->listen);
	if (err) {
		log_error("listen", "http=%s why=\"%s\"", s->listen, *why ? why : strerror(-err));
		api_close(a);
		return err;
	}
	*out = a;
	return 0;
}

void api_write_metrics(struct api *a, struct metrics *m)
{
	api_metrics(&a->sources, m);
}

void api_close(struct api *a)
{
	if (!a)
		return;
	api_symbols_stop(a->sources.symbols);
	api_pool_stop(a->pool);
	http_server_close(a->server);
	http_tls_close(a->tls);
	http_access_close(a->access);
	api_pool_close(a->pool);
	for (uint32_t i = 0; i < LIMIT_API_WORKERS; i++)
		store_close(a->readers[i]);
	api_symbols_close(a->sources.symbols);
	free(a);
}
