/* SPDX-License-Identifier: Apache-2.0
 * http_server.h - an HTTP or HTTPS server for untrusted clients, on libmicrohttpd. It bounds
 * connections, headers and time, refuses names of other sites (http_hosts.h) and clients without
 * rights (http_access.h), makes room for new clients (idle.h), sends answers, and logs each request
 * that may change something. The owner decides what a path means. Everybody may read /healthz.
 * Owns: its connections and requests. Threads: the one that runs it; http_server_resume may be
 * called from any. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/daemon/peer.h"
#include "base/http/http_access.h"
#include "base/http/http_answer.h"
#include "base/http/http_hosts.h"
#include "base/http/http_query.h"
#include "base/http/http_tls.h"

struct http_server;
struct MHD_Connection;

struct http_request {
	struct http_server *server;
	struct MHD_Connection *connection;
	int fd;
	bool get;	      /* or HEAD */
	bool acted, answered; /* finish was called; an answer was sent */
	const char *method;
	struct http_user user; /* who asks */
	char from[PEER_TEXT_BYTES];
	struct http_query query;
	struct http_answer answer;
	_Alignas(max_align_t) char own[]; /* for the handlers; zeroed at first */
};

/* Called on the server's thread. */
struct http_handlers {
	/* Returns the roles (bits of enum http_role) of which the sender needs one. 0: anybody
	 * may. */
	unsigned (*needs)(void *arg, const struct http_request *r);
	/* Returns whether a request other than GET and HEAD only asks for something, judged by its
	 * method and path. All others leave an audit line. NULL: no such request only asks. */
	bool (*asks)(void *arg, const struct http_request *r);
	/* All headers have arrived. False: r->answer refuses the request. */
	bool (*begin)(void *arg, struct http_request *r);
	/* A piece of the body. False: close the connection. */
	bool (*body)(void *arg, struct http_request *r, const void *data, size_t bytes);
	/* The request is complete, or was resumed. False: it is suspended; otherwise r->answer is
	 * its answer. */
	bool (*finish)(void *arg, struct http_request *r);
	/* The request was answered, or its client is gone. */
	void (*end)(void *arg, struct http_request *r);
	size_t own_bytes;	 /* size of http_request.own */
	size_t answer_max_bytes; /* bound of an answer's body */
};

/* Counts over one or more servers. */
struct http_counts {
	atomic_ullong by_class[6];  /* answers, by hundreds of the status */
	atomic_ullong foreign_host; /* requests refused for their Host name */
	atomic_ullong no_token;	    /* requests refused without a valid token */
	atomic_ullong no_role;	    /* requests refused because the sender lacks the role */
	atomic_ullong evicted;	    /* connections ended to make room for others */
};

struct http_server_config {
	const char *program;		/* the name of its configuration; borrowed */
	const struct http_hosts *hosts; /* borrowed; NULL: accepts any name */
	struct http_access *access;	/* borrowed; used on the server's thread alone */
	struct http_tls *tls;		/* borrowed; NULL: no TLS */
	struct http_counts *counts;	/* borrowed */
	bool own_thread;		/* otherwise its owner runs it */
	unsigned connections_max;
	unsigned connections_kept; /* above this number, a new connection ends an idle one */
	unsigned connection_bytes; /* memory for a request's headers */
	unsigned timeout_s;
	unsigned send_bytes; /* a connection's send buffer; the kernel doubles it; 0: default */
};

/* For a config_check_fn: checks whether the settings fit together, and reads their files. An empty
 * listen means that there is no server. */
int http_server_check(const struct http_settings *s, char *why, size_t why_bytes);
/* A listening socket; [V6]:PORT for IPv6. -EINVAL: no such address; -errno. */
int http_server_listen(const char *listen);
/* Takes fd, a listening socket. handlers: borrowed. -ENOMEM, -EIO. */
int http_server_open(struct http_server **out, int fd, const struct http_server_config *config,
		     const struct http_handlers *handlers, void *arg);
/* No request may be suspended. NULL is a no-op. */
void http_server_close(struct http_server *s);
/* For a server without its own thread: this descriptor becomes ready when there is something to
 * do. */
int http_server_fd(const struct http_server *s);
/* Does a bounded amount of work, so that the owner's loop also gets its turn. */
void http_server_run(struct http_server *s);
/* Whether work is left that the descriptor does not report, so that http_server_run must be called
 * soon. */
bool http_server_is_due(const struct http_server *s);

void http_server_suspend(struct http_request *r);
/* Makes the server call finish() again. r may be gone when this returns. */
void http_server_resume(struct http_request *r);
/* The value of a header; "": there is no such header. */
const char *http_server_header(const struct http_request *r, const char *name);
