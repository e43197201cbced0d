/* SPDX-License-Identifier: Apache-2.0
 * HTTP on the loop's own thread: libmicrohttpd's epoll descriptor is one more source of the loop, so
 * that handlers see a consistent node and need no lock. Two listeners: TCP for reading, and a Unix
 * socket, which only who may attach as us can open, for what changes something. */
#include <errno.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <netdb.h>
#include <unistd.h>

#include "base/daemon/idle.h"
#include "base/daemon/log.h"
#include "base/daemon/peer.h"
#include "base/daemon/prometheus.h"
#include "base/daemon/service.h"
#include "base/json_text.h"
#include "sidecar/node.h"
#include "sidecar/viewer.h"

#define HTTP_BODY_BYTES (4u << 20)
#define HTTP_WAITING	16u
#define HTTP_TURNS	8
/* Idle ones go beyond HTTP_KEPT; between the two is room for those that are on their way out. */
#define HTTP_CONNECTIONS 96u
#define HTTP_KEPT	 64u
#define HTTP_TRACE_NS	 900000000ull /* the answer is due within a second */

/* A POST trace that waits for its processes. */
struct waiting {
	struct MHD_Connection *connection; /* NULL: free */
	uint64_t until_ns;
	bool done;
	struct {
		uint64_t process; /* its number; 0 ends */
		uint32_t serial;
		bool was; /* in the wanted state already */
	} of[LIMIT_NODE_PROCESSES];
	uint32_t count;
	uint32_t wanted; /* RING_TRACE_ON, RING_TRACE_OFF */
};

struct listener {
	struct node *node;
	struct MHD_Daemon *daemon;
	struct loop_source *source;
	bool control;
	struct idle idle;
};

struct http {
	struct listener tcp, control;
	struct http_hosts hosts;
	uint64_t foreign_host; /* requests refused for it */
	struct waiting waiting[HTTP_WAITING];
	ino_t control_inode;
	bool control_bound;
};

static enum MHD_Result answer(struct MHD_Connection *c, unsigned code, const char *type,
			      const char *body, size_t bytes)
{
	struct MHD_Response *r =
	    MHD_create_response_from_buffer(bytes, (void *)(uintptr_t)body, MHD_RESPMEM_MUST_COPY);
	enum MHD_Result ok = MHD_NO;

	if (!r)
		return MHD_NO;
	if (MHD_add_response_header(r, "Content-Type", type) == MHD_YES)
		ok = MHD_queue_response(c, code, r);
	MHD_destroy_response(r);
	return ok;
}

static enum MHD_Result answer_text(struct MHD_Connection *c, unsigned code, const char *body)
{
	return answer(c, code, body[0] == '{' ? "application/json" : "text/plain", body,
		      strlen(body));
}

static int connection_fd(struct MHD_Connection *c)
{
	const union MHD_ConnectionInfo *info =
	    MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);

	return info ? info->connect_fd : -1;
}

static enum MHD_Result answer_with(struct node *n, struct MHD_Connection *c, const char *type,
				   void (*fill)(struct node *n, const struct viewer *v,
						struct buf *b))
{
	enum MHD_Result ok;
	struct viewer v;
	struct buf b;

	buf_init(&b, HTTP_BODY_BYTES);
	viewer_of(&v, connection_fd(c), n->settings.http_see_all);
	fill(n, &v, &b);
	if (b.failed)
		ok = answer_text(c, 500, "{\"error\":\"too much to tell\"}\n");
	else
		ok = answer(c, 200, type, (const char *)b.data, b.bytes);
	buf_fini(&b);
	return ok;
}

static const char *argument(struct MHD_Connection *c, const char *name)
{
	return MHD_lookup_connection_value(c, MHD_GET_ARGUMENT_KIND, name);
}

