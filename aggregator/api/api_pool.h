/* SPDX-License-Identifier: Apache-2.0
 * api_pool.h - worker threads that make answers, and their bounded queue. The thread that reads
 * from connections does nothing else, so that neither a long list nor a slow disk delays /healthz.
 * Owns: its threads. Threads: push from the thread that reads connections; open, stop and close from
 * one; `work` runs on the workers. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/http/http_server.h"

struct api_pool;

/* The first member of the caller's request. Once the job is done, only the connection's thread
 * reads it. */
struct api_job {
	STAILQ_ENTRY(api_job) next;
	struct http_request *request;
	bool done;
};

struct api_pool_config {
	uint32_t threads; /* at most LIMIT_API_WORKERS */
	uint32_t waiting_max;
	/* Makes the answer, on that thread. stopping: refuses the request instead. */
	void (*work)(void *arg, uint32_t thread, struct api_job *job, bool stopping);
	void *arg;
};

/* -ENOMEM, or -errno of a thread. */
int api_pool_open(struct api_pool **out, const struct api_pool_config *config);
/* Refuses waiting jobs. Call before the server stops: no connection may be suspended then. */
void api_pool_stop(struct api_pool *p);
void api_pool_close(struct api_pool *p); /* NULL is a no-op */
/* Suspends the request until the answer is ready. false: too many jobs wait. */
bool api_pool_push(struct api_pool *p, struct api_job *job);
bool api_pool_is_done(struct api_pool *p, const struct api_job *job);
