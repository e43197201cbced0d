/* SPDX-License-Identifier: Apache-2.0
 * api_route.h - from a request to its answer, without the server. The API's workers and a fuzzer
 * call it.
 * Threads: any, each with its own store reader. Trust: requests are hostile. */
#pragma once

#include "aggregator/alert.h"
#include "aggregator/api/api_symbols.h"
#include "aggregator/commit.h"
#include "aggregator/fleet/fleet.h"
#include "aggregator/ingest.h"
#include "aggregator/store/store.h"
#include "base/http/http_server.h"
#include "base/limits.h"
#include "base/metrics/otlp_export.h"

/* A body has at most this many bytes. */
#define API_ANSWER_BYTES (2 * (size_t)LIMIT_WIRE_UNPACKED_BYTES)

/* Counters, for /metrics. */
struct api_counts {
	struct http_counts server;
	atomic_ullong busy; /* requests refused because too many wait */
};

struct api_sources {
	const struct http_user *user; /* the user who sent this request */
	struct store *store;
	struct commit *commit;
	struct fleet *fleet;
	struct ingest *ingest;
	struct alert *alert;	  /* NULL: no alerts */
	struct otlp_export *otlp; /* NULL: no receiver */
	struct api_symbols *symbols;
	const struct api_counts *http;
};

/* Answers a GET. */
void api_route(const struct api_sources *api, const struct http_query *q, struct http_answer *a);
/* api_metrics.c */
void api_metrics(const struct api_sources *api, struct metrics *m);
