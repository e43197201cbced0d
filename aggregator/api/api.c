/* SPDX-License-Identifier: Apache-2.0
 * One thread reads from all connections and answers /healthz. Workers make all other answers: those
 * of api_pool.h, or, for requests with a body, that of api_symbols.h. A long answer or a slow disk
 * therefore never delays /healthz. */
#include "aggregator/api/api.h"

#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "aggregator/api/api_pool.h"
#include "base/daemon/idle.h"
#include "base/daemon/log.h"
#include "base/daemon/peer.h"
#include "base/limits.h"
#include "base/text.h"

#define CONNECTIONS_MAX 512
/* Idle connections above this are closed. The difference leaves room for those still closing. */
#define CONNECTIONS_KEPT 384
#define CONNECTION_BYTES (24u << 10)
#define TIMEOUT_S	 15
#define SEND_BYTES	 (64 << 10) /* per connection; the kernel doubles it */

struct api {
	struct MHD_Daemon *daemon;
	struct http_hosts hosts;
	struct api_sources sources;
	struct store *readers[LIMIT_API_WORKERS]; /* of the pool's threads */
	struct api_pool *pool;
	struct api_counts counts;
	struct idle idle; /* used only by the one thread */
};

struct question {
	struct api_job job; /* first member */
	struct http_query query;
	struct api_answer answer;
};

/* One request, from its headers on. */
struct request {
	struct question *question;   /* GET and HEAD, once a worker has it */
	struct api_request *symbols; /* a request with a body */
};

static int connection_fd(struct MHD_Connection *c)
{
	const union MHD_ConnectionInfo *info =
	    MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);

	return info ? info->connect_fd : -1;
}

static enum MHD_Result send_answer(struct api *api, struct MHD_Connection *c, struct api_answer *a)
{
	struct MHD_Response *r;
	enum MHD_Result ok;

	if (a->body.failed) {
		buf_fini(&a->body);
		a->status = MHD_HTTP_INTERNAL_SERVER_ERROR;
	}
	atomic_fetch_add(&api->counts.by_class[a->status / 100 % 6], 1);
	r = MHD_create_response_from_buffer(a->body.bytes, a->body.data ? a->body.data : (void *)"",
					    a->body.data ? MHD_RESPMEM_MUST_FREE
							 : MHD_RESPMEM_PERSISTENT);
	if (!r) {
		buf_fini(&a->body);
		return MHD_NO;
	}
	buf_init(&a->body, 0); /* the response owns the bytes now */
	MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, a->type);
	MHD_add_response_header(r, "X-Content-Type-Options", "nosniff");
	MHD_add_response_header(r, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
	MHD_add_response_header(r, "Content-Security-Policy",
				"default-src 'none'; style-src 'unsafe-inline'");
	if (a->status == MHD_HTTP_METHOD_NOT_ALLOWED)
		MHD_add_response_header(r, MHD_HTTP_HEADER_ALLOW, a->allow);
	if (a->status == MHD_HTTP_SERVICE_UNAVAILABLE)
		MHD_add_response_header(r, MHD_HTTP_HEADER_RETRY_AFTER, "1");
	ok = MHD_queue_response(c, a->status, r);
	MHD_destroy_response(r);
	idle_set_busy(&api->idle, connection_fd(c), false); /* the peer must now read the answer */
	return ok;
}

static enum MHD_Result send_error(struct api *api, struct MHD_Connection *c, unsigned status,
				  const char *why)
{
	struct api_answer a;

	api_answer_init(&a);
	api_answer_error(&a, status, why);
	return send_answer(api, c, &a);
}

static void on_connection(void *arg, struct MHD_Connection *c, void **context,
			  enum MHD_ConnectionNotificationCode code)
{
	struct api *api = arg;

