/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/api/api_pool.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "base/limits.h"

#define WORKER_NICE 5

struct worker {
	struct api_pool *pool;
	pthread_t thread;
};

struct api_pool {
	struct api_pool_config config;
	struct worker workers[LIMIT_API_WORKERS];
	uint32_t started;
	pthread_mutex_t lock; /* protects what follows */
	pthread_cond_t more;
	STAILQ_HEAD(, api_job) jobs;
	uint32_t waiting;
	bool stopping;
};

/* Does not use the job after resuming: its request may already be gone. */
static void finish(struct api_pool *p, struct api_job *job)
{
	struct http_request *r = job->request;

	pthread_mutex_lock(&p->lock);
	job->done = true;
	pthread_mutex_unlock(&p->lock);
	http_server_resume(r);
}

static void *run(void *arg)
{
	const struct worker *w = arg;
	struct api_pool *p = w->pool;

	/* this thread only: with few cores, detection and /healthz come first */
	setpriority(PRIO_PROCESS, 0, WORKER_NICE);
	for (;;) {
		struct api_job *job;
		bool stopping;

		pthread_mutex_lock(&p->lock);
		while (STAILQ_EMPTY(&p->jobs) && !p->stopping)
			pthread_cond_wait(&p->more, &p->lock);
		job = STAILQ_FIRST(&p->jobs);
		stopping = p->stopping;
		if (job) {
			STAILQ_REMOVE_HEAD(&p->jobs, next);
			p->waiting--;
		}
		pthread_mutex_unlock(&p->lock);
		if (!job)
			return NULL;
		p->config.work(p->config.arg, (uint32_t)(w - p->workers), job, stopping);
		finish(p, job);
	}
}

int api_pool_open(struct api_pool **out, const struct api_pool_config *config)
{
	struct api_pool *p = calloc(1, sizeof(*p));
	int err = 0;

	if (!p)
		return -ENOMEM;
	p->config = *config;
	STAILQ_INIT(&p->jobs);
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->more, NULL);
	while (p->started < config->threads && !err) {
		struct worker *w = &p->workers[p->started];

		w->pool = p;
		err = -pthread_create(&w->thread, NULL, run, w);
		p->started += !err;
	}
	if (err) {
		api_pool_close(p);
		return err;
	}
	*out = p;
	return 0;
}

void api_pool_stop(struct api_pool *p)
{
	if (!p)
		return;
	pthread_mutex_lock(&p->lock);
	p->stopping = true;
	pthread_cond_broadcast(&p->more);
	pthread_mutex_unlock(&p->lock);
	while (p->started)
		pthread_join(p->workers[--p->started].thread, NULL);
}

void api_pool_close(struct api_pool *p)
{
	if (!p)
		return;
	api_pool_stop(p);
	pthread_cond_destroy(&p->more);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

bool api_pool_push(struct api_pool *p, struct api_job *job)
{
	bool room;

	pthread_mutex_lock(&p->lock);
	room = !p->stopping && p->waiting < p->config.waiting_max;
	if (room) {
		http_server_suspend(job->request);
		STAILQ_INSERT_TAIL(&p->jobs, job, next);
		p->waiting++;
		pthread_cond_signal(&p->more);
	}
	pthread_mutex_unlock(&p->lock);
	return room;
}

bool api_pool_is_done(struct api_pool *p, const struct api_job *job)
{
	bool done;

	pthread_mutex_lock(&p->lock);
	done = job->done;
	pthread_mutex_unlock(&p->lock);
	return done;
}
