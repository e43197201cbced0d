/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/api_pool.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "base/limits.h"

#define WORKER_NICE 5

struct worker {
	struct api_pool *pool;
	struct api_sources sources; /* with a reader of its own */
	pthread_t thread;
	bool started;
};

struct api_pool {
	struct worker workers[LIMIT_API_WORKERS];
	pthread_mutex_t lock; /* of what follows */
	pthread_cond_t more;
	struct api_job *first, **last;
	uint32_t waiting;
	bool stopping;
};

/* The connection may be gone the moment it is resumed: the job is not touched after that. */
static void finish(struct api_pool *p, struct api_job *job)
{
	struct MHD_Connection *c = job->connection;

	pthread_mutex_lock(&p->lock);
	job->done = true;
	pthread_mutex_unlock(&p->lock);
	MHD_resume_connection(c);
}

static void *run(void *arg)
{
	struct worker *w = arg;
	struct api_pool *p = w->pool;

	/* of this thread: where cores are short, detection and /healthz come before lists */
	setpriority(PRIO_PROCESS, 0, WORKER_NICE);
	for (;;) {
		struct api_job *job;
		bool stopping;

		pthread_mutex_lock(&p->lock);
		while (!p->first && !p->stopping)
			pthread_cond_wait(&p->more, &p->lock);
		job = p->first;
		stopping = p->stopping;
		if (job) {
			p->first = job->next;
			if (!p->first)
				p->last = &p->first;
			p->waiting--;
		}
		pthread_mutex_unlock(&p->lock);
		if (!job)
			return NULL;
		if (stopping)
			api_answer_error(&job->answer, MHD_HTTP_SERVICE_UNAVAILABLE, "stopping");
		else
			api_route(&w->sources, &job->query, &job->answer);
		finish(p, job);
	}
}

int api_pool_open(struct api_pool **out, const struct api_sources *sources, const char *store_dir)
{
	struct api_pool *p = calloc(1, sizeof(*p));
	int err = 0;

	if (!p)
		return -ENOMEM;
	p->last = &p->first;
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->more, NULL);
	for (uint32_t i = 0; i < LIMIT_API_WORKERS && !err; i++) {
		struct worker *w = &p->workers[i];

		w->pool = p;
		w->sources = *sources;
		w->sources.store = NULL;
		err = store_open_reader(&w->sources.store, store_dir);
		if (!err)
			err = -pthread_create(&w->thread, NULL, run, w);
		w->started = !err;
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
	for (uint32_t i = 0; i < LIMIT_API_WORKERS; i++) {
		if (p->workers[i].started)
			pthread_join(p->workers[i].thread, NULL);
		p->workers[i].started = false;
	}
}

void api_pool_close(struct api_pool *p)
{
	if (!p)
		return;
	api_pool_stop(p);
	for (uint32_t i = 0; i < LIMIT_API_WORKERS; i++)
		store_close(p->workers[i].sources.store);
	pthread_cond_destroy(&p->more);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

bool api_pool_push(struct api_pool *p, struct api_job *job)
{
	bool room;

	pthread_mutex_lock(&p->lock);
	room = !p->stopping && p->waiting < LIMIT_API_WAITING;
	if (room) {
		MHD_suspend_connection(job->connection);
		job->next = NULL;
		*p->last = job;
		p->last = &job->next;
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
