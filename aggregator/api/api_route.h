/* SPDX-License-Identifier: Apache-2.0
 * api_route.h - from a request to its answer, without the server. The API's workers and a fuzzer
 * call it.
 * Threads: any, each with its own store reader. Trust: requests are hostile. */
#ifndef SYSOM_AGGREGATOR_API_API_ROUTE_H
#define SYSOM_AGGREGATOR_API_API_ROUTE_H

#include <stdatomic.h>

#include "aggregator/alert.h"
#include "aggregator/api/api_symbols.h"
#include "aggregator/commit.h"
#include "aggregator/fleet/fleet.h"
#include "aggregator/ingest.h"
#include "aggregator/store/store.h"
#include "base/buf.h"
#include "base/daemon/http_query.h"

/* The server's counters, for /metrics. */
struct api_counts {
	atomic_ullong by_class[6]; /* answers by the status's first digit */
	atomic_ullong foreign_host, busy;
	atomic_ullong evicted; /* connections closed to make room */
};

struct api_sources {
	struct store *store;
	struct commit *commit;
	struct fleet *fleet;
	struct ingest *ingest;
	struct alert *alert; /* NULL: no alerts */
	struct api_symbols *symbols;
	const struct api_counts *http;
};

struct api_answer {
	unsigned status; /* 200 unless a handler sets another one */
	const char *type, *allow;
	struct buf body; /* the caller frees it */
};

void api_answer_init(struct api_answer *a);
void api_answer_error(struct api_answer *a, unsigned status, const char *why);
/* Answers a GET. */
void api_route(const struct api_sources *api, const struct http_query *q, struct api_answer *a);
/* api_metrics.c */
void api_metrics(const struct api_sources *api, struct api_answer *a);

#endif
