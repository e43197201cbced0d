/* SPDX-License-Identifier: Apache-2.0 */
#include "base/http/http_server.h"

#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/http/idle.h"
#include "base/daemon/log.h"
#include "base/daemon/peer.h"
#include "base/http/http_address.h"
#include "base/text/text.h"

#define TURNS 8
#define REALM "sysom"
/* Appears only in the log: no answer was sent. Other servers also log this status when a client has
 * left. */
#define UNANSWERED 499u

struct http_server {
	struct http_server_config config;
	const struct http_handlers *handlers;
	void *arg;
	struct MHD_Daemon *daemon;
	struct idle idle;
};

static int connection_fd(struct MHD_Connection *c)
{
	const union MHD_ConnectionInfo *info =
	    MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);

	return info ? info->connect_fd : -1;
}

/* Whether the request counts as a change. This does not depend on its path, so no handler can
 * forget the audit line. A handler that has only accepted a piece of a body has changed nothing
 * yet. */
static bool is_change(const struct http_request *r, unsigned status)
{
	const struct http_server *s = r->server;

	return !r->get && status != MHD_HTTP_ACCEPTED &&
	       !(s->handlers->asks && s->handlers->asks(s->arg, r));
}

/* Writes one line per change: who, from where, what, and with which result. A stranger can cause
 * any number of refusals, so only their lines are rate-limited (base/daemon/log.h). Quotes in a
 * job's name must not end a value. */
static void audit(const struct http_request *r, unsigned status)
{
	static struct log_site refusals;
	const bool refused = status / 100 == 4 || status == MHD_HTTP_SERVICE_UNAVAILABLE;
	char what[HTTP_CHANGE_BYTES];

	if (!is_change(r, status))
		return;
	if (*r->answer.change)
		text_copy(what, sizeof(what), r->answer.change);
	else
		snprintf(what, sizeof(what), "%.16s %.200s", r->method, r->query.path);
	for (char *p = what; *p; p++)
		if (*p == '"' || *p == '\\')
			*p = '?';
	log_write(refused && status != UNANSWERED ? &refusals : NULL, LOG_AUDIT, "change",
		  "who=\"%s\" role=%s from=%s what=\"%s\" status=%u",
		  *r->user.name ? r->user.name : "unknown", http_user_role_name(r->user.roles),
		  r->from, what, status);
}

/* Bearer is for programs; Basic makes browsers ask people for a password. */
static void add_challenge(struct MHD_Response *response)
{
	MHD_add_response_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE,
				"Bearer realm=\"" REALM "\"");
	MHD_add_response_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE,
				"Basic realm=\"" REALM "\", charset=\"UTF-8\"");
}

static enum MHD_Result send_answer(struct http_request *r)
{
	struct http_answer *a = &r->answer;
	struct http_server *s = r->server;
	struct MHD_Response *response;
	enum MHD_Result ok;

	if (a->body.failed)
		http_answer_error(a, MHD_HTTP_INTERNAL_SERVER_ERROR,
				  "the answer does not fit into memory");
	atomic_fetch_add(&s->config.counts->by_class[a->status / 100 % 6], 1);
	audit(r, a->status);
	r->answered = true;
	response = MHD_create_response_from_buffer(
	    a->body.bytes, a->body.data ? a->body.data : (void *)"",
	    a->body.data ? MHD_RESPMEM_MUST_FREE : MHD_RESPMEM_PERSISTENT);
	if (!response)
		return MHD_NO;
	buf_init(&a->body, 0); /* the response owns the bytes now */
	MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, a->type);
	MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
	MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
	MHD_add_response_header(response, "Content-Security-Policy",
				"default-src 'none'; style-src 'unsafe-inline'");
	if (a->status == MHD_HTTP_METHOD_NOT_ALLOWED)
		MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, a->allow);
	if (a->status == MHD_HTTP_UNAUTHORIZED)
		add_challenge(response);
	if (a->status == MHD_HTTP_SERVICE_UNAVAILABLE)
		MHD_add_response_header(response, MHD_HTTP_HEADER_RETRY_AFTER, "1");
	ok = MHD_queue_response(r->connection, a->status, response);
	MHD_destroy_response(response);
	idle_set_busy(&s->idle, r->fd, false); /* the peer must now read the answer */
	return ok;
}

