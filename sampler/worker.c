/* SPDX-License-Identifier: Apache-2.0
 * worker.c - see worker.h. */
#include "sampler/worker.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"

/* Behind the job, but not so far that a node whose CPUs are all taken never gets its tables: a
 * third of a CPU's share for the 0.7 s that PyTorch's take. */
#define WORKER_NICE 5
/* glibc's threshold at start. It would raise it to 32 MiB as large blocks are freed, and then keep
 * what a large file's compilation took. */
#define MMAP_THRESHOLD (128 << 10)
/* Rows of a table after which free memory goes back: libtorch's takes 40 MiB, the next largest 8.
 */
#define TRIM_ROWS 100000u

struct queue {
	struct worker_job *first, **last;
};

struct worker {
	const char *proc_root;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	bool stopping;
	int fd;
	struct queue scans, tables, done;
	uint32_t tables_done; /* of done: the next file waits until they are taken */
	struct python_finder *finder;
	uint64_t cpu_ns;
};

static void queue_init(struct queue *q)
{
	q->first = NULL;
	q->last = &q->first;
}

static void queue_put(struct queue *q, struct worker_job *job)
{
	job->next = NULL;
	*q->last = job;
	q->last = &job->next;
}

static struct worker_job *queue_take(struct queue *q)
{
	struct worker_job *job = q->first;

	if (!job)
		return NULL;
	q->first = job->next;
	if (!q->first)
		q->last = &q->first;
	return job;
}

void worker_job_free(struct worker_job *job)
{
	if (!job)
		return;
	mapping_scan_fini(&job->scan);
	unwind_table_fini(&job->table);
	free(job->python);
	free(job->path);
	free(job);
}

static void run_scan(struct worker *w, struct worker_job *job)
{
	job->err = mapping_scan_read(&job->scan, w->proc_root, job->pid);
	job->python_err = -ENOENT;
	if (job->err || !job->find_python || !w->finder)
		return;
	job->python = calloc(1, sizeof(*job->python));
	if (!job->python)
		return;
	job->python_err =
	    python_runtime_find(w->finder, job->python, w->proc_root, (pid_t)job->pid);
}

static void run_table(struct worker *w, struct worker_job *job)
{
	struct mapping_elf e;
	int fd = mapping_open(w->proc_root, job->pid, job->begin, job->end, job->path);

	job->err = fd < 0 ? fd : mapping_elf_read(&e, fd);
	/* another file may lie at that path by now */
	if (!job->err && memcmp(&e.key, &job->key, sizeof(e.key)))
		job->err = -ESTALE;
	job->unread = job->err != 0;
	if (!job->err)
		job->err = unwind_table_compile(&job->table, fd, job->why);
	if (fd >= 0)
		close(fd);
	if (job->table.row_count > TRIM_ROWS)
		malloc_trim(0);
}

static void *worker_main(void *arg)
{
	struct worker *w = arg;
	struct worker_job *job;
	uint64_t one = 1;
	bool scanned = false;

	setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), WORKER_NICE);
	pthread_mutex_lock(&w->lock);
	while (!w->stopping) {
		/* in turns: while ranks start, they ask to be read again all the time */
		job = scanned && !w->tables_done ? queue_take(&w->tables) : NULL;
		job = job ? job : queue_take(&w->scans);
		job = job || w->tables_done ? job : queue_take(&w->tables);
		if (!job) {
			pthread_cond_wait(&w->wake, &w->lock);
			continue;
		}
		pthread_mutex_unlock(&w->lock);
		scanned = job->kind == WORKER_SCAN;
		if (scanned)
			run_scan(w, job);
		else
			run_table(w, job);
		__atomic_store_n(&w->cpu_ns, clock_ns(CLOCK_THREAD_CPUTIME_ID), __ATOMIC_RELAXED);
		pthread_mutex_lock(&w->lock);
		w->tables_done += job->kind == WORKER_TABLE;
		queue_put(&w->done, job);
		if (write(w->fd, &one, sizeof(one)) < 0)
			continue; /* full: it is readable already */
	}
	pthread_mutex_unlock(&w->lock);
	return NULL;
}

int worker_open(struct worker **out, const char *proc_root)
{
	struct worker *w = calloc(1, sizeof(*w));
	int err;

	if (!w)
		return -ENOMEM;
	mallopt(M_MMAP_THRESHOLD, MMAP_THRESHOLD);
	w->proc_root = proc_root;
	queue_init(&w->scans);
	queue_init(&w->tables);
	queue_init(&w->done);
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->wake, NULL);
	w->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	err = w->fd < 0 ? -errno : python_finder_open(&w->finder);
	if (!err)
		err = -pthread_create(&w->thread, NULL, worker_main, w);
	if (err) {
		python_finder_close(w->finder);
		if (w->fd >= 0)
			close(w->fd);
		free(w);
		return err;
	}
	*out = w;
	return 0;
}

void worker_close(struct worker *w)
{
	struct queue *all[3];

	if (!w)
		return;
	pthread_mutex_lock(&w->lock);
	w->stopping = true;
	pthread_cond_signal(&w->wake);
	pthread_mutex_unlock(&w->lock);
	pthread_join(w->thread, NULL);
	all[0] = &w->scans;
	all[1] = &w->tables;
	all[2] = &w->done;
	for (int i = 0; i < 3; i++) {
		for (struct worker_job *job; (job = queue_take(all[i]));)
			worker_job_free(job);
	}
	python_finder_close(w->finder);
	pthread_mutex_destroy(&w->lock);
	pthread_cond_destroy(&w->wake);
	close(w->fd);
	free(w);
}

int worker_fd(const struct worker *w)
{
	return w->fd;
}

void worker_push(struct worker *w, struct worker_job *job)
{
	pthread_mutex_lock(&w->lock);
	queue_put(job->kind == WORKER_SCAN ? &w->scans : &w->tables, job);
	pthread_cond_signal(&w->wake);
	pthread_mutex_unlock(&w->lock);
}

struct worker_job *worker_next(struct worker *w)
{
	struct worker_job *job;
	uint64_t n;

	pthread_mutex_lock(&w->lock);
	job = queue_take(&w->done);
	if (job && job->kind == WORKER_TABLE) {
		w->tables_done--;
		pthread_cond_signal(&w->wake);
	}
	if (!job && read(w->fd, &n, sizeof(n)) < 0)
		n = 0; /* nothing was there: fine */
	pthread_mutex_unlock(&w->lock);
	return job;
}

uint64_t worker_cpu_ns(const struct worker *w)
{
	return __atomic_load_n(&w->cpu_ns, __ATOMIC_RELAXED);
}