	if (code == MHD_CONNECTION_NOTIFY_STARTED) {
		const int bytes = SEND_BYTES;
		struct peer_key peer;

		/* a larger buffer would take a whole page at once, and /healthz would wait for the
		 * pages of all connections */
		setsockopt(connection_fd(c), SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
		peer_key_of(&peer, connection_fd(c));
		idle_add(&api->idle, connection_fd(c), peer);
		atomic_store(&api->counts.evicted, api->idle.evicted);
	} else {
		idle_remove(&api->idle, connection_fd(c));
	}
}

static void on_completed(void *arg, struct MHD_Connection *c, void **state,
			 enum MHD_RequestTerminationCode code)
{
	struct request *r = *state;
	struct api *api = arg;

	idle_set_busy(&api->idle, connection_fd(c), false);
	*state = NULL;
	if (!r)
		return;
	if (r->symbols)
		api_symbols_forget(r->symbols);
	if (r->question)
		buf_fini(&r->question->answer.body);
	free(r->question);
	free(r);
}

static enum MHD_Result begin_body(struct api *api, struct MHD_Connection *c, const char *url,
				  const char *method, struct request *r)
{
	struct api_answer a;
	const char *why;

	api_answer_init(&a);
	a.status = api_symbols_begin(api->sources.symbols, c, method, url, &r->symbols, &why);
	if (!a.status)
		return MHD_YES;
	if (!strncmp(url, "/api/v1/symbol", 14))
		a.allow = "GET, HEAD, POST, PUT, DELETE";
	api_answer_error(&a, a.status, why);
	return send_answer(api, c, &a);
}

/* POST, PUT and DELETE: called for pieces of the body, at its end, and again when the answer is
 * ready. */
static enum MHD_Result on_body(struct api *api, struct MHD_Connection *c, const char *data,
			       size_t *data_bytes, struct request *r)
{
	struct api_answer a;

	if (*data_bytes) {
		bool go_on = api_symbols_data(r->symbols, data, *data_bytes);

		*data_bytes = 0;
		idle_set_busy(&api->idle, connection_fd(c), false);
		return go_on ? MHD_YES : MHD_NO;
	}
	api_answer_init(&a);
	a.status = api_symbols_answer(r->symbols, &a.body);
	if (a.status)
		return send_answer(api, c, &a);
	buf_fini(&a.body);
	idle_set_busy(&api->idle, connection_fd(c), true);
	return MHD_YES;
}

static enum MHD_Result on_argument(void *arg, enum MHD_ValueKind kind, const char *name,
				   const char *value)
{
	(void)kind;
	http_query_add(arg, name, value);
	return MHD_YES;
}

/* Called at the end of the headers, and again when the answer is ready. */
static enum MHD_Result on_get(struct api *api, struct MHD_Connection *c, const char *url,
			      struct request *r)
{
	struct question *q = r->question;

