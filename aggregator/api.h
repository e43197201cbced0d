/* SPDX-License-Identifier: Apache-2.0
 * api.h - the HTTP face: JSON API of docs/INTERFACES.md, /metrics, /healthz. Reads only, but
 * for symbols (aggregator/api_symbols.h).
 * Trust: clients are hostile: one thread, bounded connections, memory and parameters, time-outs; other
 * methods than GET and HEAD are refused before their body is read where there is nothing to post.
 * Threads: libmicrohttpd's one; open and close from the main thread. */
#ifndef SYSOM_AGGREGATOR_API_H
#define SYSOM_AGGREGATOR_API_H

#include "aggregator/alert.h"
#include "aggregator/commit.h"
#include "aggregator/fleet.h"
#include "aggregator/ingest.h"
#include "aggregator/symbols.h"

struct api;

/* listen: "ADDRESS:PORT" ("[::1]:9472" for IPv6). -EINVAL, -EADDRINUSE, -ENOMEM, and store_open's. symbols:
 * borrowed; NULL: there is no Build-ID directory. alert: for the metrics; NULL: none. */
int api_open(struct api **out, const char *listen, const char *store_dir, struct commit *commit,
	     struct fleet *fleet, struct ingest *ingest, struct symbols *symbols, struct alert *alert);
void api_close(struct api *a); /* NULL is a no-op */
/* Whether api_open could take it. */
bool api_is_address(const char *listen);

#endif
