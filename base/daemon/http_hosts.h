/* SPDX-License-Identifier: Apache-2.0
 * http_hosts.h - by which names an HTTP server may be called. A web page of another site can make its own
 * name lead to a private address (DNS rebinding); the browser then takes our answers for that site's. It
 * still says by which name it came: in the header Host.
 * Threads: any, once it is set up. Trust: the header is a peer's. */
#ifndef SYSOM_BASE_DAEMON_HTTP_HOSTS_H
#define SYSOM_BASE_DAEMON_HTTP_HOSTS_H

#include <stdbool.h>
#include <stddef.h>

/* What the settings http.listen and http.hosts hold. */
#define HTTP_HOSTS_BYTES 1024u

struct http_hosts {
	char names[HTTP_HOSTS_BYTES]; /* each in lower case, ends in NUL; an empty one ends the list */
};

/* listen: ADDRESS:PORT or "". more: names and addresses, separated by commas. -EINVAL: one of them is
 * no host name; -ENAMETOOLONG. */
int http_hosts_init(struct http_hosts *h, const char *listen, const char *more);
/* The value of Host, with or without its port; NULL: a client that sends none, which no browser is.
 * Addresses are no names and always good. */
bool http_hosts_allows(const struct http_hosts *h, const char *host);

#endif
