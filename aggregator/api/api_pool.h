/* SPDX-License-Identifier: Apache-2.0
 * api_pool.h - threads that make answers, and the bounded queue before them. The thread that reads from
 * connections does nothing else, so that neither a long list nor a disk keeps /healthz waiting.
 * Owns: its threads. */
#ifndef SYSOM_AGGREGATOR_API_API_POOL_H
#define SYSOM_AGGREGATOR_API_API_POOL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/http/http_server.h"

struct api_pool;

/* The first member of what is to be answered, which is the caller's; once it is done it is read by the
 * connection's thread only. */
struct api_job {
	STAILQ_ENTRY(api_job) next;
	struct http_request *request;
	bool done;
};

struct api_pool_config {
	uint32_t threads; /* LIMIT_API_WORKERS at most */
	uint32_t waiting_max;
	/* Makes the answer, on that thread. stopping: that it is not made. */
	void (*work)(void *arg, uint32_t thread, struct api_job *job, bool stopping);
	void *arg;
};

/* -ENOMEM, or -errno of a thread. */
int api_pool_open(struct api_pool **out, const struct api_pool_config *config);
/* What waits is refused; before the server ends, since no connection may be suspended then. */
void api_pool_stop(struct api_pool *p);
void api_pool_close(struct api_pool *p); /* NULL is a no-op */
/* Suspends the request until the answer is there. false: too many wait. */
bool api_pool_push(struct api_pool *p, struct api_job *job);
bool api_pool_is_done(struct api_pool *p, const struct api_job *job);

#endif
