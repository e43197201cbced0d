/* SPDX-License-Identifier: Apache-2.0
 * api.h - the HTTP face: JSON API of docs/INTERFACES.md, /metrics, /healthz. Reads only, but
 * for symbols (aggregator/api/api_symbols.h).
 * Trust: clients are hostile: bounded connections, memory, parameters, answers and requests that wait,
 * time-outs; names of other sites are refused (base/http/http_hosts.h), other methods than GET and
 * HEAD before their body is read where there is nothing to post.
 * Threads: libmicrohttpd's one and the workers (api_pool.h); open and close from the main thread. */
#ifndef SYSOM_AGGREGATOR_API_API_H
#define SYSOM_AGGREGATOR_API_API_H

#include "aggregator/api/api_route.h"
#include "aggregator/symbols.h"
#include "base/http/http_hosts.h"

struct api;

struct api_config {
	const char *listen; /* base/http/http_server.h */
	const char *hosts;  /* further names by which it may be called (base/http/http_hosts.h) */
	const char *store_dir;
	struct symbols *symbols; /* borrowed; NULL: there is no Build-ID directory */
};

/* sources: what it reads from, borrowed; store, symbols and http are its own. -EINVAL,
 * -EADDRINUSE, -ENOMEM, and store_open's. */
int api_open(struct api **out, const struct api_config *config, const struct api_sources *sources);
void api_close(struct api *a); /* NULL is a no-op */

#endif