static void on_connection(void *arg, struct MHD_Connection *c, void **context,
			  enum MHD_ConnectionNotificationCode code)
{
	const int fd = connection_fd(c);
	struct http_server *s = arg;
	struct peer_key peer;
	uint64_t before = s->idle.evicted;

	if (code != MHD_CONNECTION_NOTIFY_STARTED) {
		idle_remove(&s->idle, fd);
		return;
	}
	/* A larger send buffer would take a whole page at once, and /healthz would wait for the
	 * pages of all connections. */
	if (s->config.send_bytes)
		setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &s->config.send_bytes,
			   sizeof(s->config.send_bytes));
	peer_key_of(&peer, fd);
	idle_add(&s->idle, fd, peer);
	atomic_fetch_add(&s->config.counts->evicted, s->idle.evicted - before);
}

static void on_completed(void *arg, struct MHD_Connection *c, void **state,
			 enum MHD_RequestTerminationCode code)
{
	struct http_request *r = *state;
	struct http_server *s = arg;

	*state = NULL;
	if (!r)
		return;
	idle_set_busy(&s->idle, r->fd, false);
	if (r->acted && !r->answered)
		audit(r, UNANSWERED);
	s->handlers->end(s->arg, r);
	buf_fini(&r->answer.body);
	free(r);
}

static enum MHD_Result on_argument(void *arg, enum MHD_ValueKind kind, const char *name,
				   const char *value)
{
	http_query_add(arg, name, value);
	return MHD_YES;
}

static const char *header(struct MHD_Connection *c, const char *name)
{
	return MHD_lookup_connection_value(c, MHD_HEADER_KIND, name);
}

static enum MHD_Result on_header(void *arg, enum MHD_ValueKind kind, const char *name,
				 const char *value)
{
	const char **foreign = arg;

	if (http_access_is_direct(name))
		return MHD_YES;
	*foreign = name;
	return MHD_NO;
}

/* A browser sends a stored password even with requests that pages of other sites cause. So a
 * password allows only reading. */
static unsigned identify(struct http_request *r, const char **why)
{
	struct MHD_Connection *c = r->connection;
	const char *authorization = header(c, MHD_HTTP_HEADER_AUTHORIZATION);
	struct http_sender from = {.sock = r->fd};
	char *name = NULL, *password = NULL;
	unsigned status;

	MHD_get_connection_values(c, MHD_HEADER_KIND, on_header, &from.foreign);
	if (http_query_get(&r->query, "token") || http_query_get(&r->query, "access_token")) {
		*why = "a token in a URL ends in logs and histories; send it in the header "
		       "Authorization";
		return MHD_HTTP_BAD_REQUEST;
	}
	if (authorization && !strncasecmp(authorization, "Bearer ", 7)) {
		from.token = authorization + 7 + strspn(authorization + 7, " ");
	} else if (authorization) {
		name = MHD_basic_auth_get_username_password(c, &password);
		from.token = password ? password : "";
		from.basic = true;
	}
	status = http_access_user(r->server->config.access, &from, &r->user, why);
	if (password)
		explicit_bzero(password, strlen(password));
	MHD_free(password);
	MHD_free(name);
	if (!status && from.basic && !r->get) {
		*why = "a change needs the token in the header Authorization: Bearer TOKEN";
		return MHD_HTTP_FORBIDDEN;
	}
	return status;
}

/* Refuses a sender without the rights that the path needs. */
static bool is_allowed(struct http_request *r)
{
	struct http_server *s = r->server;
	struct http_counts *counts = s->config.counts;
	const char *why = "";
	char text[256];
	unsigned needs, status;

	if (r->get && !strcmp(r->query.path, "/healthz"))
		return true;
	status = identify(r, &why);
	if (status) {
		atomic_fetch_add(&counts->no_token, 1);
		http_answer_error(&r->answer, status, why);
		return false;
	}
	needs = s->handlers->needs(s->arg, r);
	if (!needs || (needs & r->user.roles))
		return true;
	atomic_fetch_add(&counts->no_role, 1);
	snprintf(text, sizeof(text), "%s has the role %s, and this needs %s", r->user.name,
		 http_user_role_name(r->user.roles), http_user_role_name(needs));
	http_answer_error(&r->answer, MHD_HTTP_FORBIDDEN, text);
	return false;
}

