/* SPDX-License-Identifier: Apache-2.0
 * api.h - the HTTP server: JSON API of docs/INTERFACES.md, /metrics, /healthz. Read-only, except
 * for symbols (aggregator/api/api_symbols.h).
 * Trust: clients are hostile. Connections, memory, parameters, answers and waiting requests are
 * bounded, and time out. Requests with an unknown Host, and of senders without rights, are refused
 * (base/http/http_server.h).
 * Methods other than GET and HEAD are refused before their body is read, unless the path accepts a
 * body.
 * Threads: libmicrohttpd's and the workers (api_pool.h); open and close from the main thread. */
#pragma once

#include "aggregator/api/api_route.h"
#include "aggregator/symbols.h"
#include "base/http/http_settings.h"

struct api;

struct api_config {
	const struct http_settings *http; /* borrowed */
	const char *store_dir;
	struct symbols *symbols; /* borrowed; NULL: there is no Build-ID directory */
};

/* sources: what the API reads, borrowed; it sets their store, symbols and http itself. -EINVAL,
 * -EADDRINUSE, -ENOMEM, and store_open's. */
int api_open(struct api **out, const struct api_config *config, const struct api_sources *sources);
void api_close(struct api *a); /* NULL is a no-op */
/* All metrics of the aggregator. Any thread. */
void api_write_metrics(struct api *a, struct metrics *m);
