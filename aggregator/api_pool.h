/* SPDX-License-Identifier: Apache-2.0
 * api_pool.h - the threads that make answers. The thread that reads from connections does nothing else, so
 * that a long list never keeps /healthz waiting.
 * Owns: its threads and their store readers. */
#ifndef SYSOM_AGGREGATOR_API_POOL_H
#define SYSOM_AGGREGATOR_API_POOL_H

#include <microhttpd.h>

#include "aggregator/api_route.h"

struct api_pool;

/* A request on its way through the pool. Taken back once done; read by the connection's thread only. */
struct api_job {
	struct api_job *next;
	struct MHD_Connection *connection;
	struct http_query query;
	struct api_answer answer;
	bool done;
};

/* sources: borrowed; their store is not used. -ENOMEM, or what store_open_reader says. */
int api_pool_open(struct api_pool **out, const struct api_sources *sources, const char *store_dir);
/* What waits is answered 503; before the server ends, since no connection may be suspended then. */
void api_pool_stop(struct api_pool *p);
void api_pool_close(struct api_pool *p); /* NULL is a no-op */
/* Suspends the connection until the answer is there. false: too many wait. */
bool api_pool_push(struct api_pool *p, struct api_job *job);
bool api_pool_is_done(struct api_pool *p, const struct api_job *job);

#endif
