/* SPDX-License-Identifier: Apache-2.0
 * http_access.h - find the user and the roles of an HTTP request. A token of http.tokens names
 * them. Without a token, the kernel names the user of a connection within this machine
 * (base/daemon/peer.h). Root and the daemon's own user have the role admin. A request from another
 * machine, or through a proxy, needs a token. On loopback, a user whom the kernel cannot name sees
 * no jobs. The file of tokens is read again when it changes. While the file is not valid, the
 * earlier tokens stay in use, and the log gives the reason.
 * Owns: the tokens. Threads: one caller. Trust: the request is a peer's. */
#pragma once

#include "base/http/http_settings.h"
#include "base/http/http_user.h"

struct http_access;

/* settings: borrowed. -EINVAL and the like with the reason in `why`. */
int http_access_open(struct http_access **out, const struct http_settings *s, char *why,
		     size_t why_bytes);
void http_access_close(struct http_access *a); /* NULL is a no-op */

/* Whether the text is a valid value of http.see_all. */
bool http_access_is_uids(const char *list);

/* What a request shows about its sender. */
struct http_sender {
	int sock;
	const char *token; /* NULL: none */
	bool basic;	   /* the token came as a password, from a browser */
	/* A header that no direct client sends, so a proxy may have added it; NULL: none. */
	const char *foreign;
};
/* Whether a program on this machine, or a browser, sends this header by itself. This lists the
 * headers of clients, which are few. The headers of proxies cannot be listed, and an unlisted one
 * would let a stranger in. */
bool http_access_is_direct(const char *header);
/* 0, or the status to refuse the request with, 401 or 403, and why. */
unsigned http_access_user(struct http_access *a, const struct http_sender *from,
			  struct http_user *out, const char **why);