/* rank=N; INT32_MIN when absent, false when it is no number. */
static bool rank_argument(struct MHD_Connection *c, int32_t *rank)
{
	const char *text = argument(c, "rank");
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

/* A name that several users' jobs have: nobody's is touched, and the answer names them. attached: only
 * processes that are still there count. True: answered with *ok. */
static bool refuses_name(struct node *n, struct MHD_Connection *c, bool attached,
			 enum MHD_Result *ok)
{
	const char *job = argument(c, "job"), *keys[LIMIT_NODE_PROCESSES];
	uint32_t count = 0, k;
	struct buf why, b;

	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++) {
		const struct process *p = n->processes[i];

		if (!p || (attached && p->state != PROCESS_ATTACHED) || !job || !*job ||
		    !process_matches(p, job, INT32_MIN))
			continue;
		for (k = 0; k < count && strcmp(keys[k], p->id.job); k++)
			;
		if (k == count)
			keys[count++] = p->id.job;
	}
	if (count < 2)
		return false;
	buf_init(&why, HTTP_BODY_BYTES);
	buf_init(&b, HTTP_BODY_BYTES);
	buf_puts(&why, "several users have a job of that name; name one of ");
	for (k = 0; k < count; k++)
		buf_printf(&why, "%s%s", k ? ", " : "", keys[k]);
	json_text_append(&b, "{\"error\":", why.failed ? "" : (const char *)why.data);
	buf_puts(&b, "}\n");
	buf_fini(&why);
	*ok = answer(c, MHD_HTTP_CONFLICT, "application/json", (const char *)b.data, b.bytes);
	buf_fini(&b);
	return true;
}

/* ---- trace on and off ---- */

static struct process *find_process(struct node *n, uint64_t serial)
{
	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++)
		if (n->processes[i] && n->processes[i]->serial == serial)
			return n->processes[i];
	return NULL;
}

static bool has_acked(struct node *n, const struct waiting *w, uint32_t i, bool *gone)
{
	struct process *p = find_process(n, w->of[i].process);

	*gone = !p || p->state != PROCESS_ATTACHED;
	return !*gone && (int32_t)(p->acked_serial - w->of[i].serial) >= 0;
}

static bool is_settled(struct node *n, const struct waiting *w)
{
	bool gone;

	for (uint32_t i = 0; i < w->count; i++)
		if (!has_acked(n, w, i, &gone) && !gone)
			return false;
	return true;
}

/* Latched is off for good. */
static bool is_state(const struct process *p, uint32_t wanted)
{
	return p->trace_state == wanted ||
	       (wanted == RING_TRACE_OFF && p->trace_state == RING_TRACE_LATCHED);
}

/* changed: were in another state and are in the wanted one now. already: were in it before. The rest
 * of those asked has not said so in time, or can't (latched off by a fault of its own). */
static enum MHD_Result answer_trace(struct node *n, struct MHD_Connection *c, struct waiting *w)
{
	uint32_t changed = 0, already = 0, done = 0;
	enum MHD_Result ok;
	struct buf ranks, b;
	bool gone;

	buf_init(&ranks, HTTP_BODY_BYTES);
	buf_init(&b, HTTP_BODY_BYTES);
	for (uint32_t i = 0; i < w->count; i++) {
		struct process *p = find_process(n, w->of[i].process);

		if (!has_acked(n, w, i, &gone))
			continue;
		done++;
		if (p->trace_state != w->wanted)
			continue;
		already += w->of[i].was;
		if (!w->of[i].was)
			buf_printf(&ranks, "%s%d", changed++ ? "," : "", p->id.rank);
	}
	buf_printf(&b, "{\"changed\":%u,\"already\":%u,\"asked\":%u,\"ranks\":[", changed, already,
		   w->count);
	buf_append(&b, ranks.data, ranks.bytes);
	buf_puts(&b, "]");
	if (done < w->count)
		buf_printf(&b,
			   ",\"error\":\"%u of %u processes did not answer in time; the others "
			   "did as asked\"",
			   w->count - done, w->count);
	buf_puts(&b, "}\n");
	ok = answer(c, done == w->count ? 200 : 504, "application/json", (const char *)b.data,
		    b.bytes);
	buf_fini(&ranks);
	buf_fini(&b);
	return ok;
}

static enum MHD_Result on_trace(struct node *n, struct MHD_Connection *c, void **state)
{
	const char *want = argument(c, "state");
	struct waiting *w = NULL;
	enum MHD_Result ok;
	int32_t rank;
	uint32_t kind;

