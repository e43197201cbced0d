/* SPDX-License-Identifier: Apache-2.0
 * client.h - HTTP to the aggregator (TCP) and to sysomd's control socket (Unix).
 * Trust: the answer is hostile: bounded in size and time, JSON of bounded depth, no redirects, http and
 * https only. Threads: one caller. */
#pragma once

#include <jansson.h>

#include "base/buf.h"

struct client {
	char url[512];	  /* without a trailing slash */
	char socket[108]; /* "": TCP */
	char ca[256];	  /* PEM file; "": the system's */
	char token[513];  /* "": none */
};

struct client_error {
	int status;	    /* HTTP status, 0: no answer */
	char why[1200];	    /* for people; may have a server's text: print through term_safe */
	const char *remedy; /* what to do, or "" */
	bool denied;	    /* the socket is there, but not for this user */
};

/* -EINVAL: no http(s) URL, or too long. */
int client_init_url(struct client *c, const char *url);
/* -ENAMETOOLONG. */
int client_init_socket(struct client *c, const char *path);
/* GET; path: begins with /api/. The caller initialises out, which bounds the body. 0; -ENOENT: 404;
 * -ECONNREFUSED: no answer; -EFBIG; -EIO: any other failure. */
int client_bytes(const struct client *c, const char *path, struct buf *out, struct client_error *e);
/* The same, decoded; the caller owns *out (json_decref). -EPROTO: not JSON. */
int client_json(const struct client *c, const char *path, json_t **out, struct client_error *e);
/* POST of a JSON body (borrowed; NULL: none). */
int client_post(const struct client *c, const char *path, const json_t *body, json_t **out,
		struct client_error *e);
/* Appends "?key=value" or "&key=value" to the path, the value percent-encoded. value NULL: nothing. If
 * it does not fit, the path becomes "", and its request fails. */
void client_add(char *path, size_t room, const char *key, const char *value);