/* The headers of a request. */
static enum MHD_Result begin(struct http_server *s, struct MHD_Connection *c, const char *path,
			     const char *method, void **state)
{
	struct http_request *r = calloc(1, sizeof(*r) + s->handlers->own_bytes);
	char why[128];

	if (!r)
		return MHD_NO;
	*state = r;
	r->server = s;
	r->connection = c;
	r->fd = connection_fd(c);
	r->method = method;
	r->get = !strcmp(method, MHD_HTTP_METHOD_GET) || !strcmp(method, MHD_HTTP_METHOD_HEAD);
	peer_text(r->fd, r->from); /* later the socket may not know its peer any more */
	http_query_init(&r->query, path);
	MHD_get_connection_values(c, MHD_GET_ARGUMENT_KIND, on_argument, &r->query);
	http_answer_init(&r->answer, s->handlers->answer_max_bytes);
	if (s->config.hosts &&
	    !http_hosts_allows(s->config.hosts, header(c, MHD_HTTP_HEADER_HOST))) {
		atomic_fetch_add(&s->config.counts->foreign_host, 1);
		snprintf(
		    why, sizeof(why),
		    "this server does not accept the request's Host; add it to http.hosts of %s",
		    s->config.program);
		http_answer_error(&r->answer, MHD_HTTP_MISDIRECTED_REQUEST, why);
		return send_answer(r);
	}
	return is_allowed(r) && s->handlers->begin(s->arg, r) ? MHD_YES : send_answer(r);
}

static enum MHD_Result on_request(void *arg, struct MHD_Connection *c, const char *path,
				  const char *method, const char *version, const char *data,
				  size_t *data_bytes, void **state)
{
	struct http_request *r = *state;
	struct http_server *s = arg;
	bool good;

	if (!r) /* the first call has only the headers; later calls follow */
		return begin(s, c, path, method, state);
	if (*data_bytes) {
		good = s->handlers->body(s->arg, r, data, *data_bytes);
		*data_bytes = 0;
		idle_set_busy(&s->idle, r->fd, false);
		return good ? MHD_YES : MHD_NO;
	}
	r->acted = true;
	if (s->handlers->finish(s->arg, r))
		return send_answer(r);
	idle_set_busy(&s->idle, r->fd, true);
	return MHD_YES;
}

void http_server_suspend(struct http_request *r)
{
	MHD_suspend_connection(r->connection);
}

void http_server_resume(struct http_request *r)
{
	MHD_resume_connection(r->connection);
}

const char *http_server_header(const struct http_request *r, const char *name)
{
	const char *v = header(r->connection, name);

	return v ? v : "";
}

/* ---- listening ---- */

int http_server_listen(const char *listen_on)
{
	const struct addrinfo hints = {.ai_family = AF_UNSPEC,
				       .ai_socktype = SOCK_STREAM,
				       .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
	struct addrinfo *ai;
	char host[256];
	const char *port = http_address_split(listen_on, host);
	int fd, on = 1, err;

	if (!port || getaddrinfo(*host ? host : NULL, port, &hints, &ai))
		return -EINVAL;
	fd = socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	err = fd < 0 ? -errno : 0;
	if (!err) {
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
		if (bind(fd, ai->ai_addr, ai->ai_addrlen) || listen(fd, SOMAXCONN))
			err = -errno;
	}
	freeaddrinfo(ai);
	if (err && fd >= 0)
		close(fd);
	return err ? err : fd;
}

__attribute__((format(printf, 2, 0))) static void on_mhd_log(void *arg, const char *fmt, va_list ap)
{
	char line[256];
	size_t n;

	vsnprintf(line, sizeof(line), fmt, ap);
	n = strcspn(line, "\n");
	log_debug("http", "message=\"%.*s\"", (int)n, line);
}

int http_server_open(struct http_server **out, int fd, const struct http_server_config *config,
		     const struct http_handlers *handlers, void *arg)
{
	const struct MHD_OptionItem tls[] = {
	    {MHD_OPTION_HTTPS_PRIORITIES, 0, HTTP_TLS_PRIORITIES},
	    {MHD_OPTION_HTTPS_CERT_CALLBACK2, 0, http_tls_retrieve()},
	    {MHD_OPTION_END, 0, NULL}};
	struct http_server *s = calloc(1, sizeof(*s));

	if (!s) {
		close(fd);
		return -ENOMEM;
	}
	if (config->tls)
		http_tls_use(config->tls);
	s->config = *config;
	s->handlers = handlers;
	s->arg = arg;
	idle_init(&s->idle, config->connections_kept);
	s->daemon = MHD_start_daemon(
	    (config->own_thread ? MHD_USE_EPOLL_INTERNAL_THREAD : MHD_USE_EPOLL) |
		(config->tls ? MHD_USE_TLS : 0) | MHD_USE_ERROR_LOG | MHD_ALLOW_SUSPEND_RESUME,
	    0, NULL, NULL, on_request, s, MHD_OPTION_EXTERNAL_LOGGER, on_mhd_log, NULL,
	    MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT, config->connections_max,
	    MHD_OPTION_NOTIFY_CONNECTION, on_connection, s, MHD_OPTION_NOTIFY_COMPLETED,
	    on_completed, s, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)config->connection_bytes,
	    MHD_OPTION_CONNECTION_TIMEOUT, config->timeout_s, MHD_OPTION_ARRAY,
	    config->tls ? tls : tls + 2, MHD_OPTION_END);
	if (!s->daemon) {
		close(fd);
		free(s);
		return -EIO;
	}
	*out = s;
	return 0;
}

