/* SPDX-License-Identifier: Apache-2.0
 * http_hosts.h - the host names under which clients may reach an HTTP server. Another site's web
 * page can make its own name resolve to a private address (DNS rebinding). The browser then treats
 * our answers as that site's. But it still sends, in the Host header, the name that it used, and we
 * check this name here.
 * Threads: any, after init. Trust: the header comes from a peer. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Size of the settings http.listen and http.hosts. */
#define HTTP_HOSTS_BYTES 1024u

struct http_hosts {
	char names[HTTP_HOSTS_BYTES]; /* in lower case, each NUL-terminated; an empty one ends the
				       * list */
};

/* listen: ADDRESS:PORT or "". more: names and addresses, separated by commas. -EINVAL: one of them
 * is not a host name; -ENAMETOOLONG. */
int http_hosts_init(struct http_hosts *h, const char *listen, const char *more);
/* host: the value of Host, with or without a port. NULL: the client sends none, so it is not a
 * browser. Addresses are always allowed. */
bool http_hosts_allows(const struct http_hosts *h, const char *host);