	if (!want || (strcmp(want, "on") && strcmp(want, "off")) || !rank_argument(c, &rank))
		return answer_text(c, 400, "{\"error\":\"state=on|off[&rank=N][&job=J]\"}\n");
	if (refuses_name(n, c, true, &ok))
		return ok;
	kind = strcmp(want, "on") ? ATTACH_OFF : ATTACH_ON;
	for (uint32_t i = 0; i < HTTP_WAITING && !w; i++)
		if (!n->http->waiting[i].connection)
			w = &n->http->waiting[i];
	if (!w)
		return answer_text(c, 503, "{\"error\":\"too many requests wait\"}\n");
	*w = (struct waiting){.until_ns = clock_monotonic_ns() + HTTP_TRACE_NS,
			      .wanted = kind == ATTACH_ON ? RING_TRACE_ON : RING_TRACE_OFF};
	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++) {
		struct process *p = n->processes[i];
		int64_t serial;

		if (!p || p->state != PROCESS_ATTACHED ||
		    !process_matches(p, argument(c, "job"), rank))
			continue;
		serial = process_command(p, kind);
		if (serial < 0)
			continue;
		w->of[w->count].process = p->serial;
		w->of[w->count].was = is_state(p, w->wanted);
		w->of[w->count++].serial = (uint32_t)serial;
	}
	if (!w->count)
		return answer_text(c, 404,
				   "{\"changed\":0,\"already\":0,\"asked\":0,\"ranks\":[]}\n");
	w->connection = c;
	*state = w;
	MHD_suspend_connection(c);
	return MHD_YES;
}

/* ---- capture ---- */

static enum MHD_Result on_capture(struct node *n, struct MHD_Connection *c)
{
	const char *text = argument(c, "seconds");
	double seconds = text ? strtod(text, NULL) : 10;
	uint64_t now_ns = clock_monotonic_ns(), back_ns;
	uint32_t count = 0, failed = 0;
	enum MHD_Result ok;
	char body[96];
	int32_t rank;

	if (!rank_argument(c, &rank) || !(seconds > 0) || seconds > 3600)
		return answer_text(c, 400, "{\"error\":\"rank=N[&seconds=S][&job=J]\"}\n");
	if (refuses_name(n, c, false, &ok))
		return ok;
	back_ns = (uint64_t)(seconds * 1e9);
	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++) {
		struct process *p = n->processes[i];

		if (!p || !process_matches(p, argument(c, "job"), rank))
			continue;
		if (ship_range(p, WINDOW_MANUAL, now_ns > back_ns ? now_ns - back_ns : 0, now_ns,
			       NULL))
			failed++;
		else
			count++;
	}
	snprintf(body, sizeof(body), "{\"windows\":%u,\"failed\":%u}\n", count, failed);
	return answer_text(c, count ? 200 : failed ? 500 : 404, body);
}

/* ---- requests ---- */

static enum MHD_Result on_get(struct node *n, struct MHD_Connection *c, const char *url)
{
	if (!strcmp(url, "/healthz"))
		return answer_text(c, 200, "ok\n");
	if (!strcmp(url, "/metrics"))
		return answer_with(n, c, PROMETHEUS_TYPE, status_metrics);
	if (!strcmp(url, "/api/v1/status"))
		return answer_with(n, c, "application/json", status_json);
	return answer_text(c, 404, "{\"error\":\"not found\"}\n");
}

static void on_connection(void *arg, struct MHD_Connection *c, void **context,
			  enum MHD_ConnectionNotificationCode code)
{
	struct listener *l = arg;

	struct peer_key peer;

	if (code == MHD_CONNECTION_NOTIFY_STARTED) {
		peer_key_of(&peer, connection_fd(c));
		idle_add(&l->idle, connection_fd(c), peer);
	} else {
		idle_remove(&l->idle, connection_fd(c));
	}
}

static char first_call; /* its address marks a connection whose headers have been seen */