void http_server_close(struct http_server *s)
{
	if (!s)
		return;
	MHD_stop_daemon(s->daemon);
	free(s);
}

int http_server_fd(const struct http_server *s)
{
	const union MHD_DaemonInfo *info = MHD_get_daemon_info(s->daemon, MHD_DAEMON_INFO_EPOLL_FD);

	return info ? info->epoll_fd : -1;
}

bool http_server_is_due(const struct http_server *s)
{
	MHD_UNSIGNED_LONG_LONG wait_ms;

	return MHD_get_timeout(s->daemon, &wait_ms) == MHD_YES && !wait_ms;
}

/* The descriptor reports new events only. Connections that can go on at once stay in the daemon's
 * own list. */
void http_server_run(struct http_server *s)
{
	for (int i = 0; i < TURNS; i++) {
		MHD_run(s->daemon);
		if (!http_server_is_due(s))
			return;
	}
}

/* ---- settings ---- */

static int check_files(const struct http_settings *s, char *why, size_t why_bytes)
{
	struct http_access *access;
	struct http_tls *tls = NULL;
	int err = http_access_open(&access, s, why, why_bytes);

	if (err)
		return err;
	if (*s->certificate)
		err = http_tls_open(&tls, s->certificate, s->key, why, why_bytes);
	http_tls_close(tls);
	http_access_close(access);
	return err;
}

int http_server_check(const struct http_settings *s, char *why, size_t why_bytes)
{
	const char *bad = NULL;
	const bool beyond = *s->listen && !http_address_is_loopback(s->listen);
	struct http_hosts hosts;

	if (*s->listen && !http_address_is_valid(s->listen))
		return config_refuse(why, why_bytes, "http.listen", s->listen,
				     "not ADDRESS:PORT or NAME:PORT, port 0 to 65535");
	if (http_hosts_init(&hosts, s->listen, s->hosts))
		bad = "http.hosts is not a list of names separated by commas, of at most 1 KiB";
	else if (!http_access_is_uids(s->see_all))
		return config_refuse(why, why_bytes, "http.see_all", s->see_all,
				     "not a list of uids (numbers) separated by commas, nor *");
	else if (!*s->certificate != !*s->key)
		bad = "http.certificate and http.key need each other";
	else if (beyond && !*s->tokens)
		return config_refuse(
		    why, why_bytes, "http.listen", s->listen,
		    "beyond this machine, where requests need tokens; set http.tokens, or listen "
		    "on 127.0.0.1");
	else if (beyond && !*s->certificate && !s->insecure)
		bad = "http.tokens: tokens would cross the network unencrypted; set "
		      "http.certificate and http.key, or http.insecure where something else "
		      "encrypts";
	if (!bad)
		return check_files(s, why, why_bytes);
	snprintf(why, why_bytes, "%s", bad);
	return -EINVAL;
}