	if (q)
		return api_pool_is_done(api->pool, &q->job) ? send_answer(api, c, &q->answer)
							    : MHD_YES;
	if (!strcmp(url, "/healthz")) {
		struct api_answer a;

		api_answer_init(&a);
		buf_puts(&a.body, "{\"status\":\"ok\"}\n");
		return send_answer(api, c, &a);
	}
	q = r->question = calloc(1, sizeof(*q));
	if (!q)
		return MHD_NO;
	api_answer_init(&q->answer);
	q->job.connection = c;
	http_query_init(&q->query, url);
	MHD_get_connection_values(c, MHD_GET_ARGUMENT_KIND, on_argument, &q->query);
	idle_set_busy(&api->idle, connection_fd(c), true);
	if (api_pool_push(api->pool, &q->job))
		return MHD_YES;
	atomic_fetch_add(&api->counts.busy, 1);
	return send_error(api, c, MHD_HTTP_SERVICE_UNAVAILABLE,
			  "too many requests are waiting; try again");
}

static enum MHD_Result on_headers(struct api *api, struct MHD_Connection *c, const char *url,
				  const char *method, bool get, void **state)
{
	struct request *r;

	if (!http_hosts_allows(&api->hosts, MHD_lookup_connection_value(c, MHD_HEADER_KIND,
									MHD_HTTP_HEADER_HOST))) {
		atomic_fetch_add(&api->counts.foreign_host, 1);
		return send_error(
		    api, c, MHD_HTTP_MISDIRECTED_REQUEST,
		    "this server does not accept the request's Host; add it to http.hosts of "
		    "sysom-aggregator");
	}
	r = calloc(1, sizeof(*r));
	if (!r)
		return MHD_NO;
	*state = r;
	return get ? MHD_YES : begin_body(api, c, url, method, r);
}

static enum MHD_Result on_request(void *arg, struct MHD_Connection *c, const char *url,
				  const char *method, const char *version, const char *data,
				  size_t *data_bytes, void **state)
{
	bool get = !strcmp(method, "GET") || !strcmp(method, "HEAD");
	struct api *api = arg;

	(void)version;
	if (!*state) /* the first call comes with the headers, the next after them */
		return on_headers(api, c, url, method, get, state);
	if (!get)
		return on_body(api, c, data, data_bytes, *state);
	if (*data_bytes) /* a GET with a body: not read */
		return MHD_NO;
	return on_get(api, c, url, *state);
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

__attribute__((format(printf, 2, 0))) static void on_mhd_log(void *arg, const char *fmt, va_list ap)
{
	char line[256];
	size_t n;

	(void)arg;
	vsnprintf(line, sizeof(line), fmt, ap);
	n = strcspn(line, "\n");
	log_debug("http", "message=\"%.*s\"", (int)n, line);
}

static void answer(void *arg, uint32_t thread, struct api_job *job, bool stopping)
{
	const struct api *a = arg;
	struct question *q = (struct question *)job;
	struct api_sources sources = a->sources;

	sources.store = a->readers[thread];
	if (stopping)
		api_answer_error(&q->answer, MHD_HTTP_SERVICE_UNAVAILABLE, "stopping");
	else
		api_route(&sources, &q->query, &q->answer);
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

int api_open(struct api **out, const struct api_config *config, const struct api_sources *sources)
{
	struct api *a = calloc(1, sizeof(*a));
	unsigned flags =
	    MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_ERROR_LOG | MHD_ALLOW_SUSPEND_RESUME;
	struct sockaddr_storage address;
	int err;

	if (!a)
		return -ENOMEM;
	a->sources = *sources;
	a->sources.http = &a->counts;
	idle_init(&a->idle, CONNECTIONS_KEPT);
	err = parse_listen(config->listen, &address);
	if (!err)
		err = http_hosts_init(&a->hosts, config->listen, config->hosts);
	if (!err)
		err = api_symbols_open(&a->sources.symbols, config->symbols);
	if (!err)
		err = open_pool(a, config->store_dir);
	if (!err) {
		if (address.ss_family == AF_INET6)
			flags |= MHD_USE_IPv6;
		errno = 0;
		a->daemon = MHD_start_daemon(
		    flags, 0, NULL, NULL, on_request, a, MHD_OPTION_EXTERNAL_LOGGER, on_mhd_log,
		    NULL, MHD_OPTION_SOCK_ADDR, (struct sockaddr *)&address,
		    MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS_MAX,
		    MHD_OPTION_NOTIFY_CONNECTION, on_connection, a, MHD_OPTION_NOTIFY_COMPLETED,
		    on_completed, a, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_BYTES,
		    MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)TIMEOUT_S, MHD_OPTION_END);
		if (!a->daemon)
			err = errno ? -errno : -EIO;
	}
	if (err) {
		log_error("listen", "http=%s why=\"%s\"", config->listen, strerror(-err));
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
	api_symbols_stop(a->sources.symbols);
	api_pool_stop(a->pool);
	if (a->daemon)
		MHD_stop_daemon(a->daemon);
	api_pool_close(a->pool);
	for (uint32_t i = 0; i < LIMIT_API_WORKERS; i++)
		store_close(a->readers[i]);
	api_symbols_close(a->sources.symbols);
	free(a);
}