static enum MHD_Result on_request(void *arg, struct MHD_Connection *c, const char *url,
				  const char *method, const char *version, const char *data,
				  size_t *data_bytes, void **state)
{
	struct listener *l = arg;
	struct node *n = l->node;

	if (!*state) {
		/* no browser opens a Unix socket */
		const char *host =
		    MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_HOST);

		if (!l->control && !http_hosts_allows(&n->http->hosts, host)) {
			n->http->foreign_host++;
			return answer_text(c, MHD_HTTP_MISDIRECTED_REQUEST,
					   "{\"error\":\"not by this name: add it to "
					   "http.hosts of sysomd\"}\n");
		}
		*state = &first_call;
		return MHD_YES;
	}
	if (*data_bytes) { /* bodies are not used */
		*data_bytes = 0;
		return MHD_YES;
	}
	if (*state != &first_call) {
		struct waiting *w = *state;
		enum MHD_Result ok = answer_trace(n, c, w);

		*w = (struct waiting){0};
		*state = &first_call;
		idle_set_busy(&l->idle, connection_fd(c), false); /* it has to take the answer */
		return ok;
	}
	if (!strcmp(method, "GET"))
		return on_get(n, c, url);
	if (strcmp(method, "POST"))
		return answer_text(c, 405, "{\"error\":\"GET or POST\"}\n");
	if (!l->control)
		return answer_text(c, 403, "{\"error\":\"on the control socket only\"}\n");
	if (!strcmp(url, "/api/v1/trace")) {
		enum MHD_Result ok = on_trace(n, c, state);

		idle_set_busy(&l->idle, connection_fd(c), *state != &first_call);
		return ok;
	}
	if (!strcmp(url, "/api/v1/capture"))
		return on_capture(n, c);
	return answer_text(c, 404, "{\"error\":\"not found\"}\n");
}

/* The peer hung up while it waited. */
static void on_completed(void *arg, struct MHD_Connection *c, void **state,
			 enum MHD_RequestTerminationCode code)
{
	struct listener *l = arg;

	idle_set_busy(&l->idle, connection_fd(c), false);
	if (*state && *state != &first_call)
		*(struct waiting *)*state = (struct waiting){0};
}

/* The descriptor tells of new events only: connections that could go on at once are left in the
 * daemon's own list, and ask for another turn. A few, then the drain has its own. */
static void run(struct listener *l)
{
	MHD_UNSIGNED_LONG_LONG wait_ms;

	for (int i = 0; l->daemon && i < HTTP_TURNS; i++) {
		MHD_run(l->daemon);
		if (MHD_get_timeout(l->daemon, &wait_ms) != MHD_YES || wait_ms)
			return;
	}
}

static bool is_due(struct listener *l)
{
	MHD_UNSIGNED_LONG_LONG wait_ms;

	return l->daemon && MHD_get_timeout(l->daemon, &wait_ms) == MHD_YES && !wait_ms;
}

static void on_ready(void *arg, uint32_t events)
{
	run(arg);
}

void http_tend(struct node *n, uint64_t now_ns)
{
	bool resumed = false;

	for (uint32_t i = 0; i < HTTP_WAITING; i++) {
		struct waiting *w = &n->http->waiting[i];

		if (!w->connection || w->done || (!is_settled(n, w) && now_ns < w->until_ns))
			continue;
		w->done = true;
		MHD_resume_connection(w->connection);
		resumed = true;
	}
	if (resumed || is_due(&n->http->tcp))
		run(&n->http->tcp);
	if (resumed || is_due(&n->http->control))
		run(&n->http->control);
}

/* ---- listeners ---- */

static int listen_tcp(const char *where)
{
	struct addrinfo hints = {.ai_family = AF_UNSPEC,
				 .ai_socktype = SOCK_STREAM,
				 .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
	char host[NODE_PATH_BYTES];
	struct addrinfo *ai = NULL;
	char *colon;
	int fd = -1, on = 1, err = -EINVAL;

	snprintf(host, sizeof(host), "%s", where);
	colon = strrchr(host, ':');
	if (!colon)
		return -EINVAL;
	*colon = 0;
	if (host[0] == '[' && colon[-1] == ']') {
		colon[-1] = 0;
		memmove(host, host + 1, strlen(host));
	}
	if (getaddrinfo(*host ? host : NULL, colon + 1, &hints, &ai))
		return -EINVAL;
	fd = socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0) {
		err = -errno;
	} else {
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
		err = bind(fd, ai->ai_addr, ai->ai_addrlen) || listen(fd, 32) ? -errno : 0;
	}
	freeaddrinfo(ai);
	if (err && fd >= 0)
		close(fd);
	return err ? err : fd;
}

static int listen_unix(struct node *n)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	const char *path = n->settings.control_path;
	struct stat st;
	mode_t mask;
	int fd, err;

	if (strlen(path) >= sizeof(sa.sun_path))
		return -ENAMETOOLONG;
	strcpy(sa.sun_path, path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	/* A leftover may go; one that answers is another sysomd's, which may have an attach socket of
	 * another name. */
	if (!lstat(path, &st) && S_ISSOCK(st.st_mode)) {
		int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

		err = probe < 0 ? -errno : 0;
		if (probe >= 0) {
			if (!connect(probe, (struct sockaddr *)&sa, sizeof(sa)) || errno == EAGAIN)
				err = -EADDRINUSE;
			close(probe);
		}
		if (err) {
			close(fd);
			return err;
		}
		unlink(path);
	}
	mask = umask(0077);
	err = bind(fd, (struct sockaddr *)&sa, sizeof(sa)) || listen(fd, 32) ? -errno : 0;
	umask(mask);
	if (err) {
		close(fd);
		return err;
	}
	if (!stat(path, &st))
		n->http->control_inode = st.st_ino;
	n->http->control_bound = true;
	return fd;
}

static int start(struct node *n, struct listener *l, int fd, bool control)
{
	const union MHD_DaemonInfo *info;

	l->node = n;
	l->control = control;
	idle_init(&l->idle, HTTP_KEPT);
	l->daemon = MHD_start_daemon(
	    MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, on_request, l,
	    MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT, HTTP_CONNECTIONS,
	    MHD_OPTION_NOTIFY_CONNECTION, on_connection, l, MHD_OPTION_CONNECTION_TIMEOUT, 10u,
	    MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)16384, MHD_OPTION_NOTIFY_COMPLETED,
	    on_completed, l, MHD_OPTION_END);
	if (!l->daemon) {
		close(fd);
		return -ENOMEM;
	}
	info = MHD_get_daemon_info(l->daemon, MHD_DAEMON_INFO_EPOLL_FD);
	if (!info)
		return -EINVAL;
	return loop_add_fd(n->loop, info->epoll_fd, EPOLLIN, on_ready, l, &l->source);
}

int http_open(struct node *n)
{
	int fd, err;

	n->http = calloc(1, sizeof(*n->http));
	if (!n->http)
		return -ENOMEM;
	err = http_hosts_init(&n->http->hosts, n->settings.http_listen, n->settings.http_hosts);
	if (err)
		return err;
	if (n->settings.http_listen[0]) {
		fd = listen_tcp(n->settings.http_listen);
		err = fd < 0 ? fd : start(n, &n->http->tcp, fd, false);
		if (err) {
			log_error("http", "%s: %s%s", n->settings.http_listen, strerror(-err),
				  err == -EADDRINUSE ? "; --http-listen names another" : "");
			return err;
		}
	}
	fd = service_listener(n->settings.control_path, SOCK_STREAM);
	if (fd < 0)
		fd = listen_unix(n);
	err = fd < 0 ? fd : start(n, &n->http->control, fd, true);
	if (err)
		log_error("control", "%s: %s%s", n->settings.control_path, strerror(-err),
			  err == -EADDRINUSE
			      ? "; does another sysomd run here? --control-path names another"
			      : "");
	return err;
}

uint64_t http_foreign(const struct node *n)
{
	return n->http ? n->http->foreign_host : 0;
}

uint64_t http_evicted(const struct node *n)
{
	return n->http ? n->http->tcp.idle.evicted + n->http->control.idle.evicted : 0;
}

void http_close(struct node *n)
{
	struct stat st;

	if (!n->http)
		return;
	for (uint32_t i = 0; i < HTTP_WAITING; i++)
		if (n->http->waiting[i].connection && !n->http->waiting[i].done)
			MHD_resume_connection(n->http->waiting[i].connection);
	loop_source_close(n->http->tcp.source);
	loop_source_close(n->http->control.source);
	if (n->http->tcp.daemon)
		MHD_stop_daemon(n->http->tcp.daemon);
	if (n->http->control.daemon)
		MHD_stop_daemon(n->http->control.daemon);
	if (n->http->control_bound && !stat(n->settings.control_path, &st) &&
	    st.st_ino == n->http->control_inode)
		unlink(n->settings.control_path);
	free(n->http);
	n->http = NULL;
}
